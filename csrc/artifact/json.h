// Strict pull parser for JSON: callers read the text once, in order, without a document tree. Any bytes are accepted as
// input; after the first error every function returns false.
#ifndef PYD_ARTIFACT_JSON_H_
#define PYD_ARTIFACT_JSON_H_

#include <string.h>

#include "pydispatch/program.h"

// A parser of one JSON text, with its position and the first fault.
typedef struct pyd_json_s {
  char* text;             // strings are decoded in place
  size_t size, at;        // bytes of |text|, and the offset of the next byte to read
  uint32_t depth;         // of nested objects and arrays around |at|
  const char* fault;      // what was expected at |at|; NULL: none so far
  bool is_out_of_memory;  // the fault is that a list could not grow
} pyd_json_t;

// State of reading one object with pyd_json_member(), or one array with pyd_json_element(). Zero before the first call.
typedef struct pyd_json_list_s {
  bool has_begun;  // the opening bracket has been read
} pyd_json_list_t;

// The next member of an object, before its value; false at the end, and after a fault.
bool pyd_json_member(pyd_json_t* json, pyd_json_list_t* list, pyd_string_t* out_key);
// The next element of an array; false at the end, and after a fault.
bool pyd_json_element(pyd_json_t* json, pyd_json_list_t* list);

// Reads a string, and decodes its escapes in place, in json->text. It is valid UTF-8 without NUL. A value of another
// type is a fault, here and in the next two functions.
bool pyd_json_text(pyd_json_t* json, pyd_string_t* out_text);
// Reads an integer from 0 to 2^63 - 1.
bool pyd_json_number(pyd_json_t* json, uint64_t* out_number);
bool pyd_json_bool(pyd_json_t* json, bool* out_value);
// Returns whether the next value is a string. Consumes nothing.
static inline bool pyd_json_is_text(const pyd_json_t* json) {
  return json->at < json->size && json->text[json->at] == '"';
}
// Whether the value is null, which is consumed then.
bool pyd_json_null(pyd_json_t* json);
// Any value, which must be well-formed.
void pyd_json_skip(pyd_json_t* json);
// Skips white space before the first value.
void pyd_json_skip_space(pyd_json_t* json);
// Requires the end of the text, after its only value.
void pyd_json_finish(pyd_json_t* json);

bool pyd_json_refuse(pyd_json_t* json, const char* expected);

// Appends a zeroed element of |size| bytes to the array |*list| of |*count| elements, and returns its address, which is
// valid until the next one is appended. The caller frees |*list| with free(). NULL, with a fault: out of memory.
void* pyd_json_grow(pyd_json_t* json, void** list, uint32_t* count, size_t size);

// Returns whether |text| has the characters of |expected|.
static inline bool pyd_text_is(pyd_string_t text, const char* expected) {
  return text.length == strlen(expected) && (!text.length || memcmp(text.data, expected, text.length) == 0);
}

#endif  // PYD_ARTIFACT_JSON_H_
