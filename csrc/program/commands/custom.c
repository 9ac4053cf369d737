// CUSTOM {command, n, n sizes, m, m constants, k, k bindings}: a call of a host command, code of the host
// that runs between dispatches. The sizes are registers, one for each dynamic size of the declared tensors. The
// constants are the low and the high word of each scalar. The bindings are the tensors: buffer, offset and length.
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/scope.h"
#include "program/commands/command.h"

typedef unsigned long long ull_t;

// One call of a host command, within a call of a function.
typedef struct pyd_custom_s {
  pyd_host_command_t command;  // argument of its function; the first member, so that callbacks find the rest
  const pyd_call_t* call;
  pyd_command_link_t link;                // its function, and the context that the function is passed
  char* name;                             // NUL-terminated copy, owned; NULL if there was no memory for it
  _Atomic(char*) text;                    // of its failure, owned; NULL for none
  _Atomic(void*) raised;                  // exception of another runtime that caused the failure, owned; NULL for none
  void (*_Atomic release)(void* raised);  // frees the exception
} pyd_custom_t;

const size_t pyd_custom_size = sizeof(pyd_custom_t);

// ---- records

// The fields of a CUSTOM record, whose arrays are in the pool.
typedef struct view_s {
  uint32_t command;  // number in the program
  uint32_t size_count, constant_count, binding_count;
  const uint32_t* sizes;      // registers
  const uint32_t* constants;  // registers, with PYD_CONSTANT_HIGH for the upper half
  const uint32_t* bindings;   // 3 words each: buffer, offset register or NONE, length register or NONE
} view_t;

// Returns the fields of a verified record: number, count of sizes, sizes, count of constants, constants, count of
// bindings, bindings.
static view_t read_record(const uint32_t* record) {
  view_t view = {.command = record[0], .size_count = record[1], .sizes = record + 2};
  const uint32_t* rest = view.sizes + view.size_count;
  view.constant_count = rest[0];
  view.constants = rest + 1;
  rest = view.constants + view.constant_count;
  view.binding_count = rest[0];
  view.bindings = rest + 1;
  return view;
}

// Returns the numbers of dynamic sizes, constant words and bindings that the declared operands of |command| require.
static view_t expected_counts(const pyd_program_command_t* command) {
  view_t counts = {0};
  for (uint32_t i = 0; i < command->operand_count; ++i) {
    const pyd_program_value_t* operand = &command->operands[i];
    counts.constant_count += operand->kind == PYD_KIND_SCALAR ? 2 : 0;  // two words of 32 bits
    counts.binding_count += operand->kind == PYD_KIND_TENSOR;
    for (uint32_t k = 0; k < operand->rank; ++k) counts.size_count += operand->dims[k] < 0;  // negative: dynamic
  }
  return counts;
}

// Verifies that the registers of sizes and constants are written before the command.
static pyd_status_t verify_values(const pyd_verifier_t* v, const view_t* view) {
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < view->size_count && pyd_ok(status); ++i) status = pyd_verify_read(v, view->sizes[i]);
  for (uint32_t i = 0; i < view->constant_count && pyd_ok(status); ++i) {
    status = pyd_verify_read(v, view->constants[i] & ~PYD_CONSTANT_HIGH);
  }
  return status;
}

// Verifies the bindings of the tensor operands, the ranges of buffers that the command uses. A binding has three words:
// buffer, offset register, length register.
static pyd_status_t verify_bindings(const pyd_verifier_t* v, const pyd_program_command_t* command, const view_t* view) {
  const uint32_t* binding = view->bindings;
  for (uint32_t i = 0; i < command->operand_count; ++i) {
    if (command->operands[i].kind != PYD_KIND_TENSOR) continue;
    pyd_status_t status = pyd_verify_buffer(v, binding[0], command->accesses[i] != PYD_HOST_READ);
    if (pyd_ok(status)) status = pyd_verify_optional(v, binding[1]);
    if (pyd_ok(status)) status = pyd_verify_optional(v, binding[2]);
    if (!pyd_ok(status)) return status;
    binding += 3;
  }
  return PYD_STATUS_OK;
}

