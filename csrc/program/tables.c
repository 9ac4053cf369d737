// Queries of the tables of a decoded program: its executables, functions, constants and so on.
#include "program/internal.h"

uint32_t pyd_program_executable_count(const pyd_program_t* program) { return program->executable_count; }
const pyd_program_executable_t* pyd_program_executable(const pyd_program_t* program, uint32_t index) {
  return index < program->executable_count ? &program->executables[index] : NULL;
}
uint32_t pyd_program_query_count(const pyd_program_t* program) { return program->query_count; }
const pyd_program_query_t* pyd_program_query(const pyd_program_t* program, uint32_t index) {
  return index < program->query_count ? &program->queries[index] : NULL;
}
uint32_t pyd_program_constant_count(const pyd_program_t* program) { return program->constant_count; }
const pyd_program_constant_t* pyd_program_constant(const pyd_program_t* program, uint32_t index) {
  return index < program->constant_count ? &program->constants[index] : NULL;
}
uint32_t pyd_program_derivation_count(const pyd_program_t* program) { return program->derivation_count; }
const pyd_program_derivation_t* pyd_program_derivation(const pyd_program_t* program, uint32_t index) {
  return index < program->derivation_count ? &program->derivations[index] : NULL;
}
uint32_t pyd_program_function_count(const pyd_program_t* program) { return program->function_count; }
const pyd_program_function_t* pyd_program_function(const pyd_program_t* program, uint32_t index) {
  return index < program->function_count ? &program->functions[index].info : NULL;
}

uint32_t pyd_program_procedure_count(const pyd_program_t* program) { return program->procedure_count; }
const pyd_program_function_t* pyd_program_procedure(const pyd_program_t* program, uint32_t index) {
  return index < program->procedure_count ? &program->procedures[index].info : NULL;
}
bool pyd_program_procedure_uses_globals(const pyd_program_t* program, uint32_t index) {
  const pyd_procedure_t* p = &program->procedures[index];
  return p->has_stores || p->loads_mutable;
}
uint32_t pyd_program_parameter_count(const pyd_program_t* program) { return program->parameter_count; }
const pyd_program_parameter_t* pyd_program_parameter(const pyd_program_t* program, uint32_t index) {
  return index < program->parameter_count ? &program->parameters[index] : NULL;
}
uint32_t pyd_program_check_count(const pyd_program_t* program) { return program->check_count; }
const pyd_program_check_t* pyd_program_check(const pyd_program_t* program, uint32_t index) {
  return index < program->check_count ? &program->checks[index] : NULL;
}
uint32_t pyd_program_command_count(const pyd_program_t* program) { return program->command_count; }
const pyd_program_command_t* pyd_program_command(const pyd_program_t* program, uint32_t index) {
  return index < program->command_count ? &program->commands[index] : NULL;
}
