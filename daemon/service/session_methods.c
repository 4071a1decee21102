/* Session: open, attach, close, sync. Loop thread. */
#include <inttypes.h>

#include "service/attachment.h"
#include "service/convert.h"

/* A client that forgets a session must not keep the device's memory for ever. */
#define MAX_TTL_NS (UINT64_C(400) * 86400 * 1000000000)

static pjrtd_status *keep(pjrtd_session *session, const char *name, uint64_t ttl_ns) {
  if (ttl_ns > MAX_TTL_NS)
    return PJRTD_INVALID("ttl_ns is %" PRIu64 ", a session outlives its connections by at most 400 days", ttl_ns);
  if (!ttl_ns && *name) ttl_ns = session->runtime->settings->session_lease_seconds * UINT64_C(1000000000);
  return pjrtd_session_keep(session, name, ttl_ns);
}

/* UNSPECIFIED leaves it. */
static pjrtd_status *set_priority(const pjrtd_peer *peer, Pjrtd__V1__SessionPriority wanted) {
  pjrtd_priority priority = PJRTD_PRIORITY_NORMAL;
  switch (wanted) {
    case PJRTD__V1__SESSION_PRIORITY__SESSION_PRIORITY_UNSPECIFIED: return PJRTD_OK;
    case PJRTD__V1__SESSION_PRIORITY__SESSION_PRIORITY_LOW: priority = PJRTD_PRIORITY_LOW; break;
    case PJRTD__V1__SESSION_PRIORITY__SESSION_PRIORITY_NORMAL: break;
    case PJRTD__V1__SESSION_PRIORITY__SESSION_PRIORITY_HIGH: priority = PJRTD_PRIORITY_HIGH; break;
    default: return PJRTD_INVALID("session priority %d does not exist", (int)wanted);
  }
  return pjrtd_session_set_priority(peer->session, &peer->identity, priority);
}

pjrtd_status *pjrtd_handle_session_configure(pjrtd_request *request) {
  const Pjrtd__V1__ConfigureRequest *wanted = request->message;
  PJRTD_TRY(set_priority(request->peer, wanted->priority));
  if (wanted->home_case == PJRTD__V1__CONFIGURE_REQUEST__HOME_DEVICE)
    PJRTD_TRY(pjrtd_session_set_home(request->peer->session, wanted->device));
  return pjrtd_request_done(request);
}

pjrtd_status *pjrtd_handle_session_open(pjrtd_request *request) {
  const Pjrtd__V1__SessionOpenRequest *open = request->message;
  pjrtd_peer *peer = request->peer;
  if (!peer->session) PJRTD_TRY(pjrtd_attachment_open(peer));
  if (*open->name || open->ttl_ns) {
    if (*peer->session->name && strcmp(peer->session->name, open->name) != 0)
      return PJRTD_INVALID("the connection's session has the name '%s' already", peer->session->name);
    PJRTD_TRY(keep(peer->session, open->name, open->ttl_ns));
  }
  PJRTD_TRY(set_priority(peer, open->priority));
  Pjrtd__V1__SessionOpenReply reply = PJRTD__V1__SESSION_OPEN_REPLY__INIT;
  reply.session = peer->session->id;
  reply.token = peer->session->token;
  reply.server_epoch = peer->runtime->epoch;
  reply.conversation = peer->conversation;
  pjrtd_request_answer(request, &reply.base, NULL, 0);
  return PJRTD_OK;
}

/* ---- attach ---- */

