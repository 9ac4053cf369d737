// links: base platform elf fatelf imports executable plugin memory sched artifact program api process
// shared: ../plugin/peer_plugin.c
// flags: -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc,--wrap=free,--wrap=mmap,--wrap=munmap,--wrap=mprotect,--wrap=pthread_create,--wrap=open,--wrap=memfd_create,--wrap=close,--wrap=fstat,--wrap=read,--wrap=write,--wrap=fopen,--wrap=fdopen,--wrap=fclose,--wrap=fread,--wrap=fgets,--wrap=sched_getaffinity,--wrap=dlopen,--wrap=dlclose
// The life of a program, from the file to the last release, with the n-th request to the C library or the system
// refused, for every n: once alone, and once with all that follow in the same operation. The operation says what failed
// or does without; done again it succeeds, everything behind it works, and at the end nothing is left: no block, page,
// file or library.
#include "faults/faults.h"

#include "api/table.h"
#include "faults/library_elf.h"
#include "platform/dl.h"
#include "program/sample.h"
#include "pydispatch/artifact.h"
#include "pydispatch/plugin_host.h"
#include "pydispatch/process.h"

typedef struct world_s {
  pyd_sched_t* sched;
  pyd_pool_t* pool;
  pyd_file_map_t small, large;
  pyd_artifact_t* artifact;
  pyd_program_t* program;
  pyd_plugin_t *plugin, *system_plugin, *memory_plugin;
  pyd_plugin_manager_t* manager;
  pyd_provider_id_t ids[3];
  pyd_resolution_t* resolution;
  pyd_executable_t* executable;
  pyd_plan_t* plan;
  pyd_call_t* call;
  pyd_state_t* state;
  pyd_invocation_t* invocation;
  void *block, *large_block;
  pyd_api_device_t* device;
  pyd_api_program_t* handle;
  pyd_api_call_t *api_call, *api_loop;
  pyd_process_code_t* code;
} world_t;

static pyd_api_t pd;
static char small_path[64], large_path[64];
static const char* library_path;
static pyd_span_t program_bytes;
_Alignas(64) static const uint8_t constants[64];
_Alignas(64) static float buffers[4][64];
static int released;

static int import(void* p, void* c, void* r) { return (void)p, (void)c, (void)r, 0; }
static void release(void* owner) { *(int*)owner += 1; }
static pyd_status_t callback(void* self, size_t count, const char* const* names, pyd_import_fn_t* functions,
                             void** contexts) {
  (void)self, (void)count, (void)names, (void)functions, (void)contexts;
  return PYD_STATUS_OK;
}
static int32_t count_range(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  (void)worker, (void)out_failed;
  atomic_fetch_add((atomic_ullong*)self, end - begin);
  return 0;
}

// ---- operations: each may be asked again after a refusal