// Verifies that the counts of sizes, constants and bindings in the record at word |at| of the pool are those that the
// declaration of |command| requires, and that the whole record is in the pool.
static pyd_status_t verify_counts(const pyd_verifier_t* v, uint32_t at, const pyd_program_command_t* command) {
  const view_t counts = expected_counts(command);
  // Four words besides the lists: the command and three counts. A binding has three words.
  pyd_status_t status = pyd_verify_record(
      v, at, 4 + (uint64_t)counts.size_count + counts.constant_count + 3 * (uint64_t)counts.binding_count);
  if (!pyd_ok(status)) return status;
  const uint32_t* record = v->fn->pool + at;
  const uint32_t* words = record + 2 + counts.size_count;  // after the sizes: constants and bindings with their counts
  if (record[1] == counts.size_count && words[0] == counts.constant_count &&
      words[1 + counts.constant_count] == counts.binding_count) {
    return PYD_STATUS_OK;
  }
  return PYD_INSN_CORRUPT(v, "host command '%.*s' takes %u sizes, %u constants and %u tensors",
                          (int)command->name.length, command->name.data, counts.size_count, counts.constant_count,
                          counts.binding_count);
}

// Verifies the CUSTOM record at word |at| of the pool, the call of a host command. Adds its sizes, constants and
// bindings to the counts of the function.
static pyd_status_t verify(const pyd_verifier_t* v, uint32_t at) {
  pyd_function_t* fn = v->fn;
  pyd_status_t status = pyd_verify_record(v, at, 1);
  if (!pyd_ok(status)) return status;
  const uint32_t* record = fn->pool + at;
  if (record[0] >= v->program->command_count) {
    return PYD_INSN_CORRUPT(v, "host command %u, the program has %u", record[0], v->program->command_count);
  }
  const pyd_program_command_t* command = &v->program->commands[record[0]];
  status = verify_counts(v, at, command);
  if (!pyd_ok(status)) return status;
  const view_t view = read_record(record);
  status = verify_values(v, &view);
  if (pyd_ok(status)) status = verify_bindings(v, command, &view);
  PYD_COUNT_WORK(view.size_count + view.constant_count + command->operand_count);
  fn->constant_count += view.constant_count;
  fn->slot_count += view.binding_count;
  fn->custom.commands += 1;
  fn->custom.operands += command->operand_count;
  for (uint32_t i = 0; i < command->operand_count; ++i) fn->custom.sizes += command->operands[i].rank;
  return status;
}

// Marks the registers that decide which buffer ranges the command uses, and their shapes, as structural: a plan is
// valid only for their values.
static void mark(pyd_function_t* fn, const uint32_t* record) {
  const view_t view = read_record(record);
  for (uint32_t i = 0; i < view.size_count; ++i) pyd_mark_structural(fn, view.sizes[i]);
  for (uint32_t i = 0; i < view.binding_count; ++i) {
    pyd_mark_structural(fn, view.bindings[3 * i + 1]);
    pyd_mark_structural(fn, view.bindings[3 * i + 2]);
  }
}

// Returns the registers of a host command's scalars, two 32-bit words each. Implements pyd_command_type_t.values.
static pyd_command_values_t values(const uint32_t* record) {
  const view_t view = read_record(record);
  return (pyd_command_values_t){view.constants, view.constant_count};
}

// ---- plans

// Returns the alignment that host code may expect of elements, in bytes: the largest power of two that divides their
// size, at most 16.
static uint32_t alignment_of(uint32_t dtype) {
  uint32_t bytes = pyd_element_bytes(dtype), alignment = bytes & (~bytes + 1);  // the lowest bit that is set
  return alignment < 16 ? alignment : 16;
}

// Writes the name of an operand of a host command.
static void name_operand(const pyd_plan_t* plan, const pyd_plan_command_t* command, uint32_t index, char* text,
                         size_t size) {
  pyd_string_t name = plan->program->commands[command->command].name;
  snprintf(text, size, "host command '%.*s', operand %u", (int)(name.length < 100 ? name.length : 100), name.data,
           index);
}

