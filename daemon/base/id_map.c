/* See id_map.h. */
#include "base/id_map.h"

#include <sys/random.h>

#define FIRST_CAPACITY 16

/* Clients choose the ids: without a secret they could choose ones that collide. */
static uint64_t secret;

__attribute__((constructor)) static void make_secret(void) {
  if (getrandom(&secret, sizeof secret, GRND_NONBLOCK) != sizeof secret) secret = (uint64_t)(uintptr_t)&secret;
}

/* In the old table: what was here has moved or gone, but a probe goes on. No client's id: its top bits are all set. */
#define MOVED UINT64_MAX
/* Old slots that are emptied with each change. */
#define MOVES 16

static uint64_t home_of(uint64_t id, uint64_t capacity) {
  uint64_t mixed = (id ^ secret) * UINT64_C(0xff51afd7ed558ccd);
  mixed = (mixed ^ mixed >> 32) * UINT64_C(0xc4ceb9fe1a85ec53);
  return (mixed ^ mixed >> 29) & (capacity - 1);
}

static pjrtd_id_slot *find_slot(pjrtd_id_slot *slots, uint64_t capacity, uint64_t id) {
  if (!capacity) return NULL;
  for (uint64_t at = home_of(id, capacity); slots[at].id; at = (at + 1) & (capacity - 1))
    if (slots[at].id == id) return &slots[at];
  return NULL;
}

static void put(pjrtd_id_map *map, uint64_t id, void *value) {
  uint64_t at = home_of(id, map->capacity);
  while (map->slots[at].id) at = (at + 1) & (map->capacity - 1);
  map->slots[at] = (pjrtd_id_slot){id, value};
}

static void move_some(pjrtd_id_map *map, uint64_t most) {
  for (; map->old_slots && most; most--) {
    pjrtd_id_slot *slot = &map->old_slots[map->old_at++];
    if (slot->id && slot->id != MOVED) {
      put(map, slot->id, slot->value);
      slot->id = MOVED;
    }
    if (map->old_at < map->old_capacity) continue;
    pjrtd_free(map->old_slots);
    map->old_slots = NULL;
    map->old_capacity = map->old_at = 0;
  }
}

static pjrtd_status *resize(pjrtd_id_map *map, uint64_t capacity) {
  pjrtd_id_slot *slots = pjrtd_calloc(capacity, sizeof *slots);
  if (!slots) return pjrtd_status_oom();
  move_some(map, UINT64_MAX); /* there is nothing left, or little: a table fills slower than it moves */
  map->old_slots = map->slots;
  map->old_capacity = map->capacity;
  map->old_at = 0;
  map->slots = slots;
  map->capacity = capacity;
  if (map->old_capacity <= MOVES) move_some(map, UINT64_MAX);
  return PJRTD_OK;
}

void pjrtd_id_map_deinit(pjrtd_id_map *map) {
  pjrtd_free(map->slots);
  pjrtd_free(map->old_slots);
  *map = (pjrtd_id_map){0};
}

void *pjrtd_id_map_find(const pjrtd_id_map *map, uint64_t id) {
  if (!id || id == MOVED) return NULL;
  pjrtd_id_slot *slot = find_slot(map->slots, map->capacity, id);
  if (!slot) slot = find_slot(map->old_slots, map->old_capacity, id);
  return slot ? slot->value : NULL;
}

pjrtd_status *pjrtd_id_map_reserve(pjrtd_id_map *map, uint64_t more) {
  uint64_t capacity = map->capacity ? map->capacity : FIRST_CAPACITY;
  while ((map->count + more) * 4 > capacity * 3) capacity *= 2;
  return capacity == map->capacity ? PJRTD_OK : resize(map, capacity);
}

pjrtd_status *pjrtd_id_map_insert(pjrtd_id_map *map, uint64_t id, void *value) {
  PJRTD_TRY(pjrtd_id_map_reserve(map, 1));
  put(map, id, value);
  map->count++;
  move_some(map, MOVES);
  return PJRTD_OK;
}

void *pjrtd_id_map_remove(pjrtd_id_map *map, uint64_t id) {
  if (!id || id == MOVED) return NULL;
  pjrtd_id_slot *slot = find_slot(map->slots, map->capacity, id);
  void *value;
  if (!slot) {
    slot = find_slot(map->old_slots, map->old_capacity, id);
    if (!slot) return NULL;
    value = slot->value;
    slot->id = MOVED;
  } else {
    value = slot->value;
    uint64_t mask = map->capacity - 1, at = (uint64_t)(slot - map->slots);
    /* Move back what probed past the hole, so that the table needs no marks. */
    for (uint64_t next = (at + 1) & mask; map->slots[next].id; next = (next + 1) & mask) {
      uint64_t home = home_of(map->slots[next].id, map->capacity);
      if (((next - home) & mask) < ((next - at) & mask)) continue;
      map->slots[at] = map->slots[next];
      at = next;
    }
    map->slots[at] = (pjrtd_id_slot){0};
  }
  map->count--;
  move_some(map, MOVES);
  /* Give memory back after a burst. */
  if (map->capacity > 1024 && !map->old_slots && map->count * 8 < map->capacity)
    pjrtd_status_destroy(resize(map, map->capacity / 4)); /* staying big is fine */
  return value;
}

uint64_t pjrtd_id_map_slots(const pjrtd_id_map *map) {
  return map->capacity + map->old_capacity;
}

void *pjrtd_id_map_slot(const pjrtd_id_map *map, uint64_t slot) {
  const pjrtd_id_slot *found = slot < map->capacity ? &map->slots[slot] : &map->old_slots[slot - map->capacity];
  return found->id && found->id != MOVED ? found->value : NULL;
}
