// What signatures of the kernel API name, and the sums that their bodies have in common.
#pragma once
#include "meanings.hpp"
#include "noc.hpp"

enum class BroadcastType { NONE, COL, ROW, SCALAR };
enum class PoolType { SUM, AVG, MAX, MIN };
enum class ReduceDim { REDUCE_ROW, REDUCE_COL, REDUCE_SCALAR };
enum class EltwiseBinaryType { ELWMUL, ELWDIV, ELWADD, ELWSUB, ELWLESS };
enum class EltwiseBinaryReuseDestType { NONE, DEST_TO_SRCA, DEST_TO_SRCB };
enum class DataFormat : uint32_t { Float32 = 0, Float16 = 1, Float16_b = 5, Bfp8_b = 6, Bfp4_b = 7 };
enum class VectorMode { None, R, C, RC };
enum class InputClamping { None, ClampToNegative };
enum class ReciprocalDestAcc { FP32, BF16 };
enum class ReciprocalApproxMode { Default };
enum class RsqrtMode { Default };
enum class RoundingMode { None };
enum class SrcOrder { Regular, Reverse };
namespace ckernel { enum class DstRoundingMode { Default, NearestEven }; }
namespace p_sfpu { constexpr uint16_t kCONST_1_FP16B = 0x3f80; }
constexpr bool DST_ACCUM_MODE = false;

inline void accumulate_matmul(const char* what, uint32_t target, const tensix::Tile& a, const tensix::Tile& b,
                              bool transpose) {
    tensix::Tile made = tensix::dst.tiles[tensix::slot(what, target)];
    if (tensix::on_device) {
        tensix::device_matmul(made, a, b, transpose);
        return tensix::write(what, target, made);
    }
    for (int i = 0; i < 32; ++i)
        for (int j = 0; j < 32; ++j) {
            tensix::wide sum = 0;
            for (int k = 0; k < 32; ++k) sum += tensix::wide(a(i, k)) * (transpose ? b(j, k) : b(k, j));
            made(i, j) = float(made(i, j) + sum);
        }
    tensix::write(what, target, made);
}

inline void accumulate_reduce(const char* what, uint32_t target, uint32_t cb, const tensix::Tile& x,
                              const tensix::Tile& scaler, bool maximum, char axis) {
    for (float v : scaler.at)
        if (maximum && v != 1) tensix::fail("%s scales a maximum by other than 1", what);
    const bool fresh = !tensix::dst.defined[tensix::slot(what, target)];
    tensix::Tile made = tensix::dst.tiles[target];
    if (tensix::on_device && !maximum) {
        tensix::device_sum(made, x, scaler(0, 0), axis, tensix::core.buffers[cb].format);
        return tensix::write(what, target, made);
    }
    if (tensix::on_device)
        for (float& v : made.at) v = tensix::kept(v, 19);
    const int lines = axis == 's' ? 1 : 32;
    for (int n = 0; n < lines; ++n) {
        tensix::wide part = maximum ? -std::numeric_limits<float>::infinity() : 0.0f;
        for (int m = 0; m < 32; ++m)
            for (int l = axis == 's' ? 0 : n; l < (axis == 's' ? 32 : n + 1); ++l) {
                const tensix::wide value = axis == 'r' ? x(l, m) : x(m, l);
                part = maximum ? tensix::larger(part, value) : part + value;
            }
        part = (part + 0) * scaler(0, 0);  // a maximum of zeros is +0
        if (axis == 's' && !maximum) part *= scaler(0, 0);
        float& total = axis == 'c' ? made(0, n) : made(n, 0);
        total = float(maximum ? (fresh ? part : tensix::larger(total, part)) : total + part);
    }
    tensix::write(what, target, made);
}