// Adds a slot for the tensor operand |index|. Its buffer range must have at least the bytes of a tensor of |sizes|, and
// the alignment of its elements.
static pyd_status_t plan_tensor(pyd_plan_t* plan, pyd_plan_command_t* command, uint32_t index, const uint32_t* binding,
                                const int64_t* sizes) {
  const pyd_program_value_t* operand = &plan->program->commands[command->command].operands[index];
  pyd_status_t status = pyd_plan_add_slot(plan, command, binding[0], binding[1], binding[2], name_operand, index);
  if (!pyd_ok(status)) return status;
  pyd_plan_slot_t* slot = &plan->slots[plan->slot_count - 1];
  uint64_t bytes;
  uint32_t alignment = alignment_of(operand->dtype);
  bool fits = pyd_tensor_bytes(operand->dtype, operand->rank, sizes, &bytes) && bytes <= slot->length;
  if (!fits || (bytes && slot->offset % alignment)) {
    char who[192];
    name_operand(plan, command, index, who, sizeof(who));
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "function '%.*s', %s: %llu bytes at offset %llu are no such tensor",
                           STRING(plan->fn->info.name), who, (ull_t)slot->length, (ull_t)slot->offset);
  }
  slot->length = bytes;
  if (plan->buffer_alignment[binding[0]] < alignment) plan->buffer_alignment[binding[0]] = alignment;
  return PYD_STATUS_OK;
}

// Appends the sizes of all tensor operands to the plan's list. |size_regs|: the registers of the dynamic sizes, in
// order.
static void plan_sizes(pyd_plan_t* plan, const pyd_program_command_t* command, const uint32_t* size_regs) {
  for (uint32_t i = 0; i < command->operand_count; ++i) {
    const pyd_program_value_t* operand = &command->operands[i];
    for (uint32_t k = 0; k < operand->rank; ++k) {
      const bool is_dynamic = operand->dims[k] < 0;
      plan->sizes[plan->custom.sizes++] = is_dynamic ? (int64_t)plan->regs[*size_regs++] : operand->dims[k];
    }
  }
}

// Plans the call of a host command: its constants, the sizes of its tensors, and a slot for each tensor.
// INVALID_ARGUMENT if no function is linked, unless a device runs the calls of the program.
static pyd_status_t plan_custom(pyd_plan_t* plan, pyd_plan_command_t* out, const uint32_t* record) {
  const view_t view = read_record(record);
  const pyd_program_command_t* command = &plan->program->commands[view.command];
  if (!plan->program->command_links[view.command].function && !plan->program->runner.run) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "function '%.*s': host command '%.*s' is not linked",
                           STRING(plan->fn->info.name), (int)(command->name.length < 100 ? command->name.length : 100),
                           command->name.data);
  }
  out->count = 1;
  out->command = view.command;
  out->first = plan->custom;  // counts so far: the indices of this command, its first operand and its first size
  pyd_plan_add_constants(plan, out, view.constants, view.constant_count);
  const int64_t* sizes = plan->sizes + plan->custom.sizes;
  plan_sizes(plan, command, view.sizes);
  plan->custom.commands += 1;
  plan->custom.operands += command->operand_count;
  pyd_status_t status = PYD_STATUS_OK;
  const uint32_t* binding = view.bindings;
  for (uint32_t i = 0; i < command->operand_count && pyd_ok(status); ++i) {
    if (command->operands[i].kind != PYD_KIND_TENSOR) continue;  // a scalar, whose words are constants
    status = plan_tensor(plan, out, i, binding, sizes);
    sizes += command->operands[i].rank;
    binding += 3;  // words of a binding: buffer, offset and length
  }
  return status;
}

// Writes a readable description of a host command. Implements pyd_command_type_t.describe.
static void describe(const pyd_plan_t* plan, const pyd_plan_command_t* command, char* text, size_t size) {
  const pyd_program_command_t* called = &plan->program->commands[command->command];
  snprintf(text, size, "host command '%.*s' with %u operands", STRING(called->name), called->operand_count);
}

// Fills in the fields of |out_info| that only a host command has. Implements pyd_command_type_t.inform, which describes
// the commands of a plan for a device.
static void inform(const pyd_plan_t* plan, const pyd_plan_command_t* command, pyd_command_info_t* out_info) {
  (void)plan;
  out_info->command = command->command;
  out_info->constant_count = command->constant_count;
  out_info->first_constant = command->first_constant;
}

// ---- calls

