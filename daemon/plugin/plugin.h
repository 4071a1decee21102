/* The plugin layer: everything that the daemon asks of PJRT, without one PJRT type.
 *
 * Calls block for as long as the plugin takes: the comment of each says which may run on the loop. No function here
 * touches the daemon's state, libuv, or another thread's objects; objects may be used from any thread, one call that
 * destroys or changes an object at a time. Errors carry the plugin's code and whole message. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/status.h"
#include "base/tensor_type.h"

/* ---- loading (plugin/loader.c, plugin/discovery.c) ---- */

typedef struct pjrtd_plugin pjrtd_plugin;

/* Where the path to a plugin came from, for the log and for errors. */
typedef struct {
  char *path;         /* owned */
  const char *source; /* "--plugin", "PJRTD_PLUGIN", ..., "python wheel"; static */
} pjrtd_plugin_location;

/* `explicit_path` may be NULL: then the environment and installed wheels are searched in DESIGN order.
 * NOT_FOUND lists every place that was looked at. */
PJRTD_MUST_USE pjrtd_status *pjrtd_plugin_find(const char *explicit_path, pjrtd_plugin_location *out_location);
void pjrtd_plugin_location_deinit(pjrtd_plugin_location *location);

/* Opens the library (RTLD_NOW | RTLD_LOCAL), checks GetPjrtApi, the major version, struct_size and the slots that the
 * daemon cannot do without, walks the extension chain, and calls Plugin_Initialize. Never on the loop. */
PJRTD_MUST_USE pjrtd_status *pjrtd_plugin_load(const char *path, pjrtd_plugin **out_plugin);
/* The library stays mapped: XLA's threads outlive the client. */
void pjrtd_plugin_destroy(pjrtd_plugin *plugin);
PJRTD_DEFINE_CLEANUP(pjrtd_plugin)

/* Plugins call exit(), abort() or crash on what they do not like. From begin to end a signal that ends the process, and
 * until forget an exit(), is explained in the log: which plugin, doing what; and the exit code is not 0. `what` is a
 * literal that goes on from "while". Start-up, one thread; without begin they do nothing. plugin/start_watch.c */
void pjrtd_start_watch_begin(const char *path);
void pjrtd_start_watch_step(const char *what);
void pjrtd_start_watch_end(void);
void pjrtd_start_watch_forget(void);

/* A named value, as create options go in and attributes come out. */
typedef enum {
  PJRTD_VALUE_TEXT,
  PJRTD_VALUE_INTEGER,
  PJRTD_VALUE_REAL,
  PJRTD_VALUE_BOOLEAN,
  PJRTD_VALUE_INTEGERS
} pjrtd_value_kind;
typedef struct {
  char *name; /* owned, as the rest */
  pjrtd_value_kind kind;
  char *text;
  int64_t integer; /* also the boolean */
  double real;
  int64_t *integers;
  size_t num_integers;
} pjrtd_value;

/* Parses "NAME=VALUE": true/false, an integer, a real, a list "1,2,3", else text; "NAME:s=VALUE" (also :i :f :b :l)
 * says which. */
PJRTD_MUST_USE pjrtd_status *pjrtd_value_parse(const char *text, pjrtd_value *out_value);
void pjrtd_value_deinit(pjrtd_value *value);

typedef struct {
  const char *path;
  int api_major, api_minor;                           /* of the plugin */
  int headers_major, headers_minor;                   /* of the headers that this was built with */
  int64_t stablehlo_current[3], stablehlo_minimum[3]; /* -1 where the plugin does not say */
  const char *const *extensions; /* "layouts", "ffi", ...: names from the headers' enum; "unknown-<n>" for others */
  size_t num_extensions;
  const pjrtd_value *attributes;
  size_t num_attributes;
} pjrtd_plugin_info;
/* Borrowed until the plugin is destroyed. Loop safe. */
const pjrtd_plugin_info *pjrtd_plugin_get_info(const pjrtd_plugin *plugin);

/* ---- client, devices, memory spaces (plugin/client.c, plugin/device.c) ---- */

typedef struct pjrtd_client pjrtd_client;
typedef struct pjrtd_device pjrtd_device;
typedef struct pjrtd_memory pjrtd_memory;

/* Options that the caller gives win; for CUDA and ROCm plugins `preallocate=false` and `memory_fraction=0.5` are added
 * where absent; for the CPU `asynchronous=false`, where the plugin accepts it: pjrtd chooses threads itself.
 * `plugin` is borrowed and outlives the client. Never on the loop. */
