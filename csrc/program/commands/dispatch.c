// DISPATCH {export, grid x, y, z, n, n constants, m, m bindings}: a dispatch of an export over a grid of workgroups.
// Export, grid and constants are registers; a binding is a buffer and the registers of its offset and length, each
// optional. pyd_dispatch_view reads a record.
#include <stdio.h>
#include <string.h>

#include "program/commands/command.h"
#include "pydispatch/pool.h"

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

typedef long long ll_t;
typedef unsigned long long ull_t;

// ---- records

// Verifies the fields of a dispatch in a chain (a tile-fused dispatch sequence): operand b is the number of workgroups
// of a tile, 0 outside of chains, and modifier 1 continues the chain of the dispatch before it.
static pyd_status_t verify_chain(const pyd_verifier_t* v) {
  const pyd_function_t* fn = v->fn;
  const pyd_insn_t* insn = &fn->insns[v->insn];
  if (insn->modifier > 1 || insn->b > PYD_CHAIN_MAX_GROUPS) {
    return PYD_INSN_CORRUPT(v, "a place %u in a chain with tiles of %u workgroups", insn->modifier, insn->b);
  }
  if (insn->modifier == 0) return PYD_STATUS_OK;
  // The last command of the list is this one.
  const pyd_insn_t* before = fn->command_count > 1 ? &fn->insns[fn->commands[fn->command_count - 2]] : NULL;
  // Both dispatches have tiles, and the later one waits for the earlier one, as its region is later.
  bool follows = before && before->op == PYD_OP_DISPATCH && before->b && insn->b &&
                 pyd_command_region(before) < pyd_command_region(insn);
  if (follows) return PYD_STATUS_OK;
  return PYD_INSN_CORRUPT(v, "%s", "it continues a chain, but no dispatch of an earlier region with tiles precedes it");
}

enum { kFixedWords = 6 };  // export, grid, and the two counts

// Verifies that the whole record at |at| is inside the pool, so that pyd_dispatch_view can read it, and that its counts
// of constants and bindings are within the limits of the library format.
static pyd_status_t verify_extent(const pyd_verifier_t* v, uint32_t at) {
  pyd_status_t status = pyd_verify_record(v, at, kFixedWords);
  if (!pyd_ok(status)) return status;
  const uint32_t* record = v->fn->pool + at;
  uint32_t constants = record[4];  // their number, after the export and the grid
  if (constants > PYD_LIBRARY_MAX_CONSTANTS)
    return PYD_INSN_CORRUPT(v, "%u constants, the limit is %u", constants, PYD_LIBRARY_MAX_CONSTANTS);
  status = pyd_verify_record(v, at, kFixedWords + (uint64_t)constants);
  if (!pyd_ok(status)) return status;
  uint32_t bindings = record[5 + constants];  // their number, after the constants
  if (bindings > PYD_LIBRARY_MAX_BINDINGS)
    return PYD_INSN_CORRUPT(v, "%u bindings, the limit is %u", bindings, PYD_LIBRARY_MAX_BINDINGS);
  return pyd_verify_record(v, at, kFixedWords + (uint64_t)constants + 3 * (uint64_t)bindings);
}

// Verifies the record of a dispatch at pool word |at|, and the place of the dispatch in a tile-fused dispatch sequence.
// Adds its constants and bindings to the counts of the function.
static pyd_status_t verify(const pyd_verifier_t* v, uint32_t at) {
  pyd_function_t* fn = v->fn;
  pyd_status_t status = verify_extent(v, at);
  if (pyd_ok(status)) status = verify_chain(v);
  if (!pyd_ok(status)) return status;
  pyd_dispatch_view_t view = pyd_dispatch_view(fn->pool + at);
  status = pyd_verify_read(v, view.export_reg);
  for (uint32_t i = 0; i < 3 && pyd_ok(status); ++i) status = pyd_verify_read(v, view.grid[i]);
  // A constant is a 32-bit word: the low half of a register, or with the flag PYD_CONSTANT_HIGH the high half.
  for (uint32_t i = 0; i < view.constant_count && pyd_ok(status); ++i) {
    status = pyd_verify_read(v, view.constants[i] & ~PYD_CONSTANT_HIGH);
  }
  for (uint32_t i = 0; i < view.binding_count && pyd_ok(status); ++i) {
    const uint32_t* binding = view.bindings + 3 * i;
    status = pyd_verify_buffer(v, binding[0], /* is_written */ false);  // whether kernels write it is not known here
    if (pyd_ok(status)) status = pyd_verify_optional(v, binding[1]);
    if (pyd_ok(status)) status = pyd_verify_optional(v, binding[2]);
  }
  PYD_COUNT_WORK(view.constant_count + view.binding_count);
  fn->constant_count += view.constant_count;
  fn->slot_count += view.binding_count;
  return status;
}

