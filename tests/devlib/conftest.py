# ruff: noqa: E501 - the C text
import ctypes
from pathlib import Path

import pytest
from devlib_driver import CPUS, Library

BUILTINS = """
typedef __int128 T; typedef unsigned __int128 U;
T __multi3(T,T); T __divti3(T,T); T __modti3(T,T); U __udivti3(U,U); U __umodti3(U,U);
T __ashlti3(T,int); T __lshrti3(T,int); T __ashrti3(T,int); T __muloti4(T,T,int*); long __mulodi4(long,long,int*);
_Float16 __truncsfhf2(float); _Float16 __truncdfhf2(double); float __extendhfsf2(_Float16); double __extendhfdf2(_Float16);
unsigned short __gnu_f2h_ieee(float); float __gnu_h2f_ieee(unsigned short);
__bf16 __truncsfbf2(float); __bf16 __truncdfbf2(double); float __extendbfsf2(__bf16);
U __fixunsdfti(double); U __fixunssfti(float); T __fixdfti(double); T __fixsfti(float);
double __floattidf(T); double __floatuntidf(U); float __floattisf(T); float __floatuntisf(U);
double __powidf2(double,int); float __powisf2(float,int);
int __popcountdi2(long); int __clzdi2(long); int __ctzdi2(long); int __popcountti2(T); int __clzti2(T); int __ctzti2(T);
int __paritydi2(long); int __ffsdi2(long); int __popcountsi2(int); int __clzsi2(int); int __ctzsi2(int);
#define BULK(name, in, out, value) \\
  void name(const in* x, const in* z, out* y, long n) { for (long i = 0; i < n; ++i) y[i] = value; }
BULK(b_mul, T, T, __multi3(x[i], z[i])) BULK(b_div, T, T, __divti3(x[i], z[i])) BULK(b_mod, T, T, __modti3(x[i], z[i]))
BULK(b_udiv, U, U, __udivti3(x[i], z[i])) BULK(b_umod, U, U, __umodti3(x[i], z[i]))
BULK(b_shl, T, T, __ashlti3(x[i], (int)(z[i] & 127))) BULK(b_lshr, T, T, __lshrti3(x[i], (int)(z[i] & 127)))
BULK(b_ashr, T, T, __ashrti3(x[i], (int)(z[i] & 127)))
void b_mulo(const T* x, const T* z, T* y, int* over, long n) { for (long i = 0; i < n; ++i) y[i] = __muloti4(x[i], z[i], over + i); }
void b_mulodi(const T* x, const T* z, T* y, int* over, long n) { for (long i = 0; i < n; ++i) y[i] = __mulodi4((long)x[i], (long)z[i], over + i); }
BULK(b_bits, T, T, (T)__popcountdi2((long)x[i]) | (T)__popcountti2(x[i]) << 8 | (T)__popcountsi2((int)x[i]) << 16
  | (T)__paritydi2((long)x[i]) << 24 | (T)__ffsdi2((long)x[i]) << 32
  | (x[i] ? (T)__clzti2(x[i]) << 40 | (T)__ctzti2(x[i]) << 48 : 0)
  | ((long)x[i] ? (T)__clzdi2((long)x[i]) << 56 | (T)__ctzdi2((long)x[i]) << 64 : 0)
  | ((int)x[i] ? (T)__clzsi2((int)x[i]) << 72 | (T)__ctzsi2((int)x[i]) << 80 : 0))
BULK(b_fh, float, _Float16, __truncsfhf2(x[i])) BULK(b_dh, double, _Float16, __truncdfhf2(x[i]))
BULK(b_hf, _Float16, float, __extendhfsf2(x[i])) BULK(b_hd, _Float16, double, __extendhfdf2(x[i]))
BULK(b_fg, float, unsigned short, __gnu_f2h_ieee(x[i])) BULK(b_gf, unsigned short, float, __gnu_h2f_ieee(x[i]))
BULK(b_fb, float, __bf16, __truncsfbf2(x[i])) BULK(b_db, double, __bf16, __truncdfbf2(x[i])) BULK(b_bf, __bf16, float, __extendbfsf2(x[i]))
BULK(b_dU, double, U, __fixunsdfti(x[i])) BULK(b_fU, float, U, __fixunssfti(x[i]))
BULK(b_dT, double, T, __fixdfti(x[i])) BULK(b_fT, float, T, __fixsfti(x[i]))
BULK(b_Td, T, double, __floattidf(x[i])) BULK(b_Ud, U, double, __floatuntidf(x[i]))
BULK(b_Tf, T, float, __floattisf(x[i])) BULK(b_Uf, U, float, __floatuntisf(x[i]))
BULK(b_powid, double, double, __powidf2(x[i], (int)z[i])) BULK(b_powif, float, float, __powisf2(x[i], (int)z[i]))
void sincos(double, double*, double*); void sincosf(float, float*, float*);
void b_sincos(const double* x, const double* z, double* y, long n) { for (long i = 0; i < n; ++i) sincos(x[i], y + 2 * i, y + 2 * i + 1); }
void b_sincosf(const float* x, const float* z, float* y, long n) { for (long i = 0; i < n; ++i) sincosf(x[i], y + 2 * i, y + 2 * i + 1); }
double modf(double, double*); float modff(float, float*); double frexp(double, int*); float frexpf(float, int*);
void b_modf(const double* x, const double* z, double* y, long n) { for (long i = 0; i < n; ++i) y[2 * i] = modf(x[i], y + 2 * i + 1); }
void b_modff(const float* x, const float* z, float* y, long n) { for (long i = 0; i < n; ++i) y[2 * i] = modff(x[i], y + 2 * i + 1); }
void b_frexp(const double* x, const double* z, double* y, long n) { int e; for (long i = 0; i < n; ++i) y[2 * i] = frexp(x[i], &e), y[2 * i + 1] = e; }
void b_frexpf(const float* x, const float* z, float* y, long n) { int e; for (long i = 0; i < n; ++i) y[2 * i] = frexpf(x[i], &e), y[2 * i + 1] = e; }
double ldexp(double, int); float ldexpf(float, int); double scalbn(double, int); float scalbnf(float, int); int ilogb(double); int ilogbf(float);
BULK(b_ldexp, double, double, ldexp(x[i], (int)z[i])) BULK(b_ldexpf, float, float, ldexpf(x[i], (int)z[i]))
BULK(b_scalbn, double, double, scalbn(x[i], (int)z[i])) BULK(b_scalbnf, float, float, scalbnf(x[i], (int)z[i]))
BULK(b_ilogb, double, double, ilogb(x[i])) BULK(b_ilogbf, float, float, ilogbf(x[i]))
long lrint(double); long lround(double); long long llrintf(float); long long llroundf(float);
BULK(b_lrint, double, double, lrint(x[i])) BULK(b_lround, double, double, lround(x[i]))
BULK(b_llrintf, float, float, llrintf(x[i])) BULK(b_llroundf, float, float, llroundf(x[i]))
double remquo(double, double, int*); float remquof(float, float, int*); double scalbln(double, long); float scalblnf(float, long);
double lgamma_r(double, int*); float lgammaf_r(float, int*); int __fpclassify(double); int __fpclassifyf(float); double nan(const char*); float nanf(const char*);
BULK(b_scalbln, double, double, scalbln(x[i], (long)z[i] << 20)) BULK(b_scalblnf, float, float, scalblnf(x[i], (long)z[i] << 20))
BULK(b_class, double, double, __fpclassify(x[i])) BULK(b_classf, float, float, __fpclassifyf(x[i]))
BULK(b_nan, double, double, nan("")) BULK(b_nanf, float, float, nanf(""))
void b_remquo(const double* x, const double* z, double* y, long n) { int q; for (long i = 0; i < n; ++i) y[2 * i] = remquo(x[i], z[i], &q), y[2 * i + 1] = q; }
void b_remquof(const float* x, const float* z, float* y, long n) { int q; for (long i = 0; i < n; ++i) y[2 * i] = remquof(x[i], z[i], &q), y[2 * i + 1] = q; }
void b_lgammar(const double* x, const double* z, double* y, long n) { int s; for (long i = 0; i < n; ++i) y[2 * i] = lgamma_r(x[i], &s), y[2 * i + 1] = s; }
void b_lgammarf(const float* x, const float* z, float* y, long n) { int s; for (long i = 0; i < n; ++i) y[2 * i] = lgammaf_r(x[i], &s), y[2 * i + 1] = s; }
void* memcpy(void*, const void*, unsigned long); void* memmove(void*, const void*, unsigned long);
void* memset(void*, int, unsigned long); int memcmp(const void*, const void*, unsigned long);
int bcmp(const void*, const void*, unsigned long); unsigned long strlen(const char*);
void* c_memcpy(void* d, const void* s, unsigned long n) { return memcpy(d, s, n); }
void* c_memmove(void* d, const void* s, unsigned long n) { return memmove(d, s, n); }
void* c_memset(void* d, int c, unsigned long n) { return memset(d, c, n); }
int c_memcmp(const void* d, const void* s, unsigned long n) { return memcmp(d, s, n); }
int c_bcmp(const void* d, const void* s, unsigned long n) { return bcmp(d, s, n); }
unsigned long c_strlen(const char* s) { return strlen(s); }
"""
NAMES = sorted(
    {part.split("(")[0].split(",")[0] for part in BUILTINS.replace("BULK(", "BULK( ").split() if part.startswith("b_")}
    | {"c_memcpy", "c_memmove", "c_memset", "c_memcmp", "c_bcmp", "c_strlen"}
)


@pytest.fixture(scope="session", params=CPUS)
def library(request):
    """The device library of one CPU level, callable on arrays; `.dll` has the loops of BUILTINS."""
    with Path("/proc/cpuinfo").open() as file:
        if request.param != "generic" and " fma " not in file.read():
            pytest.skip("this machine has no fused multiply-add, which the x86-64-v3 library needs")
    result = Library(request.param, BUILTINS, NAMES)
    for name in ("c_memcpy", "c_memmove", "c_memset"):
        getattr(result.dll, name).restype = ctypes.c_void_p
    return result
