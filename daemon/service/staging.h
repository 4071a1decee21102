/* Host memory for bulk data on its way in or out: page aligned, counted, and limited together with the buffers.
 * Loop thread. */
#pragma once

#include "state/runtime.h"

typedef struct {
  void *data; /* NULL: none */
  uint64_t size_bytes;
} pjrtd_staging;

/* RESOURCE_EXHAUSTED beyond the limit. Pages are touched by whoever writes them. */
PJRTD_MUST_USE pjrtd_status *pjrtd_staging_init(pjrtd_staging *staging, pjrtd_runtime *runtime, uint64_t size_bytes,
                                                const char *what);
void pjrtd_staging_deinit(pjrtd_staging *staging, pjrtd_runtime *runtime);
