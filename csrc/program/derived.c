// Derived constants: the results of functions from constants, each computed once.
#include "program/derived.h"

#include <stdlib.h>
#include <string.h>

#include "platform/pages.h"
#include "program/plan/plan.h"
#include "pydispatch/artifact.h"

static pyd_status_t derive_constant(const pyd_program_t* program, uint32_t index, const pyd_interrupt_t* interrupt);

// Maximum bytes of a block for several constants: a larger one would count towards a device's limit long before it is
// used, a smaller one would have more bytes that no constant fits into.
#define BLOCK_BYTES ((size_t)32 << 20)

static size_t round_up(size_t size, size_t unit) { return (size + unit - 1) & ~(unit - 1); }

// Returns the size in bytes of a new block of memory for constant |index|, which needs |size| bytes. Most programs
// derive constants in the order of the table. So the block also has room for the derived constants that follow in the
// table and have no memory yet, up to BLOCK_BYTES in total. After the end of the table, continues at its start, and
// ends at the first constant of the derivation of |index|. A block of at least PYD_PAGES_UNIT (a huge page) is a
// multiple of that.
static size_t block_bytes(const pyd_program_t* program, uint32_t index, size_t size) {
  const uint32_t count = program->constant_count;
  const uint32_t first = program->derivations[program->constants[index].derivation].first_constant;
  size_t sum = size;
  for (uint32_t i = (index + 1) % count; i != first; i = (i + 1) % count) {
    if (!pyd_constant_is_derived(program, i) || pyd_constant_bytes(program, i)) continue;
    const size_t room = sum < BLOCK_BYTES ? BLOCK_BYTES - sum : 0;  // constant |index| alone may be larger
    if (program->constants[i].length > room) break;
    sum += round_up((size_t)program->constants[i].length, PYD_POOL_ALIGNMENT);
  }
  return sum >= PYD_PAGES_UNIT ? round_up(sum, PYD_PAGES_UNIT) : sum;
}

// Acquires a block of |*out_bytes| bytes that begins with constant |index|, of |size| bytes, and has room for constants
// after it. If the pool has not so much memory, the block is for this constant alone. Counts the block in |memory|.
static pyd_status_t acquire_block(const pyd_program_t* program, uint32_t index, size_t size, constant_memory_t* memory,
                                  size_t* out_bytes, uint8_t** out_block) {
  pyd_derived_t* derived = program->derived;
  void* block = NULL;
  *out_bytes = block_bytes(program, index, size);
  pyd_status_t status = pyd_pool_acquire(derived->pool, *out_bytes, &block);
  if (!pyd_ok(status) && *out_bytes > size) {
    pyd_status_free(status);
    *out_bytes = size;
    status = pyd_pool_acquire(derived->pool, *out_bytes, &block);
  }
  if (!pyd_ok(status)) return status;
  derived->blocks[memory->block_count++] = *out_block = block;
  return PYD_STATUS_OK;
}

// Returns memory for constant |index|, of |size| bytes, in the free range of an earlier block if it fits there. Updates
// |memory|, that of the derivation that runs.
static pyd_status_t acquire(const pyd_program_t* program, uint32_t index, size_t size, constant_memory_t* memory,
                            uint8_t** out_data) {
  pyd_derived_t* derived = program->derived;
  if (size > SIZE_MAX / 2)  // could overflow when it is rounded up
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a constant of %zu bytes", size);
  if (!size) size = 1;  // an empty constant has an address, too: NULL means not derived
  size = round_up(size, PYD_POOL_ALIGNMENT);
  if (size <= memory->free_bytes) {
    *out_data = memory->free_memory;
    memory->free_memory += size;
    memory->free_bytes -= size;
  } else {
    size_t bytes = 0;
    pyd_status_t status = acquire_block(program, index, size, memory, &bytes, out_data);
    if (!pyd_ok(status)) return status;
    if (bytes - size > memory->free_bytes) {  // remembers only the largest free range
      memory->free_memory = *out_data + size;
      memory->free_bytes = bytes - size;
    }
  }
  if (pyd_pool_is_poisoned(derived->pool)) memset(*out_data, PYD_POISON_BYTE, size);
  return PYD_STATUS_OK;
}

// Releases blocks [begin, end).
static void release_blocks(const pyd_derived_t* derived, uint32_t begin, uint32_t end) {
  for (uint32_t i = begin; i < end; ++i) pyd_pool_release(derived->pool, derived->blocks[i]);
}

