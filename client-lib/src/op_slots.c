/* Named slots of a session. Any thread. */
#include "op_slots.h"

#include <stdlib.h>
#include <string.h>

#include "heap.h"
#include "method_ids.h"
#include "pjrtd/v1/session.pb-c.h"
#include "reply_arena.h"
#include "reply_object.h"

/* More than fit in a request; so that their memory can be counted. */
#define MAX_SLOTS ((size_t)1 << 24)

pjrtc_failure *pjrtc_slots_check_count(size_t count, const void *list, const char *name) {
  if (count > MAX_SLOTS)
    return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, NULL, "%zu slots are too many for one request", count);
  return count && !list ? pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, NULL, "%s is NULL", name) : NULL;
}

pjrtc_failure *pjrtc_slots_check_name(const char *slot, size_t i) {
  return slot ? NULL : pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, NULL, "slot %zu has no name", i);
}

pjrtc_failure *pjrtc_slots_check_names(const char *const *slots, size_t num_slots) {
  pjrtc_failure *failure = pjrtc_slots_check_count(num_slots, slots, "slots");
  for (size_t i = 0; !failure && i < num_slots; i++) failure = pjrtc_slots_check_name(slots[i], i);
  return failure;
}

/* ---- Bindings, of Bind and of Lookup ---- */

typedef struct {
  Pjrtd__V1__SlotBinding *messages; /* owned, and behind them: */
  Pjrtd__V1__SlotBinding **list;
} bindings;

static pjrtc_failure *make_bindings(size_t count, bindings *out) {
  out->messages = pjrtc_heap_alloc(count * (sizeof *out->messages + sizeof *out->list));
  if (!out->messages) return pjrtc_failure_oom();
  out->list = (Pjrtd__V1__SlotBinding **)(out->messages + count);
  for (size_t i = 0; i < count; i++) {
    pjrtd__v1__slot_binding__init(&out->messages[i]);
    out->list[i] = &out->messages[i];
  }
  return NULL;
}

static pjrtc_failure *make_bind(const pjrtc_slot_binding *slots, size_t count, bindings *out) {
  *out = (bindings){0};
  pjrtc_failure *failure = pjrtc_slots_check_count(count, slots, "bindings");
  for (size_t i = 0; !failure && i < count; i++) failure = pjrtc_slots_check_name(slots[i].slot, i);
  if (!failure) failure = make_bindings(count, out);
  for (size_t i = 0; !failure && i < count; i++) {
    out->messages[i].slot = (char *)slots[i].slot;
    out->messages[i].buffer = slots[i].buffer;
  }
  return failure;
}

pjrtc_code pjrtc_bind_start(pjrtc_client *client, const pjrtc_slot_binding *slots, size_t num_bindings,
                            pjrtc_future **out_future, pjrtc_error *error) {
  bindings made;
  pjrtc_failure *failure = make_bind(slots, num_bindings, &made);
  Pjrtd__V1__BindRequest message = PJRTD__V1__BIND_REQUEST__INIT;
  message.n_bindings = num_bindings;
  message.bindings = made.list;
  pjrtc_code code = pjrtc_op_start(client, failure, PJRTC_METHOD_session_bind, &message.base, out_future, error);
  free(made.messages);
  return code;
}

pjrtc_code pjrtc_bind(pjrtc_client *client, const pjrtc_slot_binding *slots, size_t num_bindings, pjrtc_error *error) {
  bindings made;
  pjrtc_failure *failure = make_bind(slots, num_bindings, &made);
  Pjrtd__V1__BindRequest message = PJRTD__V1__BIND_REQUEST__INIT;
  message.n_bindings = num_bindings;
  message.bindings = made.list;
  pjrtc_code code = pjrtc_op_call(client, failure, PJRTC_METHOD_session_bind, &message.base, error);
  free(made.messages);
  return code;
}

static pjrtc_failure *start_lookup(pjrtc_client *client, const char *const *slots, size_t count, uint64_t *out_buffers,
                                   bool quiet, pjrtc_future **out_call) {
  bindings made;
  pjrtc_failure *failure = make_bindings(count, &made);
  if (failure) return failure;
  uint64_t first_buffer = client->next_buffer;
  for (size_t i = 0; i < count; i++) {
    made.messages[i].slot = (char *)slots[i];
    made.messages[i].buffer = out_buffers[i] = client->next_buffer++;
  }
  Pjrtd__V1__LookupRequest message = PJRTD__V1__LOOKUP_REQUEST__INIT;
  message.n_bindings = count;
  message.bindings = made.list;
  pjrtc_request request = {.method = PJRTC_METHOD_session_lookup, .quiet = quiet};
  failure = pjrtc_op_begin(client, &request, &message.base, out_call);
  if (failure)
    client->next_buffer = first_buffer;
  else
    pjrtc_call_commit(client, &request, *out_call);
  free(made.messages);
  return failure;
}

static pjrtc_failure *check_lookup(const char *const *slots, size_t num_slots, uint64_t *out_buffers) {
  pjrtc_failure *failure = pjrtc_slots_check_names(slots, num_slots);
  if (!failure) failure = pjrtc_slots_check_count(num_slots, out_buffers, "out_buffers");
  if (!failure && num_slots) memset(out_buffers, 0, num_slots * sizeof *out_buffers);
  return failure;
}

