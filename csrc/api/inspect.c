// Executables and commands of programs and calls, and the time that each command takes.
#include <string.h>

#include "api/call.h"
#include "base/sized.h"
#include "pydispatch/program_device.h"

static pyd_api_text_t text_of(pyd_string_t text) { return (pyd_api_text_t){text.data, text.length}; }

// Copies the structure |filled| of |size| bytes to |out|, the structure of a caller, whose version of the structure may
// have fewer or more members. Both begin with a member struct_size, which in |out| states the size of the caller's
// version and is not copied.
static void hand_out(const void* filled, size_t size, void* out) {
  size_t out_size;
  memcpy(&out_size, out, sizeof(out_size));
  const size_t common_size = out_size < size ? out_size : size;
  memcpy((uint8_t*)out + sizeof(size_t), (const uint8_t*)filled + sizeof(size_t), common_size - sizeof(size_t));
}

// Checks that the structure that a caller passes to be filled has |least| bytes, those of its first version, and that
// |index| is below |count|. |struct_size|: the first member of the structure; NULL if the caller has passed no
// structure. |item|: what the index numbers, for messages.
static pyd_status_t check_out(const char* function, const size_t* struct_size, size_t least, uint32_t index,
                              uint32_t count, const char* item) {
  if (!struct_size) return pyd_api_null(function, "the structure to fill");
  if (*struct_size < least) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "%s: the structure to fill has %zu bytes, at least %zu are needed; set its "
                           "struct_size to its size",
                           function, *struct_size, least);
  }
  if (index < count) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "%s: %s %u does not exist, there are %u", function, item, index,
                         count);
}

// ---- programs

uint32_t pyd_api_program_executable_count(const pyd_api_program_t* program) {
  return program ? pyd_program_executable_count(program->program) : 0;
}

// Describes executable |index| of a program: its name, and if a variant is linked the exports and imports of that.
// |out_executable|: its struct_size states how much of the structure the caller knows; only that much is written.
pyd_status_t pyd_api_program_executable(const pyd_api_program_t* program, uint32_t index,
                                        pyd_api_executable_t* out_executable) {
  if (!program) return pyd_api_null("program_executable", "program");
  pyd_status_t status = check_out("program_executable", out_executable ? &out_executable->struct_size : NULL,
                                  PYD_SIZE_UP_TO(pyd_api_executable_t, imports), index,
                                  pyd_api_program_executable_count(program), "executable");
  if (!pyd_ok(status)) return status;
  const pyd_program_executable_t* found = pyd_program_executable(program->program, index);
  pyd_api_executable_t executable = {.name = text_of(found->name), .variant_count = found->variant_count};
  const pyd_executable_t* linked = pyd_program_linked_executable(program->program, index, &executable.variant);
  if (linked) {  // a variant for this machine has been loaded
    const pyd_library_t* library = pyd_executable_library(linked);
    executable.export_count = library->exports.count;
    executable.import_count = library->imports.count;
    executable.imports = library->imports.symbols;
  }
  hand_out(&executable, sizeof(executable), out_executable);
  return PYD_STATUS_OK;
}

uint32_t pyd_api_program_host_command_count(const pyd_api_program_t* program) {
  return program ? pyd_program_command_count(program->program) : 0;
}

// Returns the name of host command |index| of a program.
pyd_api_text_t pyd_api_program_host_command(const pyd_api_program_t* program, uint32_t index) {
  if (index >= pyd_api_program_host_command_count(program)) return (pyd_api_text_t){NULL, 0};
  return text_of(pyd_program_command(program->program, index)->name);
}

// ---- calls

uint32_t pyd_api_call_command_count(const pyd_api_call_t* call) {
  return call && call->plan ? pyd_plan_command_count(call->plan) : 0;
}

uint64_t pyd_api_call_arena_bytes(const pyd_api_call_t* call) {
  return call && call->plan ? pyd_plan_arena_bytes(call->plan) : 0;
}

