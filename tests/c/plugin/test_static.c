// links: base platform elf fatelf imports plugin
// Plugins that are linked in: the handshake, every refusal, load and unload, the rules of resolving, the host's memory.
#include "plugin/check.h"

static int add(void* params, void* context, void* reserved) {
  (void)reserved;
  *(int*)params += *(int*)context;
  return 0;
}
static int mul(void* params, void* context, void* reserved) {
  (void)context, (void)reserved;
  *(int*)params *= 10;
  return 0;
}
static int three = 3;
PYD_PLUGIN_STATIC(plain_query, "plain", "add and mul", PYD_PLUGIN_FN_CONTEXT("add", add, &three),
                  PYD_PLUGIN_FN("mul", mul))

static pyd_plugin_options_t options = {.name = "test"};

static void test_plain(void) {
  pyd_plugin_t* plugin;
  const pyd_plugin_options_t by_kind = {.name = "test", .kind = PYD_PLUGIN_KIND_STATIC};
  EXPECT_OK(pyd_plugin_load_static(plain_query, &by_kind, &plugin));
  pyd_plugin_release(plugin);
  EXPECT_OK(pyd_plugin_load_static(plain_query, &options, &plugin));
  CHECK(strcmp(pyd_plugin_label(plugin), "test") == 0 && strcmp(pyd_plugin_name(plugin), "plain") == 0);
  CHECK(strcmp(pyd_plugin_description(plugin), "add and mul") == 0 &&
        pyd_plugin_kind(plugin) == PYD_PLUGIN_KIND_STATIC);
  CHECK(pyd_plugin_module(plugin) == NULL);
  const char* names[] = {"?absent", "add", "?mul", "none"};
  pyd_import_fn_t functions[4] = {0};
  void* contexts[4] = {0};
  EXPECT_OK(pyd_plugin_resolve(plugin, 4, names, functions, contexts));
  CHECK(!functions[0] && functions[1] == add && contexts[1] == &three && functions[2] == mul && !functions[3]);
  int value = 4;
  CHECK(functions[1](&value, contexts[1], NULL) == 0 && functions[2](&value, contexts[2], NULL) == 0 && value == 70);
  functions[1] = mul;  // filled: skipped
  EXPECT_OK(pyd_plugin_resolve(plugin, 4, names, functions, contexts));
  CHECK(functions[1] == mul);
  pyd_plugin_release(pyd_plugin_retain(plugin));
  pyd_plugin_release(plugin);
  CHECK(plain_query(0, NULL) == NULL);
}

// ---- a plugin of which every part can be broken

static struct {
  _Alignas(32) pyd_plugin_status_t load, resolve;  // so that a status can carry the address above its code
  int loads, unloads, resolves;
  size_t param_count;
  char params[64];
  const pyd_plugin_allocator_t* allocator;
} fake;

static pyd_plugin_status_t fake_load(const pyd_plugin_environment_t* environment, size_t count,
                                     const pyd_plugin_param_t* params, void** out_self) {
  fake.loads += 1;
  fake.param_count = count;
  fake.allocator = &environment->allocator;
  pyd_plugin_string_t flavor = pyd_plugin_param(count, params, "flavor");
  snprintf(fake.params, sizeof(fake.params), "%.*s", (int)flavor.size, flavor.data ? flavor.data : "");
  *out_self = &fake;
  return fake.load;
}
static void fake_unload(void* self) {
  CHECK(self == &fake);
  fake.unloads += 1;
}
static pyd_plugin_status_t fake_resolve(void* self, const pyd_plugin_resolve_params_t* params,
                                        pyd_plugin_resolution_t* out_resolution) {
  (void)params, (void)out_resolution;
  CHECK(self == &fake);
  fake.resolves += 1;
  return fake.resolve;
}
static pyd_plugin_header_t header;
static pyd_plugin_table_t table;
static const pyd_plugin_header_t* const* fake_query(uint32_t max_version, void* reserved) {
  CHECK(max_version == 1 && reserved == NULL);
  return &table.header;
}
static const pyd_plugin_header_t* const* newer_query(uint32_t max_version, void* reserved) {
  (void)max_version, (void)reserved;
  return NULL;
}

static void reset(void) {
  memset(&fake, 0, sizeof(fake));
  header = (pyd_plugin_header_t){.version = 1, .name = "fake"};
  table = (pyd_plugin_table_t){&header, fake_load, fake_unload, fake_resolve};
}

