/* Waiting: many threads on one connection, full sockets, a caller's own event loop, callbacks. */
#include <criterion/criterion.h>
#include <poll.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "fake_peer.h"

static pjrtc_argument float_argument(float *data, int64_t *dims) {
  return (pjrtc_argument){.type = {PJRTC_F32, 1, dims}, .data = data};
}

/* ---- Threads ---- */

enum { THREADS = 8, CALLS = 400 };

typedef struct {
  pjrtc_client *client;
  int number;
  int faults;
} worker;

static void *execute_many(void *user) {
  worker *w = user;
  int64_t dims[] = {8};
  for (int i = 0; i < CALLS; i++) {
    float x[8], y[8] = {0};
    for (int k = 0; k < 8; k++) x[k] = (float)(w->number * 100000 + i * 10 + k);
    pjrtc_argument arg = float_argument(x, dims);
    pjrtc_value value = {.data = y, .capacity_bytes = sizeof y};
    pjrtc_execute_options run = {
        .struct_size = sizeof run, .program = 1, .args = &arg, .num_args = 1, .fetch = &value, .num_fetch = 1};
    w->faults += pjrtc_execute(w->client, &run, NULL) != PJRTC_OK || memcmp(x, y, sizeof x) != 0;
  }
  return NULL;
}

static void run_threads(uint32_t busy_poll_us) {
  fake_peer peer;
  fake_peer_init(&peer, peer_serve, NULL);
  pjrtc_connect_options options = PJRTC_CONNECT_OPTIONS_INIT;
  options.busy_poll_us = busy_poll_us;
  pjrtc_client *client = fake_peer_connect_with(&peer, &options);
  pthread_t threads[THREADS];
  worker workers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){client, i, 0};
    pthread_create(&threads[i], NULL, execute_many, &workers[i]);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    cr_assert_eq(workers[i].faults, 0);
  }
  pjrtc_close(client);
  fake_peer_join(&peer);
}

Test(driver, gives_every_thread_its_own_answers, .timeout = 60) {
  run_threads(0);
}
Test(driver, gives_every_thread_its_own_answers_when_polling, .timeout = 60) {
  run_threads(50);
}

/* Answers in the opposite order, only once everybody has asked. */
static void answer_backwards(fake_peer *peer) {
  peer_hello(peer);
  pjrtd_frame_header headers[THREADS];
  for (int i = 0; i < THREADS; i++)
    if (!peer_expect(peer, PJRTD_FRAME_REQUEST, &headers[i])) return;
  for (int i = THREADS - 1; i >= 0; i--) {
    usleep(2000);
    if (headers[i].call % 2)
      peer_reply(peer, &headers[i], NULL, NULL, 0);
    else
      peer_error(peer, &headers[i], 5, "even");
  }
  peer_expect(peer, PJRTD_FRAME_REQUEST, headers);
}

static void *delete_one(void *user) {
  worker *w = user;
  uint64_t buffer = 1;
  pjrtc_error error = PJRTC_ERROR_INIT;
  pjrtc_code code = pjrtc_delete(w->client, &buffer, 1, &error);
  w->faults = code != (error.call % 2 || code == PJRTC_OK ? PJRTC_OK : PJRTC_NOT_FOUND);
  return NULL;
}

Test(driver, hands_its_role_on_when_its_own_answer_came_first, .timeout = 20) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, answer_backwards, NULL);
  pthread_t threads[THREADS];
  worker workers[THREADS];
  for (int i = 0; i < THREADS; i++) {
    workers[i] = (worker){client, i, 0};
    pthread_create(&threads[i], NULL, delete_one, &workers[i]);
  }
  for (int i = 0; i < THREADS; i++) {
    pthread_join(threads[i], NULL);
    cr_assert_eq(workers[i].faults, 0);
  }
  pjrtc_close(client);
  fake_peer_join(&peer);
}

static void *wait_for(void *future) {
  return (void *)(intptr_t)pjrtc_future_wait(future, PJRTC_FOREVER, NULL);
}

static void answer_late(fake_peer *peer) {
  pjrtd_frame_header header;
  peer_hello(peer);
  peer_expect(peer, PJRTD_FRAME_REQUEST, &header);
  usleep(30000);
  peer_reply(peer, &header, NULL, NULL, 0);
  peer_expect(peer, PJRTD_FRAME_REQUEST, &header);
}

