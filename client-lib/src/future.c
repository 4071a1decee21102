/* Futures: the user's side of a call. Any thread; one thread at a time for each, except waiting. */
#include "operation.h"

static bool is_done(const pjrtc_future *future) {
  return atomic_load_explicit(&future->done, memory_order_acquire);
}

static pjrtc_failure *child_failure(pjrtc_client *client) {
  return pjrtc_fork_guard_is_child(&client->fork_guard) ? pjrtc_op_enter(client, false) : NULL;
}

pjrtc_code pjrtc_future_poll(pjrtc_future *future, pjrtc_error *error) {
  return is_done(future) ? pjrtc_failure_report(future->failure, error) : PJRTC_PENDING;
}

pjrtc_code pjrtc_future_wait(pjrtc_future *future, int64_t timeout_ns, pjrtc_error *error) {
  if (is_done(future)) return pjrtc_failure_report(future->failure, error);
  pjrtc_client *client = future->client;
  pjrtc_failure *failure = child_failure(client);
  if (failure) return pjrtc_failure_finish(failure, error);
  uint64_t deadline_ns = timeout_ns < 0 ? PJRTC_NO_DEADLINE : pjrtc_now_ns() + (uint64_t)timeout_ns;
  pthread_mutex_lock(&client->lock);
  failure = pjrtc_op_may_wait(client);
  if (failure) return pjrtc_op_leave(client, failure, error);
  pjrtc_outbox_pump(client);
  bool done = pjrtc_driver_wait_done(client, future, deadline_ns);
  pthread_mutex_unlock(&client->lock);
  return done ? pjrtc_failure_report(future->failure, error) : PJRTC_PENDING;
}

uint64_t pjrtc_future_call(const pjrtc_future *future) {
  return future->id;
}

void pjrtc_future_on_done(pjrtc_future *future, pjrtc_callback callback, void *user) {
  pjrtc_client *client = future->client;
  if (pjrtc_fork_guard_is_child(&client->fork_guard)) return;
  pthread_mutex_lock(&client->lock);
  bool done = is_done(future);
  if (!done) {
    future->callback = callback;
    future->callback_user = user;
  }
  pthread_mutex_unlock(&client->lock);
  if (done && callback) callback(future, user);
}

void pjrtc_future_cancel(pjrtc_future *future) {
  pjrtc_client *client = future->client;
  if (is_done(future) || pjrtc_fork_guard_is_child(&client->fork_guard)) return;
  pthread_mutex_lock(&client->lock);
  pjrtc_call_cancel(client, future);
  pthread_mutex_unlock(&client->lock);
}

void pjrtc_future_destroy(pjrtc_future *future) {
  if (!future) return;
  pjrtc_client *client = future->client;
  if (pjrtc_fork_guard_is_child(&client->fork_guard)) return;
  pthread_mutex_lock(&client->lock);
  pjrtc_call_let_go(client, future);
  bool last = client->closed && client->num_held == 0;
  pthread_mutex_unlock(&client->lock);
  if (last) pjrtc_client_free(client);
}