/* The session that is asked for; NULL where there is none of that name and one may be made. */
static pjrtd_status *find(const pjrtd_peer *peer, const Pjrtd__V1__SessionAttachRequest *attach,
                          pjrtd_session **out_session) {
  *out_session = NULL;
  if (!*attach->name == !*attach->token) return PJRTD_INVALID("an attach names a session by its name or by its token");
  if (*attach->token) {
    *out_session = pjrtd_session_find_token(peer->runtime, attach->token);
  } else if (!peer->identity.local) {
    return pjrtd_status_with_hint(
        pjrtd_status_make(PJRTD_CODE_PERMISSION_DENIED, "sessions are attached to by name over the local socket only"),
        "over gRPC, give the token that Session.Open returned");
  } else {
    *out_session = pjrtd_session_find_name(peer->runtime, &peer->identity, attach->name);
  }
  if (*out_session || (attach->create && *attach->name)) return PJRTD_OK;
  return pjrtd_status_with_hint(
      *attach->token ? pjrtd_status_make(PJRTD_CODE_NOT_FOUND, "the token is of no session")
                     : pjrtd_status_make(PJRTD_CODE_NOT_FOUND, "you have no session '%s'", attach->name),
      "its lease may have ended, or the daemon was restarted (another epoch); open another, or attach with `create`");
}

#define MAX_PENDING 65536

static void list_pending(const pjrtd_peer *peer, Pjrtd__V1__SessionAttachReply *reply, Pjrtd__V1__PendingCall *messages,
                         Pjrtd__V1__PendingCall **places) {
  for (const pjrtd_call *call = peer->oldest; call && reply->n_pending < MAX_PENDING; call = call->newer) {
    Pjrtd__V1__PendingCall *pending = &messages[reply->n_pending];
    pjrtd__v1__pending_call__init(pending);
    pending->call = call->header.call;
    if (call->inbound) {
      pending->received_bytes = call->inbound_received;
      pending->credit_bytes = call->inbound_window;
    }
    places[reply->n_pending++] = pending;
  }
  reply->pending = places;
}

static uint32_t count_connections(const pjrtd_session *session) {
  uint32_t count = 0;
  for (const pjrtd_peer *at = session->peers; at; at = at->next_of_session) count++;
  return count;
}

static pjrtd_status *attach_to(pjrtd_request *request, pjrtd_session *session, uint64_t *out_last_call) {
  const Pjrtd__V1__SessionAttachRequest *attach = request->message;
  pjrtd_peer *peer = request->peer;
  *out_last_call = 0;
  if (attach->resume)
    return pjrtd_attachment_resume(peer, session, attach->id_prefix, attach->conversation, request->header->call,
                                   out_last_call);
  return attach->join ? pjrtd_peer_join(peer, session) : pjrtd_attachment_take_over(peer, session);
}

pjrtd_status *pjrtd_handle_session_attach(pjrtd_request *request) {
  const Pjrtd__V1__SessionAttachRequest *attach = request->message;
  pjrtd_peer *peer = request->peer;
  if (request->header->quiet) return PJRTD_INVALID("Session.Attach tells what to go on with: it cannot be quiet");
  if (attach->resume && attach->join) return PJRTD_INVALID("an attach either joins or resumes");
  pjrtd_session *session;
  PJRTD_TRY(find(peer, attach, &session));
  Pjrtd__V1__SessionAttachReply reply = PJRTD__V1__SESSION_ATTACH_REPLY__INIT;
  if (session == peer->session && session) return PJRTD_INVALID("the connection takes part in that session already");
  if (!session) {
    if (!peer->session) PJRTD_TRY(pjrtd_attachment_open(peer));
    if (*peer->session->name)
      return PJRTD_INVALID("the connection's session has the name '%s' already", peer->session->name);
    PJRTD_TRY(keep(peer->session, attach->name, attach->ttl_ns));
    reply.created = true;
  } else {
    PJRTD_TRY(attach_to(request, session, &reply.last_call));
  }
  PJRTD_AUTO_FREE Pjrtd__V1__PendingCall *pending = NULL;
  PJRTD_AUTO_FREE Pjrtd__V1__PendingCall **places = NULL;
  size_t under_way = peer->calls.count < MAX_PENDING ? peer->calls.count : MAX_PENDING;
  if (under_way) {
    pending = pjrtd_calloc(under_way, sizeof *pending);
    places = pjrtd_calloc(under_way, sizeof *places);
    if (!pending || !places) return pjrtd_status_oom(); /* to the client, no list would say that nothing is under way */
    list_pending(peer, &reply, pending, places);
  }
  reply.session = peer->session->id;
  reply.token = peer->session->token;
  reply.server_epoch = peer->runtime->epoch;
  reply.conversation = peer->conversation;
  reply.id_prefix = peer->ids.prefix;
  reply.highest_buffer = peer->ids.highest[PJRTD_ID_BUFFER];
  reply.highest_program = peer->ids.highest[PJRTD_ID_PROGRAM];
  reply.connections = count_connections(peer->session);
  reply.home_device = pjrtd_session_home_id(peer->session);
  peer->session->last_used_ns = peer->runtime->turn.began_ns;
  pjrtd_request_answer(request, &reply.base, NULL, 0);
  return PJRTD_OK;
}

