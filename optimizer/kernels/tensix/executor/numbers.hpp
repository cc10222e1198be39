// Tiles, element types and roundings for kernels compiled with g++, and how they fail.
//
// Every op is computed in long double, rounded to float32, and then to 16 bits where the hardware keeps 16 bits; or as a
// Wormhole's units compute it (device.hpp).
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <limits>
#include <string>

namespace tensix {

constexpr int kTile = 32, kElements = kTile * kTile;

struct Failure {
    std::string message;
};

extern thread_local const char* thread_name;

[[noreturn]] void fail(const char* format, ...);

struct Tile {
    float at[kElements];
    float& operator()(int r, int c) { return at[r * kTile + c]; }
    float operator()(int r, int c) const { return at[r * kTile + c]; }
};

enum class Format { Float32 = 0, Float16_b = 5, Bfp8_b = 6, Bfp4_b = 7 };  // as tt-metal numbers them

const char* name_of(Format format);

float round_to(float value, Format format);

using wide = long double;

// A number in L1 that the packer adds to, rounded once: to float32, or to 16 bits, where a float32 halfway between two
// of them is first moved to the side that the exact sum is on.
float packer_sum(float kept, float added, Format format);

// NaN if one is; of two zeros the second.
wide larger(wide a, wide b);
wide smaller(wide a, wide b);

// Has the sign of the divisor.
wide remainder(wide a, wide b);

float from_bits(uint32_t bits);

// 16 neighbours of a row share the largest exponent: 7 or 3 bits of magnitude below it, ties to even.
void share_exponents(Tile& t, Format format);

}  // namespace tensix
