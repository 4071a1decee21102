/* pjrtc: what is served. Part of pjrtc.h.
 *
 * Results are owned by the caller, one block each, and end with their _destroy (NULL is fine). */
#ifndef PJRTC_RUNTIME_H_
#define PJRTC_RUNTIME_H_

#include "client.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct pjrtc_info {
  size_t struct_size;
  const char *server_version;
  uint64_t server_epoch;
  uint64_t uptime_ns;
  uint32_t pid;
  uint32_t protocol_min, protocol_max;
  uint32_t pjrt_major, pjrt_minor;       /* of the plugin */
  uint32_t headers_major, headers_minor; /* that the server was built for */
  const char *plugin_path;
  const char *platform_name; /* "cpu" */
  const char *platform_version;
  const char *stablehlo_current; /* "1.20.0"; "" where the plugin does not say */
  const char *stablehlo_minimum;
  uint32_t process_index;
  uint32_t num_devices;
  uint32_t num_addressable_devices;
  const char *const *extensions; /* of the plugin */
  size_t num_extensions;
  const pjrtc_attribute *attributes; /* of the plugin */
  size_t num_attributes;
  const pjrtc_attribute *create_options; /* that the plugin's client was created with */
  size_t num_create_options;
} pjrtc_info;

PJRTC_API pjrtc_code pjrtc_get_info(pjrtc_client *client, pjrtc_info **out_info, pjrtc_error *error);
PJRTC_API void pjrtc_info_destroy(pjrtc_info *info);

typedef struct pjrtc_device {
  size_t struct_size;
  int32_t id; /* what uploads and device assignments name */
  int32_t local_hardware_id;
  int32_t process_index;
  int32_t default_memory; /* id; -1: none */
  bool addressable;
  const char *kind;
  const char *debug_string;
  const char *to_string;
  const int32_t *memories; /* ids */
  size_t num_memories;
  const pjrtc_attribute *attributes;
  size_t num_attributes;
  const pjrtc_attribute *memory_stats; /* none where the plugin keeps none */
  size_t num_memory_stats;
} pjrtc_device;

typedef struct pjrtc_devices {
  size_t struct_size;
  const pjrtc_device *const *devices;
  size_t num_devices;
} pjrtc_devices;

PJRTC_API pjrtc_code pjrtc_get_devices(pjrtc_client *client, pjrtc_devices **out_devices, pjrtc_error *error);
PJRTC_API void pjrtc_devices_destroy(pjrtc_devices *devices);

typedef struct pjrtc_memory {
  size_t struct_size;
  int32_t id;
  int32_t kind_id;
  const char *kind; /* "device", "pinned_host" */
  const char *debug_string;
  const char *to_string;
  const int32_t *devices; /* ids of those that can address it */
  size_t num_devices;
} pjrtc_memory;

typedef struct pjrtc_memories {
  size_t struct_size;
  const pjrtc_memory *const *memories;
  size_t num_memories;
} pjrtc_memories;

PJRTC_API pjrtc_code pjrtc_get_memories(pjrtc_client *client, pjrtc_memories **out_memories, pjrtc_error *error);
PJRTC_API void pjrtc_memories_destroy(pjrtc_memories *memories);

/* The plugin's own choice of devices for a program: `num_replicas` * `num_partitions` ids, replica-major, into
 * `out_devices`, which has room for that many. */
PJRTC_API pjrtc_code pjrtc_default_assignment(pjrtc_client *client, uint32_t num_replicas, uint32_t num_partitions,
                                              int32_t *out_devices, pjrtc_error *error);

typedef struct pjrtc_lane_stats {
  size_t struct_size;
  int32_t device;
  uint32_t stuck; /* calls into the plugin that were abandoned */
  uint64_t jobs;
  uint64_t queued;
  uint64_t busy_ns;
  uint64_t waited_ns, longest_wait_ns; /* of all jobs, before they began */
  uint32_t outstanding;                /* executions that the device has under way by itself */
} pjrtc_lane_stats;

typedef struct pjrtc_stats {
  size_t struct_size;
  uint64_t uptime_ns;
  uint64_t connections, connections_total, sessions;
  uint64_t buffers, buffer_bytes, programs;
  uint64_t calls_total, calls_failed, calls_in_flight;
  uint64_t executes_on_loop, executes_on_lane;
  uint64_t compiles, compile_ns;
  uint64_t bytes_received, bytes_sent;
  uint64_t loop_turns, loop_stalls, loop_longest_turn_ns;
  uint64_t wire_errors, clients_cut_off;
  uint64_t resident_bytes, staging_bytes, open_descriptors, threads;
  const pjrtc_lane_stats *const *lanes;
  size_t num_lanes;
} pjrtc_stats;

PJRTC_API pjrtc_code pjrtc_get_stats(pjrtc_client *client, pjrtc_stats **out_stats, pjrtc_error *error);
PJRTC_API void pjrtc_stats_destroy(pjrtc_stats *stats);

#ifdef __cplusplus
}
#endif

#endif /* PJRTC_RUNTIME_H_ */
