/* The named slots of a session: each holds a buffer, also once its id was deleted. Loop thread only.
 *
 * A step may feed its output back into a slot before it has run: the slot has the new value at once, for calls that
 * come later to wait for. Where the step fails, it has the value before that again, unless that was consumed. */
#pragma once

#include "state/buffer.h"

#define PJRTD_MAX_SLOT_NAME 255
#define PJRTD_MAX_SLOTS_AT_ONCE 8192 /* that one request may name or list: a turn's work */

typedef struct {
  char *name; /* owned; NULL: the place is free */
  uint64_t hash;
  pjrtd_buffer *value; /* with a name of its own */
} pjrtd_slot;

typedef struct {
  pjrtd_slot *places; /* owned; open addressing */
  size_t capacity, count;
} pjrtd_slots;

/* Zeroed slots are empty. Releases what is left of the buffers. */
void pjrtd_slots_deinit(pjrtd_slots *slots);
/* INVALID_ARGUMENT where these are more than one request may name. */
PJRTD_MUST_USE pjrtd_status *pjrtd_slots_check_count(size_t count);
/* RESOURCE_EXHAUSTED where `made` more would be beyond `most`. */
PJRTD_MUST_USE pjrtd_status *pjrtd_slots_check_room(const pjrtd_slots *slots, size_t made, uint64_t most);
/* INVALID_ARGUMENT where a slot cannot be called so. */
PJRTD_MUST_USE pjrtd_status *pjrtd_slots_check_name(const char *name);
/* Puts the buffer into the slot, which is made where there is none, on that account (NULL: nobody's).
 * RESOURCE_EXHAUSTED beyond `most`. */
PJRTD_MUST_USE pjrtd_status *pjrtd_slots_bind(pjrtd_slots *slots, const char *name, pjrtd_buffer *buffer,
                                              pjrtd_account *account, size_t most);
/* The same with the output of a step, PENDING and in no other slot: where it comes to nothing the slot has what it had
 * before. */
PJRTD_MUST_USE pjrtd_status *pjrtd_slots_feed(pjrtd_slots *slots, const char *name, pjrtd_buffer *output,
                                              pjrtd_account *account, size_t most);
/* What the slot holds now, borrowed; NULL: there is no such slot. */
pjrtd_buffer *pjrtd_slots_find(pjrtd_slots *slots, const char *name);
/* False: there was none. */
bool pjrtd_slots_unbind(pjrtd_slots *slots, const char *name);
/* To walk through them: places 0 to capacity - 1, settled; NULL for a free one. */
const pjrtd_slot *pjrtd_slots_at(pjrtd_slots *slots, size_t place);
/* Lets go of what the place holds; only for slots that nobody will look into again but by this and deinit. */
void pjrtd_slots_drop_at(pjrtd_slots *slots, size_t place);
