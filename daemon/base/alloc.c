/* See alloc.h. */
#include "base/alloc.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

static atomic_llong asked;
static atomic_llong fail_at = -1; /* the value of `asked` at which to fail; -1: never */

static int refuse(void) {
  long long at = atomic_load_explicit(&fail_at, memory_order_relaxed);
  if (__builtin_expect(at < 0, 1)) return 0;
  return atomic_fetch_add(&asked, 1) == at;
}

int64_t pjrtd_alloc_fail_after(int64_t successes) {
  int64_t count = (int64_t)atomic_exchange(&asked, 0);
  atomic_store(&fail_at, successes < 0 ? -1 : (long long)successes);
  return count;
}

void *pjrtd_malloc(size_t size_bytes) {
  return refuse() ? NULL : malloc(size_bytes ? size_bytes : 1);
}

void *pjrtd_calloc(size_t count, size_t size_bytes) {
  return refuse() ? NULL : calloc(count ? count : 1, size_bytes ? size_bytes : 1);
}

void *pjrtd_realloc(void *block, size_t size_bytes) {
  return refuse() ? NULL : realloc(block, size_bytes ? size_bytes : 1);
}

char *pjrtd_strdup(const char *text) {
  return pjrtd_strndup(text, strlen(text));
}

char *pjrtd_strndup(const char *text, size_t length) {
  char *copy = pjrtd_malloc(length + 1);
  if (!copy) return NULL;
  memcpy(copy, text, length);
  copy[length] = 0;
  return copy;
}

void *pjrtd_memdup(const void *block, size_t size_bytes) {
  void *copy = pjrtd_malloc(size_bytes);
  if (copy && size_bytes) memcpy(copy, block, size_bytes);
  return copy;
}

void pjrtd_free(void *block) {
  free(block);
}
