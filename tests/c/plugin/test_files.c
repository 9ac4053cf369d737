// links: base platform elf fatelf imports plugin
// skip-generic: it has no loader of the system's own
// Plugins from files and bytes that are no plugin, or not of the kind that was asked for: who says so, in which words.
#include "plugin/check.h"

#include <dlfcn.h>
#include <unistd.h>

#include "faults/library_elf.h"

static char path[64];

static void write_file(pyd_span_t bytes) {
  FILE* file = fopen(path, "w");
  CHECK(file && fwrite(bytes.data, 1, bytes.size, file) == bytes.size && fclose(file) == 0);
}

static void refuse(pyd_status_t status, pyd_code_t code, const char* text) {
  if (pyd_status_code(status) != code || !strstr(pyd_status_text(status), text)) {
    fprintf(stderr, "code %d '%s'\n  expected %d '%s'\n", (int)pyd_status_code(status), pyd_status_text(status),
            (int)code, text);
    exit(1);
  }
  pyd_status_free(status);
}

// The sample with a word of its writable data changed.
static pyd_span_t spoilt(uint64_t at, uint32_t value) {
  static uint8_t bytes[B_SIZE];
  pyd_span_t whole = library_elf();
  memcpy(bytes, whole.data, whole.size);
  memcpy(bytes + (at - B_DATA_FROM_FILE), &value, 4);
  return (pyd_span_t){bytes, whole.size};
}

// The sample with a plugin's function that has another name.
static pyd_span_t without_query(void) {
  static const char kName[] = PYD_PLUGIN_QUERY_SYMBOL;
  static uint8_t bytes[B_SIZE];
  pyd_span_t whole = library_elf();
  memcpy(bytes, whole.data, whole.size);
  size_t at = 0;
  while (memcmp(bytes + at, kName, sizeof(kName)) != 0) CHECK(++at + sizeof(kName) <= whole.size);
  bytes[at] = 'x';
  return (pyd_span_t){bytes, whole.size};
}

