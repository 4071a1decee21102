/* See memory_plugin.h. Any thread, as plugin.h says. */
#include "memory_plugin.h"

#include <stdatomic.h>
#include <string.h>

enum { DEVICES = 2, MAX_OUTPUTS = 20 };

static atomic_size_t objects;

size_t memory_plugin_count_objects(void) {
  return atomic_load(&objects);
}

/* ---- plugin and client ---- */

struct pjrtd_plugin {
  pjrtd_plugin_info info;
};
struct pjrtd_client {
  pjrtd_client_info info;
};

static const char *const extensions[] = {"layouts"};
static struct pjrtd_plugin the_plugin = {
    .info = {.path = "memory", .api_minor = 115, .headers_minor = 114, .extensions = extensions, .num_extensions = 1}};

static const int both[] = {0, 1}, first[] = {0}, second[] = {1};
static const pjrtd_memory memories[] = {
    {.id = 0, .kind = "device", .debug_string = "m0", .to_string = "m0", .device_ids = first, .num_devices = 1},
    {.id = 1, .kind = "device", .debug_string = "m1", .to_string = "m1", .device_ids = second, .num_devices = 1},
    {.id = 2,
     .kind = "host",
     .kind_id = 1,
     .debug_string = "h",
     .to_string = "h",
     .device_ids = both,
     .num_devices = 2},
};
static const pjrtd_memory *const of_first[] = {&memories[0], &memories[2]};
static const pjrtd_memory *const of_second[] = {&memories[1], &memories[2]};
static const pjrtd_device devices[DEVICES] = {
    {.id = 0,
     .index = 0,
     .addressable = true,
     .kind = "fuzz",
     .debug_string = "d0",
     .to_string = "d0",
     .memories = of_first,
     .num_memories = 2,
     .default_memory = &memories[0]},
    {.id = 1,
     .index = 1,
     .addressable = true,
     .kind = "fuzz",
     .debug_string = "d1",
     .to_string = "d1",
     .memories = of_second,
     .num_memories = 2,
     .default_memory = &memories[1]},
};
static struct pjrtd_client the_client = {.info = {.platform_name = "memory",
                                                  .platform_version = "1",
                                                  .is_cpu = true,
                                                  .devices = devices,
                                                  .num_devices = DEVICES,
                                                  .num_addressable_devices = DEVICES,
                                                  .memories = memories,
                                                  .num_memories = 3}};

pjrtd_plugin *memory_plugin_create(void) {
  return &the_plugin;
}
void pjrtd_plugin_destroy(pjrtd_plugin *plugin) {}
const pjrtd_plugin_info *pjrtd_plugin_get_info(const pjrtd_plugin *plugin) {
  return &plugin->info;
}

pjrtd_status *pjrtd_client_create(pjrtd_plugin *plugin, const pjrtd_value *options, size_t num_options,
                                  pjrtd_client **out_client) {
  *out_client = &the_client;
  return PJRTD_OK;
}
void pjrtd_client_destroy(pjrtd_client *client) {}
size_t pjrtd_client_callbacks_owed(const pjrtd_client *client) {
  return 0;
}
const pjrtd_client_info *pjrtd_client_get_info(const pjrtd_client *client) {
  return &client->info;
}

const pjrtd_device *pjrtd_client_find_device(const pjrtd_client *client, int id) {
  return id >= 0 && id < DEVICES ? &devices[id] : NULL;
}
const pjrtd_memory *pjrtd_client_find_memory(const pjrtd_client *client, int id) {
  return id >= 0 && id < 3 ? &memories[id] : NULL;
}

pjrtd_status *pjrtd_client_default_assignment(pjrtd_client *client, uint32_t num_replicas, uint32_t num_partitions,
                                              int *out_device_ids) {
  if ((uint64_t)num_replicas * num_partitions > DEVICES) return PJRTD_INVALID("there are %d devices", DEVICES);
  for (uint32_t i = 0; i < num_replicas * num_partitions; i++) out_device_ids[i] = (int)i;
  return PJRTD_OK;
}

