// links: base platform sched memory program api process target xla
// with: ../program/double.c
// tsan: 3
// The handler of XLA with frames made by hand: calls that fit, hostile ones, numbers, threads, and what is kept.
#include "xla/ffi.h"

#include <pthread.h>

#include "target/sample.h"

// ---- XLA's side

struct pyd_xla_error_s {
  int code;
  char text[400];
};
static pyd_xla_error_t* create_error(pyd_xla_error_args_t* args) {
  pyd_xla_error_t* error = malloc(sizeof(*error));
  CHECK(error && args->struct_size == 28 && !args->extensions && args->message);
  error->code = args->code;
  snprintf(error->text, sizeof(error->text), "%s", args->message);
  return error;
}
static const pyd_xla_api_t kApi = {.struct_size = sizeof(kApi), .error_create = create_error};

// A call with at most two arguments, results and attributes, each of rank 1 at most.
typedef struct given_s {
  pyd_xla_frame_t frame;
  pyd_xla_buffer_t buffers[4];
  int64_t dims[4];
  int kinds[4], attribute_kinds[2];
  void* items[4];
  int64_t number;
  pyd_xla_scalar_t scalar;
  pyd_xla_text_t name, other;
  pyd_xla_text_t* names[2];
  void* attributes[2];
} given_t;

static void give(given_t* g, int i, int dtype, void* data, int64_t size) {  // size -1: a number
  g->dims[i] = size;
  g->buffers[i] = (pyd_xla_buffer_t){
      .struct_size = sizeof(g->buffers[i]), .dtype = dtype, .data = data, .rank = size >= 0, .dims = &g->dims[i]};
  g->kinds[i] = PYD_XLA_BUFFER;
  g->items[i] = &g->buffers[i];
}
static void start(given_t* g, uint64_t number, int arguments, int results) {
  memset(g, 0, sizeof(*g));
  g->number = (int64_t)number;
  g->scalar = (pyd_xla_scalar_t){PYD_XLA_S64, &g->number};
  g->name = (pyd_xla_text_t){"function", 8};
  g->other = (pyd_xla_text_t){"a", 1};
  g->names[0] = &g->other, g->names[1] = &g->name;
  g->attributes[0] = NULL, g->attributes[1] = &g->scalar;
  g->attribute_kinds[0] = 4, g->attribute_kinds[1] = PYD_XLA_SCALAR;
  g->frame = (pyd_xla_frame_t){
      .struct_size = sizeof(g->frame),
      .api = &kApi,
      .stage = PYD_XLA_STAGE_EXECUTE,
      .arguments = {sizeof(pyd_xla_values_t), NULL, arguments, g->kinds, g->items},
      .results = {sizeof(pyd_xla_values_t), NULL, results, g->kinds + 2, g->items + 2},
      .attributes = {sizeof(pyd_xla_attributes_t), NULL, 2, g->attribute_kinds, g->names, g->attributes},
  };
}
static void give_mul(given_t* g, uint64_t number, float* a, float* b, float* out, int64_t n) {
  start(g, number, 2, 1);
  give(g, 0, PYD_XLA_F32, a, n);
  give(g, 1, PYD_XLA_F32, b, n);
  give(g, 2, PYD_XLA_F32, out, n);
}

static void check_good(const given_t* g, int line) {
  pyd_xla_error_t* error = pyd_xla_call(&g->frame);
  if (!error) return;
  fprintf(stderr, "line %d: %s\n", line, error->text);
  exit(1);
}
#define GOOD(g) check_good((g), __LINE__)
static void check_bad(const given_t* g, int code, const char* text, int line) {
  pyd_xla_error_t* error = pyd_xla_call(&g->frame);
  if (!error || error->code != code || !strstr(error->text, text)) {
    fprintf(stderr, "line %d: expected code %d with \"%s\", got %d \"%s\"\n", line, code, text, error ? error->code : 0,
            error ? error->text : "success");
    exit(1);
  }
  free(error);
}
#define BAD(g, code, text) check_bad((g), PYD_XLA_##code, (text), __LINE__)

// ---- tests

enum { MUL = 1000, SIZED = 7, FAIL = 1u << 31, TAIL = 500 };

