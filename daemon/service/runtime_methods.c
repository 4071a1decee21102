/* Runtime: hello, info, devices, memory spaces, default assignment. All answer at once. Loop thread. */
#include <inttypes.h>
#include <stdio.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/attachment.h"
#include "service/convert.h"

/* What a client may ask of a default assignment; the plugin has far fewer devices. */
#define MAX_ASSIGNMENT 65536
#define DEFAULT_DOWNLOAD_CREDIT_BYTES (4u << 20)
#define MAX_DOWNLOAD_CREDIT_BYTES (UINT64_C(1) << 40)

pjrtd_status *pjrtd_handle_hello(pjrtd_request *request) {
  const Pjrtd__V1__HelloRequest *hello = request->message;
  pjrtd_peer *peer = request->peer;
  if (peer->greeted)
    return pjrtd_status_make(PJRTD_CODE_FAILED_PRECONDITION, "Runtime.Hello was sent on this connection before");
  if (hello->min_version > PJRTD_PROTOCOL_MAX || hello->max_version < PJRTD_PROTOCOL_MIN ||
      hello->min_version > hello->max_version) {
    const char *remedy = hello->max_version < PJRTD_PROTOCOL_MIN ? "upgrade the client"
                         : hello->min_version > PJRTD_PROTOCOL_MAX
                             ? "upgrade pjrtd (this is " PJRTD_VERSION ")"
                             : "the client's min_version must not be above its max_version";
    pjrtd_peer_fail(
        peer, request->header->call, request->header->method,
        pjrtd_status_with_hint(
            pjrtd_status_make(PJRTD_CODE_FAILED_PRECONDITION,
                              "no common protocol version: the client speaks %u to %u, pjrtd %d to %d",
                              hello->min_version, hello->max_version, PJRTD_PROTOCOL_MIN, PJRTD_PROTOCOL_MAX),
            "%s", remedy));
    return PJRTD_OK;
  }
  PJRTD_TRY(pjrtd_attachment_open(peer));
  peer->greeted = true;
  peer->version = hello->max_version < PJRTD_PROTOCOL_MAX ? hello->max_version : PJRTD_PROTOCOL_MAX;
  snprintf(peer->client_name, sizeof peer->client_name, "%s", hello->client_name);
  peer->wants_notices = hello->wants_notices;
  peer->download_credit_bytes = hello->download_credit_bytes;
  if (!peer->download_credit_bytes) peer->download_credit_bytes = DEFAULT_DOWNLOAD_CREDIT_BYTES;
  if (peer->download_credit_bytes > MAX_DOWNLOAD_CREDIT_BYTES) peer->download_credit_bytes = MAX_DOWNLOAD_CREDIT_BYTES;
  pjrtd_log(PJRTD_LOG_DEBUG, "a client said hello", PJRTD_LOG_INT("pid", peer->identity.pid),
            PJRTD_LOG_UINT("uid", peer->identity.uid), PJRTD_LOG_TEXT("client", peer->client_name));

  const pjrtd_settings *settings = peer->runtime->settings;
  Pjrtd__V1__HelloReply reply = PJRTD__V1__HELLO_REPLY__INIT;
  reply.version = peer->version;
  reply.server_epoch = peer->runtime->epoch;
  reply.server_version = PJRTD_VERSION;
  reply.id_prefix = peer->ids.prefix;
  reply.max_payload_bytes = PJRTD_FRAME_MAX_PAYLOAD_BYTES;
  reply.max_inline_bytes = PJRTD_FRAME_MAX_INLINE_BYTES;
  reply.max_item_bytes = PJRTD_FRAME_MAX_ITEM_BYTES;
  reply.upload_credit_bytes = settings->upload_credit_bytes;
  reply.max_calls_in_flight = (uint32_t)settings->max_calls_in_flight;
  reply.busy_poll_us = (uint32_t)settings->busy_poll_us;
  reply.home_device = pjrtd_session_home_id(peer->session);
  pjrtd_request_answer(request, &reply.base, NULL, 0);
  return PJRTD_OK;
}

static void format_version(const int64_t version[3], char text[64]) {
  text[0] = 0;
  if (version[0] >= 0) snprintf(text, 64, "%" PRId64 ".%" PRId64 ".%" PRId64, version[0], version[1], version[2]);
}