static pyd_status_t op_sched(world_t* w) {
  return pyd_sched_create(&(pyd_sched_options_t){.workers = 3, .spin_us = 0}, &w->sched);
}
static pyd_status_t op_run_job(world_t* w) {
  atomic_ullong sum = 0;
  pyd_sched_stop(w->sched);  // the job starts the threads again, or does without
  const pyd_sched_job_t job = {count_range, &sum, 1000, NULL, NULL};
  pyd_sched_failure_t failure;
  pyd_sched_run(w->sched, &job, &failure);
  CHECK(sum == 1000);
  return PYD_STATUS_OK;
}
static pyd_status_t op_pool(world_t* w) { return pyd_pool_create(1 << 20, &w->pool); }
static pyd_status_t op_block(world_t* w) { return pyd_pool_acquire(w->pool, 100, &w->block); }
static pyd_status_t op_large_block(world_t* w) { return pyd_pool_acquire(w->pool, 4 << 20, &w->large_block); }
static pyd_status_t op_small_file(world_t* w) { return pyd_file_map(small_path, &w->small); }
static pyd_status_t op_large_file(world_t* w) { return pyd_file_map(large_path, &w->large); }
static pyd_status_t op_artifact(world_t* w) { return pyd_artifact_open(w->small.span, &w->artifact); }
static pyd_status_t op_verify(world_t* w) { return pyd_artifact_verify(pyd_artifact_member(w->artifact, 0)); }
static pyd_status_t op_decode(world_t* w) { return pyd_program_decode(program_bytes, &w->program); }
static pyd_status_t op_plugin(world_t* w) {
  pyd_plugin_param_t param = {{"k", 1}, {"v", 1}};
  return pyd_plugin_load_bytes(library_elf(), &(pyd_plugin_options_t){.name = "p", .params = &param, .param_count = 1},
                               &w->plugin);
}
static pyd_status_t op_system_plugin(world_t* w) {
  return pyd_plugin_load_file(library_path, &(pyd_plugin_options_t){.kind = PYD_PLUGIN_KIND_SYSTEM}, &w->system_plugin);
}
static pyd_status_t op_memory_plugin(world_t* w) {
  return pyd_plugin_load_bytes(w->large.span, &(pyd_plugin_options_t){.kind = PYD_PLUGIN_KIND_SYSTEM, .name = "m"},
                               &w->memory_plugin);
}
static pyd_status_t op_manager(world_t* w) { return pyd_plugin_manager_create(&w->manager); }
static pyd_status_t op_add_plugin(world_t* w) {
  return pyd_plugin_manager_add_plugin(w->manager, w->plugin, 2, &w->ids[0]);
}
static pyd_status_t op_add_functions(world_t* w) {
  const pyd_provider_function_t table[] = {{"b", import, NULL}};
  return pyd_plugin_manager_add_functions(w->manager, "t", table, 1, 1, release, &released, &w->ids[1]);
}
static pyd_status_t op_add_callback(world_t* w) {
  return pyd_plugin_manager_add_callback(w->manager, "c", callback, NULL, 3, release, &released, &w->ids[2]);
}
static pyd_status_t op_resolution(world_t* w) { return pyd_resolution_begin(w->manager, &w->resolution); }
static pyd_status_t op_executable(world_t* w) {
  const pyd_executable_options_t options = {.name = "exe",
                                            .resolver = pyd_resolution_resolver(w->resolution),
                                            .constants = (uint32_t[]){1, 2},
                                            .constant_count = 2};
  return pyd_executable_load_elf(library_elf(), &options, &w->executable);
}
static pyd_status_t op_remove(world_t* w) { return pyd_plugin_manager_remove(w->manager, w->ids[2]); }
static pyd_status_t op_link(world_t* w) {
  pyd_status_t status = pyd_program_set_constant(w->program, 0, (pyd_span_t){constants, 64});
  if (pyd_ok(status)) status = pyd_program_set_constant(w->program, 1, (pyd_span_t){constants, 16});
  return pyd_ok(status) ? pyd_program_set_executable(w->program, 0, w->executable, 0, 4) : status;
}
static pyd_status_t op_evaluate(world_t* w) {
  uint64_t result;
  return pyd_program_evaluate(w->program, 0, NULL, &result);
}
static pyd_status_t op_plan(world_t* w) {
  return pyd_plan_create(w->program, 1, (int64_t[]){2, 4}, (uint64_t[]){7}, &w->plan);
}
static pyd_status_t op_call(world_t* w) { return pyd_call_create(w->plan, w->sched, w->pool, &w->call); }
static pyd_status_t op_run(world_t* w) {
  pyd_call_bind_arg(w->call, 0, buffers[0]);
  pyd_call_bind_result(w->call, 0, buffers[1]);
  return pyd_call_run(w->call);
}
static pyd_status_t op_state(world_t* w) { return pyd_state_create(w->program, w->sched, w->pool, &w->state); }
static pyd_status_t op_initialize(world_t* w) { return pyd_state_initialize(w->state, NULL); }
static pyd_status_t op_procedure(world_t* w) {
  const int64_t size = 4;
  const pyd_input_t input = {constants, &size, 0};
  pyd_status_t status = pyd_procedure_call(w->state, 1, &input, NULL, &w->invocation);
  pyd_value_t value;
  if (pyd_ok(status))
    CHECK(pyd_invocation_result(w->invocation, 0, &value) && value.bytes == 16 && ((const float*)value.data)[3] == 1);
  return status;
}
static pyd_status_t op_device(world_t* w) {
  return pyd_api_device_make(w->sched, w->pool, (pyd_api_owner_t){&released, release}, &w->device);
}
static pyd_status_t op_handle(world_t* w) {
  return pyd_api_program_make(w->device, w->program, w->state, (pyd_api_owner_t){&released, release}, &w->handle);
}
static pyd_status_t prepare(world_t* w, const char* name, uint64_t* scalar, const int64_t* dims, uint32_t rank,
                            pyd_api_call_t** out_call) {
  const pyd_api_function_t* function;
  CHECK_OK(pd.program_find(w->handle, name, &function));
  return pd.call_prepare(function, dims, rank, scalar, scalar ? 1 : 0, out_call);
}
static pyd_status_t op_api_call(world_t* w) {
  return prepare(w, "main", (uint64_t[]){7}, (int64_t[]){2, 4}, 2, &w->api_call);
}
static pyd_status_t op_api_run(world_t* w) {  // at addresses that have to be gone around
  CHECK_OK(pd.call_bind_argument(w->api_call, 0, (const char*)buffers[0] + 1, 32));
  CHECK_OK(pd.call_bind_result(w->api_call, 0, (char*)buffers[1] + 1, 32));
  return pd.call_run(w->api_call);
}
static pyd_status_t op_api_loop(world_t* w) { return prepare(w, "loop", NULL, (int64_t[]){4}, 1, &w->api_loop); }
static pyd_status_t op_api_loop_run(world_t* w) {
  CHECK_OK(pd.call_bind_argument(w->api_loop, 0, buffers[2], 16));
  return pd.call_run(w->api_loop);
}
static pyd_status_t op_announce(world_t* w) {
  const pyd_process_symbol_t symbol = {"mul", constants, 16, true};
  const pyd_process_code_info_t info = {"exe", constants, 64, 62, &symbol, 1};
  return pyd_process_code_register(&info, true, &w->code);
}
static pyd_status_t op_atfork(world_t* w) { return pyd_process_atfork_add(w, NULL, NULL, NULL); }

