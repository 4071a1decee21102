/* See fuzz_runtime.h. */
#include "fuzz_runtime.h"

#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "memory_plugin.h"
#include "service/peer.h"
#include "support/require.h"

uv_loop_t fuzz_loop;
pjrtd_runtime *fuzz_runtime;
pjrtd_settings fuzz_settings = {
    .loop_execute_us = 100,
    .lane_stall_ms = 60000,
    .max_stuck = 4,
    .max_device_executions = 24,
    .compile_stack_mib = 1,
    .max_connections = 10,
    .max_calls_in_flight = 64,
    .max_buffer_bytes = 32 << 20,
    .max_program_bytes = 1 << 20,
    .max_session_buffers = 1000,
    .max_sessions = 100,
    .max_session_programs = 100,
    .max_session_slots = 100,
    .max_queued_bytes = 4 << 20,
    .client_stall_seconds = 30,
    .handshake_seconds = 10,
    .session_lease_seconds = 600,
    .upload_credit_bytes = 1 << 20,
    .drain_seconds = 1,
};

void fuzz_runtime_start(void) {
  pjrtd_log_set_level(PJRTD_LOG_ERROR + 1);
  REQUIRE(uv_loop_init(&fuzz_loop) == 0);
  REQUIRE(!pjrtd_runtime_create(&fuzz_loop, &fuzz_settings, memory_plugin_create(), &fuzz_runtime));
  REQUIRE(!pjrtd_service_init());
}

static bool anything_left(void) {
  const pjrtd_stats *stats = &fuzz_runtime->stats;
  return fuzz_runtime->jobs_running || fuzz_runtime->doomed || fuzz_runtime->ready.first ||
         memory_plugin_count_objects() || stats->connections || stats->calls_in_flight || stats->sessions ||
         stats->buffers || stats->buffer_bytes || stats->programs || stats->staging_bytes;
}

void fuzz_runtime_wait_until_empty(void (*turn)(void), bool (*transport_left)(void)) {
  uint64_t until_ns = pjrtd_clock_now_ns() + UINT64_C(20000000000);
  while (anything_left() || transport_left()) {
    turn();
    pjrtd_sessions_end(fuzz_runtime); /* that are kept without a connection */
    if (fuzz_runtime->jobs_running) usleep(20);
    REQUIRE(pjrtd_clock_now_ns() < until_ns || (!anything_left() && !transport_left()));
  }
}
