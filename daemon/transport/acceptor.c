/* See acceptor.h. */
#include "transport/acceptor.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/log.h"

#define RETRY_MS 100
#define ACCEPTS_A_TURN 64

static void on_acceptable(uv_poll_t *poll, int status, int events);

static void on_retry(uv_timer_t *retry) {
  pjrtd_acceptor *acceptor = retry->data;
  uv_poll_start(&acceptor->poll, UV_READABLE, on_acceptable);
}

static void on_acceptable(uv_poll_t *poll, int status, int events) {
  pjrtd_acceptor *acceptor = poll->data;
  pjrtd_runtime_enter(acceptor->runtime);
  for (int count = 0; count < ACCEPTS_A_TURN; count++) {
    int descriptor = accept4(acceptor->descriptor, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    if (descriptor >= 0) {
      acceptor->accepted(acceptor, descriptor);
      continue;
    }
    if (errno == EINTR || errno == ECONNABORTED) continue;
    if (errno == EMFILE || errno == ENFILE || errno == ENOMEM || errno == ENOBUFS) {
      pjrtd_log(PJRTD_LOG_WARNING, "no descriptor for another client", PJRTD_LOG_TEXT("reason", strerror(errno)),
                PJRTD_LOG_UINT("connections", acceptor->runtime->stats.connections));
      uv_poll_stop(poll);
      uv_timer_start(&acceptor->retry, on_retry, RETRY_MS, 0);
    }
    return;
  }
}

pjrtd_status *pjrtd_acceptor_start(pjrtd_acceptor *acceptor, pjrtd_runtime *runtime) {
  acceptor->runtime = runtime;
  int error = uv_poll_init(runtime->loop, &acceptor->poll, acceptor->descriptor);
  if (error) return pjrtd_status_from_errno(-error, "watching a listening socket");
  uv_timer_init(runtime->loop, &acceptor->retry);
  acceptor->poll.data = acceptor->retry.data = acceptor;
  acceptor->open_handles = 2;
  uv_poll_start(&acceptor->poll, UV_READABLE, on_acceptable);
  return PJRTD_OK;
}

static void on_closed(uv_handle_t *handle) {
  pjrtd_acceptor *acceptor = handle->data;
  if (--acceptor->open_handles) return;
  close(acceptor->descriptor);
  acceptor->descriptor = -1;
  acceptor->closed(acceptor);
}

void pjrtd_acceptor_close(pjrtd_acceptor *acceptor) {
  uv_poll_stop(&acceptor->poll);
  uv_close((uv_handle_t *)&acceptor->poll, on_closed);
  uv_close((uv_handle_t *)&acceptor->retry, on_closed);
}