static void test_metadata(void) {
  pyd_xla_metadata_t metadata = {.struct_size = sizeof(metadata), .version = {.major = 9, .minor = 9}, .traits = 9};
  pyd_xla_metadata_extension_t question = {{sizeof(question), PYD_XLA_EXTENSION_METADATA, NULL}, &metadata};
  pyd_xla_extension_t unknown = {sizeof(unknown), 99, &question.base};
  pyd_xla_frame_t frame = {.struct_size = sizeof(frame), .extensions = &unknown};
  CHECK(!pyd_xla_call(&frame) && metadata.version.major == 0 && metadata.version.minor == 3 && metadata.traits == 0);
  metadata = (pyd_xla_metadata_t){.struct_size = 8, .traits = 9};
  CHECK(!pyd_xla_call(&frame) && metadata.traits == 9);  // too small to be written
  question.metadata = NULL;
  CHECK(!pyd_xla_call(&frame));
  frame.extensions = NULL;  // nothing to report to
  CHECK(!pyd_xla_call(&frame) && !pyd_xla_call(NULL));
  frame.struct_size = 8;
  CHECK(!pyd_xla_call(&frame));
}

static void test_good(void) {
  _Alignas(64) float a[41], b[41], out[41];
  for (int i = 0; i < 41; ++i) a[i] = (float)i, b[i] = (float)(i % 5);
  given_t g;
  for (int64_t n = 0; n <= 40; n += 5) {  // also not aligned, in place, and more sizes than are kept
    for (int shift = 0; shift < 2; ++shift) {
      memset(out, 0, sizeof(out));
      give_mul(&g, MUL, a + shift, b, out + shift, n);
      GOOD(&g);
      for (int i = 0; i < n; ++i) CHECK(out[i + shift] == a[i + shift] * b[i]);
      CHECK(n + shift == 41 || out[n + shift] == 0);
    }
  }
  for (int64_t n = 1; n < 40; ++n) {
    give_mul(&g, MUL, a, b, out, n);
    GOOD(&g);
    CHECK(out[n - 1] == a[n - 1] * b[n - 1]);
  }
  give_mul(&g, MUL, NULL, NULL, NULL, 0);
  GOOD(&g);
  uint32_t filled[3];
  int64_t n = 3, k = 5, sum = 0;
  for (; k < 8; ++k) {
    start(&g, SIZED, 2, 2);
    give(&g, 0, PYD_XLA_S64, &n, -1);
    give(&g, 1, PYD_XLA_S64, &k, -1);
    give(&g, 2, PYD_XLA_F32, filled, 3);
    give(&g, 3, PYD_XLA_S64, &sum, -1);
    GOOD(&g);
    CHECK(filled[2] == k && sum == 3 + k);
  }
  n = 4;
  BAD(&g, INVALID_ARGUMENT, "result 0 has 4 elements along axis 0, its buffer 3");
  n = -1;
  BAD(&g, INVALID_ARGUMENT, "");
  g.buffers[0].data = NULL;
  BAD(&g, INVALID_ARGUMENT, "a number without memory");
  start(&g, FAIL, 0, 0);
  BAD(&g, INTERNAL, "77");
  g.frame.stage = 0;
  GOOD(&g);
}

static void test_procedure(void) {
  float x[5] = {1, 2, 3, 4, 5}, out[3] = {0};
  int64_t from = 2, given_back = 0;
  given_t g;
  for (int again = 0; again < 2; ++again) {
    start(&g, TAIL, 2, 2);
    give(&g, 0, PYD_XLA_F32, x, 5);
    give(&g, 1, PYD_XLA_S64, &from, -1);
    give(&g, 2, PYD_XLA_F32, out, 3);
    give(&g, 3, PYD_XLA_S64, &given_back, -1);
    GOOD(&g);
    CHECK(out[0] == 3 && out[2] == 5 && given_back == 2);
  }
  from = 1;
  BAD(&g, INVALID_ARGUMENT, "has 16 bytes, 12 were bound");
  from = 3;
  BAD(&g, INVALID_ARGUMENT, "result 0 has 2 elements along axis 0, its buffer 3");
  from = 6;
  BAD(&g, INVALID_ARGUMENT, "negative size -1");
  g.dims[2] = -3;
  BAD(&g, INVALID_ARGUMENT, "negative size");
}

