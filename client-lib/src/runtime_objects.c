/* The replies of the runtime and admin families as public objects. Any thread. */
#include "pjrtd/v1/admin.pb-c.h"
#include "pjrtd/v1/runtime.pb-c.h"
#include "reply_object.h"

void *pjrtc_read_info(pjrtc_reply_arena *arena, const uint8_t *payload, size_t payload_bytes) {
  Pjrtd__V1__InfoReply *m = pjrtd__v1__info_reply__unpack(pjrtc_reply_arena_allocator(arena), payload_bytes, payload);
  pjrtc_info *info = pjrtc_reply_object_create(arena, sizeof *info);
  if (!m || !info) return NULL;
  *info = (pjrtc_info){
      .struct_size = sizeof *info,
      .server_version = m->server_version,
      .server_epoch = m->server_epoch,
      .uptime_ns = m->uptime_ns,
      .pid = m->pid,
      .protocol_min = m->protocol_min,
      .protocol_max = m->protocol_max,
      .pjrt_major = m->pjrt_major,
      .pjrt_minor = m->pjrt_minor,
      .headers_major = m->headers_major,
      .headers_minor = m->headers_minor,
      .plugin_path = m->plugin_path,
      .platform_name = m->platform_name,
      .platform_version = m->platform_version,
      .stablehlo_current = m->stablehlo_current,
      .stablehlo_minimum = m->stablehlo_minimum,
      .process_index = m->process_index,
      .num_devices = m->num_devices,
      .num_addressable_devices = m->num_addressable_devices,
      .extensions = (const char *const *)m->extensions,
      .num_extensions = m->n_extensions,
      .attributes = pjrtc_read_attributes(arena, m->n_attributes, m->attributes),
      .num_attributes = m->n_attributes,
      .create_options = pjrtc_read_attributes(arena, m->n_create_options, m->create_options),
      .num_create_options = m->n_create_options,
  };
  return info->attributes && info->create_options ? info : NULL;
}

static pjrtc_device *read_device(pjrtc_reply_arena *arena, const Pjrtd__V1__DeviceInfo *m) {
  pjrtc_device *device = pjrtc_reply_arena_zalloc(arena, sizeof *device);
  if (!device) return NULL;
  *device = (pjrtc_device){
      .struct_size = sizeof *device,
      .id = m->id,
      .local_hardware_id = m->local_hardware_id,
      .process_index = m->process_index,
      .default_memory = m->default_memory,
      .addressable = m->addressable,
      .kind = m->kind,
      .debug_string = m->debug_string,
      .to_string = m->to_string,
      .memories = m->memories,
      .num_memories = m->n_memories,
      .attributes = pjrtc_read_attributes(arena, m->n_attributes, m->attributes),
      .num_attributes = m->n_attributes,
      .memory_stats = pjrtc_read_attributes(arena, m->n_memory_stats, m->memory_stats),
      .num_memory_stats = m->n_memory_stats,
  };
  return device->attributes && device->memory_stats ? device : NULL;
}

void *pjrtc_read_devices(pjrtc_reply_arena *arena, const uint8_t *payload, size_t payload_bytes) {
  Pjrtd__V1__DevicesReply *m =
      pjrtd__v1__devices_reply__unpack(pjrtc_reply_arena_allocator(arena), payload_bytes, payload);
  pjrtc_devices *devices = pjrtc_reply_object_create(arena, sizeof *devices);
  if (!m || !devices) return NULL;
  pjrtc_device **list = pjrtc_reply_arena_zalloc(arena, m->n_devices * sizeof *list);
  for (size_t i = 0; list && i < m->n_devices; i++)
    if (!(list[i] = read_device(arena, m->devices[i]))) return NULL;
  *devices = (pjrtc_devices){sizeof *devices, (const pjrtc_device *const *)list, m->n_devices};
  return list ? devices : NULL;
}

