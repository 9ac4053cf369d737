// tgamma, lgamma and lgamma_r. Those of float round what double gives.
//
// Both go up to a number z = x + n of at least 12: Gamma(x) = Gamma(z) / (x (x + 1) ... (x + n - 1)), and Stirling's
// series has log Gamma(z). Numbers, products and logarithms have twice the precision. log Gamma has zeros at 1 and 2:
// near them it is a polynomial.
#include "kernel64.h"

#define PYD_HALF_LOG_2PI_1 0x1.d67f1c864beb5p-1  // log(2 pi) / 2
#define PYD_HALF_LOG_2PI_2 -0x1.65b5a1b7ff5dfp-55
#define PYD_EULER_1 0x1.2788cfc6fb619p-1  // Euler's constant
#define PYD_EULER_2 -0x1.6cb90701fbfabp-58
#define PYD_ONE_LESS_EULER_1 0x1.b0ee6072093cep-2
#define PYD_ONE_LESS_EULER_2 0x1.6cb90701fbfabp-58
#define PYD_LOG_PI 0x1.250d048e7a1bdp+0

enum { PYD_GAMMA_TERMS = 28, PYD_STIRLING_TERMS = 8, PYD_SINE_TERMS = 12 };
// zeta(k) / k and (zeta(k) - 1) / k from k = 2 on, with alternating signs.
static const double pyd_zeta[PYD_GAMMA_TERMS] = {
    0x1.a51a6625307d3p-1, -0x1.9a4d55beab2d7p-2, 0x1.151322ac7d848p-2, -0x1.a8b9c17aa6149p-3, 0x1.5b40cb100c306p-3,
    -0x1.2703a1dcea3aep-3, 0x1.010b36af86397p-3, -0x1.c806706d57db4p-4, 0x1.9a01e385d5f8fp-4, -0x1.748c33114c6d6p-4,
    0x1.556ad63243bc4p-4, -0x1.3b1d971fc5985p-4, 0x1.2496df8320c5fp-4, -0x1.11133476e7fe0p-4, 0x1.00010064cdeb2p-4,
    -0x1.e1e2d311e8abdp-5, 0x1.c71ce3a20b419p-5, -0x1.af28a1b5688a0p-5, 0x1.9999b3352d5bap-5, -0x1.86186db77bfbfp-5,
    0x1.745d1d1778df9p-5, -0x1.642c88591b66dp-5, 0x1.555556aaafdcdp-5, -0x1.47ae151eb9fb7p-5, 0x1.3b13b189d925ep-5,
    -0x1.2f684c00002bcp-5, 0x1.24924936db7bcp-5, -0x1.1a7b961a7b9aap-5,
};
static const double pyd_zeta_less_1[PYD_GAMMA_TERMS] = {
    0x1.4a34cc4a60fa6p-2, -0x1.13e001a557607p-4, 0x1.51322ac7d8483p-6, -0x1.e404fc218f5f2p-8, 0x1.7add6eadb6c30p-9,
    -0x1.38ac5c2bf8e08p-10, 0x1.0b36af86396e9p-11, -0x1.d3fd4c76d2fc8p-13, 0x1.a127b0f17d65ap-14,
    -0x1.78de5bd7c81efp-15, 0x1.580dcee66eb02p-16, -0x1.3cbc963ce2243p-17, 0x1.2597a39f34aacp-18,
    -0x1.11b2eb7679541p-19, 0x1.0064cdeb22f0fp-20, -0x1.e2600d93cfd2fp-22, 0x1.c76bbb3f07a4dp-23,
    -0x1.af5a6cbbf8a97p-24, 0x1.99b93c2070b0fp-25, -0x1.862c734df3eacp-26, 0x1.7469daccfadcdp-27,
    -0x1.6434a8447aeadp-28, 0x1.555a877ffd2c3p-29, -0x1.47b1679258d0ep-30, 0x1.3b15d2b2fc10cp-31,
    -0x1.2f69a9fabe3e0p-32, 0x1.24932a337434cp-33, -0x1.1a7c26ec2523cp-34,
};
// sin(pi f) / f in the square of f.
static const double pyd_sine_pi[PYD_SINE_TERMS] = {
    0x1.921fb54442d18p+1, -0x1.4abbce625be53p+2, 0x1.466bc6775aae2p+1, -0x1.32d2cce62bd86p-1, 0x1.50783487ee782p-4,
    -0x1.e3074fde8871fp-8, 0x1.e8f434d018d63p-12, -0x1.6fadb9f155744p-16, 0x1.aaec32af93359p-21,
    -0x1.8a404211f9547p-26, 0x1.2877020d52cf0p-31, -0x1.7215f879e1ac9p-37,
};
// B(2k) / (2k (2k - 1)) from k = 1 on, B being Bernoulli's numbers.
static const double pyd_stirling[PYD_STIRLING_TERMS] = {
    0x1.5555555555555p-4, -0x1.6c16c16c16c17p-9, 0x1.a01a01a01a01ap-11, -0x1.3813813813814p-11, 0x1.b951e2b18ff23p-11,
    -0x1.f6ab0d9993c7dp-10, 0x1.a41a41a41a41ap-8, -0x1.e4286cb0f5398p-6,
};

