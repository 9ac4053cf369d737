// Validation of UTF-8, for text that is not trusted.
#ifndef PYD_BASE_UTF8_H_
#define PYD_BASE_UTF8_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Returns the length of the UTF-8 sequence at |s|, of which |left| bytes, at least one, remain; 0 when it is invalid,
// not the shortest form, or a surrogate.
static inline size_t pyd_utf8_length(const uint8_t* s, size_t left) {
  if (s[0] < 0x80) return 1;
  // 0x80 to 0xBF continue a sequence, 0xC0 and 0xC1 begin overlong ones, 0xF5 and above exceed U+10FFFF.
  if (s[0] < 0xC2 || s[0] > 0xF4) return 0;
  size_t length = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
  if (length > left) return 0;
  for (size_t i = 1; i < length; ++i) {
    const bool is_continuation = (s[i] & 0xC0) == 0x80;
    if (!is_continuation) return 0;
  }
  bool is_overlong = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xF0 && s[1] < 0x90);
  bool is_surrogate = s[0] == 0xED && s[1] > 0x9F;
  bool is_too_large = s[0] == 0xF4 && s[1] > 0x8F;  // above U+10FFFF
  return is_overlong || is_surrogate || is_too_large ? 0 : length;
}

#endif  // PYD_BASE_UTF8_H_
