/* A hash map from uint64 ids (0 is none) to pointers: open addressing, linear probing.
 * One thread. The values are borrowed. */
#pragma once

#include <stdint.h>

#include "base/status.h"

typedef struct {
  uint64_t id; /* 0: free */
  void *value;
} pjrtd_id_slot;

typedef struct {
  pjrtd_id_slot *slots; /* owned; NULL while empty */
  uint64_t capacity;    /* a power of two, or 0 */
  uint64_t count;
  /* The table before the last change of size, which each change empties a little further: no insert pays for all. */
  pjrtd_id_slot *old_slots; /* owned */
  uint64_t old_capacity, old_at;
} pjrtd_id_map;

/* A zeroed map is an empty map. */
void pjrtd_id_map_deinit(pjrtd_id_map *map);
/* NULL where there is none. */
void *pjrtd_id_map_find(const pjrtd_id_map *map, uint64_t id);
/* Makes room for `more` further ids, after which as many inserts cannot fail. */
PJRTD_MUST_USE pjrtd_status *pjrtd_id_map_reserve(pjrtd_id_map *map, uint64_t more);
/* `id` is not 0 and not in the map. */
PJRTD_MUST_USE pjrtd_status *pjrtd_id_map_insert(pjrtd_id_map *map, uint64_t id, void *value);
/* Returns the value that was there, or NULL. */
void *pjrtd_id_map_remove(pjrtd_id_map *map, uint64_t id);

/* To walk through a map that does not change meanwhile: slots 0 to pjrtd_id_map_slots - 1; NULL for a free one. */
uint64_t pjrtd_id_map_slots(const pjrtd_id_map *map);
void *pjrtd_id_map_slot(const pjrtd_id_map *map, uint64_t slot);
