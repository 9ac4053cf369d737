// CRC-32 as zip uses it: polynomial 0x04C11DB7 with its bits reversed, all ones before and after.
#include "pydispatch/artifact.h"

#include "base/span.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <wmmintrin.h>
#define HAVE_FOLDING 1
#endif

// Eight tables, to process eight bytes at once: table k holds what a byte contributes when k zero bytes follow
// it. The sum is linear over the bits of the byte, so a table is spanned by its entries at 1, 2, 4, … 128, and the
// compiler adds them up.
#define SPAN(n, b0, b1, b2, b3, b4, b5, b6, b7)                                                                   \
  (((n) & 1 ? b0 : 0u) ^ ((n) & 2 ? b1 : 0u) ^ ((n) & 4 ? b2 : 0u) ^ ((n) & 8 ? b3 : 0u) ^ ((n) & 16 ? b4 : 0u) ^ \
   ((n) & 32 ? b5 : 0u) ^ ((n) & 64 ? b6 : 0u) ^ ((n) & 128 ? b7 : 0u))
#define FOUR(n, ...) \
  SPAN(n, __VA_ARGS__), SPAN((n) + 1, __VA_ARGS__), SPAN((n) + 2, __VA_ARGS__), SPAN((n) + 3, __VA_ARGS__)
#define SIXTEEN(n, ...) \
  FOUR(n, __VA_ARGS__), FOUR((n) + 4, __VA_ARGS__), FOUR((n) + 8, __VA_ARGS__), FOUR((n) + 12, __VA_ARGS__)
#define SIXTY_FOUR(n, ...)                                                                 \
  SIXTEEN(n, __VA_ARGS__), SIXTEEN((n) + 16, __VA_ARGS__), SIXTEEN((n) + 32, __VA_ARGS__), \
      SIXTEEN((n) + 48, __VA_ARGS__)
#define TABLE(...) \
  {SIXTY_FOUR(0, __VA_ARGS__), SIXTY_FOUR(64, __VA_ARGS__), SIXTY_FOUR(128, __VA_ARGS__), SIXTY_FOUR(192, __VA_ARGS__)}

static const uint32_t kTables[8][256] = {
    TABLE(0x77073096, 0xEE0E612C, 0x076DC419, 0x0EDB8832, 0x1DB71064, 0x3B6E20C8, 0x76DC4190, 0xEDB88320),
    TABLE(0x191B3141, 0x32366282, 0x646CC504, 0xC8D98A08, 0x4AC21251, 0x958424A2, 0xF0794F05, 0x3B83984B),
    TABLE(0x01C26A37, 0x0384D46E, 0x0709A8DC, 0x0E1351B8, 0x1C26A370, 0x384D46E0, 0x709A8DC0, 0xE1351B80),
    TABLE(0xB8BC6765, 0xAA09C88B, 0x8F629757, 0xC5B428EF, 0x5019579F, 0xA032AF3E, 0x9B14583D, 0xED59B63B),
    TABLE(0x3D6029B0, 0x7AC05360, 0xF580A6C0, 0x30704BC1, 0x60E09782, 0xC1C12F04, 0x58F35849, 0xB1E6B092),
    TABLE(0xCB5CD3A5, 0x4DC8A10B, 0x9B914216, 0xEC53826D, 0x03D6029B, 0x07AC0536, 0x0F580A6C, 0x1EB014D8),
    TABLE(0xA6770BB4, 0x979F1129, 0xF44F2413, 0x33EF4E67, 0x67DE9CCE, 0xCFBD399C, 0x440B7579, 0x8816EAF2),
    TABLE(0xCCAA009E, 0x4225077D, 0x844A0EFA, 0xD3E51BB5, 0x7CBB312B, 0xF9766256, 0x299DC2ED, 0x533B85DA),
};

// Continues the checksum by |length| bytes. |crc|: the register of the CRC, not yet inverted.
static uint32_t sum_bytes(uint32_t crc, const uint8_t* data, size_t length) {
  while (length--) crc = crc >> 8 ^ kTables[0][(crc ^ *data++) & 0xFF];
  return crc;
}

