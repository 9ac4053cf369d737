// Contracts: preconditions of generated kernels, stated by the compiler and checked for each dispatch of a plan.
//
// A contract is a function from the constants of an export to scalars: the largest grid, the bit set of written
// bindings, for each binding the number of bytes that the kernel may access, and, optionally, for each binding the
// number of bytes that belong to one workgroup alone. Its check instructions are further preconditions.
#include <stdlib.h>

#include "program/plan/plan.h"

typedef unsigned long long ull_t;

// Returns whether |export| has a contract that reads constant |word| of a dispatch.
bool pyd_contract_reads(const pyd_export_t* export, uint32_t word) {
  const pyd_function_t* contract = export->contract;
  return contract && word < contract->info.arg_count && contract->args[word].is_read;
}

// Returns whether |fn| can be the contract of |export|, the function that states what its kernel accesses. It takes one
// scalar per constant of the export, and returns PYD_CONTRACT_BYTES scalars and then one or two scalars per binding:
// the bytes that the kernel may access and, with two, the bytes that one workgroup may access.
static bool has_contract_signature(const pyd_export_t* export, const pyd_function_t* fn) {
  const pyd_program_function_t* info = &fn->info;
  const bool has_one_size = info->result_count == PYD_CONTRACT_BYTES + export->binding_count;
  const bool has_two_sizes = info->result_count == PYD_CONTRACT_BYTES + 2 * export->binding_count;
  bool is_valid = info->arg_count == export->constant_count && (has_one_size || has_two_sizes);
  is_valid = is_valid && fn->command_count == 0;  // it only computes scalars
  for (uint32_t i = 0; is_valid && i < info->arg_count; ++i) is_valid = info->args[i].kind == PYD_KIND_SCALAR;
  for (uint32_t i = 0; is_valid && i < info->result_count; ++i) is_valid = info->results[i].kind == PYD_KIND_SCALAR;
  return is_valid;
}

// Sets the contracts of the exports of |executable|, functions that say which elements a kernel reads and writes.
// |functions|: by ordinal of an export in its library, the number of a function of |contracts|, or PYD_NONE for none.
// |contracts| must outlive |program|. CORRUPT for a function that does not have the arguments of its export.
pyd_status_t pyd_program_set_contracts(pyd_program_t* program, uint32_t executable, pyd_program_t* contracts,
                                       const uint32_t* functions, uint32_t count) {
  if (executable >= program->executable_count) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "executable %u does not exist, the program has %u", executable,
                           program->executable_count);
  }
  for (uint32_t i = program->exports_first[executable]; i < program->exports_first[executable + 1]; ++i) {
    pyd_export_t* export = &program->exports[program->exports_of[i]];
    uint32_t number = export->linked_ordinal < count ? functions[export->linked_ordinal] : PYD_NONE;
    if (number == PYD_NONE) continue;
    if (number >= contracts->function_count || !has_contract_signature(export, &contracts->functions[number])) {
      return pyd_status_make(PYD_CODE_CORRUPT,
                             "@%.*s::@%.*s: contract %u of %u is none for %u constants and %u bindings",
                             STRING(program->executables[executable].name), STRING(export->name), number,
                             contracts->function_count, export->constant_count, export->binding_count);
    }
    export->contracts = contracts;
    export->contract = &contracts->functions[number];
    program->has_contracts = true;
  }
  return PYD_STATUS_OK;
}

// Analyses all functions again, so that plans depend on the scalars that contracts read, too. Called after all
// contracts are set, before the first plan.
pyd_status_t pyd_program_apply_contracts(pyd_program_t* program) {
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; program->has_contracts && i < program->function_count && pyd_ok(status); ++i) {
    status = pyd_function_analyse(program, &program->functions[i]);
  }
  return status;
}

// A dispatch that is checked.
typedef struct dispatch_s {
  const pyd_plan_t* plan;
  const pyd_plan_command_t* command;
  const pyd_export_t* export;  // that it calls
  pyd_string_t executable;     // name of the executable that has the export
} dispatch_t;

// The status of a dispatch that breaks its contract.
#define BROKEN(d, format, ...)                                                                     \
  pyd_status_make(PYD_CODE_CORRUPT, "function '%.*s', command %u: @%.*s::@%.*s, " format,          \
                  STRING((d)->plan->fn->info.name), (d)->command->number, STRING((d)->executable), \
                  STRING((d)->export->name), __VA_ARGS__)

// Checks the grid of a dispatch against |limits|, the maximum counts of workgroups along x, y and z. UINT64_MAX, which
// is -1 in the contract: no limit.
static pyd_status_t check_grid(const dispatch_t* d, const uint64_t* limits) {
  for (uint32_t i = 0; i < 3; ++i) {
    if (d->command->grid[i] <= limits[i]) continue;
    return BROKEN(d, "grid: %u workgroups along %c, the kernel was made for %llu", d->command->grid[i], "xyz"[i],
                  (ull_t)limits[i]);
  }
  return PYD_STATUS_OK;
}

