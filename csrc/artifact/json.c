// Strict pull parser for JSON.
#include "artifact/json.h"

#include <stdlib.h>
#include <string.h>

#include "base/utf8.h"

enum {
  kMaxDepth = 64,     // of nested lists: pyd_json_skip() calls itself for each level
  kMaxDigits = 4000,  // of a number: Python refuses to convert integers that are much longer
};

// Records a fault at the current position, unless there is one already. |expected|: what should have been there, for
// the message "expected ...". Always returns false.
bool pyd_json_refuse(pyd_json_t* json, const char* expected) {
  if (!json->fault) json->fault = expected;
  return false;
}

// Appends a zeroed element of |size| bytes to the array |*list| of |*count| elements, and returns its address, which is
// valid until the next one is appended. The caller frees |*list| with free(). Returns NULL, with a fault and an
// unchanged list, when memory is short.
void* pyd_json_grow(pyd_json_t* json, void** list, uint32_t* count, size_t size) {
  // The capacity, at least 2, is a power of two and not stored. A list with 1 element gets its capacity of 2 once more.
  const bool is_full = (*count & (*count - 1)) == 0;
  if (is_full) {
    void* larger = realloc(*list, (size_t)(*count ? *count : 1) * 2 * size);
    json->is_out_of_memory |= !larger;
    if (!larger) return pyd_json_refuse(json, "memory"), NULL;
    *list = larger;
  }
  void* added = (uint8_t*)*list + (*count)++ * size;
  return memset(added, 0, size);
}

// Returns the next byte; 0 at the end and after a fault, which is valid nowhere.
static char peek(const pyd_json_t* json) { return json->fault || json->at == json->size ? 0 : json->text[json->at]; }

// Skips the next byte if it is |byte|. Returns whether it was.
static bool take(pyd_json_t* json, char byte) {
  if (peek(json) != byte) return false;
  ++json->at;
  return true;
}

// Skips white space at the current position. Callers need it only before the first value: the other functions skip the
// white space around members and elements.
void pyd_json_skip_space(pyd_json_t* json) {
  if (json->fault) return;  // the position stays at the fault
  const char* text = json->text;
  size_t at = json->at;
  while (at < json->size && (text[at] == ' ' || text[at] == '\n' || text[at] == '\t' || text[at] == '\r')) ++at;
  json->at = at;
}

// Skips |word| if it comes next. Returns whether it did.
static bool take_word(pyd_json_t* json, const char* word) {
  size_t length = strlen(word);
  if (json->fault || length > json->size - json->at || memcmp(json->text + json->at, word, length) != 0) return false;
  json->at += length;
  return true;
}

// ---- strings

// Reads four hexadecimal digits as a UTF-16 code unit.
static bool take_hex(pyd_json_t* json, uint32_t* out_unit) {
  *out_unit = 0;
  for (int i = 0; i < 4; ++i) {
    char c = peek(json);
    enum { kNoDigit = 16 };
    uint32_t digit = c >= '0' && c <= '9'   ? (uint32_t)(c - '0')
                     : c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a' + 10)
                     : c >= 'A' && c <= 'F' ? (uint32_t)(c - 'A' + 10)
                                            : kNoDigit;
    if (digit == kNoDigit) return pyd_json_refuse(json, "four hexadecimal digits after \\u");
    *out_unit = *out_unit << 4 | digit;
    ++json->at;
  }
  return true;
}

// Writes a code point in UTF-8 to |out|, which has room for 4 bytes, and returns its length in bytes. Each byte after
// the first holds 6 bits of the code point.
static size_t encode(uint32_t point, char* out) {
  if (point < 0x80) return out[0] = (char)point, 1;
  if (point < 0x800) return out[0] = (char)(0xC0 | point >> 6), out[1] = (char)(0x80 | (point & 63)), 2;
  if (point < 0x10000) {
    out[0] = (char)(0xE0 | point >> 12), out[1] = (char)(0x80 | (point >> 6 & 63)),
    out[2] = (char)(0x80 | (point & 63));
    return 3;
  }
  out[0] = (char)(0xF0 | point >> 18), out[1] = (char)(0x80 | (point >> 12 & 63));
  out[2] = (char)(0x80 | (point >> 6 & 63)), out[3] = (char)(0x80 | (point & 63));
  return 4;
}

