/* See fork_guard.h. */
#include "fork_guard.h"

#include <sys/mman.h>
#include <unistd.h>

void pjrtc_fork_guard_init(pjrtc_fork_guard *guard) {
  guard->pid = getpid();
  guard->page = NULL;
  size_t page_bytes = (size_t)sysconf(_SC_PAGESIZE);
  void *page = mmap(NULL, page_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return;
  if (madvise(page, page_bytes, MADV_WIPEONFORK) != 0) {
    munmap(page, page_bytes);
    return;
  }
  guard->page = page;
  *guard->page = 1;
}

void pjrtc_fork_guard_deinit(pjrtc_fork_guard *guard) {
  if (guard->page) munmap((void *)guard->page, (size_t)sysconf(_SC_PAGESIZE));
  guard->page = NULL;
}

bool pjrtc_fork_guard_is_child(const pjrtc_fork_guard *guard) {
  return guard->page ? *guard->page == 0 : getpid() != guard->pid;
}