static void test_hostile(void) {
  float a[4] = {1, 2, 3, 4}, out[4];
  given_t g;
  static const uint64_t kNumbers[] = {0, 1, MUL - 1, MUL + 1, UINT64_MAX, INT64_MAX};
  for (size_t i = 0; i < sizeof(kNumbers) / sizeof(*kNumbers); ++i) {
    give_mul(&g, kNumbers[i], a, a, out, 4);
    BAD(&g, UNAVAILABLE, "no function of pydispatch has the number");
  }
#define SPOILT(change, code, text) \
  give_mul(&g, MUL, a, a, out, 4); \
  change;                          \
  BAD(&g, code, text)
  SPOILT(g.frame.attributes.count = 0, INVALID_ARGUMENT, "needs the attribute");
  SPOILT(g.frame.attributes.count = -1, INVALID_ARGUMENT, "needs the attribute");
  SPOILT(g.frame.attributes.items = NULL, INVALID_ARGUMENT, "needs the attribute");
  SPOILT(g.frame.attributes.names = NULL, INVALID_ARGUMENT, "needs the attribute");
  SPOILT(g.frame.attributes.kinds = NULL, INVALID_ARGUMENT, "needs the attribute");
  SPOILT(g.attribute_kinds[1] = 4, INVALID_ARGUMENT, "needs the attribute");
  SPOILT(g.scalar.dtype = PYD_XLA_S32, INVALID_ARGUMENT, "needs the attribute");
  SPOILT(g.scalar.value = NULL, INVALID_ARGUMENT, "needs the attribute");
  SPOILT(g.attributes[1] = NULL, INVALID_ARGUMENT, "needs the attribute");
  SPOILT(g.names[1] = NULL, INVALID_ARGUMENT, "needs the attribute");
  SPOILT(g.name.length = 7, INVALID_ARGUMENT, "needs the attribute");
  SPOILT(g.name.data = NULL, INVALID_ARGUMENT, "needs the attribute");
  SPOILT(g.frame.struct_size -= 8, UNIMPLEMENTED, "sizes");
  SPOILT(g.frame.arguments.struct_size += 8, UNIMPLEMENTED, "sizes");
  SPOILT(g.frame.results.struct_size -= 8, UNIMPLEMENTED, "sizes");
  SPOILT(g.frame.attributes.struct_size -= 8, UNIMPLEMENTED, "sizes");
  SPOILT(g.frame.arguments.count = 1, INVALID_ARGUMENT, "has 2 arguments, got 1");
  SPOILT(g.frame.arguments.count = INT64_MIN, INVALID_ARGUMENT, "has 2 arguments");
  SPOILT(g.frame.arguments.count = (1ll << 32) + 2, INVALID_ARGUMENT, "has 2 arguments");
  SPOILT(g.frame.results.count = 2, INVALID_ARGUMENT, "has 1 results, got 2");
  SPOILT(g.frame.arguments.items = NULL, UNIMPLEMENTED, "without memory");
  SPOILT(g.frame.results.kinds = NULL, UNIMPLEMENTED, "without memory");
  SPOILT(g.items[1] = NULL, UNIMPLEMENTED, "a kind of value");
  SPOILT(g.kinds[2] = 2, UNIMPLEMENTED, "a kind of value");
  SPOILT(g.buffers[0].struct_size = 8, UNIMPLEMENTED, "a kind of value");
  SPOILT(g.buffers[0].dtype = PYD_XLA_F64, INVALID_ARGUMENT, "argument 0 has XLA's element type 11, got 12");
  SPOILT(g.buffers[2].dtype = -1, INVALID_ARGUMENT, "result 0 has XLA's element type 11, got -1");
  SPOILT(g.buffers[1].rank = 2, INVALID_ARGUMENT, "argument 1 has rank 1, got 2");
  SPOILT(g.buffers[1].rank = -1, INVALID_ARGUMENT, "argument 1 has rank 1, got -1");
  SPOILT(g.buffers[1].dims = NULL, INVALID_ARGUMENT, "argument 1 has rank 1");
  SPOILT(g.dims[1] = 3, INVALID_ARGUMENT, "sizes differ: 4 and 3");
  SPOILT(g.dims[2] = 5, INVALID_ARGUMENT, "result 0 has 4 elements along axis 0, its buffer 5");
  SPOILT(g.dims[0] = -4, INVALID_ARGUMENT, "");
  SPOILT(g.dims[0] = g.dims[1] = g.dims[2] = INT64_MAX, INVALID_ARGUMENT, "");
  SPOILT(g.buffers[2].data = NULL, INVALID_ARGUMENT, "result 0 of 'mul' has 16 bytes");
  SPOILT(g.buffers[0].data = NULL, INVALID_ARGUMENT, "argument 0 of 'mul' has 16 bytes");
  give_mul(&g, MUL, a, a, out, 4);
  GOOD(&g);
  CHECK(out[3] == 16);
}

