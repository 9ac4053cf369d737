// memcpy, memmove, memset, memcmp, bcmp, strlen. Compiled with -fno-builtin, so that no loop here
// becomes a call to the function it implements. Short sizes take two overlapping accesses, long ones 64 bytes a turn.
#include <stddef.h>
#include <stdint.h>

#if defined(__riscv) && !defined(__riscv_misaligned_fast)
#define PYD_UNALIGNED 0  // an unaligned access may trap: words only where both sides are aligned alike
#else
#define PYD_UNALIGNED 1
#endif

typedef uint8_t pyd_block_t __attribute__((vector_size(16), aligned(1), may_alias));
typedef uint64_t pyd_word_t __attribute__((aligned(1), may_alias));
typedef uint32_t pyd_half_t __attribute__((aligned(1), may_alias));
typedef uint16_t pyd_quarter_t __attribute__((aligned(1), may_alias));
typedef uint64_t pyd_aligned_t __attribute__((may_alias));

// Memory at p as a value of a type, to write and to read.
#define PYD_AT(type, p) (*(type*)(p))
#define PYD_OF(type, p) (*(const type*)(p))

#if PYD_UNALIGNED
// Every load of a short copy precedes every store, so that overlap does not matter.
static inline void pyd_move_short(uint8_t* d, const uint8_t* s, size_t n) {
  if (n >= 16) {
    pyd_block_t a = PYD_OF(pyd_block_t, s), b = PYD_OF(pyd_block_t, s + n - 16);
    PYD_AT(pyd_block_t, d) = a, PYD_AT(pyd_block_t, d + n - 16) = b;
  } else if (n >= 8) {
    uint64_t a = PYD_OF(pyd_word_t, s), b = PYD_OF(pyd_word_t, s + n - 8);
    PYD_AT(pyd_word_t, d) = a, PYD_AT(pyd_word_t, d + n - 8) = b;
  } else if (n >= 4) {
    uint32_t a = PYD_OF(pyd_half_t, s), b = PYD_OF(pyd_half_t, s + n - 4);
    PYD_AT(pyd_half_t, d) = a, PYD_AT(pyd_half_t, d + n - 4) = b;
  } else if (n >= 2) {
    uint16_t a = PYD_OF(pyd_quarter_t, s), b = PYD_OF(pyd_quarter_t, s + n - 2);
    PYD_AT(pyd_quarter_t, d) = a, PYD_AT(pyd_quarter_t, d + n - 2) = b;
  } else if (n) {
    *d = *s;
  }
}
// In ascending order. The last 32 bytes are loaded first, as stores may overwrite them, and stored last:
// whole blocks, which may overlap those before.
static void pyd_move_up(uint8_t* d, const uint8_t* s, size_t n) {  // d < s, or no overlap; n > 32
  pyd_block_t last0 = PYD_OF(pyd_block_t, s + n - 16), last1 = PYD_OF(pyd_block_t, s + n - 32);
  uint8_t* end = d + n;
  for (; n > 64; n -= 64, d += 64, s += 64) {
    pyd_block_t a = PYD_OF(pyd_block_t, s), b = PYD_OF(pyd_block_t, s + 16);
    pyd_block_t c = PYD_OF(pyd_block_t, s + 32), e = PYD_OF(pyd_block_t, s + 48);
    PYD_AT(pyd_block_t, d) = a, PYD_AT(pyd_block_t, d + 16) = b;
    PYD_AT(pyd_block_t, d + 32) = c, PYD_AT(pyd_block_t, d + 48) = e;
  }
  for (; n > 32; n -= 16, d += 16, s += 16) {
    pyd_block_t a = PYD_OF(pyd_block_t, s);
    PYD_AT(pyd_block_t, d) = a;
  }
  PYD_AT(pyd_block_t, end - 32) = last1, PYD_AT(pyd_block_t, end - 16) = last0;
}
// In descending order; the first 32 bytes are loaded first, and stored last.
static void pyd_move_down(uint8_t* d, const uint8_t* s, size_t n) {  // d > s; n > 32
  pyd_block_t first0 = PYD_OF(pyd_block_t, s), first1 = PYD_OF(pyd_block_t, s + 16);
  for (; n > 64; n -= 64) {
    pyd_block_t a = PYD_OF(pyd_block_t, s + n - 16), b = PYD_OF(pyd_block_t, s + n - 32);
    pyd_block_t c = PYD_OF(pyd_block_t, s + n - 48), e = PYD_OF(pyd_block_t, s + n - 64);
    PYD_AT(pyd_block_t, d + n - 16) = a, PYD_AT(pyd_block_t, d + n - 32) = b;
    PYD_AT(pyd_block_t, d + n - 48) = c, PYD_AT(pyd_block_t, d + n - 64) = e;
  }
  for (; n > 32; n -= 16) {
    pyd_block_t a = PYD_OF(pyd_block_t, s + n - 16);
    PYD_AT(pyd_block_t, d + n - 16) = a;
  }
  PYD_AT(pyd_block_t, d) = first0, PYD_AT(pyd_block_t, d + 16) = first1;
}
void* memmove(void* target, const void* source, size_t n) {
  uint8_t* d = target;
  const uint8_t* s = source;
  if (n <= 32) {
    pyd_move_short(d, s, n);
  } else if ((uintptr_t)d - (uintptr_t)s >= n) {  // unsigned: also where d < s
    pyd_move_up(d, s, n);
  } else {
    pyd_move_down(d, s, n);
  }
  return target;
}
void* memcpy(void* restrict target, const void* restrict source, size_t n) {
  if (n <= 32) {
    pyd_move_short(target, source, n);
  } else {
    pyd_move_up(target, source, n);
  }
  return target;
}
#else
static void pyd_move_up(uint8_t* d, const uint8_t* s, size_t n) {
  if ((((uintptr_t)d ^ (uintptr_t)s) & 7) == 0) {
    for (; n && ((uintptr_t)d & 7); --n) *d++ = *s++;
    for (; n >= 8; n -= 8, d += 8, s += 8) PYD_AT(pyd_aligned_t, d) = PYD_OF(pyd_aligned_t, s);
  }
  for (; n; --n) *d++ = *s++;
}
static void pyd_move_down(uint8_t* d, const uint8_t* s, size_t n) {
  if ((((uintptr_t)d ^ (uintptr_t)s) & 7) == 0) {
    for (; n && ((uintptr_t)(d + n) & 7); --n) d[n - 1] = s[n - 1];
    for (; n >= 8; n -= 8) PYD_AT(pyd_aligned_t, d + n - 8) = PYD_OF(pyd_aligned_t, s + n - 8);
  }
  for (; n; --n) d[n - 1] = s[n - 1];
}
void* memmove(void* target, const void* source, size_t n) {
  if ((uintptr_t)target - (uintptr_t)source >= n) {
    pyd_move_up(target, source, n);
  } else {
    pyd_move_down(target, source, n);
  }
  return target;
}
void* memcpy(void* restrict target, const void* restrict source, size_t n) {
  pyd_move_up(target, source, n);
  return target;
}
#endif