void *pjrtc_read_memories(pjrtc_reply_arena *arena, const uint8_t *payload, size_t payload_bytes) {
  Pjrtd__V1__MemoriesReply *m =
      pjrtd__v1__memories_reply__unpack(pjrtc_reply_arena_allocator(arena), payload_bytes, payload);
  pjrtc_memories *memories = pjrtc_reply_object_create(arena, sizeof *memories);
  if (!m || !memories) return NULL;
  pjrtc_memory **list = pjrtc_reply_arena_zalloc(arena, m->n_memories * sizeof *list);
  for (size_t i = 0; list && i < m->n_memories; i++) {
    const Pjrtd__V1__MemoryInfo *from = m->memories[i];
    if (!(list[i] = pjrtc_reply_arena_zalloc(arena, sizeof *list[i]))) return NULL;
    *list[i] = (pjrtc_memory){
        .struct_size = sizeof *list[i],
        .id = from->id,
        .kind_id = from->kind_id,
        .kind = from->kind,
        .debug_string = from->debug_string,
        .to_string = from->to_string,
        .devices = from->devices,
        .num_devices = from->n_devices,
    };
  }
  *memories = (pjrtc_memories){sizeof *memories, (const pjrtc_memory *const *)list, m->n_memories};
  return list ? memories : NULL;
}

void *pjrtc_read_stats(pjrtc_reply_arena *arena, const uint8_t *payload, size_t payload_bytes) {
  Pjrtd__V1__StatsReply *m = pjrtd__v1__stats_reply__unpack(pjrtc_reply_arena_allocator(arena), payload_bytes, payload);
  pjrtc_stats *stats = pjrtc_reply_object_create(arena, sizeof *stats);
  if (!m || !stats) return NULL;
  pjrtc_lane_stats **lanes = pjrtc_reply_arena_zalloc(arena, m->n_lanes * sizeof *lanes);
  for (size_t i = 0; lanes && i < m->n_lanes; i++) {
    const Pjrtd__V1__LaneStats *from = m->lanes[i];
    if (!(lanes[i] = pjrtc_reply_arena_zalloc(arena, sizeof *lanes[i]))) return NULL;
    *lanes[i] = (pjrtc_lane_stats){
        .struct_size = sizeof *lanes[i],
        .device = from->device,
        .stuck = from->stuck,
        .jobs = from->jobs,
        .queued = from->queued,
        .busy_ns = from->busy_ns,
        .waited_ns = from->waited_ns,
        .longest_wait_ns = from->longest_wait_ns,
        .outstanding = from->outstanding,
    };
  }
  *stats = (pjrtc_stats){
      .struct_size = sizeof *stats,
      .uptime_ns = m->uptime_ns,
      .connections = m->connections,
      .connections_total = m->connections_total,
      .sessions = m->sessions,
      .buffers = m->buffers,
      .buffer_bytes = m->buffer_bytes,
      .programs = m->programs,
      .calls_total = m->calls_total,
      .calls_failed = m->calls_failed,
      .calls_in_flight = m->calls_in_flight,
      .executes_on_loop = m->executes_on_loop,
      .executes_on_lane = m->executes_on_lane,
      .compiles = m->compiles,
      .compile_ns = m->compile_ns,
      .bytes_received = m->bytes_received,
      .bytes_sent = m->bytes_sent,
      .loop_turns = m->loop_turns,
      .loop_stalls = m->loop_stalls,
      .loop_longest_turn_ns = m->loop_longest_turn_ns,
      .wire_errors = m->wire_errors,
      .clients_cut_off = m->clients_cut_off,
      .resident_bytes = m->resident_bytes,
      .staging_bytes = m->staging_bytes,
      .open_descriptors = m->open_descriptors,
      .threads = m->threads,
      .lanes = (const pjrtc_lane_stats *const *)lanes,
      .num_lanes = m->n_lanes,
  };
  return lanes ? stats : NULL;
}
