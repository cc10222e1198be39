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

inline thread_local const char* thread_name = "main";

[[noreturn]] inline void fail(const char* format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    throw Failure{std::string(thread_name) + ": " + text};
}

struct Tile {
    float at[kElements];
    float& operator()(int r, int c) { return at[r * kTile + c]; }
    float operator()(int r, int c) const { return at[r * kTile + c]; }
};

enum class Format { Float32 = 0, Float16_b = 5, Bfp8_b = 6, Bfp4_b = 7 };  // as tt-metal numbers them

inline const char* name_of(Format format) {
    switch (format) {
        case Format::Float32: return "Float32";
        case Format::Float16_b: return "Float16_b";
        case Format::Bfp8_b: return "Bfp8_b";
        default: return "Bfp4_b";
    }
}

inline float round_to(float value, Format format) {
    if (format == Format::Float32 || !std::isfinite(value)) return value;
    uint32_t bits;
    memcpy(&bits, &value, 4);
    bits = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
    memcpy(&value, &bits, 4);
    return value;
}

using wide = long double;

// A number in L1 that the packer adds to, rounded once: to float32, or to 16 bits, where a float32 halfway between two
// of them is first moved to the side that the exact sum is on.
inline float packer_sum(float kept, float added, Format format) {
    const double exact = double(kept) + double(added);
    float near = float(exact);
    if (format == Format::Float32 || !std::isfinite(near)) return near;
    uint32_t bits;
    memcpy(&bits, &near, 4);
    if ((bits & 0xffffu) == 0x8000u && double(near) != exact)
        near = std::nextafter(near, exact > near ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity());
    return round_to(near, format);
}

// NaN if one is; of two zeros the second.
inline wide larger(wide a, wide b) { return a > b || std::isnan(a) ? a : b; }
inline wide smaller(wide a, wide b) { return a < b || std::isnan(a) ? a : b; }

// Has the sign of the divisor.
inline wide remainder(wide a, wide b) {
    const wide rest = std::fmod(a, b);
    if (rest == 0 && b != 0) return std::copysign(wide(0), b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

inline float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

// 16 neighbours of a row share the largest exponent: 7 or 3 bits of magnitude below it, ties to even.
inline void share_exponents(Tile& t, Format format) {
    if (format != Format::Bfp8_b && format != Format::Bfp4_b) return;
    const int bits = format == Format::Bfp8_b ? 7 : 3;
    const float most = float((1 << bits) - 1);
    for (int at = 0; at < kElements; at += 16) {
        float largest = 0.0f;
        for (int k = 0; k < 16; ++k) largest = float(larger(largest, std::fabs(t.at[at + k])));
        int exponent = 0;
        std::frexp(largest, &exponent);
        const float quantum = std::ldexp(1.0f, exponent - bits);
        for (int k = 0; k < 16; ++k) {
            const float steps = std::nearbyint(t.at[at + k] / quantum);
            const float empty = std::isnan(t.at[at + k]) ? t.at[at + k] : 0.0f;  // NaN or zeros only: nothing to share
            t.at[at + k] = (largest > 0.0f ? std::fmax(-most, std::fmin(most, steps)) * quantum : empty) + 0.0f;
        }
    }
}

}  // namespace tensix