// Marks as structural (the plan depends on its value) each register that decides which kernel runs, over which grid, on
// which buffer ranges. A binding has three words: a buffer, which is no register, and the registers of the offset and
// of the length of its range.
static void mark(pyd_function_t* fn, const uint32_t* record) {
  pyd_dispatch_view_t view = pyd_dispatch_view(record);
  pyd_mark_structural(fn, view.export_reg);
  for (uint32_t i = 0; i < 3; ++i) pyd_mark_structural(fn, view.grid[i]);
  for (uint32_t i = 0; i < view.binding_count; ++i) {
    pyd_mark_structural(fn, view.bindings[3 * i + 1]);
    pyd_mark_structural(fn, view.bindings[3 * i + 2]);
  }
}

// Returns the registers of a dispatch's constants.
static pyd_command_values_t values(const uint32_t* record) {
  pyd_dispatch_view_t view = pyd_dispatch_view(record);
  return (pyd_command_values_t){view.constants, view.constant_count};
}

// Returns the register of a dispatch's export, and its bindings.
static pyd_command_bindings_t bindings(const uint32_t* record) {
  pyd_dispatch_view_t view = pyd_dispatch_view(record);
  return (pyd_command_bindings_t){view.bindings, view.binding_count, view.export_reg};
}

// ---- plans

// Returns the export that command |number| dispatches, after checking that it is linked and takes as many constants and
// bindings as the record has.
static pyd_status_t find_export(const pyd_plan_t* plan, const pyd_dispatch_view_t* view, uint32_t number,
                                const pyd_export_t** out_export) {
  const pyd_program_t* program = plan->program;
  pyd_string_t name = plan->fn->info.name;
  uint64_t index = plan->regs[view->export_reg];
  if (index >= program->export_count) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "function '%.*s', command %u: export %lld, the program has %u",
                           STRING(name), number, (ll_t)index, program->export_count);
  }
  const pyd_export_t* export = *out_export = &program->exports[index];
  pyd_string_t executable = program->executables[export->executable].name;
  if (!export->function) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "function '%.*s', command %u: executable '%.*s' is not linked",
                           STRING(name), number, STRING(executable));
  }
  if (view->constant_count != export->constant_count || view->binding_count != export->binding_count) {
    return pyd_status_make(
        PYD_CODE_CORRUPT, "function '%.*s', command %u: @%.*s::@%.*s takes %u constants and %u bindings, got %u and %u",
        STRING(name), number, STRING(executable), STRING(export->name), export->constant_count, export->binding_count,
        view->constant_count, view->binding_count);
  }
  return PYD_STATUS_OK;
}

// Writes the name of the kernel of a dispatch, shortened to 100 bytes of each of its parts. Returns its length.
static size_t name_kernel(const pyd_plan_t* plan, const pyd_plan_command_t* command, char* text, size_t size) {
  const pyd_export_t* export = &plan->program->exports[command->export];
  pyd_string_t executable = plan->program->executables[export->executable].name;
  snprintf(text, size, "@%.*s::@%.*s", executable.length < 100 ? (int)executable.length : 100, executable.data,
           export->name.length < 100 ? (int)export->name.length : 100, export->name.data);
  return strlen(text);
}

// Writes the name of a binding of a dispatch.
static void name_binding(const pyd_plan_t* plan, const pyd_plan_command_t* command, uint32_t index, char* text,
                         size_t size) {
  size_t length = name_kernel(plan, command, text, size);
  snprintf(text + length, size - length, ", binding %u", index);
}

// Returns the INVALID_ARGUMENT failure of a dispatch over |grid|; |what| is wrong with it.
static pyd_status_t refuse_grid(const pyd_plan_t* plan, const pyd_plan_command_t* command, const uint64_t* grid,
                                const char* what) {
  char who[256];
  name_kernel(plan, command, who, sizeof(who));
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "function '%.*s', %s: a grid of %lld x %lld x %lld %s",
                         STRING(plan->fn->info.name), who, (ll_t)grid[0], (ll_t)grid[1], (ll_t)grid[2], what);
}

