/* A device buffer as sessions know it: an id, a resource to wait for, and the plugin's buffer once it exists.
 * Loop thread only. */
#pragma once

#include "state/runtime.h"

typedef struct pjrtd_buffer {
  pjrtd_resource resource; /* first */
  pjrtd_runtime *runtime;
  pjrtd_session *session; /* NULL once it has no name */
  uint64_t id;
  pjrtd_device_buffer *device_buffer; /* owned; NULL until it is made and after it was consumed */
  uint64_t bytes;                     /* on the device; counted in the stats */
  pjrtd_job reap;
  uint64_t seen; /* the check that met it last: finds a buffer that is named twice */
} pjrtd_buffer;

/* PENDING, without a name. One reference, the caller's. */
PJRTD_MUST_USE pjrtd_status *pjrtd_buffer_create(pjrtd_runtime *runtime, pjrtd_buffer **out_buffer);
/* Takes `device_buffer`, and makes the resource READY. */
void pjrtd_buffer_set(pjrtd_buffer *buffer, pjrtd_device_buffer *device_buffer);
/* Takes an output that nobody keeps, or NULL; big ones are freed elsewhere. */
void pjrtd_device_buffer_discard(pjrtd_runtime *runtime, pjrtd_device_buffer *device_buffer);
/* After an execution that may have donated it: CONSUMED where it did. True then. */
bool pjrtd_buffer_update_consumed(pjrtd_buffer *buffer);
/* Why it cannot be used by whoever holds it; NULL: it can. The status is the caller's. */
PJRTD_MUST_USE pjrtd_status *pjrtd_buffer_check_usable(const pjrtd_buffer *buffer);
static inline pjrtd_buffer *pjrtd_buffer_of(pjrtd_resource *resource) {
  return (pjrtd_buffer *)resource;
}
