/* service/staging.c. */
#include <pthread.h>

#include "../state/runtime_fixture.h"
#include "service/staging.h"

Test(staging, is_counted_and_limited_together_with_the_buffers, .init = open_bare, .fini = close_bare) {
  runtime->memory_limit_bytes = 10000;
  runtime->stats.buffer_bytes = 4000;
  pjrtd_staging *one, *two = (pjrtd_staging *)&loop;
  ASSERT_OK(pjrtd_staging_create(runtime, 5000, "one", &one));
  cr_assert_eq(runtime->stats.staging_bytes, 5000);
  ASSERT_FAILS(pjrtd_staging_create(runtime, 1001, "the second", &two), PJRTD_CODE_RESOURCE_EXHAUSTED, "the second");
  cr_assert_null(two);
  ASSERT_OK(pjrtd_staging_create(runtime, 1000, "two", &two));
  pjrtd_staging_destroy(one);
  cr_assert_eq(runtime->stats.staging_bytes, 1000);
  pjrtd_staging_destroy(two);
  cr_assert_eq(runtime->stats.staging_bytes, 0);
  pjrtd_staging_destroy(NULL);
}

Test(staging, is_zeroed_aligned_memory, .init = open_bare, .fini = close_bare) {
  pjrtd_staging *staging;
  ASSERT_OK(pjrtd_staging_create(runtime, 100001, "it", &staging));
  cr_assert_eq((uintptr_t)staging->data % 4096, 0);
  cr_assert_eq(staging->size_bytes, 100001);
  for (int i = 0; i < 100001; i++) cr_assert_eq(((char *)staging->data)[i], 0);
  memset(staging->data, 1, 100001);
  pjrtd_staging_destroy(staging);
}

Test(staging, that_was_adopted_is_not_counted_any_more, .init = open_bare, .fini = close_bare) {
  pjrtd_staging *staging;
  ASSERT_OK(pjrtd_staging_create(runtime, 5000, "it", &staging));
  pjrtd_staging_uncount(staging);
  cr_assert_eq(runtime->stats.staging_bytes, 0);
  pjrtd_staging_uncount(staging);
  cr_assert_eq(runtime->stats.staging_bytes, 0);
  pjrtd_staging_destroy(staging);
  cr_assert_eq(runtime->stats.staging_bytes, 0);
}

Test(staging, tells_its_watcher_that_it_is_gone, .init = open_bare, .fini = close_bare) {
  pjrtd_staging *staging, *watched;
  ASSERT_OK(pjrtd_staging_create(runtime, 10, "it", &staging));
  watched = staging;
  staging->watcher = &watched;
  pjrtd_staging_destroy(staging);
  cr_assert_null(watched);
}

Test(staging, that_is_big_is_dropped_by_another_thread, .init = open_runtime, .fini = close_runtime, .timeout = 120) {
  pjrtd_staging *staging;
  ASSERT_OK(pjrtd_staging_create(runtime, 8 << 20, "it", &staging));
  pjrtd_staging_destroy(staging);
  cr_assert_eq(runtime->jobs_running, 1);
  wait_until_idle();
  cr_assert_eq(runtime->stats.staging_bytes, 0);
}

static void *release(void *staging) {
  pjrtd_staging_release(staging);
  return NULL;
}

Test(staging, can_be_released_by_any_thread, .init = open_runtime, .fini = close_runtime, .timeout = 120) {
  pjrtd_staging *staging, *watched;
  ASSERT_OK(pjrtd_staging_create(runtime, 5000, "it", &staging));
  watched = staging;
  staging->watcher = &watched;
  pthread_t thread;
  pthread_create(&thread, NULL, release, staging);
  pthread_join(thread, NULL);
  cr_assert_eq(watched, staging, "only the loop touches what the loop owns");
  TURN_UNTIL(!runtime->stats.staging_bytes);
  cr_assert_null(watched);
}

Test(staging, is_not_made_without_memory, .init = open_bare, .fini = close_bare) {
  pjrtd_staging *staging = (pjrtd_staging *)&loop;
  pjrtd_alloc_fail_after(0);
  ASSERT_FAILS(pjrtd_staging_create(runtime, 10, "it", &staging), PJRTD_CODE_RESOURCE_EXHAUSTED, "memory");
  pjrtd_alloc_fail_after(-1);
  cr_assert_null(staging);
  runtime->memory_limit_bytes = UINT64_MAX;
  ASSERT_FAILS(pjrtd_staging_create(runtime, UINT64_C(1) << 60, "it", &staging), PJRTD_CODE_RESOURCE_EXHAUSTED, "");
  cr_assert_null(staging);
  cr_assert_eq(runtime->stats.staging_bytes, 0);
}

/* Pages are touched ahead by another thread while data is written and whatever comes of it. */
Test(staging, is_touched_ahead_without_harm_to_what_was_written, .init = open_runtime, .fini = close_runtime,
     .timeout = 120) {
  enum { SIZE = (37 << 20) + 12345, STEP = 300000 };
  pjrtd_staging *staging;
  ASSERT_OK(pjrtd_staging_create(runtime, SIZE, "it", &staging));
  uint8_t *bytes = staging->data;
  for (uint64_t at = 0; at < SIZE;) {
    pjrtd_staging_advance(staging, at);
    uint64_t now = SIZE - at < STEP ? SIZE - at : STEP;
    memset(bytes + at, (int)(at / STEP % 251) + 1, now);
    at += now;
    turn();
  }
  pjrtd_staging_advance(staging, SIZE);
  wait_until_idle();
  for (uint64_t at = 0; at < SIZE; at += 777) cr_assert_eq(bytes[at], at / STEP % 251 + 1, "at %d", (int)at);
  cr_assert_gt(pjrtd_lane_get_stats(runtime->reaper).jobs, 1);
  pjrtd_staging_destroy(staging);
  wait_until_idle();
  cr_assert_eq(runtime->stats.staging_bytes, 0);
}

Test(staging, can_be_destroyed_while_it_is_being_touched, .init = open_runtime, .fini = close_runtime, .timeout = 120) {
  for (int i = 0; i < 10; i++) {
    pjrtd_staging *staging, *watched;
    ASSERT_OK(pjrtd_staging_create(runtime, 20 << 20, "it", &staging));
    watched = staging;
    staging->watcher = &watched;
    pjrtd_staging_advance(staging, 0);
    cr_assert_eq(runtime->jobs_running, 1);
    pjrtd_staging_destroy(staging);
    cr_assert_null(watched);
    wait_until_idle();
    cr_assert_eq(runtime->stats.staging_bytes, 0);
  }
}

Test(staging, does_without_touching_ahead_when_there_is_no_thread_for_it, .init = open_runtime, .fini = close_runtime,
     .timeout = 120) {
  pjrtd_staging *staging;
  ASSERT_OK(pjrtd_staging_create(runtime, 20 << 20, "it", &staging));
  pjrtd_alloc_fail_after(0);
  pjrtd_staging_advance(staging, 0);
  pjrtd_alloc_fail_after(-1);
  cr_assert_eq(runtime->jobs_running, 0);
  memset(staging->data, 1, 20 << 20);
  pjrtd_staging_destroy(staging);
  wait_until_idle();
}