pjrtc_code pjrtc_lookup_start(pjrtc_client *client, const char *const *slots, size_t num_slots, uint64_t *out_buffers,
                              pjrtc_future **out_future, pjrtc_error *error) {
  if (out_future) *out_future = NULL;
  pjrtc_failure *failure = check_lookup(slots, num_slots, out_buffers);
  if (!failure) failure = pjrtc_op_enter(client, false);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_future *call;
  failure = start_lookup(client, slots, num_slots, out_buffers, !out_future, &call);
  if (failure && num_slots) memset(out_buffers, 0, num_slots * sizeof *out_buffers);
  return pjrtc_op_give(client, failure, call, out_future, error);
}

pjrtc_code pjrtc_lookup(pjrtc_client *client, const char *const *slots, size_t num_slots, uint64_t *out_buffers,
                        pjrtc_error *error) {
  pjrtc_failure *failure = check_lookup(slots, num_slots, out_buffers);
  if (!failure) failure = pjrtc_op_enter(client, true);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_future *call;
  failure = start_lookup(client, slots, num_slots, out_buffers, false, &call);
  if (!failure) {
    failure = pjrtc_op_wait(client, call, 0);
    if (failure) pjrtc_op_forget_buffers(client, out_buffers, num_slots);
  }
  if (failure && num_slots) memset(out_buffers, 0, num_slots * sizeof *out_buffers);
  return pjrtc_op_leave(client, failure, error);
}

/* ---- Unbind ---- */

static Pjrtd__V1__UnbindRequest unbind_of(const char *const *slots, size_t num_slots) {
  Pjrtd__V1__UnbindRequest message = PJRTD__V1__UNBIND_REQUEST__INIT;
  message.n_slots = num_slots;
  message.slots = (char **)slots;
  return message;
}

pjrtc_code pjrtc_unbind_start(pjrtc_client *client, const char *const *slots, size_t num_slots,
                              pjrtc_future **out_future, pjrtc_error *error) {
  Pjrtd__V1__UnbindRequest message = unbind_of(slots, num_slots);
  return pjrtc_op_start(client, pjrtc_slots_check_names(slots, num_slots), PJRTC_METHOD_session_unbind, &message.base,
                        out_future, error);
}

pjrtc_code pjrtc_unbind(pjrtc_client *client, const char *const *slots, size_t num_slots, pjrtc_error *error) {
  Pjrtd__V1__UnbindRequest message = unbind_of(slots, num_slots);
  return pjrtc_op_call(client, pjrtc_slots_check_names(slots, num_slots), PJRTC_METHOD_session_unbind, &message.base,
                       error);
}

/* ---- What is in them ---- */

static pjrtc_slot *read_slot(pjrtc_reply_arena *arena, const Pjrtd__V1__SlotInfo *m) {
  pjrtc_slot *slot = pjrtc_reply_arena_zalloc(arena, sizeof *slot);
  if (!slot) return NULL;
  *slot =
      (pjrtc_slot){.struct_size = sizeof *slot,
                   .slot = m->slot,
                   .state = (uint32_t)m->state <= PJRTC_SLOT_CONSUMED ? (pjrtc_slot_state)m->state : PJRTC_SLOT_UNKNOWN,
                   .device = m->device,
                   .bytes = m->device_bytes,
                   .message = "",
                   .published = m->published};
  if (m->type && m->type->n_dims <= PJRTC_MAX_RANK)
    slot->type = (pjrtc_type){(pjrtc_dtype)m->type->dtype, (uint32_t)m->type->n_dims, m->type->dims};
  if (m->error) {
    slot->code = (pjrtc_code)m->error->code;
    slot->message = m->error->message;
  }
  return slot;
}

void *pjrtc_read_slots(pjrtc_reply_arena *arena, const uint8_t *payload, size_t payload_bytes) {
  Pjrtd__V1__SlotsReply *m = pjrtd__v1__slots_reply__unpack(pjrtc_reply_arena_allocator(arena), payload_bytes, payload);
  pjrtc_slots *slots = pjrtc_reply_object_create(arena, sizeof *slots);
  if (!m || !slots) return NULL;
  pjrtc_slot **list = pjrtc_reply_arena_zalloc(arena, m->n_slots * sizeof *list);
  for (size_t i = 0; list && i < m->n_slots; i++)
    if (!(list[i] = read_slot(arena, m->slots[i]))) return NULL;
  *slots = (pjrtc_slots){sizeof *slots, (const pjrtc_slot *const *)list, m->n_slots};
  return list ? slots : NULL;
}

static pjrtc_failure *decode_slots(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes,
                                   const uint8_t *bulk, size_t bulk_bytes) {
  if (!call->to.object) return NULL;
  return pjrtc_reply_object_read(pjrtc_read_slots, payload, payload_bytes, "Session.Slots", call->to.object);
}

pjrtc_code pjrtc_get_slots(pjrtc_client *client, const char *const *slots, size_t num_slots, pjrtc_slots **out_slots,
                           pjrtc_error *error) {
  Pjrtd__V1__SlotsRequest message = PJRTD__V1__SLOTS_REQUEST__INIT;
  message.n_slots = num_slots;
  message.slots = (char **)slots;
  void *object = NULL;
  pjrtc_code code = pjrtc_op_get(client, pjrtc_slots_check_names(slots, num_slots), PJRTC_METHOD_session_slots,
                                 &message.base, decode_slots, &object, error);
  *out_slots = object;
  return code;
}

void pjrtc_slots_destroy(pjrtc_slots *slots) {
  pjrtc_reply_object_destroy(slots);
}
