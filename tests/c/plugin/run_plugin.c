// Loads a plugin and calls a function of it, in a program of its own: made for machines that are emulated.
//
//   run_plugin FILE SYMBOL [--param=KEY=VALUE ...]    calls SYMBOL with the arguments of examples/plugin/simple_mul.c
//   and
//                                                     prints 8 products; SYMBOL "?NAME" is optional
//   run_plugin FILE SYMBOL --cycles=N                 loads, resolves, calls and unloads N times: mappings, open files
//   and
//                                                     the heap must be where they were; --system: by dlopen
//   run_plugin FILE SYMBOL --time=N                   prints the nanoseconds of loading and unloading, median of N
//   run_plugin FILE SYMBOL --dlopen=N                 the same of dlopen and dlclose alone
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#if defined(__GLIBC__)
#include <malloc.h>
#endif

#include "platform/dl.h"
#include "pydispatch/plugin_host.h"

static int fail(const char* what, const char* detail) {
  fprintf(stderr, "run_plugin: %s%s%s\n", what, detail[0] ? ": " : "", detail);
  return 1;
}

typedef struct params_s {
  float* lhs;
  size_t lhs_offset;
  float* rhs;
  size_t rhs_offset;
  float* out;
  size_t out_offset;
  size_t size, first;
  uint32_t processor_id;
  uint64_t* processor_data;
} params_t;

static int call(pyd_import_fn_t function, void* context, float out[8]) {
  float lhs[9], rhs[10];
  uint64_t processor[8] = {0};
  for (int i = 0; i < 8; ++i) lhs[1 + i] = (float)(i + 1), rhs[2 + i] = 3;
  params_t params = {lhs, 1, rhs, 2, out, 0, 8, 0, 0, processor};
  return function(&params, context, NULL);
}

static int use(const char* file, const char* symbol, const pyd_plugin_options_t* options, float out[8]) {
  pyd_plugin_t* plugin;
  pyd_status_t status = pyd_plugin_load_file(file, options, &plugin);
  pyd_import_fn_t function = NULL;
  void* context = NULL;
  int failed = 0;
  if (pyd_ok(status)) status = pyd_plugin_resolve(plugin, 1, &symbol, &function, &context);
  if (!pyd_ok(status)) {
    failed = fail(pyd_status_text(status), "");
  } else if (!function) {
    failed = fail("the plugin does not have", symbol);
  } else if (call(function, context, out) != 0) {
    failed = fail("the function returned non-zero", symbol);
  }
  pyd_status_free(status);
  pyd_plugin_release(plugin);
  return failed;
}

// Without allocating.
static long count_lines(const char* path) {
  static char bytes[65536];
  long count = 0;
  int file = open(path, O_RDONLY);
  for (ssize_t got; (got = read(file, bytes, sizeof(bytes))) > 0;) {
    for (ssize_t i = 0; i < got; ++i) count += bytes[i] == '\n';
  }
  close(file);
  return count;
}

static long count_files(void) {
  long count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (folder && readdir(folder)) ++count;
  if (folder) closedir(folder);
  return count;
}

static long heap_bytes(void) {
#if defined(__GLIBC__)
  return (long)mallinfo2().uordblks;
#else
  return 0;
#endif
}

static int cycle(const char* file, const char* symbol, const pyd_plugin_options_t* options, long cycles) {
  float out[8];
  for (int i = 0; i < 10; ++i) {  // what is allocated once, as by dlopen's own tables
    if (use(file, symbol, options, out)) return 1;
  }
  long files = count_files(), maps = count_lines("/proc/self/maps"), heap = heap_bytes();
  for (long i = 0; i < cycles; ++i) {
    if (use(file, symbol, options, out)) return 1;
  }
  long heap_after = heap_bytes(), maps_after = count_lines("/proc/self/maps"), files_after = count_files();
  printf("mappings %ld %ld, files %ld %ld, heap %ld %ld\n", maps, maps_after, files, files_after, heap, heap_after);
  // glibc's tables of open libraries keep some hundred bytes, once; our own loader keeps nothing.
  long allowed = options->kind == PYD_PLUGIN_KIND_SYSTEM ? 4096 : 0;
  bool is_same = maps == maps_after && files == files_after && heap_after - heap <= allowed;
  return is_same ? 0 : fail("something was left behind", file);
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

static int by_value(const void* a, const void* b) { return *(const double*)a < *(const double*)b ? -1 : 1; }

static int measure(const char* file, const pyd_plugin_options_t* options, long runs, bool is_dlopen) {
  double* times = malloc((size_t)runs * sizeof(double));
  for (long i = 0; times && i < runs; ++i) {
    pyd_plugin_t* plugin = NULL;
    void* handle = NULL;
    double start = now();
    pyd_status_t status = is_dlopen ? pyd_dl_open(file, &handle) : pyd_plugin_load_file(file, options, &plugin);
    times[i] = now() - start;
    if (!pyd_ok(status)) return fail(pyd_status_text(status), "");
    pyd_plugin_release(plugin);
    pyd_dl_close(handle);
  }
  if (!times) return 1;
  qsort(times, (size_t)runs, sizeof(double), by_value);
  printf("%.0f ns (min %.0f)\n", times[runs / 2], times[0]);
  free(times);
  return 0;
}

int main(int argc, char** argv) {
  pyd_plugin_param_t params[16];
  pyd_plugin_options_t options = {.params = params};
  if (argc < 3) return fail("FILE and SYMBOL expected", "");
  long cycles = 0, runs = 0, dlopens = 0;
  for (int i = 3; i < argc; ++i) {
    char* value = strchr(argv[i], '=') ? strchr(argv[i], '=') + 1 : argv[i];
    if (strncmp(argv[i], "--cycles=", 9) == 0) {
      cycles = atol(value);
    } else if (strncmp(argv[i], "--time=", 7) == 0) {
      runs = atol(value);
    } else if (strncmp(argv[i], "--dlopen=", 9) == 0) {
      dlopens = atol(value);
    } else if (strcmp(argv[i], "--system") == 0) {
      options.kind = PYD_PLUGIN_KIND_SYSTEM;
    } else if (strncmp(argv[i], "--param=", 8) == 0 && strchr(value, '=') && options.param_count < 16) {
      size_t length = (size_t)(strchr(value, '=') - value);
      params[options.param_count++] =
          (pyd_plugin_param_t){{value, length}, {value + length + 1, strlen(value) - length - 1}};
    } else {
      return fail("unknown option", argv[i]);
    }
  }
  if (cycles) return cycle(argv[1], argv[2], &options, cycles);
  if (runs || dlopens) return measure(argv[1], &options, runs + dlopens, dlopens > 0);
  float out[8];
  if (use(argv[1], argv[2], &options, out)) return 1;
  for (int i = 0; i < 8; ++i) printf(i ? " %G" : "%G", out[i]);
  printf("\n");
  return 0;
}