typedef struct op_s {
  const char* name;
  pyd_status_t (*run)(world_t* w);
} op_t;
#define OP(name) {#name, op_##name}
static const op_t kOps[] = {
    OP(sched),         OP(run_job),  OP(pool),       OP(block),         OP(large_block),  OP(small_file),
    OP(large_file),    OP(artifact), OP(verify),     OP(decode),        OP(plugin),       OP(system_plugin),
    OP(memory_plugin), OP(manager),  OP(add_plugin), OP(add_functions), OP(add_callback), OP(resolution),
    OP(executable),    OP(remove),   OP(link),       OP(evaluate),      OP(plan),         OP(call),
    OP(run),           OP(state),    OP(initialize), OP(procedure),     OP(device),       OP(handle),
    OP(api_call),      OP(api_run),  OP(api_loop),   OP(api_loop_run),  OP(announce),     OP(atfork),
};

static void close_all(world_t* w) {
  pyd_process_atfork_remove(w);
  pyd_process_code_unregister(w->code);
  pd.call_release(w->api_loop);
  pd.call_release(w->api_call);
  pd.program_release(w->handle);
  pd.device_release(w->device);
  pyd_invocation_free(w->invocation);
  pyd_state_free(w->state);
  pyd_call_free(w->call);
  pyd_plan_free(w->plan);
  pyd_program_free(w->program);
  pyd_executable_free(w->executable);
  pyd_resolution_free(w->resolution);
  pyd_plugin_manager_release(w->manager);
  pyd_plugin_release(w->memory_plugin);
  pyd_plugin_release(w->system_plugin);
  pyd_plugin_release(w->plugin);
  pyd_artifact_free(w->artifact);
  pyd_file_unmap(&w->large);
  pyd_file_unmap(&w->small);
  if (w->pool) pyd_pool_release(w->pool, w->large_block), pyd_pool_release(w->pool, w->block);
  pyd_pool_destroy(w->pool);
  pyd_sched_destroy(w->sched);
}

static int failures;

static void check_text(const op_t* op, long n, pyd_status_t status) {
  const char* text = pyd_status_text(status);
  bool is_code = pyd_status_code(status) == PYD_CODE_OUT_OF_MEMORY || pyd_status_code(status) == PYD_CODE_SYSTEM;
  bool is_named = refused_memory ? strstr(text, "memory") || strstr(text, "RESOURCE_EXHAUSTED")
                                 : strstr(text, strerror(REFUSAL)) || strstr(text, "memory left") ||
                                       strstr(text, "/no/such/library");
  bool is_bare = strstr(text, "(no memory for its text)") != NULL;  // nor for that, when all is refused
  if (refused && is_code && (refuses_rest ? is_named || is_bare : is_named && !is_bare)) return;
  fprintf(stderr, "%s, request %ld (%s): code %d '%s'\n", op->name, n, refused ? refused : "none refused",
          (int)pyd_status_code(status), text);
  ++failures;
}

