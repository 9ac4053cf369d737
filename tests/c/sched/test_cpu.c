// CPU facts against what the kernel says in text, and quotas against made-up cgroup trees.
//
// links: base platform sched
#include <sched.h>
#include <stdbool.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

static bool is_late;

// The clock as a thread sees it that now and then loses its CPU for a millisecond before it can use what it read.
static int late_clock(clockid_t clock, struct timespec* out) {
  static int looks;
  int error = clock_gettime(clock, out);
  if (is_late && looks++ % 5 == 0) {
    struct timespec now = *out;
    while ((now.tv_sec - out->tv_sec) * 1000000000 + now.tv_nsec - out->tv_nsec < 1000000) clock_gettime(clock, &now);
  }
  return error;
}
#define clock_gettime late_clock

#include "check.h"
#include "platform/cpu.h"
#include "pydispatch/cpu.h"
#include "sched/internal.h"

static void put(const char* root, const char* path, const char* text) {
  char full[512];
  snprintf(full, sizeof(full), "%s%s", root, path);
  for (char* at = full + 1; (at = strchr(at, '/')); ++at) {
    *at = 0;
    mkdir(full, 0700);
    *at = '/';
  }
  FILE* file = fopen(full, "w");
  CHECK(file, "%s", full);
  fputs(text, file);
  fclose(file);
}

static void fresh(char* root) {
  strcpy(root, "/tmp/pyd_cgroup_XXXXXX");
  CHECK(mkdtemp(root), "mkdtemp");
}

static void drop(const char* root) {
  char command[128];
  snprintf(command, sizeof(command), "rm -r %s", root);
  CHECK(system(command) == 0, "rm");
}

static void test_v2(void) {
  static const struct {
    const char* leaf;
    const char* parent;
    uint32_t expected;
  } kRows[] = {{"max 100000", "max 100000", 0},
               {"200000 100000", "max 100000", 2},
               {"150000 100000", "max 100000", 2},
               {"1000 100000", "max 100000", 1},
               {"800000 100000", "300000 100000", 3},
               {"", "400000 100000", 4},
               {"nonsense", "-5 7", 0},
               {"5 0", "0 5", 0},
               {"9223372036854775807 1", "max 1", 0}};
  for (size_t i = 0; i < sizeof(kRows) / sizeof(kRows[0]); ++i) {
    char root[64];
    fresh(root);
    put(root, "/proc/self/cgroup", "0::/user/leaf\n");
    put(root, "/proc/self/mountinfo", "30 20 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n");
    put(root, "/sys/fs/cgroup/user/leaf/cpu.max", kRows[i].leaf);
    put(root, "/sys/fs/cgroup/user/cpu.max", kRows[i].parent);
    uint32_t quota = pyd_cpu_quota(root);
    CHECK(quota == kRows[i].expected, "row %d: %u, not %u", (int)i, quota, kRows[i].expected);
    drop(root);
  }
}

static void test_v1(void) {
  char root[64];
  fresh(root);
  put(root, "/proc/self/cgroup", "5:cpuset:/\n4:cpu,cpuacct:/docker/abc\n1:name=systemd:/x\n0::/\n");
  // A container: the hierarchy's root in the mount is the group itself. cpuset is not the cpu controller.
  put(root, "/proc/self/mountinfo",
      "31 20 0:27 / /cg/cpuset rw - cgroup cgroup rw,cpuset\n"
      "32 20 0:28 /docker/abc /cg/cpu rw shared:4 - cgroup cgroup rw,cpu,cpuacct\n"
      "broken line\n");
  put(root, "/cg/cpu/cpu.cfs_quota_us", "250000\n");
  put(root, "/cg/cpu/cpu.cfs_period_us", "100000\n");
  put(root, "/cg/cpuset/cpu.cfs_quota_us", "100000\n");
  put(root, "/cg/cpuset/cpu.cfs_period_us", "100000\n");
  CHECK(pyd_cpu_quota(root) == 3, "%u", pyd_cpu_quota(root));
  put(root, "/cg/cpu/cpu.cfs_quota_us", "-1\n");
  CHECK(pyd_cpu_quota(root) == 0, "%u", pyd_cpu_quota(root));
  drop(root);
  CHECK(pyd_cpu_quota("/nowhere/at/all") == 0, "no files");
}

