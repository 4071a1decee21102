/* Session.Bind, Unbind, Lookup and Slots: the session's named slots. Loop thread. */
#include "service/call.h"
#include "service/convert.h"

/* All is looked at before anything is done: all of them, or none. */
static pjrtd_status *check_bindings(const pjrtd_session *session, const Pjrtd__V1__BindRequest *wanted) {
  for (size_t i = 0; i < wanted->n_bindings; i++) {
    PJRTD_TRY(pjrtd_slots_check_name(wanted->bindings[i]->slot));
    if (!pjrtd_session_find_buffer(session, wanted->bindings[i]->buffer))
      return pjrtd_status_context(pjrtd_session_not_found(PJRTD_ID_BUFFER, wanted->bindings[i]->buffer), "slot '%s'",
                                  wanted->bindings[i]->slot);
  }
  return PJRTD_OK;
}

pjrtd_status *pjrtd_handle_session_bind(pjrtd_request *request) {
  const Pjrtd__V1__BindRequest *wanted = request->message;
  pjrtd_session *session = request->peer->session;
  PJRTD_TRY(pjrtd_slots_check_count(wanted->n_bindings));
  PJRTD_TRY(check_bindings(session, wanted));
  size_t most = session->runtime->settings->max_session_slots, made = 0;
  if (session->slots.count + wanted->n_bindings > most) {
    for (size_t i = 0; i < wanted->n_bindings; i++)
      made += !pjrtd_slots_find(&session->slots, wanted->bindings[i]->slot);
    PJRTD_TRY(pjrtd_slots_check_room(&session->slots, made, most));
  }
  for (size_t i = 0; i < wanted->n_bindings; i++)
    PJRTD_TRY(pjrtd_slots_bind(&session->slots, wanted->bindings[i]->slot,
                               pjrtd_session_find_buffer(session, wanted->bindings[i]->buffer), session->account,
                               most));
  return pjrtd_request_done(request);
}

pjrtd_status *pjrtd_handle_session_unbind(pjrtd_request *request) {
  const Pjrtd__V1__UnbindRequest *wanted = request->message;
  PJRTD_TRY(pjrtd_slots_check_count(wanted->n_slots));
  pjrtd_status *status = PJRTD_OK;
  for (size_t i = 0; i < wanted->n_slots; i++)
    if (!pjrtd_slots_unbind(&request->peer->session->slots, wanted->slots[i]) && !status)
      status = pjrtd_session_no_slot(wanted->slots[i]);
  return status ? status : pjrtd_request_done(request);
}

/* As with every id that a call is to make: where it fails, later uses fail with the same error. */
static pjrtd_status *look_up(const pjrtd_request *request, const Pjrtd__V1__SlotBinding *binding) {
  pjrtd_session *session = request->peer->session;
  pjrtd_id_space *ids = &request->peer->ids;
  pjrtd_buffer *buffer = pjrtd_slots_find(&session->slots, binding->slot);
  if (buffer) {
    PJRTD_TRY(pjrtd_session_check_new(session, ids, PJRTD_ID_BUFFER, binding->buffer));
    return pjrtd_session_name_buffer(session, ids, binding->buffer, buffer);
  }
  PJRTD_TRY(pjrtd_session_make_buffer(session, ids, binding->buffer, &buffer));
  pjrtd_status *status = pjrtd_status_with_origin(pjrtd_session_no_slot(binding->slot), request->header->call);
  pjrtd_resource_set_failed(&buffer->resource, pjrtd_status_retain(status));
  pjrtd_resource_release(&buffer->resource);
  return status;
}

pjrtd_status *pjrtd_handle_session_lookup(pjrtd_request *request) {
  const Pjrtd__V1__LookupRequest *wanted = request->message;
  PJRTD_TRY(pjrtd_slots_check_count(wanted->n_bindings));
  pjrtd_status *first = PJRTD_OK;
  for (size_t i = 0; i < wanted->n_bindings; i++) {
    pjrtd_status *status = look_up(request, wanted->bindings[i]);
    if (first)
      pjrtd_status_destroy(status);
    else
      first = status;
  }
  return first ? first : pjrtd_request_done(request);
}

