// Loads the bytes of an artifact into a program that can be called.
#include <stdlib.h>
#include <string.h>

#include "base/span.h"
#include "pydispatch/cpu.h"
#include "pydispatch/elf.h"
#include "pydispatch/program_device.h"
#include "standalone/standalone.h"

enum { kMaxConstants = 256 };  // of one executable: 32-bit words, which are on the stack while it is linked

// State of a loaded program, released with its last handle.
typedef struct loaded_s {
  pyd_standalone_source_t source;
  pyd_sched_t* sched;
  pyd_pool_t* pool;
  pyd_plugin_manager_t* manager;
  pyd_api_device_t* device;  // valid only while the program is loaded
  pyd_standalone_parameters_t* parameters;
  pyd_artifact_t* artifact;
  pyd_manifest_t manifest;
  pyd_standalone_machine_t machine;
  pyd_program_t* program;
  pyd_program_t* contracts;        // functions that say which elements kernels read and write; NULL if unused
  pyd_resolution_t* resolution;    // who supplies imports and host commands
  pyd_executable_t** executables;  // by index: the variant that was chosen; NULL until it is linked
  uint32_t executable_count;
  void** blocks;  // by constant: a copy of one that is not aligned in the file, or NULL
  uint32_t constant_count;
  pyd_derived_t* derived;  // constants that are computed from others; NULL without any
  pyd_state_t* state;      // variables of the program; NULL without procedures
} loaded_t;

// Frees a loaded_t in any stage of loading.
static void drop(void* self) {
  loaded_t* p = self;
  if (p->state) pyd_state_free(p->state);
  if (p->program) pyd_program_free(p->program);
  if (p->contracts) pyd_program_free(p->contracts);
  if (p->derived) pyd_derived_free(p->derived);
  for (uint32_t i = 0; p->executables && i < p->executable_count; ++i) {
    if (p->executables[i]) pyd_executable_free(p->executables[i]);
  }
  for (uint32_t i = 0; p->blocks && i < p->constant_count; ++i) pyd_pool_release(p->pool, p->blocks[i]);
  pyd_standalone_parameters_free(p->parameters);
  pyd_resolution_free(p->resolution);
  free(p->executables);
  free(p->blocks);
  pyd_manifest_free(&p->manifest);
  if (p->artifact) pyd_artifact_free(p->artifact);
  if (p->source.copy) {
    pyd_pool_release(p->pool, p->source.copy);
  } else {
    pyd_file_unmap(&p->source.map);
  }
  free(p);
}

// Finds the bytes of the artifact's member |name|, a name of |length| bytes. |is_checked|: compares them with their
// checksum. Members with constants are not checked, so that their pages are read from the file on use only.
static pyd_status_t find(const loaded_t* p, const char* name, size_t length, bool is_checked, pyd_span_t* out_bytes) {
  *out_bytes = (pyd_span_t){NULL, 0};
  const pyd_artifact_member_t* member = pyd_artifact_find(p->artifact, name, length);
  if (!member) return pyd_status_make(PYD_CODE_CORRUPT, "there is no member '%.*s'", (int)length, name);
  *out_bytes = member->data;
  return is_checked ? pyd_artifact_verify(member) : PYD_STATUS_OK;
}

// Opens the artifact, reads its manifest, decodes its program, and allocates the tables that their counts determine.
static pyd_status_t open_members(loaded_t* p) {
  pyd_span_t manifest, program;
  pyd_status_t status = pyd_artifact_open(p->source.file, &p->artifact);
  if (pyd_ok(status)) status = find(p, "manifest.json", strlen("manifest.json"), /* is_checked */ true, &manifest);
  if (pyd_ok(status)) status = pyd_manifest_read(manifest, &p->manifest);
  if (pyd_ok(status)) status = find(p, "program.bin", strlen("program.bin"), /* is_checked */ true, &program);
  if (pyd_ok(status)) status = pyd_program_decode(program, &p->program);
  if (!pyd_ok(status)) return status;
  pyd_program_set_allocator(p->program, pyd_pool_allocator(p->pool));
  p->executable_count = pyd_program_executable_count(p->program);
  p->constant_count = pyd_program_constant_count(p->program);
  // One more element than needed, as calloc may return NULL for none.
  p->executables = calloc((size_t)p->executable_count + 1, sizeof(*p->executables));
  p->blocks = calloc((size_t)p->constant_count + 1, sizeof(*p->blocks));
  if (!p->executables || !p->blocks)
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the tables of a program");
  return pyd_standalone_compare(&p->manifest, p->program);
}

