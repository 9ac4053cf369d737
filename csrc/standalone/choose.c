// Chooses the variant of an executable for a machine, and answers the queries of programs about it.
#include "standalone/choose.h"

#include <stdio.h>
#include <string.h>

#include "artifact/json.h"
#include "pydispatch/elf.h"
#include "standalone/standalone.h"

// Describes the machine that runs this code.
void pyd_standalone_machine_host(pyd_standalone_machine_t* out_machine) {
  pyd_cpu_features(out_machine->features, PYD_CPU_FEATURE_WORDS);
  switch (pyd_elf_machine_host()) {
    case PYD_ELF_MACHINE_X86_64: out_machine->format = "embedded-elf-x86_64"; break;
    case PYD_ELF_MACHINE_AARCH64: out_machine->format = "embedded-elf-arm_64"; break;
    case PYD_ELF_MACHINE_RISCV64: out_machine->format = "embedded-elf-riscv_64"; break;
    default: out_machine->format = ""; break;
  }
}

// Returns whether |format| is the format of executables for |machine|.
static bool is_format(const pyd_standalone_machine_t* machine, pyd_string_t format) {
  return machine->format[0] && pyd_text_is(format, machine->format);
}

// Returns whether |machine| has the CPU feature |name|. |features| has a bit per feature. |*out_known|: whether any CPU
// feature has that name.
static bool has_feature(const pyd_standalone_machine_t* machine, pyd_string_t name, bool* out_known) {
  for (size_t i = 0; i < 64 * PYD_CPU_FEATURE_WORDS && pyd_cpu_feature_name(i); ++i) {
    if (!pyd_text_is(name, pyd_cpu_feature_name(i))) continue;
    *out_known = true;
    return machine->features[i / 64] >> (i % 64) & 1;
  }
  *out_known = false;
  return false;
}

// ---- queries

// Returns whether |name| as a whole matches |pattern|, a glob in which '*' stands for any text and '?' for any byte.
// Takes time up to the product of both lengths.
static bool matches(pyd_string_t pattern, const char* name) {
  // |at| is an index in |pattern|. |star| is the index of the last '*' so far, and |back| the end of the text that this
  // '*' matches; NULL: no '*' so far. A mismatch extends the text by one byte. The texts of earlier '*' need not
  // change, as the last '*' can match any text.
  uint32_t at = 0, star = UINT32_MAX;
  const char* back = NULL;
  while (*name) {
    if (at < pattern.length && pattern.data[at] == '*') {
      star = at++, back = name;
    } else if (at < pattern.length && (pattern.data[at] == '?' || pattern.data[at] == *name)) {
      ++at, ++name;
    } else if (back) {
      at = star + 1, name = ++back;
    } else {
      return false;
    }
  }
  while (at < pattern.length && pattern.data[at] == '*') ++at;
  return at == pattern.length;
}

// Answers a query of the program about the machine, a category and a key, for example "hal.cpu" and "avx512f".
// |*out_found|: whether the query is known. |*out_value|: the answer, 0 or 1 or a number of workers; 0 if not known.
pyd_status_t pyd_standalone_answer(const pyd_program_query_t* query, const pyd_standalone_machine_t* machine,
                                   uint32_t workers, bool* out_found, uint64_t* out_value) {
  *out_found = true;
  *out_value = 0;
  if (pyd_text_is(query->category, "hal.executable.format")) {
    *out_value = is_format(machine, query->key);
  } else if (pyd_text_is(query->category, "hal.cpu")) {
    *out_value = has_feature(machine, query->key, out_found);
  } else if (pyd_text_is(query->category, "hal.device.id")) {
    if (query->key.length && memchr(query->key.data, '[', query->key.length)) {
      return pyd_status_make(PYD_CODE_UNSUPPORTED,
                             "the program asks for a device '%.*s'; sets of characters are not supported "
                             "without Python",
                             (int)query->key.length, query->key.data);
    }
    *out_value = matches(query->key, "cpu") || matches(query->key, "local") ||
                 matches(query->key, workers == 1 ? "local-sync" : "local-task");
  } else if (pyd_text_is(query->key, "concurrency") && pyd_text_is(query->category, "hal.device")) {
    *out_value = 1;
  } else if (pyd_text_is(query->key, "concurrency") && pyd_text_is(query->category, "hal.dispatch")) {
    *out_value = workers;
  } else {
    *out_found = false;
  }
  return PYD_STATUS_OK;
}

// ---- variants

// Compares the executables and public functions of a manifest with its program.
pyd_status_t pyd_standalone_compare(const pyd_manifest_t* manifest, const pyd_program_t* program) {
  uint32_t executables = pyd_program_executable_count(program), public_count = 0;
  if (manifest->executable_count != executables) {
    return pyd_status_make(PYD_CODE_CORRUPT, "manifest.json lists %u executables, program.bin %u",
                           manifest->executable_count, executables);
  }
  uint64_t functions = pyd_program_function_count(program), procedures = pyd_program_procedure_count(program);
  for (uint64_t i = 0; i < functions + procedures; ++i) {
    const pyd_program_function_t* function = i < functions ? pyd_program_function(program, (uint32_t)i)
                                                           : pyd_program_procedure(program, (uint32_t)(i - functions));
    if (!function->is_public) continue;
    ++public_count;
    if (!pyd_manifest_has_function(manifest, function->name)) {
      return pyd_status_make(PYD_CODE_CORRUPT, "program.bin has the function '%.*s', manifest.json lists no such one",
                             (int)function->name.length, function->name.data);
    }
  }
  // Every public name in the program is in the manifest, whose names are distinct: equal counts mean equal names,
  // unless the program has a name twice.
  if (public_count == manifest->function_count) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_CORRUPT, "manifest.json lists %u functions, program.bin %u", manifest->function_count,
                         public_count);
}

