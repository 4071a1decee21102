/* state/sources.c. */
#include <criterion/criterion.h>
#include <string.h>

#include "base/alloc.h"
#include "state/sources.h"

static pjrtd_sources sources;
static char a[1], b[1]; /* stand for executables */

/* The executables are none. */
static void deinit(void) {
  for (uint64_t i = 0; i < pjrtd_id_map_slots(&sources.by_key); i++) pjrtd_free(pjrtd_id_map_slot(&sources.by_key, i));
  pjrtd_id_map_deinit(&sources.by_key);
}

TestSuite(sources, .fini = deinit);

static pjrtd_source *add_bytes(const char *bytes, size_t size, char *executable) {
  return pjrtd_sources_add(&sources, pjrtd_source_key(bytes, size), bytes, size, (pjrtd_executable *)executable);
}

static pjrtd_source *join_bytes(const char *bytes, size_t size) {
  return pjrtd_sources_join(&sources, pjrtd_source_key(bytes, size), bytes, size);
}

static pjrtd_source *add(const char *text, char *executable) {
  return add_bytes(text, strlen(text), executable);
}

static pjrtd_source *join(const char *text) {
  return join_bytes(text, strlen(text));
}

Test(sources, are_found_by_their_bytes) {
  cr_assert_null(join("one"));
  pjrtd_source *one = add("one", a), *two = add("one and more", b);
  cr_assert_eq(join("one"), one);
  cr_assert_eq(join("one and more"), two);
  cr_assert_eq(one->executable, (pjrtd_executable *)a);
  cr_assert_eq(two->executable, (pjrtd_executable *)b);
  cr_assert_null(join("onf"));
  cr_assert_null(join("on"));
  cr_assert_eq(sources.size_bytes, 15);
}

/* Who goes last, where none is to stay. */
static char *leave(pjrtd_source *source, uint64_t max_idle) {
  return (char *)pjrtd_sources_leave(&sources, source, max_idle);
}

Test(sources, go_with_the_last_program) {
  pjrtd_source *one = add("one", a);
  cr_assert_eq(join("one"), one);
  cr_assert_null(leave(one, 0));
  cr_assert_eq(join("one"), one);
  cr_assert_null(leave(one, 0));
  cr_assert_eq(leave(one, 0), a);
  cr_assert_null(join("one"));
  cr_assert_eq(sources.size_bytes, 0);
  cr_assert_eq(sources.idle, 0);
}

Test(sources, stay_idle_until_others_were_used_later) {
  static char executables[4][1];
  const char *names[] = {"0", "1", "2", "3"};
  pjrtd_source *made[4];
  for (int i = 0; i < 4; i++) made[i] = add(names[i], executables[i]);
  for (int i = 0; i < 3; i++) cr_assert_null(leave(made[i], 3));
  cr_assert_eq(sources.idle, 3);
  cr_assert_eq(join("1"), made[1], "from the middle");
  cr_assert_eq(join("0"), made[0], "the oldest");
  cr_assert_null(leave(made[0], 3));
  cr_assert_null(leave(made[1], 3));
  cr_assert_eq(leave(made[3], 3), executables[2], "0, 1 and 3 were used later");
  cr_assert_null(join("2"));
  cr_assert_eq(join("3"), made[3], "the newest");
  cr_assert_eq(sources.idle, 2);
}

Test(sources, that_are_known_are_not_added_again) {
  pjrtd_source *one = add("one", a);
  cr_assert_null(add("one", b));
  cr_assert_eq(join("one"), one);
  cr_assert_eq(one->programs, 2);
}

/* Another one with the same key: it is not taken for the first, and does not take its place. */
Test(sources, with_one_key_are_told_apart) {
  pjrtd_source *one = add("one", a);
  one->bytes[0] = 'O';
  cr_assert_null(join("one"));
  cr_assert_null(add("one", b));
}

Test(sources, that_are_large_or_too_many_are_not_shared) {
  char *large = pjrtd_calloc(1, PJRTD_MAX_SOURCE_BYTES + 1);
  cr_assert_null(add_bytes(large, PJRTD_MAX_SOURCE_BYTES + 1, a));
  cr_assert_null(join_bytes(large, PJRTD_MAX_SOURCE_BYTES + 1));
  for (uint64_t i = 0; i < PJRTD_MAX_SOURCES_BYTES / PJRTD_MAX_SOURCE_BYTES; i++) {
    memcpy(large, &i, sizeof i);
    cr_assert_not_null(add_bytes(large, PJRTD_MAX_SOURCE_BYTES, a));
  }
  cr_assert_null(add("one", b));
  pjrtd_source *last = join_bytes(large, PJRTD_MAX_SOURCE_BYTES);
  cr_assert_null(leave(last, 0));
  cr_assert_eq(leave(last, 0), a);
  cr_assert_not_null(add("one", b), "there is room again");
  pjrtd_free(large);
}

Test(sources, are_not_shared_without_memory) {
  for (int successes = 0; successes < 2; successes++) {
    pjrtd_alloc_fail_after(successes);
    cr_assert_null(add("one", a));
    pjrtd_alloc_fail_after(-1);
    cr_assert_eq(sources.size_bytes, 0);
    cr_assert_null(join("one"));
  }
  cr_assert_not_null(add("one", a));
}