// UTF-16 surrogates: high ones, low ones, and the first code point that takes a pair.
enum { kHighSurrogate = 0xD800, kLowSurrogate = 0xDC00, kSurrogatesEnd = 0xE000, kFirstOfPairs = 0x10000 };

// Reads the digits of a \u escape as a code point. A code point above 0xFFFF is a surrogate pair: a high surrogate in
// this escape, and a low surrogate in the next. NUL is refused, because strings have no NUL inside.
static bool take_point(pyd_json_t* json, uint32_t* out_point) {
  uint32_t unit, low;
  *out_point = 0;
  if (!take_hex(json, &unit)) return false;
  const bool is_low = unit >= kLowSurrogate && unit < kSurrogatesEnd;
  if (unit == 0 || is_low) return pyd_json_refuse(json, "a character after \\u");
  const bool is_high = unit >= kHighSurrogate && unit < kLowSurrogate;
  if (!is_high) {
    *out_point = unit;
    return true;
  }
  if (!take_word(json, "\\u") || !take_hex(json, &low) || low < kLowSurrogate || low >= kSurrogatesEnd) {
    return pyd_json_refuse(json, "the second half of a surrogate pair");
  }
  *out_point = kFirstOfPairs + ((unit - kHighSurrogate) << 10) + (low - kLowSurrogate);  // 10 bits of each
  return true;
}

// Decodes the escape after a backslash to |*end|, and advances |*end| past the character. An escape is never shorter
// than its character in UTF-8, so that strings are decoded in place.
static bool take_escape(pyd_json_t* json, char** end) {
  static const char kNames[] = "\"\\/bfnrt", kBytes[] = "\"\\/\b\f\n\r\t";  // the name kNames[i] stands for kBytes[i]
  char c = peek(json);
  const char* found = c ? strchr(kNames, c) : NULL;
  uint32_t point;
  if (!found && c != 'u') return pyd_json_refuse(json, "an escape after \\");
  ++json->at;
  if (found) {
    *(*end)++ = kBytes[found - kNames];
    return true;
  }
  if (!take_point(json, &point)) return false;
  *end += encode(point, *end);
  return true;
}

// Skips the bytes of a string up to its end, an escape, or a byte that is not printable ASCII.
static void skip_plain(pyd_json_t* json) {
  const char* text = json->text;
  size_t at = json->at;
  while (at < json->size && text[at] >= 0x20 && text[at] < 0x7F && text[at] != '"' && text[at] != '\\') ++at;
  json->at = at;
}

// Moves the next character, which is no escape, to |*end|, and advances |*end| past it.
static bool take_character(pyd_json_t* json, char** end) {
  const uint8_t* bytes = (const uint8_t*)json->text + json->at;
  // A control character is not valid in a string. peek() returns 0 at the end of the text.
  if ((unsigned char)peek(json) < 0x20) return pyd_json_refuse(json, "the end of a string");
  size_t length = pyd_utf8_length(bytes, json->size - json->at);
  if (length == 0) return pyd_json_refuse(json, "UTF-8");
  memmove(*end, bytes, length);
  json->at += length, *end += length;
  return true;
}

// Reads a string, and decodes its escapes in place: |*out_text| is in json->text. Another value is a fault.
bool pyd_json_text(pyd_json_t* json, pyd_string_t* out_text) {
  *out_text = (pyd_string_t){"", 0};
  if (!take(json, '"')) return pyd_json_refuse(json, "a string");
  char* begin = json->text + json->at;
  skip_plain(json);                   // most strings end here, without a copy
  char* end = json->text + json->at;  // of the decoded text
  while (!take(json, '"')) {
    const bool is_read = take(json, '\\') ? take_escape(json, &end) : take_character(json, &end);
    if (!is_read) return false;
    const char* from = json->text + json->at;
    skip_plain(json);
    size_t length = (size_t)(json->text + json->at - from);
    if (length) memmove(end, from, length);
    end += length;
  }
  if ((size_t)(end - begin) > UINT32_MAX) return pyd_json_refuse(json, "a shorter string");
  *out_text = (pyd_string_t){begin, (uint32_t)(end - begin)};
  return true;
}

// ---- other values