// Returns the first CPU feature that a variant requires and the machine lacks; NULL when there is none.
static const pyd_string_t* missing_feature(const pyd_manifest_t* manifest, const pyd_standalone_machine_t* machine,
                                           const pyd_manifest_variant_t* variant) {
  bool is_known;  // unused: a feature without a known name is missing, too
  for (uint32_t i = 0; i < variant->requirement_count; ++i) {
    const pyd_string_t* required = &manifest->requirements[variant->first_requirement + i];
    if (!has_feature(machine, *required, &is_known)) return required;
  }
  return NULL;
}

// Evaluates the condition under which a variant may be chosen: |condition| is the index of a function of the program
// without arguments, or PYD_PROGRAM_NONE, which always holds.
static pyd_status_t evaluate_condition(const pyd_program_t* program, uint32_t condition, bool* out_holds) {
  *out_holds = true;
  if (condition == PYD_PROGRAM_NONE) return PYD_STATUS_OK;
  uint64_t result = 1, no_argument = 0;
  pyd_status_t status = pyd_program_evaluate(program, condition, &no_argument, &result);
  *out_holds = result & 1;  // an i1
  return status;
}

// Returns the UNAVAILABLE failure of an executable without a variant that runs here. The text names a CPU feature that
// is missing.
static pyd_status_t no_variant(const pyd_manifest_t* manifest, const pyd_standalone_machine_t* machine,
                               const pyd_manifest_executable_t* executable) {
  const pyd_manifest_variant_t* variants = &manifest->variants[executable->first_variant];
  const pyd_string_t* lacks = NULL;  // a missing feature
  char why[200] = "";
  // Variants for other architectures explain nothing: a missing feature is named only for variants of this one.
  for (uint32_t i = 0; i < executable->variant_count && !lacks; ++i) {
    if (is_format(machine, variants[i].format)) lacks = missing_feature(manifest, machine, &variants[i]);
  }
  if (lacks) snprintf(why, sizeof(why), "; the machine lacks %.*s", (int)lacks->length, lacks->data);
  return pyd_status_make(PYD_CODE_UNAVAILABLE,
                         "none of the %u variants of executable '%.*s' runs on this machine%s; compile the "
                         "program for it",
                         executable->variant_count, (int)executable->name.length, executable->name.data, why);
}

// Checks that executable |index| has the same name and number of variants in the manifest and in the program.
static pyd_status_t check_same(const pyd_manifest_executable_t* listed, const pyd_program_executable_t* executable,
                               uint32_t index) {
  if (listed->name.length == executable->name.length && listed->variant_count == executable->variant_count &&
      memcmp(listed->name.data, executable->name.data, executable->name.length) == 0) {
    return PYD_STATUS_OK;
  }
  return pyd_status_make(PYD_CODE_CORRUPT,
                         "executable %u is '%.*s' with %u variants in manifest.json, '%.*s' with %u in program.bin",
                         index, (int)listed->name.length, listed->name.data, listed->variant_count,
                         (int)executable->name.length, executable->name.data, executable->variant_count);
}

// Chooses the variant of executable |index| with the most required CPU features among those that run on |machine| and
// whose condition holds; the first of several.
pyd_status_t pyd_standalone_choose(const pyd_manifest_t* manifest, const pyd_program_t* program, uint32_t index,
                                   const pyd_standalone_machine_t* machine, uint32_t* out_variant) {
  const pyd_manifest_executable_t* executable = &manifest->executables[index];
  const pyd_program_executable_t* in_program = pyd_program_executable(program, index);
  pyd_status_t status = check_same(executable, in_program, index);
  if (!pyd_ok(status)) return status;
  uint32_t best = PYD_PROGRAM_NONE, best_requirements = 0;
  for (uint32_t i = 0; i < executable->variant_count; ++i) {
    const pyd_manifest_variant_t* variant = &manifest->variants[executable->first_variant + i];
    bool is_better = best == PYD_PROGRAM_NONE || variant->requirement_count > best_requirements;
    if (!is_better || !is_format(machine, variant->format) || missing_feature(manifest, machine, variant)) continue;
    bool condition_holds = false;  // evaluated last, as conditions run code of the program
    status = evaluate_condition(program, in_program->variant_conditions[i], &condition_holds);
    if (!pyd_ok(status)) return status;
    if (condition_holds) best = i, best_requirements = variant->requirement_count;
  }
  *out_variant = best;
  return best == PYD_PROGRAM_NONE ? no_variant(manifest, machine, executable) : PYD_STATUS_OK;
}