// systemd writes '-' of a name as \x2d; mountinfo escapes spaces and backslashes, the list of cgroups does not.
static void test_escaped_names(void) {
  char root[64];
  fresh(root);
  put(root, "/proc/self/cgroup", "0::/my pod\\x2d1/leaf\n");
  put(root, "/proc/self/mountinfo",
      "30 20 0:26 /my\\040pod\\134x2d1 /sys/fs\\040\\0/cgroup rw - cgroup2 cgroup2 rw,nsdelegate\n");
  put(root, "/sys/fs \\0/cgroup/leaf/cpu.max", "200000 100000");
  put(root, "/sys/fs \\0/cgroup/cpu.max", "max 100000");
  CHECK(pyd_cpu_quota(root) == 2, "%u", pyd_cpu_quota(root));
  // Another group is not below the root of the mount: the cgroup at the mount point is read.
  put(root, "/proc/self/cgroup", "0::/my\\040pod\\x2d1/leaf\n");
  CHECK(pyd_cpu_quota(root) == 0, "%u", pyd_cpu_quota(root));
  drop(root);
}

static void test_affinity(void) {
  cpu_set_t before, one;
  CHECK(sched_getaffinity(0, sizeof(before), &before) == 0, "affinity");
  CHECK(pyd_cpu_available() >= 1 && pyd_cpu_available() <= (uint32_t)CPU_COUNT(&before), "%u", pyd_cpu_available());
  CPU_ZERO(&one);
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (!CPU_ISSET(i, &before)) continue;
    CPU_SET(i, &one);
    break;
  }
  CHECK(sched_setaffinity(0, sizeof(one), &one) == 0, "affinity");
  CHECK(pyd_sched_available_cpus() == 1, "%u", pyd_sched_available_cpus());
  pyd_sched_t* sched = make_sched(0, -1);
  CHECK(pyd_sched_workers(sched) == 1, "%u workers on one CPU", pyd_sched_workers(sched));
  pyd_sched_destroy(sched);
  sched_setaffinity(0, sizeof(before), &before);
}

// Where each worker may run: pool threads on one CPU each, the caller as before; and each steals from all others.
static int32_t note_cpus(void* self, uint32_t worker, uint64_t begin, uint64_t end, uint64_t* out_failed) {
  _Atomic int* counts = self;
  cpu_set_t set;
  (void)begin, (void)end, (void)out_failed;
  sched_getaffinity(0, sizeof(set), &set);
  counts[worker] = CPU_COUNT(&set);
  while (!counts[0] || !counts[1] || !counts[2]) usleep(100);
  return 0;
}

static void test_pinned(void) {
  cpu_set_t all;
  pyd_sched_t* sched = NULL;
  pyd_sched_options_t options = {.workers = 3, .spin_us = -1, .has_affinity = true};
  CHECK(sched_getaffinity(0, sizeof(all), &all) == 0, "affinity");
  CHECK(pyd_ok(pyd_sched_create(&options, &sched)), "create");
  _Atomic int counts[3] = {0};
  CHECK(run_job(sched, note_cpus, (void*)counts, 8, SURELY_SHARED).code == 0, "run");
  CHECK(counts[0] == CPU_COUNT(&all) && counts[1] == 1 && counts[2] == 1, "%d, %d, %d", counts[0], counts[1],
        counts[2]);
  for (uint32_t i = 0; i < 3; ++i) {
    const uint16_t* near = sched->near + 2 * i;
    CHECK(near[0] != i && near[1] != i && near[0] != near[1] && near[0] < 3 && near[1] < 3, "%u: %u, %u", i, near[0],
          near[1]);
  }
  pyd_sched_destroy(sched);
}

static bool has(const char* name) {
  uint64_t bits[PYD_CPU_FEATURE_WORDS];
  pyd_cpu_features(bits, PYD_CPU_FEATURE_WORDS);
  for (size_t i = 0; pyd_cpu_feature_name(i); ++i) {
    if (strcmp(pyd_cpu_feature_name(i), name) == 0) return bits[i / 64] >> i % 64 & 1;
  }
  return false;
}

