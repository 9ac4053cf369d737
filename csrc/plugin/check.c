// Checks of the tables with which a plugin describes itself. Its code is trusted to run. Missing or unfit entries, and
// in an embedded plugin those outside its file, are still refused by name: hand-written tables get them wrong.
#include <inttypes.h>

#include "platform/sanitizer.h"
#include "plugin/internal.h"

enum { kMaxName = 4095 };  // bytes of a name or description of a plugin

// Returns the name of the sanitizer that a plugin was built with, for messages.
static const char* sanitizer_name(uint32_t sanitizer) {
  switch (sanitizer) {
    case PYD_PLUGIN_SANITIZER_ADDRESS: return "the address sanitizer";
    case PYD_PLUGIN_SANITIZER_MEMORY: return "the memory sanitizer";
    case PYD_PLUGIN_SANITIZER_THREAD: return "the thread sanitizer";
    case PYD_PLUGIN_SANITIZER_UNDEFINED: return "the undefined behaviour sanitizer";
  }
  return "an unknown sanitizer";
}

// Returns whether a plugin built with |sanitizer| may run in this process: the process was built with it too. Embedded
// code cannot reach a sanitizer's runtime at all.
static bool fits_host(uint32_t sanitizer, pyd_plugin_kind_t kind) {
  if (sanitizer == PYD_PLUGIN_SANITIZER_NONE) return true;
  if (kind == PYD_PLUGIN_KIND_EMBEDDED) return false;
  return (sanitizer == PYD_PLUGIN_SANITIZER_ADDRESS && PYD_HAS_ASAN) ||
         (sanitizer == PYD_PLUGIN_SANITIZER_THREAD && PYD_HAS_TSAN);
}

// Checks the plugin's version, name, sanitizer and, if it is embedded, that it declares itself standalone: it needs no
// library of the system.
static pyd_status_t check_header(const pyd_plugin_t* plugin, const pyd_plugin_header_t* header) {
  if (!header) return pyd_status_make(PYD_CODE_CORRUPT, "plugin '%s': its table has no header", plugin->label);
  if (header->version != PYD_PLUGIN_VERSION) {
    return pyd_status_make(
        PYD_CODE_UNSUPPORTED,
        "plugin '%s' has plugin version 0.%u, whose tables are laid out differently; version 0.1 can be "
        "loaded: build it with this version's header",
        plugin->label, header->version);
  }
  if (!header->name) return pyd_status_make(PYD_CODE_CORRUPT, "plugin '%s': its header has no name", plugin->label);
  if (!fits_host(header->sanitizer, plugin->kind)) {
    return pyd_status_make(PYD_CODE_UNSUPPORTED, "plugin '%s' was built with %s (%u), %s: build it without",
                           plugin->label, sanitizer_name(header->sanitizer), header->sanitizer,
                           plugin->kind == PYD_PLUGIN_KIND_EMBEDDED ? "whose runtime embedded code cannot reach"
                                                                    : "which this process was not");
  }
  if (plugin->kind == PYD_PLUGIN_KIND_EMBEDDED && !(header->features & PYD_PLUGIN_FEATURE_STANDALONE)) {
    return pyd_status_make(
        PYD_CODE_UNSUPPORTED,
        "plugin '%s' is an embedded ELF that does not declare itself standalone: set "
        "PYD_PLUGIN_FEATURE_STANDALONE in its header, or load it as a system library (\"system:PATH\")",
        plugin->label);
  }
  return PYD_STATUS_OK;
}

// Checks that |address|, a function of an embedded plugin, is in its executable segments. |what|: its name in the
// message.
pyd_status_t pyd_plugin_check_address(const pyd_plugin_t* plugin, const char* what, uintptr_t address) {
  if (pyd_elf_module_is_code(&plugin->module, address)) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_CORRUPT,
                         "plugin '%s': %s is 0x%" PRIx64 ", which lies in no executable segment's bytes", plugin->label,
                         what, (uint64_t)address - plugin->module.bias);
}

// Checks that |size| bytes at |address| are in a loaded segment of an embedded plugin, and aligned. |what|: their name
// in the message.
static pyd_status_t check_held(const pyd_plugin_t* plugin, const char* what, const void* address, size_t size,
                               size_t alignment) {
  if (pyd_elf_module_holds(&plugin->module, address, size) && (uintptr_t)address % alignment == 0) return PYD_STATUS_OK;
  return pyd_status_make(PYD_CODE_CORRUPT,
                         "plugin '%s': %s, %zu bytes at 0x%" PRIx64
                         ", lies in no segment of its file or is not "
                         "aligned to %zu bytes",
                         plugin->label, what, size, (uint64_t)(uintptr_t)address - plugin->module.bias, alignment);
}