// Answers the queries of the program about this machine, such as whether its CPU has a feature.
static pyd_status_t answer_queries(const loaded_t* p) {
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < pyd_program_query_count(p->program) && pyd_ok(status); ++i) {
    bool is_known;
    uint64_t value;
    status = pyd_standalone_answer(pyd_program_query(p->program, i), &p->machine, pyd_sched_workers(p->sched),
                                   &is_known, &value);
    if (pyd_ok(status)) pyd_program_set_query(p->program, i, is_known, value);
  }
  return status;
}

// ---- executables

// Links the contracts of |variant|, functions that say which elements its kernels read and write, to executable
// |index|.
static pyd_status_t link_contracts(loaded_t* p, uint32_t index, const pyd_manifest_variant_t* variant) {
  if (!variant->has_contracts) return PYD_STATUS_OK;
  pyd_span_t bytes;
  pyd_status_t status = PYD_STATUS_OK;
  if (!p->contracts) {
    status = find(p, "contracts.bin", strlen("contracts.bin"), /* is_checked */ true, &bytes);
    if (pyd_ok(status)) status = pyd_program_decode(bytes, &p->contracts);
  }
  if (!pyd_ok(status)) return status;
  static const uint32_t kNone = 0;  // an address for an empty list
  const uint32_t* functions = variant->contract_count ? &p->manifest.contracts[variant->first_contract] : &kNone;
  return pyd_program_set_contracts(p->program, index, p->contracts, functions, variant->contract_count);
}

// Runs |function| of the program, which computes the specialization constants of an executable for one of its variants.
// PYD_PROGRAM_NONE: there are none. |out_words| has room for kMaxConstants.
static pyd_status_t compute_constants(const loaded_t* p, uint32_t function, uint32_t variant, uint32_t* out_words,
                                      uint32_t* out_count) {
  uint64_t results[kMaxConstants], argument = variant;
  *out_count = 0;
  if (function == PYD_PROGRAM_NONE) return PYD_STATUS_OK;
  uint32_t count = pyd_program_function(p->program, function)->result_count;
  if (count > kMaxConstants) {
    return pyd_status_make(PYD_CODE_CORRUPT, "an executable has %u constants; at most %d are supported", count,
                           kMaxConstants);
  }
  pyd_status_t status = pyd_program_evaluate(p->program, function, &argument, results);
  for (uint32_t i = 0; i < count && pyd_ok(status); ++i) out_words[i] = (uint32_t)results[i];
  *out_count = count;
  return status;
}

// Chooses a variant of executable |index| for this machine, loads its machine code, and links it and its contracts to
// the program.
static pyd_status_t link_executable(loaded_t* p, uint32_t index) {
  uint32_t number, words[kMaxConstants];  // the variant's index in the executable; its specialization constants
  uint64_t processor[PYD_CPU_WORDS];
  char name[128];  // of the executable, for messages; a longer one is cut
  pyd_span_t elf;
  pyd_status_t status = pyd_standalone_choose(&p->manifest, p->program, index, &p->machine, &number);
  if (!pyd_ok(status)) return status;
  const pyd_manifest_variant_t* variant = &p->manifest.variants[p->manifest.executables[index].first_variant + number];
  const pyd_program_executable_t* executable = pyd_program_executable(p->program, index);
  size_t length = executable->name.length < sizeof(name) ? executable->name.length : sizeof(name) - 1;
  if (length) memcpy(name, executable->name.data, length);
  name[length] = 0;
  if (variant->is_dynamic) {
    return pyd_status_make(PYD_CODE_UNSUPPORTED,
                           "the program only declares executable '%s': its code can be supplied with Python only",
                           name);
  }
  pyd_cpu_query(processor);
  pyd_executable_options_t options = {.name = name,
                                      .resolver = pyd_resolution_resolver(p->resolution),
                                      .constants = words,
                                      .processor_data = processor};
  status = compute_constants(p, executable->constants_function, number, words, &options.constant_count);
  if (pyd_ok(status)) status = find(p, variant->member.data, variant->member.length, /* is_checked */ true, &elf);
  if (pyd_ok(status)) status = pyd_executable_load_elf(elf, &options, &p->executables[index]);
  if (pyd_ok(status))
    status = pyd_program_set_executable(p->program, index, p->executables[index], number, variant->alignment);
  return pyd_ok(status) ? link_contracts(p, index, variant) : status;
}

