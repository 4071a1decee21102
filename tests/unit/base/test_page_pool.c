/* base/page_pool.c. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/alloc.h"
#include "base/page_pool.h"

#define ASSERT_OK(expression)                                     \
  do {                                                            \
    pjrtd_status *status_ = (expression);                         \
    cr_assert_null(status_, "%s", pjrtd_status_message(status_)); \
  } while (0)

static pjrtd_page_pool *pool;
static pjrtd_pages *taken[200];
static int num_taken;

static void open_pool(void) {
  ASSERT_OK(pjrtd_page_pool_create(&pool));
}

static pjrtd_pages *take(uint64_t bytes) {
  pjrtd_pages *pages;
  ASSERT_OK(pjrtd_page_pool_take(pool, bytes, "a test", &pages));
  taken[num_taken++] = pages;
  return pages;
}

static void drop_and_give(pjrtd_pages *pages, uint64_t bytes) {
  cr_assert_eq(madvise(pages->data, bytes, MADV_DONTNEED), 0);
  for (int i = 0; i < num_taken; i++)
    if (taken[i] == pages) taken[i] = taken[--num_taken];
  pjrtd_page_pool_give(pool, pages);
}

static void close_pool(void) {
  while (num_taken) pjrtd_page_pool_give(pool, taken[--num_taken]);
  pjrtd_page_pool_destroy(pool);
}

static long minor_faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

TestSuite(page_pool, .init = open_pool, .fini = close_pool, .timeout = 60);

Test(page_pool, gives_zeroed_aligned_memory_that_does_not_overlap) {
  enum { COUNT = 40 };
  static const uint64_t sizes[] = {1, 4095, 4096, 4097, 65536, 100001, 1 << 20, (1 << 20) + 1};
  pjrtd_pages *pages[COUNT];
  for (size_t i = 0; i < COUNT; i++) {
    uint64_t bytes = sizes[i % 8];
    pages[i] = take(bytes);
    cr_assert_eq((uintptr_t)pages[i]->data % 4096, 0);
    for (uint64_t at = 0; at < bytes; at++) cr_assert_eq(((char *)pages[i]->data)[at], 0, "%zu at %zu", i, (size_t)at);
    memset(pages[i]->data, (int)i + 1, bytes);
  }
  for (size_t i = 0; i < COUNT; i++) {
    const char *data = pages[i]->data;
    for (uint64_t at = 0; at < sizes[i % 8]; at++) cr_assert_eq(data[at], (char)(i + 1), "%zu at %zu", i, (size_t)at);
    drop_and_give(pages[i], sizes[i % 8]);
  }
}

Test(page_pool, takes_what_came_back_before_anything_new) {
  pjrtd_pages *first = take(70000), *second = take(70000);
  void *places[2] = {first->data, second->data};
  memset(first->data, 1, 70000);
  drop_and_give(first, 70000);
  drop_and_give(second, 70000);
  cr_assert_neq(take(65536)->data, places[1], "half the size");
  cr_assert_eq(take(131072)->data, places[1]);
  pjrtd_pages *again = take(65537);
  cr_assert_eq(again->data, places[0]);
  for (int at = 0; at < 70000; at++) cr_assert_eq(((char *)again->data)[at], 0);
}

Test(page_pool, costs_no_memory_until_it_is_written) {
  long before = minor_faults();
  for (int i = 0; i < 100; i++) take(UINT64_C(1) << 30);
  cr_assert_lt(minor_faults() - before, 100, "%ld page faults", minor_faults() - before);
}

Test(page_pool, gives_more_than_a_piece_and_goes_on_behind_it) {
  pjrtd_pages *huge = take((UINT64_C(1) << 37) + 1), *small = take(5000);
  ((char *)huge->data)[UINT64_C(1) << 37] = 1;
  memset(small->data, 2, 5000);
  cr_assert_eq(((char *)huge->data)[UINT64_C(1) << 37], 1);
}

static void expect_exhausted(uint64_t bytes) {
  pjrtd_pages *pages = (pjrtd_pages *)&pool;
  PJRTD_AUTO(pjrtd_status) status = pjrtd_page_pool_take(pool, bytes, "a test", &pages);
  cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_RESOURCE_EXHAUSTED, "%s", pjrtd_status_message(status));
  cr_assert(strstr(pjrtd_status_message(status), "a test"), "%s", pjrtd_status_message(status));
  cr_assert_null(pages);
}

Test(page_pool, refuses_what_no_process_has) {
  expect_exhausted((UINT64_C(1) << 46) + 1);
  expect_exhausted(UINT64_MAX);
  take(1);
}

#ifndef __SANITIZE_ADDRESS__ /* which has terabytes mapped itself */
Test(page_pool_alone, makes_do_with_the_address_space_that_there_is) {
  struct rlimit limit = {.rlim_cur = 1 << 30, .rlim_max = RLIM_INFINITY};
  cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
  open_pool();
  memset(take(100 << 20)->data, 1, 100 << 20);
  expect_exhausted(UINT64_C(4) << 30);
  memset(take(100000)->data, 1, 100000);
  close_pool();
}
#endif

Test(page_pool_alone, is_not_made_without_memory) {
  for (int successes = 0; successes < 2; successes++) {
    pjrtd_alloc_fail_after(successes);
    pjrtd_status *status = pjrtd_page_pool_create(&pool);
    pjrtd_alloc_fail_after(-1);
    /* The first piece is for later. */
    cr_assert_eq(pjrtd_status_code(status), successes ? PJRTD_CODE_OK : PJRTD_CODE_RESOURCE_EXHAUSTED);
    pjrtd_status_destroy(status);
    if (!successes) cr_assert_null(pool);
  }
  take(10);
  pjrtd_pages *pages;
  pjrtd_alloc_fail_after(0);
  PJRTD_AUTO(pjrtd_status) status = pjrtd_page_pool_take(pool, 10, "a test", &pages);
  pjrtd_alloc_fail_after(-1);
  cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_RESOURCE_EXHAUSTED);
  cr_assert_null(pages);
  take(10);
  close_pool();
}
