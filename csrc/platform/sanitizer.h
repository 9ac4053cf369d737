// Which sanitizer this code was built with: gcc defines macros, clang has features.
#ifndef PYD_PLATFORM_SANITIZER_H_
#define PYD_PLATFORM_SANITIZER_H_

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PYD_HAS_ASAN true
#elif __has_feature(thread_sanitizer)
#define PYD_HAS_TSAN true
#endif
#endif
#if !defined(PYD_HAS_ASAN)
#if defined(__SANITIZE_ADDRESS__)
#define PYD_HAS_ASAN true
#else
#define PYD_HAS_ASAN false
#endif
#endif
#if !defined(PYD_HAS_TSAN)
#if defined(__SANITIZE_THREAD__)
#define PYD_HAS_TSAN true
#else
#define PYD_HAS_TSAN false
#endif
#endif

#endif  // PYD_PLATFORM_SANITIZER_H_