// Checks that binding |index| has the |needed| bytes that the kernel may access, and, if the kernel writes it, is
// neither an argument nor a constant.
static pyd_status_t check_binding(const dispatch_t* d, uint32_t index, bool is_written, uint64_t needed) {
  const pyd_plan_slot_t* slot = &d->plan->slots[d->command->first_slot + index];
  uint32_t kind = d->plan->fn->buffers[slot->buffer].kind;
  bool is_fixed = kind == PYD_BUFFER_ARGUMENT || kind == PYD_BUFFER_CONSTANT;
  const bool is_forbidden_write = is_written && is_fixed && needed;  // with 0 bytes nothing is written
  if (needed <= slot->length && !is_forbidden_write) return PYD_STATUS_OK;
  char who[128];
  pyd_plan_name_buffer(d->plan->fn, slot->buffer, who, sizeof(who));
  if (needed <= slot->length) return BROKEN(d, "binding %u: the kernel writes %s, which is never written", index, who);
  return BROKEN(d, "binding %u: the kernel needs %llu bytes, given %llu bytes at %llu of %s", index, (ull_t)needed,
                (ull_t)slot->length, (ull_t)slot->offset, who);
}

// Evaluates the contract for the constants of a dispatch, and checks its grid and bindings. |scalars| and |regs|:
// scratch arrays, with an element per constant of the dispatch and per register of the contract.
static pyd_status_t check_dispatch(const dispatch_t* d, uint64_t* scalars, uint64_t* regs) {
  const pyd_function_t* contract = d->export->contract;
  for (uint32_t i = 0; i < d->command->constant_count; ++i)
    scalars[i] = d->plan->constants[d->command->first_constant + i];
  pyd_status_t status = pyd_function_interpret(d->export->contracts, contract, /* dims */ NULL, scalars, regs);
  if (!pyd_ok(status)) {
    pyd_status_t broken = BROKEN(d, "its constants: %s", pyd_status_text(status));
    pyd_status_free(status);
    return broken;
  }
  uint64_t limits[3];
  const pyd_result_slot_t* results = contract->results;
  for (uint32_t i = 0; i < 3; ++i) limits[i] = regs[results[PYD_CONTRACT_GRID + i].target];
  status = check_grid(d, limits);
  uint64_t written = regs[results[PYD_CONTRACT_WRITTEN].target];
  for (uint32_t i = 0; i < d->command->slot_count && pyd_ok(status); ++i) {
    status = check_binding(d, i, written >> i & 1, regs[results[PYD_CONTRACT_BYTES + i].target]);
  }
  return status;
}

// Returns result |index| of the contract of a dispatch. Returns |otherwise| if there is no contract or no such result,
// if the contract fails, or if it needs more than kMaxWords words of stack memory.
static uint64_t evaluate_result(const pyd_plan_t* plan, const pyd_plan_command_t* command, uint32_t index,
                                uint64_t otherwise) {
  const pyd_export_t* export = &plan->program->exports[command->export];
  const pyd_function_t* contract = export->contract;
  enum { kMaxWords = 256 };
  uint64_t memory[kMaxWords];
  if (!contract || index >= contract->info.result_count) return otherwise;
  if ((uint64_t)contract->reg_count + command->constant_count > kMaxWords) return otherwise;
  uint64_t* scalars = memory + contract->reg_count;  // after the registers
  for (uint32_t i = 0; i < command->constant_count; ++i) scalars[i] = plan->constants[command->first_constant + i];
  pyd_status_t status = pyd_function_interpret(export->contracts, contract, /* dims */ NULL, scalars, memory);
  uint64_t result = pyd_ok(status) ? memory[contract->results[index].target] : otherwise;
  pyd_status_free(status);
  return result;
}

// Returns the bit set of the bindings that a dispatch may write: those that its contract states, or all bits if the
// contract is missing or cannot be evaluated.
uint64_t pyd_plan_written_bindings(const pyd_plan_t* plan, const pyd_plan_command_t* command) {
  return evaluate_result(plan, command, PYD_CONTRACT_WRITTEN, UINT64_MAX);
}

// Returns whether the workgroups of a tile access only the |bytes| bytes of binding |index| that belong to the tile.
// True without a contract: then the program is trusted.
bool pyd_plan_keeps_tile(const pyd_plan_t* plan, const pyd_plan_command_t* command, uint32_t index, uint64_t bytes) {
  if (!plan->program->exports[command->export].contract) return true;
  // The second size of a binding: the bytes that belong to one workgroup; 0 if a workgroup may access all bytes.
  const uint32_t second_size = PYD_CONTRACT_BYTES + command->slot_count + index;
  const uint64_t group_bytes = evaluate_result(plan, command, second_size, /* otherwise */ 0);
  return group_bytes != 0 && bytes % command->tile_groups == 0 && bytes / command->tile_groups == group_bytes;
}

// Checks a dispatch of the plan against the contract of its kernel, if it has one. |constants|: the registers of the
// dispatch's constants, with the flag PYD_CONSTANT_HIGH for the high word of a register.
pyd_status_t pyd_plan_check_contract(const pyd_plan_t* plan, const pyd_plan_command_t* command,
                                     const uint32_t* constants) {
  const pyd_export_t* export = &plan->program->exports[command->export];
  if (!export->contract || command->count == 0) return PYD_STATUS_OK;
  const dispatch_t d = {plan, command, export, plan->program->executables[export->executable].name};
  for (uint32_t i = 0; i < command->constant_count; ++i) {
    bool is_late = plan->fn->reg_flags[constants[i] & ~PYD_CONSTANT_HIGH] & PYD_REG_LATE;
    if (is_late && pyd_contract_reads(export, i)) {  // its value is known in a call only
      return BROKEN(&d, "constant %u: sizes depend on it, and it may differ from call to call", i);
    }
  }
  uint32_t regs = export->contract->reg_count;
  uint64_t* memory = malloc(((size_t)regs + command->constant_count + 1) * sizeof(*memory));
  if (!memory) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for %u registers", regs);
  pyd_status_t status = check_dispatch(&d, memory + regs, memory);
  free(memory);
  return status;
}
