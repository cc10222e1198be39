// What a chip's units make of numbers, in whole numbers: written apart from device/ in numpy, to witness it.
//
// Source registers hold 19 bits. The FPU multiplies 5 bits by 7, in as many passes (phases) as its fidelity says, and adds
// every pass to DST. The SFPU computes in float32 and cuts off what a DST of 16 bits does not hold. Denormal numbers are
// zero; infinities and NaN are not modelled.
#pragma once
#include "numbers.hpp"

namespace tensix {

extern bool on_device;  // else every result is rounded once, to the nearest
extern bool wide_dst;  // DST has 32 bits
extern int phases;  // of the FPU's fidelity
extern bool least_slips;  // a sum of -1 in the last place is normalised the wrong way (tt-metal issue 38306)
extern bool signless_sums;  // of the SFPU: +0 for -0 - 0

uint32_t bits_of(float value);
float value_of(uint32_t bits);
bool has_exponent(float value);
float kept(float value, int bits);
float no_denormal(float value);
int source_bits(Format format);

// Of the SFPU: a zero with a sign is a condition that holds, and less than one without.
bool holds(wide value);
wide max_of(wide a, wide b);
wide min_of(wide a, wide b);

// From a circular buffer to a source register.
float in_source(float value, Format format);

// A result of the SFPU, in DST.
float stored(float value, bool nearest);

// -- packers ------------------------------------------------------------------------------------------------
void pack_blocks(Tile& t, int bits);

void pack_format(Tile& t, Format format);

// -- the FPU ------------------------------------------------------------------------------------------------
struct Term {  // a significand whose leading bit weighs 2^23, at a biased exponent
    bool negative = false;
    int exponent = 0;
    int64_t significand = 0;
};

Term term_of(float value);

int64_t half_of(int dropped);

// At the common exponent, with its sign. Ties go away from zero; those of negative terms that are added, towards it.
int64_t aligned(const Term& term, int top, bool added);

float accumulated(float held, const Term& first, const Term& second);

float fpu_add(float a, float b);

// 12 bits of the product of one phase: of A's upper or lower 5 and B's upper 7 or lower 4 bits.
Term phase_of(const Term& a, const Term& b, int phase);

float fpu_multiply(float a, float b);

// Eight products at the largest exponent of the eight.
Term sum_of_eight(const Term* a, const Term* b, int phase);

// One instruction for one element: held plus 16 products, of values in source registers A and B.
float multiply_accumulate(float held, const float* a, const float* b, int phase);

void device_matmul(Tile& total, const Tile& x, const Tile& y, bool transpose);

// The sum of 16 numbers below each other, times the scaler, in all phases.
float pooled(float held, const float* column, float scaler);

void device_sum(Tile& total, const Tile& x, float scaler, char axis, Format format);

}  // namespace tensix
