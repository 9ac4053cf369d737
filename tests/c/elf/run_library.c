// Runs exports of an executable library through the loader, in a static program of its own: made for machines that are
// emulated, where nothing but this file and the kernel is wanted.
//
//   run_library FILE [--binding=8xf32=2 ...] [--export=NAME [--grid=XxYxZ] [--constant=U32 ...] [--use=I,J,K]]...
//   [--print=K ...]
//
// --binding adds a buffer of f32, i32 or i8: one value fills it, a comma list gives each element, @FILE has its bytes.
// Every
// --export opens a group; the groups run in order and share the buffers, and their workgroups run in order, with
// --backwards=1 from the last one. --use names a group's buffers by number; without it they are 0, 1, 2, ... as many as
// the export has. --print writes a buffer at the end: 8xf32=96 96 96 96 96 96 96 96
//
//   cc -std=c11 -Icsrc -Icsrc/include -static run_library.c csrc/base/*.c csrc/platform/mem_linux.c csrc/elf/*.c
#include <stdalign.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "pydispatch/elf.h"
#include "pydispatch/library.h"

enum { MAX_BUFFERS = 16, MAX_GROUPS = 16 };

typedef enum type_e { F32, I32, I8 } type_t;

static const char* const type_names[] = {"f32", "i32", "i8"};
static const size_t type_sizes[] = {sizeof(float), sizeof(int32_t), sizeof(int8_t)};

typedef struct buffer_s {
  size_t count;
  type_t type;
  void* values;
} buffer_t;

typedef struct group_s {
  const char* name;
  unsigned long grid[3];
  uint32_t constants[PYD_LIBRARY_MAX_CONSTANTS];
  uint32_t constant_count;
  uint32_t use[MAX_BUFFERS];
  uint32_t use_count;
  int backwards;
} group_t;

typedef struct options_s {
  const char* file;
  buffer_t buffers[MAX_BUFFERS];
  uint32_t buffer_count;
  group_t groups[MAX_GROUPS];
  uint32_t group_count;
  uint32_t print[MAX_BUFFERS];
  uint32_t print_count;
} options_t;

static int fail(const char* what, const char* detail) {
  fprintf(stderr, "run_library: %s%s%s\n", what, detail[0] ? ": " : "", detail);
  return 1;
}

static uint8_t* read_file(const char* path, size_t* out_size) {
  FILE* file = fopen(path, "rb");
  if (!file) return NULL;
  size_t room = 1 << 16, size = 0;
  uint8_t* bytes = malloc(room);
  for (size_t got; bytes && (got = fread(bytes + size, 1, room - size, file)) > 0;) {
    size += got;
    if (size == room) bytes = realloc(bytes, room *= 2);
  }
  fclose(file);
  *out_size = size;
  return bytes;
}

// Reads element i from `text`; where it ends.
static char* parse_element(const buffer_t* buffer, size_t i, const char* text) {
  char* rest = NULL;
  switch (buffer->type) {
    case F32: ((float*)buffer->values)[i] = strtof(text, &rest); break;
    case I32: ((int32_t*)buffer->values)[i] = (int32_t)strtol(text, &rest, 10); break;
    case I8: ((int8_t*)buffer->values)[i] = (int8_t)strtol(text, &rest, 10); break;
  }
  return rest;
}

static void print_element(const buffer_t* buffer, size_t i) {
  switch (buffer->type) {
    case F32: printf("%.9G", ((const float*)buffer->values)[i]); break;
    case I32: printf("%d", ((const int32_t*)buffer->values)[i]); break;
    case I8: printf("%d", ((const int8_t*)buffer->values)[i]); break;
  }
}