// Whether one of the words between white space is |word|. Reads the line as it is, whatever ends it.
static bool has_word(const char* line, const char* word) {
  static const char kSpace[] = " \t\n";
  const size_t length = strlen(word);
  for (const char* at = line + strspn(line, kSpace); *at; at += strspn(at, kSpace)) {
    size_t found = strcspn(at, kSpace);
    if (found == length && memcmp(at, word, length) == 0) return true;
    at += found;
  }
  return false;
}

static void test_words_of_a_line(void) {
  char* line = strdup("flags\t: fpu avx2 lahf_lm");  // an exact allocation: a sanitizer sees a byte too many
  CHECK(line, "strdup");
  CHECK(has_word(line, "fpu") && has_word(line, "lahf_lm") && has_word(line, "avx2"), "first, last, between");
  CHECK(!has_word(line, "avx") && !has_word(line, "vx2") && !has_word(line, "lahf") && !has_word("", "x"), "parts");
  free(line);
}

// The kernel lists a feature, under a name of its own, only when it is switched on.
static void test_features(void) {
#if defined(__x86_64__)
  static const char* const kNames[][2] = {{"sse3", "pni"},
                                          {"ssse3", "ssse3"},
                                          {"sse4.1", "sse4_1"},
                                          {"sse4.2", "sse4_2"},
                                          {"sse4a", "sse4a"},
                                          {"avx", "avx"},
                                          {"fma", "fma"},
                                          {"fma4", "fma4"},
                                          {"xop", "xop"},
                                          {"f16c", "f16c"},
                                          {"avx2", "avx2"},
                                          {"avx512f", "avx512f"},
                                          {"avx512cd", "avx512cd"},
                                          {"avx512vl", "avx512vl"},
                                          {"avx512dq", "avx512dq"},
                                          {"avx512bw", "avx512bw"},
                                          {"avx512ifma", "avx512ifma"},
                                          {"avx512vbmi", "avx512vbmi"},
                                          {"avx512vpopcntdq", "avx512_vpopcntdq"},
                                          {"avx512vnni", "avx512_vnni"},
                                          {"avx512vbmi2", "avx512_vbmi2"},
                                          {"avx512bitalg", "avx512_bitalg"},
                                          {"avx512bf16", "avx512_bf16"},
                                          {"avx512fp16", "avx512_fp16"},
                                          {"amx-tile", "amx_tile"},
                                          {"amx-int8", "amx_int8"},
                                          {"amx-bf16", "amx_bf16"},
                                          {"popcnt", "popcnt"},
                                          {"cx16", "cx16"},
                                          {"sahf", "lahf_lm"},
                                          {"movbe", "movbe"},
                                          {"bmi", "bmi1"},
                                          {"bmi2", "bmi2"},
                                          {"lzcnt", "abm"},
                                          {"aes", "aes"},
                                          {"pclmul", "pclmulqdq"},
                                          {"sha", "sha_ni"},
                                          {"gfni", "gfni"},
                                          {"vaes", "vaes"},
                                          {"vpclmulqdq", "vpclmulqdq"},
                                          {"adx", "adx"},
                                          {"avxvnni", "avx_vnni"},
                                          {"prfchw", "3dnowprefetch"},
                                          {"xsave", "xsave"},
                                          {"xsavec", "xsavec"},
                                          {"xsaveopt", "xsaveopt"},
                                          {"avx512vp2intersect", "avx512_vp2intersect"},
                                          {"sse2", "sse2"},
                                          {"cx8", "cx8"},
                                          {"cmov", "cmov"},
                                          {"mmx", "mmx"},
                                          {"fxsr", "fxsr"},
                                          {"sse", "sse"}};
  char* line = NULL;
  size_t capacity = 0;
  FILE* file = fopen("/proc/cpuinfo", "r");
  CHECK(file, "cpuinfo");
  while (getline(&line, &capacity, file) > 0 && strncmp(line, "flags", 5) != 0) {
  }
  fclose(file);
  CHECK(line && strncmp(line, "flags", 5) == 0, "no flags in cpuinfo");
  for (size_t i = 0; i < sizeof(kNames) / sizeof(kNames[0]); ++i) {
    const char* word = kNames[i][1];
    bool listed = has_word(line, word);
    CHECK(has(kNames[i][0]) || !listed, "the kernel lists %s, %s was not found", word, kNames[i][0]);
    // The other way round it holds for what needs saved registers. (A kernel may hide a harmless feature for a bug.)
    bool saved = strncmp(kNames[i][0], "avx", 3) == 0 || strncmp(kNames[i][0], "amx", 3) == 0;
    CHECK(listed || !saved || !has(kNames[i][0]), "%s was found, the kernel does not list %s", kNames[i][0], word);
  }
  free(line);
  CHECK(pyd_cpu_feature_bit("sse3") == 0 && pyd_cpu_feature_bit("avx2") == 15 && pyd_cpu_feature_bit("avx512f") == 20 &&
            pyd_cpu_feature_bit("amx-bf16") == 52 && pyd_cpu_feature_bit("popcnt") == -1,
        "ABI bits");
#elif defined(__aarch64__)
  CHECK(has("neon") && has("fp-armv8") && pyd_cpu_feature_bit("dotprod") == 12, "the least of this architecture");
#elif defined(__riscv)
  CHECK(pyd_cpu_feature_bit("v") == 0 && pyd_cpu_feature_bit("zvl4096b") == 7, "ABI bits");
#endif
  CHECK(pyd_cpu_feature_bit("no such feature") == -1, "unknown");
}