Test(driver, wakes_all_who_wait_for_one_future, .timeout = 20) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, answer_late, NULL);
  pjrtc_future *future;
  uint64_t buffer = 1;
  cr_assert_eq(pjrtc_delete_start(client, &buffer, 1, &future, NULL), PJRTC_OK);
  cr_assert_eq(pjrtc_future_wait(future, 1000000, NULL), PJRTC_PENDING);
  cr_assert_eq(pjrtc_future_poll(future, NULL), PJRTC_PENDING);
  pthread_t threads[4];
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, wait_for, future);
  for (int i = 0; i < 4; i++) {
    void *code;
    pthread_join(threads[i], &code);
    cr_assert_eq((intptr_t)code, PJRTC_OK);
  }
  pjrtc_future_destroy(future);
  pjrtc_close(client);
  fake_peer_join(&peer);
}

/* ---- Full sockets ---- */

/* Writes 2 MB of answers before it reads anything more: both directions fill up. */
static void answer_before_reading_on(fake_peer *peer) {
  peer_serve(peer);
}

Test(driver, reads_while_it_cannot_write, .timeout = 60) {
  /* The peer answers each execute with 60 KB before it reads the next one, and the client starts 200 of 60 KB before
   * it waits: 12 MB each way through sockets that hold some 200 KB. */
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, answer_before_reading_on, NULL);
  enum { COUNT = 200, SIZE = 15000 };
  float *x = malloc(SIZE * sizeof *x), *y = malloc((size_t)COUNT * SIZE * sizeof *y);
  int64_t dims[] = {SIZE};
  static pjrtc_value values[COUNT];
  pjrtc_future *futures[COUNT];
  for (int i = 0; i < COUNT; i++) {
    for (int k = 0; k < SIZE; k++) x[k] = (float)(i + k);
    pjrtc_argument arg = float_argument(x, dims);
    values[i] = (pjrtc_value){.data = y + i * SIZE, .capacity_bytes = SIZE * sizeof *y};
    pjrtc_execute_options run = {
        .struct_size = sizeof run, .program = 1, .args = &arg, .num_args = 1, .fetch = &values[i], .num_fetch = 1};
    cr_assert_eq(pjrtc_execute_start(client, &run, &futures[i], NULL), PJRTC_OK);
  }
  for (int i = COUNT - 1; i >= 0; i--) {
    cr_assert_eq(pjrtc_future_wait(futures[i], PJRTC_FOREVER, NULL), PJRTC_OK);
    pjrtc_future_destroy(futures[i]);
  }
  for (int i = 0; i < COUNT; i++) cr_assert_eq(y[i * SIZE + 7], (float)(i + 7));
  free(x);
  free(y);
  pjrtc_close(client);
  fake_peer_join(&peer);
}

typedef struct {
  pjrtc_client *client;
  int faults;
} mover;

static void *move_megabytes(void *user) {
  mover *m = user;
  int64_t dims[] = {3000000};
  uint8_t *data = malloc(3000000);
  for (int i = 0; i < 3000000; i++) data[i] = (uint8_t)(i >> 4);
  for (int round = 0; round < 4; round++) {
    pjrtc_upload_options up = {.struct_size = sizeof up, .type = {PJRTC_U8, 1, dims}, .data = data};
    uint64_t buffer;
    pjrtc_value value = {0};
    m->faults += pjrtc_upload(m->client, &up, &buffer, NULL) != PJRTC_OK;
    m->faults += pjrtc_download(m->client, buffer, &value, 0, NULL) != PJRTC_OK;
    m->faults += !value.data || memcmp(value.data, data, 3000000) != 0;
    pjrtc_free(value.data);
    m->faults += pjrtc_delete(m->client, &buffer, 1, NULL) != PJRTC_OK;
  }
  free(data);
  return NULL;
}

