/* The client's allocations, with a switch that makes the n-th one fail, so that tests can walk through every failure.
 * Any thread. A NULL answer becomes pjrtc_failure_oom(). Freed with free(). */
#pragma once

#include <stddef.h>
#include <stdint.h>

void *pjrtc_heap_alloc(size_t size_bytes);
void *pjrtc_heap_zalloc(size_t size_bytes);
void *pjrtc_heap_realloc(void *block, size_t size_bytes);

/* Tests only: the allocation after `successes` more fails, once (`successes` < 0: none). Process wide.
 * Returns how many allocations were asked for since the last call. */
int64_t pjrtc_heap_fail_after(int64_t successes);