static void refuse_at(int line, pyd_code_t code, const char* text) {
  pyd_plugin_t* plugin = (pyd_plugin_t*)1;
  expect_at(line, pyd_plugin_load_static(fake_query, &options, &plugin), code, text);
  CHECK(plugin == NULL && fake.unloads == 0);
  reset();
}
#define REFUSE(code, text) refuse_at(__LINE__, PYD_CODE_##code, text)

static void test_refused_parameters(void) {
  const pyd_plugin_param_t params[] = {{{"flavor", 6}, {"sour", 4}}};
  const pyd_plugin_options_t with = {.name = "test", .param_count = 1, .params = params};
  pyd_plugin_t* plugin;
  reset();
  fake.load = PYD_PLUGIN_INVALID_ARGUMENT;
  pyd_status_t status = pyd_plugin_load_static(fake_query, &with, &plugin);
  CHECK(strstr(pyd_status_text(status), "plugin 'test' refused to load") &&
        strstr(pyd_status_text(status), "; does it take these parameters?") && strcmp(fake.params, "sour") == 0);
  pyd_status_free(status);
  status = pyd_plugin_load_static(fake_query, &options, &plugin);
  CHECK(strstr(pyd_status_text(status), "plugin 'test' refused to load") &&
        !strstr(pyd_status_text(status), "parameters"));
  pyd_status_free(status);
  reset();
}

static void test_memory_of_plugins(void) {
  pyd_plugin_t* plugin;
  reset();
  EXPECT_OK(pyd_plugin_load_static(fake_query, &options, &plugin));
  const pyd_plugin_allocator_t* allocator = fake.allocator;
  const pyd_plugin_alloc_params_t some = {.size = 8}, none = {.size = 0};
  void* memory = NULL;
  CHECK(allocator->control(allocator->self, PYD_PLUGIN_MALLOC, &none, &memory) == PYD_PLUGIN_INVALID_ARGUMENT);
  CHECK(allocator->control(allocator->self, PYD_PLUGIN_MALLOC, NULL, &memory) == PYD_PLUGIN_INVALID_ARGUMENT);
  CHECK(allocator->control(allocator->self, PYD_PLUGIN_MALLOC, &some, NULL) == PYD_PLUGIN_INVALID_ARGUMENT && !memory);
  CHECK(allocator->control(allocator->self, PYD_PLUGIN_MALLOC, &some, &memory) == PYD_PLUGIN_OK && memory);
  CHECK(allocator->control(allocator->self, PYD_PLUGIN_FREE, NULL, &memory) == PYD_PLUGIN_OK && !memory);
  pyd_plugin_release(plugin);
  reset();
}

static void test_refusals(void) {
  reset();
  table.header = NULL;
  REFUSE(CORRUPT, "plugin 'test': its table has no header");
  header.version = 99;
  REFUSE(UNSUPPORTED,
         "plugin 'test' has plugin version 0.99, whose tables are laid out differently; version 0.1 can be loaded: "
         "build it with this version's header");
  header.version = 0;
  REFUSE(UNSUPPORTED,
         "plugin 'test' has plugin version 0.0, whose tables are laid out differently; version 0.1 can be loaded: "
         "build it with this version's header");
  header.name = NULL;
  REFUSE(CORRUPT, "plugin 'test': its header has no name");
  table.load = NULL;
  REFUSE(CORRUPT, "plugin 'test': its table has no load function");
  table.resolve = NULL;
  REFUSE(CORRUPT, "plugin 'test': its table has no resolve function");
  header.sanitizer = PYD_PLUGIN_SANITIZER_MEMORY;
  REFUSE(UNSUPPORTED,
         "plugin 'test' was built with the memory sanitizer (2), which this process was not: build it without");
  header.sanitizer = 77;
  REFUSE(UNSUPPORTED,
         "plugin 'test' was built with an unknown sanitizer (77), which this process was not: build it without");
  fake.load = PYD_PLUGIN_PERMISSION_DENIED;
  REFUSE(INVALID_ARGUMENT, "plugin 'test' refused to load: it returned PERMISSION_DENIED (7)");
  fake.load = (pyd_plugin_status_t)&fake | PYD_PLUGIN_INTERNAL;  // a status object above the code
  REFUSE(INVALID_ARGUMENT, "plugin 'test' refused to load: it returned INTERNAL (13)");
  fake.load = 31;
  REFUSE(INVALID_ARGUMENT, "plugin 'test' refused to load: it returned an unknown code (31)");
  pyd_plugin_t* plugin;
  EXPECT(pyd_plugin_load_static(newer_query, &options, &plugin), UNSUPPORTED,
         "plugin 'test' does not speak plugin version 0.1: it was made for a newer runtime");
  EXPECT(pyd_plugin_load_static(NULL, &options, &plugin), INVALID_ARGUMENT, "plugin 'test': no query function given");
  pyd_plugin_options_t wrong = {.name = "test", .kind = PYD_PLUGIN_KIND_EMBEDDED};
  EXPECT(pyd_plugin_load_static(fake_query, &wrong, &plugin), INVALID_ARGUMENT,
         "plugin 'test': this way of loading it has no such kind");
  wrong = (pyd_plugin_options_t){.param_count = 1};
  EXPECT(pyd_plugin_load_static(fake_query, &wrong, &plugin), INVALID_ARGUMENT,
         "plugin 'plugin': a number of parameters without the parameters");
}

