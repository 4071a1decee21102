/* See attachment.h. */
#include "service/attachment.h"

#include <inttypes.h>

#include "base/clock.h"

/* ---- the list ---- */

static void enter(pjrtd_peer *peer, pjrtd_session *session) {
  peer->session = session;
  peer->conversation = ++session->runtime->last_conversation;
  if (!pjrtd_identity_same(&peer->identity, &session->identity)) session->account->shared = true;
  peer->next_of_session = session->peers;
  peer->session_link = &session->peers;
  if (peer->next_of_session) peer->next_of_session->session_link = &peer->next_of_session;
  session->peers = peer;
}

static void leave(pjrtd_peer *peer) {
  *peer->session_link = peer->next_of_session;
  if (peer->next_of_session) peer->next_of_session->session_link = peer->session_link;
  peer->session = NULL;
  peer->next_of_session = NULL;
  peer->session_link = NULL;
}

pjrtd_status *pjrtd_attachment_open(pjrtd_peer *peer) {
  pjrtd_session *session;
  PJRTD_TRY(pjrtd_session_create(peer->runtime, &peer->identity, &session));
  pjrtd_status *status = pjrtd_session_take_space(session, &peer->ids);
  if (status) {
    pjrtd_session_close(session, NULL, NULL);
    return status;
  }
  enter(peer, session);
  return PJRTD_OK;
}

/* ---- peers that nobody is behind ---- */

typedef struct {
  pjrtd_peer peer; /* first */
  pjrtd_deadline lease;
} absent_peer;

static bool drop_frame(pjrtd_peer *peer, const pjrtd_frame_header *header, uint8_t **out_payload, uint8_t **out_bulk) {
  return false;
}
static void do_nothing(pjrtd_peer *peer) {}
static void drop_stream(pjrtd_peer *peer, pjrtd_stream *stream) {}
static void stop_stream(pjrtd_stream *stream) {}
/* What a call has to tell before its end would be lost. */
static bool is_full(const pjrtd_peer *peer, uint64_t id) {
  const pjrtd_call *call = pjrtd_id_map_find(&peer->calls, id);
  return call && call->lasting;
}

static const pjrtd_peer_transport nobody = {.name = "none",
                                            .begin_frame = drop_frame,
                                            .end_frame = do_nothing,
                                            .start_stream = drop_stream,
                                            .stop_stream = stop_stream,
                                            .kick = do_nothing,
                                            .is_full = is_full,
                                            .hang_up = do_nothing};

static absent_peer *absent_of(const pjrtd_session *session) {
  pjrtd_peer *peer = session->peers;
  return peer && peer->transport == &nobody ? (absent_peer *)peer : NULL;
}

uint64_t pjrtd_attachment_lease_end_ns(const pjrtd_session *session) {
  const absent_peer *absent = absent_of(session);
  return absent ? absent->lease.at_ns : 0;
}

/* ---- what a connection has under way ---- */

static void abandon_calls(pjrtd_peer *peer, const char *why) {
  while (peer->oldest) {
    pjrtd_call *call = peer->oldest;
    pjrtd_call_detach(call);
    call->abandon(call,
                  pjrtd_status_with_origin(pjrtd_status_make(PJRTD_CODE_CANCELLED, "%s", why), call->header.call));
  }
}

/* What only the connection could finish. */
static void abandon_answers_in_pieces(pjrtd_peer *peer) {
  pjrtd_call *next;
  for (pjrtd_call *call = peer->oldest; call; call = next) {
    next = call->newer;
    if (!call->outbound) continue;
    pjrtd_call_detach(call);
    call->abandon(call, pjrtd_status_make(PJRTD_CODE_CANCELLED, "the connection that made the call is gone"));
  }
}

/* Nobody will hear of these calls any more; but what they do is done, unless it takes data that will not come, or is
 * but an answer. */
static void let_go(pjrtd_peer *peer, const char *why) {
  while (peer->oldest) {
    pjrtd_call *call = peer->oldest;
    bool unfinished = call->inbound || call->outbound || call->lasting ||
                      call->header.method == PJRTD_METHOD_Session_Sync || call->operation.list == &peer->parked;
    pjrtd_call_detach(call);
    if (unfinished)
      call->abandon(call,
                    pjrtd_status_with_origin(pjrtd_status_make(PJRTD_CODE_CANCELLED, "%s", why), call->header.call));
  }
}

