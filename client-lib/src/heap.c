/* See heap.h. The switch is the one global variable of the library; only tests set it. */
#include "heap.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

static atomic_bool armed;
static atomic_int_fast64_t asked;
static atomic_int_fast64_t failing;

/* No address space has that much; a server may claim it. */
#define MAX_BYTES ((size_t)1 << 47)

static bool must_fail(size_t size_bytes) {
  if (size_bytes > MAX_BYTES) return true;
  if (!atomic_load_explicit(&armed, memory_order_relaxed)) return false;
  return atomic_fetch_add(&asked, 1) == atomic_load(&failing);
}

void *pjrtc_heap_alloc(size_t size_bytes) {
  return must_fail(size_bytes) ? NULL : malloc(size_bytes ? size_bytes : 1);
}

void *pjrtc_heap_zalloc(size_t size_bytes) {
  return must_fail(size_bytes) ? NULL : calloc(1, size_bytes ? size_bytes : 1);
}

void *pjrtc_heap_realloc(void *block, size_t size_bytes) {
  return must_fail(size_bytes) ? NULL : realloc(block, size_bytes ? size_bytes : 1);
}

int64_t pjrtc_heap_fail_after(int64_t successes) {
  atomic_store(&failing, successes);
  atomic_store(&armed, successes >= 0);
  return atomic_exchange(&asked, 0);
}