static void test_types(void) {
  CHECK(pyd_xla_dtype(0x12000020) == PYD_XLA_U32 && pyd_xla_dtype(0x23000040) == PYD_XLA_C64);
  CHECK(pyd_xla_dtype(0x13000008) == PYD_XLA_PRED && pyd_xla_dtype(0x22000010) == PYD_XLA_BF16);
  CHECK(!pyd_xla_dtype(0x10000004) && !pyd_xla_dtype(0) && !pyd_xla_dtype(0x2C000004));
}

enum { THREADS = 3, ROUNDS = 300 };

static void* use(void* unused) {
  float a[32], out[32];
  (void)unused;
  for (int i = 0; i < 32; ++i) a[i] = (float)i;
  for (int round = 0; round < ROUNDS; ++round) {
    int64_t n = 1 + round % 24;
    given_t g;
    give_mul(&g, MUL, a, a, out, n);
    GOOD(&g);
    CHECK(out[n - 1] == (float)((n - 1) * (n - 1)));
  }
  return NULL;
}
// Comes and goes while others call.
static void* come_and_go(void* program) {
  for (int round = 0; round < ROUNDS; ++round) withdraw(publish(program, "fail", 5), 5);
  return NULL;
}
static void* call_what_goes(void* unused) {
  (void)unused;
  for (int round = 0; round < ROUNDS; ++round) {
    given_t g;
    start(&g, 5, 0, 0);
    pyd_xla_error_t* error = pyd_xla_call(&g.frame);
    CHECK(error && (error->code == PYD_XLA_UNAVAILABLE || strstr(error->text, "77")));
    free(error);
  }
  return NULL;
}
static void test_threads(pyd_api_program_t* program) {
  pthread_t threads[THREADS + 2];
  for (int i = 0; i < THREADS; ++i) CHECK(!pthread_create(&threads[i], NULL, use, NULL));
  CHECK(!pthread_create(&threads[THREADS], NULL, come_and_go, program));
  CHECK(!pthread_create(&threads[THREADS + 1], NULL, call_what_goes, NULL));
  for (int i = 0; i < THREADS + 2; ++i) pthread_join(threads[i], NULL);
}

static void no_retain(void* self) { (void)self; }
static void test_numbers(void) {
  int things[50];
  for (uint64_t i = 0; i < 50; ++i) CHECK_OK(pyd_process_number_add(i * 7919 % 50 + 10000, &things[i], no_retain));
  CHECK_REFUSED(pyd_process_number_add(10003, &things[0], no_retain), INVALID_ARGUMENT, "10003 is taken");
  for (uint64_t i = 0; i < 50; ++i) CHECK(pyd_process_number_find(i * 7919 % 50 + 10000, no_retain) == &things[i]);
  CHECK(!pyd_process_number_find(10003, pyd_target_retain));  // of another type
  for (uint64_t i = 0; i < 50; i += 2) pyd_process_number_remove(i * 7919 % 50 + 10000);
  pyd_process_number_remove(3);
  for (uint64_t i = 0; i < 50; ++i) {
    CHECK(pyd_process_number_find(i * 7919 % 50 + 10000, no_retain) == (i % 2 ? &things[i] : NULL));
  }
  for (uint64_t i = 0; i < 50; ++i) pyd_process_number_remove(i * 7919 % 50 + 10000);
}

static void test_all(pyd_api_program_t* program) {
  test_metadata();
  test_good();
  test_procedure();
  test_hostile();
  test_types();
  test_threads(program);
  test_numbers();
}

int main(void) {
  static const published_t kPublished[] = {{"mul", MUL}, {"sized", SIZED}, {"fail", FAIL}, {"tail", TAIL}};
  with_program(kPublished, test_all);
  return 0;
}
