// links: base platform sched memory program api process target torch
// with: ../program/double.c
// tsan: 3
// Kernels of PyTorch's operators, with a double in the place of PyTorch: calls that fit, those that do not, what is
// kept.
#include "torch/interface.h"

#include <pthread.h>
#include <setjmp.h>
#include <stdatomic.h>

#include "target/sample.h"

// ---- PyTorch's side

enum { CPU = 0, GPU = 1, FLOAT32 = 6, FLOAT64 = 7, INT64 = 4 };

struct pyd_torch_tensor_s {
  int32_t dtype, device;
  int64_t rank, sizes[2], strides[2];
  char* data;
  bool is_lent;  // the memory belongs to a test
};

static atomic_int live;                 // tensors
static _Thread_local int allowed = -1;  // calls until one fails; -1: none does
static _Thread_local jmp_buf thrown;
static _Thread_local char said[2048];

static int32_t fails(void) { return allowed >= 0 && allowed-- == 0; }

static void t_check(bool condition, const char* function, const char* file, uint32_t line, const char* text) {
  (void)file, (void)line;
  CHECK(!condition && function);
  snprintf(said, sizeof(said), "%s", text);
  longjmp(thrown, 1);
}
static int32_t t_cpu(void) { return CPU; }
static int32_t t_delete(pyd_torch_tensor_t* tensor) {
  if (!tensor->is_lent) free(tensor->data);
  free(tensor);
  --live;
  return 0;
}
static int32_t t_defined(pyd_torch_tensor_t* tensor, bool* out) { return *out = tensor->dtype >= 0, fails(); }
static int32_t t_data(pyd_torch_tensor_t* tensor, void** out) { return *out = tensor->data, fails(); }
static int32_t t_dim(pyd_torch_tensor_t* tensor, int64_t* out) { return *out = tensor->rank, fails(); }
static int32_t t_sizes(pyd_torch_tensor_t* tensor, int64_t** out) { return *out = tensor->sizes, fails(); }
static int32_t t_dtype(pyd_torch_tensor_t* tensor, int32_t* out) { return *out = tensor->dtype, fails(); }
static int32_t t_device(pyd_torch_tensor_t* tensor, int32_t* out) { return *out = tensor->device, fails(); }
static int32_t t_contiguous(pyd_torch_tensor_t* tensor, bool* out) {
  return *out = tensor->rank == 0 || tensor->strides[0] == 1, fails();
}
static int32_t t_empty(int64_t rank, const int64_t* sizes, const int64_t* strides, int32_t dtype, int32_t device,
                       int32_t index, pyd_torch_tensor_t** out) {
  CHECK(device == CPU && index == 0 && rank <= 1 && (rank == 0 || strides[0] == 1));
  if (fails()) return 1;
  pyd_torch_tensor_t* tensor = calloc(1, sizeof(*tensor));
  tensor->dtype = dtype, tensor->rank = rank;
  if (rank) tensor->sizes[0] = sizes[0], tensor->strides[0] = strides[0];
  tensor->data = malloc(8 * (size_t)(rank ? sizes[0] : 1) + 1);
  ++live;
  *out = tensor;
  return 0;
}
static int32_t t_copy(pyd_torch_tensor_t* to, pyd_torch_tensor_t* from, int32_t non_blocking) {
  CHECK(!non_blocking && to->sizes[0] == from->sizes[0]);
  for (int64_t i = 0; i < to->sizes[0]; ++i) ((float*)to->data)[i] = ((float*)from->data)[i * from->strides[0]];
  return fails();
}
static int32_t t_float32(void) { return FLOAT32; }
static int32_t t_float64(void) { return FLOAT64; }
static int32_t t_int64(void) { return INT64; }

static pyd_torch_interface_t torch = {
    t_check,
    t_cpu,
    t_delete,
    t_defined,
    t_data,
    t_dim,
    t_sizes,
    t_dtype,
    t_device,
    t_contiguous,
    t_empty,
    t_copy,
    {[PYD_TORCH_float32] = t_float32, [PYD_TORCH_float64] = t_float64, [PYD_TORCH_int64] = t_int64}};

static uint64_t give(float* data, int64_t size, int64_t stride) {
  pyd_torch_tensor_t* tensor = calloc(1, sizeof(*tensor));
  *tensor = (pyd_torch_tensor_t){FLOAT32, CPU, 1, {size}, {stride}, (char*)data, true};
  ++live;
  return (uintptr_t)tensor;
}
static pyd_torch_tensor_t* tensor_of(uint64_t word) { return (pyd_torch_tensor_t*)(uintptr_t)word; }