// Reads the grid and computes the number of workgroups. INVALID_ARGUMENT if it exceeds the limits of the library
// format. If one of its sizes is 0, the others may exceed them (but not be negative), as nothing runs.
static pyd_status_t set_grid(const pyd_plan_t* plan, const pyd_dispatch_view_t* view, pyd_plan_command_t* command) {
  static const uint64_t kLimits[3] = {UINT32_MAX, UINT32_MAX, UINT16_MAX};
  uint64_t grid[3];
  bool is_empty = false, fits = true;
  for (uint32_t i = 0; i < 3; ++i) {
    grid[i] = plan->regs[view->grid[i]];
    is_empty |= grid[i] == 0;
  }
  for (uint32_t i = 0; i < 3; ++i) {
    fits &= grid[i] <= (is_empty ? INT64_MAX : kLimits[i]);
    // Only sizes of an empty grid are reduced to the limit: all others fit, or the grid is refused.
    command->grid[i] = grid[i] <= kLimits[i] ? (uint32_t)grid[i] : (uint32_t)kLimits[i];
  }
  if (!fits) {
    return refuse_grid(plan, command, grid, "workgroups, at most 4294967295 x 4294967295 x 65535 are possible");
  }
  // The product of the first two sizes fits, as both are below 2^32.
  if (__builtin_mul_overflow((uint64_t)command->grid[0] * command->grid[1], (uint64_t)command->grid[2],
                             &command->count)) {
    return refuse_grid(plan, command, grid, "has more than 2^64 workgroups");
  }
  return PYD_STATUS_OK;
}

// Adds the ranges of buffers that a dispatch binds, and raises the alignment of these buffers to |alignment| bytes.
static pyd_status_t add_bindings(pyd_plan_t* plan, const pyd_dispatch_view_t* view, pyd_plan_command_t* command,
                                 uint32_t alignment) {
  for (uint32_t i = 0; i < view->binding_count; ++i) {
    const uint32_t* binding = view->bindings + 3 * i;  // buffer, register of the offset, register of the length
    if (command->count == 0) {                         // nothing runs, so its ranges need not be valid
      plan->slots[plan->slot_count++] = (pyd_plan_slot_t){binding[0], 0, 0};
      ++command->slot_count;
      continue;
    }
    pyd_status_t status = pyd_plan_add_slot(plan, command, binding[0], binding[1], binding[2], name_binding, i);
    if (!pyd_ok(status)) return status;
    const pyd_plan_slot_t* slot = &plan->slots[plan->slot_count - 1];
    if (slot->length && slot->offset % alignment) continue;  // stage.c copies it to an aligned buffer
    if (plan->buffer_alignment[binding[0]] < alignment) plan->buffer_alignment[binding[0]] = alignment;
  }
  return PYD_STATUS_OK;
}

// Plans a dispatch: its export, constants, grid and bindings; checks it against the kernel's contract (which elements
// the kernel reads and writes).
static pyd_status_t plan_dispatch(pyd_plan_t* plan, pyd_plan_command_t* command, const uint32_t* record) {
  pyd_dispatch_view_t view = pyd_dispatch_view(record);
  const pyd_export_t* export = NULL;
  pyd_status_t status = find_export(plan, &view, command->number, &export);
  if (!pyd_ok(status)) return status;
  command->export = (uint32_t)plan->regs[view.export_reg];
  command->local_bytes = export->attrs->local_memory_pages * PYD_LIBRARY_PAGE_SIZE;
  pyd_plan_add_constants(plan, command, view.constants, view.constant_count);
  status = set_grid(plan, &view, command);
  uint32_t alignment = plan->program->links[export->executable].alignment;
  if (command->count) {  // else nothing runs, and nothing has to be aligned
    command->alignment = alignment;
    if (command->local_bytes > plan->local_bytes) plan->local_bytes = command->local_bytes;
  }
  if (pyd_ok(status)) status = add_bindings(plan, &view, command, alignment);
  if (pyd_ok(status)) status = pyd_plan_check_contract(plan, command, view.constants);
  return status;
}

// Writes a readable description of a dispatch, such as "dispatch @executable::@simple_mul 16x1x1".
static void describe(const pyd_plan_t* plan, const pyd_plan_command_t* command, char* text, size_t size) {
  const pyd_export_t* export = &plan->program->exports[command->export];
  pyd_string_t executable = plan->program->executables[export->executable].name;
  snprintf(text, size, "dispatch @%.*s::@%.*s %ux%ux%u", STRING(executable), STRING(export->name), command->grid[0],
           command->grid[1], command->grid[2]);
}

