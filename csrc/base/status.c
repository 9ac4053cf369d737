#include "pydispatch/status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct pyd_status_payload_s {
  pyd_code_t code;
  bool is_static;
  int64_t values[5];
  const char* text;  // behind the payload itself, or a literal when is_static
};

// Used when there is no memory for a text: one constant per code, so that the code is never lost.
#define X(name, value) \
  static const struct pyd_status_payload_s kBare_##name = {PYD_CODE_##name, true, {0}, #name " (no memory for its text)"};
PYD_STATUS_CODES(X)
#undef X

static pyd_status_t bare(pyd_code_t code) {
  switch (code) {
#define X(name, value)   \
  case PYD_CODE_##name:  \
    return &kBare_##name;
    PYD_STATUS_CODES(X)
#undef X
  }
  return &kBare_INTERNAL;
}

static pyd_status_t make(pyd_code_t code, const int64_t* values, const char* format, va_list args) {
  va_list measure;
  va_copy(measure, args);
  int length = vsnprintf(NULL, 0, format, measure);
  va_end(measure);
  if (length < 0) return bare(code);
  struct pyd_status_payload_s* payload = malloc(sizeof(*payload) + (size_t)length + 1);
  if (!payload) return bare(code);
  payload->code = code;
  payload->is_static = false;
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

pyd_status_t pyd_status_make(pyd_code_t code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  pyd_status_t status = make(code, NULL, format, args);
  va_end(args);
  return status;
}

pyd_status_t pyd_status_make_values(pyd_code_t code, const int64_t values[5], const char* format, ...) {
  va_list args;
  va_start(args, format);
  pyd_status_t status = make(code, values, format, args);
  va_end(args);
  return status;
}

pyd_status_t pyd_status_annotate(pyd_status_t status, const char* format, ...) {
  if (pyd_ok(status)) return status;
  va_list args;
  va_start(args, format);
  pyd_status_t longer = make(status->code, status->values, format, args);
  va_end(args);
  if (longer->is_static) return status;  // no memory: the shorter text is still the better one
  pyd_status_free(status);
  return longer;
}

pyd_code_t pyd_status_code(pyd_status_t status) { return status ? status->code : PYD_CODE_OK; }

const char* pyd_status_text(pyd_status_t status) { return status ? status->text : ""; }

const int64_t* pyd_status_values(pyd_status_t status) {
  static const int64_t kNone[5] = {0};
  return status ? status->values : kNone;
}

void pyd_status_free(pyd_status_t status) {
  if (status && !status->is_static) free((void*)status);
}
