// CPUs and caches on Linux: affinity mask, cgroup quota, and sizes of caches from /sys.
#include "platform/cpu.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pydispatch/cpu.h"

// Returns the number of CPUs in the calling thread's affinity mask; the online CPUs if the mask cannot be read. The set
// grows until the kernel's mask fits: EINVAL means that the set is smaller than that.
static uint32_t affinity_count(void) {
  for (int cpus = 1024; cpus <= 1 << 20; cpus *= 4) {
    cpu_set_t* set = CPU_ALLOC(cpus);
    if (!set) break;
    size_t size = CPU_ALLOC_SIZE(cpus);
    int result = sched_getaffinity(0, size, set);
    int count = result == 0 ? CPU_COUNT_S(size, set) : 0;
    bool is_too_small = result != 0 && errno == EINVAL;
    CPU_FREE(set);
    if (result == 0 && count > 0) return (uint32_t)count;
    if (!is_too_small) break;
  }
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (uint32_t)online : 1;
}

uint32_t pyd_cpu_available(void) {
  uint32_t cpus = affinity_count(), quota = pyd_cpu_quota("");
  return quota && quota < cpus ? quota : cpus;
}

// Reads the text of a file of the system and terminates it: at most |size| - 1 bytes, the rest is cut off. Returns
// false when it cannot be read or is empty.
static bool read_text(const char* path, char* out_text, size_t size) {
  FILE* file = fopen(path, "re");
  if (!file) return false;
  size_t length = fread(out_text, 1, size - 1, file);
  fclose(file);
  out_text[length] = 0;
  return length > 0;
}

// Returns |quota| / |period| (microseconds of CPU time per microseconds of wall time) rounded up to whole CPUs; 0: no
// limit. cgroup v1 states "no limit" as quota -1.
static uint32_t cpus_of(long long quota, long long period) {
  if (quota <= 0 || period <= 0) return 0;
  long long cpus = quota / period + (quota % period != 0);
  return cpus > INT_MAX ? 0 : (uint32_t)cpus;
}

// Lowers |*limit| to |cpus|. 0 means "no limit" in both.
static void lower(uint32_t* limit, uint32_t cpus) {
  if (cpus && (!*limit || cpus < *limit)) *limit = cpus;
}

// Returns the CPU limit that the files in the folder of one cgroup state, in whole CPUs; 0: none. Version 2 has the
// file cpu.max, version 1 has cpu.cfs_quota_us and cpu.cfs_period_us.
static uint32_t folder_quota(const char* folder, bool is_v2) {
  char path[PATH_MAX], text[64];
  long long quota = 0, period = 0;
  if (is_v2) {
    if (snprintf(path, sizeof(path), "%s/cpu.max", folder) >= (int)sizeof(path)) return 0;
    // "150000 100000" (quota, period), or "max 100000" for no limit, which is no number and ends the scan
    if (!read_text(path, text, sizeof(text)) || sscanf(text, "%lld %lld", &quota, &period) != 2) return 0;
    return cpus_of(quota, period);
  }
  if (snprintf(path, sizeof(path), "%s/cpu.cfs_quota_us", folder) >= (int)sizeof(path)) return 0;
  if (!read_text(path, text, sizeof(text)) || sscanf(text, "%lld", &quota) != 1) return 0;
  if (snprintf(path, sizeof(path), "%s/cpu.cfs_period_us", folder) >= (int)sizeof(path)) return 0;
  if (!read_text(path, text, sizeof(text)) || sscanf(text, "%lld", &period) != 1) return 0;
  return cpus_of(quota, period);
}

// Returns the lowest limit, in whole CPUs, of the folders from |mount| + |group| up to |mount|; 0: none. A limit of a
// cgroup also holds for the cgroups below it.
static uint32_t walk_up(const char* mount, const char* group, bool is_v2) {
  char folder[PATH_MAX];
  if (snprintf(folder, sizeof(folder), "%s%s", mount, group) >= (int)sizeof(folder)) return 0;
  uint32_t limit = 0;
  size_t floor = strlen(mount);
  for (;;) {
    lower(&limit, folder_quota(folder, is_v2));
    char* slash = strrchr(folder, '/');
    if (!slash || (size_t)(slash - folder) < floor) return limit;
    *slash = 0;
  }
}

// Returns whether |word| is in the comma-separated |list|.
static bool lists(const char* list, const char* word) {
  size_t length = strlen(word);
  for (const char* item = list; item;) {
    if (strncmp(item, word, length) == 0 && (item[length] == 0 || item[length] == ',')) return true;
    const char* comma = strchr(item, ',');
    item = comma ? comma + 1 : NULL;
  }
  return false;
}

// Copies the path of the process's cgroup to |out_group|: in the hierarchy with the cpu controller (v1), or in the
// unified hierarchy (v2). Returns false if the process is in no such cgroup. |root|: a folder before the path of /proc,
// for tests.
static bool find_group(const char* root, bool is_v2, char* out_group, size_t size) {
  char path[PATH_MAX], line[PATH_MAX];
  snprintf(path, sizeof(path), "%s/proc/self/cgroup", root);
  FILE* file = fopen(path, "re");
  bool has_group = false;
  while (file && !has_group && fgets(line, sizeof(line), file)) {  // id:controllers:path, in v2 without controllers
    line[strcspn(line, "\n")] = 0;
    char* controllers = strchr(line, ':');
    char* group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) continue;
    *group++ = 0;
    ++controllers;
    has_group = is_v2 ? *controllers == 0 : lists(controllers, "cpu");
    if (has_group) has_group = snprintf(out_group, size, "%s", group) < (int)size;
  }
  if (file) fclose(file);
  return has_group;
}

