// Loads a program and calls it in a process without Python: main FILE.pdx FUNCTION NUMBER...
// The function takes f32 tensors with one axis and returns one. Every argument gets all numbers; the result is printed.
#include <stdio.h>
#include <stdlib.h>

#include "pydispatch/standalone.h"

enum { kMost = 64 };  // numbers of an argument or a result, and arguments of the function

static pyd_api_t pd;

// Binds |count| numbers to all arguments, runs the call, and prints its result.
static pyd_status_t run(pyd_api_call_t* call, const pyd_api_function_t* function, const float* numbers, size_t count) {
  float result[kMost];
  pyd_status_t status = NULL;  // no failure
  if (pd.call_result_bytes(call, 0) > sizeof(result)) {
    puts("the result is too large");
    return NULL;
  }
  for (uint32_t i = 0; i < function->argument_count && pyd_ok(status); ++i) {
    status = pd.call_bind_argument(call, i, numbers, count * sizeof(float));
  }
  if (pyd_ok(status)) status = pd.call_bind_result(call, 0, result, sizeof(result));
  if (pyd_ok(status)) status = pd.call_run(call);
  uint64_t bytes = pyd_ok(status) ? pd.call_result_bytes(call, 0) : 0;  // a function with control flow knows it now
  for (size_t i = 0; i < bytes / sizeof(float); ++i) printf("%g ", (double)result[i]);
  if (pyd_ok(status)) puts("");
  return status;
}

int main(int argc, char** argv) {
  float numbers[kMost];
  int64_t sizes[kMost];
  if (argc < 3 || argc - 3 > kMost) return fprintf(stderr, "main FILE.pdx FUNCTION NUMBER...\n"), 2;
  size_t count = (size_t)argc - 3;
  for (size_t i = 0; i < count; ++i) numbers[i] = (float)atof(argv[i + 3]);
  // One size for each argument, as each has one axis.
  for (size_t i = 0; i < kMost; ++i) sizes[i] = (int64_t)count;

  pyd_standalone_fill(&pd);
  pyd_api_device_t* device = NULL;
  pyd_api_program_t* program = NULL;
  const pyd_api_function_t* function = NULL;
  pyd_api_call_t* call = NULL;
  pyd_status_t status = pd.device_open("cpu", &device);
  if (pyd_ok(status)) status = pd.program_load_file(device, argv[1], &program);
  if (pyd_ok(status)) status = pd.program_find(program, argv[2], &function);
  if (pyd_ok(status)) status = pd.call_prepare(function, sizes, function->dims_count, /* scalars */ NULL, 0, &call);
  if (pyd_ok(status)) status = run(call, function, numbers, count);
  if (!pyd_ok(status)) fprintf(stderr, "%u: %s\n", pd.status_code(status), pd.status_text(status));
  int code = pyd_ok(status) ? 0 : 1;
  pd.status_free(status);
  pd.call_release(call);
  pd.program_release(program);
  pd.device_release(device);
  return code;
}