PJRTD_MUST_USE pjrtd_status *pjrtd_client_create(pjrtd_plugin *plugin, const pjrtd_value *options, size_t num_options,
                                                 pjrtd_client **out_client);
void pjrtd_client_destroy(pjrtd_client *client);
PJRTD_DEFINE_CLEANUP(pjrtd_client)

/* All of it read once at creation; borrowed until the client is destroyed. Loop safe. */
struct pjrtd_memory {
  int id;
  const char *kind;
  int kind_id;
  const char *debug_string;
  const char *to_string;
  const int *device_ids; /* that can address it */
  size_t num_devices;
  void *handle; /* the plugin layer's own */
};
struct pjrtd_device {
  int id;
  size_t index; /* among the addressable devices; SIZE_MAX where it is not addressable */
  int local_hardware_id;
  int process_index;
  bool addressable;
  const char *kind;
  const char *debug_string;
  const char *to_string;
  const pjrtd_memory *const *memories;
  size_t num_memories;
  const pjrtd_memory *default_memory; /* NULL where the plugin has none */
  const pjrtd_value *attributes;
  size_t num_attributes;
  void *handle;
};
typedef struct {
  const char *platform_name;
  const char *platform_version;
  int process_index;
  bool is_cpu; /* device memory is host memory */
  const pjrtd_device *devices;
  size_t num_devices;
  size_t num_addressable_devices;
  const pjrtd_memory *memories;
  size_t num_memories;
  const pjrtd_value *create_options; /* those in force */
  size_t num_create_options;
} pjrtd_client_info;
const pjrtd_client_info *pjrtd_client_get_info(const pjrtd_client *client);
/* NULL where there is none. */
const pjrtd_device *pjrtd_client_find_device(const pjrtd_client *client, int id);
const pjrtd_memory *pjrtd_client_find_memory(const pjrtd_client *client, int id);

/* `out_device_ids` has num_replicas * num_partitions places. Checked before the plugin sees it. Loop safe. */
PJRTD_MUST_USE pjrtd_status *pjrtd_client_default_assignment(pjrtd_client *client, uint32_t num_replicas,
                                                             uint32_t num_partitions, int *out_device_ids);
/* Allocator statistics of a device; UNIMPLEMENTED where the plugin has none. The caller deinits each value and frees
 * the array. Loop safe. */
PJRTD_MUST_USE pjrtd_status *pjrtd_device_memory_stats(const pjrtd_client *client, const pjrtd_device *device,
                                                       pjrtd_value **out_values, size_t *out_count);

/* Whether a buffer of this element type can be made, on any device. UNIMPLEMENTED where the plugin would abort or has
 * no such type; it names type, plugin and version. Loop safe, quick. */
PJRTD_MUST_USE pjrtd_status *pjrtd_client_check_dtype(const pjrtd_client *client, pjrtd_dtype dtype);

/* ---- events ---- */

/* Called once, on a plugin thread, or before the function that took it returns. `error` (NULL: success) is the
 * callee's. It must not call the plugin. */
typedef void (*pjrtd_event_fn)(void *user, pjrtd_status *error);

/* How many such calls are still to come: until they have, what they get must stay, and so must the client. Memory that
 * was adopted owes one for as long as its buffer lives. Any thread. */
size_t pjrtd_client_callbacks_owed(const pjrtd_client *client);

/* ---- buffers (plugin/device_buffer.c, plugin/host_transfer.c, plugin/device_layout.c) ---- */

typedef struct pjrtd_device_buffer pjrtd_device_buffer;

/* Copies dense row-major host data before it returns. The caller checked the type and has
 * `host_bytes(type)` bytes at `data` (NULL for none). `memory` NULL: the device's default. Loop safe for small data.
 * The buffer may still be in the making on an asynchronous platform: pjrtd_device_buffer_await. */
PJRTD_MUST_USE pjrtd_status *pjrtd_device_buffer_from_host(pjrtd_client *client, const void *data,
                                                           const pjrtd_tensor_type *type, const pjrtd_device *device,
                                                           const pjrtd_memory *memory,
                                                           pjrtd_device_buffer **out_buffer);
/* The same for big data without a second copy where the platform can adopt the pages (CPU, 64-byte aligned `data`,
 * not a sub-byte type); elsewhere it copies or transfers. The caller does not touch `data` until `release(user, ...)`
 * is called: once, on any thread (a destroy or an execute included), perhaps before this returns, perhaps long after
 * the buffer is gone: an execution that the buffer is donated to writes its output in the same pages. On an error
 * return `release` was not and will not be called. Lane. */