pjrtd_status *pjrtd_device_memory_stats(const pjrtd_client *client, const pjrtd_device *device,
                                        pjrtd_value **out_values, size_t *out_count) {
  *out_values = NULL;
  *out_count = 0;
  return pjrtd_status_make(PJRTD_CODE_UNIMPLEMENTED, "no statistics");
}

pjrtd_status *pjrtd_client_check_dtype(const pjrtd_client *client, pjrtd_dtype dtype) {
  return dtype == PJRTD_DTYPE_U1 ? pjrtd_status_make(PJRTD_CODE_UNIMPLEMENTED, "no u1 here") : PJRTD_OK;
}

/* ---- buffers ---- */

struct pjrtd_device_buffer {
  pjrtd_tensor_type type;
  int64_t dims[PJRTD_MAX_RANK];
  const pjrtd_device *device;
  const pjrtd_memory *memory;
  uint64_t size_bytes;
  uint8_t *data; /* owned, unless there is a release */
  pjrtd_event_fn release;
  void *release_user;
  atomic_bool deleted;
};

static void drop_data(pjrtd_device_buffer *buffer) {
  if (buffer->release)
    buffer->release(buffer->release_user, PJRTD_OK);
  else
    pjrtd_free(buffer->data);
  buffer->release = NULL;
  buffer->data = NULL;
}

static pjrtd_device_buffer *buffer_make(const pjrtd_tensor_type *type, const pjrtd_device *device,
                                        const pjrtd_memory *memory) {
  pjrtd_device_buffer *buffer = pjrtd_calloc(1, sizeof *buffer);
  if (!buffer) return NULL;
  pjrtd_status *status = pjrtd_tensor_type_check(type, &buffer->size_bytes);
  if (status) __builtin_trap(); /* the caller checks */
  memcpy(buffer->dims, type->dims, type->rank * sizeof *type->dims);
  buffer->type = (pjrtd_tensor_type){.dtype = type->dtype, .rank = type->rank, .dims = buffer->dims};
  buffer->device = device;
  buffer->memory = memory ? memory : device->default_memory;
  atomic_fetch_add(&objects, 1);
  return buffer;
}

pjrtd_status *pjrtd_device_buffer_from_host(pjrtd_client *client, const void *data, const pjrtd_tensor_type *type,
                                            const pjrtd_device *device, const pjrtd_memory *memory,
                                            pjrtd_device_buffer **out_buffer) {
  *out_buffer = NULL;
  pjrtd_device_buffer *buffer = buffer_make(type, device, memory);
  if (!buffer) return pjrtd_status_oom();
  if (buffer->size_bytes) {
    buffer->data = pjrtd_memdup(data, buffer->size_bytes);
    if (!buffer->data) {
      pjrtd_device_buffer_destroy(buffer);
      return pjrtd_status_oom();
    }
  }
  *out_buffer = buffer;
  return PJRTD_OK;
}

pjrtd_status *pjrtd_device_buffer_adopt_host(pjrtd_client *client, void *data, const pjrtd_tensor_type *type,
                                             const pjrtd_device *device, const pjrtd_memory *memory,
                                             pjrtd_event_fn release, void *user, pjrtd_device_buffer **out_buffer) {
  *out_buffer = buffer_make(type, device, memory);
  if (!*out_buffer) return pjrtd_status_oom();
  (*out_buffer)->data = data;
  (*out_buffer)->release = release;
  (*out_buffer)->release_user = user;
  return PJRTD_OK;
}

void pjrtd_device_buffer_destroy(pjrtd_device_buffer *buffer) {
  if (!buffer) return;
  drop_data(buffer);
  pjrtd_free(buffer);
  atomic_fetch_sub(&objects, 1);
}

