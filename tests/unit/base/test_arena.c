/* base/arena.c. */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/arena.h"

Test(arena, gives_aligned_blocks_that_do_not_overlap) {
  pjrtd_arena arena;
  pjrtd_arena_init(&arena, 8 << 20);
  unsigned seed = 3;
  enum { COUNT = 2000 };
  uint8_t *blocks[COUNT];
  size_t sizes[COUNT];
  for (int i = 0; i < COUNT; i++) {
    sizes[i] = (size_t)(rand_r(&seed) % (i % 50 == 0 ? 40000 : 100));
    blocks[i] = pjrtd_arena_alloc(&arena, sizes[i]);
    cr_assert_not_null(blocks[i]);
    cr_assert_eq((uintptr_t)blocks[i] % 16, 0);
    memset(blocks[i], i & 0xff, sizes[i]);
  }
  for (int i = 0; i < COUNT; i++)
    for (size_t j = 0; j < sizes[i]; j++) cr_assert_eq(blocks[i][j], i & 0xff, "byte %zu of block %d", j, i);
  pjrtd_arena_deinit(&arena);
}

Test(arena, gives_a_place_even_of_no_bytes) {
  pjrtd_arena arena;
  pjrtd_arena_init(&arena, 1024);
  cr_assert_not_null(pjrtd_arena_alloc(&arena, 0));
  pjrtd_arena_deinit(&arena);
}

Test(arena, refuses_what_is_beyond_the_cap_at_once_and_in_sum) {
  enum { CAP = 1 << 20, PIECE = 1 << 15 };
  pjrtd_arena arena;
  pjrtd_arena_init(&arena, CAP);
  cr_assert_null(pjrtd_arena_alloc(&arena, CAP + 1));
  cr_assert_null(pjrtd_arena_alloc(&arena, SIZE_MAX));
  cr_assert_null(pjrtd_arena_alloc(&arena, SIZE_MAX - 14));
  size_t got = 0;
  while (got <= 4 * (size_t)CAP && pjrtd_arena_alloc(&arena, PIECE)) got += PIECE;
  cr_assert_geq(got, CAP / 2);
  /* The kept block is beside the cap. */
  cr_assert_leq(got, CAP + PIECE);
  pjrtd_arena_deinit(&arena);
}

Test(arena, gives_all_of_the_cap_again_after_each_reset) {
  enum { CAP = 1 << 20, PIECE = 1 << 15 };
  pjrtd_arena arena;
  pjrtd_arena_init(&arena, CAP);
  size_t first = 0;
  while (pjrtd_arena_alloc(&arena, PIECE)) first++;
  for (int round = 0; round < 5; round++) {
    pjrtd_arena_reset(&arena);
    size_t count = 0;
    while (pjrtd_arena_alloc(&arena, PIECE)) count++;
    cr_assert_geq(count, first - 1, "%zu pieces in round %d, %zu at first", count, round, first);
    cr_assert_leq(count, first + 1);
  }
  pjrtd_arena_deinit(&arena);
}

Test(arena, keeps_one_block_over_a_reset_and_asks_the_system_for_no_other) {
  pjrtd_arena arena;
  pjrtd_arena_init(&arena, 1 << 20);
  void *first = pjrtd_arena_alloc(&arena, 100);
  for (int i = 0; i < 20; i++) pjrtd_arena_alloc(&arena, 20000);
  pjrtd_arena_reset(&arena);
  pjrtd_alloc_fail_after(-1);
  pjrtd_alloc_fail_after(1000); /* counting is on only while a failure is planned */
  cr_assert_eq(pjrtd_arena_alloc(&arena, 100), first);
  cr_assert_eq(pjrtd_alloc_fail_after(-1), 0);
  pjrtd_arena_deinit(&arena);
}

Test(arena, can_be_reset_before_anything_was_taken) {
  pjrtd_arena arena;
  pjrtd_arena_init(&arena, 100);
  pjrtd_arena_reset(&arena);
  cr_assert_not_null(pjrtd_arena_alloc(&arena, 100));
  pjrtd_arena_deinit(&arena);
}

Test(arena, answers_null_without_memory_and_goes_on_with_it) {
  pjrtd_arena arena;
  pjrtd_arena_init(&arena, 1 << 20);
  pjrtd_alloc_fail_after(0);
  cr_assert_null(pjrtd_arena_alloc(&arena, 10));
  pjrtd_alloc_fail_after(-1);
  uint8_t *kept = pjrtd_arena_alloc(&arena, 10);
  cr_assert_not_null(kept);
  memset(kept, 7, 10);
  pjrtd_alloc_fail_after(0);
  cr_assert_null(pjrtd_arena_alloc(&arena, 100000));
  pjrtd_alloc_fail_after(-1);
  cr_assert_not_null(pjrtd_arena_alloc(&arena, 100000));
  for (int i = 0; i < 10; i++) cr_assert_eq(kept[i], 7);
  pjrtd_arena_deinit(&arena);
}
