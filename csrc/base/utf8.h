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
  size_t length = s[0] >= 0xF0 ? 4 : s[0] >= 0xE0 ? 3 : 2;
  if (s[0] < 0xC2 || s[0] > 0xF4 || length > left) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((s[i] & 0xC0) != 0x80) return 0;
  }
  // In turn: overlong, a surrogate, overlong, above U+10FFFF.
  bool is_bad = (s[0] == 0xE0 && s[1] < 0xA0) || (s[0] == 0xED && s[1] > 0x9F) || (s[0] == 0xF0 && s[1] < 0x90) ||
                (s[0] == 0xF4 && s[1] > 0x8F);
  return is_bad ? 0 : length;
}

#endif  // PYD_BASE_UTF8_H_
