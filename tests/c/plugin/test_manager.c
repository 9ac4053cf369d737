// links: base platform elf fatelf imports plugin
// tsan: 10
// The manager: order, partial providers, optional names, reports, hot swap, and 64 threads that resolve while others
// register.
#include <pthread.h>
#include <stdatomic.h>

#include "plugin/check.h"
#include "plugin/internal.h"

static int f1(void* p, void* c, void* r) { return (void)p, (void)c, (void)r, 1; }
static int f2(void* p, void* c, void* r) { return (void)p, (void)c, (void)r, 2; }
static int f3(void* p, void* c, void* r) { return (void)p, (void)c, (void)r, 3; }

PYD_PLUGIN_STATIC(ab_query, "ab", "", PYD_PLUGIN_FN("a", f1), PYD_PLUGIN_FN("b", f1))
PYD_PLUGIN_STATIC(bc_query, "bc", "", PYD_PLUGIN_FN("b", f2), PYD_PLUGIN_FN("c", f2))

static pyd_plugin_t* make(pyd_plugin_query_fn_t query, const char* label) {
  pyd_plugin_t* plugin;
  pyd_plugin_options_t options = {.name = label};
  EXPECT_OK(pyd_plugin_load_static(query, &options, &plugin));
  return plugin;
}

enum { MAX = 8 };
typedef struct result_s {
  pyd_import_fn_t functions[MAX];
  void* contexts[MAX];
} result_t;

// Who changes what the caller has filled in is named, and the caller is not called a plugin.
static pyd_status_t replace(void* self, size_t count, const char* const* names, pyd_import_fn_t* functions,
                            void** contexts) {
  (void)self, (void)names, (void)contexts;
  for (size_t i = 0; i < count; ++i) functions[i] = f2;
  return PYD_STATUS_OK;
}

static void test_changes(void) {
  pyd_plugin_manager_t* manager;
  pyd_resolution_t* r;
  pyd_provider_id_t id;
  EXPECT_OK(pyd_plugin_manager_create(&manager));
  EXPECT_OK(pyd_plugin_manager_add_callback(manager, "bold", replace, NULL, 0, NULL, NULL, &id));
  EXPECT_OK(pyd_resolution_begin(manager, &r));
  const char* names[] = {"a", "b"};
  pyd_import_fn_t functions[2] = {f1, NULL};
  void* contexts[2] = {0};
  const pyd_resolver_t* resolver = pyd_resolution_resolver(r);
  EXPECT(resolver->resolve(resolver->self, 2, names, functions, contexts), INVALID_ARGUMENT,
         "plugin 'bold' changed 'a', which 'the caller' had supplied: it must skip slots that are filled");
  pyd_resolution_free(r);
  pyd_plugin_manager_release(manager);
}

// Only a plugin that gave something counts, and functions of the host do not.
static void test_prints(void) {
  pyd_plugin_manager_t* manager;
  pyd_resolution_t* r;
  pyd_provider_id_t id;
  pyd_import_fn_t function = NULL;
  void* context = NULL;
  EXPECT_OK(pyd_plugin_manager_create(&manager));
  pyd_plugin_t* plugin = make(ab_query, "ab.so");
  CHECK(pyd_plugin_may_print(plugin));
  EXPECT_OK(pyd_plugin_manager_add_plugin(manager, plugin, 0, &id));
  const pyd_provider_function_t host[] = {{"h", f3, NULL}};
  EXPECT_OK(pyd_plugin_manager_add_functions(manager, "host", host, 1, 1, NULL, NULL, &id));
  pyd_plugin_release(plugin);
  EXPECT_OK(pyd_resolution_begin(manager, &r));
  const pyd_resolver_t* resolver = pyd_resolution_resolver(r);
  CHECK(!pyd_resolution_may_print(r));
  EXPECT_OK(resolver->resolve(resolver->self, 1, (const char*[]){"h"}, &function, &context));
  CHECK(function == f3 && !pyd_resolution_may_print(r));
  function = NULL;
  EXPECT_OK(resolver->resolve(resolver->self, 1, (const char*[]){"a"}, &function, &context));
  CHECK(function == f1 && pyd_resolution_may_print(r));
  plugin->may_print = false;  // as of a shared library with silent imports
  CHECK(!pyd_resolution_may_print(r));
  pyd_resolution_free(r);
  pyd_plugin_manager_release(manager);
}

