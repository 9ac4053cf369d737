// Writes host programs for the tests, independent of the writer in Python. Every table may be reached and spoilt.
#ifndef PYD_TESTS_PROGRAM_BUILDER_H_
#define PYD_TESTS_PROGRAM_BUILDER_H_

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program/internal.h"

#define CHECK(condition)                                                      \
  do {                                                                        \
    if (!(condition)) {                                                       \
      fprintf(stderr, "%s:%d: failed: %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                \
    }                                                                         \
  } while (0)
#define CHECK_OK(expression)                                                        \
  do {                                                                              \
    pyd_status_t status_ = (expression);                                            \
    if (!pyd_ok(status_)) {                                                         \
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, pyd_status_text(status_)); \
      exit(1);                                                                      \
    }                                                                               \
  } while (0)

// Fails unless |status| has this code and its text contains |text|.
static inline void check_refused(pyd_status_t status, pyd_code_t code, const char* text, const char* file, int line) {
  if (pyd_status_code(status) != code || !strstr(pyd_status_text(status), text)) {
    fprintf(stderr, "%s:%d: expected code %d with \"%s\", got %d \"%s\"\n", file, line, code, text,
            pyd_status_code(status), pyd_status_text(status));
    exit(1);
  }
  pyd_status_free(status);
}
#define CHECK_REFUSED(expression, code, text) check_refused((expression), PYD_CODE_##code, (text), __FILE__, __LINE__)

#define F32 0x21000020u
#define I8 0x10000008u
#define I64 0x10000040u
#define NONE 0xFFFFFFFFu

typedef struct words_s {
  uint32_t* data;
  uint32_t count, capacity;
} words_t;

static inline uint32_t push(words_t* w, uint32_t value) {
  if (w->count == w->capacity) {
    w->capacity = w->capacity ? 2 * w->capacity : 64;
    w->data = realloc(w->data, w->capacity * sizeof(uint32_t));
    CHECK(w->data);
  }
  w->data[w->count] = value;
  return w->count++;
}
static inline uint32_t push_all(words_t* w, uint32_t count, ...) {
  va_list args;
  va_start(args, count);
  uint32_t at = w->count;
  for (uint32_t i = 0; i < count; ++i) push(w, va_arg(args, uint32_t));
  va_end(args);
  return at;
}

typedef struct fn_s {
  words_t args, results, buffers, insns, pool;
  uint32_t name[2], registers, regions;
} fn_t;

typedef struct builder_s {
  words_t executables, conditions, exports, queries, constants, derived;
  char strings[1 << 16];
  uint32_t string_bytes;
  fn_t functions[8];
  uint32_t function_count;
  words_t extra;              // tables of procedures, placed right behind the header: see procedure_builder.h
  uint32_t extra_tables[14];  // their offsets and counts
} builder_t;

static inline void add_string(builder_t* b, const char* text, uint32_t out[2]) {
  out[1] = (uint32_t)strlen(text);
  out[0] = b->string_bytes;
  CHECK(out[1] <= sizeof(b->strings) - b->string_bytes);
  memcpy(b->strings + b->string_bytes, text, out[1]);
  b->string_bytes += out[1];
}
static inline uint32_t add_executable(builder_t* b, const char* name) {
  uint32_t s[2];
  add_string(b, name, s);
  push_all(&b->executables, 6, s[0], s[1], NONE, 0, 0, 0);
  return b->executables.count / 6 - 1;
}
static inline uint32_t add_export(builder_t* b, uint32_t executable, uint32_t ordinal, const char* name,
                                  uint32_t constants, uint32_t bindings) {
  uint32_t s[2];
  add_string(b, name, s);
  push_all(&b->exports, 6, executable, ordinal, s[0], s[1], constants, bindings);
  return b->exports.count / 6 - 1;
}
static inline uint32_t add_query(builder_t* b, const char* category, const char* key, uint64_t fallback) {
  uint32_t c[2], k[2];
  add_string(b, category, c);
  add_string(b, key, k);
  push_all(&b->queries, 8, c[0], c[1], k[0], k[1], (uint32_t)fallback, (uint32_t)(fallback >> 32), 0, 0);
  return b->queries.count / 8 - 1;
}
static inline uint32_t add_constant(builder_t* b, const char* member, uint32_t offset, uint32_t length) {
  uint32_t s[2];
  add_string(b, member, s);
  push_all(&b->constants, 8, s[0], s[1], offset, 0, length, 0, NONE, 0);
  return b->constants.count / 8 - 1;
}
static inline void add_derived(builder_t* b, uint32_t function, uint32_t first_constant) {
  push_all(&b->derived, 4, function, first_constant, 0, 0);
}
static inline fn_t* add_function(builder_t* b, const char* name) {
  CHECK(b->function_count < 8);
  fn_t* f = &b->functions[b->function_count++];
  add_string(b, name, f->name);
  f->regions = 1;
  return f;
}

// The low and high words of each size, one after another, then the record.
static inline uint32_t add_buffer(fn_t* f, uint32_t kind, uint32_t index, uint32_t size, uint32_t first,
                                  uint32_t last) {
  push_all(&f->buffers, 6, kind, index, size, first, last, 0);
  return f->buffers.count / 6 - 1;
}
static inline uint32_t add_tensor(builder_t* b, fn_t* f, uint32_t dtype, const char* name, uint32_t rank,
                                  const int64_t* dims) {
  uint32_t s[2], pool = f->pool.count, arg = f->args.count / 8;
  add_string(b, name, s);
  for (uint32_t i = 0; i < rank; ++i) push_all(&f->pool, 2, (uint32_t)dims[i], (uint32_t)((uint64_t)dims[i] >> 32));
  uint32_t buffer = add_buffer(f, PYD_BUFFER_ARGUMENT, arg, NONE, 0, 0);
  push_all(&f->args, 8, 0, dtype, rank, pool, s[0], s[1], buffer, 0);
  return arg;
}
static inline uint32_t add_scalar(builder_t* b, fn_t* f, const char* name) {
  uint32_t s[2];
  add_string(b, name, s);
  push_all(&f->args, 8, 1, I64, 0, 0, s[0], s[1], NONE, 0);
  return f->args.count / 8 - 1;
}
// An instruction with a destination; returns the register.
static inline uint32_t op(fn_t* f, uint32_t opcode, uint32_t modifier, uint32_t a, uint32_t b, uint32_t c) {
  push_all(&f->insns, 5, opcode | modifier << 16, f->registers, a, b, c);
  return f->registers++;
}
static inline uint32_t constant(fn_t* f, uint64_t value) {
  return op(f, PYD_OP_CONST, 0, 0, (uint32_t)value, (uint32_t)(value >> 32));
}
static inline void add_check(builder_t* b, fn_t* f, uint32_t opcode, uint32_t a, uint32_t second, const char* message) {
  uint32_t s[2];
  add_string(b, message, s);
  push_all(&f->insns, 5, opcode, NONE, a, second, push_all(&f->pool, 2, s[0], s[1]));
}
static inline uint32_t add_result(fn_t* f, uint32_t dtype, uint32_t rank, const uint32_t* dim_regs, uint32_t size_reg) {
  uint32_t result = f->results.count / 8, pool = f->pool.count;
  for (uint32_t i = 0; i < rank; ++i) push(&f->pool, dim_regs[i]);
  uint32_t buffer = add_buffer(f, PYD_BUFFER_RESULT, result, size_reg, 0, 0);
  push_all(&f->results, 8, 0, dtype, rank, pool, 0, 0, buffer, 0);
  return buffer;
}
static inline void add_scalar_result(fn_t* f, uint32_t reg) { push_all(&f->results, 8, 1, I64, 0, 0, 0, 0, reg, 0); }

static inline void add_command(fn_t* f, uint32_t opcode, uint32_t region, uint32_t pool) {
  push_all(&f->insns, 5, opcode, NONE, pool, 0, region);
  if (f->regions <= region) f->regions = region + 1;
}
// |bindings|: triples.
static inline void add_dispatch(fn_t* f, uint32_t region, uint32_t export, const uint32_t grid[3],
                                uint32_t constant_count, const uint32_t* constants, uint32_t binding_count,
                                const uint32_t* bindings) {
  uint32_t at = push_all(&f->pool, 5, export, grid[0], grid[1], grid[2], constant_count);
  for (uint32_t i = 0; i < constant_count; ++i) push(&f->pool, constants[i]);
  push(&f->pool, binding_count);
  for (uint32_t i = 0; i < 3 * binding_count; ++i) push(&f->pool, bindings[i]);
  add_command(f, PYD_OP_DISPATCH, region, at);
}
static inline void add_fill(fn_t* f, uint32_t region, uint32_t buffer, uint32_t offset, uint32_t length,
                            uint32_t pattern, uint32_t bytes) {
  add_command(f, PYD_OP_FILL, region, push_all(&f->pool, 5, buffer, offset, length, pattern, bytes));
}
static inline void add_copy(fn_t* f, uint32_t region, uint32_t source, uint32_t source_offset, uint32_t target,
                            uint32_t target_offset, uint32_t length) {
  add_command(f, PYD_OP_COPY, region, push_all(&f->pool, 5, source, source_offset, target, target_offset, length));
}

// Values first, then commands by region: for tests that write them buffer after buffer.
static inline void sort_commands(fn_t* f) {
  words_t sorted = {0};
  for (uint32_t pass = 0; pass <= f->regions; ++pass) {
    for (uint32_t i = 0; i < f->insns.count; i += 5) {
      const uint32_t* w = f->insns.data + i;
      bool is_command = (w[0] & 0xFFFF) >= PYD_OP_DISPATCH;
      if (pass == 0 ? !is_command : is_command && w[4] == pass - 1) push_all(&sorted, 5, w[0], w[1], w[2], w[3], w[4]);
    }
  }
  free(f->insns.data);
  f->insns = sorted;
}

static inline uint32_t place(words_t* out, const words_t* table) {
  uint32_t at = out->count;
  for (uint32_t i = 0; i < table->count; ++i) push(out, table->data[i]);
  return at;
}
// The bytes of the program, to be freed. The builder is emptied.
static inline pyd_span_t encode(builder_t* b) {
  words_t out = {0}, functions = {0};
  for (uint32_t i = 0; i < 32; ++i) push(&out, 0);
  CHECK(place(&out, &b->extra) == 32);
  uint32_t conditions = place(&out, &b->conditions);
  for (uint32_t i = 0; i < b->executables.count; i += 6) b->executables.data[i + 3] += conditions;
  uint32_t tables[10] = {place(&out, &b->executables), b->executables.count / 6, place(&out, &b->exports),
                         b->exports.count / 6,         place(&out, &b->queries), b->queries.count / 8,
                         place(&out, &b->constants),   b->constants.count / 8};
  for (uint32_t i = 0; i < b->function_count; ++i) {
    fn_t* f = &b->functions[i];
    push_all(&functions, 5, f->name[0], f->name[1], 0, 0, 1);
    push_all(&functions, 4, place(&out, &f->args), f->args.count / 8, place(&out, &f->results), f->results.count / 8);
    push_all(&functions, 4, place(&out, &f->buffers), f->buffers.count / 6, place(&out, &f->insns), f->insns.count / 5);
    uint32_t pool = place(&out, &f->pool);
    push_all(&functions, 7, pool, f->pool.count, f->registers, f->regions, 0, 0, 0);
    free(f->args.data), free(f->results.data), free(f->buffers.data), free(f->insns.data), free(f->pool.data);
  }
  uint32_t derived = place(&out, &b->derived);
  tables[8] = place(&out, &functions);
  tables[9] = b->function_count;
  uint32_t strings = out.count * 4;
  for (uint32_t i = 0; i < b->string_bytes; i += 4) push(&out, 0);
  memcpy((char*)out.data + strings, b->strings, b->string_bytes);
  uint32_t head[5] = {PYD_PROGRAM_MAGIC, PYD_PROGRAM_VERSION, out.count, strings, b->string_bytes};
  memcpy(out.data, head, sizeof(head));
  memcpy(out.data + 5, tables, sizeof(tables));
  memcpy(out.data + 15, b->extra_tables, sizeof(b->extra_tables));
  out.data[25] = derived, out.data[26] = b->derived.count / 4;
  free(b->extra.data);
  free(b->executables.data), free(b->conditions.data), free(b->exports.data), free(b->queries.data);
  free(b->constants.data), free(b->derived.data), free(functions.data);
  memset(b, 0, sizeof(*b));
  return (pyd_span_t){(const uint8_t*)out.data, (size_t)out.count * 4};
}
static inline pyd_program_t* decode(builder_t* b) {
  pyd_span_t bytes = encode(b);
  pyd_program_t* program = NULL;
  CHECK_OK(pyd_program_decode(bytes, &program));
  free((void*)bytes.data);
  return program;
}

// A loaded executable made of functions of the test itself.
struct pyd_executable_s {
  pyd_library_t library;
  _Alignas(16) pyd_environment_t environment;
  pyd_span_t image;
};

#endif  // PYD_TESTS_PROGRAM_BUILDER_H_
