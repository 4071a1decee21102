/* What is served, and the server's counters. Any thread. */
#include <inttypes.h>
#include <string.h>

#include "method_ids.h"
#include "operation.h"
#include "pjrtd/v1/runtime.pb-c.h"
#include "reply_object.h"

/* ---- Requests without content, replies as objects ---- */

#define DEFINE_DECODE(noun, name)                                                                       \
  static pjrtc_failure *decode_##noun(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes, \
                                      const uint8_t *bulk, size_t bulk_bytes) {                         \
    if (!call->to.object) return NULL;                                                                  \
    return pjrtc_reply_object_read(pjrtc_read_##noun, payload, payload_bytes, name, call->to.object);   \
  }
DEFINE_DECODE(info, "Info")
DEFINE_DECODE(devices, "Devices")
DEFINE_DECODE(memories, "Memories")
DEFINE_DECODE(stats, "Stats")

#define DEFINE_GET(noun, method)                                                                     \
  pjrtc_code pjrtc_get_##noun(pjrtc_client *client, pjrtc_##noun **out_object, pjrtc_error *error) { \
    void *object = NULL;                                                                             \
    pjrtc_code code = pjrtc_op_get(client, NULL, method, NULL, decode_##noun, &object, error);       \
    *out_object = object;                                                                            \
    return code;                                                                                     \
  }                                                                                                  \
  void pjrtc_##noun##_destroy(pjrtc_##noun *object) {                                                \
    pjrtc_reply_object_destroy(object);                                                              \
  }
DEFINE_GET(info, PJRTC_METHOD_info)
DEFINE_GET(devices, PJRTC_METHOD_devices)
DEFINE_GET(memories, PJRTC_METHOD_memories)
DEFINE_GET(stats, PJRTC_METHOD_admin_stats)

/* ---- Default assignment ---- */

static pjrtc_failure *decode_assignment(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes,
                                        const uint8_t *bulk, size_t bulk_bytes) {
  pjrtc_reply_arena *arena = pjrtc_reply_arena_create();
  if (!arena) return pjrtc_failure_oom();
  Pjrtd__V1__DefaultAssignmentReply *reply =
      pjrtd__v1__default_assignment_reply__unpack(pjrtc_reply_arena_allocator(arena), payload_bytes, payload);
  bool good = reply && reply->n_devices == call->to.assignment.num_devices;
  if (good && reply->n_devices)
    memcpy(call->to.assignment.devices, reply->devices, reply->n_devices * sizeof *reply->devices);
  return pjrtc_op_decoded(arena, good, "DefaultAssignment");
}

pjrtc_code pjrtc_default_assignment(pjrtc_client *client, uint32_t num_replicas, uint32_t num_partitions,
                                    int32_t *out_devices, pjrtc_error *error) {
  pjrtc_failure *failure = pjrtc_op_enter(client, true);
  if (failure) return pjrtc_failure_finish(failure, error);
  Pjrtd__V1__DefaultAssignmentRequest message = PJRTD__V1__DEFAULT_ASSIGNMENT_REQUEST__INIT;
  message.num_replicas = num_replicas;
  message.num_partitions = num_partitions;
  pjrtc_request request = {.method = PJRTC_METHOD_default_assignment};
  pjrtc_future *call;
  failure = pjrtc_op_begin(client, &request, &message.base, &call);
  if (!failure) {
    call->decode = decode_assignment;
    call->to.assignment.devices = out_devices;
    call->to.assignment.num_devices = (size_t)num_replicas * num_partitions;
    pjrtc_call_commit(client, &request, call);
    failure = pjrtc_op_wait(client, call, 0);
  }
  return pjrtc_op_leave(client, failure, error);
}