static bool is_called(int slot, uint64_t* stack, uint64_t arguments, uint64_t results) {
  if (setjmp(thrown)) return false;
  pyd_torch_kernels[slot](stack, arguments, results);
  return true;
}
static void check_good(int slot, uint64_t* stack, uint64_t arguments, uint64_t results, int line) {
  if (is_called(slot, stack, arguments, results)) return;
  fprintf(stderr, "line %d: %s\n", line, said);
  exit(1);
}
#define GOOD(slot, stack, arguments, results) check_good((slot), (stack), (arguments), (results), __LINE__)
static void check_bad(int slot, uint64_t* stack, uint64_t arguments, uint64_t results, const char* text, int line) {
  if (!is_called(slot, stack, arguments, results) && strstr(said, text)) return;
  fprintf(stderr, "line %d: expected \"%s\", got \"%s\"\n", line, text, said);
  exit(1);
}
#define BAD(slot, stack, arguments, results, text) check_bad((slot), (stack), (arguments), (results), (text), __LINE__)

// ---- tests

enum { MUL = 0, SIZED = 0x2f, FAIL = 255, TAIL = 16, OTHER = 17, NONE_THERE = 3 };  // slots

static void test_good(void) {
  float a[40], b[80];
  for (int i = 0; i < 80; ++i) a[i % 40] = (float)(i % 40), b[i] = (float)(i % 7);
  for (int64_t n = 0; n < 40; ++n) {  // also not contiguous
    for (int64_t stride = 1; stride < 3; ++stride) {
      uint64_t stack[2] = {give(a, n, 1), give(b, n, stride)};
      GOOD(MUL, stack, 2, 1);
      pyd_torch_tensor_t* made = tensor_of(stack[0]);
      CHECK(live == 1 && made->rank == 1 && made->sizes[0] == n && made->dtype == FLOAT32);
      for (int64_t i = 0; i < n; ++i) CHECK(((float*)made->data)[i] == a[i] * b[i * stride]);
      t_delete(made);
    }
  }
  for (uint64_t k = 5; k < 8; ++k) {  // numbers in and out
    uint64_t stack[2] = {3, k};
    GOOD(SIZED, stack, 2, 2);
    pyd_torch_tensor_t *filled = tensor_of(stack[0]), *sum = tensor_of(stack[1]);
    CHECK(((uint32_t*)filled->data)[2] == k && sum->rank == 0 && sum->dtype == INT64);
    CHECK(*(int64_t*)sum->data == (int64_t)(3 + k));
    t_delete(filled), t_delete(sum);
  }
  uint64_t negative[2] = {(uint64_t)-1, 1};
  BAD(FAIL, NULL, 0, 0, "77");
  BAD(SIZED, negative, 2, 2, "");
  CHECK(live == 0);
}

static void test_procedure(void) {
  float x[5] = {1, 2, 3, 4, 5};
  for (uint64_t from = 0; from < 6; ++from) {
    uint64_t stack[2] = {give(x, 5, 1), from};
    GOOD(TAIL, stack, 2, 2);
    pyd_torch_tensor_t *rest = tensor_of(stack[0]), *place = tensor_of(stack[1]);
    CHECK(rest->sizes[0] == (int64_t)(5 - from) && (from == 5 || *(float*)rest->data == (float)from + 1));
    CHECK(*(int64_t*)place->data == (int64_t)from && place->rank == 0);
    t_delete(rest), t_delete(place);
  }
  uint64_t stack[2] = {give(x, 5, 1), 6};
  BAD(TAIL, stack, 2, 2, "negative size -1");
  CHECK(live == 0);
}

static void test_refused(void) {
  float a[8] = {1, 2, 3, 4};
#define SPOILT(change, text)                            \
  do {                                                  \
    uint64_t stack[2] = {give(a, 4, 1), give(a, 4, 1)}; \
    pyd_torch_tensor_t* x = tensor_of(stack[1]);        \
    change;                                             \
    BAD(MUL, stack, 2, 1, text);                        \
    CHECK(live == 0);                                   \
  } while (0)
  SPOILT(x->dtype = FLOAT64, "@mul: argument 1 'b': expected elements of type float32, got float64");
  SPOILT(x->dtype = 99, "expected elements of type float32, got another type");
  SPOILT(x->dtype = -1, "argument 1 'b': expected a tensor, got None");
  SPOILT(x->device = GPU, "argument 1 'b' is not on the CPU");
  SPOILT(x->rank = 2, "argument 1 'b': expected 1 axes, got 2");
  SPOILT(x->rank = -1, "argument 1 'b': expected 1 axes, got -1");
  SPOILT(x->sizes[0] = 3, "sizes differ: 4 and 3");
  SPOILT(x->sizes[0] = -3, "");
  SPOILT(x->data = NULL, "argument 1 of 'mul' has 16 bytes");
  torch.dtypes[PYD_TORCH_float32] = NULL;
  SPOILT((void)x, "which this PyTorch does not have");
  torch.dtypes[PYD_TORCH_float32] = t_float32;
  uint64_t stack[2] = {give(a, 4, 1), give(a, 4, 1)};
  BAD(MUL, stack, 2, 2, "@mul has 2 arguments and 1 results, its operator 2 and 2");
  BAD(MUL, stack, 1, 1, "@mul has 2 arguments and 1 results, its operator 1 and 1");
  BAD(NONE_THERE, stack, 2, 1, "was closed");
  t_delete(tensor_of(stack[0])), t_delete(tensor_of(stack[1]));
}