// Creates an empty store for the derived constants of |program|, which jobs of |sched| compute in memory of |pool|.
pyd_status_t pyd_derived_create(const pyd_program_t* program, pyd_sched_t* sched, pyd_pool_t* pool,
                                pyd_derived_t** out_derived) {
  *out_derived = NULL;
  pyd_derived_t* derived =
      malloc(sizeof(*derived) + program->constant_count * (sizeof(*derived->data) + sizeof(*derived->blocks)));
  if (!derived) {
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a table of %u constants", program->constant_count);
  }
  derived->derive = derive_constant;
  derived->sched = sched;
  derived->pool = pool;
  derived->memory = (constant_memory_t){0};
  derived->constant_count = program->constant_count;
  derived->blocks = (uint8_t**)(derived->data + program->constant_count);
  pyd_gate_init(&derived->gate, sched);
  for (uint32_t i = 0; i < program->constant_count; ++i) atomic_init(&derived->data[i], NULL);
  *out_derived = derived;
  return PYD_STATUS_OK;
}

// Frees the derived constants of a program.
void pyd_derived_free(pyd_derived_t* derived) {
  if (!derived) return;
  release_blocks(derived, 0, derived->memory.block_count);
  pyd_gate_destroy(&derived->gate);
  free(derived);
}

void pyd_derived_fork_prepare(pyd_derived_t* derived) { pyd_gate_fork_prepare(&derived->gate); }
void pyd_derived_fork_done(pyd_derived_t* derived) { pyd_gate_fork_done(&derived->gate); }
void pyd_derived_fork_child(pyd_derived_t* derived) { pyd_gate_fork_child(&derived->gate); }

// Sets the store of derived constants, before the first call of a program. Borrowed: it must outlive the program.
pyd_status_t pyd_program_set_derived(pyd_program_t* program, pyd_derived_t* derived) {
  if (derived->constant_count != program->constant_count) {
    return pyd_status_make(PYD_CODE_INVALID_ARGUMENT,
                           "derived constants of a program with %u constants do not fit one with %u",
                           derived->constant_count, program->constant_count);
  }
  program->derived = derived;
  return PYD_STATUS_OK;
}

// Returns whether the results of a derivation are published: the last result is published last.
static bool is_done(const pyd_program_t* program, uint32_t derivation) {
  const pyd_program_derivation_t* d = &program->derivations[derivation];
  uint32_t count = program->functions[d->function].info.result_count;
  return pyd_constant_bytes(program, d->first_constant + count - 1) != NULL;
}

// Runs |plan|, and returns the addresses of its results in |out_data|: of the constants from |first_constant| on. Their
// memory is acquired in |memory|.
static pyd_status_t run(const pyd_program_t* program, const pyd_plan_t* plan, uint32_t first_constant,
                        constant_memory_t* memory, uint8_t** out_data, const pyd_interrupt_t* interrupt) {
  pyd_derived_t* derived = program->derived;
  uint32_t count = plan->fn->info.result_count;
  pyd_call_t* call = NULL;
  pyd_status_t status = pyd_call_create(plan, derived->sched, derived->pool, &call);
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i) {
    status = acquire(program, first_constant + i, pyd_plan_result_bytes(plan, i), memory, &out_data[i]);
    if (pyd_ok(status)) pyd_call_bind_result(call, i, out_data[i]);
  }
  if (pyd_ok(status)) status = pyd_call_run_until(call, interrupt);
  pyd_call_free(call);
  return status;
}

// Lets the system reuse the pages of the file-mapped constants that |fn|, the function of a derivation, has read: calls
// read its results instead. A later access would read the pages from the file again.
static void drop_sources(const pyd_program_t* program, const pyd_function_t* fn) {
  for (uint32_t i = 0; i < fn->buffer_count; ++i) {
    uint32_t constant = fn->buffers[i].index;
    if (fn->buffers[i].kind != PYD_BUFFER_CONSTANT || !program->constant_is_mapped[constant]) continue;
    pyd_file_drop_pages(program->constant_links[constant]);
  }
}

// Checks that each result of |plan| has as many bytes as the constant, from |first_constant| on, that it becomes.
static pyd_status_t check_result_bytes(const pyd_program_t* program, const pyd_plan_t* plan, uint32_t first_constant) {
  for (uint32_t i = 0; i < plan->fn->info.result_count; ++i) {
    uint64_t bytes = pyd_plan_result_bytes(plan, i), length = program->constants[first_constant + i].length;
    if (bytes == length) continue;
    return pyd_status_make(PYD_CODE_CORRUPT, "result %u has %llu bytes, constant %u has %llu", i,
                           (unsigned long long)bytes, first_constant + i, (unsigned long long)length);
  }
  return PYD_STATUS_OK;
}

