/* Tells a forked child that a connection is its parent's, without a system call: a page that the kernel clears in
 * children. Any thread, before any lock is taken. */
#pragma once

#include <stdbool.h>
#include <sys/types.h>

typedef struct {
  volatile unsigned char *page; /* owned; NULL: the kernel cannot, and pids are compared */
  pid_t pid;
} pjrtc_fork_guard;

void pjrtc_fork_guard_init(pjrtc_fork_guard *guard);
void pjrtc_fork_guard_deinit(pjrtc_fork_guard *guard);
bool pjrtc_fork_guard_is_child(const pjrtc_fork_guard *guard);
