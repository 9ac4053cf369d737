// Reads the topology of CPUs from /proc and /sys. All text is untrusted: after a number that is too large, an endless
// list or a missing file, the default remains, in which each CPU is a separate core.
#include "platform/topology.h"

#include <ctype.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "platform/cpu.h"

// Folder with a folder for each CPU.
static const char kCpus[] = "/sys/devices/system/cpu";

// Parses a list of numbers such as "0-3,8,10-11" up to the first character that does not fit. Returns the first number,
// UINT32_MAX when there is none.
static uint32_t parse_list(const char* text, pyd_cpu_set_t* out_bits) {
  uint32_t first = UINT32_MAX;
  memset(out_bits, 0, sizeof(*out_bits));
  for (const char* at = text; isdigit((unsigned char)*at);) {
    char* end;
    unsigned long low = strtoul(at, &end, 10), high = low;
    if (*end == '-' && isdigit((unsigned char)end[1])) high = strtoul(end + 1, &end, 10);
    if (low >= PYD_TOPOLOGY_MOST) break;
    if (first == UINT32_MAX) first = (uint32_t)low;
    for (unsigned long cpu = low; cpu <= high && cpu < PYD_TOPOLOGY_MOST; ++cpu) pyd_cpu_set_add(out_bits, cpu);
    at = *end == ',' ? end + 1 : end;
  }
  return first;
}

// A reader of small files of sysfs.
typedef struct reader_s {
  const char* root;    // put before every path: "" but for tests
  char text[1 << 14];  // of the file that was read last, terminated
} reader_t;

// Returns the text of the file |folder| + |name| below the root; NULL when it cannot be read or is larger than the
// buffer, which no such file of the kernel is.
static const char* read_text(reader_t* reader, const char* folder, const char* name) {
  char path[PATH_MAX];
  if (snprintf(path, sizeof(path), "%s%s%s", reader->root, folder, name) >= (int)sizeof(path)) return NULL;
  FILE* file = fopen(path, "re");
  if (!file) return NULL;
  size_t length = fread(reader->text, 1, sizeof(reader->text), file);
  fclose(file);
  if (length == sizeof(reader->text)) return NULL;
  reader->text[length] = 0;
  return reader->text;
}

// Reads a file that holds a list. Returns false if it has no number; |*out_first| is the lowest: the kernel sorts
// lists.
static bool read_list(reader_t* reader, const char* folder, const char* name, pyd_cpu_set_t* out_bits,
                      uint32_t* out_first) {
  const char* text = read_text(reader, folder, name);
  if (!text) return false;
  *out_first = parse_list(text, out_bits);
  return *out_first != UINT32_MAX;
}

// Reads the affinity mask of the calling thread. Returns false if /proc does not state it.
static bool read_allowed(reader_t* reader, pyd_cpu_set_t* out_bits) {
  static const char kKey[] = "\nCpus_allowed_list:";
  const char* text = read_text(reader, "/proc/thread-self", "/status");
  const char* line = text ? strstr(text, kKey) : NULL;
  if (!line) return false;
  line += sizeof(kKey) - 1;
  return parse_list(line + strspn(line, " \t"), out_bits) != UINT32_MAX;
}

// Reads the group of SMT siblings of |cpu|: the lowest number of a CPU in it. |folder|: of this CPU in /sys.
static void read_core(reader_t* reader, const char* folder, pyd_topology_cpu_t* cpu) {
  pyd_cpu_set_t siblings;
  uint32_t first;
  // Kernels before 5.3 have the second name.
  if (!read_list(reader, folder, "/topology/core_cpus_list", &siblings, &first) &&
      !read_list(reader, folder, "/topology/thread_siblings_list", &siblings, &first)) {
    return;
  }
  if (pyd_cpu_set_has(&siblings, cpu->number)) cpu->core = first;
}

// Reads the group of CPUs that share the last-level cache with |cpu|: the lowest number of a CPU in it. Stays 0 if no
// cache is listed. The last level has the highest index, usually 2 or 3; 7 is above it. |folder|: of this CPU in /sys.
static void read_cluster(reader_t* reader, const char* folder, pyd_topology_cpu_t* cpu) {
  for (int index = 7; index >= 0; --index) {
    char name[48];
    pyd_cpu_set_t sharing;
    uint32_t first;
    snprintf(name, sizeof(name), "/cache/index%d/shared_cpu_list", index);
    if (!read_list(reader, folder, name, &sharing, &first)) continue;
    if (pyd_cpu_set_has(&sharing, cpu->number)) cpu->cluster = first;
    return;
  }
}

// Reads the relative speed of |cpu|, limited to the range of its field. The field stays as it is where the kernel does
// not state the speed. |folder|: of this CPU in /sys.
static void read_capacity(reader_t* reader, const char* folder, pyd_topology_cpu_t* cpu) {
  const char* text = read_text(reader, folder, "/cpu_capacity");
  if (!text || !isdigit((unsigned char)*text)) return;
  unsigned long capacity = strtoul(text, NULL, 10);
  // At least 1, at most PYD_TOPOLOGY_FULL_CAPACITY.
  cpu->capacity = capacity < 1                            ? 1
                  : capacity > PYD_TOPOLOGY_FULL_CAPACITY ? PYD_TOPOLOGY_FULL_CAPACITY
                                                          : (uint32_t)capacity;
}

