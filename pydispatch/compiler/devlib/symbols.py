"""What each source in `csrc/` defines. A test compares this table with the compiled objects."""

from __future__ import annotations

SYMBOLS: dict[str, frozenset[str]] = {
    "arithmetic": frozenset(
        (
            "cbrt cbrtf fma fmaf fmod fmodf frexp frexpf hypot hypotf ilogb ilogbf ldexp ldexpf logb logbf "
            "nextafter nextafterf remainder remainderf scalbn scalbnf"
        ).split()
    ),
    "conversion": frozenset(
        (
            "__extendbfsf2 __extendhfdf2 __extendhfsf2 __fixdfti __fixsfti __fixunsdfti __fixunssfti __floattidf "
            "__floattisf __floatuntidf __floatuntisf __gnu_f2h_ieee __gnu_h2f_ieee __powidf2 __powisf2 "
            "__truncdfbf2 __truncdfhf2 __truncsfbf2 __truncsfhf2"
        ).split()
    ),
    "erf64": frozenset(
        "erf erfc erfcf".split()
    ),
    "exp64": frozenset(
        "exp exp10 exp2 expm1 pow".split()
    ),
    "float_exp": frozenset(
        "exp10f exp2f expf expm1f log10f log1pf log2f logf powf".split()
    ),
    "float_hyperbolic": frozenset(
        "acoshf asinhf atanhf coshf erff sinhf tanhf".split()
    ),
    "float_inverse": frozenset(
        "acosf asinf atan2f atanf".split()
    ),
    "float_trig": frozenset(
        "cosf sincosf sinf tanf".split()
    ),
    "hyperbolic64": frozenset(
        "cosh sinh tanh".split()
    ),
    "integer": frozenset(
        (
            "__ashlti3 __ashrti3 __bswapdi2 __bswapsi2 __clzdi2 __clzsi2 __clzti2 __ctzdi2 __ctzsi2 __ctzti2 "
            "__divmodti4 __divti3 __ffsdi2 __ffssi2 __lshrti3 __modti3 __mulodi4 __muloti4 __multi3 __paritydi2 "
            "__paritysi2 __popcountdi2 __popcountsi2 __popcountti2 __udivmodti4 __udivti3 __umodti3"
        ).split()
    ),
    "inverse64": frozenset(
        "acos asin atan atan2".split()
    ),
    "log64": frozenset(
        "acosh asinh atanh log log10 log1p log2".split()
    ),
    "memory": frozenset(
        "bcmp memcmp memcpy memmove memset strlen".split()
    ),
    "round": frozenset(
        (
            "__finite __finitef __isinf __isinff __isnan __isnanf ceil ceilf copysign copysignf fabs fabsf fdim "
            "fdimf floor floorf fmax fmaxf fmin fminf llrint llrintf llround llroundf lrint lrintf lround "
            "lroundf modf modff nearbyint nearbyintf rint rintf round roundeven roundevenf roundf sqrt sqrtf "
            "trunc truncf"
        ).split()
    ),
    "trig64": frozenset(
        "cos sin sincos tan".split()
    ),
}
