/* Session: open, close, sync. Loop thread. */
#include "service/call.h"
#include "service/convert.h"

pjrtd_status *pjrtd_handle_session_open(pjrtd_request *request) {
  const Pjrtd__V1__SessionOpenRequest *open = request->message;
  pjrtd_peer *peer = request->peer;
  if (*open->name || open->ttl_ns)
    return pjrtd_status_with_hint(
        pjrtd_status_make(PJRTD_CODE_UNIMPLEMENTED, "pjrtd " PJRTD_VERSION " has no named or leased sessions"),
        "leave name and ttl_ns empty: the session lasts as long as its connection");
  if (!peer->session) PJRTD_TRY(pjrtd_session_create(peer->runtime, &peer->identity, &peer->session));
  Pjrtd__V1__SessionOpenReply reply = PJRTD__V1__SESSION_OPEN_REPLY__INIT;
  reply.session = peer->session->id;
  reply.token = peer->session->token;
  reply.server_epoch = peer->runtime->epoch;
  pjrtd_request_answer(request, &reply.base, NULL, 0);
  return PJRTD_OK;
}

pjrtd_status *pjrtd_handle_session_close(pjrtd_request *request) {
  pjrtd_peer *peer = request->peer;
  if (!peer->session)
    return pjrtd_status_make(PJRTD_CODE_FAILED_PRECONDITION, "the session of this connection was closed before");
  Pjrtd__V1__SessionCloseReply reply = PJRTD__V1__SESSION_CLOSE_REPLY__INIT;
  pjrtd_session_close(peer->session, &reply.buffers_freed, &reply.programs_freed);
  peer->session = NULL;
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
  uint8_t *bulk;
  if (pjrtd_answer_begin(peer, header, &reply.base, 0, &bulk)) pjrtd_answer_end(peer);
  pjrtd_status_destroy(peer->failure);
  peer->failure = NULL;
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
