// What a process without Python supplies to a program: a host command, a parameter in memory with strides, and a file of weights.
//   standalone_parts FILE.pdx WEIGHTS.safetensors: calls f(x) = command(x * w + b), where the command doubles
#include <stdio.h>
#include <stdlib.h>

#include "pydispatch/standalone.h"

static pyd_api_t pd;
static int released;  // commands and memory that are not used any more

static int twice(void* params, void* context, void* reserved) {
  const pyd_host_command_t* command = params;
  const pyd_host_operand_t* x = pyd_host_operand(command, 0);
  (void)reserved;
  if (x->kind != PYD_HOST_TENSOR) return pyd_host_fail(command, "operand 0 is no tensor");
  ++*(int*)context;
  for (uint64_t i = 0; i < x->bytes / sizeof(float); ++i) ((float*)x->data)[i] *= 2;
  return 0;
}

static void count_release(void* unused) {
  (void)unused;
  ++released;
}

// Reads a whole file; the caller frees it.
static char* read_file(const char* path, size_t* out_size) {
  FILE* file = fopen(path, "rb");
  if (!file) return NULL;
  char* data = malloc(1 << 20);
  *out_size = data ? fread(data, 1, 1 << 20, file) : 0;
  fclose(file);
  return data;
}

static pyd_status_t run(const pyd_api_program_t* program, float* out) {
  const float x[4] = {1, 2, 3, 4};
  const pyd_api_function_t* function = NULL;
  pyd_api_call_t* call = NULL;
  pyd_status_t status = pd.program_find(program, "f", &function);
  if (pyd_ok(status)) status = pd.call_prepare(function, (const int64_t[]){4}, 1, NULL, 0, &call);
  if (pyd_ok(status)) status = pd.call_bind_argument(call, 0, x, sizeof(x));
  if (pyd_ok(status)) status = pd.call_bind_result(call, 0, out, sizeof(x));
  if (pyd_ok(status)) status = pd.call_run(call);
  pd.call_release(call);
  return status;
}

int main(int argc, char** argv) {
  static float weights[8] = {10, 0, 20, 0, 30, 0, 40, 0};  // every second one
  const int64_t four = 4, two = 2;
  int calls = 0;
  float out[4] = {0};
  size_t size = 0;
  if (argc < 3) return 2;
  char* data = read_file(argv[1], &size);
  pyd_standalone_fill(&pd);
  pyd_api_device_t* device = NULL;
  pyd_api_program_t* program = NULL;
  pyd_api_memory_t* memory = NULL;
  uint64_t id = 0;
  pyd_status_t status = pd.device_open("cpu?workers=2", &device);
  if (argc < 4 && pyd_ok(status)) status = pd.device_add_command(device, "command", twice, &calls, 0, count_release, NULL, &id);
  const pyd_api_memory_info_t info = {.struct_size = sizeof(info), .data = weights, .dtype = PYD_API_F32, .rank = 1, .dims = &four,
                                      .strides = &two, .is_read_only = 1, .release = count_release};
  if (pyd_ok(status)) status = pd.memory_import(device, &info, &memory);
  const pyd_api_parameter_t parameter = {"model", "w", memory};
  const pyd_api_parameter_file_t file = {"model", argv[2]};
  const pyd_api_load_t options = {.struct_size = sizeof(options), .data = data, .size = size, .parameters = &parameter,
                                  .files = &file, .parameter_count = 1, .file_count = 1};
  if (pyd_ok(status)) status = pd.program_load(device, &options, &program);
  free(data);
  pd.memory_release(memory);
  if (id) pd.status_free(pd.device_remove_provider(device, id));  // what is loaded keeps it
  if (pyd_ok(status) && released) fprintf(stderr, "released too early\n");
  if (pyd_ok(status)) status = run(program, out);
  if (!pyd_ok(status)) {
    const char* symbol = pd.status_name(status, PYD_STATUS_SYMBOL, 0);
    const char* cause = pd.status_name(status, PYD_STATUS_CAUSE, 0);
    fprintf(stderr, "%u [%s] [%s] %s\n", pd.status_code(status), symbol ? symbol : "", cause ? cause : "", pd.status_text(status));
  }
  int code = pyd_ok(status) ? 0 : 1;
  pd.status_free(status);
  pd.program_release(program);
  pd.device_release(device);
  if (!code) printf("%g %g %g %g, %d call, %d released\n", (double)out[0], (double)out[1], (double)out[2], (double)out[3], calls, released);
  return code;
}
