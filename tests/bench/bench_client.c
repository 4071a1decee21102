/* A C program that uses pjrtd through the public client.
 *
 * usage: bench_client TARGET [--sleep] [--once | --idle N]
 *
 * Without --sleep the connection polls as the library does by default; with it a waiting thread sleeps at once.
 * --once: compile, execute and fetch once, print `ready {}` and wait for the end of standard input. --idle N: open N
 * connections that say nothing after Hello, print how long one took, and hold them until then. One thread; knows
 * pjrtc.h only. */
#include <errno.h>
#include <pjrtc/pjrtc.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "bench_slice.h"

enum { QUIET_BATCH = 1000, SMALL_BATCH = 64, PIPELINE_DEPTH = 64, LONG_RUN = 100000, MAX_IDLE = 100000 };

static pjrtc_client *client;

/* One for all calls, as the header advises: to clear its 2 KB of text anew would be timed with each call. */
static pjrtc_error error = PJRTC_ERROR_INIT;

static void check(pjrtc_code code, const char *call) {
  if (code != PJRTC_OK) bench_fail("%s: %s: %s %s", call, pjrtc_code_name(code), error.message, error.hint);
}

#define CHECK(call) check(call, #call)

static pjrtc_client *connect_to(const char *target, bool sleep) {
  pjrtc_connect_options options = PJRTC_CONNECT_OPTIONS_INIT;
  options.client_name = "bench_client";
  if (sleep) options.busy_poll_us = 0;
  pjrtc_client *connection;
  CHECK(pjrtc_connect(target, &options, &connection, &error));
  return connection;
}

/* ---- small calls ---- */

typedef struct {
  uint64_t program;
  uint64_t argument;
  float result[64];
  size_t num_results;
  float expected_last;
} small_call;

static void run_execute_fetch(void *user) {
  small_call *call = user;
  pjrtc_argument argument = {.buffer = call->argument};
  /* The dimensions are filled in by the call: initialising all PJRTC_MAX_RANK of them would be timed too. */
  pjrtc_value value;
  value.position = 0;
  value.data = call->result;
  value.capacity_bytes = sizeof call->result;
  value.reserved = 0;
  pjrtc_execute_options options = {.struct_size = sizeof options,
                                   .program = call->program,
                                   .args = &argument,
                                   .num_args = 1,
                                   .fetch = &value,
                                   .num_fetch = 1};
  CHECK(pjrtc_execute(client, &options, &error));
}

static void run_quiet(const small_call *call, int count) {
  pjrtc_argument argument = {.buffer = call->argument};
  pjrtc_execute_options options = {
      .struct_size = sizeof options, .program = call->program, .args = &argument, .num_args = 1};
  pjrtc_cork(client);
  for (int i = 0; i < count; i++) CHECK(pjrtc_execute_start(client, &options, NULL, &error));
  CHECK(pjrtc_flush(client, &error));
  CHECK(pjrtc_sync(client, 0, &error));
}

static void run_quiet_batch(void *user) {
  run_quiet(user, QUIET_BATCH);
}

static void run_small_batch(void *user) {
  run_quiet(user, SMALL_BATCH);
}

/* A training loop's shape: each output is the next argument, and the one before is deleted. */
static void run_feedback_batch(void *user) {
  small_call *call = user;
  uint64_t current = call->argument;
  pjrtc_cork(client);
  for (int i = 0; i < QUIET_BATCH; i++) {
    uint64_t next;
    pjrtc_argument argument = {.buffer = current};
    pjrtc_execute_options options = {.struct_size = sizeof options,
                                     .program = call->program,
                                     .args = &argument,
                                     .num_args = 1,
                                     .outputs = &next,
                                     .num_outputs = 1};
    CHECK(pjrtc_execute_start(client, &options, NULL, &error));
    if (i > 0) CHECK(pjrtc_delete_start(client, &current, 1, NULL, &error));
    current = next;
  }
  CHECK(pjrtc_delete_start(client, &current, 1, NULL, &error));
  CHECK(pjrtc_flush(client, &error));
  CHECK(pjrtc_sync(client, 0, &error));
}

/* The same with a slot for the state: each step is the same request, and nothing is to be deleted. */
static void run_steps(void *user) {
  small_call *call = user;
  pjrtc_slot_binding binding = {.slot = "x", .buffer = call->argument};
  pjrtc_argument argument = {.slot = "x"};
  pjrtc_feed_back feed_back = {.output = 0, .slot = "x"};
  pjrtc_execute_options options = {.struct_size = sizeof options,
                                   .program = call->program,
                                   .args = &argument,
                                   .num_args = 1,
                                   .feed_back = &feed_back,
                                   .num_feed_back = 1};
  pjrtc_cork(client);
  CHECK(pjrtc_bind_start(client, &binding, 1, NULL, &error));
  for (int i = 0; i < QUIET_BATCH; i++) CHECK(pjrtc_execute_start(client, &options, NULL, &error));
  CHECK(pjrtc_flush(client, &error));
  CHECK(pjrtc_sync(client, 0, &error));
}