int main(void) {
  pyd_plugin_t* plugin;
  pyd_plugin_options_t options = {.name = "p"}, unnamed = {0}, embedded = {.kind = PYD_PLUGIN_KIND_EMBEDDED},
                       unknown = {.kind = 9};
  snprintf(path, sizeof(path), "/tmp/pyd-plugin-%ld.sos", (long)getpid());
  CHECK(strcmp(pyd_plugin_kind_name(PYD_PLUGIN_KIND_STATIC), "static") == 0 &&
        strcmp(pyd_plugin_kind_name(9), "unknown") == 0);
  write_file(library_elf());
  EXPECT_OK(pyd_plugin_load_file(path, &unnamed, &plugin));
  CHECK(pyd_plugin_kind(plugin) == PYD_PLUGIN_KIND_EMBEDDED && strcmp(pyd_plugin_label(plugin), path) == 0 &&
        pyd_plugin_module(plugin));
  const char* names[] = {"?a"};
  pyd_import_fn_t functions[1] = {0};
  void* contexts[1] = {0};
  EXPECT_OK(pyd_plugin_resolve(plugin, 1, names, functions, contexts));
  CHECK(!functions[0]);
  pyd_plugin_release(plugin);
  char prefixed[96];
  snprintf(prefixed, sizeof(prefixed), "embedded:%s", path);
  EXPECT_OK(pyd_plugin_load_file(prefixed, &options, &plugin));
  pyd_plugin_release(plugin);
  refuse(pyd_plugin_load_file(path, &unknown, &plugin), PYD_CODE_INVALID_ARGUMENT,
         "plugin 'plugin': this way of loading it has no such kind");
  CHECK(!plugin);
  refuse(pyd_plugin_load_file("system:/nowhere", &unnamed, &plugin), PYD_CODE_SYSTEM,
         "plugin '/nowhere': cannot open '/nowhere'");
  // A .sos is embedded for sure, whatever is in it; without a name nothing is certain, and the system is asked, too.
  const uint64_t features = E_PLUGIN_HEADER + 24, sanitizer = E_PLUGIN_HEADER + 28;
  write_file(spoilt(features, 0));
  refuse(pyd_plugin_load_file(path, &options, &plugin), PYD_CODE_UNSUPPORTED, "does not declare itself standalone");
  refuse(pyd_plugin_load_bytes(spoilt(features, 0), &embedded, &plugin), PYD_CODE_UNSUPPORTED,
         "plugin 'plugin' is an embedded ELF that");
  refuse(pyd_plugin_load_bytes(spoilt(features, 0), &options, &plugin), PYD_CODE_SYSTEM, "cannot be opened");
  refuse(pyd_plugin_load_bytes(library_elf(), &unknown, &plugin), PYD_CODE_INVALID_ARGUMENT,
         "plugin 'plugin': this way of loading it has no such kind");
  refuse(pyd_plugin_load_bytes(without_query(), &embedded, &plugin), PYD_CODE_CORRUPT,
         "plugin 'plugin' does not export 'iree_hal_executable_plugin_query'");
  refuse(pyd_plugin_load_bytes(spoilt(E_PLUGIN_HEADER, 2), &options, &plugin), PYD_CODE_UNSUPPORTED,
         "has plugin version 0.2");
  for (uint32_t kind = 1; kind <= 5; ++kind) {
    static const char* const kNames[] = {"the address sanitizer (1)", "the memory sanitizer (2)",
                                         "the thread sanitizer (3)", "the undefined behaviour sanitizer (4)",
                                         "an unknown sanitizer (5)"};
    refuse(pyd_plugin_load_bytes(spoilt(sanitizer, kind), &embedded, &plugin), PYD_CODE_UNSUPPORTED, kNames[kind - 1]);
    refuse(pyd_plugin_load_bytes(spoilt(sanitizer, kind), &embedded, &plugin), PYD_CODE_UNSUPPORTED,
           "whose runtime embedded code cannot reach");
  }
  refuse(pyd_plugin_load_bytes((pyd_span_t){(const uint8_t*)"neither", 7}, &options, &plugin), PYD_CODE_CORRUPT,
         "plugin 'p'");
  refuse(pyd_plugin_load_bytes((pyd_span_t){(const uint8_t*)"\177EL", 3}, &options, &plugin), PYD_CODE_CORRUPT,
         "plugin 'p'");
  // What the system's loader would trust is checked before it opens the file.
  pyd_plugin_options_t by_system = {.kind = PYD_PLUGIN_KIND_SYSTEM, .name = "p"};
  refuse(pyd_plugin_load_bytes(spoilt(B_DATA_FROM_FILE + 20, 2), &by_system, &plugin), PYD_CODE_CORRUPT,
         "plugin 'p': ELF: object file version 2");
  remove(path);
  // Names too short for an ending and with another one; a library of the system that is no plugin.
  char folder[] = "/tmp/pyd-plugin-XXXXXX";
  CHECK(mkdtemp(folder) && chdir(folder) == 0);
  for (int i = 0; i < 3; ++i) {
    snprintf(path, sizeof(path), "%s", i == 0 ? "p" : i == 1 ? "plugin.so" : "plugin.sos");
    write_file(library_elf());
    EXPECT_OK(pyd_plugin_load_file(path, &options, &plugin));
    CHECK(pyd_plugin_kind(plugin) == PYD_PLUGIN_KIND_EMBEDDED && !pyd_plugin_may_print(plugin));
    pyd_plugin_release(plugin);
    remove(path);
  }
  CHECK(chdir("/") == 0 && rmdir(folder) == 0);
  Dl_info info;
  CHECK(dladdr((void*)(uintptr_t)getpid, &info));
  pyd_plugin_options_t system = {.kind = PYD_PLUGIN_KIND_SYSTEM, .name = "p"};
  refuse(pyd_plugin_load_file(info.dli_fname, &system, &plugin), PYD_CODE_CORRUPT,
         "plugin 'p' does not export 'iree_hal_executable_plugin_query'");
  return 0;
}