// As an executable would: through imports/resolve.c.
static pyd_status_t resolve(pyd_resolution_t* r, uint32_t count, const char* const* names, result_t* out) {
  memset(out, 0, sizeof(*out));
  return pyd_imports_resolve("exe", count, names, pyd_resolution_resolver(r), out->functions, out->contexts);
}

static const pyd_resolution_symbol_t* symbol(const pyd_resolution_t* r, const char* name) {
  for (uint32_t i = 0; i < pyd_resolution_symbol_count(r); ++i) {
    if (strcmp(pyd_resolution_symbol(r, i)->name, name) == 0) return pyd_resolution_symbol(r, i);
  }
  return NULL;
}

static const char* giver(const pyd_resolution_t* r, const char* name) {
  const pyd_resolution_provider_t* provider = pyd_resolution_provider(r, symbol(r, name)->provider);
  return provider ? provider->label : "nobody";
}

static void test_order(void) {
  pyd_plugin_manager_t* manager;
  pyd_resolution_t* r;
  pyd_provider_id_t first, second, third;
  result_t got;
  EXPECT_OK(pyd_plugin_manager_create(&manager));
  pyd_plugin_t* ab = make(ab_query, "ab.so");
  pyd_plugin_t* bc = make(bc_query, "bc.so");
  EXPECT_OK(pyd_plugin_manager_add_plugin(manager, ab, 0, &first));
  EXPECT_OK(pyd_plugin_manager_add_plugin(manager, bc, 0, &second));
  pyd_plugin_release(ab);  // the manager has its own
  pyd_plugin_release(bc);
  const char* names[] = {"a", "b", "c", "?d"};
  EXPECT_OK(pyd_resolution_begin(manager, &r));
  EXPECT_OK(resolve(r, 4, names, &got));
  CHECK(got.functions[0] == f1 && got.functions[1] == f2 && got.functions[2] == f2 && !got.functions[3]);
  CHECK(strcmp(giver(r, "a"), "ab.so") == 0 && strcmp(giver(r, "b"), "bc.so") == 0 &&
        strcmp(giver(r, "d"), "nobody") == 0);
  CHECK(symbol(r, "b")->asked_count == 1 && symbol(r, "a")->asked_count == 2 && symbol(r, "d")->asked_count == 2);
  CHECK(symbol(r, "d")->is_optional && !symbol(r, "a")->is_optional && pyd_resolution_symbol_count(r) == 4);
  CHECK(pyd_resolution_provider_count(r) == 2 && pyd_resolution_provider(r, 0)->plugin == bc);
  CHECK(pyd_resolution_provider(r, 2) == NULL && pyd_resolution_symbol(r, 4) == NULL);
  // A second executable of the program.
  EXPECT_OK(resolve(r, 1, (const char*[]){"c"}, &got));
  CHECK(pyd_resolution_symbol_count(r) == 5 && pyd_resolution_symbol(r, 4)->group == 1);
  pyd_resolution_free(r);
  // A lower priority is asked later although it comes last; a higher one first although others came after it.
  const pyd_provider_function_t low[] = {{"d", f3, &first}, {"b", f3, NULL}};
  EXPECT_OK(pyd_plugin_manager_add_functions(manager, "low", low, 2, -1, NULL, NULL, &third));
  EXPECT_OK(pyd_resolution_begin(manager, &r));
  EXPECT_OK(resolve(r, 4, names, &got));
  CHECK(got.functions[1] == f2 && got.functions[3] == f3 && got.contexts[3] == &first &&
        strcmp(giver(r, "d"), "low") == 0);
  CHECK(pyd_resolution_provider(r, 2)->priority == -1 && pyd_resolution_provider(r, 2)->plugin == NULL);
  pyd_resolution_free(r);
  EXPECT_OK(pyd_plugin_manager_remove(manager, third));
  EXPECT_OK(pyd_plugin_manager_add_functions(manager, "high", low, 2, 5, NULL, NULL, &third));
  EXPECT_OK(pyd_resolution_begin(manager, &r));
  EXPECT_OK(resolve(r, 4, names, &got));
  CHECK(got.functions[1] == f3 && strcmp(giver(r, "b"), "high") == 0 && pyd_resolution_provider(r, 0)->id == third);
  // What is missing is missing, and everybody was asked.
  EXPECT(resolve(r, 2, (const char*[]){"a", "zz"}, &got), MISSING_IMPORT,
         "executable 'exe' has 1 unresolved import: 'zz'");
  CHECK(symbol(r, "zz")->asked_count == 3 && symbol(r, "zz")->provider == PYD_RESOLUTION_NOBODY);
  // A table that is not sorted: the names are sorted for the providers, the slots stay where they are.
  const char* unsorted[] = {"d", "?c", "b", "?a"};
  EXPECT_OK(resolve(r, 4, unsorted, &got));
  CHECK(got.functions[0] == f3 && got.functions[1] == f2 && got.functions[2] == f3 && got.functions[3] == f1);
  CHECK(got.contexts[0] == &first && !got.contexts[1]);
  const char* twice[] = {"d", "b", "d", "b"};
  EXPECT_OK(resolve(r, 4, twice, &got));
  CHECK(got.functions[0] == f3 && got.functions[2] == f3 && got.functions[1] == f3 && got.functions[3] == f3);
  EXPECT_OK(pyd_resolution_resolver(r)->resolve(pyd_resolution_resolver(r)->self, 0, NULL, NULL, NULL));
  pyd_resolution_end(r);
  pyd_resolution_end(r);
  EXPECT(
      resolve(r, 1, names, &got), INVALID_ARGUMENT,
      "executable 'exe': its imports cannot be resolved: the resolution has ended: begin another one for further executables");
  pyd_resolution_free(r);
  EXPECT(pyd_plugin_manager_remove(manager, 77), INVALID_ARGUMENT, "provider 77 is not registered (any more)");
  pyd_plugin_manager_release(manager);
}

