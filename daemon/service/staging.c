/* See staging.h. */
#include "service/staging.h"

#include <errno.h>
#include <sys/mman.h>

pjrtd_status *pjrtd_staging_init(pjrtd_staging *staging, pjrtd_runtime *runtime, uint64_t size_bytes,
                                 const char *what) {
  *staging = (pjrtd_staging){0};
  PJRTD_TRY(pjrtd_runtime_check_memory(runtime, size_bytes, what));
  void *data = mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return pjrtd_status_from_errno(errno, "mapping memory for %s", what);
  /* Fewer page faults where the kernel has huge pages; fine where not. */
  if (size_bytes >= (2u << 20)) madvise(data, size_bytes, MADV_HUGEPAGE);
  *staging = (pjrtd_staging){data, size_bytes};
  runtime->stats.staging_bytes += size_bytes;
  return PJRTD_OK;
}

void pjrtd_staging_deinit(pjrtd_staging *staging, pjrtd_runtime *runtime) {
  if (!staging->data) return;
  munmap(staging->data, staging->size_bytes);
  runtime->stats.staging_bytes -= staging->size_bytes;
  *staging = (pjrtd_staging){0};
}
