/* A device buffer as sessions know it: an id, a resource to wait for, and the plugin's buffer once it exists.
 * Loop thread only. */
#pragma once

#include "state/runtime.h"

typedef struct pjrtd_buffer {
  pjrtd_resource resource; /* first */
  pjrtd_runtime *runtime;
  pjrtd_account *account;             /* retained: that it is on; NULL as long as it has no name */
  uint32_t names;                     /* ids and slots that it is known by */
  uint64_t id;                        /* the first of its ids; 0: it has none */
  pjrtd_device_buffer *device_buffer; /* owned; NULL until it is made and after it was consumed */
  size_t device_index;                /* where it is, or was */
  uint64_t bytes;                     /* on the device; counted in the stats */
  bool published;                     /* read-only, to its end: no execution may consume it */
  /* Retained, or NULL: what a slot that holds this one has instead, where this one comes to nothing. */
  struct pjrtd_buffer *fallback;
  pjrtd_job reap;
  uint64_t seen; /* a mark: finds a buffer that is named twice */
} pjrtd_buffer;

/* PENDING, without a name. One reference, the caller's. */
PJRTD_MUST_USE pjrtd_status *pjrtd_buffer_create(pjrtd_runtime *runtime, pjrtd_buffer **out_buffer);
/* Takes `device_buffer`, and makes the resource READY. */
void pjrtd_buffer_set(pjrtd_buffer *buffer, pjrtd_device_buffer *device_buffer);
/* One more name, with a reference; with the first, its bytes are on the account. NULL: on none. */
void pjrtd_buffer_add_name(pjrtd_buffer *buffer, pjrtd_account *account);
void pjrtd_buffer_drop_name(pjrtd_buffer *buffer);
/* A mark that no buffer has been `seen` with. */
uint64_t pjrtd_buffer_new_mark(void);
/* Takes an output that nobody keeps, or NULL; big ones are freed elsewhere. */
void pjrtd_device_buffer_discard(pjrtd_runtime *runtime, pjrtd_device_buffer *device_buffer);
/* After an execution that may have donated it: CONSUMED where it did. True then. */
bool pjrtd_buffer_update_consumed(pjrtd_buffer *buffer);
/* Why it cannot be used by whoever holds it; NULL: it can. The status is the caller's. */
PJRTD_MUST_USE pjrtd_status *pjrtd_buffer_check_usable(const pjrtd_buffer *buffer);
static inline pjrtd_buffer *pjrtd_buffer_of(pjrtd_resource *resource) {
  return (pjrtd_buffer *)resource;
}