// Skips at least one digit.
static bool take_digits(pyd_json_t* json) {
  size_t from = json->at;
  while (peek(json) >= '0' && peek(json) <= '9') ++json->at;
  if (json->at - from > kMaxDigits) return pyd_json_refuse(json, "a shorter number");
  const bool has_digits = json->at > from;
  return has_digits || pyd_json_refuse(json, "a digit");
}

// Skips a number, which may have a sign, a fraction and an exponent. A malformed number is a fault.
static void skip_number(pyd_json_t* json) {
  take(json, '-');
  if (!take(json, '0') && !take_digits(json)) return;  // a leading 0 is the whole integral part
  if (take(json, '.') && !take_digits(json)) return;
  if (!take(json, 'e') && !take(json, 'E')) return;
  if (!take(json, '+')) take(json, '-');
  take_digits(json);
}

// Reads a number without sign, fraction and exponent, below 2^63; another value is a fault.
bool pyd_json_number(pyd_json_t* json, uint64_t* out_number) {
  *out_number = 0;
  size_t from = json->at;  // the number is read twice: for its form, then for its value
  if (peek(json) < '0' || peek(json) > '9') return pyd_json_refuse(json, "a whole number");
  skip_number(json);
  for (size_t i = from; i < json->at && !json->fault; ++i) {
    bool is_digit = json->text[i] >= '0' && json->text[i] <= '9';
    uint64_t digit = (uint64_t)(json->text[i] - '0');
    if (!is_digit || *out_number > ((uint64_t)INT64_MAX - digit) / 10) {  // 10 * number + digit exceeds INT64_MAX
      return pyd_json_refuse(json, "a whole number below 2^63");
    }
    *out_number = *out_number * 10 + digit;
  }
  return !json->fault;
}

// Reads true or false; another value is a fault.
bool pyd_json_bool(pyd_json_t* json, bool* out_value) {
  *out_value = take_word(json, "true");
  return *out_value || take_word(json, "false") || pyd_json_refuse(json, "true or false");
}

bool pyd_json_null(pyd_json_t* json) { return take_word(json, "null"); }

// ---- lists

// Moves to the next entry of |list|, an object or an array. Returns false after the last entry, when the closing
// bracket has been skipped, and after a fault. |brackets|: the opening and the closing one. |list_name|: for a fault.
static bool next(pyd_json_t* json, pyd_json_list_t* list, const char* brackets, const char* list_name) {
  bool is_first = !list->has_begun;
  if (is_first) {
    if (json->depth == kMaxDepth) return pyd_json_refuse(json, "less nesting");
    if (!take(json, brackets[0])) return pyd_json_refuse(json, list_name);
    ++json->depth;  // until the closing bracket
  }
  list->has_begun = true;
  pyd_json_skip_space(json);
  if (take(json, brackets[1])) {
    --json->depth;
    return false;
  }
  if (!is_first && !take(json, ',')) return pyd_json_refuse(json, "',' or the end of a list");
  pyd_json_skip_space(json);
  return !json->fault;
}

bool pyd_json_element(pyd_json_t* json, pyd_json_list_t* list) { return next(json, list, "[]", "an array"); }

// Moves to the value of the next member of an object. Returns false at the end of the object, and after a fault.
bool pyd_json_member(pyd_json_t* json, pyd_json_list_t* list, pyd_string_t* out_key) {
  if (!next(json, list, "{}", "an object") || !pyd_json_text(json, out_key)) return false;
  pyd_json_skip_space(json);
  if (!take(json, ':')) return pyd_json_refuse(json, "':'");
  pyd_json_skip_space(json);
  return true;
}

// Skips any well-formed value.
void pyd_json_skip(pyd_json_t* json) {
  pyd_json_list_t list = {false};
  pyd_string_t text;
  bool value;
  switch (peek(json)) {
    case '{':
      while (pyd_json_member(json, &list, &text)) pyd_json_skip(json);
      return;
    case '[':
      while (pyd_json_element(json, &list)) pyd_json_skip(json);
      return;
    case '"': pyd_json_text(json, &text); return;
    case 't':
    case 'f': pyd_json_bool(json, &value); return;
    case 'n':
      if (!pyd_json_null(json)) pyd_json_refuse(json, "null");
      return;
    default: skip_number(json); return;
  }
}

// Requires the end of the text, after its only value.
void pyd_json_finish(pyd_json_t* json) {
  pyd_json_skip_space(json);
  if (json->at < json->size) pyd_json_refuse(json, "nothing after the value");
}
