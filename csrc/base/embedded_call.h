// The calling convention of embedded code: System V's on every operating system. On 64-bit Windows the host's own is
// another, and the compiler translates at each call through a type that carries this attribute. Elsewhere it is empty.
#ifndef PYD_BASE_EMBEDDED_CALL_H_
#define PYD_BASE_EMBEDDED_CALL_H_

// A test may set another convention, to walk over the bridges on a system that needs none.
#if defined(PYD_EMBEDDED_CALL)
#define PYD_HAS_BRIDGES 1
#elif defined(_WIN32) && defined(__x86_64__)
#define PYD_EMBEDDED_CALL __attribute__((sysv_abi))
#define PYD_HAS_BRIDGES 1
#else
#define PYD_EMBEDDED_CALL
#define PYD_HAS_BRIDGES 0
#endif

#endif  // PYD_BASE_EMBEDDED_CALL_H_
