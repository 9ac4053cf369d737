// Creation of failures, and the names, texts and objects that are attached to them on the way to the caller.
#include "pydispatch/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Node of the list of names of a failure: the name of something that the failure refers to, such as an executable, or,
// of kind PYD_STATUS_CAUSE, a text of the failure that pyd_status_annotate() has replaced.
typedef struct name_s {
  struct name_s* next;
  pyd_status_name_t kind;
  char text[];
} name_t;

// A failure with its code, text and attached data. A pyd_status_t is a pointer to one, or NULL for success.
struct pyd_status_payload_s {
  pyd_code_t code;
  bool is_static;     // a constant: never modified, never freed
  int64_t values[5];  // see pyd_status_make_values; all 0: none
  void* object;       // see pyd_status_attach
  void (*release)(void* object);
  name_t* names;     // in the order of adding, causes from the last to the first one
  const char* text;  // in memory after the payload, or a literal when is_static
};

// Failures for when there is no memory: one constant per code, so that the code is never lost.
#define X(name, value)                                      \
  static const struct pyd_status_payload_s kBare_##name = { \
      PYD_CODE_##name, true, {0}, NULL, NULL, NULL, #name " (no memory for its text)"};
PYD_STATUS_CODES(X)
#undef X

// Returns the constant failure of |code|, for use when there is no memory for a text; for an unknown code, the constant
// failure of INTERNAL.
static pyd_status_t bare(pyd_code_t code) {
  switch (code) {
#define X(name, value) \
  case PYD_CODE_##name: return &kBare_##name;
    PYD_STATUS_CODES(X)
#undef X
  }
  return &kBare_INTERNAL;
}

// Makes a failure with a formatted text and the five values at |values|; NULL: five zeros. Without memory, returns the
// constant failure of |code|.
static pyd_status_t make(pyd_code_t code, const int64_t* values, const char* format, va_list args) {
  va_list measure;
  va_copy(measure, args);
  int length = vsnprintf(NULL, 0, format, measure);  // without the 0 at its end
  va_end(measure);
  if (length < 0) return bare(code);
  struct pyd_status_payload_s* payload = malloc(sizeof(*payload) + (size_t)length + 1);
  if (!payload) return bare(code);
  payload->code = code;
  payload->is_static = false;
  payload->object = NULL;
  payload->release = NULL;
  payload->names = NULL;
  if (values) {
    memcpy(payload->values, values, sizeof(payload->values));
  } else {
    memset(payload->values, 0, sizeof(payload->values));
  }
  char* text = (char*)(payload + 1);
  vsnprintf(text, (size_t)length + 1, format, args);
  payload->text = text;
  return payload;
}

// Creates a status with a printf-style text. Without memory the text is dropped and the code kept.
pyd_status_t pyd_status_make(pyd_code_t code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  pyd_status_t status = make(code, NULL, format, args);
  va_end(args);
  return status;
}

// Creates a status with a printf-style text and a copy of |values|, which a caller can act on without parsing the text.
// The meaning of each value depends on |code|, see status.h. Without memory only the code is kept.
pyd_status_t pyd_status_make_values(pyd_code_t code, const int64_t values[5], const char* format, ...) {
  va_list args;
  va_start(args, format);
  pyd_status_t status = make(code, values, format, args);
  va_end(args);
  return status;
}

// Returns the payload of a failure that may be modified: one that is no constant; else NULL.
static struct pyd_status_payload_s* heap_of(pyd_status_t status) {
  return status && !status->is_static ? (struct pyd_status_payload_s*)status : NULL;
}

// Returns a new node with a copy of |text|; NULL without memory.
static name_t* make_name(pyd_status_name_t kind, const char* text, size_t length) {
  name_t* node = malloc(sizeof(*node) + length + 1);
  if (!node) return NULL;
  node->next = NULL;
  node->kind = kind;
  memcpy(node->text, text, length);
  node->text[length] = 0;
  return node;
}

// Replaces the text of |status| by one made from |format|. Keeps code, values, names and object, and adds the old text
// as the first name of the kind PYD_STATUS_CAUSE. Frees |status|, and returns its replacement.
pyd_status_t pyd_status_annotate(pyd_status_t status, const char* format, ...) {
  if (pyd_ok(status)) return status;
  va_list args;
  va_start(args, format);
  pyd_status_t longer = make(status->code, status->values, format, args);
  va_end(args);
  // Names and object move to the new failure; a constant has none.
  struct pyd_status_payload_s *from = heap_of(status), *to = heap_of(longer);
  if (!to) return status;  // no memory for the longer text: the shorter one is better than none
  if (from) {
    to->names = from->names;
    from->names = NULL;
    to->object = from->object;
    to->release = from->release;
    from->object = NULL;
  }
  name_t* cause = make_name(PYD_STATUS_CAUSE, status->text, strlen(status->text));
  if (cause) {
    cause->next = to->names;
    to->names = cause;
  }
  pyd_status_free(status);
  return longer;
}

// Attaches a copy of the |length| bytes at |name| after all other names: the name of what the failure refers to, for
// callers that do not parse the text. Returns |status|.
pyd_status_t pyd_status_add_name(pyd_status_t status, pyd_status_name_t kind, const char* name, size_t length) {
  struct pyd_status_payload_s* payload = heap_of(status);
  name_t* node = payload ? make_name(kind, name, length) : NULL;
  if (!node) return status;  // success, a constant failure, or no memory: a failure without the name is valid, too
  name_t** end = &payload->names;
  while (*end) end = &(*end)->next;
  *end = node;
  return status;
}

// Attaches |object|, which belongs to another runtime, such as an exception of Python, to |status|, which then owns it:
// |release| frees the object with the status. Returns |status|. Success and constant failures own nothing: the object
// is freed at once.
pyd_status_t pyd_status_attach(pyd_status_t status, void* object, void (*release)(void* object)) {
  struct pyd_status_payload_s* payload = heap_of(status);
  if (!payload) {
    if (object) release(object);
    return status;
  }
  if (payload->object) payload->release(payload->object);  // the object that was attached before
  payload->object = object;
  payload->release = release;
  return status;
}

void* pyd_status_object(pyd_status_t status) { return status ? status->object : NULL; }

pyd_code_t pyd_status_code(pyd_status_t status) { return status ? status->code : PYD_CODE_OK; }

const char* pyd_status_text(pyd_status_t status) { return status ? status->text : ""; }

// Returns the five values of pyd_status_make_values(), valid until pyd_status_free(); all zero if the status has none.
const int64_t* pyd_status_values(pyd_status_t status) {
  static const int64_t kNone[5] = {0};
  return status ? status->values : kNone;
}

// Returns name |index| of a kind that is attached to the status; NULL if there are fewer.
const char* pyd_status_name(pyd_status_t status, pyd_status_name_t kind, uint32_t index) {
  for (const name_t* name = status ? status->names : NULL; name; name = name->next) {
    if (name->kind == kind && index-- == 0) return name->text;
  }
  return NULL;
}

// Frees a status and releases the object that is attached to it.
void pyd_status_free(pyd_status_t status) {
  struct pyd_status_payload_s* payload = heap_of(status);
  if (!payload) return;
  if (payload->object) payload->release(payload->object);
  for (name_t *name = payload->names, *next; name; name = next) {
    next = name->next;
    free(name);
  }
  free(payload);
}
