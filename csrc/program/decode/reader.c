// Shared by the decoders of all tables: memory of the program, bounds of tables and strings, and types of values.
#include <stdlib.h>
#include <string.h>

#include "program/decode/reader.h"

// Header of one allocation of a program, in a list that pyd_program_free walks.
typedef struct block_s {
  struct block_s* next;
  uint64_t padding;  // makes the header 16 bytes, so that the memory after it is 16-byte aligned
} block_t;

// The address of all empty arrays: most tables of a small program are empty, and allocating each would take a
// measurable part of the time of a load. It is constant, as nothing is written there.
static const _Alignas(16) uint8_t kEmpty[16];

// Allocates |count| * |size| zeroed bytes that are freed with the program; NULL when out of memory. |size| is not 0. If
// |count| is 0, returns the address that all empty arrays share, where nothing may be written.
void* pyd_program_allocate(pyd_program_t* program, size_t count, size_t size) {
  if (count == 0) return (void*)kEmpty;
  if (count > (SIZE_MAX - sizeof(block_t)) / size) return NULL;
  block_t* block = calloc(1, sizeof(*block) + count * size);
  if (!block) return NULL;
  block->next = program->blocks;
  program->blocks = block;
  return block + 1;
}

pyd_status_t pyd_reader_no_memory(void) {
  return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the tables of a host program");
}

// Returns in |*out_words| the first word of a table of |count| records of |record| words at word |offset| of the
// program, and subtracts its words from the budget. |what|: name of the table for messages.
pyd_status_t pyd_reader_table(pyd_reader_t* reader, const char* what, uint32_t offset, uint32_t count, uint32_t record,
                              const uint32_t** out_words) {
  uint64_t words = (uint64_t)count * record;
  uint32_t total = reader->program->word_count;
  *out_words = reader->program->words;  // never NULL, also for an empty table, whose offset is ignored
  if (count == 0) return PYD_STATUS_OK;
  if (offset < PYD_PROGRAM_HEADER_WORDS || offset > total || words > total - offset) {
    return pyd_status_make(PYD_CODE_CORRUPT, "%s: %u records at word %u do not fit into a program of %u words", what,
                           count, offset, total);
  }
  // Tables that overlap would let a small program claim much memory.
  if (words > reader->budget) {
    return pyd_status_make(PYD_CODE_CORRUPT, "%s: %u records at word %u overlap other tables of the program", what,
                           count, offset);
  }
  reader->budget -= words;
  *out_words += offset;
  return PYD_STATUS_OK;
}

// Returns in |*out| the string with offset |words[0]| and length |words[1]| in bytes, which belongs to the program.
// |what|: its name in messages.
pyd_status_t pyd_reader_string(pyd_reader_t* reader, const char* what, const uint32_t* words, pyd_string_t* out) {
  pyd_span_t strings = reader->program->strings;
  *out = (pyd_string_t){(const char*)strings.data, 0};
  if (words[1] == 0) return PYD_STATUS_OK;
  if (words[0] > strings.size || words[1] > strings.size - words[0]) {
    return pyd_status_make(PYD_CODE_CORRUPT, "%s: a string of %u bytes at %u lies outside the %zu bytes of strings",
                           what, words[1], words[0], strings.size);
  }
  // Strings may overlap, as equal ones are stored once, but not without limit: whoever lists them copies each.
  if (words[1] > reader->string_budget) {
    return pyd_status_make(PYD_CODE_CORRUPT, "%s: strings are named again and again, %u bytes at %u this time", what,
                           words[1], words[0]);
  }
  reader->string_budget -= words[1];
  *out = (pyd_string_t){(const char*)strings.data + words[0], words[1]};
  return PYD_STATUS_OK;
}

// Reads |value->rank| sizes at word |at| of a pool: two words each, the low one first; -1 is dynamic. |what| and
// |index|: the value's name in messages.
pyd_status_t pyd_reader_dims(pyd_program_t* program, const uint32_t* pool, uint32_t pool_count, const char* what,
                             uint32_t index, uint32_t at, pyd_program_value_t* value) {
  if (at > pool_count || value->rank * 2 > pool_count - at) {
    return pyd_status_make(PYD_CODE_CORRUPT, "%s %u: its %u sizes at pool word %u lie outside the pool of %u words",
                           what, index, value->rank, at, pool_count);
  }
  int64_t* dims = pyd_program_allocate(program, value->rank, sizeof(*dims));
  if (!dims) return pyd_reader_no_memory();
  for (uint32_t i = 0; i < value->rank; ++i) {
    const uint32_t* words = pool + at + i * 2;
    dims[i] = (int64_t)(words[0] | (uint64_t)words[1] << 32);
    if (dims[i] < -1) {
      return pyd_status_make(PYD_CODE_CORRUPT, "%s %u: axis %u has size %lld", what, index, i, (long long)dims[i]);
    }
  }
  value->dims = dims;
  return PYD_STATUS_OK;
}

// Reads sizes like pyd_reader_dims(), from a table at word |offset| of the program instead of a pool.
pyd_status_t pyd_reader_sizes(pyd_reader_t* reader, const char* what, uint32_t index, uint32_t offset,
                              pyd_program_value_t* value) {
  const uint32_t* words;
  pyd_status_t status = pyd_reader_table(reader, "sizes", offset, value->rank, 2, &words);
  return pyd_ok(status) ? pyd_reader_dims(reader->program, words, value->rank * 2, what, index, 0, value) : status;
}

// Checks the first words of a value's record: kind (0 tensor, 1 scalar), element type, rank. |what| and |index|: its
// name in messages.
pyd_status_t pyd_reader_check_value(const char* what, uint32_t index, const uint32_t* words) {
  uint32_t bits = words[1] & 0xFFFFFF;  // an element type is numerical type << 24 | bits
  if (words[0] > 1 || words[2] > PYD_PROGRAM_MAX_RANK || (words[0] == 1 && words[2] != 0)) {
    return pyd_status_make(PYD_CODE_CORRUPT,
                           "%s %u: kind %u with rank %u, tensors (0) have at most %u axes and scalars (1) "
                           "none",
                           what, index, words[0], words[2], PYD_PROGRAM_MAX_RANK);
  }
  if (bits == 0 || bits > 1024) {
    return pyd_status_make(PYD_CODE_CORRUPT, "%s %u: an element type of %u bits", what, index, bits);
  }
  return PYD_STATUS_OK;
}

// Frees a program with everything that pyd_program_allocate() has allocated for it.
void pyd_program_free(pyd_program_t* program) {
  if (!program) return;
  for (block_t* block = program->blocks; block;) {
    block_t* next = block->next;
    free(block);
    block = next;
  }
  free(program);
}