/* All that a conversation consists of; `to` has none of it yet but the call that asks for this. */
static void move_conversation(pjrtd_peer *from, pjrtd_peer *to) {
  abandon_answers_in_pieces(from);
  pjrtd_session *session = from->session;
  leave(from);
  enter(to, session);
  to->ids = from->ids;
  to->conversation = from->conversation;
  for (pjrtd_call *call = from->oldest; call; call = call->newer) {
    call->peer = to;
    /* Credit that was not granted yet: the attach's answer grants it. */
    call->inbound_window += call->inbound_consumed;
    call->inbound_consumed = 0;
  }
  to->oldest = from->oldest;
  to->newest = from->newest;
  pjrtd_id_map_deinit(&to->calls);
  to->calls = from->calls;
  to->call_bytes = from->call_bytes;
  pjrtd_ready_list_move(&from->parked, &to->parked);
  /* The answer that told a failure may not have arrived: it is told again, unless there is another to tell. */
  bool again = !from->failed_call;
  to->failed_call = again ? from->told_call : from->failed_call;
  to->failure = again ? PJRTD_TAKE(from->told_failure) : from->failure;
  from->oldest = from->newest = NULL;
  from->calls = (pjrtd_id_map){0};
  from->call_bytes = 0;
  from->failed_call = 0;
  from->failure = NULL;
  /* Answers that waited for the one to read wait for the other, if that is needed. */
  pjrtd_peer_has_room(to);
  pjrtd_runtime_do_more(to->runtime);
}

/* ---- going ---- */

static void free_absent(absent_peer *absent) {
  pjrtd_deadlines_remove(&absent->peer.runtime->deadlines, &absent->lease);
  pjrtd_id_map_deinit(&absent->peer.calls);
  pjrtd_status_destroy(absent->peer.failure);
  pjrtd_status_destroy(absent->peer.told_failure);
  pjrtd_free(absent);
}

static void end_absent(absent_peer *absent, const char *why) {
  abandon_calls(&absent->peer, why);
  pjrtd_session *session = absent->peer.session;
  leave(&absent->peer);
  free_absent(absent);
  pjrtd_session_close(session, NULL, NULL);
}

static void on_lease_end(pjrtd_deadline *lease) {
  absent_peer *absent = (absent_peer *)((char *)lease - offsetof(absent_peer, lease));
  pjrtd_runtime *runtime = absent->peer.runtime;
  pjrtd_runtime_enter(runtime);
  pjrtd_log(PJRTD_LOG_INFO, "a session's lease ended", PJRTD_LOG_UINT("session", absent->peer.session->id),
            PJRTD_LOG_TEXT("name", absent->peer.session->name));
  end_absent(absent, "the lease of the session that the call was of has ended");
  pjrtd_runtime_settle(runtime);
}

/* The connection's part is kept for whoever goes on from there. False where there is no memory for that. */
static bool keep(pjrtd_peer *peer) {
  absent_peer *absent = pjrtd_calloc(1, sizeof *absent);
  if (!absent) return false;
  pjrtd_session *session = peer->session;
  pjrtd_peer_init(&absent->peer, &nobody, peer->runtime, &peer->identity);
  absent->peer.greeted = true;
  absent->lease.passed = on_lease_end;
  uint64_t now_ns = pjrtd_clock_now_ns();
  if (__builtin_add_overflow(now_ns, session->ttl_ns, &absent->lease.at_ns)) absent->lease.at_ns = UINT64_MAX;
  pjrtd_status *status = pjrtd_deadlines_add(&peer->runtime->deadlines, &absent->lease);
  if (status) {
    pjrtd_status_destroy(status);
    pjrtd_free(absent);
    return false;
  }
  absent->peer.last_call = peer->last_call;
  absent->peer.resume_call = peer->resume_call;
  absent->peer.resumed_from = peer->resumed_from;
  move_conversation(peer, &absent->peer);
  pjrtd_log(PJRTD_LOG_INFO, "a session is kept without a connection", PJRTD_LOG_UINT("session", session->id),
            PJRTD_LOG_TEXT("name", session->name), PJRTD_LOG_UINT("ttl_s", session->ttl_ns / 1000000000u));
  return true;
}

void pjrtd_attachment_lose(pjrtd_peer *peer) {
  pjrtd_session *session = peer->session;
  bool last = session && session->peers == peer && !peer->next_of_session;
  if (last && session->ttl_ns && !peer->runtime->draining && keep(peer)) return;
  abandon_calls(peer, "the connection that made the call is gone");
  if (!session) return;
  pjrtd_session_leave_space(session, &peer->ids);
  leave(peer);
  if (last) pjrtd_session_close(session, NULL, NULL);
}

/* Calls that would go on for long without the session. */
static void stop_lasting(pjrtd_peer *peer) {
  pjrtd_call *call = peer->oldest;
  while (call) {
    if (!call->lasting) {
      call = call->newer;
      continue;
    }
    pjrtd_peer_abandon_call(call,
                            pjrtd_status_make(PJRTD_CODE_CANCELLED, "the session that the call is of was closed"));
    call = peer->oldest; /* others may have ended with it */
  }
}

void pjrtd_attachment_close(pjrtd_session *session, uint64_t *out_buffers, uint64_t *out_programs) {
  absent_peer *absent = absent_of(session);
  for (pjrtd_peer *at = session->peers; at; at = at->next_of_session)
    if (at->transport != &nobody) stop_lasting(at);
  while (session->peers) leave(session->peers);
  pjrtd_session_close(session, out_buffers, out_programs);
  if (!absent) return;
  abandon_calls(&absent->peer, "the session that the call was of was closed");
  free_absent(absent);
}

