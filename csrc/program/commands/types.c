// The kinds of commands by number, one row of PYD_COMMANDS each: name and opcode.
#include "program/commands/command.h"

#define X(name, opcode) extern const pyd_command_type_t pyd_command_type_##name;
PYD_COMMANDS(X)
#undef X

const pyd_command_type_t* const pyd_command_types[] = {
#define X(name, opcode) [PYD_COMMAND_##name] = &pyd_command_type_##name,
    PYD_COMMANDS(X)
#undef X
};

#define X(name, opcode) \
  _Static_assert(opcode == PYD_OP_DISPATCH + (int)PYD_COMMAND_##name, "opcodes follow each other");
PYD_COMMANDS(X)
#undef X