static void test_sanitizer_of_the_host(void) {
  reset();
  pyd_plugin_t* plugin;
#if defined(__SANITIZE_ADDRESS__)
  header.sanitizer = PYD_PLUGIN_SANITIZER_ADDRESS;
#elif defined(__SANITIZE_THREAD__)
  header.sanitizer = PYD_PLUGIN_SANITIZER_THREAD;
#endif
  EXPECT_OK(pyd_plugin_load_static(fake_query, &options, &plugin));
  pyd_plugin_release(plugin);
#if !defined(__SANITIZE_ADDRESS__)
  reset();
  header.sanitizer = PYD_PLUGIN_SANITIZER_ADDRESS;
  REFUSE(UNSUPPORTED,
         "plugin 'test' was built with the address sanitizer (1), which this process was not: build it without");
#endif
}

static void test_life(void) {
  reset();
  const pyd_plugin_param_t params[] = {{{"other", 5}, {"x", 1}}, {{"flavor", 6}, {"fast!", 4}}};
  pyd_plugin_options_t with = {.name = "test", .params = params, .param_count = 2};
  pyd_plugin_t* plugin;
  EXPECT_OK(pyd_plugin_load_static(fake_query, &with, &plugin));
  CHECK(fake.loads == 1 && fake.param_count == 2 && strcmp(fake.params, "fast") == 0);
  CHECK(strcmp(pyd_plugin_description(plugin), "") == 0);
  const char* names[] = {"f"};
  pyd_import_fn_t functions[1] = {0};
  void* contexts[1] = {0};
  fake.resolve = PYD_PLUGIN_NOT_FOUND;
  EXPECT_OK(pyd_plugin_resolve(plugin, 1, names, functions, contexts));
  fake.resolve = (pyd_plugin_status_t)&fake | PYD_PLUGIN_NOT_FOUND;
  EXPECT_OK(pyd_plugin_resolve(plugin, 1, names, functions, contexts));
  fake.resolve = PYD_PLUGIN_DATA_LOSS;
  EXPECT(pyd_plugin_resolve(plugin, 1, names, functions, contexts), INVALID_ARGUMENT,
         "plugin 'test' failed to resolve: it returned DATA_LOSS (15)");
  // The environment's memory is there as long as the plugin is.
  char* text = pyd_plugin_alloc(fake.allocator, 100);
  CHECK(text && text[0] == 0 && text[99] == 0 && (uintptr_t)text % 16 == 0);
  pyd_plugin_alloc_params_t size = {1000};
  void* grown = text;
  text[99] = 7;
  CHECK(fake.allocator->control(fake.allocator->self, PYD_PLUGIN_REALLOC, &size, &grown) == 0 &&
        ((char*)grown)[99] == 7);
  pyd_plugin_free(fake.allocator, grown);
  void* fresh = NULL;
  CHECK(fake.allocator->control(fake.allocator->self, PYD_PLUGIN_MALLOC, &size, &fresh) == 0 && fresh);
  CHECK(fake.allocator->control(fake.allocator->self, (pyd_plugin_alloc_command_t)9, &size, &fresh) ==
        PYD_PLUGIN_UNIMPLEMENTED);
  CHECK(fake.allocator->control(fake.allocator->self, PYD_PLUGIN_MALLOC, NULL, &fresh) == PYD_PLUGIN_INVALID_ARGUMENT);
  CHECK(fake.allocator->control(fake.allocator->self, PYD_PLUGIN_FREE, NULL, &fresh) == 0 && fresh == NULL);
  CHECK(fake.allocator->control(fake.allocator->self, PYD_PLUGIN_FREE, NULL, NULL) == PYD_PLUGIN_INVALID_ARGUMENT);
#if !defined(__SANITIZE_ADDRESS__)
  size.size = SIZE_MAX / 2;
  CHECK(fake.allocator->control(fake.allocator->self, PYD_PLUGIN_MALLOC, &size, &fresh) ==
        PYD_PLUGIN_RESOURCE_EXHAUSTED);
#endif
  CHECK(fake.unloads == 0);
  pyd_plugin_release(plugin);
  CHECK(fake.unloads == 1);
  table.unload = NULL;  // allowed
  EXPECT_OK(pyd_plugin_load_static(fake_query, &options, &plugin));
  pyd_plugin_release(plugin);
  pyd_plugin_release(NULL);
}

