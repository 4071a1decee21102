/* Connections: their begin and end, and the caller's own event loop. Any thread. */
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "heap.h"
#include "method_ids.h"
#include "operation.h"
#include "pjrtd/v1/runtime.pb-c.h"
#include "reply_arena.h"
#include "socket_link.h"
#include "target.h"

#define DEFAULT_TIMEOUT_NS 10000000000u
#define DEFAULT_WINDOW_BYTES (4u << 20)
#define DEFAULT_QUEUED_BYTES (4u << 20)
#define MAX_BUSY_POLL_US 1000000u

const char *pjrtc_version(void) {
  return PJRTD_VERSION;
}

/* ---- Hello ---- */

static pjrtc_failure *decode_hello(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes,
                                   const uint8_t *bulk, size_t bulk_bytes) {
  pjrtc_client *client = call->client;
  pjrtc_reply_arena *arena = pjrtc_reply_arena_create();
  if (!arena) return pjrtc_failure_oom();
  Pjrtd__V1__HelloReply *reply =
      pjrtd__v1__hello_reply__unpack(pjrtc_reply_arena_allocator(arena), payload_bytes, payload);
  bool good = reply && reply->version >= PJRTD_PROTOCOL_MIN && reply->version <= PJRTD_PROTOCOL_MAX &&
              reply->id_prefix <= 0xffff && reply->max_inline_bytes <= PJRTD_FRAME_MAX_INLINE_BYTES &&
              reply->max_item_bytes >= 1 && reply->max_item_bytes <= PJRTD_FRAME_MAX_ITEM_BYTES &&
              reply->upload_credit_bytes >= 1 && reply->max_calls_in_flight >= 1;
  if (good) {
    strncpy(client->server_version, reply->server_version, sizeof client->server_version - 1);
    client->hello = (pjrtc_hello){
        .struct_size = sizeof client->hello,
        .target = client->target,
        .server_version = client->server_version,
        .server_epoch = reply->server_epoch,
        .protocol_version = reply->version,
        .max_inline_bytes = reply->max_inline_bytes,
        .max_calls_in_flight = reply->max_calls_in_flight,
        .server_busy_poll_us = reply->busy_poll_us,
    };
    client->max_item_bytes = reply->max_item_bytes;
    client->upload_window_bytes = reply->upload_credit_bytes;
    client->next_buffer = client->next_program = pjrtc_op_next_id(reply->id_prefix, 0);
  }
  return pjrtc_op_decoded(arena, good, "Hello");
}

static pjrtc_failure *say_hello(pjrtc_client *client, const char *client_name, uint64_t timeout_ns) {
  Pjrtd__V1__HelloRequest message = PJRTD__V1__HELLO_REQUEST__INIT;
  message.min_version = PJRTD_PROTOCOL_MIN;
  message.max_version = PJRTD_PROTOCOL_MAX;
  message.client_name = (char *)(client_name ? client_name : "libpjrtc " PJRTD_VERSION);
  message.download_credit_bytes = client->download_window_bytes;
  pjrtc_request request = {.method = PJRTC_METHOD_hello};
  pjrtc_future *call;
  pjrtc_failure *failure = pjrtc_op_begin(client, &request, &message.base, &call);
  if (failure) return failure;
  call->decode = decode_hello;
  pjrtc_call_commit(client, &request, call);
  bool answered = pjrtc_driver_wait_done(client, call, pjrtc_now_ns() + timeout_ns);
  if (answered) {
    failure = call->failure;
    call->failure = NULL;
  } else {
    failure = pjrtc_failure_make(PJRTC_DEADLINE_EXCEEDED, "pjrtd may be stopped; or another program listens there",
                                 "%s accepted the connection and did not answer within %" PRIu64 " ms", client->target,
                                 timeout_ns / 1000000);
  }
  pjrtc_call_let_go(client, call);
  return failure;
}

/* ---- Begin and end ---- */

static pjrtc_failure *create(const pjrtc_connect_options *options, pjrtc_client **out_client) {
  pjrtc_client *client = *out_client = pjrtc_heap_zalloc(sizeof *client);
  if (!client) return pjrtc_failure_oom();
  pthread_mutex_init(&client->lock, NULL);
  pthread_cond_init(&client->unpinned, NULL);
  pjrtc_fork_guard_init(&client->fork_guard);
  pjrtc_spinner_init(&client->spinner);
  client->busy_poll_ns =
      1000ull * (options->busy_poll_us < MAX_BUSY_POLL_US ? options->busy_poll_us : MAX_BUSY_POLL_US);
  client->nonblocking = options->nonblocking;
  client->download_window_bytes =
      options->download_window_bytes ? options->download_window_bytes : DEFAULT_WINDOW_BYTES;
  client->max_queued_bytes = options->max_queued_bytes ? options->max_queued_bytes : DEFAULT_QUEUED_BYTES;
  client->next_call = 1;
  return pjrtc_inbox_init(&client->inbox) ? NULL : pjrtc_failure_oom();
}