// Continues the checksum by |length| bytes, eight at a time: table k has the effect of a byte that k bytes of the eight
// follow. |crc|: the register of the CRC, not yet inverted.
static uint32_t sum_by_eight(uint32_t crc, const uint8_t* data, size_t length) {
  for (; length >= 8; data += 8, length -= 8) {
    uint32_t low = pyd_load_u32(data) ^ crc;
    uint32_t high = pyd_load_u32(data + 4);
    crc = kTables[7][low & 0xFF] ^ kTables[6][low >> 8 & 0xFF] ^ kTables[5][low >> 16 & 0xFF] ^ kTables[4][low >> 24] ^
          kTables[3][high & 0xFF] ^ kTables[2][high >> 8 & 0xFF] ^ kTables[1][high >> 16 & 0xFF] ^
          kTables[0][high >> 24];
  }
  return sum_bytes(crc, data, length);
}

#if HAVE_FOLDING
// Carry-less multiplication moves 128 bits of message forward by D bits: the half with the higher powers of x times
// x^(D+32) mod P, the other times x^(D−32) mod P, both added to the existing words (Gopal et al., "Fast CRC Computation
// for Generic Polynomials Using PCLMULQDQ", Intel 2009). Each constant is the remainder with its bits reversed,
// times 2.
#define FOLD_512_HIGH 0x154442BD4
#define FOLD_512_LOW 0x1C6E41596
#define FOLD_128_HIGH 0x1751997D0
#define FOLD_128_LOW 0x0CCAA009E

// Moves the 128 bits |state| forward by 512 or 128 bits of message, and adds the 16 message bytes |next| that are
// there. |constants|: those of the distance, FOLD_*_HIGH in the lower half and FOLD_*_LOW in the upper one.
__attribute__((target("sse2,pclmul"))) static __m128i fold(__m128i state, __m128i constants, __m128i next) {
  // Bits are reversed: the lower halves, which 0x00 selects, have the higher powers of x.
  __m128i high = _mm_clmulepi64_si128(state, constants, 0x00);
  __m128i low = _mm_clmulepi64_si128(state, constants, 0x11);
  return _mm_xor_si128(_mm_xor_si128(high, low), next);
}

// Loads 16 bytes from any address.
__attribute__((target("sse2,pclmul"))) static __m128i load(const uint8_t* data) {
  return _mm_loadu_si128((const __m128i*)data);
}

// Continues the checksum by |length| bytes, at least 64, with carry-less multiplications. Folds the message, 64 and
// then 16 bytes at a time, into 128 bits that have the same checksum, and computes that from tables.
__attribute__((target("sse2,pclmul"))) static uint32_t sum_by_folding(uint32_t crc, const uint8_t* data,
                                                                      size_t length) {
  const __m128i by_512 = _mm_set_epi64x(FOLD_512_LOW, FOLD_512_HIGH);
  const __m128i by_128 = _mm_set_epi64x(FOLD_128_LOW, FOLD_128_HIGH);
  __m128i s0 = _mm_xor_si128(load(data), _mm_cvtsi32_si128((int)crc));
  __m128i s1 = load(data + 16);
  __m128i s2 = load(data + 32);
  __m128i s3 = load(data + 48);
  for (data += 64, length -= 64; length >= 64; data += 64, length -= 64) {
    s0 = fold(s0, by_512, load(data));
    s1 = fold(s1, by_512, load(data + 16));
    s2 = fold(s2, by_512, load(data + 32));
    s3 = fold(s3, by_512, load(data + 48));
  }
  s1 = fold(s0, by_128, s1);
  s2 = fold(s1, by_128, s2);
  s3 = fold(s2, by_128, s3);
  for (; length >= 16; data += 16, length -= 16) s3 = fold(s3, by_128, load(data));
  uint8_t folded[16];
  _mm_storeu_si128((__m128i*)folded, s3);
  return sum_bytes(sum_by_eight(0, folded, 16), data, length);
}
#endif

// Returns the CRC-32, as zip and PNG define it, of |length| bytes appended to bytes whose CRC-32 is |seed|; 0: to none.
uint32_t pyd_crc32(uint32_t seed, const void* data, size_t length) {
#if HAVE_FOLDING
  // Reads the CPU features that the C runtime found at start. A CPUID instruction here would trap in a virtual machine.
  // Folding starts with 64 bytes.
  if (length >= 64 && __builtin_cpu_supports("pclmul")) return ~sum_by_folding(~seed, data, length);
#endif
  return ~sum_by_eight(~seed, data, length);
}
