/* Allocation with a switch that makes the n-th one fail, so that tests can walk through every failure.
 * Any thread. Sizes are checked by the caller; a NULL answer becomes pjrtd_status_oom(). */
#pragma once

#include <stddef.h>
#include <stdint.h>

void *pjrtd_malloc(size_t size_bytes);
void *pjrtd_calloc(size_t count, size_t size_bytes);
void *pjrtd_realloc(void *block, size_t size_bytes);
char *pjrtd_strdup(const char *text);
char *pjrtd_strndup(const char *text, size_t length);
void *pjrtd_memdup(const void *block, size_t size_bytes);
void pjrtd_free(void *block);

/* Tests only: the allocation after `successes` more fails, once (`successes` < 0: none). Process wide.
 * Returns how many allocations were asked for since the last call. */
int64_t pjrtd_alloc_fail_after(int64_t successes);

/* `PJRTD_AUTO(pjrtd_lane) lane = ...` calls pjrtd_lane_destroy(lane) when the scope ends;
 * PJRTD_TAKE(lane) moves it out. */
#define PJRTD_AUTO(type) __attribute__((cleanup(type##_cleanup))) type *
#define PJRTD_DEFINE_CLEANUP(type)                                          \
  static inline __attribute__((unused)) void type##_cleanup(type **value) { \
    if (*value) type##_destroy(*value);                                     \
  }
#define PJRTD_TAKE(value)               \
  __extension__({                       \
    __typeof__(value) taken_ = (value); \
    (value) = NULL;                     \
    taken_;                             \
  })

/* A block that pjrtd_free releases when the scope ends. */
#define PJRTD_AUTO_FREE __attribute__((cleanup(pjrtd_free_cleanup)))
static inline __attribute__((unused)) void pjrtd_free_cleanup(void *slot) {
  pjrtd_free(*(void **)slot);
}
