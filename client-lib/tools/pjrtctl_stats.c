/* pjrtctl stats: the server's counters. */
#include <inttypes.h>
#include <stddef.h>
#include <stdlib.h>

#include "ctl.h"
#include "ctl_json.h"
#include "ctl_table.h"

typedef enum { COUNT, BYTES, TIME } unit;

/* In the order in which they are shown; the names are those of --json. */
static const struct {
  const char *name;
  const char *label;
  size_t offset;
  unit unit;
} counters[] = {
#define COUNTER(name, label, unit) \
  { #name, label, offsetof(pjrtc_stats, name), unit }
    COUNTER(uptime_ns, "up", TIME),
    COUNTER(connections, "connections", COUNT),
    COUNTER(connections_total, "connections so far", COUNT),
    COUNTER(sessions, "sessions", COUNT),
    COUNTER(buffers, "buffers", COUNT),
    COUNTER(buffer_bytes, "in buffers", BYTES),
    COUNTER(programs, "programs", COUNT),
    COUNTER(calls_total, "calls", COUNT),
    COUNTER(calls_failed, "calls failed", COUNT),
    COUNTER(calls_in_flight, "calls in flight", COUNT),
    COUNTER(executes_on_loop, "executes on the loop", COUNT),
    COUNTER(executes_on_lane, "executes on lanes", COUNT),
    COUNTER(compiles, "compiles", COUNT),
    COUNTER(compile_ns, "in compiles", TIME),
    COUNTER(bytes_received, "received", BYTES),
    COUNTER(bytes_sent, "sent", BYTES),
    COUNTER(loop_turns, "loop turns", COUNT),
    COUNTER(loop_stalls, "loop stalls", COUNT),
    COUNTER(loop_longest_turn_ns, "longest loop turn", TIME),
    COUNTER(wire_errors, "broken frames", COUNT),
    COUNTER(clients_cut_off, "clients cut off", COUNT),
    COUNTER(resident_bytes, "resident memory", BYTES),
    COUNTER(staging_bytes, "staging memory", BYTES),
    COUNTER(open_descriptors, "open descriptors", COUNT),
    COUNTER(threads, "threads", COUNT),
#undef COUNTER
};

static uint64_t value_of(const pjrtc_stats *stats, size_t i) {
  return *(const uint64_t *)((const char *)stats + counters[i].offset);
}

static void print_json(const pjrtc_stats *stats) {
  json_t *root = json_object(), *lanes = json_array();
  for (size_t i = 0; i < sizeof counters / sizeof *counters; i++)
    json_object_set_new(root, counters[i].name, ctl_json_unsigned(value_of(stats, i)));
  for (size_t i = 0; i < stats->num_lanes; i++) {
    const pjrtc_lane_stats *lane = stats->lanes[i];
    json_array_append_new(lanes,
                          json_pack("{s:i, s:o, s:o, s:o, s:i, s:o, s:o, s:i}", "device", (int)lane->device, "jobs",
                                    ctl_json_unsigned(lane->jobs), "queued", ctl_json_unsigned(lane->queued), "busy_ns",
                                    ctl_json_unsigned(lane->busy_ns), "stuck", (int)lane->stuck, "waited_ns",
                                    ctl_json_unsigned(lane->waited_ns), "longest_wait_ns",
                                    ctl_json_unsigned(lane->longest_wait_ns), "outstanding", (int)lane->outstanding));
  }
  json_object_set_new(root, "lanes", lanes);
  ctl_json_print(root);
}

static void print_text(const pjrtc_stats *stats) {
  static const char *const columns[] = {"name", "value#", NULL};
  static const char *const lane_columns[] = {"LANE OF DEVICE#", "JOBS#",   "QUEUED#",       "BUSY#",
                                             "STUCK#",          "WAITED#", "LONGEST WAIT#", NULL};
  char text[32];
  ctl_table *table = ctl_table_create(columns, false);
  for (size_t i = 0; i < sizeof counters / sizeof *counters; i++) {
    uint64_t value = value_of(stats, i);
    ctl_table_add(table, "%s", counters[i].label);
    if (counters[i].unit == COUNT)
      ctl_table_add(table, "%" PRIu64, value);
    else
      ctl_table_add(table, "%s", counters[i].unit == BYTES ? ctl_bytes(value, text) : ctl_duration(value, text));
  }
  ctl_table_print(table);
  if (!stats->num_lanes) return;
  putchar('\n');
  table = ctl_table_create(lane_columns, true);
  for (size_t i = 0; i < stats->num_lanes; i++) {
    const pjrtc_lane_stats *lane = stats->lanes[i];
    ctl_table_add(table, "%" PRId32, lane->device);
    ctl_table_add(table, "%" PRIu64, lane->jobs);
    ctl_table_add(table, "%" PRIu64, lane->queued);
    ctl_table_add(table, "%s", ctl_duration(lane->busy_ns, text));
    ctl_table_add(table, "%" PRIu32, lane->stuck);
    ctl_table_add(table, "%s", ctl_duration(lane->waited_ns, text));
    ctl_table_add(table, "%s", ctl_duration(lane->longest_wait_ns, text));
  }
  ctl_table_print(table);
}

int ctl_stats(int argc, char **argv, ctl_common *common) {
  size_t num_words;
  int status = ctl_parse(argc, argv, NULL, 0, NULL, common, NULL, 0, &num_words);
  if (status) return status;
  pjrtc_client *client = ctl_connect(common, &status);
  if (!client) return status;
  pjrtc_error error;
  pjrtc_stats *stats;
  ctl_error_init(&error);
  if (pjrtc_get_stats(client, &stats, &error))
    status = ctl_fail(common, &error);
  else if (common->json)
    print_json(stats);
  else
    print_text(stats);
  pjrtc_stats_destroy(stats);
  free(error.detail);
  pjrtc_close(client);
  return status;
}