PJRTD_MUST_USE pjrtd_status *pjrtd_device_buffer_adopt_host(pjrtd_client *client, void *data,
                                                            const pjrtd_tensor_type *type, const pjrtd_device *device,
                                                            const pjrtd_memory *memory, pjrtd_event_fn release,
                                                            void *user, pjrtd_device_buffer **out_buffer);
/* For pages that must never be written, such as a mapping of a sealed descriptor: donation copies. */
PJRTD_MUST_USE pjrtd_status *pjrtd_device_buffer_adopt_readonly(pjrtd_client *client, const void *data,
                                                                const pjrtd_tensor_type *type,
                                                                const pjrtd_device *device, const pjrtd_memory *memory,
                                                                pjrtd_event_fn release, void *user,
                                                                pjrtd_device_buffer **out_buffer);
/* Frees the device memory once no execution uses it. Loop safe for small buffers. NULL is fine. */
void pjrtd_device_buffer_destroy(pjrtd_device_buffer *buffer);
PJRTD_DEFINE_CLEANUP(pjrtd_device_buffer)

/* Blocks until the data is there. Lane. */
PJRTD_MUST_USE pjrtd_status *pjrtd_device_buffer_await(pjrtd_device_buffer *buffer);
/* True when the data is known to be there, without blocking. Loop safe. */
bool pjrtd_device_buffer_is_ready(pjrtd_device_buffer *buffer);
/* True once an execution consumed it. Loop safe. */
bool pjrtd_device_buffer_is_deleted(const pjrtd_device_buffer *buffer);
/* The dense, row-major, one-element-at-least-a-byte data itself where the host can read it in place (CPU), else NULL.
 * Valid while the buffer lives and is not donated; only on a ready buffer. Loop safe. */
const void *pjrtd_device_buffer_view(pjrtd_device_buffer *buffer);
/* Copies the data to the host: dense row-major, sub-byte types one element a byte and sign-extended. `size_bytes` must
 * be the type's host size. Blocks. Lane, but for small data behind pjrtd_device_buffer_view. */
PJRTD_MUST_USE pjrtd_status *pjrtd_device_buffer_read(pjrtd_device_buffer *buffer, void *out_data, uint64_t size_bytes);
/* Borrowed until the buffer is destroyed. Loop safe. */
const pjrtd_tensor_type *pjrtd_device_buffer_type(const pjrtd_device_buffer *buffer);
/* What the plugin says that it takes on the device; the host size where it does not say, or says what cannot be. Loop
 * safe. */
uint64_t pjrtd_device_buffer_device_bytes(const pjrtd_device_buffer *buffer);
const pjrtd_device *pjrtd_device_buffer_device(const pjrtd_device_buffer *buffer);
const pjrtd_memory *pjrtd_device_buffer_memory(const pjrtd_device_buffer *buffer); /* NULL where unknown */

/* A device layout; tiles are flattened: tile_ranks[i] dims each. */
typedef struct {
  uint32_t rank;
  int64_t minor_to_major[PJRTD_MAX_RANK];
  uint32_t num_tiles;
  uint32_t tile_ranks[8];
  int64_t tile_dims[32];
} pjrtd_layout;
/* UNIMPLEMENTED where the plugin does not say. Loop safe. */
PJRTD_MUST_USE pjrtd_status *pjrtd_device_buffer_layout(const pjrtd_device_buffer *buffer, pjrtd_layout *out_layout);

/* ---- programs (plugin/compile_options*.c, plugin/executable*.c, plugin/hlo_module.c, plugin/straight_line.c) ---- */

typedef struct pjrtd_executable pjrtd_executable;

typedef struct {
  uint32_t num_replicas, num_partitions; /* 0: 1 */
  bool use_spmd_partitioning, use_shardy_partitioner, use_auto_spmd_partitioning;
  const int64_t *mesh_shape, *mesh_ids;
  size_t num_mesh_shape, num_mesh_ids;
  const int *device_assignment; /* replica-major device ids; NULL: the plugin's default */
  size_t num_device_assignment;
  bool alias_passthrough_params;
  const bool *propagate_to_parameters, *propagate_to_output;
  size_t num_propagate_to_parameters, num_propagate_to_output;
  bool parameter_is_tupled_arguments, compile_portable_executable, deduplicate_hlo;
  double exec_time_optimization_effort, memory_fitting_effort;
  const pjrtd_value *overrides; /* xla_... */
  size_t num_overrides;
} pjrtd_compile_options;

