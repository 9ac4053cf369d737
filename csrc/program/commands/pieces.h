// Fill and copy commands are split into pieces, so that workers can share them.
#ifndef PYD_PROGRAM_COMMANDS_PIECES_H_
#define PYD_PROGRAM_COMMANDS_PIECES_H_

#include "program/plan/plan.h"

// Bytes of a piece: 256 KiB at 10 GB/s take 25 us, which hides the cost of handing a piece to another worker. Smaller
// pieces cost more handovers, larger ones leave workers idle at the end.
#define PYD_PIECE_BYTES (UINT64_C(256) << 10)

// Returns the number of pieces of |length| bytes, the last of which may be shorter.
static inline uint64_t pyd_piece_count(uint64_t length) {
  return length / PYD_PIECE_BYTES + (length % PYD_PIECE_BYTES != 0);
}

// Returns the bytes of pieces [begin, end) of |command|, which start at offset begin * PYD_PIECE_BYTES.
static inline uint64_t pyd_piece_bytes(const pyd_plan_command_t* command, uint64_t begin, uint64_t end) {
  return (end == command->count ? command->length : end * PYD_PIECE_BYTES) - begin * PYD_PIECE_BYTES;
}

#endif  // PYD_PROGRAM_COMMANDS_PIECES_H_
