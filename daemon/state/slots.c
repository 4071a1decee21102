/* See slots.h. */
#include "state/slots.h"

#include <inttypes.h>
#include <string.h>

#include "base/hash.h"
#include "base/utf8.h"

static void let_go(pjrtd_slot *slot) {
  pjrtd_buffer *old = PJRTD_TAKE(slot->value);
  if (old) pjrtd_buffer_drop_name(old);
}

/* Where the step failed that made the value, the one before it counts again, unless the step consumed that. */
static void settle(pjrtd_slot *slot) {
  pjrtd_buffer *value = slot->value;
  while (value->resource.state == PJRTD_RESOURCE_FAILED && value->fallback &&
         value->fallback->resource.state != PJRTD_RESOURCE_CONSUMED)
    value = value->fallback;
  if (value == slot->value) return;
  pjrtd_buffer_add_name(value, slot->value->account);
  let_go(slot);
  slot->value = value;
}

/* The slot's place, or the free one where it belongs; NULL while there is no table. */
static pjrtd_slot *place_of(const pjrtd_slots *slots, const char *name, uint64_t hash) {
  if (!slots->capacity) return NULL;
  size_t at = hash & (slots->capacity - 1);
  while (slots->places[at].name && (slots->places[at].hash != hash || strcmp(slots->places[at].name, name) != 0))
    at = (at + 1) & (slots->capacity - 1);
  return &slots->places[at];
}

static pjrtd_status *make_room(pjrtd_slots *slots) {
  if (slots->count < slots->capacity / 2) return PJRTD_OK;
  pjrtd_slots larger = {.capacity = slots->capacity ? slots->capacity * 2 : 16, .count = slots->count};
  larger.places = pjrtd_calloc(larger.capacity, sizeof *larger.places);
  if (!larger.places) return pjrtd_status_oom();
  for (size_t i = 0; i < slots->capacity; i++)
    if (slots->places[i].name) *place_of(&larger, slots->places[i].name, slots->places[i].hash) = slots->places[i];
  pjrtd_free(slots->places);
  *slots = larger;
  return PJRTD_OK;
}

pjrtd_status *pjrtd_slots_check_count(size_t count) {
  if (count <= PJRTD_MAX_SLOTS_AT_ONCE) return PJRTD_OK;
  return PJRTD_INVALID("%zu slots in one request, at most %d are allowed", count, PJRTD_MAX_SLOTS_AT_ONCE);
}

pjrtd_status *pjrtd_slots_check_room(const pjrtd_slots *slots, size_t made, uint64_t most) {
  if (slots->count + made <= most) return PJRTD_OK;
  return pjrtd_status_with_hint(
      pjrtd_status_make(PJRTD_CODE_RESOURCE_EXHAUSTED, "the session has %zu slots, and may have %" PRIu64, slots->count,
                        most),
      "unbind some, or raise max_session_slots");
}

pjrtd_status *pjrtd_slots_check_name(const char *name) {
  size_t length = strlen(name);
  if (length == 0 || length > PJRTD_MAX_SLOT_NAME)
    return PJRTD_INVALID("a slot's name has 1 to %d bytes, this one %zu", PJRTD_MAX_SLOT_NAME, length);
  for (size_t at = 0; at < length;) {
    uint32_t point;
    size_t size = pjrtd_utf8_decode(name + at, length - at, &point);
    if (!size || point < ' ' || point == 0x7f)
      return PJRTD_INVALID("a slot's name is UTF-8 without control characters, byte %zu of this one is neither", at);
    at += size;
  }
  return PJRTD_OK;
}

/* Finds it or makes it; a new one has no value. */
static pjrtd_status *enter(pjrtd_slots *slots, const char *name, size_t most, pjrtd_slot **out_slot) {
  PJRTD_TRY(pjrtd_slots_check_name(name));
  uint64_t hash = pjrtd_hash_bytes(name, strlen(name));
  *out_slot = place_of(slots, name, hash);
  if (*out_slot && (*out_slot)->name) return PJRTD_OK;
  if (slots->count >= most)
    return pjrtd_status_with_hint(pjrtd_status_make(PJRTD_CODE_RESOURCE_EXHAUSTED,
                                                    "the session has %zu slots, the most it may have", slots->count),
                                  "unbind some, or raise max_session_slots");
  PJRTD_TRY(make_room(slots));
  char *own = pjrtd_strdup(name);
  if (!own) return pjrtd_status_oom();
  *out_slot = place_of(slots, name, hash);
  **out_slot = (pjrtd_slot){.name = own, .hash = hash};
  slots->count++;
  return PJRTD_OK;
}

pjrtd_status *pjrtd_slots_bind(pjrtd_slots *slots, const char *name, pjrtd_buffer *buffer, pjrtd_account *account,
                               size_t most) {
  pjrtd_slot *slot;
  PJRTD_TRY(enter(slots, name, most, &slot));
  pjrtd_buffer_add_name(buffer, account);
  let_go(slot);
  slot->value = buffer;
  return PJRTD_OK;
}

pjrtd_status *pjrtd_slots_feed(pjrtd_slots *slots, const char *name, pjrtd_buffer *output, pjrtd_account *account,
                               size_t most) {
  pjrtd_slot *slot;
  PJRTD_TRY(enter(slots, name, most, &slot));
  pjrtd_buffer_add_name(output, account);
  if (slot->value) {
    settle(slot);
    pjrtd_resource_retain(&slot->value->resource);
    output->fallback = slot->value;
  }
  let_go(slot);
  slot->value = output;
  return PJRTD_OK;
}

pjrtd_buffer *pjrtd_slots_find(pjrtd_slots *slots, const char *name) {
  pjrtd_slot *slot = place_of(slots, name, pjrtd_hash_bytes(name, strlen(name)));
  if (!slot || !slot->name) return NULL;
  settle(slot);
  return slot->value;
}

bool pjrtd_slots_unbind(pjrtd_slots *slots, const char *name) {
  pjrtd_slot *slot = place_of(slots, name, pjrtd_hash_bytes(name, strlen(name)));
  if (!slot || !slot->name) return false;
  let_go(slot);
  pjrtd_free(slot->name);
  *slot = (pjrtd_slot){0};
  slots->count--;
  /* What was put behind it because its place was taken moves up. */
  size_t mask = slots->capacity - 1, hole = (size_t)(slot - slots->places);
  for (size_t at = (hole + 1) & mask; slots->places[at].name; at = (at + 1) & mask) {
    size_t home = slots->places[at].hash & mask;
    if (((at - home) & mask) < ((at - hole) & mask)) continue;
    slots->places[hole] = slots->places[at];
    slots->places[at] = (pjrtd_slot){0};
    hole = at;
  }
  return true;
}

const pjrtd_slot *pjrtd_slots_at(pjrtd_slots *slots, size_t place) {
  pjrtd_slot *slot = &slots->places[place];
  if (!slot->name) return NULL;
  settle(slot);
  return slot;
}

void pjrtd_slots_drop_at(pjrtd_slots *slots, size_t place) {
  let_go(&slots->places[place]);
}

void pjrtd_slots_deinit(pjrtd_slots *slots) {
  for (size_t i = 0; i < slots->capacity; i++) {
    let_go(&slots->places[i]);
    pjrtd_free(slots->places[i].name);
  }
  pjrtd_free(slots->places);
  *slots = (pjrtd_slots){0};
}
