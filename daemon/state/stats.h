/* What the daemon counts. Loop thread only; Admin.Stats and later the metrics read it. */
#pragma once

#include <stdint.h>

typedef struct {
  uint64_t connections, connections_total;
  uint64_t sessions;
  uint64_t buffers, buffer_bytes; /* device buffers that exist, named or not */
  uint64_t programs;
  uint64_t calls_total, calls_failed, calls_in_flight;
  uint64_t executes_on_loop, executes_on_lane;
  uint64_t compiles, compile_ns;
  uint64_t bytes_received, bytes_sent;
  uint64_t wire_errors, clients_cut_off;
  uint64_t staging_bytes; /* host memory held for transfers under way */
  uint64_t loop_turns, loop_stalls, loop_longest_turn_ns;
} pjrtd_stats;
