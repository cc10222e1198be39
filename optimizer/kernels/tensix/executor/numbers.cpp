#include "numbers.hpp"

namespace tensix {

thread_local const char* thread_name = "main";

void fail(const char* format, ...) {
    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    throw Failure{std::string(thread_name) + ": " + text};
}

const char* name_of(Format format) {
    switch (format) {
        case Format::Float32: return "Float32";
        case Format::Float16_b: return "Float16_b";
        case Format::Bfp8_b: return "Bfp8_b";
        default: return "Bfp4_b";
    }
}

float round_to(float value, Format format) {
    if (format == Format::Float32 || !std::isfinite(value)) return value;
    uint32_t bits;
    memcpy(&bits, &value, 4);
    bits = (bits + 0x7fffu + ((bits >> 16) & 1u)) & 0xffff0000u;
    memcpy(&value, &bits, 4);
    return value;
}

float packer_sum(float kept, float added, Format format) {
    const double exact = double(kept) + double(added);
    float near = float(exact);
    if (format == Format::Float32 || !std::isfinite(near)) return near;
    uint32_t bits;
    memcpy(&bits, &near, 4);
    if ((bits & 0xffffu) == 0x8000u && double(near) != exact)
        near = std::nextafter(near, exact > near ? std::numeric_limits<float>::infinity() : -std::numeric_limits<float>::infinity());
    return round_to(near, format);
}

wide larger(wide a, wide b) { return a > b || std::isnan(a) ? a : b; }
wide smaller(wide a, wide b) { return a < b || std::isnan(a) ? a : b; }

wide remainder(wide a, wide b) {
    const wide rest = std::fmod(a, b);
    if (rest == 0 && b != 0) return std::copysign(wide(0), b);
    return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

float from_bits(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

void share_exponents(Tile& t, Format format) {
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
