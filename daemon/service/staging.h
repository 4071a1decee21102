/* Host memory for bulk data on its way in or out: page aligned, counted, and limited together with the buffers.
 * Loop thread, but for release. */
#pragma once

#include "state/runtime.h"

typedef struct pjrtd_staging pjrtd_staging;
struct pjrtd_staging {
  pjrtd_pages *pages; /* owned; the runtime's pool's */
  void *data;
  uint64_t size_bytes;
  pjrtd_runtime *runtime;
  bool counted;            /* in staging_bytes */
  pjrtd_staging **watcher; /* set to NULL when it is destroyed; may be NULL */
  pjrtd_job job;           /* dropping pages, or touching them ahead */
  pjrtd_message released;
  uint64_t touched_bytes; /* pages that are there already, from the start */
  bool touching, doomed;
};

/* RESOURCE_EXHAUSTED beyond the limit. Pages are touched by whoever writes them. */
PJRTD_MUST_USE pjrtd_status *pjrtd_staging_create(pjrtd_runtime *runtime, uint64_t size_bytes, const char *what,
                                                  pjrtd_staging **out_staging);
/* NULL is fine. To drop pages takes time in proportion to the size, so those of big ones are left to another thread. */
void pjrtd_staging_destroy(pjrtd_staging *staging);
/* A device buffer has adopted the pages: they are counted as its bytes from here on. */
void pjrtd_staging_uncount(pjrtd_staging *staging);
/* Bytes up to here have been written, in order: another thread touches the pages that come next, since the page faults
 * of fresh memory cost more than the copy into it. */
void pjrtd_staging_advance(pjrtd_staging *staging, uint64_t written_bytes);
/* Destroys it on the loop, later. Any thread. */
void pjrtd_staging_release(pjrtd_staging *staging);