Test(driver, moves_data_both_ways_for_several_threads_beside_small_calls, .timeout = 60) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, peer_serve, NULL);
  pthread_t movers[3], small;
  mover loads[3];
  worker light = {client, 9, 0};
  for (int i = 0; i < 3; i++) {
    loads[i] = (mover){client, 0};
    pthread_create(&movers[i], NULL, move_megabytes, &loads[i]);
  }
  pthread_create(&small, NULL, execute_many, &light);
  for (int i = 0; i < 3; i++) {
    pthread_join(movers[i], NULL);
    cr_assert_eq(loads[i].faults, 0);
  }
  pthread_join(small, NULL);
  cr_assert_eq(light.faults, 0);
  pjrtc_close(client);
  fake_peer_join(&peer);
}

/* ---- A caller's event loop ---- */

static void count(pjrtc_future *future, void *user) {
  atomic_int *done = user;
  if (pjrtc_future_poll(future, NULL) == PJRTC_OK) atomic_fetch_add(done, 1);
  pjrtc_future_destroy(future);
}

Test(driver, fits_a_callers_own_event_loop, .timeout = 20) {
  fake_peer peer;
  fake_peer_init(&peer, peer_serve, NULL);
  pjrtc_connect_options options = PJRTC_CONNECT_OPTIONS_INIT;
  options.nonblocking = true;
  pjrtc_client *client = fake_peer_connect_with(&peer, &options);
  atomic_int done = 0;
  uint8_t *data = calloc(1, 9000000);
  int64_t dims[] = {9000000}, one[] = {1};
  pjrtc_upload_options large = {.struct_size = sizeof large, .type = {PJRTC_U8, 1, dims}, .data = data};
  pjrtc_upload_options small = {.struct_size = sizeof small, .type = {PJRTC_U8, 1, one}, .data = data};
  uint64_t buffer;
  pjrtc_future *future;
  cr_assert_eq(pjrtc_upload_start(client, &large, &buffer, &future, NULL), PJRTC_OK);
  pjrtc_future_on_done(future, count, &done);
  for (int i = 0; i < 20; i++) {
    cr_assert_eq(pjrtc_upload_start(client, &small, &buffer, &future, NULL), PJRTC_OK);
    pjrtc_future_on_done(future, count, &done);
  }
  bool asked_to_write = false;
  while (done < 21) {
    struct pollfd fd = {.fd = pjrtc_fd(client), .events = pjrtc_events(client)};
    asked_to_write |= (fd.events & POLLOUT) != 0;
    cr_assert_gt(poll(&fd, 1, 10000), 0);
    cr_assert_eq(pjrtc_progress(client, NULL), PJRTC_OK);
  }
  cr_assert_eq(asked_to_write, FAKE_PEER_OVER_SOCKET, "gRPC's descriptor says by itself when there is room");
  free(data);
  pjrtc_close(client);
  fake_peer_join(&peer);
}

static void read_nothing(fake_peer *peer) {
  peer_hello(peer);
  sem_t *go = peer->user;
  sem_wait(go);
}

Test(driver, never_waits_where_the_caller_must_not_block, .timeout = 20) {
  sem_t go;
  sem_init(&go, 0, 0);
  fake_peer peer;
  fake_peer_init(&peer, read_nothing, &go);
  pjrtc_connect_options options = PJRTC_CONNECT_OPTIONS_INIT;
  options.nonblocking = true;
  options.max_queued_bytes = 100000;
  pjrtc_client *client = fake_peer_connect_with(&peer, &options);
  uint8_t data[50000] = {0};
  int64_t dims[] = {50000};
  pjrtc_upload_options up = {.struct_size = sizeof up, .type = {PJRTC_U8, 1, dims}, .data = data};
  pjrtc_error error = PJRTC_ERROR_INIT;
  uint64_t buffer;
  int started = 0;
  while (pjrtc_upload_start(client, &up, &buffer, NULL, &error) == PJRTC_OK) cr_assert_lt(++started, 100);
  cr_assert_eq(error.code, PJRTC_RESOURCE_EXHAUSTED, "%s", error.message);
  cr_assert_geq(started, 2);
  sem_post(&go);
  pjrtc_close(client);
  fake_peer_join(&peer);
}

/* ---- Callbacks ---- */

typedef struct {
  pjrtc_client *client;
  int left;
  atomic_int done;
} chain;

static void start_next(pjrtc_future *future, void *user) {
  chain *c = user;
  uint64_t buffer = 1;
  pjrtc_future_destroy(future);
  c->done++;
  if (!c->left--) return;
  pjrtc_future *next;
  if (pjrtc_sync_start(c->client, 0, &next, NULL) == PJRTC_OK) pjrtc_future_on_done(next, start_next, c);
  pjrtc_delete_start(c->client, &buffer, 1, NULL, NULL);
}

