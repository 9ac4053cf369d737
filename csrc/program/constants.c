// How constants are used, as far as the program says without running.
#include "program/internal.h"

// The alignment of the executable that |export_reg| names; of the pickiest one when that is computed.
static uint32_t alignment_of(const pyd_program_t* program, const pyd_function_t* fn, uint32_t export_reg, uint32_t most) {
  for (uint32_t i = 0; i < fn->insn_count; ++i) {
    const pyd_insn_t* insn = &fn->insns[i];
    if (insn->op != PYD_OP_CONST || insn->dst != export_reg) continue;
    if (insn->c || insn->b >= program->export_count) return most;
    return program->links[program->exports[insn->b].executable].alignment;
  }
  return most;
}

static uint32_t used_in_function(const pyd_program_t* program, const pyd_function_t* fn, uint32_t constant, uint32_t most) {
  uint32_t alignment = 1;
  bool is_there = false;
  for (uint32_t i = 0; i < fn->buffer_count; ++i) {
    is_there |= fn->buffers[i].kind == PYD_BUFFER_CONSTANT && fn->buffers[i].index == constant;
  }
  for (uint32_t i = 0; is_there && i < fn->command_count && alignment < most; ++i) {
    const pyd_insn_t* insn = &fn->insns[fn->commands[i]];
    if (insn->op != PYD_OP_DISPATCH) continue;
    pyd_dispatch_view_t view = pyd_dispatch_view(fn->pool + insn->a);
    for (uint32_t k = 0; k < view.binding_count; ++k) {
      const pyd_buffer_t* buffer = &fn->buffers[view.bindings[3 * k]];
      if (buffer->kind != PYD_BUFFER_CONSTANT || buffer->index != constant) continue;
      uint32_t needed = alignment_of(program, fn, view.export_reg, most);
      if (needed > alignment) alignment = needed;
      break;
    }
  }
  return alignment;
}

static bool is_used_by_steps(const pyd_program_t* program, uint32_t constant) {
  for (uint32_t i = 0; i < program->global_count; ++i) {
    if (program->globals[i].type.kind == 0 && program->globals[i].constant == constant) return true;
  }
  for (uint32_t i = 0; i < program->procedure_count; ++i) {
    const pyd_procedure_t* p = &program->procedures[i];
    for (uint32_t k = 0; k < p->step_count; ++k) {
      if (p->steps[k].op == PYD_STEP_CONSTANT && p->steps[k].b == constant) return true;
    }
  }
  return false;
}

uint32_t pyd_program_constant_alignment(const pyd_program_t* program, uint32_t index) {
  uint32_t most = 1, alignment = 1;
  for (uint32_t i = 0; i < program->executable_count; ++i) {
    if (program->links[i].alignment > most) most = program->links[i].alignment;
  }
  if (is_used_by_steps(program, index)) return most;  // where it goes from there shows while running
  for (uint32_t i = 0; i < program->function_count && alignment < most; ++i) {
    uint32_t needed = used_in_function(program, &program->functions[i], index, most);
    if (needed > alignment) alignment = needed;
  }
  return alignment;
}