/* Rejects everything that a plugin is known to abort on. INVALID_ARGUMENT names the field. Loop safe. */
PJRTD_MUST_USE pjrtd_status *pjrtd_compile_options_check(const pjrtd_client *client,
                                                         const pjrtd_compile_options *options);
/* The name of an override that lets the compiler read or write files of its choice (xla_dump_to, ...), or NULL: those
 * are for callers who may do that anyway. Borrowed from `options`. */
const char *pjrtd_compile_options_find_file_access(const pjrtd_compile_options *options);
/* The bytes of CompileOptionsProto, canonical: equal options give equal bytes. The caller frees. Checked options. */
PJRTD_MUST_USE pjrtd_status *pjrtd_compile_options_encode(const pjrtd_client *client,
                                                          const pjrtd_compile_options *options, uint8_t **out_bytes,
                                                          size_t *out_size);

/* `code` is StableHLO text, MLIR bytecode or a portable artifact; `code[code_bytes]` is 0, since MLIR reads to there.
 * Rejects an empty program and text with NUL bytes in it. UNKNOWN (does not parse) becomes INVALID_ARGUMENT. A compile
 * thread with a large stack only. */
PJRTD_MUST_USE pjrtd_status *pjrtd_executable_compile(pjrtd_client *client, const char *code, size_t code_bytes,
                                                      const pjrtd_compile_options *options,
                                                      pjrtd_executable **out_executable);
/* Any thread that may block. */
void pjrtd_executable_destroy(pjrtd_executable *executable);
PJRTD_DEFINE_CLEANUP(pjrtd_executable)

typedef struct {
  pjrtd_tensor_type type;
  uint64_t host_bytes;
  pjrtd_layout layout;
  bool has_layout;
  bool dense;              /* row-major without tiles */
  const char *memory_kind; /* "" where the plugin does not say */
  /* An argument that the program consumes, unless it is listed as non-donatable: it is aliased to an output. A donor
   * that found no output of its size is not. */
  bool donated;
  const char *unsupported; /* why Execute cannot take or give it; NULL: it can */
} pjrtd_program_tensor;

typedef struct {
  const char *name;
  uint32_t num_replicas, num_partitions;
  const pjrtd_device *const *devices; /* addressable ones, in the order of the device-major lists */
  size_t num_devices;
  const pjrtd_program_tensor *args; /* of one device */
  size_t num_args;
  const pjrtd_program_tensor *outputs;
  size_t num_outputs;
  bool any_donated;
  /* By the optimised HLO (which must be there): no while, conditional with data-dependent time, call-back, infeed,
   * outfeed, send, recv, custom call, collective, rng of unbounded time; so its time cannot depend on data. */
  bool straight_line;
  const char *fingerprint; /* the plugin's, its bytes in hexadecimal; "" */
  uint64_t generated_code_bytes;
} pjrtd_program_info;
/* Read once at compile; borrowed until the executable is destroyed. Loop safe. */
const pjrtd_program_info *pjrtd_executable_get_info(const pjrtd_executable *executable);

/* Runs it. `args` is device-major, checked by the caller against the info: count, types, devices, liveness. The device
 * layouts are checked here. A program compiled as portable has the first device as its one device.
 * `outputs` has num_devices * num_outputs places. On an error return nothing was made and `done` is not called.
 * Otherwise the outputs are the caller's; `*out_pending` false: everything has ended, successfully; true: `done` will
 * be called once, when every device has ended, with the first error. `non_donatable` lists argument positions (of one
 * device) that must not be consumed. Does not allocate for up to 16 arguments and outputs in all, on one device (beyond
 * the plugin's own and the output wrappers). The loop may call it for programs that are straight-line and were measured
 * quick; else a lane. */
typedef struct {
  pjrtd_device_buffer *const *args;
  size_t num_args; /* num_devices * info.num_args */
  const int64_t *non_donatable;
  size_t num_non_donatable;
  pjrtd_event_fn done;
  void *user;
} pjrtd_execute_call;
PJRTD_MUST_USE pjrtd_status *pjrtd_executable_execute(pjrtd_executable *executable, const pjrtd_execute_call *call,
                                                      pjrtd_device_buffer **out_outputs, bool *out_pending);