// Checks that name and description of a plugin are strings in its file, or NULL.
static pyd_status_t check_header_texts(const pyd_plugin_t* plugin, const pyd_plugin_header_t* header) {
  const char* const texts[2] = {header->name, header->description};
  for (int i = 0; i < 2; ++i) {
    if (!texts[i] || pyd_elf_module_holds_text(&plugin->module, texts[i], kMaxName)) continue;
    return pyd_status_make(PYD_CODE_CORRUPT,
                           "plugin '%s': its %s at 0x%" PRIx64
                           " is no string of at most %d bytes in a segment of "
                           "its file",
                           plugin->label, i ? "description" : "name",
                           (uint64_t)(uintptr_t)texts[i] - plugin->module.bias, (int)kMaxName);
  }
  return PYD_STATUS_OK;
}

// Checks that what the query of an embedded plugin returned (a table that begins with a pointer to its header), and all
// that it refers to, is in the plugin's file.
pyd_status_t pyd_plugin_check_answer(const pyd_plugin_t* plugin, const pyd_plugin_header_t* const* answer) {
  if (!answer) return PYD_STATUS_OK;  // pyd_plugin_check() refuses it
  pyd_status_t status = check_held(plugin, "what its query returned", answer, sizeof(*answer), _Alignof(void*));
  if (!pyd_ok(status) || !*answer) return status;  // pyd_plugin_check() refuses a missing header
  const pyd_plugin_header_t* header = *answer;
  status = check_held(plugin, "its header", header, sizeof(*header), _Alignof(pyd_plugin_header_t));
  // The layout of other versions is unknown; pyd_plugin_check() refuses them.
  if (!pyd_ok(status) || header->version != PYD_PLUGIN_VERSION) return status;
  status = check_header_texts(plugin, header);
  if (!pyd_ok(status)) return status;
  const pyd_plugin_table_t* table = (const pyd_plugin_table_t*)(const void*)answer;
  status = check_held(plugin, "its table", table, sizeof(*table), _Alignof(pyd_plugin_table_t));
  if (pyd_ok(status) && table->load)
    status = pyd_plugin_check_address(plugin, "its load function", (uintptr_t)table->load);
  if (pyd_ok(status) && table->unload) {
    status = pyd_plugin_check_address(plugin, "its unload function", (uintptr_t)table->unload);
  }
  if (pyd_ok(status) && table->resolve) {
    status = pyd_plugin_check_address(plugin, "its resolve function", (uintptr_t)table->resolve);
  }
  return status;
}

// Checks what a plugin's query returned, NULL or a table that begins with a pointer to its header, and stores the
// table.
pyd_status_t pyd_plugin_check(pyd_plugin_t* plugin, const pyd_plugin_header_t* const* answer) {
  if (!answer) {
    return pyd_status_make(PYD_CODE_UNSUPPORTED,
                           "plugin '%s' does not speak plugin version 0.1: it was made for a newer runtime",
                           plugin->label);
  }
  pyd_status_t status = check_header(plugin, *answer);
  if (!pyd_ok(status)) return status;
  const pyd_plugin_table_t* table =
      (const pyd_plugin_table_t*)(const void*)answer;  // the header pointer is its first member
  if (!table->load || !table->resolve) {
    return pyd_status_make(PYD_CODE_CORRUPT, "plugin '%s': its table has no %s function", plugin->label,
                           table->load ? "resolve" : "load");
  }
  plugin->table = table;
  return PYD_STATUS_OK;
}

// Returns the name of the code in the lower bits of a plugin's status.
const char* pyd_plugin_code_name(pyd_plugin_status_t status) {
  static const char* const kNames[] = {
      "OK",        "CANCELLED",       "UNKNOWN",           "INVALID_ARGUMENT",   "DEADLINE_EXCEEDED",
      "NOT_FOUND", "ALREADY_EXISTS",  "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "FAILED_PRECONDITION",
      "ABORTED",   "OUT_OF_RANGE",    "UNIMPLEMENTED",     "INTERNAL",           "UNAVAILABLE",
      "DATA_LOSS", "UNAUTHENTICATED", "DEFERRED",
  };
  size_t code = status & PYD_PLUGIN_STATUS_CODE_MASK;
  return code < sizeof(kNames) / sizeof(kNames[0]) ? kNames[code] : "an unknown code";
}
