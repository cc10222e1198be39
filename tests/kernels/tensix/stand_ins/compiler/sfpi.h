// Stand-in for SFPI, tt-metal's vector library for the SFPU, which comes with its compiler: enough of its names that
// the bodies of the LLK's functions are well-formed C++. It computes nothing and checks no types of its own.
#pragma once
#include <cstdint>
#include <type_traits>

namespace sfpi {
#define sfpi_inline inline
struct Vector {};

// One value per lane, or a register; made of anything.
template <int kind>
struct Lanes : Vector {
    constexpr Lanes() = default;
    template <class... T>
    constexpr Lanes(const T&...) {}
    template <class T>
    constexpr const Lanes& operator=(const T&) const { return *this; }
    template <class T>
    constexpr Lanes operator[](const T&) const { return {}; }
    constexpr const Lanes& operator++() const { return *this; }
    constexpr const Lanes& operator++(int) const { return *this; }
    constexpr const Lanes& operator--() const { return *this; }
    constexpr const Lanes& operator--(int) const { return *this; }
    constexpr explicit operator bool() const { return true; }
    constexpr Lanes get() const { return {}; }
    constexpr void in_use() const {}
    template <auto...>
    constexpr Lanes mode(...) const { return {}; }
};
template <class T>
constexpr bool is_vector = std::is_base_of_v<Vector, T>;
template <class A, class B>
using Either = std::conditional_t<is_vector<A>, A, B>;

#define SFPI_UNARY(op) \
    template <class A, class = std::enable_if_t<is_vector<A>>> \
    constexpr A operator op(const A&) { return {}; }
#define SFPI_BINARY(op) \
    template <class A, class B, class = std::enable_if_t<is_vector<A> || is_vector<B>>> \
    constexpr Either<A, B> operator op(const A&, const B&) { return {}; }
#define SFPI_ASSIGNING(op) \
    template <class A, class B, class = std::enable_if_t<is_vector<A>>> \
    constexpr const A& operator op(const A& a, const B&) { return a; }
SFPI_UNARY(-) SFPI_UNARY(~) SFPI_UNARY(!)
SFPI_BINARY(+) SFPI_BINARY(-) SFPI_BINARY(*) SFPI_BINARY(&) SFPI_BINARY(|) SFPI_BINARY(^) SFPI_BINARY(<<) SFPI_BINARY(>>)
SFPI_BINARY(<) SFPI_BINARY(>) SFPI_BINARY(<=) SFPI_BINARY(>=) SFPI_BINARY(==) SFPI_BINARY(!=) SFPI_BINARY(&&) SFPI_BINARY(||)
SFPI_ASSIGNING(+=) SFPI_ASSIGNING(-=) SFPI_ASSIGNING(*=) SFPI_ASSIGNING(&=) SFPI_ASSIGNING(|=) SFPI_ASSIGNING(^=)
SFPI_ASSIGNING(<<=) SFPI_ASSIGNING(>>=)

using vFloat = Lanes<0>;
using vInt = Lanes<1>;
using vUInt = Lanes<2>;
using vBool = Lanes<3>;
using vFloat16a = Lanes<4>;
using vFloat16b = Lanes<5>;
using vInt16 = Lanes<6>;
using vUInt16 = Lanes<7>;
using vUInt8 = Lanes<8>;
using vMag = Lanes<9>;
using vSMag = Lanes<10>;
using vSMag16 = Lanes<11>;
using vSMag8 = Lanes<12>;
using sFloat16a = Lanes<13>;
using sFloat16b = Lanes<14>;
using vLut16ii = Lanes<15>;
using vLut16ss = Lanes<16>;
using vLut8si = Lanes<17>;
inline constexpr Lanes<18> dst_reg, l_reg;
inline constexpr vFloat vConst0, vConst1, vConstFloatPrgm0, vConstFloatPrgm1, vConstFloatPrgm2;
inline constexpr vInt vConstTileId, vConstIntPrgm0, vConstIntPrgm1, vConstIntPrgm2;

enum class DataLayout { Default, F32, FSrcB, I32, M32, SM32, U16, U32 };
enum class RoundMode { Nearest, NearestAway, NearestStochastic, Stochastic, Zero };
enum class LRegs : uint8_t { LReg0, LReg1, LReg2, LReg3, LReg4, LReg5, LReg6, LReg7 };
enum class ExponentMode { Biased, Unbiased };
enum class MantissaMode { ImplicitOne, ZeroPad };
enum class ShiftMode { Arithmetic, Logical };
enum class LutSign { Retain, Update };
enum class FractionalHalf { High, Low };

struct lreg_pressure {};
struct Both {
    vFloat first, second;
};
template <class... A>
constexpr Both min_max(const A&...) { return {}; }

#define SFPI_FUNCTION(name) \
    template <auto... modes, class... A> \
    constexpr Lanes<19> name(const A&...) { return {}; } \
    template <class T, class... A> \
    constexpr T name(const A&...) { return {}; }
SFPI_FUNCTION(abs)
SFPI_FUNCTION(addexp)
SFPI_FUNCTION(approx_recip)
SFPI_FUNCTION(as)
SFPI_FUNCTION(clamp)
SFPI_FUNCTION(convert)
SFPI_FUNCTION(copyman)
SFPI_FUNCTION(copysgn)
SFPI_FUNCTION(exexp)
SFPI_FUNCTION(exman)
SFPI_FUNCTION(exman8)
SFPI_FUNCTION(exman9)
SFPI_FUNCTION(fractional_mul)
SFPI_FUNCTION(is_finite)
SFPI_FUNCTION(is_inf)
SFPI_FUNCTION(is_nan)
SFPI_FUNCTION(is_neg)
SFPI_FUNCTION(is_pos)
SFPI_FUNCTION(lut)
SFPI_FUNCTION(lut2)
SFPI_FUNCTION(lut2_sign)
SFPI_FUNCTION(max)
SFPI_FUNCTION(min)
SFPI_FUNCTION(nearby)
SFPI_FUNCTION(reinterpret)
SFPI_FUNCTION(setexp)
SFPI_FUNCTION(setman)
SFPI_FUNCTION(setsgn)
SFPI_FUNCTION(setsgn2)
SFPI_FUNCTION(shft)
SFPI_FUNCTION(subvec_shflror1)
SFPI_FUNCTION(subvec_shflshr1)
SFPI_FUNCTION(subvec_transp)
SFPI_FUNCTION(symmetric_clamp)
SFPI_FUNCTION(int_to_smag)
SFPI_FUNCTION(smag_to_int)
SFPI_FUNCTION(lz)
SFPI_FUNCTION(float_as_uint)
inline constexpr unsigned
SFPABS_MOD1_INT = 0, SFPARECIP_MOD1_RECIP = 0, SFPCAST_MOD1_INT32_TO_FP32_RNE = 0, SFPCAST_MOD1_SM32_TO_FP32_RNE = 0, SFPENCC_IMM12_BOTH = 0, SFPENCC_MOD1_EI_RI = 0, SFPENCC_MOD1_EU_R1 = 0, SFPEXEXP_MOD1_SET_CC_COMP_EXP = 0, SFPEXEXP_MOD1_SET_CC_SGN_EXP = 0, SFPEXMAN_MOD1_PAD9 = 0, SFPIADD_MOD1_ARG_2SCOMP_LREG_DST = 0, SFPIADD_MOD1_ARG_IMM = 0, SFPIADD_MOD1_ARG_LREG_DST = 0, SFPIADD_MOD1_CC_GTE0 = 0, SFPIADD_MOD1_CC_LT0 = 0, SFPIADD_MOD1_CC_NONE = 0, SFPLOADI_MOD0_FLOATA = 0, SFPLOADI_MOD0_FLOATB = 0, SFPLOADI_MOD0_LOWER = 0, SFPLOADI_MOD0_SHORT = 0, SFPLOADI_MOD0_UPPER = 0, SFPLOADI_MOD0_USHORT = 0, SFPLOAD_MOD0_FMT_FP16B = 0, SFPLOAD_MOD0_FMT_SRCB = 0, SFPMAD_MOD1_OFFSET_NONE = 0, SFPMUL24_MOD1_LOWER = 0, SFPMUL24_MOD1_UPPER = 0, SFPSETCC_MOD1_LREG_EQ0 = 0, SFPSETCC_MOD1_LREG_GTE0 = 0, SFPSETCC_MOD1_LREG_LT0 = 0, SFPSETCC_MOD1_LREG_NE0 = 0, SFPSHFT2_MOD1_SHFT_IMM = 0, SFPSHFT2_MOD1_SHFT_LREG = 0, SFPSHFT2_MOD1_SUBVEC_SHFLROR1 = 0, SFPSHFT2_MOD1_SUBVEC_SHFLSHR1 = 0, SFPSTOCHRND_MOD1_FP32_TO_FP16B = 0, SFPSTOCHRND_MOD1_FP32_TO_INT16 = 0, SFPSTOCHRND_MOD1_FP32_TO_INT8 = 0, SFPSTOCHRND_MOD1_FP32_TO_UINT16 = 0, SFPSTOCHRND_MOD1_FP32_TO_UINT8 = 0, SFPSTOCHRND_RND_EVEN = 0, SFPSTORE_MOD0_FMT_FP16B = 0, SFPSTORE_MOD0_FMT_SRCB = 0, SFPSWAP_MOD1_SWAP = 0, SFPSWAP_MOD1_VEC_MIN_MAX = 0, SFP_DESTREG_STRIDE = 0;
}  // namespace sfpi

#define v_if(x) { if (bool(x)) {
#define v_elseif(x) } else if (bool(x)) {
#define v_else } else {
#define v_endif } }
#define v_and(x) (void)bool(x)
#define v_block {
#define v_endblock }
#define __builtin_rvtt_sfpmad(...) ::sfpi::vFloat(__VA_ARGS__)
#define __builtin_rvtt_sfpgt(...) ::sfpi::vFloat(__VA_ARGS__)
