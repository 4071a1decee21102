/* One status shared by many threads, as a poisoned buffer shares it with its later users: read, retained, changed
 * (which copies) and released everywhere at once. */
#include <pthread.h>
#include <string.h>

#include "base/status.h"
#include "support/require.h"

enum { THREADS = 8, ROUNDS = 20000 };

static pjrtd_status *shared;

static void *work(void *argument) {
  long thread = (long)argument;
  for (int i = 0; i < ROUNDS; i++) {
    pjrtd_status *mine = pjrtd_status_retain(shared);
    REQUIRE(pjrtd_status_code(mine) == PJRTD_CODE_NOT_FOUND);
    REQUIRE(strcmp(pjrtd_status_message(mine), "the first error") == 0);
    if (i % 3 == 0) {
      mine = pjrtd_status_context(mine, "thread %ld", thread);
      mine = pjrtd_status_with_origin(mine, (uint64_t)i);
      char right[64];
      snprintf(right, sizeof right, "thread %ld: the first error", thread);
      REQUIRE(strcmp(pjrtd_status_message(mine), right) == 0);
      REQUIRE(pjrtd_status_origin(mine) == (uint64_t)i);
    }
    pjrtd_status_destroy(mine);
    if (i % 100 == 0) pjrtd_status_destroy(pjrtd_status_oom());
  }
  return NULL;
}

int main(void) {
  shared = pjrtd_status_with_hint(pjrtd_status_make(PJRTD_CODE_NOT_FOUND, "the first error"), "a hint");
  REQUIRE(shared);
  pthread_t threads[THREADS];
  for (long i = 0; i < THREADS; i++) REQUIRE(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  REQUIRE(strcmp(pjrtd_status_message(shared), "the first error") == 0);
  REQUIRE(strcmp(pjrtd_status_hint(shared), "a hint") == 0);
  REQUIRE(pjrtd_status_origin(shared) == 0);
  pjrtd_status_destroy(shared);
  printf("%d rounds\n", THREADS * ROUNDS);
  return 0;
}