static int parse_buffer(options_t* o, const char* text) {
  char* rest;
  unsigned long count = strtoul(text, &rest, 10);
  uint32_t type = *rest == 'x' ? 0 : 3;
  size_t length = strcspn(rest, "=");
  while (type < 3 && (length - 1 != strlen(type_names[type]) || strncmp(rest + 1, type_names[type], length - 1)))
    ++type;
  if (type == 3 || o->buffer_count == MAX_BUFFERS || count > 1u << 28) {
    return fail("--binding wants COUNTxTYPE=VALUE[,VALUE...] of f32, i32 or i8", text);
  }
  size_t size = type_sizes[type], bytes = (count * size + 64) & ~(size_t)63;
  buffer_t* buffer = &o->buffers[o->buffer_count++];
  *buffer = (buffer_t){count, (type_t)type, aligned_alloc(64, bytes)};
  if (!buffer->values) return fail("no memory for", text);
  memset(buffer->values, 0, bytes);
  rest += length;
  if (rest[0] == '=' && rest[1] == '@') {
    size_t read = 0;
    uint8_t* bytes_read = read_file(rest + 2, &read);
    if (bytes_read && read == count * size) memcpy(buffer->values, bytes_read, read);
    free(bytes_read);
    return bytes_read && read == count * size ? 0 : fail("no file of so many elements", text);
  }
  size_t given = 0;
  while (*rest && given < count) {
    rest = parse_element(buffer, given++, rest + 1);
    if (*rest && *rest != ',') return fail("not a number", text);
  }
  if (*rest || (given > 1 && given != count)) return fail("another number of values than elements", text);
  char* bytes_of = buffer->values;
  for (size_t i = given; given == 1 && i < count; ++i) memcpy(bytes_of + i * size, bytes_of, size);
  return 0;
}

static int parse_group_option(group_t* group, const char* name, const char* value) {
  char* rest = (char*)value;
  if (strcmp(name, "--grid") == 0) {
    for (int i = 0; i < 3; ++i) group->grid[i] = *rest ? strtoul(rest, &rest, 10) : 1, rest += *rest == 'x';
    return *rest ? fail("--grid wants XxYxZ", value) : 0;
  }
  if (strcmp(name, "--backwards") == 0) {
    group->backwards = value[0] == '1';
    return 0;
  }
  if (strcmp(name, "--constant") == 0) {
    if (group->constant_count == PYD_LIBRARY_MAX_CONSTANTS) return fail("more than 64 constants", "");
    group->constants[group->constant_count++] = (uint32_t)strtoul(value, NULL, 0);
    return 0;
  }
  if (strcmp(name, "--use") == 0) {
    while (*rest && group->use_count < MAX_BUFFERS) {
      group->use[group->use_count++] = (uint32_t)strtoul(rest, &rest, 10);
      if (*rest == ',')
        ++rest;
      else if (*rest)
        return fail("--use wants I,J,K", value);
    }
    return 0;
  }
  return fail("unknown option", name);
}

static int parse_options(int argc, char** argv, options_t* o) {
  for (int i = 1; i < argc; ++i) {
    char* value = strchr(argv[i], '=');
    if (strncmp(argv[i], "--", 2) != 0) {
      o->file = argv[i];
      continue;
    }
    if (!value) return fail("every option has the form --name=value", argv[i]);
    *value++ = 0;
    if (strcmp(argv[i], "--binding") == 0) {
      if (parse_buffer(o, value)) return 1;
    } else if (strcmp(argv[i], "--print") == 0 && o->print_count < MAX_BUFFERS) {
      o->print[o->print_count++] = (uint32_t)strtoul(value, NULL, 10);
    } else if (strcmp(argv[i], "--export") == 0 && o->group_count < MAX_GROUPS) {
      o->groups[o->group_count++] = (group_t){.name = value, .grid = {1, 1, 1}};
    } else if (o->group_count == 0) {
      return fail("--export comes before", argv[i]);
    } else if (parse_group_option(&o->groups[o->group_count - 1], argv[i], value)) {
      return 1;
    }
  }
  return o->file ? 0 : fail("no file given", "");
}