/* The same in one call. */
static void run_many(const small_call *call, uint64_t steps) {
  pjrtc_argument argument = {.buffer = call->argument};
  pjrtc_feed_back feed_back = {.output = 0, .argument = 0};
  pjrtc_execute_options step = {.struct_size = sizeof step,
                                .program = call->program,
                                .args = &argument,
                                .num_args = 1,
                                .feed_back = &feed_back,
                                .num_feed_back = 1};
  pjrtc_run_options options = {.struct_size = sizeof options, .step = &step, .steps = steps};
  CHECK(pjrtc_run(client, &options, &error));
}

static void run_run(void *user) {
  run_many(user, QUIET_BATCH);
}

static void run_long(void *user) {
  run_many(user, LONG_RUN);
}

static void run_pipeline(void *user) {
  small_call *call = user;
  static pjrtc_value values[PIPELINE_DEPTH];
  static float results[PIPELINE_DEPTH][64];
  pjrtc_future *futures[PIPELINE_DEPTH];
  pjrtc_argument argument = {.buffer = call->argument};
  pjrtc_cork(client);
  for (int i = 0; i < PIPELINE_DEPTH; i++) {
    values[i].data = results[i];
    values[i].capacity_bytes = sizeof results[i];
    pjrtc_execute_options options = {.struct_size = sizeof options,
                                     .program = call->program,
                                     .args = &argument,
                                     .num_args = 1,
                                     .fetch = &values[i],
                                     .num_fetch = 1};
    CHECK(pjrtc_execute_start(client, &options, &futures[i], &error));
  }
  CHECK(pjrtc_flush(client, &error));
  for (int i = 0; i < PIPELINE_DEPTH; i++) {
    CHECK(pjrtc_future_wait(futures[i], PJRTC_FOREVER, &error));
    pjrtc_future_destroy(futures[i]);
  }
}

static small_call prepare(const char *code, const int64_t *dims, uint32_t rank, float expected_last) {
  float data[64];
  small_call call = {.num_results = 1, .expected_last = expected_last};
  for (uint32_t i = 0; i < rank; i++) call.num_results *= (size_t)dims[i];
  for (size_t i = 0; i < call.num_results; i++) data[i] = (float)(i % 8);
  pjrtc_compile_options compile = {.struct_size = sizeof compile, .code = code, .code_bytes = strlen(code)};
  CHECK(pjrtc_compile(client, &compile, &call.program, NULL, &error));
  pjrtc_upload_options upload = {.struct_size = sizeof upload, .type = {PJRTC_F32, rank, dims}, .data = data};
  CHECK(pjrtc_upload(client, &upload, &call.argument, &error));
  run_execute_fetch(&call);
  float last = call.result[call.num_results - 1];
  if (last != expected_last) bench_fail("a wrong result: %g, not %g", (double)last, (double)expected_last);
  return call;
}

/* ---- transfers ---- */

typedef struct {
  size_t size_bytes;
  float *host;
  uint64_t buffer;
} transfer;

static uint64_t upload(const transfer *t) {
  int64_t dims[1] = {(int64_t)(t->size_bytes / sizeof(float))};
  pjrtc_upload_options options = {.struct_size = sizeof options, .type = {PJRTC_F32, 1, dims}, .data = t->host};
  uint64_t buffer;
  CHECK(pjrtc_upload(client, &options, &buffer, &error));
  return buffer;
}

static void run_upload(void *user) {
  uint64_t buffer = upload(user);
  CHECK(pjrtc_delete_start(client, &buffer, 1, NULL, &error));
}

static void begin_transfer(void *user) {
  transfer *t = user;
  t->host = aligned_alloc(4096, t->size_bytes);
  if (!t->host) bench_fail("out of memory");
  memset(t->host, 0, t->size_bytes);
}

static void begin_download(void *user) {
  begin_transfer(user);
  transfer *t = user;
  t->buffer = upload(t);
}

static void run_download(void *user) {
  transfer *t = user;
  pjrtc_value value = {.data = t->host, .capacity_bytes = t->size_bytes};
  CHECK(pjrtc_download(client, t->buffer, &value, 0, &error));
}

static void end_transfer(void *user) {
  transfer *t = user;
  if (t->buffer) CHECK(pjrtc_delete(client, &t->buffer, 1, &error));
  free(t->host);
  t->buffer = 0;
  t->host = NULL;
}

/* ---- ways to run ---- */

static void wait_for_end_of_input(void) {
  fflush(stdout);
  while (getchar() != EOF) continue;
}