// ---- names as plugins see them; liars

static char seen[256];
static pyd_status_t spy(void* self, size_t count, const char* const* names, pyd_import_fn_t* functions,
                        void** contexts) {
  seen[0] = 0;
  for (size_t i = 0; i < count; ++i) strcat(strcat(seen, names[i]), " ");
  for (size_t i = 0; i < count && self; ++i) functions[i] = f3;
  for (size_t i = 0; i < count; ++i) {
    if (!functions[i]) contexts[i] = seen;
  }
  return PYD_STATUS_OK;
}
// Writes contexts of slots that are filled, and leaves their functions.
static pyd_status_t meddle(void* self, size_t count, const char* const* names, pyd_import_fn_t* functions,
                           void** contexts) {
  (void)self, (void)names;
  for (size_t i = 0; i < count; ++i) {
    if (functions[i]) contexts[i] = seen;
  }
  return PYD_STATUS_OK;
}
static pyd_status_t fail(void* self, size_t count, const char* const* names, pyd_import_fn_t* functions,
                         void** contexts) {
  (void)self, (void)count, (void)names, (void)functions, (void)contexts;
  return pyd_status_make(PYD_CODE_INVALID_ARGUMENT, "plugin 'x' failed");
}

static int released;
static void release(void* owner) {
  CHECK(owner == &released);
  released += 1;
}

