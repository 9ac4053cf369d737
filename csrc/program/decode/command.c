// The host commands that a program declares: their names and operands.
#include "program/decode/reader.h"

// Words of a record: of a host command (name offset, name length, operands, operand count) and of an operand (kind,
// access, element type, rank, sizes). Others are reserved.
enum { kCommandWords = 6, kOperandWords = 6 };
// Keep every count that is derived from calls of commands within 32 bits, as kMaxWords of program.c does.
enum { kMaxOperands = 96, kMaxSizes = 128 };

// Decodes operand |index| of a host command from its record: kind, access, element type, rank and sizes. Only tensors
// can be written.
static pyd_status_t decode_operand(pyd_reader_t* reader, uint32_t index, const uint32_t* words,
                                   pyd_program_value_t* out_value, uint32_t* out_access) {
  const uint32_t head[3] = {words[0], words[2], words[3]};  // kind, element type, rank, as in the record of a value
  *out_value = (pyd_program_value_t){.kind = words[0], .dtype = words[2], .rank = words[3]};
  *out_access = words[1];
  pyd_status_t status = pyd_reader_check_value("operand", index, head);
  if (pyd_ok(status)) status = pyd_reader_sizes(reader, "operand", index, words[4], out_value);
  // The access (word 1) exists, and a scalar (kind 1) is only read.
  bool fits =
      words[1] >= PYD_HOST_READ && words[1] <= PYD_HOST_READ_WRITE && (words[0] == 0 || words[1] == PYD_HOST_READ);
  if (!pyd_ok(status) || fits) return status;
  return pyd_status_make(PYD_CODE_CORRUPT, "operand %u: a %s with access %u", index, words[0] ? "scalar" : "tensor",
                         words[1]);
}

// Checks that the operands of a host command are within the limits of a dispatch, whose record it uses: the number of
// tensors (bindings), and of scalars (two constant words each). All tensors together have at most kMaxSizes dimensions.
static pyd_status_t check_limits(const pyd_program_command_t* command) {
  uint32_t scalars = 0, tensors = 0, sizes = 0;
  for (uint32_t i = 0; i < command->operand_count; ++i) {
    scalars += command->operands[i].kind == PYD_KIND_SCALAR;
    tensors += command->operands[i].kind == PYD_KIND_TENSOR;
    sizes += command->operands[i].rank;
  }
  if (2 * scalars <= PYD_LIBRARY_MAX_CONSTANTS && tensors <= PYD_LIBRARY_MAX_BINDINGS && sizes <= kMaxSizes) {
    return PYD_STATUS_OK;
  }
  return pyd_status_make(PYD_CODE_CORRUPT, "%u tensors with %u dimensions and %u scalars, the limits are %u, %u and %u",
                         tensors, sizes, scalars, PYD_LIBRARY_MAX_BINDINGS, (unsigned)kMaxSizes,
                         PYD_LIBRARY_MAX_CONSTANTS / 2);
}

// Decodes one record of the table of host commands: its name, and the types and accesses of its operands.
static pyd_status_t decode_command(pyd_reader_t* reader, pyd_program_command_t* command, const uint32_t* words) {
  // Words: 0 name (offset, length), 2 table of operands, 3 number of operands.
  const uint32_t* operands;
  pyd_status_t status = pyd_reader_string(reader, "the name of a host command", words, &command->name);
  if (pyd_ok(status) && words[3] > kMaxOperands) {
    status = pyd_status_make(PYD_CODE_CORRUPT, "%u operands, the limit is %u", words[3], (unsigned)kMaxOperands);
  }
  if (pyd_ok(status)) status = pyd_reader_table(reader, "operands", words[2], words[3], kOperandWords, &operands);
  if (!pyd_ok(status)) return status;
  pyd_program_value_t* values = pyd_program_allocate(reader->program, words[3], sizeof(*values));
  uint32_t* accesses = pyd_program_allocate(reader->program, words[3], sizeof(*accesses));
  if (!values || !accesses) return pyd_reader_no_memory();
  command->operand_count = words[3];
  command->operands = values;
  command->accesses = accesses;
  for (uint32_t i = 0; i < words[3] && pyd_ok(status); ++i, operands += kOperandWords) {
    status = decode_operand(reader, i, operands, &values[i], &accesses[i]);
  }
  return pyd_ok(status) ? check_limits(command) : status;
}

// Decodes the table of host commands that |header| refers to.
pyd_status_t pyd_program_decode_commands(pyd_reader_t* reader, const uint32_t* header) {
  const uint32_t count = header[PYD_HEADER_COMMAND_COUNT];
  pyd_program_t* program = reader->program;
  const uint32_t* words;
  pyd_status_t status =
      pyd_reader_table(reader, "host commands", header[PYD_HEADER_COMMANDS], count, kCommandWords, &words);
  if (!pyd_ok(status)) return status;
  program->commands = pyd_program_allocate(program, count, sizeof(*program->commands));
  program->command_links = pyd_program_allocate(program, count, sizeof(*program->command_links));
  if (!program->commands || !program->command_links) return pyd_reader_no_memory();
  program->command_count = count;
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i, words += kCommandWords) {
    pyd_program_command_t* command = &program->commands[i];
    status = decode_command(reader, command, words);
    if (!pyd_ok(status)) {
      status = pyd_status_annotate(status, "host command %u ('%.*s'): %s", i, (int)command->name.length,
                                   command->name.data, pyd_status_text(status));
    }
  }
  return status;
}
