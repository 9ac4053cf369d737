// How constants are used, as far as the program says without running.
#include <stdlib.h>

#include "program/commands/command.h"

static void raise_to(uint32_t* alignment, uint32_t needed) {
  if (*alignment < needed) *alignment = needed;
}

static void use_in_function(const pyd_program_t* program, const pyd_function_t* fn, const uint32_t* exports,
                            uint32_t most, uint32_t* alignments) {
  for (uint32_t i = 0; i < fn->command_count; ++i) {
    const pyd_insn_t* insn = &fn->insns[fn->commands[i]];
    const pyd_command_type_t* type = pyd_command_type_of_insn(insn);
    if (!type->bindings) continue;
    pyd_command_bindings_t bindings = type->bindings(fn->pool + insn->a);
    uint32_t export = exports[bindings.export_reg];
    uint32_t needed = export == PYD_NONE ? most : program->links[program->exports[export].executable].alignment;
    PYD_COUNT_WORK(bindings.count);
    for (uint32_t k = 0; k < bindings.count; ++k) {
      const pyd_buffer_t* buffer = &fn->buffers[bindings.words[3 * k]];
      if (buffer->kind == PYD_BUFFER_CONSTANT) raise_to(&alignments[buffer->index], needed);
    }
  }
}

// Where these go from there shows while running.
static void use_in_steps(const pyd_program_t* program, uint32_t most, uint32_t* alignments) {
  for (uint32_t i = 0; i < program->global_count; ++i) {
    const pyd_global_t* global = &program->globals[i];
    if (global->type.kind == 0 && global->constant != PYD_NONE) alignments[global->constant] = most;
  }
  for (uint32_t i = 0; i < program->procedure_count; ++i) {
    const pyd_procedure_t* p = &program->procedures[i];
    for (uint32_t k = 0; k < p->step_count; ++k) {
      if (p->steps[k].op == PYD_STEP_CONSTANT) alignments[p->steps[k].b] = most;
    }
  }
}

pyd_status_t pyd_program_constant_alignments(const pyd_program_t* program, uint32_t* out_alignments) {
  uint32_t most = 1, registers = 0;
  for (uint32_t i = 0; i < program->constant_count; ++i) out_alignments[i] = 1;
  for (uint32_t i = 0; i < program->executable_count; ++i) raise_to(&most, program->links[i].alignment);
  for (uint32_t i = 0; i < program->function_count; ++i) raise_to(&registers, program->functions[i].reg_count);
  uint32_t* exports = malloc(((size_t)registers + 1) * sizeof(*exports));
  if (!exports) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for %u registers", registers);
  for (uint32_t i = 0; i < program->function_count; ++i) {
    pyd_function_find_exports(program, &program->functions[i], exports);
    use_in_function(program, &program->functions[i], exports, most, out_alignments);
  }
  free(exports);
  use_in_steps(program, most, out_alignments);
  return PYD_STATUS_OK;
}