static void test_callbacks(void) {
  pyd_plugin_manager_t* manager;
  pyd_resolution_t* r;
  pyd_provider_id_t id;
  result_t got;
  EXPECT_OK(pyd_plugin_manager_create(&manager));
  const pyd_provider_function_t a[] = {{"a", f1, NULL}};
  EXPECT_OK(pyd_plugin_manager_add_callback(manager, "spy", spy, NULL, 0, release, &released, &id));
  EXPECT_OK(pyd_plugin_manager_add_functions(manager, "a", a, 1, 0, NULL, NULL, &id));
  EXPECT_OK(pyd_resolution_begin(manager, &r));
  EXPECT_OK(resolve(r, 3, (const char*[]){"?b", "a", "?a2"}, &got));
  CHECK(strcmp(seen, "a ?a2 ?b ") == 0);
  CHECK(!got.contexts[0]);  // of a slot without a function
  pyd_resolution_free(r);
  EXPECT_OK(pyd_plugin_manager_add_callback(manager, "liar", spy, &released, -1, release, &released, &id));
  EXPECT_OK(pyd_resolution_begin(manager, &r));
  EXPECT(
      resolve(r, 2, (const char*[]){"a", "b"}, &got), INVALID_ARGUMENT,
      "executable 'exe': its imports cannot be resolved: plugin 'liar' changed 'a', which 'a' had supplied: it must skip slots "
      "that are filled");
  pyd_resolution_free(r);
  EXPECT_OK(pyd_plugin_manager_remove(manager, id));
  CHECK(released == 1);
  EXPECT_OK(pyd_plugin_manager_add_callback(manager, "meddler", meddle, NULL, -1, NULL, NULL, &id));
  EXPECT_OK(pyd_resolution_begin(manager, &r));
  EXPECT(resolve(r, 2, (const char*[]){"b", "a"}, &got), INVALID_ARGUMENT,
         "executable 'exe': its imports cannot be resolved: plugin 'meddler' changed the context of 'a', which 'a' had "
         "supplied: it must skip slots that are filled");
  pyd_resolution_free(r);
  EXPECT_OK(pyd_plugin_manager_remove(manager, id));
  EXPECT_OK(pyd_plugin_manager_add_callback(manager, "x", fail, NULL, 9, NULL, NULL, &id));
  EXPECT_OK(pyd_resolution_begin(manager, &r));
  EXPECT(resolve(r, 1, (const char*[]){"a"}, &got), INVALID_ARGUMENT,
         "executable 'exe': its imports cannot be resolved: plugin 'x' failed");
  pyd_resolution_free(r);
  // Tables that are refused; what they would own stays with the caller.
  const pyd_provider_function_t bad[][2] = {{{"a", f1, NULL}, {"a", f2, NULL}},
                                            {{"a", f1, NULL}, {"", f2, NULL}},
                                            {{"a", f1, NULL}, {NULL, f2, NULL}},
                                            {{"?a", f1, NULL}, {"b", f2, NULL}},
                                            {{"a", NULL, NULL}, {"b", f2, NULL}}};
  const char* const texts[] = {
      "provider 't': the function 'a' is there twice", "provider 't': function 1 of 2 has no name",
      "provider 't': function 1 of 2 has no name",
      "provider 't': function 0 of 2 has a name with '?', which only the importing side writes",
      "provider 't': the address of 'a' is 0"};
  for (int i = 0; i < 4; ++i) {
    EXPECT(pyd_plugin_manager_add_functions(manager, "t", bad[i], 2, 0, release, &released, &id), INVALID_ARGUMENT,
           texts[i]);
    CHECK(id == 0);
  }
  EXPECT(pyd_plugin_manager_add_callback(manager, "t", NULL, NULL, 0, release, &released, &id), INVALID_ARGUMENT,
         "provider 't': no function to ask");
  CHECK(released == 1);
  pyd_plugin_manager_before_fork(manager);
  pyd_plugin_manager_after_fork(manager);
  pyd_plugin_manager_release(manager);
  CHECK(released == 2);
}

// A program keeps what it uses, and nothing else, beyond a removal.
static void test_hot_swap(void) {
  pyd_plugin_manager_t* manager;
  pyd_resolution_t *r, *other;
  pyd_provider_id_t used, unused;
  result_t got;
  released = 0;
  EXPECT_OK(pyd_plugin_manager_create(&manager));
  const pyd_provider_function_t a[] = {{"a", f1, NULL}}, b[] = {{"b", f1, NULL}};
  EXPECT_OK(pyd_plugin_manager_add_functions(manager, "a", a, 1, 0, release, &released, &used));
  EXPECT_OK(pyd_plugin_manager_add_functions(manager, "b", b, 1, 0, release, &released, &unused));
  EXPECT_OK(pyd_resolution_begin(manager, &r));
  EXPECT_OK(resolve(r, 1, (const char*[]){"a"}, &got));
  EXPECT_OK(pyd_plugin_manager_remove(manager, used));
  EXPECT_OK(pyd_plugin_manager_remove(manager, unused));
  CHECK(released == 0);
  pyd_resolution_end(r);
  CHECK(released == 1 && strcmp(pyd_resolution_provider(r, 0)->label, "b") == 0);
  EXPECT_OK(pyd_resolution_begin(manager, &other));
  EXPECT(resolve(other, 1, (const char*[]){"a"}, &got), MISSING_IMPORT,
         "executable 'exe' has 1 unresolved import: 'a'");
  pyd_resolution_free(other);
  pyd_plugin_manager_release(pyd_plugin_manager_retain(manager));
  pyd_plugin_manager_release(manager);
  CHECK(released == 1);
  pyd_resolution_free(r);
  pyd_resolution_free(NULL);
  CHECK(released == 2);
}