pjrtd_status *pjrtd_device_buffer_await(pjrtd_device_buffer *buffer) {
  return PJRTD_OK;
}
bool pjrtd_device_buffer_is_ready(pjrtd_device_buffer *buffer) {
  return true;
}
bool pjrtd_device_buffer_is_deleted(const pjrtd_device_buffer *buffer) {
  return atomic_load(&buffer->deleted);
}
const void *pjrtd_device_buffer_view(pjrtd_device_buffer *buffer) {
  if (atomic_load(&buffer->deleted)) __builtin_trap();
  return buffer->data;
}

pjrtd_status *pjrtd_device_buffer_read(pjrtd_device_buffer *buffer, void *out_data, uint64_t size_bytes) {
  if (size_bytes != buffer->size_bytes) __builtin_trap();
  if (atomic_load(&buffer->deleted)) return PJRTD_INVALID("the buffer was donated");
  if (size_bytes) memcpy(out_data, buffer->data, size_bytes);
  return PJRTD_OK;
}

const pjrtd_tensor_type *pjrtd_device_buffer_type(const pjrtd_device_buffer *buffer) {
  return &buffer->type;
}
uint64_t pjrtd_device_buffer_device_bytes(const pjrtd_device_buffer *buffer) {
  return buffer->size_bytes;
}
const pjrtd_device *pjrtd_device_buffer_device(const pjrtd_device_buffer *buffer) {
  return buffer->device;
}
const pjrtd_memory *pjrtd_device_buffer_memory(const pjrtd_device_buffer *buffer) {
  return buffer->memory;
}

pjrtd_status *pjrtd_device_buffer_layout(const pjrtd_device_buffer *buffer, pjrtd_layout *out_layout) {
  *out_layout = (pjrtd_layout){.rank = buffer->type.rank};
  for (uint32_t i = 0; i < buffer->type.rank; i++) out_layout->minor_to_major[i] = buffer->type.rank - 1 - i;
  return PJRTD_OK;
}

/* ---- programs ---- */

struct pjrtd_executable {
  pjrtd_program_info info;
  const pjrtd_device *devices[DEVICES];
  pjrtd_program_tensor args[1], outputs[MAX_OUTPUTS];
  char kind;
};

static const int64_t two[] = {2}, none[] = {0};

pjrtd_status *pjrtd_compile_options_check(const pjrtd_client *client, const pjrtd_compile_options *options) {
  uint64_t replicas = options->num_replicas ? options->num_replicas : 1;
  uint64_t partitions = options->num_partitions ? options->num_partitions : 1;
  if (replicas > DEVICES || partitions > DEVICES || replicas * partitions > DEVICES)
    return PJRTD_INVALID("there are %d devices", DEVICES);
  for (size_t i = 0; i < options->num_device_assignment; i++)
    if (!pjrtd_client_find_device(client, options->device_assignment[i])) return PJRTD_INVALID("no such device");
  return PJRTD_OK;
}

const char *pjrtd_compile_options_find_file_access(const pjrtd_compile_options *options) {
  for (size_t i = 0; i < options->num_overrides; i++)
    if (strstr(options->overrides[i].name, "dump")) return options->overrides[i].name;
  return NULL;
}

