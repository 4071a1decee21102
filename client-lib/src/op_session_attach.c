/* Taking part in other sessions, and seeing which there are. Any thread. */
#include <string.h>

#include "method_ids.h"
#include "operation.h"
#include "pjrtd/v1/session.pb-c.h"
#include "reply_arena.h"
#include "reply_object.h"

static pjrtc_failure *decode_attach(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes,
                                    const uint8_t *bulk, size_t bulk_bytes) {
  pjrtc_client *client = call->client;
  pjrtc_reply_arena *arena = pjrtc_reply_arena_create();
  if (!arena) return pjrtc_failure_oom();
  Pjrtd__V1__SessionAttachReply *reply =
      pjrtd__v1__session_attach_reply__unpack(pjrtc_reply_arena_allocator(arena), payload_bytes, payload);
  bool good = reply && reply->id_prefix <= 0xffff && strlen(reply->token) < PJRTC_TOKEN_BYTES;
  if (good) {
    client->next_buffer = pjrtc_op_next_id(reply->id_prefix, reply->highest_buffer);
    client->next_program = pjrtc_op_next_id(reply->id_prefix, reply->highest_program);
  }
  if (good && call->to.attached) {
    pjrtc_attached attached = {.struct_size = call->to.attached->struct_size,
                               .session = reply->session,
                               .connections = reply->connections,
                               .created = reply->created};
    strcpy(attached.token, reply->token);
    memcpy(call->to.attached, &attached,
           attached.struct_size < sizeof attached ? attached.struct_size : sizeof attached);
  }
  return pjrtc_op_decoded(arena, good, "Session.Attach");
}

pjrtc_code pjrtc_session_attach(pjrtc_client *client, const pjrtc_attach_options *options, pjrtc_attached *out_attached,
                                pjrtc_error *error) {
  pjrtc_attach_options own;
  pjrtc_failure *failure = pjrtc_op_options(&own, sizeof own, options, "pjrtc_attach_options");
  if (!failure) failure = pjrtc_op_enter(client, true);
  if (failure) return pjrtc_failure_finish(failure, error);
  Pjrtd__V1__SessionAttachRequest message = PJRTD__V1__SESSION_ATTACH_REQUEST__INIT;
  if (own.name) message.name = (char *)own.name;
  if (own.token) message.token = (char *)own.token;
  message.create = own.create;
  message.join = own.join;
  message.ttl_ns = own.ttl_ns;
  pjrtc_request request = {.method = PJRTC_METHOD_session_attach};
  pjrtc_future *call;
  failure = pjrtc_op_begin(client, &request, &message.base, &call);
  if (!failure) {
    call->decode = decode_attach;
    call->to.attached = out_attached;
    pjrtc_call_commit(client, &request, call);
    failure = pjrtc_op_wait(client, call, 0);
  }
  return pjrtc_op_leave(client, failure, error);
}

/* ---- the list ---- */