// ---- 64 threads

enum { THREADS = 64, WRITERS = 8, ROUNDS = 40 };
static pyd_plugin_manager_t* shared;
static pyd_plugin_t* shared_plugin;
static _Atomic int unloads, live;

typedef struct counted_s {
  _Atomic int users;  // -1 once released
} counted_t;

static void release_counted(void* owner) {
  counted_t* counted = owner;
  CHECK(atomic_exchange(&counted->users, -1) == 0);
  atomic_fetch_sub(&live, 1);
  free(counted);
}

static int use(void* params, void* context, void* reserved) {
  (void)params, (void)reserved;
  counted_t* counted = context;
  CHECK(atomic_fetch_add(&counted->users, 1) >= 0);
  CHECK(atomic_fetch_sub(&counted->users, 1) >= 1);
  return 0;
}

static void* write_thread(void* argument) {
  for (int i = 0; i < ROUNDS; ++i) {
    counted_t* counted = calloc(1, sizeof(*counted));
    atomic_fetch_add(&live, 1);
    const pyd_provider_function_t functions[] = {{"swap", use, counted}};
    pyd_provider_id_t id, plugin_id;
    EXPECT_OK(pyd_plugin_manager_add_functions(shared, "swap", functions, 1, (int)(intptr_t)argument % 3,
                                               release_counted, counted, &id));
    EXPECT_OK(pyd_plugin_manager_add_plugin(shared, shared_plugin, 1, &plugin_id));
    EXPECT_OK(pyd_plugin_manager_remove(shared, id));
    EXPECT_OK(pyd_plugin_manager_remove(shared, plugin_id));
  }
  return NULL;
}

static void* read_thread(void* argument) {
  (void)argument;
  for (int i = 0; i < ROUNDS; ++i) {
    pyd_resolution_t* r;
    result_t got;
    EXPECT_OK(pyd_resolution_begin(shared, &r));
    EXPECT_OK(resolve(r, 3, (const char*[]){"a", "?b", "?swap"}, &got));
    pyd_resolution_end(r);
    CHECK(got.functions[0](NULL, got.contexts[0], NULL) == 1);
    if (got.functions[2]) CHECK(got.functions[2](NULL, got.contexts[2], NULL) == 0);
    // Plugins are loaded at the same time, too.
    pyd_plugin_release(make(bc_query, "bc"));
    pyd_resolution_free(r);
  }
  return NULL;
}

static pyd_plugin_status_t count_load(const pyd_plugin_environment_t* e, size_t n, const pyd_plugin_param_t* p,
                                      void** out_self) {
  (void)e, (void)n, (void)p;
  *out_self = NULL;
  return PYD_PLUGIN_OK;
}
static void count_unload(void* self) {
  (void)self;
  atomic_fetch_add(&unloads, 1);
}
static const pyd_plugin_header_t kCounted = {.version = 1, .name = "counted"};
static const pyd_plugin_table_t kTable = {&kCounted, count_load, count_unload, ab_query_resolve};
static const pyd_plugin_header_t* const* count_query(uint32_t max_version, void* reserved) {
  (void)max_version, (void)reserved;
  return &kTable.header;
}

static void test_threads(void) {
  pthread_t threads[THREADS];
  pyd_provider_id_t id;
  EXPECT_OK(pyd_plugin_manager_create(&shared));
  shared_plugin = make(count_query, "counted");
  EXPECT_OK(pyd_plugin_manager_add_plugin(shared, shared_plugin, 0, &id));
  for (intptr_t i = 0; i < THREADS; ++i) {
    CHECK(pthread_create(&threads[i], NULL, i < WRITERS ? write_thread : read_thread, (void*)i) == 0);
  }
  for (int i = 0; i < THREADS; ++i) pthread_join(threads[i], NULL);
  CHECK(atomic_load(&live) == 0 && atomic_load(&unloads) == 0);
  pyd_plugin_release(shared_plugin);
  pyd_plugin_manager_release(shared);
  CHECK(atomic_load(&unloads) == 1);
}

int main(void) {
  test_changes();
  test_prints();
  test_order();
  test_callbacks();
  test_hot_swap();
  test_threads();
  return 0;
}
