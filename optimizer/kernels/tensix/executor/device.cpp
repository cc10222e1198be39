#include "device.hpp"

namespace tensix {

bool on_device = false;
bool wide_dst = false;
int phases = 4;
bool least_slips = true;
bool signless_sums = true;

uint32_t bits_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return bits;
}

float value_of(uint32_t bits) {
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

bool has_exponent(float value) { return bits_of(value) >> 23 & 255; }
float kept(float value, int bits) { return value_of(bits_of(value) >> (32 - bits) << (32 - bits)); }
float no_denormal(float value) { return has_exponent(value) ? value : 0.0f; }
int source_bits(Format format) { return format == Format::Float32 && wide_dst ? 19 : 16; }
bool holds(wide value) { return value != 0 || (on_device && std::signbit(value)); }

wide max_of(wide a, wide b) {
    if (on_device && a == 0 && b == 0) return std::signbit(a) && std::signbit(b) ? -0.0L : 0.0L;
    return larger(a, b);
}

wide min_of(wide a, wide b) {
    if (on_device && a == 0 && b == 0) return std::signbit(a) || std::signbit(b) ? -0.0L : 0.0L;
    return smaller(a, b);
}

float in_source(float value, Format format) {
    return no_denormal(format == Format::Float32 ? kept(value, source_bits(format)) : value);
}

float stored(float value, bool nearest) {
    if (!has_exponent(value)) return value_of(bits_of(value) & 0x80000000u);
    if (wide_dst) return value;
    return nearest ? round_to(value, Format::Float16_b) : kept(value, 16);
}

void pack_blocks(Tile& t, int bits) {
    for (int at = 0; at < kElements; at += 16) {
        uint32_t shared = 0, numbers[16];
        for (int k = 0; k < 16; ++k) {
            numbers[k] = (bits_of(t.at[at + k]) + 0x10000u) & 0xfffe0000u;  // 7 bits of the significand
            shared = std::max(shared, numbers[k] >> 23 & 255);
        }
        for (int k = 0; k < 16; ++k) {
            const uint32_t number = numbers[k], exponent = number >> 23 & 255;
            const uint32_t down = std::min(shared - exponent, 8u);
            const uint32_t significand = (number >> 17 & 63) + (exponent ? 64 : 0);
            const uint32_t steps = ((significand + ((1u << down) >> 1)) >> down) >> (7 - bits);
            const float size = std::ldexp(float(steps), int(shared) - 126 - bits);
            t.at[at + k] = steps && number >> 31 ? -size : size;
        }
    }
}

void pack_format(Tile& t, Format format) {
    if (format == Format::Float32) {
        for (float& v : t.at) v = wide_dst ? v : no_denormal(v);
        return;
    }
    const bool rounds = format == Format::Float16_b && wide_dst;  // ties away from zero
    for (float& v : t.at) v = no_denormal(kept(rounds ? value_of(bits_of(v) + 0x8000u) : v, 16));
    if (format != Format::Float16_b) pack_blocks(t, format == Format::Bfp8_b ? 7 : 3);
}

Term term_of(float value) {
    const uint32_t bits = bits_of(value);
    const int exponent = bits >> 23 & 255;
    return {bits >> 31 != 0, exponent, exponent ? int64_t(bits & 0x7fffff | 0x800000) : 0};
}

int64_t half_of(int dropped) { return int64_t(1) << (dropped - 1); }

int64_t aligned(const Term& term, int top, bool added) {
    const int64_t tie = added && term.negative ? 1 : 0;
    const int down = top - term.exponent;
    int64_t made = term.significand;
    if (down >= 31) made = 0;
    else if (down > 0) made = (made + half_of(down) - tie) >> down;
    if (!wide_dst) made = (made + half_of(13) - tie) >> 13 << 13;
    return term.negative ? -made : made;
}

float accumulated(float held, const Term& first, const Term& second) {
    const Term dst = term_of(held);
    const int top = std::max({dst.exponent, first.exponent, second.exponent});
    if (top <= 0) return 0.0f;
    int64_t size = aligned(dst, top, false) + aligned(first, top, true) + aligned(second, top, true);
    if (size == 0) return 0.0f;
    const uint32_t sign = size < 0 ? 0x80000000u : 0;
    size = std::abs(size);
    int length = 0;
    while (size >> length) ++length;
    int up = 24 - length;
    if (least_slips && sign && size == 1) up -= 27;
    int exponent = top - up;
    if (!wide_dst) up -= 16;
    size = up < 0 ? (size + half_of(-up)) >> -up : size << up;
    if (!wide_dst) size <<= 16;
    exponent += size >> 24 & 1;
    if (exponent <= 0) return 0.0f;
    if (exponent >= 255) return value_of(sign | 0x7f800000u);
    return value_of(sign | uint32_t(exponent) << 23 | uint32_t(size & 0x7fffff));
}

float fpu_add(float a, float b) {
    const bool swap = std::fabs(a) < std::fabs(b);
    const Term large = term_of(swap ? b : a), small = term_of(swap ? a : b);
    const int down = large.exponent - small.exponent;
    int64_t second = small.significand >> 13;
    if (down >= 12) second = 0;
    else if (down > 0) second = (second + half_of(down)) >> down;
    const int64_t first = large.significand >> 13;
    const int64_t size = large.negative == small.negative ? first + second : first - second;
    return accumulated(0.0f, {large.negative, large.exponent, size << 13}, {});
}

Term phase_of(const Term& a, const Term& b, int phase) {
    if (!a.exponent || !b.exponent) return {};
    const int64_t first = a.significand >> 13, second = b.significand >> 13;
    const int64_t low = phase & 1 ? (first >> 1) & 31 : first >> 6;
    const int64_t high = phase & 2 ? (second & 15) << 3 : second >> 4;
    const int exponent = a.exponent + b.exponent - 127 - (phase & 1 ? 5 : 0) - (phase & 2 ? 7 : 0);
    return {a.negative != b.negative, exponent, low * high};
}

float fpu_multiply(float a, float b) {
    const Term first = term_of(a), second = term_of(b);
    float held = 0.0f;
    for (int phase = 0; phase < phases; ++phase) {
        Term part = phase_of(first, second, phase);
        if (part.exponent <= 0) part = {};
        held = accumulated(held, {part.negative, part.exponent, part.significand << 13}, {});
    }
    return held;
}

Term sum_of_eight(const Term* a, const Term* b, int phase) {
    Term parts[8];
    int top = -1000;
    for (int k = 0; k < 8; ++k) {
        parts[k] = phase_of(a[k], b[k], phase);
        top = std::max(top, parts[k].exponent);
    }
    if (top <= 0) return {};
    int64_t total = 0;
    for (const Term& part : parts) {
        const int down = std::min(top - part.exponent, 30);
        const int64_t size = ((part.significand << 1) + (int64_t(1) << down)) >> (down + 1);
        total += part.negative ? -size : size;
    }
    return {total < 0, top, std::abs(total) << 13};
}

float multiply_accumulate(float held, const float* a, const float* b, int phase) {
    Term first[16], second[16];
    for (int k = 0; k < 16; ++k) first[k] = term_of(a[k]), second[k] = term_of(b[k]);
    return accumulated(held, sum_of_eight(first, second, phase), sum_of_eight(first + 8, second + 8, phase));
}

void device_matmul(Tile& total, const Tile& x, const Tile& y, bool transpose) {
    for (int phase = 0; phase < phases; ++phase)
        for (int half = 0; half < kTile; half += 16)
            for (int i = 0; i < kTile; ++i)
                for (int j = 0; j < kTile; ++j) {
                    float a[16], b[16];
                    for (int k = 0; k < 16; ++k) a[k] = transpose ? y(j, half + k) : y(half + k, j), b[k] = x(i, half + k);
                    total(i, j) = multiply_accumulate(total(i, j), a, b, phase);
                }
}

float pooled(float held, const float* column, float scaler) {
    float scalers[16];
    std::fill(scalers, scalers + 16, scaler);
    for (int phase = 0; phase < phases; ++phase) held = multiply_accumulate(held, column, scalers, phase);
    return held;
}

void device_sum(Tile& total, const Tile& x, float scaler, char axis, Format format) {
    float scalers[16], row[16] = {};
    std::fill(scalers, scalers + 16, scaler);
    if (axis == 'r') {
        for (int phase = 0; phase < phases; ++phase)
            for (int half = 0; half < kTile; half += 16)
                for (int i = 0; i < kTile; ++i)
                    total(i, 0) = multiply_accumulate(total(i, 0), scalers, &x.at[i * kTile + half], phase);
        return;
    }
    for (int rows = 0; rows < kTile; rows += 16)
        for (int j = 0; j < kTile; ++j) {
            float column[16];
            for (int k = 0; k < 16; ++k) column[k] = x(rows + k, j);
            float& sum = axis == 'c' ? total(0, j) : row[j % 16];
            sum = pooled(sum, column, scaler);
        }
    if (axis != 's') return;
    for (float& v : row) v = no_denormal(kept(v, source_bits(format)));  // through a source register
    total(0, 0) = pooled(total(0, 0), row, scaler);
}

}  // namespace tensix
