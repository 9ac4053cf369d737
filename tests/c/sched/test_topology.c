// Layouts of machines as their kernels write them down, and text that no kernel writes.
//
// links: base platform
// skip-generic: reads what Linux says
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "check.h"
#include "platform/topology.h"

static char root[64];

static void put(const char* text, const char* path, ...) {
  char name[256], full[512];
  va_list arguments;
  va_start(arguments, path);
  vsnprintf(name, sizeof(name), path, arguments);
  va_end(arguments);
  snprintf(full, sizeof(full), "%s%s", root, name);
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

static void begin(const char* allowed) {
  char status[512];
  strcpy(root, "/tmp/pyd_topology_XXXXXX");
  CHECK(mkdtemp(root), "mkdtemp");
  snprintf(status, sizeof(status), "Name:\tx\nCpus_allowed:\tff\nCpus_allowed_list:\t%s\nMems_allowed_list:\t0\n",
           allowed);
  put(status, "/proc/thread-self/status");
}

// CPU |cpu| with siblings, and the CPUs that share its last cache.
static void put_cpu(int cpu, const char* siblings, const char* sharing) {
  put(siblings, "/sys/devices/system/cpu/cpu%d/topology/core_cpus_list", cpu);
  put("0-511\n", "/sys/devices/system/cpu/cpu%d/cache/index0/shared_cpu_list", cpu);  // not the last one
  put(sharing, "/sys/devices/system/cpu/cpu%d/cache/index3/shared_cpu_list", cpu);
}

// The CPUs in the order of |expected|, a list that ends with -1, and so many cores.
static void end(uint32_t cores, const int* expected) {
  static pyd_topology_cpu_t cpus[PYD_TOPOLOGY_MOST];
  const uint32_t count = pyd_topology_read(root, cpus, PYD_TOPOLOGY_MOST);
  uint32_t at = 0;
  for (; expected[at] >= 0; ++at) {
    CHECK(at < count && cpus[at].number == (uint32_t)expected[at], "place %u: %u, not %d", at, cpus[at].number,
          expected[at]);
  }
  CHECK(at == count, "%u CPUs, not %u", count, at);
  CHECK(pyd_topology_cores(root, cpus, count) == cores, "%u cores", pyd_topology_cores(root, cpus, count));
  for (uint32_t i = 1; i < count; ++i) {  // within a class, near ones follow one another
    const bool is_same = cpus[i].is_sibling == cpus[i - 1].is_sibling && cpus[i].is_fast == cpus[i - 1].is_fast;
    CHECK(!is_same || cpus[i].node >= cpus[i - 1].node, "node %u after %u", cpus[i].node, cpus[i - 1].node);
  }
  char command[128];
  snprintf(command, sizeof(command), "rm -r %s", root);
  CHECK(system(command) == 0, "rm");
}

#define EXPECT(cores, ...) end(cores, (const int[]){__VA_ARGS__, -1})

static void test_one_socket_smt(void) {
  begin("0-7");
  for (int i = 0; i < 8; ++i) {
    char siblings[16];
    snprintf(siblings, sizeof(siblings), "%d,%d\n", i % 4, i % 4 + 4);
    put_cpu(i, siblings, "0-7\n");
  }
  EXPECT(4, 0, 1, 2, 3, 4, 5, 6, 7);
}

static void test_siblings_before_5_3(void) {
  begin("0-1");
  for (int i = 0; i < 2; ++i) put("0-1\n", "/sys/devices/system/cpu/cpu%d/topology/thread_siblings_list", i);
  EXPECT(1, 0, 1);
}

// Nodes take the CPUs in turn, each with two caches.
static void test_two_sockets(void) {
  static const char* const kCaches[] = {"0,4\n", "1,5\n", "2,6\n", "3,7\n"};
  begin("0-7");
  put("0-1\n", "/sys/devices/system/node/has_cpu");
  put("0,2,4,6\n", "/sys/devices/system/node/node0/cpulist");
  put("1,3,5,7\n", "/sys/devices/system/node/node1/cpulist");
  for (int i = 0; i < 8; ++i) {
    char own[16];
    snprintf(own, sizeof(own), "%d\n", i);
    put_cpu(i, own, kCaches[i % 4]);
  }
  EXPECT(8, 0, 4, 2, 6, 1, 5, 3, 7);
}

// Two fast cores with two threads each, and four slow ones.
static void test_hybrid_intel(void) {
  begin("0-7");
  put("4-7\n", "/sys/devices/cpu_atom/cpus");
  for (int i = 0; i < 8; ++i) {
    char own[16];
    snprintf(own, sizeof(own), "%d\n", i);
    put_cpu(i, i < 2 ? "0-1\n" : i < 4 ? "2-3\n" : own, "0-7\n");
  }
  EXPECT(2, 0, 2, 4, 5, 6, 7, 1, 3);
}

static void test_big_little(void) {
  static const char* const kCapacities[] = {"250\n", "250\n", "250\n", "250\n", "760\n", "760\n", "1024\n"};
  begin("0-6");
  for (int i = 0; i < 7; ++i) put(kCapacities[i], "/sys/devices/system/cpu/cpu%d/cpu_capacity", i);
  EXPECT(3, 4, 5, 6, 0, 1, 2, 3);
}

// A process that may use slow cores alone has all of them.
static void test_slow_cores_alone(void) {
  begin("0-1");
  put("0-7\n", "/sys/devices/cpu_atom/cpus");
  EXPECT(2, 0, 1);
}

static void test_container(const char* quota, uint32_t cores) {
  begin("2-3,6-7");  // a cpuset: two cores with their siblings
  put("0::/\n", "/proc/self/cgroup");
  put("30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "/proc/self/mountinfo");
  put(quota, "/sys/fs/cgroup/cpu.max");
  for (int i = 0; i < 8; ++i) {
    char siblings[16];
    snprintf(siblings, sizeof(siblings), "%d,%d\n", i % 4, i % 4 + 4);
    put_cpu(i, siblings, "0-7\n");
  }
  EXPECT(cores, 2, 3, 6, 7);
}

static void test_hostile(void) {
  static const char* const kTexts[] = {"",
                                       "\n",
                                       "-",
                                       "0-",
                                       "0-99999999999999999999999",
                                       "99999999999999999999",
                                       "0,0,0,0,0-4095,0",
                                       "3-1",
                                       ",",
                                       "0x1",
                                       "0 1",
                                       "-1",
                                       "1-2-3",
                                       "zero",
                                       "4096-5000"};
  for (size_t i = 0; i < sizeof(kTexts) / sizeof(kTexts[0]); ++i) {
    begin("1-2");
    put(kTexts[i], "/sys/devices/system/node/has_cpu");
    put(kTexts[i], "/sys/devices/system/node/node0/cpulist");
    put(kTexts[i], "/sys/devices/cpu_atom/cpus");
    for (int cpu = 0; cpu < 3; ++cpu) {
      put_cpu(cpu, kTexts[i], kTexts[i]);
      put(kTexts[i], "/sys/devices/system/cpu/cpu%d/cpu_capacity", cpu);
    }
    static pyd_topology_cpu_t cpus[4];
    const uint32_t count = pyd_topology_read(root, cpus, 4), cores = pyd_topology_cores(root, cpus, count);
    CHECK(count == 2 && cpus[0].number + cpus[1].number == 3, "text %zu: %u CPUs", i, count);
    CHECK(cores >= 1 && cores <= 2 && cpus[0].core <= 4096 && cpus[0].capacity >= 1 && cpus[0].capacity <= 1024,
          "text %zu", i);
    CHECK(pyd_topology_read(root, cpus, 1) == 1, "more than there is room for");
    char command[128];
    snprintf(command, sizeof(command), "rm -r %s", root);
    CHECK(system(command) == 0, "rm");
  }
}

int main(void) {
  test_one_socket_smt();
  test_siblings_before_5_3();
  test_two_sockets();
  test_hybrid_intel();
  test_big_little();
  test_slow_cores_alone();
  test_container("max 100000", 2);
  test_container("100000 100000", 1);
  test_container("800000 100000", 2);
  test_hostile();
  static pyd_topology_cpu_t cpus[PYD_TOPOLOGY_MOST];
  CHECK(pyd_topology_read("", cpus, PYD_TOPOLOGY_MOST) >= 1, "this machine");
  CHECK(pyd_topology_read("/nowhere", cpus, PYD_TOPOLOGY_MOST) >= 1, "no files");
  puts("topology: ok");
  return 0;
}
