// The table of api.h in the hands of somebody who passes anything: no handle, wrong counts, sizes of every magnitude,
// memory that is too small or lies anywhere. Each call is answered or refused with a text, and releasing ends it.
// links: base platform sched program api
#include "api/table.h"

#include "program/sample.h"
#include "program/small_pool.h"

#include "program/double.c"
#include "take.h"

enum { CALLS = 4 };
static pyd_api_t pd;
static pyd_pool_t* pool;
static pyd_program_t* program;
static pyd_state_t* state;
static pyd_sched_t* sched;
_Alignas(64) static uint8_t memory[1 << 16];
_Alignas(64) static const uint8_t constants[64];

static void set_up(void) {
  if (program) return;
  pyd_api_fill(&pd);
  pyd_span_t bytes = make_sample();
  CHECK_OK(pyd_pool_create(1 << 20, &pool));
  CHECK_OK(pyd_program_decode(bytes, &program));
  free((void*)bytes.data);
  CHECK_OK(pyd_program_set_constant(program, 0, (pyd_span_t){constants, 64}));
  CHECK_OK(pyd_program_set_constant(program, 1, (pyd_span_t){constants, 16}));
  CHECK_OK(pyd_program_set_executable(program, 0, &kSampleExecutable, 0, 4));
  CHECK_OK(pyd_sched_create(&(pyd_sched_options_t){.workers = 1}, &sched));
  CHECK_OK(pyd_state_create(program, sched, pool, &state));
  CHECK_OK(pyd_state_initialize(state, NULL));
}

static bool settle(pyd_status_t status) {
  bool ok = pyd_ok(status);
  require(ok == !pd.status_code(status) && ok == !pd.status_text(status)[0] && pd.status_values(status));
  pd.status_free(status);
  return ok;
}

static int32_t body(void* context, uint32_t x, uint32_t y, uint32_t z) {
  uint32_t* limits = context;
  require(x < limits[0] && y < limits[1] && z < limits[2]);
  return limits[3] && x == limits[3] ? (int32_t)limits[3] : 0;
}
static int32_t range(void* context, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  uint64_t* limits = context;
  require(begin < end && end <= limits[0] && worker == 0);
  if (limits[1] < begin || limits[1] >= end) return 0;
  *out_failed = limits[1];
  return -5;
}

static void use_call(take_t* t, pyd_api_call_t* call, const pyd_api_function_t* function) {
  uint32_t index = (uint32_t)take_number(t);
  uint64_t word, scalars[8];
  for (int i = 0; i < 8; ++i) scalars[i] = take_number(t);
  size_t offset = take_u16(t) % 4096, size = (size_t)take_number(t);
  switch (take_u8(t) % 9) {
    case 8: {
      uint64_t times[16];
      pyd_api_command_t one = {.struct_size = size & 2 ? sizeof(one) : size % 32};
      uint32_t commands = pd.call_command_count(call);
      require(settle(pd.call_command(call, index, size & 1 ? NULL : &one)) <= (index < commands));
      if (commands > 16) break;
      settle(pd.call_run_timed(call, NULL, times, size & 4 ? commands : index % 16));
      break;
    }
    case 0:
    case 1: {  // as it should be, from any address
      bool fits = true;
      for (uint32_t i = 0; call && i < function->argument_count; ++i) {
        uint64_t bytes = pd.call_argument_bytes(call, i);
        fits = bytes <= 8192 && fits;
        if (bytes <= 8192) settle(pd.call_bind_argument(call, i, memory + offset, (size_t)bytes));
        require(pd.call_argument_alignment(call, i) >= 1);
      }
      for (uint32_t i = 0; call && i < function->result_count; ++i) {
        uint64_t bytes = pd.call_result_bytes(call, i);
        fits = bytes <= 8192 && fits;
        if (bytes <= 8192) settle(pd.call_bind_result(call, i, memory + 16384 + 8192 * (i % 4) + offset, 8192));
        require(pd.call_result_alignment(call, i) >= 1);
      }
      break;
    }
    case 2: settle(pd.call_bind_argument(call, index, size & 1 ? NULL : memory, size < sizeof(memory) ? size : 64)); break;
    case 3: settle(pd.call_bind_result(call, index, size & 1 ? NULL : memory + 8192, size < 8192 ? size : 64)); break;
    case 4: settle(pd.call_set_scalars(call, size & 1 ? NULL : scalars, size < 9 ? (uint32_t)size : index > 8 ? 8 : index)); break;
    case 5:
      if (settle(pd.call_run(call))) {
        for (uint32_t i = 0; i < function->result_count + 2; ++i) {
          const uint8_t* data = pd.call_result_data(call, i);
          uint64_t bytes = pd.call_result_bytes(call, i);
          for (uint64_t k = 0; data && k < bytes; k += 64) *(volatile uint8_t*)&memory[0] ^= data[k];
        }
      }
      break;
    case 6: settle(pd.call_scalar_result(call, index, size & 1 ? NULL : &word)); break;
    case 7:
      pd.call_argument_bytes(call, index), pd.call_result_bytes(call, index), pd.call_result_dims(call, index);
      pd.call_argument_alignment(call, index), pd.call_result_alignment(call, index), pd.call_result_data(call, index);
      break;
  }
}

