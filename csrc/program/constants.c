// The alignment in bytes that the uses of each constant need, from the program alone, without running it.
#include <stdlib.h>

#include "program/commands/command.h"

static void update_max(uint32_t* maximum, uint32_t value) {
  if (*maximum < value) *maximum = value;
}

// Raises the alignment of each constant to the alignment of the executables whose dispatches in |fn| bind it.
// |export_of_register|: for each register the number of the export that it holds. For PYD_NONE, an export that is
// computed at run time, |max_alignment| applies, the largest of all executables. |alignments|: by constant, in bytes.
static void align_for_dispatches(const pyd_program_t* program, const pyd_function_t* fn,
                                 const uint32_t* export_of_register, uint32_t max_alignment, uint32_t* alignments) {
  for (uint32_t i = 0; i < fn->command_count; ++i) {
    const pyd_insn_t* insn = &fn->insns[fn->commands[i]];
    const pyd_command_type_t* type = pyd_command_type_of_insn(insn);
    if (!type->bindings) continue;
    pyd_command_bindings_t bindings = type->bindings(pyd_command_record(fn, insn));
    uint32_t export = export_of_register[bindings.export_reg];
    uint32_t needed =
        export == PYD_NONE ? max_alignment : program->links[program->exports[export].executable].alignment;
    PYD_COUNT_WORK(bindings.count);
    for (uint32_t k = 0; k < bindings.count; ++k) {
      const pyd_buffer_t* buffer = &fn->buffers[bindings.words[3 * k]];
      if (buffer->kind == PYD_BUFFER_CONSTANT) update_max(&alignments[buffer->index], needed);
    }
  }
}

// Raises the alignment of each constant that is the value of a global or is read by a procedure to |max_alignment|, the
// largest alignment of all executables: only at run time it is known which executables use the constant.
static void align_for_steps(const pyd_program_t* program, uint32_t max_alignment, uint32_t* alignments) {
  for (uint32_t i = 0; i < program->global_count; ++i) {
    const pyd_global_t* global = &program->globals[i];
    const bool has_initial_value = global->constant != PYD_NONE;
    if (global->type.kind == PYD_KIND_TENSOR && has_initial_value) alignments[global->constant] = max_alignment;
  }
  for (uint32_t i = 0; i < program->procedure_count; ++i) {
    const pyd_procedure_t* p = &program->procedures[i];
    for (uint32_t k = 0; k < p->step_count; ++k) {
      // Operand b is the constant.
      if (p->steps[k].op == PYD_STEP_CONSTANT) alignments[p->steps[k].b] = max_alignment;
    }
  }
}

// Computes for each constant the largest alignment in bytes that any use of it needs: by executables that functions
// dispatch, and by steps of procedures.
pyd_status_t pyd_program_constant_alignments(const pyd_program_t* program, uint32_t* out_alignments) {
  uint32_t max_alignment = 1, max_registers = 0;
  for (uint32_t i = 0; i < program->constant_count; ++i) out_alignments[i] = 1;
  for (uint32_t i = 0; i < program->executable_count; ++i) update_max(&max_alignment, program->links[i].alignment);
  for (uint32_t i = 0; i < program->function_count; ++i) update_max(&max_registers, program->functions[i].reg_count);
  uint32_t* export_of_register = malloc(((size_t)max_registers + 1) * sizeof(*export_of_register));
  if (!export_of_register) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for %u registers", max_registers);
  for (uint32_t i = 0; i < program->function_count; ++i) {
    pyd_function_find_exports(program, &program->functions[i], export_of_register);
    align_for_dispatches(program, &program->functions[i], export_of_register, max_alignment, out_alignments);
  }
  free(export_of_register);
  align_for_steps(program, max_alignment, out_alignments);
  return PYD_STATUS_OK;
}
