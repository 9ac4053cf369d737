// Adds procedures and what they use to a program of builder.h.
#ifndef PYD_TESTS_PROGRAM_PROCEDURE_BUILDER_H_
#define PYD_TESTS_PROGRAM_PROCEDURE_BUILDER_H_

#include "program/builder.h"
#include "pydispatch/procedure.h"

typedef struct proc_s {
  words_t args, results, slots, steps, pool;
  uint32_t name[2];
} proc_t;

typedef struct procs_s {
  proc_t procedures[8];
  uint32_t count;
  words_t globals, sizes, initializers, checks, parameters;
} procs_t;

static inline proc_t* add_procedure(builder_t* b, procs_t* s, const char* name) {
  CHECK(s->count < 8);
  proc_t* p = &s->procedures[s->count++];
  add_string(b, name, p->name);
  return p;
}
static inline uint32_t add_slot(proc_t* p, uint32_t kind, uint32_t dtype, uint32_t rank) {
  push_all(&p->slots, 4, kind, dtype, rank, 0);
  return p->slots.count / 4 - 1;
}
// An argument; returns its slot.
static inline uint32_t add_port(builder_t* b, proc_t* p, uint32_t kind, uint32_t dtype, uint32_t rank,
                                const int64_t* dims) {
  uint32_t s[2], pool = p->pool.count, slot = add_slot(p, kind, dtype, rank);
  add_string(b, "x", s);
  for (uint32_t i = 0; i < rank; ++i) push_all(&p->pool, 2, (uint32_t)dims[i], (uint32_t)((uint64_t)dims[i] >> 32));
  push_all(&p->args, 8, kind, dtype, rank, pool, s[0], s[1], slot, 0);
  return slot;
}
static inline void add_output(proc_t* p, uint32_t kind, uint32_t dtype, uint32_t rank) {
  push_all(&p->results, 8, kind, dtype, rank, 0, 0, 0, 0, 0);
}
static inline uint32_t step(proc_t* p, uint32_t opcode, uint32_t a, uint32_t b, uint32_t c, uint32_t d) {
  push_all(&p->steps, 5, opcode, a, b, c, d);
  return p->steps.count / 5 - 1;
}
// The sizes are placed by finish_procs.
static inline uint32_t add_global(builder_t* b, procs_t* s, const char* name, uint32_t kind, uint32_t dtype,
                                  uint32_t rank, const int64_t* dims, uint32_t constant, uint64_t value,
                                  bool is_mutable) {
  uint32_t text[2], at = s->sizes.count;
  add_string(b, name, text);
  for (uint32_t i = 0; i < rank; ++i) push_all(&s->sizes, 2, (uint32_t)dims[i], (uint32_t)((uint64_t)dims[i] >> 32));
  push_all(&s->globals, 12, text[0], text[1], kind, dtype, rank, at, constant, (uint32_t)value, (uint32_t)(value >> 32),
           is_mutable, 0, 0);
  return s->globals.count / 12 - 1;
}
static inline uint32_t add_check_record(builder_t* b, procs_t* s, uint32_t kind, const char* location) {
  uint32_t text[2];
  add_string(b, location, text);
  push_all(&s->checks, 12, kind, 0, 0, text[0], text[1], 0, 0, 0, 0, 0, 0, 0);
  return s->checks.count / 12 - 1;
}

// A table in |out|, which will lie behind the 32 words of the header.
static inline uint32_t place_extra(words_t* out, const words_t* table) { return 32 + place(out, table); }

// Hands everything to |b|, whose encode places it. |s| is emptied.
static inline void finish_procs(builder_t* b, procs_t* s) {
  words_t* out = &b->extra;
  words_t procedures = {0};
  uint32_t sizes = place_extra(out, &s->sizes);
  for (uint32_t i = 0; i < s->globals.count; i += 12) s->globals.data[i + 5] += sizes;
  for (uint32_t i = 0; i < s->parameters.count; i += 8) s->parameters.data[i + 6] += sizes;
  for (uint32_t i = 0; i < s->count; ++i) {
    proc_t* p = &s->procedures[i];
    push_all(&procedures, 5, p->name[0], p->name[1], 0, 0, 1);
    push_all(&procedures, 4, place_extra(out, &p->args), p->args.count / 8, place_extra(out, &p->results),
             p->results.count / 8);
    push_all(&procedures, 4, place_extra(out, &p->slots), p->slots.count / 4, place_extra(out, &p->steps),
             p->steps.count / 5);
    push_all(&procedures, 3, place_extra(out, &p->pool), p->pool.count, 0);
    free(p->args.data), free(p->results.data), free(p->slots.data), free(p->steps.data), free(p->pool.data);
  }
  uint32_t tables[10] = {place_extra(out, &procedures),      s->count,
                         place_extra(out, &s->globals),      s->globals.count / 12,
                         place_extra(out, &s->initializers), s->initializers.count,
                         place_extra(out, &s->checks),       s->checks.count / 12,
                         place_extra(out, &s->parameters),   s->parameters.count / 8};
  memcpy(b->extra_tables, tables, sizeof(tables));
  free(procedures.data), free(s->globals.data), free(s->sizes.data), free(s->initializers.data), free(s->checks.data);
  free(s->parameters.data);
  memset(s, 0, sizeof(*s));
}

#endif  // PYD_TESTS_PROGRAM_PROCEDURE_BUILDER_H_