/* ---- listing ---- */

typedef struct {
  Pjrtd__V1__SlotInfo info;
  Pjrtd__V1__TensorType type;
  pjrtd_error_message error;
} entry;

static void fill(entry *to, const char *name, const pjrtd_buffer *buffer) {
  pjrtd__v1__slot_info__init(&to->info);
  to->info.slot = (char *)name;
  switch (buffer->resource.state) {
    case PJRTD_RESOURCE_PENDING: to->info.state = PJRTD__V1__SLOT_STATE__SLOT_STATE_PENDING; return;
    case PJRTD_RESOURCE_CONSUMED: to->info.state = PJRTD__V1__SLOT_STATE__SLOT_STATE_CONSUMED; return;
    case PJRTD_RESOURCE_FAILED:
      to->info.state = PJRTD__V1__SLOT_STATE__SLOT_STATE_FAILED;
      pjrtd_error_message_fill(&to->error, buffer->resource.error);
      to->info.error = &to->error.message;
      return;
    case PJRTD_RESOURCE_READY: break;
  }
  to->info.state = PJRTD__V1__SLOT_STATE__SLOT_STATE_READY;
  pjrtd_type_message_fill(&to->type, pjrtd_device_buffer_type(buffer->device_buffer));
  to->info.type = &to->type;
  to->info.device = pjrtd_device_buffer_device(buffer->device_buffer)->id;
  to->info.device_bytes = buffer->bytes;
  to->info.published = buffer->published;
}

static pjrtd_status *list(pjrtd_session *session, const Pjrtd__V1__SlotsRequest *wanted, entry *entries,
                          Pjrtd__V1__SlotsReply *reply) {
  for (size_t i = 0; i < wanted->n_slots; i++) {
    const pjrtd_buffer *buffer = pjrtd_slots_find(&session->slots, wanted->slots[i]);
    if (!buffer) return pjrtd_session_no_slot(wanted->slots[i]);
    fill(&entries[reply->n_slots++], wanted->slots[i], buffer);
  }
  for (size_t i = 0; !wanted->n_slots && i < session->slots.capacity; i++) {
    const pjrtd_slot *slot = pjrtd_slots_at(&session->slots, i);
    if (slot) fill(&entries[reply->n_slots++], slot->name, slot->value);
  }
  return PJRTD_OK;
}

pjrtd_status *pjrtd_handle_session_slots(pjrtd_request *request) {
  const Pjrtd__V1__SlotsRequest *wanted = request->message;
  pjrtd_session *session = request->peer->session;
  PJRTD_TRY(pjrtd_slots_check_count(wanted->n_slots));
  size_t count = wanted->n_slots ? wanted->n_slots : session->slots.count;
  if (count > PJRTD_MAX_SLOTS_AT_ONCE)
    return pjrtd_status_with_hint(
        pjrtd_status_make(PJRTD_CODE_OUT_OF_RANGE, "the session has %zu slots, one answer tells of %d", count,
                          PJRTD_MAX_SLOTS_AT_ONCE),
        "ask for them by name");
  PJRTD_AUTO_FREE entry *entries = pjrtd_calloc(count + 1, sizeof *entries);
  PJRTD_AUTO_FREE Pjrtd__V1__SlotInfo **infos = pjrtd_calloc(count + 1, sizeof *infos);
  if (!entries || !infos) return pjrtd_status_oom();
  Pjrtd__V1__SlotsReply reply = PJRTD__V1__SLOTS_REPLY__INIT;
  PJRTD_TRY(list(session, wanted, entries, &reply));
  for (size_t i = 0; i < reply.n_slots; i++) infos[i] = &entries[i].info;
  reply.slots = infos;
  pjrtd_request_answer(request, &reply.base, NULL, 0);
  return PJRTD_OK;
}