Test(driver, runs_callbacks_that_start_calls, .timeout = 20) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, peer_serve, NULL);
  chain c = {.client = client, .left = 50};
  pjrtc_future *future;
  cr_assert_eq(pjrtc_sync_start(client, 0, &future, NULL), PJRTC_OK);
  pjrtc_future_on_done(future, start_next, &c);
  while (c.done < 51) {
    struct pollfd fd = {.fd = pjrtc_fd(client), .events = pjrtc_events(client)};
    poll(&fd, 1, 1000);
    pjrtc_progress(client, NULL);
  }
  pjrtc_close(client);
  fake_peer_join(&peer);
}

static void wait_inside(pjrtc_future *future, void *user) {
  pjrtc_client *client = user;
  cr_assert_eq(pjrtc_sync(client, 0, NULL), PJRTC_OK);
}

Test(driver, lets_a_callback_wait, .timeout = 20) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, peer_serve, NULL);
  pjrtc_future *future;
  cr_assert_eq(pjrtc_sync_start(client, 0, &future, NULL), PJRTC_OK);
  pjrtc_future_on_done(future, wait_inside, client);
  cr_assert_eq(pjrtc_sync(client, 0, NULL), PJRTC_OK);
  cr_assert_eq(pjrtc_future_wait(future, PJRTC_FOREVER, NULL), PJRTC_OK);
  pjrtc_future_destroy(future);
  pjrtc_close(client);
  fake_peer_join(&peer);
}

/* ---- Batches ---- */

static void count_first_read(fake_peer *peer) {
  atomic_size_t *first = peer->user;
  peer_hello(peer);
  struct pollfd fd = {.fd = peer->fd, .events = POLLIN};
  poll(&fd, 1, 5000);
  uint8_t bytes[65536];
  atomic_store(first, (size_t)recv(peer->fd, bytes, sizeof bytes, 0));
}

Test(driver, sends_corked_calls_in_one_write, .timeout = 20) {
  atomic_size_t first = 0;
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, count_first_read, &first);
  uint64_t buffer = 1;
  pjrtc_cork(client);
  for (int i = 0; i < 10; i++) cr_assert_eq(pjrtc_delete_start(client, &buffer, 1, NULL, NULL), PJRTC_OK);
  struct pollfd fd = {.fd = peer.fd, .events = POLLIN};
  cr_assert_eq(poll(&fd, 1, 20), 0, "nothing was sent before the flush");
  cr_assert_eq(pjrtc_flush(client, NULL), PJRTC_OK);
  /* Over gRPC an end may overtake what nobody has waited for. */
  for (int i = 0; i < 5000 && !first; i++) nanosleep(&(struct timespec){0, 1000000}, NULL);
  pjrtc_close(client);
  fake_peer_join(&peer);
  cr_assert_eq(first, 10 * (32 + 3), "ten requests with a packed id each");
}

/* ---- Signals ---- */

static atomic_int signals;
static void on_signal(int number) {
  signals++;
}

Test(driver, is_not_disturbed_by_signals, .timeout = 60) {
  struct sigaction action = {.sa_handler = on_signal}; /* without SA_RESTART */
  struct itimerval every = {{0, 300}, {0, 300}}, never = {{0, 0}, {0, 0}};
  sigaction(SIGALRM, &action, NULL);
  fake_peer peer;
  fake_peer_init(&peer, peer_serve, NULL);
  pjrtc_connect_options options = PJRTC_CONNECT_OPTIONS_INIT;
  options.busy_poll_us = 0;
  setitimer(ITIMER_REAL, &every, NULL);
  pjrtc_client *client = fake_peer_connect_with(&peer, &options);
  worker small = {client, 1, 0};
  mover large = {client, 0};
  execute_many(&small);
  move_megabytes(&large);
  setitimer(ITIMER_REAL, &never, NULL);
  cr_assert_eq(small.faults, 0);
  cr_assert_eq(large.faults, 0);
  cr_assert_gt(signals, 10);
  pjrtc_close(client);
  fake_peer_join(&peer);
}
