/* base/id_map.c. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "base/id_map.h"

#define ASSERT_OK(expression)                                     \
  do {                                                            \
    pjrtd_status *status_ = (expression);                         \
    cr_assert_null(status_, "%s", pjrtd_status_message(status_)); \
  } while (0)

static void *value_of(uint64_t id) {
  return (void *)(uintptr_t)(id * 2 + 1);
}

Test(id_map, is_empty_when_zeroed) {
  pjrtd_id_map map = {0};
  cr_assert_null(pjrtd_id_map_find(&map, 1));
  cr_assert_null(pjrtd_id_map_find(&map, 0));
  cr_assert_null(pjrtd_id_map_remove(&map, 1));
  pjrtd_id_map_deinit(&map);
}

Test(id_map, has_no_id_0) {
  pjrtd_id_map map = {0};
  ASSERT_OK(pjrtd_id_map_insert(&map, 1, &map));
  cr_assert_null(pjrtd_id_map_find(&map, 0));
  cr_assert_null(pjrtd_id_map_remove(&map, 0));
  cr_assert_eq(map.count, 1);
  pjrtd_id_map_deinit(&map);
}

/* The reference: a table by number, for ids that spread over the 64 bits. */
static uint64_t id_of(unsigned number) {
  return (uint64_t)number * 2654435761u << 16 | (number + 1);
}

Test(id_map, agrees_with_a_plain_table_over_random_inserts_and_removes) {
  enum { IDS = 5000, STEPS = 200000 };
  pjrtd_id_map map = {0};
  static bool present[IDS];
  uint64_t count = 0;
  unsigned seed = 11;
  for (int step = 0; step < STEPS; step++) {
    unsigned number = (unsigned)rand_r(&seed) % IDS;
    uint64_t id = id_of(number);
    void *expected = present[number] ? value_of(id) : NULL;
    /* It grows, then shrinks, over and over. */
    bool grow = step / 20000 % 2 == 0;
    if ((unsigned)rand_r(&seed) % 10 < (grow ? 7 : 2)) {
      if (!present[number]) {
        ASSERT_OK(pjrtd_id_map_insert(&map, id, value_of(id)));
        present[number] = true;
        count++;
      }
    } else {
      cr_assert_eq(pjrtd_id_map_remove(&map, id), expected);
      count -= present[number];
      present[number] = false;
    }
    cr_assert_eq(map.count, count);
    number = (unsigned)rand_r(&seed) % IDS;
    cr_assert_eq(pjrtd_id_map_find(&map, id_of(number)), present[number] ? value_of(id_of(number)) : NULL);
  }
  for (unsigned number = 0; number < IDS; number++)
    cr_assert_eq(pjrtd_id_map_find(&map, id_of(number)), present[number] ? value_of(id_of(number)) : NULL);
  pjrtd_id_map_deinit(&map);
}

/* Which slot an id gets in an empty map of the first capacity. */
static uint64_t slot_alone(uint64_t id) {
  pjrtd_id_map map = {0};
  ASSERT_OK(pjrtd_id_map_insert(&map, id, &map));
  uint64_t slot = UINT64_MAX;
  for (uint64_t i = 0; i < map.capacity; i++)
    if (map.slots[i].id == id) slot = i;
  pjrtd_id_map_deinit(&map);
  cr_assert_neq(slot, UINT64_MAX);
  return slot;
}

/* Ids that want the last slot, so that their probes wrap round. */
Test(id_map, keeps_ids_that_collide_apart_in_every_order_of_removal) {
  enum { COLLIDING = 5 };
  uint64_t ids[COLLIDING];
  int found = 0;
  for (uint64_t id = 1; found < COLLIDING; id++)
    if (slot_alone(id) == 15) ids[found++] = id;
  /* And one whose own place they take. */
  uint64_t displaced = 1;
  while (slot_alone(displaced) != 1) displaced++;

  for (unsigned order = 0; order < 120; order++) {
    pjrtd_id_map map = {0};
    for (int i = 0; i < COLLIDING; i++) ASSERT_OK(pjrtd_id_map_insert(&map, ids[i], &ids[i]));
    ASSERT_OK(pjrtd_id_map_insert(&map, displaced, &displaced));
    cr_assert_eq(map.capacity, 16);
    bool gone[COLLIDING] = {false};
    unsigned choice = order;
    for (unsigned left = COLLIDING; left; left--) {
      unsigned pick = choice % left;
      choice /= left;
      int at = 0;
      for (;; at++)
        if (!gone[at] && pick-- == 0) break;
      cr_assert_eq(pjrtd_id_map_remove(&map, ids[at]), &ids[at]);
      gone[at] = true;
      for (int i = 0; i < COLLIDING; i++)
        cr_assert_eq(pjrtd_id_map_find(&map, ids[i]), gone[i] ? NULL : (void *)&ids[i], "order %u", order);
      cr_assert_eq(pjrtd_id_map_find(&map, displaced), &displaced);
    }
    pjrtd_id_map_deinit(&map);
  }
}