// Returns whether |c| is an octal digit.
static bool is_octal(char c) { return c >= '0' && c <= '7'; }

// Replaces the escapes of a path of /proc/self/mountinfo by their characters, in place: a space, tab, line end or
// backslash is written as a backslash and three octal digits there.
static void unescape(char* path) {
  char* out = path;
  for (const char* at = path; *at; ++out) {
    bool is_escape = at[0] == '\\' && is_octal(at[1]) && is_octal(at[2]) && is_octal(at[3]);
    *out = is_escape ? (char)((at[1] - '0') << 6 | (at[2] - '0') << 3 | (at[3] - '0')) : *at;
    at += is_escape ? 4 : 1;
  }
  *out = 0;
}

// Reads the root and the mount point, of PATH_MAX / 2 bytes each, from a line of mountinfo. Returns false for a mount
// that is not of the unified hierarchy (v2), or not of the one with the cpu controller (v1).
static bool read_mount(const char* line, bool is_v2, char* out_root, char* out_point) {
  char type[32], super[256];
  // The line: id parent dev root point options ... - type source superoptions
  const char* tail = strstr(line, " - ");
  if (!tail || sscanf(line, "%*s %*s %*s %2047s %2047s", out_root, out_point) != 2) return false;
  if (sscanf(tail, " - %31s %*s %255s", type, super) != 2) return false;
  if (strcmp(type, is_v2 ? "cgroup2" : "cgroup") != 0 || (!is_v2 && !lists(super, "cpu"))) return false;
  unescape(out_root);
  unescape(out_point);
  return true;
}

// Returns the path of a cgroup below the root of a mount: of the group "/a/b", "/b" is below the root "/a". Returns ""
// for the root itself and for a group that is not below it.
static const char* path_below(const char* group, const char* root) {
  size_t cut = strcmp(root, "/") == 0 ? 0 : strlen(root);
  bool is_inside = strncmp(group, root, cut) == 0 && (cut == 0 || group[cut] == '/' || group[cut] == 0);
  const char* below = is_inside ? group + cut : "";
  return strcmp(below, "/") == 0 ? "" : below;
}

// Returns the lowest CPU limit of the process's cgroup and of the cgroups above it, in whole CPUs; 0: none. Reads all
// mounts of the unified hierarchy (v2), or of the one with the cpu controller (v1). A mount may show only the cgroups
// below its root, as in containers: this root is then removed from the front of the group's path. A group that is not
// below this root (another namespace) is not visible, and the cgroup at the mount point is read instead. |root| is put
// before every path that is read.
static uint32_t hierarchy_quota(const char* root, bool is_v2) {
  char group[PATH_MAX], path[PATH_MAX], line[2 * PATH_MAX];
  if (!find_group(root, is_v2, group, sizeof(group))) return 0;
  snprintf(path, sizeof(path), "%s/proc/self/mountinfo", root);
  FILE* file = fopen(path, "re");
  uint32_t limit = 0;
  while (file && fgets(line, sizeof(line), file)) {
    char mount_root[PATH_MAX / 2], point[PATH_MAX / 2];
    if (!read_mount(line, is_v2, mount_root, point)) continue;
    if (snprintf(path, sizeof(path), "%s%s", root, point) < (int)sizeof(path)) {
      lower(&limit, walk_up(path, path_below(group, mount_root), is_v2));
    }
  }
  if (file) fclose(file);
  return limit;
}

// Returns the CPU limit of the process's cgroup in whole CPUs; 0 if there is none. A system may use cgroups v2 and v1
// at once: then it is the lower one of two limits. |root| is put before every path that is read, "" but for tests.
uint32_t pyd_cpu_quota(const char* root) {
  uint32_t limit = hierarchy_quota(root, /* is_v2 */ true);
  lower(&limit, hierarchy_quota(root, /* is_v2 */ false));
  return limit;
}

// Parses a size such as "32K", "1M" or "512", in bytes.
static uint64_t parse_size(const char* text) {
  char* end;
  unsigned long long value = strtoull(text, &end, 10);
  if (*end == 'K') return value << 10;
  if (*end == 'M') return value << 20;
  return value;
}

// Returns the sizes in bytes of CPU 0's first-level data cache and second-level cache; 0 for unknown ones. Reads /sys,
// and queries the C library for those that are not stated there.
void pyd_cpu_cache_sizes(uint64_t* out_l1_data, uint64_t* out_l2) {
  *out_l1_data = *out_l2 = 0;
  for (int index = 0; index < 8; ++index) {  // more caches than a CPU has
    char path[96], level[16], type[32], size[32];
    const char* folder = "/sys/devices/system/cpu/cpu0/cache/index";  // CPU 0 stands for all
    snprintf(path, sizeof(path), "%s%d/level", folder, index);
    if (!read_text(path, level, sizeof(level))) break;
    snprintf(path, sizeof(path), "%s%d/type", folder, index);
    if (!read_text(path, type, sizeof(type)) || strncmp(type, "Instruction", 11) == 0) continue;
    snprintf(path, sizeof(path), "%s%d/size", folder, index);
    if (!read_text(path, size, sizeof(size))) continue;
    if (level[0] == '1') *out_l1_data = parse_size(size);
    if (level[0] == '2') *out_l2 = parse_size(size);
  }
#if defined(_SC_LEVEL1_DCACHE_SIZE)
  long value;
  if (!*out_l1_data && (value = sysconf(_SC_LEVEL1_DCACHE_SIZE)) > 0) *out_l1_data = (uint64_t)value;
  if (!*out_l2 && (value = sysconf(_SC_LEVEL2_CACHE_SIZE)) > 0) *out_l2 = (uint64_t)value;
#endif
}