// Each function of PyTorch in turn fails once.
static void test_failures(void) {
  float a[8] = {1, 2, 3, 4};
  bool is_good = false;
  int at = 0;
  for (; !is_good; ++at) {
    uint64_t stack[2] = {give(a, 4, 2), give(a, 4, 1)};
    allowed = at;
    is_good = is_called(MUL, stack, 2, 1);
    allowed = -1;
    CHECK(is_good || strstr(said, "PyTorch could not"));
    if (is_good) t_delete(tensor_of(stack[0]));
    CHECK(live == 0);
  }
  CHECK(at > 15);
}

static void test_types(void) {
  CHECK(pyd_torch_dtype(0x12000020) == PYD_TORCH_uint32 && pyd_torch_dtype(0x10000001) == PYD_TORCH_bool);
  CHECK(pyd_torch_dtype(0x10000004) == PYD_TORCH_DTYPE_COUNT && pyd_torch_dtype(0) == PYD_TORCH_DTYPE_COUNT);
  CHECK(!strcmp(pyd_torch_scalar_type(0x10000040), "SymInt") && !strcmp(pyd_torch_scalar_type(0x21000020), "float"));
  CHECK(!strcmp(pyd_torch_scalar_type(0x13000008), "bool") && !pyd_torch_scalar_type(0x21000010));
  CHECK(!pyd_torch_scalar_type(0x23000040) && !pyd_torch_scalar_type(1));
  CHECK(!strcmp(pyd_torch_symbols[0], "aoti_torch_check"));
  CHECK(!strcmp(pyd_torch_symbols[PYD_TORCH_SYMBOL_COUNT - 1], "aoti_torch_dtype_float8_e4m3fnuz"));
}

enum { THREADS = 3, ROUNDS = 300 };

static void* use(void* unused) {
  float a[32];
  (void)unused;
  for (int i = 0; i < 32; ++i) a[i] = (float)i;
  for (int round = 0; round < ROUNDS; ++round) {
    int64_t n = 1 + round % 24;
    uint64_t stack[2] = {give(a, n, 1), give(a, n, 1)};
    GOOD(MUL, stack, 2, 1);
    CHECK(((float*)tensor_of(stack[0])->data)[n - 1] == (float)((n - 1) * (n - 1)));
    t_delete(tensor_of(stack[0]));
  }
  return NULL;
}
// Comes and goes while others call.
static void* come_and_go(void* program) {
  uint64_t number = PYD_TORCH_KERNEL_NUMBER(OTHER);
  for (int round = 0; round < ROUNDS; ++round) withdraw(publish(program, "fail", number), number);
  return NULL;
}
static void* call_what_goes(void* unused) {
  (void)unused;
  for (int round = 0; round < ROUNDS; ++round) {
    CHECK(!is_called(OTHER, NULL, 0, 0) && (strstr(said, "was closed") || strstr(said, "77")));
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

static void test_all(pyd_api_program_t* program) {
  CHECK_OK(pyd_process_number_add(PYD_TORCH_INTERFACE_NUMBER, &torch, pyd_torch_interface_retain));
  test_good();
  test_procedure();
  test_refused();
  test_failures();
  test_types();
  test_threads(program);
  pyd_process_number_remove(PYD_TORCH_INTERFACE_NUMBER);
}

int main(void) {
  static const published_t kPublished[] = {{"mul", PYD_TORCH_KERNEL_NUMBER(MUL)},
                                           {"sized", PYD_TORCH_KERNEL_NUMBER(SIZED)},
                                           {"fail", PYD_TORCH_KERNEL_NUMBER(FAIL)},
                                           {"tail", PYD_TORCH_KERNEL_NUMBER(TAIL)}};
  with_program(kPublished, test_all);
  return 0;
}