void pjrtd_attachment_end(pjrtd_session *session, pjrtd_status *why) {
  while (session->peers && session->peers->transport != &nobody) {
    pjrtd_peer *peer = session->peers;
    abandon_calls(peer, "the session that the call was of was ended");
    leave(peer);
    pjrtd_peer_end(peer, pjrtd_status_retain(why));
  }
  pjrtd_status_destroy(why);
  pjrtd_attachment_close(session, NULL, NULL);
}

void pjrtd_sessions_end(pjrtd_runtime *runtime) {
  pjrtd_session *next;
  for (pjrtd_session *at = runtime->sessions; at; at = next) {
    next = at->next;
    absent_peer *absent = absent_of(at);
    if (absent) end_absent(absent, "the daemon is stopping");
  }
}

/* ---- coming ---- */

/* A connection of its own that nothing was done with. */
static pjrtd_status *check_new(const pjrtd_peer *peer) {
  if (!peer->session || (pjrtd_session_is_new(peer->session, &peer->ids) && !peer->oldest && !peer->session->ttl_ns))
    return PJRTD_OK;
  return pjrtd_status_with_hint(
      pjrtd_status_make(PJRTD_CODE_FAILED_PRECONDITION,
                        "the connection's own session is in use: it has made a buffer or a program, or has a name"),
      "attach first, right after hello");
}

static void leave_own(pjrtd_peer *peer) {
  pjrtd_session *own = peer->session;
  if (!own) return;
  leave(peer);
  pjrtd_session_close(own, NULL, NULL);
}

/* Another connection has it now. */
static void fence(pjrtd_peer *peer) {
  pjrtd_session *session = peer->session;
  let_go(peer, "another connection took the session over");
  pjrtd_session_leave_space(session, &peer->ids);
  leave(peer);
  if (peer->transport == &nobody) {
    free_absent((absent_peer *)peer);
    return;
  }
  pjrtd_log(PJRTD_LOG_INFO, "a connection was fenced off from its session", PJRTD_LOG_UINT("session", session->id),
            PJRTD_LOG_TEXT("name", session->name), PJRTD_LOG_INT("pid", peer->identity.pid));
  pjrtd_peer_end(peer, pjrtd_status_with_hint(
                           pjrtd_status_make(PJRTD_CODE_ABORTED, "another connection took this one's session over"),
                           "attach with `join` to share a session"));
}

pjrtd_status *pjrtd_peer_join(pjrtd_peer *peer, pjrtd_session *session) {
  PJRTD_TRY(check_new(peer));
  pjrtd_id_space space;
  PJRTD_TRY(pjrtd_session_take_space(session, &space));
  leave_own(peer);
  absent_peer *absent = absent_of(session);
  if (absent) fence(&absent->peer);
  peer->ids = space;
  enter(peer, session);
  return PJRTD_OK;
}

pjrtd_status *pjrtd_attachment_take_over(pjrtd_peer *peer, pjrtd_session *session) {
  PJRTD_TRY(check_new(peer));
  /* Enough for one at any time, since the others' are free then. */
  leave_own(peer);
  while (session->peers) fence(session->peers);
  PJRTD_TRY(pjrtd_session_take_space(session, &peer->ids));
  enter(peer, session);
  return PJRTD_OK;
}

pjrtd_status *pjrtd_attachment_resume(pjrtd_peer *peer, pjrtd_session *session, uint32_t prefix, uint64_t conversation,
                                      uint64_t call, uint64_t *out_last_call) {
  *out_last_call = 0;
  PJRTD_TRY(check_new(peer));
  pjrtd_peer *lost = session->peers;
  while (lost && lost->ids.prefix != prefix) lost = lost->next_of_session;
  if (!lost || (conversation && lost->conversation != conversation))
    return pjrtd_status_with_hint(
        pjrtd_status_make(PJRTD_CODE_ABORTED, "no connection with the id prefix %u can be resumed", prefix),
        "another one took the session over since; attach without `resume`");
  if (call <= lost->last_call)
    return pjrtd_status_with_hint(
        PJRTD_INVALID("the call id %" PRIu64 " is not above %" PRIu64 ", the last one of the connection to resume",
                      call, lost->last_call),
        "call ids go on where that connection's ended, from Hello on");
  leave_own(peer);
  /* Where the attach that resumed came last, its answer may be lost: what it told is told again. */
  *out_last_call = lost->last_call == lost->resume_call ? lost->resumed_from : lost->last_call;
  peer->resume_call = call;
  peer->resumed_from = *out_last_call;
  move_conversation(lost, peer);
  if (lost->transport == &nobody)
    free_absent((absent_peer *)lost);
  else
    pjrtd_peer_end(lost, pjrtd_status_make(PJRTD_CODE_ABORTED, "another connection goes on with this one's session"));
  while (session->peers != peer || peer->next_of_session)
    fence(session->peers == peer ? peer->next_of_session : session->peers);
  return PJRTD_OK;
}
