/* See id_map.h. */
#include "base/id_map.h"

#include <sys/random.h>

#define FIRST_CAPACITY 16

/* Clients choose the ids: without a secret they could choose ones that collide. */
static uint64_t secret;

__attribute__((constructor)) static void make_secret(void) {
  if (getrandom(&secret, sizeof secret, GRND_NONBLOCK) != sizeof secret) secret = (uint64_t)(uintptr_t)&secret;
}

static uint64_t home_of(const pjrtd_id_map *map, uint64_t id) {
  uint64_t mixed = (id ^ secret) * UINT64_C(0xff51afd7ed558ccd);
  mixed = (mixed ^ mixed >> 32) * UINT64_C(0xc4ceb9fe1a85ec53);
  return (mixed ^ mixed >> 29) & (map->capacity - 1);
}

static void put(pjrtd_id_map *map, uint64_t id, void *value) {
  uint64_t at = home_of(map, id);
  while (map->slots[at].id) at = (at + 1) & (map->capacity - 1);
  map->slots[at] = (pjrtd_id_slot){id, value};
  map->count++;
}

static pjrtd_status *resize(pjrtd_id_map *map, uint64_t capacity) {
  pjrtd_id_map bigger = {.slots = pjrtd_calloc(capacity, sizeof *bigger.slots), .capacity = capacity};
  if (!bigger.slots) return pjrtd_status_oom();
  for (uint64_t i = 0; i < map->capacity; i++)
    if (map->slots[i].id) put(&bigger, map->slots[i].id, map->slots[i].value);
  pjrtd_free(map->slots);
  *map = bigger;
  return PJRTD_OK;
}

void pjrtd_id_map_deinit(pjrtd_id_map *map) {
  pjrtd_free(map->slots);
  *map = (pjrtd_id_map){0};
}

void *pjrtd_id_map_find(const pjrtd_id_map *map, uint64_t id) {
  if (!map->capacity || !id) return NULL;
  for (uint64_t at = home_of(map, id); map->slots[at].id; at = (at + 1) & (map->capacity - 1))
    if (map->slots[at].id == id) return map->slots[at].value;
  return NULL;
}

pjrtd_status *pjrtd_id_map_reserve(pjrtd_id_map *map, uint64_t more) {
  uint64_t capacity = map->capacity ? map->capacity : FIRST_CAPACITY;
  while ((map->count + more) * 4 > capacity * 3) capacity *= 2;
  return capacity == map->capacity ? PJRTD_OK : resize(map, capacity);
}

pjrtd_status *pjrtd_id_map_insert(pjrtd_id_map *map, uint64_t id, void *value) {
  PJRTD_TRY(pjrtd_id_map_reserve(map, 1));
  put(map, id, value);
  return PJRTD_OK;
}

void *pjrtd_id_map_remove(pjrtd_id_map *map, uint64_t id) {
  if (!map->capacity || !id) return NULL;
  uint64_t mask = map->capacity - 1, at = home_of(map, id);
  while (map->slots[at].id != id) {
    if (!map->slots[at].id) return NULL;
    at = (at + 1) & mask;
  }
  void *value = map->slots[at].value;
  /* Move back what probed past the hole, so that no tombstone is needed. */
  for (uint64_t next = (at + 1) & mask; map->slots[next].id; next = (next + 1) & mask) {
    uint64_t home = home_of(map, map->slots[next].id);
    if (((next - home) & mask) < ((next - at) & mask)) continue;
    map->slots[at] = map->slots[next];
    at = next;
  }
  map->slots[at] = (pjrtd_id_slot){0};
  map->count--;
  /* Give memory back after a burst. */
  if (map->capacity > 1024 && map->count * 8 < map->capacity) {
    pjrtd_status *status = resize(map, map->capacity / 4);
    pjrtd_status_destroy(status); /* staying big is fine */
  }
  return value;
}