_Static_assert((int)PYD_API_COMMAND_DISPATCH == PYD_COMMAND_DISPATCH && (int)PYD_API_COMMAND_FILL == PYD_COMMAND_FILL &&
                   (int)PYD_API_COMMAND_COPY == PYD_COMMAND_COPY && (int)PYD_API_COMMAND_HOST == PYD_COMMAND_CUSTOM,
               "the kinds of commands are numbered as in plans");

// Describes command |index| of a plan: among others its grid, in workgroups, and the sum of the bytes of all buffer
// ranges that it is bound to. Both stay 0 for a command that runs nothing with the sizes of this plan.
static pyd_api_command_t describe(const pyd_plan_t* plan, uint32_t index) {
  const pyd_program_t* program = pyd_plan_program(plan);
  pyd_command_info_t info;
  pyd_plan_command(plan, index, &info);
  pyd_api_command_t command = {.kind = info.kind, .region = info.region};
  if (info.kind == PYD_COMMAND_DISPATCH) {
    command.executable = text_of(pyd_program_executable(program, info.executable)->name);
    command.name = text_of(info.name);
    if (!info.is_empty) memcpy(command.grid, info.grid, sizeof(command.grid));
  } else if (info.kind == PYD_COMMAND_CUSTOM) {
    command.name = text_of(pyd_program_command(program, info.command)->name);
  }
  for (uint32_t i = 0; i < info.slot_count && !info.is_empty; ++i) {  // one slot per bound range
    pyd_command_slot_t slot;
    pyd_plan_command_slot(plan, index, i, &slot);
    command.bytes += slot.length;
  }
  return command;
}

// Describes command |index| of a call for profilers.
pyd_status_t pyd_api_call_command(const pyd_api_call_t* call, uint32_t index, pyd_api_command_t* out_command) {
  if (!call) return pyd_api_null("call_command", "call");
  pyd_status_t status =
      check_out("call_command", out_command ? &out_command->struct_size : NULL,
                PYD_SIZE_UP_TO(pyd_api_command_t, bytes), index, pyd_api_call_command_count(call), "command");
  if (!pyd_ok(status)) return status;
  pyd_api_command_t command = describe(call->plan, index);
  hand_out(&command, sizeof(command), out_command);
  return PYD_STATUS_OK;
}

// Checks the arguments of call_run_timed: a call with a plan, and room for one time per command.
static pyd_status_t check_times(const pyd_api_call_t* call, const pyd_api_time_t* times, uint32_t count) {
  if (!call) return pyd_api_null("call_run_timed", "call");
  if (pyd_api_is_procedure(call)) {
    return pyd_status_make(PYD_CODE_UNSUPPORTED,
                           "call_run_timed: '%s' has control flow or state; only functions without can be "
                           "measured by command",
                           call->entry->info.name);
  }
  if (count && !times) return pyd_api_null("call_run_timed", "out_times");
  uint32_t commands = pyd_api_call_command_count(call);
  if (count == commands) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                         "call_run_timed: this call of '%s' has %u commands, got room for %u times",
                         call->entry->info.name, commands, count);
}

// Runs a call with a time for each of its |count| commands: begin and end in nanoseconds since the start.
pyd_status_t pyd_api_call_run_timed(pyd_api_call_t* call, const pyd_api_interrupt_t* interrupt,
                                    pyd_api_time_t* out_times, uint32_t count) {
  pyd_interrupt_t checked;  // |interrupt|, if there is one
  pyd_status_t status = check_times(call, out_times, count);
  if (pyd_ok(status) && interrupt) status = pyd_api_interrupt_of("call_run_timed", interrupt, &checked);
  if (pyd_ok(status)) status = pyd_api_call_begin_run(call, "call_run_timed");
  if (!pyd_ok(status)) return status;
  pyd_api_call_copy_in(call);
  status = pyd_call_run_timed(call->call, interrupt ? &checked : NULL, (pyd_command_time_t*)out_times);
  if (pyd_ok(status)) pyd_api_call_copy_out(call);
  pyd_api_call_end_run(call);
  return status;
}