// Fills the fields of |out_info| that only a dispatch has, for a device that runs the plan.
static void inform(const pyd_plan_t* plan, const pyd_plan_command_t* command, pyd_command_info_t* out_info) {
  const pyd_export_t* export = &plan->program->exports[command->export];
  out_info->executable = export->executable;
  out_info->export = command->export;
  out_info->ordinal = export->ordinal;
  out_info->name = export->name;
  memcpy(out_info->grid, command->grid, sizeof(out_info->grid));
  out_info->constant_count = command->constant_count;
  out_info->first_constant = command->first_constant;
}

// ---- calls

// Limits |value| to 255, the largest value of the field of the library format.
static uint8_t to_u8(uint32_t value) { return (uint8_t)(value < UINT8_MAX ? value : UINT8_MAX); }

// Fills what is the same in all runs: the kernel, its dispatch state, and the state of workgroup (0, 0, 0) on worker 0.
static void prepare(const pyd_call_t* call, const pyd_plan_command_t* command, pyd_call_command_t* out) {
  const pyd_program_t* program = call->plan->program;
  const pyd_export_t* export = &program->exports[command->export];
  const pyd_library_export_attrs_t* attrs = export->attrs;
  out->function = export->function;
  out->environment = program->links[export->executable].environment;
  out->is_embedded = program->links[export->executable].is_embedded;
  // A workgroup size that the library does not state is 1.
  out->state = (pyd_dispatch_state_t){
      .workgroup_size_x = attrs->workgroup_size_x ? attrs->workgroup_size_x : 1,
      .workgroup_size_y = attrs->workgroup_size_y ? attrs->workgroup_size_y : 1,
      .workgroup_size_z = attrs->workgroup_size_z ? attrs->workgroup_size_z : 1,
      .constant_count = (uint16_t)command->constant_count,
      .workgroup_count_x = command->grid[0],
      .workgroup_count_y = command->grid[1],
      .workgroup_count_z = (uint16_t)command->grid[2],
      .max_concurrency = to_u8(call->workers),
      .binding_count = (uint8_t)command->slot_count,
      .constants = call->constants + command->first_constant,
      .binding_ptrs = call->pointers + command->first_slot,
      .binding_lengths = call->lengths + command->first_slot,
  };
  out->workgroup = (pyd_workgroup_state_t){
      .local_memory = command->local_bytes ? call->scratch : NULL,
      .local_memory_size = command->local_bytes,
  };
}

// Coordinates of a workgroup in the grid, from 0.
typedef struct group_s {
  uint32_t x, y, z;
} group_t;

// Returns the coordinates of workgroup |index| of the command; x varies fastest.
static group_t workgroup_at(const pyd_plan_command_t* command, uint64_t index) {
  if (index < command->grid[0]) return (group_t){(uint32_t)index, 0, 0};
  uint64_t row = index / command->grid[0];
  return (group_t){(uint32_t)(index % command->grid[0]), (uint32_t)(row % command->grid[1]),
                   (uint32_t)(row / command->grid[1])};
}

// Returns the local memory of a worker for a dispatch; NULL if the kernel uses none. Each worker of a call has as much
// as the dispatch of the plan that needs most.
static void* local_memory_of(const pyd_call_t* call, const pyd_plan_command_t* dispatch, uint32_t worker) {
  return dispatch->local_bytes ? call->scratch + (size_t)worker * call->plan->local_bytes : NULL;
}