static uint64_t timeout_of(const pjrtc_connect_options *options) {
  uint64_t timeout_ns = options->timeout_ns ? options->timeout_ns : DEFAULT_TIMEOUT_NS;
  return timeout_ns < INT64_MAX ? timeout_ns : INT64_MAX;
}

/* On a link that is open. */
static pjrtc_failure *begin(pjrtc_client *client, const pjrtc_connect_options *options) {
  pthread_mutex_lock(&client->lock);
  pjrtc_failure *failure = say_hello(client, options->client_name, timeout_of(options));
  pthread_mutex_unlock(&client->lock);
  return failure;
}

pjrtc_code pjrtc_connect(const char *target, const pjrtc_connect_options *options, pjrtc_client **out_client,
                         pjrtc_error *error) {
  static const pjrtc_connect_options defaults = PJRTC_CONNECT_OPTIONS_INIT;
  pjrtc_connect_options own;
  *out_client = NULL;
  pjrtc_client *client = NULL;
  pjrtc_failure *failure = pjrtc_op_options(&own, sizeof own, options ? options : &defaults, "pjrtc_connect_options");
  if (!failure) failure = create(&own, &client);
  if (!failure) failure = pjrtc_target_resolve(target, &client->target);
  if (!failure) failure = pjrtc_target_open(client->target, own.ca_file, timeout_of(&own), &client->link);
  if (!failure) failure = begin(client, &own);
  if (failure)
    pjrtc_close(client);
  else
    *out_client = client;
  return pjrtc_failure_finish(failure, error);
}

pjrtc_client *pjrtc_connect_socket(int fd) {
  pjrtc_client *client;
  const pjrtc_connect_options options = {.struct_size = sizeof options};
  pjrtc_failure *failure = create(&options, &client);
  if (!failure && !(client->target = pjrtc_heap_zalloc(1))) failure = pjrtc_failure_oom();
  if (!failure)
    failure = pjrtc_socket_link_create(fd, client->target, &client->link);
  else
    close(fd);
  if (!failure) failure = begin(client, &options);
  if (!failure) return client;
  pjrtc_failure_release(failure);
  pjrtc_close(client);
  return NULL;
}

void pjrtc_close(pjrtc_client *client) {
  if (!client) return;
  bool is_child = pjrtc_fork_guard_is_child(&client->fork_guard);
  pjrtc_link *link = client->link;
  if (is_child) {
    /* Another thread of the parent may have held the lock when it forked, and calls may be half way: what they use is
     * left alone, since only the parent knows its state. */
    if (link) link->ops->close_in_child(link);
    client->link = NULL;
    return;
  }
  pthread_mutex_lock(&client->lock);
  client->closed = true;
  pjrtc_client_lose(client, pjrtc_failure_make(PJRTC_CANCELLED, NULL, "the client was closed"));
  pjrtc_driver_run_callbacks(client);
  bool last = client->num_held == 0;
  client->link = NULL;
  pthread_mutex_unlock(&client->lock);
  if (link) link->ops->close(link);
  if (last) pjrtc_client_free(client);
}

const pjrtc_hello *pjrtc_get_hello(const pjrtc_client *client) {
  return &client->hello;
}

/* ---- A caller's event loop ---- */

int pjrtc_fd(const pjrtc_client *client) {
  return client->link->ops->get_fd(client->link);
}

short pjrtc_events(pjrtc_client *client) {
  if (pjrtc_fork_guard_is_child(&client->fork_guard)) return 0;
  pthread_mutex_lock(&client->lock);
  short events = client->link->ops->get_events(client->link, pjrtc_outbox_wants_write(&client->outbox));
  pthread_mutex_unlock(&client->lock);
  return events;
}

static pjrtc_failure *enter(pjrtc_client *client) {
  if (pjrtc_fork_guard_is_child(&client->fork_guard)) return pjrtc_op_enter(client, false);
  pthread_mutex_lock(&client->lock);
  return NULL;
}

pjrtc_code pjrtc_progress(pjrtc_client *client, pjrtc_error *error) {
  pjrtc_failure *failure = enter(client);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_driver_progress(client);
  return pjrtc_op_leave(client, client->lost ? pjrtc_failure_retain(client->lost) : NULL, error);
}

void pjrtc_cork(pjrtc_client *client) {
  if (pjrtc_fork_guard_is_child(&client->fork_guard)) return;
  pthread_mutex_lock(&client->lock);
  client->corked = true;
  pthread_mutex_unlock(&client->lock);
}

pjrtc_code pjrtc_flush(pjrtc_client *client, pjrtc_error *error) {
  pjrtc_failure *failure = enter(client);
  if (failure) return pjrtc_failure_finish(failure, error);
  client->corked = false;
  pjrtc_outbox_pump(client);
  if (pjrtc_outbox_wants_write(&client->outbox)) pjrtc_driver_kick(client);
  return pjrtc_op_leave(client, client->lost ? pjrtc_failure_retain(client->lost) : NULL, error);
}
