/* The named slots of a session: each holds a buffer, also once its id was deleted. Loop thread only.
 *
 * A step may feed its output back into a slot before it has run: the slot has the new value at once, for calls that
 * come later to wait for, and keeps the last good one until it is known how the step went. */
#pragma once

#include "state/buffer.h"

#define PJRTD_MAX_SLOT_NAME 255

typedef struct {
  char *name; /* owned; NULL: the place is free */
  uint64_t hash;
  pjrtd_buffer *value; /* retained */
  pjrtd_buffer *good;  /* retained, or NULL: what `value` takes the place of, as long as it is pending */
} pjrtd_slot;

typedef struct {
  pjrtd_slot *places; /* owned; open addressing */
  size_t capacity, count;
} pjrtd_slots;

/* Zeroed slots are empty. Releases the buffers. */
void pjrtd_slots_deinit(pjrtd_slots *slots);
/* Puts the buffer into the slot, which is made where there is none; retains it. RESOURCE_EXHAUSTED beyond `most`. */
PJRTD_MUST_USE pjrtd_status *pjrtd_slots_bind(pjrtd_slots *slots, const char *name, pjrtd_buffer *buffer, size_t most);
/* The same, but where `buffer` comes to nothing the slot has what it had before. */
PJRTD_MUST_USE pjrtd_status *pjrtd_slots_feed(pjrtd_slots *slots, const char *name, pjrtd_buffer *buffer, size_t most);
/* What the slot holds now, borrowed; NULL: there is no such slot. */
pjrtd_buffer *pjrtd_slots_find(pjrtd_slots *slots, const char *name);
/* False: there was none. */
bool pjrtd_slots_unbind(pjrtd_slots *slots, const char *name);
/* To walk through them: places 0 to capacity - 1, settled; NULL for a free one. */
const pjrtd_slot *pjrtd_slots_at(pjrtd_slots *slots, size_t place);
