/* See idle_sessions.h. One timer looks at all sessions now and then: what a request costs does not change by it. */
#include "service/idle_sessions.h"

#include "base/clock.h"
#include "pjrtd/v1/frame.pb-c.h"
#include "service/attachment.h"
#include "service/call.h"

#define NS_A_SECOND UINT64_C(1000000000)
/* The warning comes a tenth of the time before the end, at most this. */
#define MAX_WARNING_NS (60 * NS_A_SECOND)
#define MIN_PERIOD_MS 50
#define MAX_PERIOD_MS 1000

static uint64_t limit_ns(const pjrtd_runtime *runtime) {
  return runtime->settings->session_idle_seconds * NS_A_SECOND;
}

static uint64_t warning_ns(uint64_t limit_ns) {
  return limit_ns / 10 < MAX_WARNING_NS ? limit_ns / 10 : MAX_WARNING_NS;
}

uint64_t pjrtd_idle_left_ns(const pjrtd_session *session, uint64_t now_ns) {
  uint64_t limit = limit_ns(session->runtime), end_ns = session->last_used_ns + limit;
  return limit && session->idle_warned_ns > session->last_used_ns && end_ns > now_ns ? end_ns - now_ns : 0;
}

static void tell(pjrtd_peer *peer, const char *message, uint64_t left_ns) {
  Pjrtd__V1__Notice notice = PJRTD__V1__NOTICE__INIT;
  notice.message = (char *)message;
  notice.idle_end_ns = left_ns;
  if (!peer->wants_notices || peer->gone || peer->failing) return;
  pjrtd_send_frame(peer, &(pjrtd_frame_header){0}, PJRTD_FRAME_NOTICE, &notice.base);
}

static void warn(pjrtd_session *session, uint64_t now_ns, uint64_t left_ns) {
  session->idle_warned_ns = now_ns;
  char message[160];
  snprintf(message, sizeof message,
           "the session was not used for %.0f s: it ends, and what it holds is freed, in %.0f s unless it is used",
           (double)(now_ns - session->last_used_ns) / 1e9, (double)left_ns / 1e9);
  for (pjrtd_peer *at = session->peers; at; at = at->next_of_session) tell(at, message, left_ns);
  pjrtd_log(PJRTD_LOG_WARNING, "an idle session will end", PJRTD_LOG_UINT("session", session->id),
            PJRTD_LOG_TEXT("name", session->name), PJRTD_LOG_UINT("uid", session->identity.uid),
            PJRTD_LOG_UINT("in_s", left_ns / NS_A_SECOND));
}

static void end(pjrtd_session *session, uint64_t now_ns) {
  pjrtd_status *why =
      pjrtd_status_with_hint(pjrtd_status_make(PJRTD_CODE_ABORTED, "the session was idle for %.0f s, and was ended",
                                               (double)(now_ns - session->last_used_ns) / 1e9),
                             "connect again; a call now and then keeps a session, session_idle_seconds says how often");
  pjrtd_log(PJRTD_LOG_WARNING, "an idle session was ended", PJRTD_LOG_UINT("session", session->id),
            PJRTD_LOG_TEXT("name", session->name), PJRTD_LOG_UINT("uid", session->identity.uid),
            PJRTD_LOG_UINT("bytes", session->account->used[PJRTD_QUOTA_DEVICE_BYTES]));
  pjrtd_attachment_end(session, why);
}

/* What is under way is use. */
static bool is_busy(const pjrtd_session *session) {
  for (const pjrtd_peer *at = session->peers; at; at = at->next_of_session)
    if (at->calls.count) return true;
  return false;
}

static void look_at(pjrtd_session *session, uint64_t limit, uint64_t now_ns) {
  if (pjrtd_attachment_lease_end_ns(session) || is_busy(session)) {
    session->last_used_ns = now_ns;
    return;
  }
  uint64_t idle_ns = now_ns > session->last_used_ns ? now_ns - session->last_used_ns : 0;
  if (idle_ns >= limit)
    end(session, now_ns);
  else if (idle_ns >= limit - warning_ns(limit) && session->idle_warned_ns <= session->last_used_ns)
    warn(session, now_ns, limit - idle_ns);
}

static void on_idle_timer(uv_timer_t *timer) {
  pjrtd_runtime *runtime = timer->data;
  pjrtd_runtime_enter(runtime);
  uint64_t limit = limit_ns(runtime), now_ns = pjrtd_clock_now_ns();
  pjrtd_session *next;
  for (pjrtd_session *at = limit ? runtime->sessions : NULL; at; at = next) {
    next = at->next;
    look_at(at, limit, now_ns);
  }
  pjrtd_runtime_settle(runtime);
  if (runtime->flush) runtime->flush(runtime->flush_user);
}

void pjrtd_idle_sessions_watch(pjrtd_runtime *runtime) {
  uint64_t period_ms = limit_ns(runtime) / 1000000 / 20;
  if (!period_ms) {
    uv_timer_stop(&runtime->idle_timer);
    return;
  }
  if (period_ms < MIN_PERIOD_MS) period_ms = MIN_PERIOD_MS;
  if (period_ms > MAX_PERIOD_MS) period_ms = MAX_PERIOD_MS;
  uv_timer_start(&runtime->idle_timer, on_idle_timer, period_ms, period_ms);
}