// Sums and products of pairs of doubles.
static pyd_dd_t pyd_add_dd(pyd_dd_t a, pyd_dd_t b) {
  pyd_dd_t s = pyd_two_sum(a.hi, b.hi);
  return pyd_fast_sum(s.hi, s.lo + (a.lo + b.lo));
}
static pyd_dd_t pyd_times_dd(pyd_dd_t a, pyd_dd_t b) {
  pyd_dd_t p = pyd_two_prod(a.hi, b.hi);
  return pyd_fast_sum(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}
// terms[0] + terms[1] x + terms[2] x^2 + ..., by Horner's rule.
static double pyd_series(const double* terms, int count, double x) {
  double y = terms[count - 1];
  for (int i = count - 2; i >= 0; --i) y = PYD_FMA(y, x, terms[i]);
  return y;
}

// product = x (x + 1) ... (x + n - 1) 2^-scale and above = x + n, for the least n >= 0 with x + n >= 12.
typedef struct { pyd_dd_t product, above; int scale; } pyd_rising_t;

static pyd_rising_t pyd_rising(double x) {
  pyd_rising_t r = {{1.0, 0.0}, {x, 0.0}, 0};
  for (double n = 0.0; r.above.hi < 12.0; ) {
    r.product = pyd_times_dd(r.product, r.above);
    if (__builtin_fabs(r.product.hi) > 0x1p500) {
      r.product.hi *= 0x1p-500;
      r.product.lo *= 0x1p-500;
      r.scale += 500;
    }
    n += 1.0;
    r.above = pyd_two_sum(x, n);
  }
  return r;
}
// log Gamma(z), 12 <= z < 2^60.
static pyd_dd_t pyd_log_gamma(pyd_dd_t z) {
  pyd_dd_t log = pyd_log_dd(z.hi);
  log = pyd_fast_sum(log.hi, log.lo + z.lo / z.hi);
  pyd_dd_t value = pyd_times_dd(pyd_add_dd(z, (pyd_dd_t){-0.5, 0.0}), log);
  value = pyd_add_dd(value, (pyd_dd_t){-z.hi, -z.lo});
  value = pyd_add_dd(value, (pyd_dd_t){PYD_HALF_LOG_2PI_1, PYD_HALF_LOG_2PI_2});
  double inverse = 1.0 / z.hi, tail = inverse * pyd_series(pyd_stirling, PYD_STIRLING_TERMS, inverse * inverse);
  return pyd_add_dd(value, (pyd_dd_t){tail, 0.0});
}
// Whether a finite x is an integer, as every double from 2^52 on is.
static int pyd_is_whole(double x) {
  double size = __builtin_fabs(x);
  return size >= 0x1p52 || (size + 0x1p52) - 0x1p52 == size;
}

// Gamma(x) = Gamma(x + n) / (x (x + 1) ... (x + n - 1)), with exp(log Gamma(x + n)) for Gamma(x + n).
static double pyd_tgamma(double x) {
  if (x != x || x == PYD_INF) return x;
  if (x == 0.0) return __builtin_copysign(PYD_INF, x);
  if (x < 0.0 && pyd_is_whole(x)) return PYD_NAN;
  if (x > 172.0) return PYD_INF;
  if (__builtin_fabs(x) < 0x1p-60) return 1.0 / x;
  if (x < -186.0) {  // 0 with its sign, which is that of (-1)^n for n = floor(x)
    double half = 0.5 * x, whole = (half - 0x1.8p52) + 0x1.8p52;
    whole = whole > half ? whole - 1.0 : whole;
    return half - whole < 0.5 ? 0.0 : -0.0;
  }
  pyd_rising_t r = pyd_rising(x);
  pyd_dd_t log = pyd_log_gamma(r.above);
  pyd_exp_t e = pyd_exp_dd(log.hi, log.lo);
  // 1 / product, with one step of Newton's method.
  double inverse = 1.0 / r.product.hi;
  pyd_dd_t back = pyd_two_prod(inverse, r.product.hi);
  inverse = PYD_FMA(inverse, ((1.0 - back.hi) - back.lo) - inverse * r.product.lo, inverse);
  return pyd_scale(PYD_FMA(inverse, e.m, inverse), e.k - r.scale);
}

// log Gamma(1 + near) and log Gamma(2 + near), |near| <= 1/4.
static double pyd_lgamma_near_1(double near) {
  double tail = PYD_FMA(near, pyd_series(pyd_zeta, PYD_GAMMA_TERMS, near), -PYD_EULER_2);
  return near * (tail - PYD_EULER_1) + 0.0;  // not -0 at 1
}
static double pyd_lgamma_near_2(double near) {
  double tail = PYD_FMA(near, pyd_series(pyd_zeta_less_1, PYD_GAMMA_TERMS, near), PYD_ONE_LESS_EULER_2);
  return near * (tail + PYD_ONE_LESS_EULER_1);
}
// log |Gamma(x)| of x < -30 that is no integer: Gamma(x) is pi / (x sin(pi x) Gamma(-x)), and x = n + f.
static double pyd_lgamma_reflected(double x, int* out_sign) {
  double size = __builtin_fabs(x), whole = (x - 0x1.8p52) + 0x1.8p52, f = x - whole, half = 0.5 * whole;
  int is_even = (half - 0x1.8p52) + 0x1.8p52 == half;
  *out_sign = is_even == (f > 0.0) ? 1 : -1;
  double sine_pi = f * pyd_series(pyd_sine_pi, PYD_SINE_TERMS, f * f);
  pyd_dd_t sine = pyd_log_dd(__builtin_fabs(sine_pi)), log = pyd_log_dd(size);
  pyd_dd_t other = pyd_log_gamma((pyd_dd_t){size, 0.0});
  return -(other.hi + (other.lo + ((sine.hi + log.hi) - PYD_LOG_PI)));
}
// log |Gamma(x)| = log |Gamma(x + n)| - log |x (x + 1) ... (x + n - 1)|.
static double pyd_lgamma_rising(double x, int* out_sign) {
  pyd_rising_t r = pyd_rising(x);
  *out_sign = r.product.hi < 0.0 ? -1 : 1;
  pyd_dd_t product = pyd_log_dd(__builtin_fabs(r.product.hi)), log = pyd_log_gamma(r.above);
  product.lo += r.product.lo / r.product.hi;
  log = pyd_add_dd(log, (pyd_dd_t){-product.hi, -product.lo});
  return log.hi + log.lo;
}

// log |Gamma(x)|; the sign of Gamma(x) goes to out_sign.
static double pyd_lgamma(double x, int* out_sign) {
  *out_sign = 1;
  double size = __builtin_fabs(x);
  if (!(size < PYD_INF)) return size;
  if (x <= 0.0 && pyd_is_whole(x)) {
    if (x == 0.0) *out_sign = pyd_bits(x) >> 63 ? -1 : 1;
    return PYD_INF;
  }
  if (size < 0x1p-60) {  // Gamma(x) is 1 / x
    *out_sign = x < 0.0 ? -1 : 1;
    pyd_dd_t log = pyd_log_dd(size);
    return -(log.hi + log.lo);
  }
  if (x - 1.0 >= -0.25 && x - 1.0 <= 0.25) return pyd_lgamma_near_1(x - 1.0);
  if (x - 2.0 >= -0.25 && x - 2.0 <= 0.25) return pyd_lgamma_near_2(x - 2.0);
  if (size >= 0x1p60) {  // whole, and so positive
    pyd_dd_t log = pyd_log_dd(size);
    return size * (log.hi - 1.0);
  }
  return x < -30.0 ? pyd_lgamma_reflected(x, out_sign) : pyd_lgamma_rising(x, out_sign);
}

double tgamma(double x) { return pyd_tgamma(x); }
float tgammaf(float x) { return (float)pyd_tgamma((double)x); }
double lgamma_r(double x, int* sign) { return pyd_lgamma(x, sign); }
float lgammaf_r(float x, int* sign) { return (float)pyd_lgamma((double)x, sign); }
double lgamma(double x) {
  int sign;
  return pyd_lgamma(x, &sign);
}
float lgammaf(float x) {
  int sign;
  return (float)pyd_lgamma((double)x, &sign);
}