/* ---- close ---- */

pjrtd_status *pjrtd_handle_session_close(pjrtd_request *request) {
  const Pjrtd__V1__SessionCloseRequest *wanted = request->message;
  pjrtd_peer *peer = request->peer;
  pjrtd_session *session = peer->session;
  if (wanted->session || *wanted->name)
    PJRTD_TRY(pjrtd_session_find_for(peer, wanted->session, wanted->name, &session));
  if (!session)
    return pjrtd_status_make(PJRTD_CODE_FAILED_PRECONDITION, "the session of this connection was closed before");
  Pjrtd__V1__SessionCloseReply reply = PJRTD__V1__SESSION_CLOSE_REPLY__INIT;
  pjrtd_attachment_close(session, &reply.buffers_freed, &reply.programs_freed);
  pjrtd_request_answer(request, &reply.base, NULL, 0);
  return PJRTD_OK;
}

/* ---- sync: a call without holds, whose turn comes when it is the oldest under way ---- */

typedef struct {
  pjrtd_call call; /* first */
  uint64_t last_call;
} sync_call;

static void answer_sync(pjrtd_peer *peer, const pjrtd_frame_header *header, uint64_t last_call) {
  Pjrtd__V1__SyncReply reply = PJRTD__V1__SYNC_REPLY__INIT;
  pjrtd_error_message error;
  reply.last_call = last_call;
  reply.failed_call = peer->failed_call;
  if (peer->failed_call) {
    pjrtd_error_message_fill(&error, peer->failure);
    reply.error = &error.message;
  }
  pjrtd_answer(peer, header, &reply.base, NULL, 0);
  if (!peer->failed_call) return;
  pjrtd_status_destroy(peer->told_failure);
  peer->told_failure = PJRTD_TAKE(peer->failure);
  peer->told_call = peer->failed_call;
  peer->failed_call = 0;
}

static void abandon_sync(pjrtd_call *call, pjrtd_status *why) {
  pjrtd_status_destroy(why);
  pjrtd_call_end(call);
}

pjrtd_status *pjrtd_handle_session_sync(pjrtd_request *request) {
  pjrtd_peer *peer = request->peer;
  if (request->header->quiet) return PJRTD_INVALID("Session.Sync is its answer: it cannot be quiet");
  if (!peer->oldest) {
    answer_sync(peer, request->header, request->previous_call);
    return PJRTD_OK;
  }
  sync_call *sync;
  PJRTD_TRY(pjrtd_call_create(request, sizeof *sync, 0, NULL, abandon_sync, &sync));
  sync->last_call = request->previous_call;
  return PJRTD_OK;
}

void pjrtd_peer_check_sync(pjrtd_peer *peer) {
  while (peer->oldest && peer->oldest->header.method == PJRTD_METHOD_Session_Sync) {
    sync_call *sync = (sync_call *)peer->oldest;
    pjrtd_frame_header header = sync->call.header;
    uint64_t last_call = sync->last_call;
    answer_sync(peer, &header, last_call);
    pjrtd_call_end(&sync->call);
  }
}