// Links a variant of each executable, then applies their contracts, if any has one.
static pyd_status_t link_executables(loaded_t* p) {
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < p->executable_count && pyd_ok(status); ++i) status = link_executable(p, i);
  return pyd_ok(status) && p->contracts ? pyd_program_apply_contracts(p->program) : status;
}

// ---- constants

// Links constant |index| to its bytes at |data|, as many as its length. They must outlive the program.
static pyd_status_t link_bytes(loaded_t* p, uint32_t index, const void* data) {
  return pyd_program_set_constant(p->program, index,
                                  (pyd_span_t){data, (size_t)pyd_program_constant(p->program, index)->length});
}

// Links a constant to the memory of its parameter if that is row-major and aligned, else to a row-major copy in
// p->blocks, which has the alignment of the pool. Called twice. The first call, with |is_linking|, copies memory that
// is not row-major. The second call, when the executables have determined |alignment|, copies memory that is not
// aligned.
static pyd_status_t link_parameter(loaded_t* p, uint32_t index, bool is_linking, uint32_t alignment) {
  const pyd_program_constant_t* constant = pyd_program_constant(p->program, index);
  const pyd_api_memory_t* memory = pyd_standalone_parameter(p->parameters, constant->parameter);
  if (memory->bytes != constant->length) {
    return pyd_status_make(PYD_CODE_CORRUPT, "constant %u takes %llu bytes, its parameter has %llu", index,
                           (unsigned long long)constant->length, (unsigned long long)memory->bytes);
  }
  const bool is_aligned = is_linking || !((uintptr_t)memory->first & (alignment - 1));  // |alignment|: a power of two
  const bool is_usable = memory->is_dense && is_aligned;
  const bool is_copied = p->blocks[index] != NULL;  // by the first call
  if (is_usable || is_copied || !memory->bytes) return is_linking ? link_bytes(p, index, memory->first) : PYD_STATUS_OK;
  pyd_status_t status = pyd_pool_acquire(p->pool, (size_t)memory->bytes, &p->blocks[index]);
  if (!pyd_ok(status)) return status;
  if (memory->is_dense) {
    memcpy(p->blocks[index], memory->first, (size_t)memory->bytes);
  } else {
    pyd_api_memory_gather(memory, p->blocks[index]);
  }
  return link_bytes(p, index, p->blocks[index]);
}

// Links constant |index| to its bytes, unless it is derived, i.e. computed from others. Called twice: the first call,
// with |is_linking|, links the bytes in place, whatever their alignment. The second call, without |is_linking|, follows
// when the executables have determined |alignment|, in bytes, a power of two. If the bytes are not aligned, it links a
// copy in p->blocks instead.
static pyd_status_t link_constant(loaded_t* p, uint32_t index, bool is_linking, uint32_t alignment) {
  const pyd_program_constant_t* constant = pyd_program_constant(p->program, index);
  if (constant->derivation != PYD_PROGRAM_NONE) return PYD_STATUS_OK;
  if (constant->parameter != PYD_PROGRAM_NONE) return link_parameter(p, index, is_linking, alignment);
  pyd_span_t member;
  pyd_status_t status = find(p, constant->member.data, constant->member.length, /* is_checked */ false, &member);
  if (!pyd_ok(status)) return status;
  const uint8_t* data = pyd_span_get(member, constant->offset, constant->length);
  if (!data) {
    return pyd_status_make(PYD_CODE_CORRUPT, "a constant takes %llu bytes at %llu of '%.*s', which has %zu",
                           (unsigned long long)constant->length, (unsigned long long)constant->offset,
                           (int)constant->member.length, constant->member.data, member.size);
  }
  const bool is_aligned = !((uintptr_t)data & (alignment - 1));
  if (!is_linking && !is_aligned && constant->length) {
    status = pyd_pool_acquire(p->pool, (size_t)constant->length, &p->blocks[index]);
    if (!pyd_ok(status)) return status;
    data = memcpy(p->blocks[index], data, (size_t)constant->length);
  } else if (!is_linking) {
    return PYD_STATUS_OK;
  }
  return link_bytes(p, index, data);
}