static int compare_times(const void *left, const void *right) {
  uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return (a > b) - (a < b);
}

static void hold_idle(const char *target, const char *count_text) {
  size_t count = strtoul(count_text, NULL, 10);
  if (count == 0 || count > MAX_IDLE) bench_fail("--idle %s: 1 to %d", count_text, MAX_IDLE);
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) bench_fail("getrlimit: %s", strerror(errno));
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) bench_fail("setrlimit: %s", strerror(errno));
  pjrtc_client **connections = calloc(count, sizeof *connections);
  uint64_t *times = calloc(count, sizeof *times);
  if (!connections || !times) bench_fail("out of memory");
  for (size_t i = 0; i < count; i++) {
    uint64_t start = bench_now_ns();
    connections[i] = connect_to(target, true);
    times[i] = bench_now_ns() - start;
  }
  qsort(times, count, sizeof *times, compare_times);
  printf("ready {\"connect_p50_ns\": %llu, \"connect_p99_ns\": %llu}\n", (unsigned long long)times[count / 2],
         (unsigned long long)times[count * 99 / 100]);
  wait_for_end_of_input();
  for (size_t i = 0; i < count; i++) pjrtc_close(connections[i]);
  free(connections);
  free(times);
}

static void serve_modes(void) {
  small_call add = prepare(bench_add_program, (const int64_t[]){8}, 1, 14);
  /* Rows of 0..7: each result is 28 times its column. */
  small_call dot = prepare(bench_dot_program, (const int64_t[]){8, 8}, 2, 196);
  transfer sizes[] = {{.size_bytes = 1u << 20}, {.size_bytes = 16u << 20}, {.size_bytes = 256u << 20}};
  const bench_mode modes[] = {
      {.name = "execute-fetch", .op = run_execute_fetch, .user = &add},
      {.name = "dot-fetch", .op = run_execute_fetch, .user = &dot},
      {.name = "execute-quiet", .op = run_quiet_batch, .user = &add, .inner = QUIET_BATCH},
      {.name = "execute-batch", .op = run_small_batch, .user = &add, .inner = SMALL_BATCH},
      {.name = "feedback-quiet", .op = run_feedback_batch, .user = &add, .inner = QUIET_BATCH},
      {.name = "steps", .op = run_steps, .user = &add, .inner = QUIET_BATCH},
      {.name = "run", .op = run_run, .user = &add, .inner = QUIET_BATCH},
      {.name = "run-long-add", .op = run_long, .user = &add, .inner = LONG_RUN},
      {.name = "run-long-dot", .op = run_long, .user = &dot, .inner = LONG_RUN},
      {.name = "execute-pipelined", .op = run_pipeline, .user = &add, .inner = PIPELINE_DEPTH},
      {.name = "upload-1", .op = run_upload, .begin = begin_transfer, .end = end_transfer, .user = &sizes[0]},
      {.name = "upload-16", .op = run_upload, .begin = begin_transfer, .end = end_transfer, .user = &sizes[1]},
      {.name = "upload-256", .op = run_upload, .begin = begin_transfer, .end = end_transfer, .user = &sizes[2]},
      {.name = "download-1", .op = run_download, .begin = begin_download, .end = end_transfer, .user = &sizes[0]},
      {.name = "download-16", .op = run_download, .begin = begin_download, .end = end_transfer, .user = &sizes[1]},
      {.name = "download-256", .op = run_download, .begin = begin_download, .end = end_transfer, .user = &sizes[2]},
  };
  char facts[128];
  snprintf(facts, sizeof facts, "{\"version\": \"%s\", \"daemon_busy_poll_us\": %u}", pjrtc_version(),
           pjrtc_get_hello(client)->server_busy_poll_us);
  bench_serve(modes, sizeof modes / sizeof *modes, facts);
}

int main(int argc, char **argv) {
  const char *usage = "usage: bench_client TARGET [--sleep] [--once | --idle N]";
  bool sleep = false, once = false;
  const char *idle = NULL;
  if (argc < 2) bench_fail("%s", usage);
  for (int i = 2; i < argc; i++) {
    if (strcmp(argv[i], "--sleep") == 0)
      sleep = true;
    else if (strcmp(argv[i], "--once") == 0)
      once = true;
    else if (strcmp(argv[i], "--idle") == 0 && i + 1 < argc)
      idle = argv[++i];
    else
      bench_fail("%s", usage);
  }
  if (idle) {
    hold_idle(argv[1], idle);
    return 0;
  }
  client = connect_to(argv[1], sleep);
  if (once) {
    prepare(bench_add_program, (const int64_t[]){8}, 1, 14);
    printf("ready {}\n");
    wait_for_end_of_input();
  } else {
    serve_modes();
  }
  pjrtc_close(client);
  return 0;
}
