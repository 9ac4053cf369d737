// links: base platform sched memory program api
// Byte sizes at the edge of 64 bits: one function multiplies, and what it cannot hold is refused, never wrapped.
#include "program/builder.h"

#include "program/double.c"

#include "api/table.h"

#define I2 0x10000002u
#define I4 0x10000004u
#define I1 0x13000008u
#define BYTES(dtype, rank, ...) bytes_of(dtype, rank, (int64_t[]){__VA_ARGS__})

static uint64_t bytes_of(uint32_t dtype, uint32_t rank, const int64_t* dims) {
  uint64_t bytes = 77;
  bool fits = pyd_tensor_bytes(dtype, rank, dims, &bytes);
  CHECK(fits || bytes == 0);
  return fits ? bytes : UINT64_MAX;
}

static void test_bytes(void) {
  CHECK(BYTES(F32, 0, 0) == 4 && BYTES(F32, 2, 3, 5) == 60 && BYTES(I1, 1, 9) == 9);
  CHECK(BYTES(I4, 1, 3) == 2 && BYTES(I2, 1, 5) == 2 && BYTES(I4, 2, 3, 3) == 5);
  CHECK(BYTES(I4, 1, INT64_MAX) == UINT64_C(1) << 62 && BYTES(I4, 1, INT64_C(1) << 62) == UINT64_C(1) << 61);
  CHECK(BYTES(I2, 2, INT64_C(1) << 32, INT64_C(1) << 31) == UINT64_C(1) << 61);
  CHECK(BYTES(F32, 1, INT64_C(1) << 61) == UINT64_MAX &&
        BYTES(F32, 1, (INT64_C(1) << 61) - 1) == (UINT64_C(1) << 63) - 4);
  CHECK(BYTES(I8, 2, INT64_C(1) << 32, INT64_C(1) << 32) == UINT64_MAX);
  CHECK(BYTES(F32, 3, INT64_MAX, INT64_MAX, 0) == 0 && BYTES(F32, 2, -1, 0) == UINT64_MAX &&
        BYTES(F32, 1, -4) == UINT64_MAX);
}

// A function that only looks at the size of its argument, by a plan and by the C table.
static void test_arguments(uint32_t dtype, int64_t size, uint64_t bytes) {
  static builder_t b;
  fn_t* f = add_function(&b, "f");
  int64_t open_size = -1;
  uint32_t x = add_tensor(&b, f, dtype, "x", 1, &open_size);
  add_scalar_result(f, op(f, PYD_OP_DIM, 0, x, 0, 0));
  pyd_program_t* program = decode(&b);
  pyd_api_t pd;
  pyd_pool_t* pool;
  pyd_sched_t* sched;
  pyd_api_device_t* device;
  pyd_api_program_t* handle;
  const pyd_api_function_t* function;
  pyd_api_call_t* call;
  pyd_api_fill(&pd);
  CHECK_OK(pyd_pool_create(1 << 20, &pool));
  CHECK_OK(pyd_sched_create(&(pyd_sched_options_t){.workers = 1}, &sched));
  CHECK_OK(pyd_api_device_make(sched, pool, (pyd_api_owner_t){NULL, NULL}, &device));
  CHECK_OK(pyd_api_program_make(device, program, NULL, (pyd_api_owner_t){NULL, NULL}, &handle));
  CHECK_OK(pd.program_find(handle, "f", &function));
  CHECK_OK(pd.call_prepare(function, &size, 1, NULL, 0, &call));
  CHECK(pd.call_argument_bytes(call, 0) == bytes);
  char few[1];
  CHECK_REFUSED(pd.call_bind_argument(call, 0, few, sizeof(few)), INVALID_ARGUMENT, "got 1 at");
  pd.call_release(call);
  pd.program_release(handle);
  pd.device_release(device);
  pyd_sched_destroy(sched);
  pyd_pool_destroy(pool);
  pyd_program_free(program);
}

int main(void) {
  test_bytes();
  test_arguments(I4, INT64_C(1) << 62, UINT64_C(1) << 61);
  test_arguments(I2, INT64_C(1) << 62, UINT64_C(1) << 60);
  test_arguments(I4, INT64_MAX, UINT64_C(1) << 62);
  test_arguments(F32, 5, 20);
  return 0;
}
