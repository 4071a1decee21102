/* Admin.Stats. Loop thread. */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/call.h"
#include "service/convert.h"

static uint64_t resident_bytes(void) {
  unsigned long long total, resident = 0;
  FILE *file = fopen("/proc/self/statm", "re");
  if (!file) return 0;
  if (fscanf(file, "%llu %llu", &total, &resident) != 2) resident = 0;
  fclose(file);
  return resident * (uint64_t)sysconf(_SC_PAGESIZE);
}

/* Entries of a /proc folder, without "." and "..". */
static uint64_t count_entries(const char *path) {
  DIR *folder = opendir(path);
  if (!folder) return 0;
  uint64_t count = 0;
  while (readdir(folder)) count++;
  closedir(folder);
  return count > 2 ? count - 2 : 0;
}

pjrtd_status *pjrtd_handle_admin_stats(pjrtd_request *request) {
  pjrtd_runtime *runtime = request->peer->runtime;
  const pjrtd_stats *stats = &runtime->stats;
  const pjrtd_client_info *client = pjrtd_client_get_info(runtime->client);
  PJRTD_AUTO_FREE Pjrtd__V1__LaneStats *lanes = pjrtd_calloc(runtime->num_devices, sizeof *lanes);
  PJRTD_AUTO_FREE Pjrtd__V1__LaneStats **list = pjrtd_calloc(runtime->num_devices, sizeof *list);
  if (!lanes || !list) return pjrtd_status_oom();

  Pjrtd__V1__StatsReply reply = PJRTD__V1__STATS_REPLY__INIT;
  for (size_t i = 0; i < client->num_devices; i++) {
    if (!client->devices[i].addressable) continue;
    pjrtd_lane_stats lane = pjrtd_lane_get_stats(runtime->device_lanes[client->devices[i].index]);
    pjrtd_lane_stats transfer = pjrtd_lane_get_stats(runtime->transfer_lanes[client->devices[i].index]);
    pjrtd_lane_stats open = pjrtd_lane_get_stats(runtime->open_lanes[client->devices[i].index]);
    Pjrtd__V1__LaneStats *message = list[reply.n_lanes] = &lanes[reply.n_lanes];
    pjrtd__v1__lane_stats__init(message);
    message->device = client->devices[i].id;
    message->jobs = lane.jobs + open.jobs;
    message->queued = lane.queued + open.queued;
    message->busy_ns = lane.busy_ns + open.busy_ns;
    message->stuck = lane.stuck + open.stuck + transfer.stuck + lane.device_stuck + open.device_stuck;
    message->waited_ns = lane.waited_ns + open.waited_ns;
    message->longest_wait_ns =
        lane.longest_wait_ns > open.longest_wait_ns ? lane.longest_wait_ns : open.longest_wait_ns;
    message->outstanding = atomic_load(&runtime->device_executions[client->devices[i].index]);
    reply.n_lanes++;
  }
  reply.lanes = list;
  reply.uptime_ns = pjrtd_clock_now_ns() - runtime->started_ns;
  reply.connections = stats->connections;
  reply.connections_total = stats->connections_total;
  reply.sessions = stats->sessions;
  reply.buffers = stats->buffers;
  reply.buffer_bytes = stats->buffer_bytes;
  reply.programs = stats->programs;
  reply.calls_total = stats->calls_total;
  reply.calls_failed = stats->calls_failed;
  reply.calls_in_flight = stats->calls_in_flight;
  reply.executes_on_loop = stats->executes_on_loop;
  reply.executes_on_lane = stats->executes_on_lane;
  reply.compiles = stats->compiles;
  reply.compile_ns = stats->compile_ns;
  reply.bytes_received = stats->bytes_received;
  reply.bytes_sent = stats->bytes_sent;
  reply.wire_errors = stats->wire_errors;
  reply.clients_cut_off = stats->clients_cut_off;
  reply.staging_bytes = stats->staging_bytes;
  reply.loop_turns = stats->loop_turns;
  reply.loop_stalls = stats->loop_stalls;
  reply.loop_longest_turn_ns = stats->loop_longest_turn_ns;
  reply.resident_bytes = resident_bytes();
  reply.open_descriptors = count_entries("/proc/self/fd") - 1; /* the folder's own */
  reply.threads = count_entries("/proc/self/task");
  pjrtd_request_answer(request, &reply.base, NULL, 0);
  return PJRTD_OK;
}