// Stores a copy of the text of a failure, unless this run has one already. Called by the function of the command, from
// any thread.
static void fail(const pyd_host_command_t* command, const char* text) {
  pyd_custom_t* custom = (pyd_custom_t*)command;
  char *copy = strdup(text ? text : "it failed"), *none = NULL;
  const bool is_first = atomic_compare_exchange_strong(&custom->text, &none, copy);
  if (!is_first) free(copy);
}

// Stores the exception |object| that caused a failure of |command|, and takes ownership of it: |release| frees it. Only
// the first exception of a run is stored. |release| must be the same function in all calls.
void pyd_host_command_raised(const pyd_host_command_t* command, void* object, void (*release)(void* object)) {
  pyd_custom_t* custom = (pyd_custom_t*)command;
  void* none = NULL;
  atomic_store(&custom->release, release);
  const bool is_first = atomic_compare_exchange_strong(&custom->raised, &none, object);
  if (!is_first) release(object);
}

// Frees the text and the exception of a failure that was not reported: the command has returned 0 nevertheless, or
// another failure or an interrupt ended the step.
static void drop_failure(pyd_custom_t* custom) {
  free(atomic_exchange(&custom->text, NULL));
  void* raised = atomic_exchange(&custom->raised, NULL);
  void (*release)(void* object) = atomic_load(&custom->release);
  if (raised) release(raised);
}

// Runs |body| for indices [0, |count|) on the workers of the call. Returns 0, or the code with which it failed.
static int32_t parallel_for(const pyd_host_command_t* command, uint64_t count, pyd_host_body_fn_t body, void* self) {
  pyd_sched_t* sched = ((const pyd_custom_t*)command)->call->sched;
  pyd_sched_failure_t failure = {0};
  const pyd_sched_job_t job = {.body = body, .self = self, .count = count, .cost = NULL, .interrupt = NULL};
  if (sched) {
    pyd_sched_run(sched, &job, &failure);
  } else if (count) {
    failure.code = body(self, /* worker */ 0, /* begin */ 0, /* end */ count, &failure.index);
  }
  return failure.code;
}

// Fills in the description of the operands, except the addresses of tensors and the values of scalars, which change
// from run to run.
static void describe_operands(const pyd_plan_t* plan, const pyd_plan_command_t* command, pyd_host_operand_t* operands) {
  const pyd_program_command_t* declared = &plan->program->commands[command->command];
  const int64_t* sizes = plan->sizes + command->first.sizes;
  const pyd_plan_slot_t* slot = plan->slots + command->first_slot;
  for (uint32_t i = 0; i < declared->operand_count; ++i) {
    const pyd_program_value_t* value = &declared->operands[i];
    operands[i] = (pyd_host_operand_t){.kind = value->kind,
                                       .access = declared->accesses[i],
                                       .dtype = value->dtype,
                                       .rank = value->rank,
                                       .sizes = sizes};
    sizes += value->rank;
    if (value->kind == PYD_KIND_TENSOR) operands[i].bytes = slot++->length;
  }
}

// Fills in the description of the command that the host's function receives.
static void prepare(const pyd_call_t* call, const pyd_plan_command_t* command, pyd_call_command_t* out) {
  const pyd_plan_t* plan = call->plan;
  const pyd_program_command_t* declared = &plan->program->commands[command->command];
  pyd_custom_t* custom = out->custom = call->customs + command->first.commands;
  pyd_host_operand_t* operands = call->operands + command->first.operands;
  describe_operands(plan, command, operands);
  custom->call = call;
  custom->link = plan->program->command_links[command->command];
  custom->name = strndup(declared->name.data ? declared->name.data : "", declared->name.length);
  atomic_init(&custom->text, NULL);
  atomic_init(&custom->raised, NULL);
  atomic_init(&custom->release, NULL);
  custom->command = (pyd_host_command_t){
      .struct_size = sizeof(pyd_host_command_t),
      .operand_size = sizeof(pyd_host_operand_t),
      .name = custom->name ? custom->name : "",
      .device = PYD_HOST_CPU,
      .operand_count = declared->operand_count,
      .operands = operands,
      .fail = fail,
      .parallel_for = parallel_for,
  };
}

// Frees what the host commands of a call have allocated, and texts and exceptions of failures that were not reported.
void pyd_call_free_customs(pyd_call_t* call) {
  for (uint32_t i = 0; i < call->plan->custom.commands; ++i) {
    free(call->customs[i].name);
    drop_failure(&call->customs[i]);
  }
}