static pjrtc_session_info *read_session(pjrtc_reply_arena *arena, const Pjrtd__V1__SessionInfo *m) {
  pjrtc_session_info *info = pjrtc_reply_arena_zalloc(arena, sizeof *info);
  pjrtc_session_connection **connections = pjrtc_reply_arena_zalloc(arena, m->n_connections * sizeof *connections);
  pjrtc_session_buffer **largest = pjrtc_reply_arena_zalloc(arena, m->n_largest * sizeof *largest);
  pjrtc_quota_use **quotas = pjrtc_reply_arena_zalloc(arena, m->n_quotas * sizeof *quotas);
  if (!info || !connections || !largest || !quotas) return NULL;
  for (size_t i = 0; i < m->n_quotas; i++) {
    if (!(quotas[i] = pjrtc_reply_arena_zalloc(arena, sizeof *quotas[i]))) return NULL;
    *quotas[i] = (pjrtc_quota_use){sizeof *quotas[i], m->quotas[i]->setting, m->quotas[i]->used, m->quotas[i]->allowed};
  }
  for (size_t i = 0; i < m->n_connections; i++) {
    const Pjrtd__V1__SessionConnection *from = m->connections[i];
    if (!(connections[i] = pjrtc_reply_arena_zalloc(arena, sizeof *connections[i]))) return NULL;
    *connections[i] = (pjrtc_session_connection){.struct_size = sizeof *connections[i],
                                                 .pid = from->pid,
                                                 .id_prefix = from->id_prefix,
                                                 .command = from->command,
                                                 .client_name = from->client_name,
                                                 .transport = from->transport};
  }
  for (size_t i = 0; i < m->n_largest; i++) {
    const Pjrtd__V1__SessionBuffer *from = m->largest[i];
    if (!(largest[i] = pjrtc_reply_arena_zalloc(arena, sizeof *largest[i]))) return NULL;
    *largest[i] = (pjrtc_session_buffer){.struct_size = sizeof *largest[i],
                                         .buffer = from->buffer,
                                         .bytes = from->bytes,
                                         .device = from->device,
                                         .slot = from->slot};
    if (from->type && from->type->n_dims <= PJRTC_MAX_RANK)
      largest[i]->type = (pjrtc_type){(pjrtc_dtype)from->type->dtype, (uint32_t)from->type->n_dims, from->type->dims};
  }
  *info = (pjrtc_session_info){.struct_size = sizeof *info,
                               .session = m->session,
                               .name = m->name,
                               .own = m->own,
                               .local = m->local,
                               .uid = m->uid,
                               .buffers = m->buffers,
                               .programs = m->programs,
                               .buffer_bytes = m->buffer_bytes,
                               .calls_in_flight = m->calls_in_flight,
                               .age_ns = m->age_ns,
                               .idle_ns = m->idle_ns,
                               .ttl_ns = m->ttl_ns,
                               .lease_left_ns = m->lease_left_ns,
                               .connections = (const pjrtc_session_connection *const *)connections,
                               .num_connections = m->n_connections,
                               .largest = (const pjrtc_session_buffer *const *)largest,
                               .num_largest = m->n_largest,
                               .slots = m->slots,
                               .priority = (pjrtc_priority)m->priority,
                               .home_device = m->home_device,
                               .device_ns = m->device_ns,
                               .quotas = (const pjrtc_quota_use *const *)quotas,
                               .num_quotas = m->n_quotas,
                               .reserved_bytes = m->reserved_bytes,
                               .idle_left_ns = m->idle_left_ns};
  return info;
}

void *pjrtc_read_sessions(pjrtc_reply_arena *arena, const uint8_t *payload, size_t payload_bytes) {
  Pjrtd__V1__SessionListReply *m =
      pjrtd__v1__session_list_reply__unpack(pjrtc_reply_arena_allocator(arena), payload_bytes, payload);
  pjrtc_sessions *sessions = pjrtc_reply_object_create(arena, sizeof *sessions);
  if (!m || !sessions) return NULL;
  pjrtc_session_info **list = pjrtc_reply_arena_zalloc(arena, m->n_sessions * sizeof *list);
  for (size_t i = 0; list && i < m->n_sessions; i++)
    if (!(list[i] = read_session(arena, m->sessions[i]))) return NULL;
  *sessions = (pjrtc_sessions){sizeof *sessions, (const pjrtc_session_info *const *)list, m->n_sessions};
  return list ? sessions : NULL;
}

static pjrtc_failure *decode_list(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes, const uint8_t *bulk,
                                  size_t bulk_bytes) {
  if (!call->to.object) return NULL;
  return pjrtc_reply_object_read(pjrtc_read_sessions, payload, payload_bytes, "Session.List", call->to.object);
}

pjrtc_code pjrtc_get_sessions(pjrtc_client *client, uint64_t session, const char *name, uint32_t num_largest,
                              pjrtc_sessions **out_sessions, pjrtc_error *error) {
  Pjrtd__V1__SessionListRequest message = PJRTD__V1__SESSION_LIST_REQUEST__INIT;
  message.session = session;
  if (name) message.name = (char *)name;
  message.buffers = num_largest;
  void *object = NULL;
  pjrtc_code code = pjrtc_op_get(client, NULL, PJRTC_METHOD_session_list, &message.base, decode_list, &object, error);
  *out_sessions = object;
  return code;
}

void pjrtc_sessions_destroy(pjrtc_sessions *sessions) {
  pjrtc_reply_object_destroy(sessions);
}