// Runs workgroups [begin, end) of one dispatch on |worker|. Index i of a workgroup in its dispatch counts with x
// fastest: i = (z * count_y + y) * count_x + x. Ends at the first workgroup that fails: returns its code, and sets
// |*out_failed| to its index in the step, which is |dispatch->start| more. Returns 0 without a failure.
static int32_t run(const pyd_call_t* call, const pyd_call_command_t* command, uint32_t worker, uint64_t begin,
                   uint64_t end, uint64_t* out_failed) {
  const pyd_plan_command_t* dispatch = command->plan;
  const pyd_dispatch_fn_t function = command->function;
  const pyd_environment_t* environment = command->environment;
  const pyd_dispatch_state_t* state = &command->state;
  const bool is_embedded = command->is_embedded;
  const uint32_t count_x = dispatch->grid[0], count_y = dispatch->grid[1];
  group_t id = workgroup_at(dispatch, begin);
  _Alignas(16) pyd_workgroup_state_t workgroup = {
      .workgroup_id_x = id.x,
      .workgroup_id_y = id.y,
      .workgroup_id_z = (uint16_t)id.z,
      .processor_id = worker,
      .local_memory = local_memory_of(call, dispatch, worker),
      .local_memory_size = dispatch->local_bytes,
  };
  // Bytes of local memory to fill before each workgroup, so that reads of uninitialized memory are noticed.
  const size_t poisoned = UNLIKELY(call->is_poisoned) ? dispatch->local_bytes : 0;
  for (uint64_t left = end - begin;;) {
    // Runs the workgroups that are left in the current row, |left| of them at most: only x changes.
    uint64_t row = count_x - id.x;
    uint32_t x_end = id.x + (uint32_t)(left < row ? left : row);
    left -= x_end - id.x;
    for (; id.x < x_end; ++id.x) {
      workgroup.workgroup_id_x = id.x;
      if (UNLIKELY(poisoned)) memset(workgroup.local_memory, PYD_POISON_BYTE, poisoned);
      int32_t code = pyd_dispatch_call(function, is_embedded, environment, state, &workgroup);
      if (LIKELY(code == 0)) continue;
      *out_failed = dispatch->start + ((uint64_t)id.z * count_y + id.y) * count_x + id.x;
      return code;
    }
    if (left == 0) return 0;
    // The next row begins; after the last row of a plane the next plane.
    id.x = 0;
    if (++id.y == count_y) {
      id.y = 0;
      workgroup.workgroup_id_z = (uint16_t)++id.z;
    }
    workgroup.workgroup_id_y = id.y;
  }
}

// Returns the meaning of a code of generated kernels, to be appended to a message.
static const char* code_text(int32_t code) {
  switch (code) {
    case PYD_LIBRARY_CODE_MISSING_IMPORT: return ": it called an unresolved optional import";
    case PYD_LIBRARY_CODE_FAILED_ASSERTION: return ": a cf.assert does not hold";
    default: return "";
  }
}

// Adds the source location of the export to a status, if its library has one.
static pyd_status_t add_location(pyd_status_t status, const pyd_program_t* program, const pyd_export_t* export) {
  const pyd_executable_t* executable = program->links[export->executable].executable;
  const pyd_library_exports_t* exports = executable ? &pyd_executable_library(executable)->exports : NULL;
  if (!exports || !exports->source_locations) return status;
  const pyd_library_source_location_t* location = &exports->source_locations[export->linked_ordinal];
  char text[512];
  int length = snprintf(text, sizeof(text), "%.*s:%u", (int)(location->path_length < 480 ? location->path_length : 480),
                        location->path ? location->path : "", location->line);
  // The library may have locations, but none of this export.
  return location->path_length ? pyd_status_add_name(status, PYD_STATUS_LOCATION, text, (size_t)length) : status;
}

// Returns the failure of a kernel that returned |code| in the workgroup with index |index| of the step.
static pyd_status_t refuse(const pyd_call_t* call, const pyd_plan_command_t* command, uint64_t index, int32_t code) {
  const pyd_export_t* export = &call->plan->program->exports[command->export];
  pyd_string_t executable = call->plan->program->executables[export->executable].name;
  group_t id = workgroup_at(command, index - command->start);
  // The numbers of the failure, for callers that do not parse the message.
  const int64_t values[5] = {command->number, id.x, id.y, id.z, code};
  pyd_status_t status = pyd_status_make_values(
      PYD_CODE_KERNEL, values, "@%.*s::@%.*s: workgroup (%u, %u, %u) returned %d%s", (int)executable.length,
      executable.data, (int)export->name.length, export->name.data, id.x, id.y, id.z, code, code_text(code));
  status = pyd_status_add_name(status, PYD_STATUS_EXECUTABLE, executable.data, executable.length);
  status = pyd_status_add_name(status, PYD_STATUS_EXPORT, export->name.data, export->name.length);
  return add_location(status, call->plan->program, export);
}

const pyd_command_type_t pyd_command_type_DISPATCH = {
    .verify = verify,
    .mark = mark,
    .values = values,
    .bindings = bindings,
    .plan = plan_dispatch,
    .describe = describe,
    .inform = inform,
    .prepare = prepare,
    .run = run,
    .refuse = refuse,
};
