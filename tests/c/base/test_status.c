// links: base
// flags: -Wl,--wrap=malloc
// What statuses carry: code, text, numbers and names, also when memory is short.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pydispatch/status.h"

static int failures;
static int64_t allowed = INT64_MAX;  // calls of malloc that succeed

void* __real_malloc(size_t size);
void* __wrap_malloc(size_t size) { return allowed-- > 0 ? __real_malloc(size) : NULL; }

#define CHECK(condition)                                      \
  do {                                                        \
    if (!(condition)) {                                       \
      fprintf(stderr, "line %d: %s\n", __LINE__, #condition); \
      ++failures;                                             \
    }                                                         \
  } while (0)

static bool is(const char* found, const char* expected) {
  return found && expected ? strcmp(found, expected) == 0 : found == expected;
}

static pyd_status_t kernel_failure(void) {
  const int64_t values[5] = {1, 2, 3, 4, 5};
  pyd_status_t status = pyd_status_make_values(PYD_CODE_KERNEL, values, "it returned %d", 5);
  status = pyd_status_add_name(status, PYD_STATUS_EXECUTABLE, "executable...", 10);
  return pyd_status_add_name(status, PYD_STATUS_EXPORT, "export", 6);
}

static void test_names(void) {
  pyd_status_t status = kernel_failure();
  status = pyd_status_annotate(status, "call: %s", pyd_status_text(status));
  CHECK(pyd_status_code(status) == PYD_CODE_KERNEL);
  CHECK(is(pyd_status_text(status), "call: it returned 5"));
  CHECK(pyd_status_values(status)[4] == 5);
  CHECK(is(pyd_status_name(status, PYD_STATUS_EXECUTABLE, 0), "executable"));
  CHECK(is(pyd_status_name(status, PYD_STATUS_EXPORT, 0), "export"));
  CHECK(pyd_status_name(status, PYD_STATUS_EXPORT, 1) == NULL);
  CHECK(pyd_status_name(status, PYD_STATUS_SYMBOL, 0) == NULL);
  CHECK(is(pyd_status_name(status, PYD_STATUS_CAUSE, 0), "it returned 5"));
  status = pyd_status_annotate(status, "load: %s", pyd_status_text(status));
  CHECK(is(pyd_status_name(status, PYD_STATUS_CAUSE, 0), "call: it returned 5"));
  CHECK(is(pyd_status_name(status, PYD_STATUS_CAUSE, 1), "it returned 5"));
  CHECK(pyd_status_name(status, PYD_STATUS_CAUSE, 2) == NULL);
  CHECK(is(pyd_status_name(status, PYD_STATUS_EXPORT, 0), "export"));
  pyd_status_free(status);
}

static void test_several_of_a_kind(void) {
  pyd_status_t status = pyd_status_make(PYD_CODE_MISSING_IMPORT, "two");
  status = pyd_status_add_name(status, PYD_STATUS_SYMBOL, "a", 1);
  status = pyd_status_add_name(status, PYD_STATUS_EXECUTABLE, "", 0);
  status = pyd_status_add_name(status, PYD_STATUS_SYMBOL, "b", 1);
  CHECK(is(pyd_status_name(status, PYD_STATUS_SYMBOL, 0), "a"));
  CHECK(is(pyd_status_name(status, PYD_STATUS_SYMBOL, 1), "b"));
  CHECK(pyd_status_name(status, PYD_STATUS_SYMBOL, 2) == NULL);
  CHECK(is(pyd_status_name(status, PYD_STATUS_EXECUTABLE, 0), ""));
  pyd_status_free(status);
}

static void count_release(void* object) { ++*(int*)object; }

// An attached object is released once, whatever becomes of the status.
static void test_objects(void) {
  int first = 0, second = 0;
  pyd_status_t status = pyd_status_attach(kernel_failure(), &first, count_release);
  CHECK(pyd_status_object(status) == &first);
  status = pyd_status_annotate(status, "call: %s", pyd_status_text(status));
  CHECK(pyd_status_object(status) == &first && first == 0);
  status = pyd_status_attach(status, &second, count_release);
  CHECK(pyd_status_object(status) == &second && first == 1);
  pyd_status_free(status);
  CHECK(first == 1 && second == 1);
  allowed = 0;
  status = pyd_status_attach(kernel_failure(), &first, count_release);  // there is no memory for more than the code
  allowed = INT64_MAX;
  CHECK(pyd_status_object(status) == NULL && first == 2);
  CHECK(pyd_ok(pyd_status_attach(PYD_STATUS_OK, &first, count_release)) && first == 3);
  CHECK(pyd_status_object(PYD_STATUS_OK) == NULL);
  pyd_status_free(status);
}

static void test_success(void) {
  CHECK(pyd_ok(pyd_status_add_name(PYD_STATUS_OK, PYD_STATUS_EXPORT, "x", 1)));
  CHECK(pyd_ok(pyd_status_annotate(PYD_STATUS_OK, "text")));
  CHECK(pyd_status_name(PYD_STATUS_OK, PYD_STATUS_EXPORT, 0) == NULL);
  CHECK(pyd_status_code(PYD_STATUS_OK) == PYD_CODE_OK && is(pyd_status_text(PYD_STATUS_OK), ""));
  CHECK(pyd_status_values(PYD_STATUS_OK)[0] == 0);
  pyd_status_free(PYD_STATUS_OK);
}

// The code is never lost; what there is no memory for is left out.
static void test_no_memory(void) {
  for (int64_t count = 0; count <= 4; ++count) {
    allowed = count;
    pyd_status_t status = kernel_failure();
    status = pyd_status_annotate(status, "call: %s", pyd_status_text(status));
    allowed = INT64_MAX;
    CHECK(pyd_status_code(status) == PYD_CODE_KERNEL);
    CHECK(is(pyd_status_name(status, PYD_STATUS_EXECUTABLE, 0), count > 1 ? "executable" : NULL));
    CHECK(is(pyd_status_name(status, PYD_STATUS_EXPORT, 0), count > 2 ? "export" : NULL));
    const char* text = count > 3   ? "call: it returned 5"
                       : count > 0 ? "it returned 5"
                                   : "KERNEL (no memory for its text)";
    CHECK(is(pyd_status_text(status), text));
    pyd_status_free(status);
  }
}

int main(void) {
  test_names();
  test_several_of_a_kind();
  test_objects();
  test_success();
  test_no_memory();
  return failures != 0;
}
