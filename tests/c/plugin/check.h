#ifndef PYD_TESTS_PLUGIN_CHECK_H_
#define PYD_TESTS_PLUGIN_CHECK_H_

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pydispatch/plugin_host.h"

#define CHECK(condition)                                              \
  do {                                                                \
    if (!(condition)) {                                               \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                        \
    }                                                                 \
  } while (0)

// |status| has this code and text; freed.
static inline void expect_at(int line, pyd_status_t status, pyd_code_t code, const char* text) {
  if (pyd_status_code(status) != code || strcmp(pyd_status_text(status), text) != 0) {
    fprintf(stderr, "line %d: code %d '%s'\n  expected %d '%s'\n", line, (int)pyd_status_code(status),
            pyd_status_text(status), (int)code, text);
    exit(1);
  }
  pyd_status_free(status);
}
#define EXPECT(status, code, text) expect_at(__LINE__, status, PYD_CODE_##code, text)
#define EXPECT_OK(status) expect_at(__LINE__, status, PYD_CODE_OK, "")

#endif  // PYD_TESTS_PLUGIN_CHECK_H_