pjrtd_status *pjrtd_executable_compile(pjrtd_client *client, const char *code, size_t code_bytes,
                                       const pjrtd_compile_options *options, pjrtd_executable **out_executable) {
  *out_executable = NULL;
  if (code[code_bytes]) __builtin_trap(); /* MLIR would read on */
  if (!code_bytes || !strchr("mdwpfnzt", code[0])) return PJRTD_INVALID("-:1:1: error: not a program");
  pjrtd_executable *executable = pjrtd_calloc(1, sizeof *executable);
  if (!executable) return pjrtd_status_oom();
  atomic_fetch_add(&objects, 1);
  executable->kind = code[0];
  const pjrtd_program_tensor pair = {.type = {.dtype = PJRTD_DTYPE_F32, .rank = 1, .dims = two},
                                     .host_bytes = 8,
                                     .dense = true,
                                     .memory_kind = "device",
                                     .donated = code[0] == 'd'};
  const pjrtd_program_tensor empty = {
      .type = {.dtype = PJRTD_DTYPE_S8, .rank = 1, .dims = none}, .dense = true, .memory_kind = "device"};
  executable->args[0] = pair;
  executable->outputs[0] = pair;
  executable->outputs[0].donated = false;
  if (code[0] == 'z')
    for (int i = 0; i < MAX_OUTPUTS; i++) executable->outputs[i] = empty;
  for (int i = 0; i < DEVICES; i++) executable->devices[i] = &devices[i];
  bool bare = code[0] == 'n' || code[0] == 'z';
  executable->info = (pjrtd_program_info){.name = "fuzz",
                                          .num_replicas = code[0] == 't' ? 2 : 1,
                                          .num_partitions = 1,
                                          .devices = executable->devices,
                                          .num_devices = code[0] == 't' ? 2 : 1,
                                          .args = executable->args,
                                          .num_args = bare ? 0 : 1,
                                          .outputs = executable->outputs,
                                          .num_outputs = code[0] == 'z'   ? MAX_OUTPUTS
                                                         : code[0] == 'n' ? 0
                                                                          : 1,
                                          .any_donated = code[0] == 'd',
                                          .straight_line = code[0] != 'w',
                                          .fingerprint = "f0"};
  *out_executable = executable;
  return PJRTD_OK;
}

void pjrtd_executable_destroy(pjrtd_executable *executable) {
  if (!executable) return;
  pjrtd_free(executable);
  atomic_fetch_sub(&objects, 1);
}

const pjrtd_program_info *pjrtd_executable_get_info(const pjrtd_executable *executable) {
  return &executable->info;
}

/* The caller has checked all of this: the plugin would not. */
static void check_argument(const pjrtd_device_buffer *argument, const pjrtd_program_tensor *wanted,
                           const pjrtd_device *device) {
  if (!pjrtd_tensor_type_equal(&argument->type, &wanted->type) || argument->device != device ||
      atomic_load(&argument->deleted))
    __builtin_trap();
}

pjrtd_status *pjrtd_executable_execute(pjrtd_executable *executable, const pjrtd_execute_call *call,
                                       pjrtd_device_buffer **out_outputs, bool *out_pending) {
  const pjrtd_program_info *info = &executable->info;
  *out_pending = false;
  if (call->num_args != info->num_args * info->num_devices) __builtin_trap();
  for (size_t i = 0; i < call->num_args; i++)
    check_argument(call->args[i], &info->args[i % info->num_args], info->devices[i / info->num_args]);
  if (executable->kind == 'f') return PJRTD_INTERNAL("it failed, as it always does");
  size_t outputs = info->num_outputs * info->num_devices;
  for (size_t i = 0; i < outputs; i++) {
    const pjrtd_program_tensor *output = &info->outputs[i % info->num_outputs];
    pjrtd_device_buffer *made = buffer_make(&output->type, info->devices[i / info->num_outputs], NULL);
    out_outputs[i] = made;
    if (made && made->size_bytes) made->data = pjrtd_malloc(made->size_bytes);
    if (!made || (made->size_bytes && !made->data)) {
      for (size_t k = 0; k <= i; k++) pjrtd_device_buffer_destroy(out_outputs[k]);
      return pjrtd_status_oom();
    }
    if (!made->size_bytes) continue;
    float values[2];
    memcpy(values, call->args[i]->data, sizeof values);
    for (int k = 0; k < 2; k++) values[k] += values[k];
    memcpy(made->data, values, sizeof values);
  }
  if (info->any_donated && !call->num_non_donatable)
    for (size_t i = 0; i < call->num_args; i++)
      if (!atomic_exchange(&call->args[i]->deleted, true)) drop_data(call->args[i]);
  if (executable->kind == 'p' && call->done) {
    *out_pending = true;
    call->done(call->user, PJRTD_OK);
  }
  return PJRTD_OK;
}
