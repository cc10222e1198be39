// What every tile op computes of an element, written apart from the numpy meanings, to witness them.
//
// Operands are a, b and c, then come the attributes as the API takes them. Results are rounded once to float32.
#pragma once
#include "device.hpp"

namespace tensix::meaning {

inline wide exp(wide a) { return std::exp(a); }
inline wide exp2(wide a) { return std::exp2(a); }
inline wide expm1(wide a) { return std::expm1(a); }
inline wide log(wide a) { return std::log(a); }
inline wide log1p(wide a) { return std::log1p(a); }
inline wide sqrt(wide a) { return std::sqrt(a); }
inline wide rsqrt(wide a) { return 1 / std::sqrt(a); }
inline wide cbrt(wide a) { return std::cbrt(a); }
inline wide recip(wide a) { return 1 / a; }
inline wide relu(wide a) { return larger(a, 0); }
inline wide gelu(wide a) { return 0.5L * a * std::erfc(double(-a / std::sqrt(2.0))); }
inline wide gelu_tanh(wide a) {
    return a / (1 + std::exp(-2 * 0.79788456080286535587989L * a * (1 + 0.044715L * a * a)));
}
inline wide sigmoid(wide a) { return 1 / (1 + std::exp(-a)); }
inline wide silu(wide a) { return a * (1 / (1 + std::exp(-a))); }
inline wide tanh(wide a) { return std::tanh(a); }
inline wide hardsigmoid(wide a) { return smaller(larger(a / 6 + 0.5L, 0), 1); }
inline wide softsign(wide a) { return a / (1 + std::fabs(a)); }
inline wide abs(wide a) { return std::fabs(a); }
inline wide neg(wide a) { return -a; }
inline wide sign(wide a) { return std::isnan(a) ? a : (a > 0) - (a < 0); }
inline wide signbit(wide a) { return std::signbit(a) ? 1 : 0; }
inline wide square(wide a) { return a * a; }
inline wide identity(wide a) { return a; }
inline wide sin(wide a) { return std::sin(a); }
inline wide cos(wide a) { return std::cos(a); }
inline wide tan(wide a) { return std::tan(a); }
inline wide asin(wide a) { return std::asin(a); }
inline wide acos(wide a) { return std::acos(a); }
inline wide atan(wide a) { return std::atan(a); }
inline wide sinh(wide a) { return std::sinh(a); }
inline wide cosh(wide a) { return std::cosh(a); }
inline wide asinh(wide a) { return std::asinh(a); }
inline wide acosh(wide a) { return std::acosh(a); }
inline wide atanh(wide a) { return std::atanh(a); }
inline wide erf(wide a) { return std::erf(double(a)); }
inline wide erfc(wide a) { return std::erfc(double(a)); }
inline wide floor(wide a) { return std::floor(a); }
inline wide ceil(wide a) { return std::ceil(a); }
inline wide trunc(wide a) { return std::trunc(a); }
inline wide frac(wide a) { return a - std::trunc(a); }
inline wide eqz(wide a) { return a == 0 ? 1 : 0; }
inline wide nez(wide a) { return a != 0 ? 1 : 0; }
inline wide gtz(wide a) { return a > 0 ? 1 : 0; }
inline wide gez(wide a) { return a >= 0 ? 1 : 0; }
inline wide ltz(wide a) { return a < 0 ? 1 : 0; }
inline wide lez(wide a) { return a <= 0 ? 1 : 0; }
inline wide isnan(wide a) { return std::isnan(a) ? 1 : 0; }
inline wide isinf(wide a) { return std::isinf(a) ? 1 : 0; }
inline wide add_scalar(wide a, wide value) { return a + value; }
inline wide sub_scalar(wide a, wide value) { return a - value; }
inline wide mul_scalar(wide a, wide value) { return a * value; }
inline wide div_scalar(wide a, wide value) { return a * value; }
inline wide rsub_scalar(wide a, wide value) { return value - a; }
inline wide max_scalar(wide a, wide value) { return larger(a, value); }
inline wide min_scalar(wide a, wide value) { return smaller(a, value); }
inline wide clamp(wide a, wide low, wide high) { return smaller(larger(a, low), high); }
inline wide leaky_relu(wide a, wide slope) { return a > 0 ? a : slope * a; }
inline wide elu(wide a, wide alpha) { return a > 0 ? a : alpha * std::expm1(a); }
inline wide typecast(wide a, uint32_t, uint32_t target) {
    return round_to(a, target == 0 ? Format::Float32 : Format::Float16_b);
}
inline wide copy_dst(wide a) { return a; }
inline wide copy(wide a) { return a; }
inline wide fill(wide value) { return value; }
inline wide add(wide a, wide b) { return a + b; }
inline wide sub(wide a, wide b) { return a - b; }
inline wide mul(wide a, wide b) { return a * b; }
inline wide div(wide a, wide b) { return a / b; }
inline wide rsub(wide a, wide b) { return b - a; }
inline wide pow(wide a, wide b) { return std::pow(a, b); }
inline wide max(wide a, wide b) { return max_of(a, b); }
inline wide min(wide a, wide b) { return min_of(a, b); }
inline wide eq(wide a, wide b) { return a == b ? 1 : 0; }
inline wide ne(wide a, wide b) { return a != b ? 1 : 0; }
inline wide lt(wide a, wide b) { return a < b ? 1 : 0; }
inline wide gt(wide a, wide b) { return a > b ? 1 : 0; }
inline wide le(wide a, wide b) { return a <= b ? 1 : 0; }
inline wide ge(wide a, wide b) { return a >= b ? 1 : 0; }
inline wide atan2(wide a, wide b) { return std::atan2(a, b); }
inline wide fmod(wide a, wide b) { return std::fmod(a, b); }
inline wide remainder(wide a, wide b) { return tensix::remainder(a, b); }
inline wide logaddexp(wide a, wide b) {
    return a == b ? a + std::log(2.0L) : larger(a, b) + std::log1p(std::exp(-std::fabs(a - b)));
}
inline wide xlogy(wide a, wide b) { return a == 0 ? 0 : a * std::log(b); }
inline wide where(wide a, wide b, wide c) { return holds(a) ? b : c; }

}  // namespace tensix::meaning