// Returns the functions that get and set this thread's innermost scope, an operation that the thread works for, such as
// a host command of a program. Without a scheduler they are NULL: no scope is recorded.
static pyd_scope_access_t scopes_of(const pyd_call_t* call) {
  return call->sched ? pyd_sched_scopes(call->sched) : (pyd_scope_access_t){NULL, NULL};
}

// Refuses a call from inside a host command of the same program, which could wait for itself.
pyd_status_t pyd_call_refuse_nested(const pyd_call_t* call) {
  if (!pyd_scope_has(scopes_of(call), call->plan->program)) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                         "function '%.*s' was called by a host command of its own program; a command "
                         "may call other programs",
                         STRING(call->plan->fn->info.name));
}

// Writes the addresses of tensors and the values of scalars in this call to the operands.
static void fill_operands(const pyd_call_t* call, const pyd_custom_t* custom, const pyd_plan_command_t* plan) {
  pyd_host_operand_t* operand = call->operands + plan->first.operands;
  const pyd_host_operand_t* end = operand + custom->command.operand_count;
  void* const* data = call->pointers + plan->first_slot;
  const uint32_t* word = call->constants + plan->first_constant;
  for (; operand < end; ++operand) {
    if (operand->kind == PYD_HOST_TENSOR) {
      operand->data = *data++;
    } else {
      operand->word = word[0] | (uint64_t)word[1] << 32;
      word += 2;
    }
  }
}

// Calls the function of the host command. A command is one index, so |begin| and |end| are 0 and 1.
static int32_t run(const pyd_call_t* call, const pyd_call_command_t* command, uint32_t worker, uint64_t begin,
                   uint64_t end, uint64_t* out_failed) {
  (void)worker, (void)begin, (void)end;
  pyd_custom_t* custom = command->custom;
  pyd_scope_access_t scopes = scopes_of(call);
  fill_operands(call, custom, command->plan);
  pyd_blocking_t blocking;  // host code may sleep
  pyd_sched_block_begin(call->sched, &blocking);
  drop_failure(custom);  // of an earlier run; may sleep, too: freeing an exception of Python takes the interpreter lock
  // Lets pyd_call_refuse_nested() detect calls of this program from inside the function.
  const pyd_scope_t scope = {.outer = pyd_scope_now(scopes), .owner = call->plan->program};
  pyd_scope_set(scopes, &scope);
  int32_t code = custom->link.function(&custom->command, custom->link.context, NULL);
  pyd_scope_set(scopes, scope.outer);
  pyd_sched_block_end(&blocking);
  if (code) *out_failed = command->plan->start;
  return code;
}

// Returns the failure of a host command that returned |code|: COMMAND. If the command has stored a text and an
// exception, the status contains the text, and owns the exception.
static pyd_status_t refuse(const pyd_call_t* call, const pyd_plan_command_t* command, uint64_t index, int32_t code) {
  (void)index;  // a host command has one index
  pyd_custom_t* custom = call->customs + command->first.commands;
  const int64_t values[5] = {command->number, 0, 0, 0, code};  // in the order of pyd_status_make_values()
  pyd_string_t name = call->plan->program->commands[command->command].name;
  char* text = atomic_exchange(&custom->text, NULL);
  pyd_status_t status =
      text ? pyd_status_make_values(PYD_CODE_COMMAND, values, "function '%.*s', command %u: host command '%.*s': %s",
                                    STRING(call->plan->fn->info.name), command->number, STRING(name), text)
           : pyd_status_make_values(PYD_CODE_COMMAND, values,
                                    "function '%.*s', command %u: host command '%.*s' returned %d",
                                    STRING(call->plan->fn->info.name), command->number, STRING(name), code);
  free(text);
  void* raised = atomic_exchange(&custom->raised, NULL);
  if (raised) status = pyd_status_attach(status, raised, atomic_load(&custom->release));
  return pyd_status_add_name(status, PYD_STATUS_SYMBOL, name.data, name.length);
}

const pyd_command_type_t pyd_command_type_CUSTOM = {
    .verify = verify,
    .mark = mark,
    .values = values,
    .plan = plan_custom,
    .describe = describe,
    .inform = inform,
    .prepare = prepare,
    .run = run,
    .refuse = refuse,
};
