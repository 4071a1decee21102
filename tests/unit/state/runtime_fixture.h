/* For tests that need a runtime: a bare one, without plugin or lanes, and the real one. Each test has its own process
 * (Criterion forks, and a forked child of a process with a loaded plugin hangs), so nothing is loaded before a test. */
#pragma once

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "state/runtime.h"

#define UNUSED __attribute__((unused))

#define ASSERT_OK(expression)                                                                                      \
  do {                                                                                                             \
    pjrtd_status *status_ = (expression);                                                                          \
    cr_assert_null(status_, "%s: %s", pjrtd_code_name(pjrtd_status_code(status_)), pjrtd_status_message(status_)); \
  } while (0)

/* The code, and a piece of the message. */
#define ASSERT_FAILS(expression, code_, piece)                                                               \
  do {                                                                                                       \
    PJRTD_AUTO(pjrtd_status) status_ = (expression);                                                         \
    cr_assert_eq(pjrtd_status_code(status_), (code_), "%s: %s", pjrtd_code_name(pjrtd_status_code(status_)), \
                 pjrtd_status_message(status_));                                                             \
    cr_assert(strstr(pjrtd_status_message(status_), (piece)), "%s", pjrtd_status_message(status_));          \
  } while (0)

static uv_loop_t loop;
static pjrtd_settings settings = {
    .busy_poll_us = 0,
    .loop_execute_us = 100,
    .lane_stall_ms = 10000,
    .max_stuck = 4,
    .max_device_executions = 24,
    .compile_stack_mib = 64,
    .max_connections = 100,
    .max_calls_in_flight = 100,
    .max_buffer_bytes = UINT64_C(1) << 32,
    .max_program_bytes = UINT64_C(1) << 24,
    .max_session_buffers = 1000000,
    .max_sessions = 1000,
    .max_session_programs = 1000,
    .max_session_slots = 1000,
    .max_queued_bytes = 4 << 20,
    .client_stall_seconds = 30,
    .handshake_seconds = 10,
    .session_lease_seconds = 600,
    .upload_credit_bytes = 1 << 20,
    .drain_seconds = 10,
    .socket_mode = 0600,
};
static pjrtd_runtime *runtime;

/* ---- without a plugin: for what only keeps its state there ---- */

static pjrtd_runtime bare;

UNUSED static void open_bare(void) {
  cr_assert_eq(uv_loop_init(&loop), 0);
  bare = (pjrtd_runtime){.loop = &loop,
                         .settings = &settings,
                         .turn.schedstat = PJRTD_SCHEDSTAT_UNOPENED,
                         .memory_limit_bytes = settings.max_buffer_bytes};
  ASSERT_OK(pjrtd_page_pool_create(&bare.pages));
  uv_idle_init(&loop, &bare.more);
  bare.more.data = &bare;
  runtime = &bare;
}

/* Runs what was left for later. */
UNUSED static void close_bare(void) {
  uv_run(&loop, UV_RUN_DEFAULT);
  cr_assert_null(bare.doomed);
  pjrtd_page_pool_destroy(bare.pages);
  uv_close((uv_handle_t *)&bare.more, NULL);
  if (bare.turn.schedstat >= 0) close(bare.turn.schedstat);
  cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  cr_assert_eq(uv_loop_close(&loop), 0);
}

/* ---- with one ---- */

UNUSED static const char *test_plugin_path(void) {
  const char *path = getenv("PJRTD_TEST_PLUGIN");
  if (!path || !*path)
    cr_assert_fail(
        "PJRTD_TEST_PLUGIN is not set: it names the PJRT plugin to test on (cmake -DPJRTD_TEST_PLUGIN=FILE)");
  return path;
}

/* PJRTD_TEST_OPTION adds one: asynchronous=true makes the CPU hand over to threads of its own, as other platforms do.
 */
static char *test_options[] = {"cpu_device_count=2", NULL};

UNUSED static pjrtd_status *try_runtime(void) {
  test_options[1] = getenv("PJRTD_TEST_OPTION");
  settings.option = (pjrtd_text_list){test_options, test_options[1] ? 2 : 1};
  pjrtd_plugin *plugin;
  PJRTD_TRY(pjrtd_plugin_load(test_plugin_path(), &plugin));
  return pjrtd_runtime_create(&loop, &settings, plugin, &runtime);
}

UNUSED static void open_runtime(void) {
  cr_assert_eq(uv_loop_init(&loop), 0);
  ASSERT_OK(try_runtime());
}

UNUSED static void close_runtime(void) {
  pjrtd_runtime_close(runtime);
  cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  pjrtd_runtime_destroy(runtime);
  cr_assert_eq(uv_loop_close(&loop), 0);
}

/* ---- time ---- */

UNUSED static void turn(void) {
  uv_run(&loop, UV_RUN_NOWAIT);
  pjrtd_runtime_settle(runtime);
  pjrtd_runtime_end_turn(runtime);
}

/* Turns the loop until it is so; it has to become so within a time that no machine needs. */
#define TURN_UNTIL(condition)                                                     \
  do {                                                                            \
    uint64_t until_ns_ = pjrtd_clock_now_ns() + UINT64_C(60000000000);            \
    while (!(condition)) {                                                        \
      turn();                                                                     \
      if (!(condition)) usleep(100);                                              \
      cr_assert_lt(pjrtd_clock_now_ns(), until_ns_, "still not: %s", #condition); \
    }                                                                             \
  } while (0)

/* All that was deleted is gone. The last turn brings what was posted meanwhile: pages that a plugin let go. */
UNUSED static void wait_until_idle(void) {
  for (int i = 0; i < 2; i++) {
    TURN_UNTIL(!runtime->jobs_running && !runtime->doomed && !runtime->ready.first);
    turn();
  }
}

/* ---- buffers and programs of the real plugin ---- */

UNUSED static pjrtd_device_buffer *make_device_buffer(int64_t count, float value) {
  float *data = malloc((size_t)count * sizeof *data);
  for (int64_t i = 0; i < count; i++) data[i] = value + (float)i;
  const pjrtd_tensor_type type = {.dtype = PJRTD_DTYPE_F32, .rank = 1, .dims = &count};
  pjrtd_device_buffer *made;
  ASSERT_OK(pjrtd_device_buffer_from_host(runtime->client, data, &type, pjrtd_client_get_info(runtime->client)->devices,
                                          NULL, &made));
  free(data);
  return made;
}

/* %a + %a over f32[2], with the argument donated or not. */
#define ADD_TEXT(attribute)                                          \
  "module @add { func.func public @main(%a: tensor<2xf32>" attribute \
  ") -> tensor<2xf32> {\n"                                           \
  "  %0 = stablehlo.add %a, %a : tensor<2xf32>\n  return %0 : tensor<2xf32> } }\n"
#define DONATED " {tf.aliasing_output = 0 : i32}"

UNUSED static pjrtd_executable *compile(const char *text) {
  pjrtd_compile_options options = {.num_replicas = 1, .num_partitions = 1};
  pjrtd_executable *executable;
  ASSERT_OK(pjrtd_executable_compile(runtime->client, text, strlen(text), &options, &executable));
  return executable;
}
