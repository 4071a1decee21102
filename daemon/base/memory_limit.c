/* See memory_limit.h. */
#include "base/memory_limit.h"

#include <inttypes.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

/* The number in the file; false where there is no such file or it says "max". */
static bool read_number(const char *path, uint64_t *out_value) {
  FILE *file = fopen(path, "re");
  if (!file) return false;
  bool found = fscanf(file, "%" SCNu64, out_value) == 1;
  fclose(file);
  return found;
}

static void lower_to(uint64_t *limit, uint64_t value) {
  if (value && value < *limit) *limit = value;
}

/* Follows the group's path up to the mount: a limit of any of them holds. In a container the path may be one of the
 * host's, that cannot be seen: then the mount itself is the group. */
static void follow_group(const char *root, const char *mount, const char *group, const char *file, uint64_t *limit) {
  char at[PATH_MAX], path[PATH_MAX * 2];
  snprintf(at, sizeof at, "%s", group);
  for (;;) {
    uint64_t value;
    snprintf(path, sizeof path, "%s%s%s/%s", root, mount, at, file);
    if (read_number(path, &value)) lower_to(limit, value);
    char *slash = strrchr(at, '/');
    if (!slash) return;
    *slash = 0;
  }
}

static uint64_t physical_bytes(const char *root) {
  char path[PATH_MAX], row[256];
  uint64_t kib = 0;
  snprintf(path, sizeof path, "%s/proc/meminfo", root);
  FILE *file = fopen(path, "re");
  while (file && !kib && fgets(row, sizeof row, file)) sscanf(row, "MemTotal: %" SCNu64 " kB", &kib);
  if (file) fclose(file);
  return kib ? kib * 1024 : UINT64_MAX;
}

uint64_t pjrtd_memory_limit_bytes(const char *root) {
  uint64_t limit = physical_bytes(root);
  char path[PATH_MAX], row[PATH_MAX];
  snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
  FILE *file = fopen(path, "re");
  while (file && fgets(row, sizeof row, file)) {
    /* "0::/group" is v2's; "5:memory:/group" is v1's. */
    row[strcspn(row, "\n")] = 0;
    char *controllers = strchr(row, ':');
    char *group = controllers ? strchr(controllers + 1, ':') : NULL;
    if (!group) continue;
    *group++ = 0;
    controllers++;
    if (!*controllers)
      follow_group(root, "/sys/fs/cgroup", group, "memory.max", &limit);
    else if (strcmp(controllers, "memory") == 0)
      follow_group(root, "/sys/fs/cgroup/memory", group, "memory.limit_in_bytes", &limit);
  }
  if (file) fclose(file);
  return limit;
}
