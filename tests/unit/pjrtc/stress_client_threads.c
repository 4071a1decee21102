/* Many threads do everything at once on one connection: executes, futures that are waited for, cancelled and destroyed,
 * callbacks, runs, bulk data both ways, quiet calls, syncs. A plain program, so that it runs under ThreadSanitizer.
 *
 * usage: stress_client_threads [SECONDS] */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake_peer.h"
#include "support/require.h"

static pjrtc_client *client;
static atomic_bool stop;
static atomic_int callbacks;

static void *execute(void *user) {
  int64_t dims[] = {8};
  for (int i = 0; !stop; i++) {
    float x[8], y[8] = {0};
    for (int k = 0; k < 8; k++) x[k] = (float)(i * 8 + k);
    pjrtc_argument arg = {.type = {PJRTC_F32, 1, dims}, .data = x};
    pjrtc_value value = {.data = y, .capacity_bytes = sizeof y};
    pjrtc_execute_options run = {
        .struct_size = sizeof run, .program = 1, .args = &arg, .num_args = 1, .fetch = &value, .num_fetch = 1};
    REQUIRE(pjrtc_execute(client, &run, NULL) == PJRTC_OK);
    REQUIRE(memcmp(x, y, sizeof x) == 0);
  }
  return NULL;
}

static void count(pjrtc_future *future, void *user) {
  atomic_fetch_add(&callbacks, 1);
  pjrtc_future_destroy(future);
}

static void *abandon(void *user) {
  uint8_t *data = calloc(1, 400000);
  int64_t large[] = {400000}, small[] = {16};
  for (unsigned i = 0; !stop; i++) {
    pjrtc_upload_options up = {.struct_size = sizeof up, .type = {PJRTC_U8, 1, i % 5 ? small : large}, .data = data};
    uint64_t buffer;
    pjrtc_future *future, *second;
    pjrtc_value value = {0};
    REQUIRE(pjrtc_upload_start(client, &up, &buffer, &future, NULL) == PJRTC_OK);
    REQUIRE(pjrtc_download_start(client, buffer, &value, 0, &second, NULL) == PJRTC_OK);
    /* The peer of this test knows no CANCEL: what it was asked, it does. */
    if (i % 3 == 0) pjrtc_future_on_done(second, count, NULL);
    if (i % 3 == 1) pjrtc_future_wait(second, (int64_t)(i % 7) * 10000, NULL);
    if (i % 5) pjrtc_future_wait(future, PJRTC_FOREVER, NULL);
    if (i % 5 == 0) REQUIRE(pjrtc_future_wait(future, PJRTC_FOREVER, NULL) == PJRTC_OK);
    pjrtc_future_destroy(future);
    if (i % 3) {
      pjrtc_future_wait(second, i % 2 ? 0 : PJRTC_FOREVER, NULL);
      pjrtc_future_destroy(second);
      pjrtc_free(value.data); /* it may have ended since; where it had not, there is none */
    } else {
      REQUIRE(pjrtc_sync(client, 0, NULL) != PJRTC_UNAVAILABLE); /* the value outlives its download */
      pjrtc_free(value.data);
    }
    REQUIRE(pjrtc_delete_start(client, &buffer, 1, NULL, NULL) == PJRTC_OK);
  }
  free(data);
  return NULL;
}

/* The memory is this thread's: whoever drives writes to it and calls this until the run is let go of. */
static bool on_step(void *user, uint64_t steps, const pjrtc_value *values, size_t num_values) {
  uint64_t *last = user;
  REQUIRE(steps > *last);
  REQUIRE(num_values == 1 && ((const float *)values[0].data)[3] == 3);
  *last = steps;
  return true;
}

static void *run_steps(void *user) {
  int64_t dims[] = {8};
  const float x[8] = {0, 1, 2, 3};
  pjrtc_argument arg = {.type = {PJRTC_F32, 1, dims}, .data = x};
  for (unsigned i = 0; !stop; i++) {
    uint64_t last = 0;
    pjrtc_value value = {0};
    pjrtc_execute_options step = {
        .struct_size = sizeof step, .program = 1, .args = &arg, .num_args = 1, .fetch = &value, .num_fetch = 1};
    pjrtc_run_options run = {
        .struct_size = sizeof run, .step = &step, .steps = 20, .every = 1, .on_step = on_step, .user = &last};
    pjrtc_future *future;
    REQUIRE(pjrtc_run_start(client, &run, &future, NULL) == PJRTC_OK);
    pjrtc_code code = pjrtc_future_wait(future, i % 2 ? (int64_t)(i % 16) * 10000 : PJRTC_FOREVER, NULL);
    REQUIRE(code == PJRTC_OK || i % 2);
    pjrtc_future_destroy(future);
    REQUIRE(code == PJRTC_PENDING || (last == 19 && ((float *)value.data)[3] == 3));
    pjrtc_free(value.data);
  }
  return NULL;
}

static void *move_data(void *user) {
  int64_t dims[] = {1500000}, strides[] = {-1};
  uint8_t *data = malloc(1500000);
  for (int i = 0; i < 1500000; i++) data[i] = (uint8_t)(i >> 5);
  while (!stop) {
    pjrtc_upload_options up = {
        .struct_size = sizeof up, .type = {PJRTC_U8, 1, dims}, .data = data + 1499999, .byte_strides = strides};
    uint64_t buffer;
    pjrtc_value value = {0};
    REQUIRE(pjrtc_upload(client, &up, &buffer, NULL) == PJRTC_OK);
    REQUIRE(pjrtc_download(client, buffer, &value, 0, NULL) == PJRTC_OK);
    for (int i = 0; i < 1500000; i += 1777) REQUIRE(((uint8_t *)value.data)[i] == data[1499999 - i]);
    pjrtc_free(value.data);
    REQUIRE(pjrtc_delete(client, &buffer, 1, NULL) == PJRTC_OK);
  }
  free(data);
  return NULL;
}

static void *progress(void *user) {
  while (!stop) {
    REQUIRE(pjrtc_progress(client, NULL) == PJRTC_OK);
    nanosleep(&(struct timespec){0, 200000}, NULL);
  }
  return NULL;
}

int main(int argc, char **argv) {
  int seconds = argc > 1 ? atoi(argv[1]) : 3;
  fake_peer peer;
  client = fake_peer_connect(&peer, peer_serve, NULL);
  void *(*const bodies[])(void *) = {execute,   execute,   execute,   abandon, abandon,
                                     run_steps, run_steps, move_data, progress};
  enum { COUNT = sizeof bodies / sizeof *bodies };
  pthread_t threads[COUNT];
  for (int i = 0; i < COUNT; i++) REQUIRE(pthread_create(&threads[i], NULL, bodies[i], NULL) == 0);
  nanosleep(&(struct timespec){seconds, 0}, NULL);
  stop = true;
  for (int i = 0; i < COUNT; i++) pthread_join(threads[i], NULL);
  REQUIRE(callbacks > 0);
  pjrtc_close(client);
  fake_peer_join(&peer);
  return 0;
}