// Publishes the addresses |data| of the constants from |first_constant| on, and the memory that they are in.
static void publish(pyd_derived_t* derived, uint32_t first_constant, uint32_t count, uint8_t* const* data,
                    constant_memory_t memory) {
  pyd_gate_change_begin(&derived->gate);
  for (uint32_t i = 0; i < count; ++i)
    atomic_store_explicit(&derived->data[first_constant + i], data[i], memory_order_release);
  derived->memory = memory;
  pyd_gate_change_end(&derived->gate);
}

// Computes the constants of a derivation, whose sources are derived already, and publishes their addresses. After a
// failure their memory is released. The caller is inside the gate (|derived->gate|, a mutex for long waits), so that no
// other thread derives constants at the same time.
static pyd_status_t derive(const pyd_program_t* program, uint32_t derivation, const pyd_interrupt_t* interrupt) {
  const pyd_program_derivation_t* d = &program->derivations[derivation];
  pyd_derived_t* derived = program->derived;
  pyd_string_t name = program->functions[d->function].info.name;
  uint32_t count = program->functions[d->function].info.result_count;
  pyd_plan_t* plan = NULL;
  uint8_t** data = calloc(count, sizeof(*data));
  constant_memory_t memory = derived->memory;  // a copy that counts the blocks that this derivation acquires, too
  pyd_status_t status = PYD_STATUS_OK;
  if (!data) status = pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for %u results", count);
  if (pyd_ok(status)) status = pyd_plan_create(program, d->function, /* dims */ NULL, /* scalars */ NULL, &plan);
  if (pyd_ok(status)) status = check_result_bytes(program, plan, d->first_constant);
  if (pyd_ok(status)) status = run(program, plan, d->first_constant, &memory, data, interrupt);
  drop_sources(program, &program->functions[d->function]);  // also after a failure: reads load dropped pages again
  if (pyd_ok(status)) {
    publish(derived, d->first_constant, count, data, memory);
  } else {
    release_blocks(derived, derived->memory.block_count, memory.block_count);
  }
  pyd_plan_free(plan);
  free(data);
  return pyd_status_annotate(status, "derived constant %u, by function '%.*s': %s", d->first_constant, STRING(name),
                             pyd_status_text(status));
}

// Runs derivation |last|, and before it those that it reads and that have not run yet. Goes backwards through the table
// to find them and forwards to run them, as a derivation reads the results of earlier ones only.
static pyd_status_t derive_up_to(const pyd_program_t* program, uint32_t last, const pyd_interrupt_t* interrupt) {
  uint8_t* is_needed = calloc((size_t)last + 1, 1);
  if (!is_needed) return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the order of %u derivations", last);
  is_needed[last] = !is_done(program, last);
  for (uint32_t i = last + 1; i-- > 0;) {
    if (!is_needed[i]) continue;
    const pyd_function_t* fn = &program->functions[program->derivations[i].function];
    for (uint32_t k = 0; k < fn->buffer_count; ++k) {
      if (fn->buffers[k].kind != PYD_BUFFER_CONSTANT) continue;
      uint32_t source = program->constants[fn->buffers[k].index].derivation;
      if (source != PYD_NONE && !is_done(program, source)) is_needed[source] = 1;
    }
  }
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i <= last && pyd_ok(status); ++i) {
    if (is_needed[i]) status = derive(program, i, interrupt);
  }
  free(is_needed);
  return status;
}

// Derives constant |index|, and before it the constants that it is computed from. Implements pyd_derived_t.derive. The
// gate admits one thread at a time. A thread that has waited finds the constant derived.
static pyd_status_t derive_constant(const pyd_program_t* program, uint32_t index, const pyd_interrupt_t* interrupt) {
  pyd_derived_t* derived = program->derived;
  pyd_scope_t scope;
  pyd_status_t status =
      pyd_gate_enter(&derived->gate, interrupt,
                     "a program is called by a kernel that computes one of its derived constants, so this "
                     "call would wait for the one that it is part of",
                     &scope);
  if (!pyd_ok(status)) return status;
  status = derive_up_to(program, program->constants[index].derivation, interrupt);
  pyd_gate_leave(&derived->gate, &scope);
  return status;
}

// Returns the bytes of constant |index|, after computing it if it is derived.
pyd_status_t pyd_program_constant_data(const pyd_program_t* program, uint32_t index, const uint8_t** out_data) {
  pyd_status_t status = PYD_STATUS_OK;
  if (pyd_constant_is_derived(program, index) && !pyd_constant_bytes(program, index))
    status = derive_constant(program, index, NULL);
  *out_data = pyd_constant_bytes(program, index);
  if (!pyd_ok(status) || *out_data) return status;
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "constant %u is not linked", index);
}
