// links: base platform elf fatelf artifact imports executable memory plugin sched process program api standalone
// flags: -Wl,--wrap=malloc,--wrap=realloc
// Files of weights as C reads them: what is taken from them, and what is refused.
#include "standalone/weights.h"

#include "program/builder.h"
#include "standalone/no_memory.h"

static pyd_status_t read(const char* header, uint64_t length, size_t elements, pyd_weights_t* out_weights) {
  static uint8_t file[4096];
  size_t size = strlen(header);
  for (int i = 0; i < 8; ++i) file[i] = (uint8_t)(length >> 8 * i);
  memcpy(file + 8, header, size);
  for (size_t i = 0; i < elements; ++i) file[8 + size + i] = (uint8_t)i;
  uint8_t* exact = malloc(8 + size + elements);  // so that a sanitizer sees what is read beyond
  memcpy(exact, file, 8 + size + elements);
  pyd_status_t status = pyd_weights_read((pyd_span_t){exact, 8 + size + elements}, out_weights);
  for (uint32_t i = 0; i < out_weights->count; ++i) {
    const pyd_weight_t* t = &out_weights->tensors[i];
    CHECK(t->data.data >= exact && t->data.data + t->data.size <= exact + 8 + size + elements);
    CHECK(!t->data.size || t->data.data[0] == (uint8_t)(t->data.data - exact - 8 - size));
  }
  free(exact);
  return status;
}

#define TENSOR(dtype, shape, offsets) "{\"dtype\":\"" dtype "\",\"shape\":" shape ",\"data_offsets\":" offsets "}"

static void test_taken(void) {
  static const char kHeader[] =
      "{\"__metadata__\":{\"format\":\"pt\"},\"w\":" TENSOR("F32", "[2,3]", "[0,24]") ",\"b\":" TENSOR(
          "BF16", "[]", "[24,26]") ",\"e\":" TENSOR("U8", "[0,7]", "[26,26]") ",\"x\":" TENSOR("F4", "[3]",
                                                                                               "[24,26]") "}  ";
  pyd_weights_t w;
  CHECK_OK(read(kHeader, strlen(kHeader), 26, &w));
  CHECK(w.count == 4 && w.dims_count == 5);
  const pyd_weight_t* found = pyd_weights_find(&w, (pyd_string_t){"w", 1});
  CHECK(found && found->dtype == 0x21000020 && found->rank == 2 && w.dims[found->first_dim + 1] == 3 &&
        found->data.size == 24);
  CHECK(pyd_weights_find(&w, (pyd_string_t){"b", 1})->dtype == 0x22000010 &&
        !pyd_weights_find(&w, (pyd_string_t){"b", 1})->rank);
  CHECK(pyd_weights_find(&w, (pyd_string_t){"x", 1})->dtype == 0);  // of no use, and no fault
  CHECK(!pyd_weights_find(&w, (pyd_string_t){"", 0}) && !pyd_weights_find(&w, (pyd_string_t){"ww", 2}));
  pyd_weights_free(&w);
}

static void test_refused(void) {
  static const char* const kCases[][2] = {
      {"", "expected an object"},
      {"{\"w\":1}", "an object"},
      {"{\"w\":{}}", "a tensor with dtype, shape and data_offsets"},
      {"{\"w\":" TENSOR("F32", "[3]", "[0,8]") "}", "as many bytes as the tensor has"},
      {"{\"w\":" TENSOR("F32", "[2]", "[8,0]") "}", "two offsets within the file"},
      {"{\"w\":" TENSOR("F32", "[2]", "[16,24]") "}", "two offsets within the file"},
      {"{\"w\":" TENSOR("F32", "[2]", "[0]") "}", "two offsets within the file"},
      {"{\"w\":" TENSOR("F32", "[2]", "[0,8,8]") "}", "expected"},
      {"{\"w\":" TENSOR("F32", "[-2]", "[0,8]") "}", "a whole number"},
      {"{\"w\":" TENSOR("F32", "[4611686018427387904,4611686018427387904]", "[0,0]") "}", "as many bytes"},
      {"{\"w\":" TENSOR("F32", "[1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2]", "[0,8]") "}",
       "up to 32 sizes"},
      {"{\"w\":{\"dtype\":\"F32\",\"dtype\":\"F32\"}}", "no member twice"},
      {"{\"w\":{\"strides\":[1]}}", "a tensor with dtype, shape and data_offsets"},
      {"{} x", "nothing after the value"},
  };
  pyd_weights_t w;
  for (size_t i = 0; i < sizeof(kCases) / sizeof(*kCases); ++i) {
    CHECK_REFUSED(read(kCases[i][0], strlen(kCases[i][0]), 16, &w), CORRUPT, kCases[i][1]);
    CHECK(!w.tensors && !w.text && !w.count);
  }
  CHECK_REFUSED(read("{}", 3, 0, &w), CORRUPT, "a header of 3 bytes in a file of 10");
  CHECK_REFUSED(read("{}", UINT64_MAX, 0, &w), CORRUPT, "not a safetensors file");
  CHECK_REFUSED(pyd_weights_read((pyd_span_t){(const uint8_t*)"{}", 2}, &w), CORRUPT, "in a file of 2");
  CHECK_REFUSED(pyd_weights_read((pyd_span_t){NULL, 0}, &w), CORRUPT, "in a file of 0");
}

// Each allocation fails in turn.
static void test_no_memory(void) {
  static const char kHeader[] = "{\"__metadata__\":{},\"w\":" TENSOR("F32", "[1,1,1]", "[0,4]") "}";
  uint8_t file[8 + sizeof(kHeader) - 1 + 4] = {sizeof(kHeader) - 1};
  memcpy(file + 8, kHeader, sizeof(kHeader) - 1);
  pyd_weights_t w;
  bool is_done = false;
  for (int64_t allowed = 0; !is_done; ++allowed) {
    g_allowed = allowed;
    pyd_status_t status = pyd_weights_read((pyd_span_t){file, sizeof(file)}, &w);
    g_allowed = INT64_MAX;
    is_done = pyd_ok(status);
    if (is_done) {
      CHECK(w.count == 1 && w.dims_count == 3);
      pyd_weights_free(&w);
    } else {
      CHECK(allowed < 20 && pyd_status_code(status) == PYD_CODE_OUT_OF_MEMORY && !w.tensors && !w.text && !w.dims);
    }
    pyd_status_free(status);
  }
}

int main(void) {
  test_taken();
  test_refused();
  test_no_memory();
  return 0;
}
