// The table of all functions. Its layout is a binary interface: no slot moves, new ones are added at the end.
#include "api/internal.h"

// Two words of 32 bits, then one pointer per slot.
#define PYD_API_AT(member, number) \
  _Static_assert(offsetof(pyd_api_t, member) == 8 + (number) * sizeof(void*), #member " has moved")
PYD_API_AT(status_code, 0);
PYD_API_AT(device_open, 4);
PYD_API_AT(pool_acquire, 8);
PYD_API_AT(parallel_for, 10);
PYD_API_AT(parallel_range, 11);
PYD_API_AT(program_load_file, 12);
PYD_API_AT(program_find, 19);
PYD_API_AT(call_prepare, 20);
PYD_API_AT(call_run, 30);
PYD_API_AT(call_scalar_result, 31);
PYD_API_AT(device_add_import, 32);
PYD_API_AT(device_remove_provider, 34);
PYD_API_AT(call_result_data, 35);
PYD_API_AT(call_run_until, 36);
PYD_API_AT(is_signalled, 37);
PYD_API_AT(device_add_command, 38);
PYD_API_AT(call_submit, 39);
PYD_API_AT(parallel_range_submit, 40);
PYD_API_AT(event_wait, 41);
PYD_API_AT(event_outcome, 42);
PYD_API_AT(event_status, 43);
PYD_API_AT(event_cancel, 44);
PYD_API_AT(event_release, 45);
PYD_API_AT(status_name, 46);
PYD_API_AT(device_close, 47);
PYD_API_AT(device_create, 48);
PYD_API_AT(device_lend_thread, 49);
PYD_API_AT(program_executable_count, 50);
PYD_API_AT(program_executable, 51);
PYD_API_AT(program_host_command_count, 52);
PYD_API_AT(program_host_command, 53);
PYD_API_AT(call_command_count, 54);
PYD_API_AT(call_command, 55);
PYD_API_AT(call_arena_bytes, 56);
PYD_API_AT(call_run_timed, 57);
PYD_API_AT(memory_import, 58);
PYD_API_AT(memory_release, 59);
PYD_API_AT(call_bind_argument_memory, 60);
PYD_API_AT(call_bind_result_memory, 61);
PYD_API_AT(call_set_result_allocator, 62);
PYD_API_AT(call_take_result, 63);
PYD_API_AT(program_load, 64);
_Static_assert(sizeof(pyd_api_t) == 8 + 65 * sizeof(void*),
               "a new slot needs a line above and one in the list of slots");
_Static_assert(offsetof(pyd_api_t, version) == 0 && offsetof(pyd_api_t, size) == 4, "the head never changes");

// Structures that callers read through pointers into the program: members cannot move.
_Static_assert(offsetof(pyd_api_value_t, rank) == 12 && offsetof(pyd_api_value_t, dims) == 16 &&
                   offsetof(pyd_api_value_t, name) == 16 + sizeof(void*),
               "pyd_api_value_t has changed");
_Static_assert(offsetof(pyd_api_function_t, argument_count) == 2 * sizeof(void*) &&
                   offsetof(pyd_api_function_t, scalar_count) == 2 * sizeof(void*) + 12 &&
                   offsetof(pyd_api_function_t, results) == 3 * sizeof(void*) + 16,
               "pyd_api_function_t has changed");
// Structures that callers allocate: members cannot move; a size at the start tells how many there are.
_Static_assert(offsetof(pyd_api_interrupt_t, is_wanted) == sizeof(void*) &&
                   offsetof(pyd_api_interrupt_t, context) == 2 * sizeof(void*),
               "pyd_api_interrupt_t has changed");
_Static_assert(offsetof(pyd_api_submit_t, priority) == sizeof(void*) &&
                   offsetof(pyd_api_submit_t, after) == sizeof(void*) + 8 &&
                   offsetof(pyd_api_submit_t, context) == 3 * sizeof(void*) + 8,
               "pyd_api_submit_t has changed");
_Static_assert(offsetof(pyd_api_device_options_t, on_thread_start) == sizeof(void*) + 8 &&
                   offsetof(pyd_api_device_options_t, allocator) == 4 * sizeof(void*) + 8,
               "pyd_api_device_options_t has changed");
_Static_assert(offsetof(pyd_api_executable_t, variant) == 3 * sizeof(void*) &&
                   offsetof(pyd_api_executable_t, imports) == 3 * sizeof(void*) + 16,
               "pyd_api_executable_t has changed");
_Static_assert(offsetof(pyd_api_command_t, executable) == sizeof(void*) + 8 &&
                   offsetof(pyd_api_command_t, bytes) == 5 * sizeof(void*) + 24,
               "pyd_api_command_t has changed");
_Static_assert(offsetof(pyd_api_memory_info_t, dtype) == 2 * sizeof(void*) + 8 &&
                   offsetof(pyd_api_memory_info_t, is_read_only) == 4 * sizeof(void*) + 16 &&
                   offsetof(pyd_api_memory_info_t, context) == 5 * sizeof(void*) + 24,
               "pyd_api_memory_info_t has changed");
_Static_assert(offsetof(pyd_allocator_t, release) == 2 * sizeof(void*) &&
                   offsetof(pyd_allocator_t, context) == 3 * sizeof(void*),
               "pyd_allocator_t has changed");
_Static_assert(offsetof(pyd_api_load_t, parameters) == 4 * sizeof(void*) &&
                   sizeof(pyd_api_parameter_t) == 3 * sizeof(void*) &&
                   sizeof(pyd_api_parameter_file_t) == 2 * sizeof(void*),
               "pyd_api_load_t has changed");
_Static_assert(sizeof(pyd_api_time_t) == sizeof(pyd_command_time_t), "a run writes its times there");
_Static_assert(sizeof(pyd_api_cost_t) == 16 && sizeof(pyd_sched_cost_t) <= sizeof(pyd_api_cost_t) &&
                   _Alignof(pyd_sched_cost_t) <= _Alignof(pyd_api_cost_t),
               "the scheduler keeps its memory there");

static uint32_t status_code(pyd_status_t status) { return (uint32_t)pyd_status_code(status); }

// Returns name |index| of the kind |kind| (pyd_status_name_t) that is attached to |status|, such as the executable that
// failed. NULL if there are not so many, and for a |kind| that this version does not have. |status| owns the name.
static const char* status_name(pyd_status_t status, uint32_t kind, uint32_t index) {
  return kind <= PYD_STATUS_CAUSE ? pyd_status_name(status, (pyd_status_name_t)kind, index) : NULL;
}

// Fills the table of the C API with the functions that every host has. Its other slots, such as device_open and
// program_load, become NULL: the caller sets those that it supports.
void pyd_api_fill(pyd_api_t* out_table) {
  *out_table = (pyd_api_t){
      .version = PYD_API_VERSION,
      .size = sizeof(pyd_api_t),
      .status_code = status_code,
      .status_text = pyd_status_text,
      .status_values = pyd_status_values,
      .status_free = pyd_status_free,
      .device_release = pyd_api_device_release,
      .device_workers = pyd_api_device_workers,
      .pool_acquire = pyd_api_pool_acquire,
      .pool_release = pyd_api_pool_release,
      .parallel_for = pyd_api_parallel_for,
      .parallel_range = pyd_api_parallel_range,
      .program_release = pyd_api_program_release,
      .program_device = pyd_api_program_device,
      .program_function_count = pyd_api_program_function_count,
      .program_function = pyd_api_program_function,
      .program_find = pyd_api_program_find,
      .call_prepare = pyd_api_call_prepare,
      .call_release = pyd_api_call_release,
      .call_argument_bytes = pyd_api_call_argument_bytes,
      .call_result_bytes = pyd_api_call_result_bytes,
      .call_result_dims = pyd_api_call_result_dims,
      .call_argument_alignment = pyd_api_call_argument_alignment,
      .call_result_alignment = pyd_api_call_result_alignment,
      .call_bind_argument = pyd_api_call_bind_argument,
      .call_bind_result = pyd_api_call_bind_result,
      .call_set_scalars = pyd_api_call_set_scalars,
      .call_run = pyd_api_call_run,
      .call_scalar_result = pyd_api_call_scalar_result,
      .call_result_data = pyd_api_call_result_data,
      .call_run_until = pyd_api_call_run_until,
      .call_submit = pyd_api_call_submit,
      .parallel_range_submit = pyd_api_parallel_range_submit,
      .event_wait = pyd_api_event_wait,
      .event_outcome = pyd_api_event_outcome,
      .event_status = pyd_api_event_status,
      .event_cancel = pyd_api_event_cancel,
      .event_release = pyd_api_event_release,
      .status_name = status_name,
      .device_close = pyd_api_device_close,
      .device_lend_thread = pyd_api_device_lend_thread,
      .program_executable_count = pyd_api_program_executable_count,
      .program_executable = pyd_api_program_executable,
      .program_host_command_count = pyd_api_program_host_command_count,
      .program_host_command = pyd_api_program_host_command,
      .call_command_count = pyd_api_call_command_count,
      .call_command = pyd_api_call_command,
      .call_arena_bytes = pyd_api_call_arena_bytes,
      .call_run_timed = pyd_api_call_run_timed,
      .memory_import = pyd_api_memory_import,
      .memory_release = pyd_api_memory_release,
      .call_bind_argument_memory = pyd_api_call_bind_argument_memory,
      .call_bind_result_memory = pyd_api_call_bind_result_memory,
      .call_set_result_allocator = pyd_api_call_set_result_allocator,
      .call_take_result = pyd_api_call_take_result,
  };
}