// Word 0 is made of the features that have a bit in it, and nothing else.
static void test_words(void) {
  uint64_t words[PYD_CPU_WORDS], bits[PYD_CPU_FEATURE_WORDS], expected = 0;
  memset(words, 0xFF, sizeof(words));
  pyd_cpu_query(words);
  pyd_cpu_features(bits, PYD_CPU_FEATURE_WORDS);
  size_t count = 0;
  for (; pyd_cpu_feature_name(count); ++count) {
    int bit = pyd_cpu_feature_bit(pyd_cpu_feature_name(count));
    if (bit >= 0 && (bits[count / 64] >> count % 64 & 1)) expected |= UINT64_C(1) << bit;
  }
  CHECK(count <= 64 * PYD_CPU_FEATURE_WORDS, "%d features do not fit", (int)count);
  CHECK(words[0] == expected, "%llx, not %llx", (unsigned long long)words[0], (unsigned long long)expected);
  for (int i = 1; i < PYD_CPU_WORDS; ++i) CHECK(words[i] == 0, "word %d", i);
}

// The rate of the counter, measured by a thread that loses its CPU behind every fifth look at the clock.
static void test_tick(void) {
  is_late = false;
  uint64_t from = pyd_cpu_ticks(), from_ns = pyd_cpu_nanoseconds();
  while (pyd_cpu_nanoseconds() - from_ns < 200000000) continue;
  uint64_t ns = pyd_cpu_nanoseconds() - from_ns, expected = ns * 256000u / pyd_cpu_elapsed(from, pyd_cpu_ticks());
  is_late = true;
  for (int i = 0; i < 20; ++i) {
    uint64_t tick = pyd_cpu_measure_tick();
    CHECK(tick > expected / 2 && tick < expected * 2, "%llu, not %llu", (unsigned long long)tick,
          (unsigned long long)expected);
  }
  is_late = false;
}

int main(void) {
  test_tick();
#if defined(PYD_PLATFORM_GENERIC)
  CHECK(pyd_cpu_available() == (uint32_t)sysconf(_SC_NPROCESSORS_ONLN) && pyd_cpu_quota("") == 0, "%u",
        pyd_cpu_available());
  (void)test_v2, (void)test_v1, (void)test_escaped_names, (void)test_affinity,
      (void)test_pinned;  // an unknown system has none of these
#else
  test_v2();
  test_v1();
  test_escaped_names();
  test_affinity();
  test_pinned();
#endif
  test_words_of_a_line();
  test_features();
  test_words();
  uint64_t l1, l2;
  pyd_cpu_cache_sizes(&l1, &l2);
  CHECK(l1 < 1 << 24 && l2 < 1 << 30 && (l1 == 0 || l1 >= 1024), "%d, %d", (int)l1, (int)l2);
  printf("cpu: ok (L1 %d, L2 %d)\n", (int)l1, (int)l2);
  return 0;
}