pjrtd_status *pjrtd_handle_info(pjrtd_request *request) {
  pjrtd_runtime *runtime = request->peer->runtime;
  const pjrtd_plugin_info *plugin = pjrtd_plugin_get_info(runtime->plugin);
  const pjrtd_client_info *client = pjrtd_client_get_info(runtime->client);
  char current[64], minimum[64];
  format_version(plugin->stablehlo_current, current);
  format_version(plugin->stablehlo_minimum, minimum);
  bool attributes_ok, options_ok;
  PJRTD_AUTO_FREE Pjrtd__V1__Attribute **attributes =
      pjrtd_attributes_make(plugin->attributes, plugin->num_attributes, &attributes_ok);
  PJRTD_AUTO_FREE Pjrtd__V1__Attribute **options =
      pjrtd_attributes_make(client->create_options, client->num_create_options, &options_ok);
  if (!attributes_ok || !options_ok) return pjrtd_status_oom();

  Pjrtd__V1__InfoReply reply = PJRTD__V1__INFO_REPLY__INIT;
  reply.server_version = PJRTD_VERSION;
  reply.server_epoch = runtime->epoch;
  reply.pid = (uint32_t)getpid();
  reply.uptime_ns = pjrtd_clock_now_ns() - runtime->started_ns;
  reply.protocol_min = PJRTD_PROTOCOL_MIN;
  reply.protocol_max = PJRTD_PROTOCOL_MAX;
  reply.plugin_path = (char *)plugin->path;
  reply.pjrt_major = (uint32_t)plugin->api_major;
  reply.pjrt_minor = (uint32_t)plugin->api_minor;
  reply.headers_major = (uint32_t)plugin->headers_major;
  reply.headers_minor = (uint32_t)plugin->headers_minor;
  reply.platform_name = (char *)client->platform_name;
  reply.platform_version = (char *)client->platform_version;
  reply.stablehlo_current = current;
  reply.stablehlo_minimum = minimum;
  reply.process_index = (uint32_t)client->process_index;
  reply.num_devices = (uint32_t)client->num_devices;
  reply.num_addressable_devices = (uint32_t)client->num_addressable_devices;
  reply.extensions = (char **)plugin->extensions;
  reply.n_extensions = plugin->num_extensions;
  reply.attributes = attributes;
  reply.n_attributes = plugin->num_attributes;
  reply.create_options = options;
  reply.n_create_options = client->num_create_options;
  pjrtd_request_answer(request, &reply.base, NULL, 0);
  return PJRTD_OK;
}

/* Everything that one DeviceInfo points to. */
typedef struct {
  Pjrtd__V1__DeviceInfo message;
  Pjrtd__V1__Attribute **attributes, **stats;
  pjrtd_value *stat_values;
  size_t num_stats;
  int32_t *memories;
} device_part;

static pjrtd_status *fill_device(pjrtd_runtime *runtime, const pjrtd_device *device, device_part *part) {
  bool ok;
  pjrtd__v1__device_info__init(&part->message);
  part->message.id = device->id;
  part->message.kind = (char *)device->kind;
  part->message.local_hardware_id = device->local_hardware_id;
  part->message.process_index = device->process_index;
  part->message.addressable = device->addressable;
  part->message.debug_string = (char *)device->debug_string;
  part->message.to_string = (char *)device->to_string;
  part->message.default_memory = device->default_memory ? device->default_memory->id : -1;
  part->memories = pjrtd_calloc(device->num_memories, sizeof *part->memories);
  if (!part->memories) return pjrtd_status_oom();
  for (size_t i = 0; i < device->num_memories; i++) part->memories[i] = device->memories[i]->id;
  part->message.memories = part->memories;
  part->message.n_memories = device->num_memories;
  part->attributes = pjrtd_attributes_make(device->attributes, device->num_attributes, &ok);
  if (!ok) return pjrtd_status_oom();
  part->message.attributes = part->attributes;
  part->message.n_attributes = device->num_attributes;
  if (!device->addressable) return PJRTD_OK;
  pjrtd_status *status = pjrtd_device_memory_stats(runtime->client, device, &part->stat_values, &part->num_stats);
  if (status) { /* most plugins have none, and the rest of the answer is worth having */
    pjrtd_status_destroy(status);
    return PJRTD_OK;
  }
  part->stats = pjrtd_attributes_make(part->stat_values, part->num_stats, &ok);
  if (!ok) return pjrtd_status_oom();
  part->message.memory_stats = part->stats;
  part->message.n_memory_stats = part->num_stats;
  return PJRTD_OK;
}