Test(id_map, spreads_ids_that_differ_in_few_bits) {
  /* Consecutive, and consecutive in the upper half: what honest and other clients choose. */
  for (unsigned shift = 0; shift <= 48; shift += 16) {
    pjrtd_id_map map = {0};
    for (uint64_t i = 1; i <= 3000; i++) ASSERT_OK(pjrtd_id_map_insert(&map, i << shift, &map));
    uint64_t longest = 0, run = 0;
    for (uint64_t i = 0; i < map.capacity; i++) {
      run = map.slots[i].id ? run + 1 : 0;
      if (run > longest) longest = run;
    }
    /* Of 4096 slots, 3000 taken at random: runs of over 200 do not come. */
    cr_assert_lt(longest, 400, "ids shifted by %u lie in a run of %llu", shift, (unsigned long long)longest);
    pjrtd_id_map_deinit(&map);
  }
}

Test(id_map, gives_memory_back_after_a_burst) {
  pjrtd_id_map map = {0};
  for (uint64_t id = 1; id <= 100000; id++) ASSERT_OK(pjrtd_id_map_insert(&map, id, value_of(id)));
  uint64_t full = map.capacity;
  for (uint64_t id = 1; id <= 99990; id++) cr_assert_eq(pjrtd_id_map_remove(&map, id), value_of(id));
  cr_assert_leq(map.capacity, 1024);
  cr_assert_gt(full, map.capacity);
  for (uint64_t id = 1; id <= 100000; id++) cr_assert_eq(pjrtd_id_map_find(&map, id), id > 99990 ? value_of(id) : NULL);
  pjrtd_id_map_deinit(&map);
}

Test(id_map, does_not_fail_to_insert_what_was_reserved) {
  pjrtd_id_map map = {0};
  for (uint64_t id = 1; id <= 10; id++) ASSERT_OK(pjrtd_id_map_insert(&map, id, value_of(id)));
  ASSERT_OK(pjrtd_id_map_reserve(&map, 1000));
  pjrtd_alloc_fail_after(0);
  for (uint64_t id = 11; id <= 1010; id++) ASSERT_OK(pjrtd_id_map_insert(&map, id, value_of(id)));
  pjrtd_alloc_fail_after(-1);
  for (uint64_t id = 1; id <= 1010; id++) cr_assert_eq(pjrtd_id_map_find(&map, id), value_of(id));
  pjrtd_id_map_deinit(&map);
}

Test(id_map, stays_as_it_was_when_there_is_no_memory_to_grow_or_shrink) {
  pjrtd_id_map map = {0};
  pjrtd_alloc_fail_after(0);
  PJRTD_AUTO(pjrtd_status) refused = pjrtd_id_map_insert(&map, 1, &map);
  pjrtd_alloc_fail_after(-1);
  cr_assert_eq(pjrtd_status_code(refused), PJRTD_CODE_RESOURCE_EXHAUSTED);
  cr_assert_eq(map.count, 0);

  uint64_t id = 0;
  pjrtd_status *status = PJRTD_OK;
  while (!status) {
    pjrtd_alloc_fail_after(id < 2000 ? -1 : 0);
    status = pjrtd_id_map_insert(&map, id + 1, value_of(id + 1));
    pjrtd_alloc_fail_after(-1);
    if (!status) id++;
  }
  pjrtd_status_destroy(status);
  cr_assert_eq(map.count, id);
  for (uint64_t i = 1; i <= id; i++) cr_assert_eq(pjrtd_id_map_find(&map, i), value_of(i));
  for (uint64_t i = 1; i <= id; i++) {
    pjrtd_alloc_fail_after(0);
    cr_assert_eq(pjrtd_id_map_remove(&map, i), value_of(i));
    pjrtd_alloc_fail_after(-1);
  }
  cr_assert_eq(map.count, 0);
  pjrtd_id_map_deinit(&map);
}
