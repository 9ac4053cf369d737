// What loading a plugin costs: one embedded ELF by our loader (from a file, with the checks and load), the same file by
// dlopen alone, and the file as a system plugin. They alternate, so that a noisy machine disturbs all alike.
//
//   plugin FILE [SYSTEM]
//
// SYSTEM: another plugin, linked with the C library. Medians of 2001 rounds.
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "core/rows.h"
#include "platform/dl.h"
#include "pydispatch/plugin_host.h"

enum { ROUNDS = 2001, KINDS = 4 };  // an odd number of rounds has a median; kinds: see kNames

// Returns seconds.
static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

// Compares two doubles, for qsort().
static int by_value(const void* a, const void* b) { return *(const double*)a < *(const double*)b ? -1 : 1; }

// Ends the process, with a message, if |status| is a failure.
static void require(pyd_status_t status) {
  if (pyd_ok(status)) return;
  fprintf(stderr, "plugin: %s\n", pyd_status_text(status));
  exit(1);
}

// Returns the seconds that it takes to load a plugin, without its release.
static double load(const char* path, pyd_plugin_kind_t kind) {
  pyd_plugin_options_t options = {.kind = kind};
  pyd_plugin_t* plugin;
  double start = now();
  require(pyd_plugin_load_file(path, &options, &plugin));
  double time = now() - start;
  pyd_plugin_release(plugin);
  return time;
}

// Returns the seconds of dlopen, without dlclose.
static double open_alone(const char* path) {
  void* handle;
  double start = now();
  require(pyd_dl_open(path, &handle));
  double time = now() - start;
  pyd_dl_close(handle);
  return time;
}

int main(int argc, char** argv) {
  static const char* const kNames[KINDS] = {"embedded", "dlopen of the same file", "the same file as a system plugin",
                                            "a system plugin with the C library"};
  static double times[KINDS][ROUNDS];  // seconds of each kind in kNames
  if (argc < 2) return fprintf(stderr, "plugin FILE [SYSTEM]\n"), 2;
  for (int i = 0; i < ROUNDS; ++i) {
    times[0][i] = load(argv[1], PYD_PLUGIN_KIND_EMBEDDED);
    times[1][i] = open_alone(argv[1]);
    times[2][i] = load(argv[1], PYD_PLUGIN_KIND_SYSTEM);
    if (argc > 2) times[3][i] = load(argv[2], PYD_PLUGIN_KIND_SYSTEM);
  }
  for (int kind = 0; kind < (argc > 2 ? KINDS : KINDS - 1); ++kind) {  // the last one needs SYSTEM
    qsort(times[kind], ROUNDS, sizeof(double), by_value);
    row("load a plugin", kNames[kind], 1, times[kind][ROUNDS / 2], times[kind][0], times[kind][ROUNDS * 9 / 10], "s");
  }
  return 0;
}