// Reads the NUMA node of each CPU. Without the files of nodes, all remain in node 0.
static void read_nodes(reader_t* reader, pyd_topology_cpu_t* cpus, uint32_t count) {
  pyd_cpu_set_t nodes, members;
  uint32_t first;
  if (!read_list(reader, "/sys/devices/system/node", "/has_cpu", &nodes, &first)) return;
  for (uint32_t node = first; node < PYD_TOPOLOGY_MOST; ++node) {
    if (!pyd_cpu_set_has(&nodes, node)) continue;
    char name[32];
    uint32_t unused;
    snprintf(name, sizeof(name), "/node%u/cpulist", node);
    if (!read_list(reader, "/sys/devices/system/node", name, &members, &unused)) continue;
    for (uint32_t i = 0; i < count; ++i) {
      if (pyd_cpu_set_has(&members, cpus[i].number)) cpus[i].node = node;
    }
  }
}

// Decides which CPUs are fast: more than half as fast as the fastest, and no efficiency core. For hybrid CPUs of Intel,
// Linux lists the efficiency cores in cpu_atom; older kernels state no capacities of these CPUs.
static void find_fast(reader_t* reader, pyd_topology_cpu_t* cpus, uint32_t count) {
  pyd_cpu_set_t slow;
  uint32_t unused, best = 0;
  const bool has_slow = read_list(reader, "/sys/devices/cpu_atom", "/cpus", &slow, &unused);
  for (uint32_t i = 0; i < count; ++i) best = cpus[i].capacity > best ? cpus[i].capacity : best;
  bool has_fast = false;
  for (uint32_t i = 0; i < count; ++i) {
    cpus[i].is_fast = 2 * cpus[i].capacity > best && !(has_slow && pyd_cpu_set_has(&slow, cpus[i].number));
    has_fast |= cpus[i].is_fast;
  }
  for (uint32_t i = 0; i < count; ++i) cpus[i].is_fast |= !has_fast;  // all are efficiency cores
}

// Compares by the order in which threads are put on CPUs: fast cores, slow cores, then SMT siblings; inside of these,
// near CPUs follow each other.
static int by_preference(const void* left, const void* right) {
  const pyd_topology_cpu_t *a = left, *b = right;
  // Pairs of keys of |a| and |b|, the most important first; the lower key comes first.
  const uint32_t keys[][2] = {{a->is_sibling, b->is_sibling}, {!a->is_fast, !b->is_fast}, {a->node, b->node},
                              {a->cluster, b->cluster},       {a->core, b->core},         {a->number, b->number}};
  for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); ++i) {
    if (keys[i][0] != keys[i][1]) return keys[i][0] < keys[i][1] ? -1 : 1;
  }
  return 0;
}

// Lists the CPUs of the calling thread's affinity mask, at most |most|, in the order in which threads are put on them.
// Returns their number. |root| is put before every path that is read, "" but for tests.
uint32_t pyd_topology_read(const char* root, pyd_topology_cpu_t* out_cpus, uint32_t most) {
  reader_t reader = {.root = root};
  pyd_cpu_set_t allowed, cores = {{0}};    // cores: the groups with a CPU in the list
  if (!read_allowed(&reader, &allowed)) {  // no /proc
    const uint32_t available = pyd_cpu_available();
    memset(&allowed, 0, sizeof(allowed));
    for (uint32_t i = 0; i < available && i < PYD_TOPOLOGY_MOST; ++i) pyd_cpu_set_add(&allowed, i);
  }
  uint32_t count = 0;
  for (uint32_t number = 0; number < PYD_TOPOLOGY_MOST && count < most; ++number) {
    if (!pyd_cpu_set_has(&allowed, number)) continue;
    pyd_topology_cpu_t* cpu = &out_cpus[count++];
    *cpu = (pyd_topology_cpu_t){.number = number, .core = number, .capacity = PYD_TOPOLOGY_FULL_CAPACITY};
    char folder[64];
    snprintf(folder, sizeof(folder), "%s/cpu%u", kCpus, number);
    read_core(&reader, folder, cpu);
    read_cluster(&reader, folder, cpu);
    read_capacity(&reader, folder, cpu);
    cpu->is_sibling = pyd_cpu_set_has(&cores, cpu->core);  // a CPU of the same core is in the list already
    pyd_cpu_set_add(&cores, cpu->core);
  }
  read_nodes(&reader, out_cpus, count);
  find_fast(&reader, out_cpus, count);
  qsort(out_cpus, count, sizeof(*out_cpus), by_preference);
  return count;
}

// Returns the number of fast cores in a list of pyd_topology_read(), at most the CPU quota, at least 1. SMT siblings do
// not count. |root|: for pyd_cpu_quota().
uint32_t pyd_topology_cores(const char* root, const pyd_topology_cpu_t* cpus, uint32_t count) {
  uint32_t cores = 0;
  while (cores < count && cpus[cores].is_fast && !cpus[cores].is_sibling) ++cores;  // they are first in the list
  const uint32_t quota = pyd_cpu_quota(root);
  if (quota && quota < cores) cores = quota;
  return cores ? cores : 1;
}
