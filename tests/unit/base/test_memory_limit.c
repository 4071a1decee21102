/* base/memory_limit.c, on a tree of files that looks like /proc and /sys. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory_limit.h"

#define MIB ((uint64_t)1 << 20)

static char root[] = "/tmp/pjrtd-root-XXXXXX";

static void write_file(const char *path, const char *text) {
  char full[512];
  snprintf(full, sizeof full, "%s%s", root, path);
  for (char *at = full + strlen(root) + 1; (at = strchr(at, '/')); at++) {
    *at = 0;
    mkdir(full, 0700);
    *at = '/';
  }
  FILE *file = fopen(full, "w");
  cr_assert_not_null(file, "%s", full);
  fputs(text, file);
  fclose(file);
}

static void setup(void) {
  cr_assert_not_null(mkdtemp(root));
  write_file("/proc/meminfo", "MemTotal:        1048576 kB\nMemFree:          1 kB\n");
}

static void teardown(void) {
  char command[64];
  snprintf(command, sizeof command, "rm -rf %s", root);
  cr_assert_eq(system(command), 0);
}

TestSuite(memory_limit, .init = setup, .fini = teardown);

Test(memory_limit, is_the_machines_memory_without_a_group) {
  cr_assert_eq(pjrtd_memory_limit_bytes(root), 1024 * MIB);
}

Test(memory_limit, is_the_least_along_the_path_of_a_v2_group) {
  write_file("/proc/self/cgroup", "0::/a/b\n");
  write_file("/sys/fs/cgroup/a/b/memory.max", "max\n");
  cr_assert_eq(pjrtd_memory_limit_bytes(root), 1024 * MIB);
  write_file("/sys/fs/cgroup/a/memory.max", "104857600\n");
  cr_assert_eq(pjrtd_memory_limit_bytes(root), 100 * MIB);
  write_file("/sys/fs/cgroup/a/b/memory.max", "52428800\n");
  cr_assert_eq(pjrtd_memory_limit_bytes(root), 50 * MIB);
}

Test(memory_limit, is_that_of_the_mount_where_a_container_hides_the_path) {
  write_file("/proc/self/cgroup", "0::/docker/abc\n");
  write_file("/sys/fs/cgroup/memory.max", "104857600\n");
  cr_assert_eq(pjrtd_memory_limit_bytes(root), 100 * MIB);
}

Test(memory_limit, reads_the_memory_controller_of_v1) {
  write_file("/proc/self/cgroup", "9:cpu:/x\n5:memory:/a\n");
  write_file("/sys/fs/cgroup/memory/a/memory.limit_in_bytes", "104857600\n");
  write_file("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1048576\n");
  write_file("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  cr_assert_eq(pjrtd_memory_limit_bytes(root), 100 * MIB);
}

Test(memory_limit, ignores_a_limit_above_the_machine) {
  write_file("/proc/self/cgroup", "0::/\n");
  write_file("/sys/fs/cgroup/memory.max", "9223372036854771712\n");
  cr_assert_eq(pjrtd_memory_limit_bytes(root), 1024 * MIB);
}

Test(memory_limit, of_this_machine_is_plausible) {
  uint64_t limit = pjrtd_memory_limit_bytes("");
  cr_assert(limit >= 64 * MIB && limit <= (uint64_t)sysconf(_SC_PHYS_PAGES) * (uint64_t)sysconf(_SC_PAGESIZE) * 2);
}