void* memset(void* target, int value, size_t n) {
  uint8_t* d = target;
  uint64_t word = (uint8_t)value * UINT64_C(0x0101010101010101);
  while (n && ((uintptr_t)d & 7)) *d++ = (uint8_t)value, --n;
  for (; n >= 32; n -= 32, d += 32) {
    PYD_AT(pyd_aligned_t, d) = word, PYD_AT(pyd_aligned_t, d + 8) = word;
    PYD_AT(pyd_aligned_t, d + 16) = word, PYD_AT(pyd_aligned_t, d + 24) = word;
  }
  for (; n >= 8; n -= 8, d += 8) PYD_AT(pyd_aligned_t, d) = word;
  for (; n; --n) *d++ = (uint8_t)value;
  return target;
}

int memcmp(const void* left, const void* right, size_t n) {
  const uint8_t *a = left, *b = right;
#if PYD_UNALIGNED
  for (; n >= 8 && PYD_OF(pyd_word_t, a) == PYD_OF(pyd_word_t, b); n -= 8) a += 8, b += 8;
#endif
  for (; n; --n, ++a, ++b) {
    if (*a != *b) return *a - *b;
  }
  return 0;
}
int bcmp(const void* left, const void* right, size_t n) { return memcmp(left, right, n); }

size_t strlen(const char* text) {
  const char* end = text;
  while (*end) ++end;
  return (size_t)(end - text);
}