// Links all constants in place first: the executables, which are linked later, determine their alignment.
static pyd_status_t link_constants(loaded_t* p) {
  pyd_status_t status = PYD_STATUS_OK;
  for (uint32_t i = 0; i < p->constant_count && pyd_ok(status); ++i)
    status = link_constant(p, i, /* is_linking */ true, /* alignment */ 1);
  return status;
}

// Copies the constants that are not aligned as the linked executables need, and marks those that are in mapped files.
static pyd_status_t align_constants(loaded_t* p) {
  uint32_t* alignments = calloc((size_t)p->constant_count + 1, sizeof(*alignments));
  if (!alignments)
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for the alignments of %u constants", p->constant_count);
  pyd_status_t status = pyd_program_constant_alignments(p->program, alignments);
  for (uint32_t i = 0; i < p->constant_count && pyd_ok(status); ++i) {
    status = link_constant(p, i, /* is_linking */ false, alignments[i] ? alignments[i] : 1);
    pyd_span_t bytes = pyd_program_constant_bytes(p->program, i);
    if (pyd_file_is_mapped(&p->source.map, bytes) || pyd_standalone_is_mapped(p->parameters, bytes))
      pyd_program_set_constant_mapped(p->program, i);
  }
  free(alignments);
  return status;
}

// ---- the whole

// Loads the program: links all that it refers to, and runs its initializers.
static pyd_status_t link_all(loaded_t* p, const pyd_api_load_t* options) {
  pyd_standalone_machine_host(&p->machine);
  pyd_status_t status = open_members(p);
  if (pyd_ok(status)) status = pyd_standalone_parameters_open(p->program, p->device, options, &p->parameters);
  if (pyd_ok(status)) status = answer_queries(p);
  if (pyd_ok(status)) status = link_constants(p);
  if (pyd_ok(status)) status = pyd_resolution_begin(p->manager, &p->resolution);
  if (pyd_ok(status)) status = link_executables(p);
  if (pyd_ok(status)) status = pyd_standalone_link_commands(p->program, pyd_resolution_resolver(p->resolution));
  if (pyd_ok(status)) pyd_resolution_end(p->resolution);
  if (pyd_ok(status)) status = align_constants(p);
  if (pyd_ok(status) && pyd_program_derivation_count(p->program)) {
    status = pyd_derived_create(p->program, p->sched, p->pool, &p->derived);
    if (pyd_ok(status)) status = pyd_program_set_derived(p->program, p->derived);
  }
  if (!pyd_ok(status) || !pyd_program_procedure_count(p->program)) return status;
  status = pyd_state_create(p->program, p->sched, p->pool, &p->state);
  return pyd_ok(status) ? pyd_state_initialize(p->state, /* interrupt */ NULL) : status;
}

// Loads a program from |source|, the bytes of an artifact, which it takes over also after a failure.
pyd_status_t pyd_standalone_load(pyd_api_device_t* device, pyd_standalone_source_t source,
                                 const pyd_api_load_t* options, pyd_api_program_t** out_program) {
  loaded_t* p = calloc(1, sizeof(*p));
  if (!p) {
    if (source.copy) {
      pyd_pool_release(device->pool, source.copy);
    } else {
      pyd_file_unmap(&source.map);
    }
    return pyd_status_make(PYD_CODE_OUT_OF_MEMORY, "no memory for a program");
  }
  p->source = source, p->sched = device->sched, p->pool = device->pool;
  p->manager = pyd_standalone_device(device)->manager;
  p->device = device;
  pyd_status_t status = link_all(p, options);
  if (pyd_ok(status))
    status = pyd_api_program_make(device, p->program, p->state, (pyd_api_owner_t){p, drop}, out_program);
  if (!pyd_ok(status)) drop(p);
  return status;
}
