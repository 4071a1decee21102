/* How much memory this process may use. Any thread. */
#pragma once

#include <stdint.h>

/* The least of the machine's memory and the limits of the control groups (v2 and v1) that the process is in.
 * `root` stands in front of /proc and /sys: "" but in tests. */
uint64_t pjrtd_memory_limit_bytes(const char *root);