// Returns false when the life ended before request |n|.
static bool live(long n, long* out_refusals, long* out_tolerated) {
  world_t w = {0};
  calls_left = n;
  refused = NULL;
  released = 0;
  bool was_refused = false, failed = false;
  for (size_t i = 0; i < sizeof(kOps) / sizeof(kOps[0]); ++i) {
    is_armed = !was_refused;
    pyd_status_t status = kOps[i].run(&w);
    is_armed = false;
    was_refused = refused != NULL;
    if (pyd_ok(status)) continue;
    failed = true;
    check_text(&kOps[i], n, status);
    pyd_status_free(status);
    CHECK_OK(kOps[i].run(&w));
  }
  is_armed = !was_refused;  // what gives back asks for nothing, or does without
  close_all(&w);
  is_armed = false;
  *out_refusals += was_refused;
  *out_tolerated += was_refused && !failed;
  if (blocks || mapped_bytes || files || libraries || released != 4) {
    fprintf(
        stderr,
        "after request %ld (%s): %ld blocks, %ld mapped bytes, %ld files, %ld libraries are left; %d of 4 owners released\n",
        n, refused ? refused : "none", (long)blocks, (long)mapped_bytes, (long)files, (long)libraries, released);
    ++failures;
    blocks = mapped_bytes = files = libraries = 0;
  }
  return refused != NULL;
}

// An archive of one stored member of |size| bytes.
static void write_archive(const char* path, uint32_t size) {
  uint8_t bytes[512] = {0};
  const uint8_t local[] = {0x50, 0x4B, 3, 4, 20, 0}, entry[] = {0x50, 0x4B, 1, 2, 20, 0, 20, 0},
                end[] = {0x50, 0x4B, 5, 6, 0, 0, 0, 0, 1, 0, 1, 0, 47, 0, 0, 0};
  uint8_t* member = bytes + 64;
  memset(member, 7, size);
  uint32_t crc = pyd_crc32(0, member, size), directory = 64 + size;
  const uint8_t head[] = {(uint8_t)crc,
                          (uint8_t)(crc >> 8),
                          (uint8_t)(crc >> 16),
                          (uint8_t)(crc >> 24),
                          (uint8_t)size,
                          0,
                          0,
                          0,
                          (uint8_t)size,
                          0,
                          0,
                          0,
                          1,
                          0};
  memcpy(bytes, local, sizeof(local)), memcpy(bytes + 14, head, sizeof(head));
  bytes[28] = 33, bytes[30] = 'm', bytes[31] = 0x35, bytes[32] = 0xD9,
  bytes[33] = 29;  // an extra field up to offset 64
  memcpy(bytes + directory, entry, sizeof(entry)), memcpy(bytes + directory + 16, head, sizeof(head));
  bytes[directory + 46] = 'm';
  memcpy(bytes + directory + 47, end, sizeof(end));
  bytes[directory + 47 + 16] = (uint8_t)directory;
  FILE* file = fopen(path, "w");
  CHECK(file && fwrite(bytes, 1, directory + 47 + 22, file) == directory + 47 + 22 && fclose(file) == 0);
}

// The shared library, made longer than what is copied, so that its file is mapped.
static void write_large(const char* path) {
  static uint8_t bytes[1 << 20];
  FILE* from = fopen(library_path, "r");
  CHECK(from);
  size_t size = fread(bytes, 1, sizeof(bytes), from);
  CHECK(size > 1000 && size < sizeof(bytes) / 2 && fclose(from) == 0);
  FILE* to = fopen(path, "w");
  CHECK(to && fwrite(bytes, 1, sizeof(bytes), to) == sizeof(bytes) && fclose(to) == 0);
}

int main(int argc, char** argv) {
  CHECK(argc == 2);
  library_path = argv[1];
  snprintf(small_path, sizeof(small_path), "/tmp/pyd-faults-%ld.small", (long)getpid());
  snprintf(large_path, sizeof(large_path), "/tmp/pyd-faults-%ld.large", (long)getpid());
  write_archive(small_path, 100);
  write_large(large_path);
  pyd_api_fill(&pd);
  program_bytes = make_sample();
  blocks = mapped_bytes = files = libraries = 0;
  long refusals[2] = {0}, tolerated[2] = {0};
  for (int mode = 0; mode < 2; ++mode) {
    refuses_rest = mode;
    for (long n = 0; live(n, &refusals[mode], &tolerated[mode]); ++n) {
    }
  }
  char map[64];
  snprintf(map, sizeof(map), "/tmp/perf-%ld.map", (long)getpid());
  remove(map), remove(small_path), remove(large_path);
  printf("%ld requests refused one by one (%ld done without), %ld with all that follow (%ld)\n", refusals[0],
         tolerated[0], refusals[1], tolerated[1]);
  CHECK(refusals[0] > 150 && refusals[0] == refusals[1]);
  __real_free((void*)program_bytes.data);
  return failures != 0;
}