static int run_group(const options_t* o, const group_t* group, const pyd_library_t* library,
                     const pyd_environment_t* environment) {
  uint32_t index = 0;
  while (index < library->exports.count && strcmp(library->exports.names[index], group->name)) ++index;
  if (index == library->exports.count) return fail("no export is named", group->name);
  const pyd_library_export_attrs_t* attrs = &library->exports.attrs[index];
  if (attrs->constant_count != group->constant_count)
    return fail("another number of --constant than declared by", group->name);
  if (group->use_count && attrs->binding_count != group->use_count)
    return fail("another number of --use than bindings of", group->name);
  void* pointers[MAX_BUFFERS];
  size_t lengths[MAX_BUFFERS];
  if (attrs->binding_count > MAX_BUFFERS) return fail("too many bindings", group->name);
  for (uint32_t i = 0; i < attrs->binding_count; ++i) {
    uint32_t number = group->use_count ? group->use[i] : i;
    if (number >= o->buffer_count) return fail("fewer --binding than needed by", group->name);
    pointers[i] = o->buffers[number].values;
    lengths[i] = o->buffers[number].count * type_sizes[o->buffers[number].type];
  }
  size_t local = (size_t)attrs->local_memory_pages * PYD_LIBRARY_PAGE_SIZE;
  alignas(16) pyd_dispatch_state_t dispatch = {
      .workgroup_size_x = attrs->workgroup_size_x ? attrs->workgroup_size_x : 1,
      .workgroup_size_y = attrs->workgroup_size_y ? attrs->workgroup_size_y : 1,
      .workgroup_size_z = attrs->workgroup_size_z ? attrs->workgroup_size_z : 1,
      .constant_count = (uint16_t)group->constant_count,
      .workgroup_count_x = (uint32_t)group->grid[0],
      .workgroup_count_y = (uint32_t)group->grid[1],
      .workgroup_count_z = (uint16_t)group->grid[2],
      .max_concurrency = 1,
      .binding_count = attrs->binding_count,
      .constants = group->constants,
      .binding_ptrs = pointers,
      .binding_lengths = lengths,
  };
  alignas(16) pyd_workgroup_state_t workgroup = {.local_memory_size = (uint32_t)local};
  if (local) workgroup.local_memory = aligned_alloc(64, local);
  int32_t code = 0;
  unsigned long nx = group->grid[0], ny = group->grid[1], count = nx * ny * group->grid[2];
  for (unsigned long i = 0; !code && i < count; ++i) {
    unsigned long which = group->backwards ? count - 1 - i : i;
    workgroup.workgroup_id_x = (uint32_t)(which % nx);
    workgroup.workgroup_id_y = (uint32_t)(which / nx % ny);
    workgroup.workgroup_id_z = (uint16_t)(which / nx / ny);
    code = library->exports.ptrs[index](environment, &dispatch, &workgroup);
  }
  free(workgroup.local_memory);
  return code ? fail("kernel returned non-zero", group->name) : 0;
}

static int32_t call_import(pyd_import_fn_t import, void* params, void* context, void* reserved) {
  return import(params, context, reserved);
}

static int run_library(const options_t* o, const pyd_elf_module_t* module) {
  alignas(16) pyd_environment_t environment = {.import_thunk = call_import};
  pyd_library_query_fn_t query =
      (pyd_library_query_fn_t)(uintptr_t)pyd_elf_module_symbol(module, PYD_LIBRARY_QUERY_SYMBOL);
  if (!query) return fail("no symbol", PYD_LIBRARY_QUERY_SYMBOL);
  const pyd_library_header_t* const* header = NULL;
  for (uint32_t version = PYD_LIBRARY_VERSION; !header && version; --version) header = query(version, &environment);
  if (!header || (*header)->version != PYD_LIBRARY_VERSION) return fail("the library has no layout of version 6", "");
  const pyd_library_t* library = (const pyd_library_t*)header;
  void* nothing[256] = {0};
  environment.import_funcs = (const pyd_import_fn_t*)nothing;
  environment.import_contexts = nothing;
  for (uint32_t i = 0; i < library->imports.count; ++i) {
    if (library->imports.symbols[i][0] != '?' || i >= 256) return fail("needs the import", library->imports.symbols[i]);
  }
  for (uint32_t i = 0; i < o->group_count; ++i) {
    if (run_group(o, &o->groups[i], library, &environment)) return 1;
  }
  for (uint32_t i = 0; i < o->print_count; ++i) {
    if (o->print[i] >= o->buffer_count) return fail("--print names no buffer", "");
    const buffer_t* buffer = &o->buffers[o->print[i]];
    printf("%zux%s=", buffer->count, type_names[buffer->type]);
    for (size_t j = 0; j < buffer->count; ++j) {
      if (j) printf(" ");
      print_element(buffer, j);
    }
    printf("\n");
  }
  return 0;
}

int main(int argc, char** argv) {
  static options_t options;
  int failed = parse_options(argc, argv, &options);
  size_t size = 0;
  uint8_t* bytes = failed ? NULL : read_file(options.file, &size);
  if (!failed && !bytes) failed = fail("cannot read", options.file);
  if (!failed) {
    pyd_elf_module_t module;
    pyd_status_t st = pyd_elf_module_load((pyd_span_t){bytes, size}, &module);
    failed = pyd_ok(st) ? run_library(&options, &module) : fail(options.file, pyd_status_text(st));
    pyd_status_free(st);
    pyd_elf_module_unload(&module);
  }
  for (uint32_t i = 0; i < options.buffer_count; ++i) free(options.buffers[i].values);
  free(bytes);
  return failed;
}