static void test_files(void) {
  pyd_plugin_t* plugin;
  pyd_plugin_options_t plain = {0};
  EXPECT(pyd_plugin_load_file("/nowhere/my.so", &plain, &plugin), SYSTEM,
         "plugin '/nowhere/my.so': cannot open '/nowhere/my.so': No such file or directory");
  EXPECT(pyd_plugin_load_file("embedded:/nowhere/my.so", &plain, &plugin), SYSTEM,
         "plugin '/nowhere/my.so': cannot open '/nowhere/my.so': No such file or directory");
  pyd_span_t text = {(const uint8_t*)"#!/bin/sh", 9};
#if defined(PYD_PLATFORM_GENERIC)
  EXPECT(pyd_plugin_load_bytes(text, &plain, &plugin), UNSUPPORTED,
         "plugin 'plugin' is a system library, and this system opens none: build it as an embedded plugin (.sos)");
#else
  EXPECT(pyd_plugin_load_bytes(text, &plain, &plugin), CORRUPT,
         "plugin 'plugin' is not an ELF file: it does not start with 7F 45 4C 46");
#endif
  uint8_t foreign[64] = "\177ELF\2\1\1";
  foreign[16] = 3;
  foreign[18] = 21;  // PowerPC
  foreign[20] = 1;
  for (int kind = PYD_PLUGIN_KIND_AUTO; kind <= PYD_PLUGIN_KIND_SYSTEM; ++kind) {
    pyd_plugin_options_t as = {.kind = (pyd_plugin_kind_t)kind};
    pyd_status_t status = pyd_plugin_load_bytes((pyd_span_t){foreign, sizeof(foreign)}, &as, &plugin);
#if !defined(PYD_PLATFORM_GENERIC)
    CHECK(strstr(pyd_status_text(status), "machine 21"));
#endif
    CHECK(plugin == NULL && pyd_status_code(status) == PYD_CODE_UNSUPPORTED);
    pyd_status_free(status);
  }
  pyd_plugin_options_t embedded = {.kind = PYD_PLUGIN_KIND_EMBEDDED};
  pyd_status_t status = pyd_plugin_load_bytes(text, &embedded, &plugin);
  CHECK(pyd_status_code(status) == PYD_CODE_CORRUPT &&
        strncmp(pyd_status_text(status), "plugin 'plugin': ELF: ", 22) == 0);
  pyd_status_free(status);
  EXPECT(pyd_plugin_load_bytes((pyd_span_t){(const uint8_t*)"\xFA\x70\x0E\x1F\1\0\0\0", 8}, &plain, &plugin),
         UNSUPPORTED,
#if defined(__x86_64__)
         "plugin 'plugin': FatELF: has no record for x86_64; it has none at all");
#else
         "plugin 'plugin': FatELF: has no record for aarch64; it has none at all");
#endif
}

int main(void) {
  test_plain();
  test_refusals();
  test_refused_parameters();
  test_memory_of_plugins();
  test_sanitizer_of_the_host();
  test_life();
  test_files();
  return 0;
}