pjrtd_status *pjrtd_handle_devices(pjrtd_request *request) {
  const pjrtd_client_info *client = pjrtd_client_get_info(request->peer->runtime->client);
  PJRTD_AUTO_FREE device_part *parts = pjrtd_calloc(client->num_devices, sizeof *parts);
  PJRTD_AUTO_FREE Pjrtd__V1__DeviceInfo **list = pjrtd_calloc(client->num_devices, sizeof *list);
  pjrtd_status *status = parts && list ? PJRTD_OK : pjrtd_status_oom();
  for (size_t i = 0; i < client->num_devices && !status; i++) {
    status = fill_device(request->peer->runtime, &client->devices[i], &parts[i]);
    list[i] = &parts[i].message;
  }
  if (!status) {
    Pjrtd__V1__DevicesReply reply = PJRTD__V1__DEVICES_REPLY__INIT;
    reply.devices = list;
    reply.n_devices = client->num_devices;
    pjrtd_request_answer(request, &reply.base, NULL, 0);
  }
  for (size_t i = 0; parts && i < client->num_devices; i++) {
    for (size_t j = 0; j < parts[i].num_stats; j++) pjrtd_value_deinit(&parts[i].stat_values[j]);
    pjrtd_free(parts[i].stat_values);
    pjrtd_free(parts[i].stats);
    pjrtd_free(parts[i].attributes);
    pjrtd_free(parts[i].memories);
  }
  return status;
}

pjrtd_status *pjrtd_handle_memories(pjrtd_request *request) {
  const pjrtd_client_info *client = pjrtd_client_get_info(request->peer->runtime->client);
  PJRTD_AUTO_FREE Pjrtd__V1__MemoryInfo *parts = pjrtd_calloc(client->num_memories, sizeof *parts);
  PJRTD_AUTO_FREE Pjrtd__V1__MemoryInfo **list = pjrtd_calloc(client->num_memories, sizeof *list);
  if (!parts || !list) return pjrtd_status_oom();
  for (size_t i = 0; i < client->num_memories; i++) {
    const pjrtd_memory *memory = &client->memories[i];
    list[i] = &parts[i];
    pjrtd__v1__memory_info__init(&parts[i]);
    parts[i].id = memory->id;
    parts[i].kind = (char *)memory->kind;
    parts[i].kind_id = memory->kind_id;
    parts[i].debug_string = (char *)memory->debug_string;
    parts[i].to_string = (char *)memory->to_string;
    parts[i].devices = (int32_t *)memory->device_ids;
    parts[i].n_devices = memory->num_devices;
  }
  Pjrtd__V1__MemoriesReply reply = PJRTD__V1__MEMORIES_REPLY__INIT;
  reply.memories = list;
  reply.n_memories = client->num_memories;
  pjrtd_request_answer(request, &reply.base, NULL, 0);
  return PJRTD_OK;
}

pjrtd_status *pjrtd_handle_default_assignment(pjrtd_request *request) {
  const Pjrtd__V1__DefaultAssignmentRequest *wanted = request->message;
  uint64_t count = (uint64_t)wanted->num_replicas * wanted->num_partitions;
  if (!count || count > MAX_ASSIGNMENT)
    return PJRTD_INVALID("%u replicas of %u partitions: their product must be 1 to %d", wanted->num_replicas,
                         wanted->num_partitions, MAX_ASSIGNMENT);
  PJRTD_AUTO_FREE int *devices = pjrtd_calloc(count, sizeof *devices);
  if (!devices) return pjrtd_status_oom();
  PJRTD_TRY(pjrtd_client_default_assignment(request->peer->runtime->client, wanted->num_replicas,
                                            wanted->num_partitions, devices));
  Pjrtd__V1__DefaultAssignmentReply reply = PJRTD__V1__DEFAULT_ASSIGNMENT_REPLY__INIT;
  reply.devices = devices;
  reply.n_devices = count;
  pjrtd_request_answer(request, &reply.base, NULL, 0);
  return PJRTD_OK;
}