int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  take_t t = {data, size};
  pyd_api_device_t* device = NULL;
  pyd_api_program_t* handle = NULL;
  pyd_api_call_t* calls[CALLS] = {0};
  const pyd_api_function_t* functions[CALLS] = {0};
  void* blocks[2] = {0};
  set_up();
  CHECK_OK(pyd_api_device_make(sched, pool, (pyd_api_owner_t){NULL, NULL}, &device));
  CHECK_OK(pyd_api_program_make(device, program, state, (pyd_api_owner_t){NULL, NULL}, &handle));
  uint32_t count = pd.program_function_count(handle);
  for (int steps = 0; t.size && steps < 64; ++steps) {
    uint32_t at = take_u8(&t) % CALLS;
    uint8_t command = take_u8(&t);
    switch (command % 10) {
      case 0: {
        int64_t dims[8];
        uint64_t scalars[8];
        const pyd_api_function_t* function = pd.program_function(handle, take_u8(&t) % (count + 1));
        uint32_t dims_count = function ? function->dims_count : 0, scalar_count = function ? function->scalar_count : 0;
        if (command > 200) dims_count = take_u8(&t) % 9, scalar_count = take_u8(&t) % 9;
        for (int i = 0; i < 8; ++i) dims[i] = (int64_t)take_number(&t), scalars[i] = take_number(&t);
        pd.call_release(calls[at]);
        bool ok = settle(pd.call_prepare(function, command == 190 ? NULL : dims, dims_count, command == 180 ? NULL : scalars, scalar_count, &calls[at]));
        require(ok == (calls[at] != NULL));
        functions[at] = function;
        break;
      }
      case 1: pd.call_release(calls[at]), calls[at] = NULL; break;
      case 2: {
        const pyd_api_function_t* found = NULL;
        char name[16] = {0};
        for (int i = 0; i < 15; ++i) name[i] = (char)take_u8(&t);
        settle(pd.program_find(command > 200 ? NULL : handle, command > 180 ? NULL : command & 64 ? "main" : name, command > 160 ? NULL : &found));
        break;
      }
      case 3: {
        size_t bytes = (size_t)take_number(&t);
        pd.pool_release(device, blocks[at % 2]);
        blocks[at % 2] = NULL;
        settle(pd.pool_acquire(command > 240 ? NULL : device, bytes, command > 220 ? NULL : &blocks[at % 2]));
        break;
      }
      case 4: {
        uint32_t limits[4];
        for (int i = 0; i < 4; ++i) limits[i] = take_u8(&t) % 12;
        pyd_api_cost_t cost = {{take_u32(&t), take_u32(&t), take_u32(&t), take_u32(&t)}};
        settle(pd.parallel_for(command > 240 ? NULL : device, limits[0], limits[1], limits[2], command > 220 ? NULL : body, limits, command & 1 ? &cost : NULL));
        break;
      }
      case 5: {
        uint64_t limits[2] = {take_u16(&t), take_number(&t)};
        settle(pd.parallel_range(device, limits[0], command > 220 ? NULL : range, limits, NULL));
        break;
      }
      case 6: pd.program_function(handle, (uint32_t)take_number(&t)), pd.program_function(NULL, 0), pd.program_device(handle), pd.device_workers(device);
        settle(pd.program_executable(handle, (uint32_t)take_number(&t), &(pyd_api_executable_t){.struct_size = sizeof(pyd_api_executable_t)}));
        break;
      default: use_call(&t, command > 250 ? NULL : calls[at], functions[at]); break;
    }
  }
  bool handle_first = size & 1;
  if (handle_first) pd.program_release(handle), pd.device_release(device);
  for (int i = 0; i < CALLS; ++i) pd.call_release(calls[i]);
  for (int i = 0; i < 2; ++i) pd.pool_release(handle_first && !blocks[i] ? NULL : device, blocks[i]);
  if (!handle_first) pd.device_release(device), pd.program_release(handle);
  return 0;
}
