/* base/alloc.c. */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <string.h>

#include "base/alloc.h"

Test(alloc, gives_blocks_even_of_no_bytes) {
  void *blocks[] = {pjrtd_malloc(0), pjrtd_calloc(0, 8), pjrtd_calloc(8, 0), pjrtd_memdup("", 0),
                    pjrtd_realloc(NULL, 0)};
  for (size_t i = 0; i < sizeof blocks / sizeof *blocks; i++) {
    cr_assert_not_null(blocks[i], "block %zu", i);
    pjrtd_free(blocks[i]);
  }
  pjrtd_free(NULL);
}

Test(alloc, clears_and_copies) {
  unsigned char *zeros = pjrtd_calloc(3, 5);
  for (int i = 0; i < 15; i++) cr_assert_eq(zeros[i], 0);
  pjrtd_free(zeros);
  char *text = pjrtd_strdup("abc");
  cr_assert_str_eq(text, "abc");
  pjrtd_free(text);
  text = pjrtd_strndup("abc", 2);
  cr_assert_str_eq(text, "ab");
  pjrtd_free(text);
  char *bytes = pjrtd_memdup("a\0b", 3);
  cr_assert_eq(memcmp(bytes, "a\0b", 3), 0);
  bytes = pjrtd_realloc(bytes, 1000);
  cr_assert_eq(memcmp(bytes, "a\0b", 3), 0);
  pjrtd_free(bytes);
}

Test(alloc, fails_once_after_so_many_successes) {
  for (int64_t successes = 0; successes < 4; successes++) {
    pjrtd_alloc_fail_after(successes);
    for (int64_t i = 0; i < 8; i++) {
      void *block = i % 2 ? pjrtd_malloc(1) : pjrtd_calloc(1, 1);
      cr_assert_eq(block == NULL, i == successes, "allocation %d of a run that fails at %d", (int)i, (int)successes);
      pjrtd_free(block);
    }
  }
  cr_assert_eq(pjrtd_alloc_fail_after(-1), 8, "it says how many were asked for");
  for (int i = 0; i < 100; i++) {
    void *block = pjrtd_malloc(1);
    cr_assert_not_null(block);
    pjrtd_free(block);
  }
}

Test(alloc, leaves_the_old_block_when_growing_fails) {
  char *block = pjrtd_strdup("abc");
  pjrtd_alloc_fail_after(0);
  cr_assert_null(pjrtd_realloc(block, 100));
  pjrtd_alloc_fail_after(-1);
  cr_assert_str_eq(block, "abc");
  pjrtd_free(block);
}

typedef struct thing thing;
static int destroyed;
static void thing_destroy(thing *value) {
  destroyed++;
  pjrtd_free(value);
}
PJRTD_DEFINE_CLEANUP(thing)

static thing *make_thing(bool keep) {
  PJRTD_AUTO(thing) made = pjrtd_malloc(1);
  return keep ? PJRTD_TAKE(made) : NULL;
}

Test(alloc, destroys_at_the_end_of_the_scope_unless_taken) {
  cr_assert_null(make_thing(false));
  cr_assert_eq(destroyed, 1);
  thing *kept = make_thing(true);
  cr_assert_not_null(kept);
  cr_assert_eq(destroyed, 1);
  pjrtd_free(kept);
}
