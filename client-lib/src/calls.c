/* See calls.h. */
#include "calls.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver.h"
#include "heap.h"
#include "method_ids.h"

/* ---- Room ---- */

static uint64_t quiet_in_flight(const pjrtc_client *client) {
  return client->quiet_sent - client->quiet_ended;
}

static bool has_room(pjrtc_client *client, void *unused) {
  return client->lost || (client->num_listed + quiet_in_flight(client) < client->hello.max_calls_in_flight &&
                          pjrtc_outbox_queued_bytes(&client->outbox) < client->max_queued_bytes);
}

bool pjrtc_client_is_in_item(const pjrtc_client *client) {
  return client->in_item && pthread_equal(client->item_thread, pthread_self());
}

static pjrtc_failure *lost(pjrtc_client *client) {
  return client->lost ? pjrtc_failure_retain(client->lost) : NULL;
}

static pjrtc_failure *decode_internal_sync(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes,
                                           const uint8_t *bulk, size_t bulk_bytes) {
  /* The failures themselves came as ERROR frames before this. */
  call->client->quiet_sync_in_flight = false;
  pjrtc_calls_note_quiet_ended(call->client, call->to.sync.quiet_sent);
  return NULL;
}

void pjrtc_calls_note_quiet_ended(pjrtc_client *client, uint64_t quiet_sent) {
  if (quiet_sent > client->quiet_ended) client->quiet_ended = quiet_sent;
  pjrtc_driver_wake(client, NULL);
}

/* Nothing says when a quiet call has ended, so now and then a sync asks, to keep within what the server allows. */
static pjrtc_failure *bound_quiet_calls(pjrtc_client *client) {
  if (client->quiet_sync_in_flight || quiet_in_flight(client) < (client->hello.max_calls_in_flight + 1) / 2)
    return NULL;
  pjrtc_request request = {.method = PJRTC_METHOD_session_sync};
  pjrtc_future *call;
  uint8_t *payload;
  pjrtc_failure *failure = pjrtc_call_begin(client, &request, &call, &payload);
  if (failure) return failure;
  call->held = false;
  client->num_held--;
  call->decode = decode_internal_sync;
  call->to.sync.quiet_sent = client->quiet_sent;
  client->quiet_sync_in_flight = true;
  pjrtc_call_commit(client, &request, call);
  return NULL;
}

pjrtc_failure *pjrtc_calls_wait_for_room(pjrtc_client *client, bool waits) {
  if (client->lost) return lost(client);
  pjrtc_failure *failure = bound_quiet_calls(client);
  if (failure || has_room(client, NULL)) return failure;
  bool in_item = pjrtc_client_is_in_item(client);
  if ((client->nonblocking && !waits) || in_item)
    return pjrtc_failure_make(
        PJRTC_RESOURCE_EXHAUSTED,
        in_item ? "some end when the callback has returned" : "call pjrtc_progress until some have ended",
        "%" PRIu32 " calls are in flight and %zu bytes are queued", client->num_listed,
        pjrtc_outbox_queued_bytes(&client->outbox));
  pjrtc_driver_wait(client, NULL, has_room, NULL, PJRTC_NO_DEADLINE);
  return lost(client);
}

/* ---- Start ---- */

static pjrtc_future *take_free(pjrtc_client *client) {
  pjrtc_future *call = client->free_calls;
  if (call)
    client->free_calls = call->next;
  else if (!(call = pjrtc_heap_alloc(sizeof *call)))
    return NULL;
  memset(call, 0, sizeof *call);
  call->client = client;
  return call;
}

static void recycle(pjrtc_client *client, pjrtc_future *call) {
  pjrtc_failure_release(call->failure);
  call->failure = NULL;
  call->next = client->free_calls;
  client->free_calls = call;
}

pjrtc_failure *pjrtc_call_begin(pjrtc_client *client, const pjrtc_request *request, pjrtc_future **out_call,
                                uint8_t **out_payload) {
  *out_call = NULL;
  *out_payload = NULL;
  if (client->lost) return lost(client);
  if (request->payload_bytes > PJRTD_FRAME_MAX_PAYLOAD_BYTES)
    return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, NULL, "the request has %zu bytes, at most %u are possible",
                              request->payload_bytes, PJRTD_FRAME_MAX_PAYLOAD_BYTES);
  pjrtc_future *call = NULL;
  if (!request->quiet || request->item_bytes) {
    call = take_free(client);
    if (!call) return pjrtc_failure_oom();
  }
  uint8_t *frame = pjrtc_outbox_reserve(
      &client->outbox, PJRTD_FRAME_HEADER_BYTES + request->payload_bytes + (size_t)request->bulk_bytes);
  if (!frame) {
    if (call) recycle(client, call);
    return pjrtc_failure_oom();
  }
  uint64_t id = client->next_call++;
  pjrtd_frame_encode(&(pjrtd_frame_header){.payload_bytes = (uint32_t)request->payload_bytes,
                                           .bulk_bytes = (uint32_t)request->bulk_bytes,
                                           .method = request->method,
                                           .kind = PJRTD_FRAME_REQUEST,
                                           .quiet = request->quiet,
                                           .call = id,
                                           .deadline_ns = request->timeout_ns},
                     frame);
  *out_payload = frame + PJRTD_FRAME_HEADER_BYTES;
  if (!call) return NULL;
  call->id = id;
  call->method = request->method;
  call->quiet = request->quiet;
  call->held = true;
  call->listed = true;
  pjrtc_future **bucket = &client->buckets[id % PJRTC_CALL_BUCKETS];
  call->next = *bucket;
  *bucket = call;
  client->num_listed++;
  client->num_held++;
  *out_call = call;
  return NULL;
}

/* Corked frames go out in one write of this size at the latest. */
enum { CORK_BYTES = 64 << 10 };

void pjrtc_call_commit(pjrtc_client *client, const pjrtc_request *request, pjrtc_future *call) {
  pjrtc_outbox_commit(&client->outbox, PJRTD_FRAME_HEADER_BYTES + request->payload_bytes + (size_t)request->bulk_bytes);
  if (request->quiet) client->quiet_sent++;
  if (call && call->source.left_bytes) {
    call->source.credit_bytes = client->upload_window_bytes;
    pjrtc_outbox_add_source(client, call);
  }
  if (client->corked && pjrtc_outbox_queued_bytes(&client->outbox) < CORK_BYTES) return;
  pjrtc_outbox_pump(client);
  if (pjrtc_outbox_wants_write(&client->outbox)) pjrtc_driver_kick(client);
}

/* ---- End ---- */

pjrtc_future *pjrtc_call_find(pjrtc_client *client, uint64_t id) {
  pjrtc_future *call = client->buckets[id % PJRTC_CALL_BUCKETS];
  while (call && call->id != id) call = call->next;
  return call;
}

static void unlist(pjrtc_client *client, pjrtc_future *call) {
  if (!call->listed) return;
  pjrtc_future **link = &client->buckets[call->id % PJRTC_CALL_BUCKETS];
  while (*link != call) link = &(*link)->next;
  *link = call->next;
  call->listed = false;
  client->num_listed--;
}

static void queue_callback(pjrtc_client *client, pjrtc_future *call) {
  if (!call->callback || call->callback_queued) return;
  call->callback_queued = true;
  call->next_callback = NULL;
  if (client->last_callback)
    client->last_callback->next_callback = call;
  else
    client->first_callback = call;
  client->last_callback = call;
}

/* Takes back the memory that the library allocated for results of a call that fails or is let go. */
static void drop_results(pjrtc_future *call) {
  if (call->sink.allocated) pjrtc_call_drop_download(call);
  if (call->method == PJRTC_METHOD_execute_run) pjrtc_call_drop_run(call);
}

void pjrtc_call_complete(pjrtc_client *client, pjrtc_future *call, pjrtc_failure *failure) {
  uint64_t id = call->id;
  if (call->source.left_bytes || call->source.walk || client->outbox.item_call == call)
    pjrtc_outbox_remove_source(client, call);
  pjrtc_client_wait_unpinned(client, call);
  if (!call->listed || call->id != id) {
    pjrtc_failure_release(failure); /* the connection was lost while the memory was waited for */
    return;
  }
  /* What went wrong first counts. */
  if (call->failure)
    pjrtc_failure_release(failure);
  else
    call->failure = failure;
  unlist(client, call);
  if (call->quiet && call->failure) {
    pjrtc_calls_note_quiet_failure(client, call->failure);
    call->failure = NULL;
  }
  if (!call->held) {
    recycle(client, call);
    pjrtc_driver_wake(client, NULL);
    return;
  }
  if (call->failure) drop_results(call);
  atomic_store_explicit(&call->done, true, memory_order_release);
  queue_callback(client, call);
  pjrtc_driver_wake(client, call);
  pjrtc_driver_wake(client, NULL);
}

static void send_cancel(pjrtc_client *client, pjrtc_future *call) {
  uint8_t *frame = pjrtc_outbox_reserve(&client->outbox, PJRTD_FRAME_HEADER_BYTES);
  if (!frame) return; /* the call ends when it ends */
  pjrtd_frame_encode(&(pjrtd_frame_header){.method = call->method, .kind = PJRTD_FRAME_CANCEL, .call = call->id},
                     frame);
  pjrtc_outbox_commit(&client->outbox, PJRTD_FRAME_HEADER_BYTES);
}

void pjrtc_call_cancel(pjrtc_client *client, pjrtc_future *call) {
  if (!call->listed || call->cancelled || client->lost) return;
  call->cancelled = true;
  if (call->source.left_bytes || call->source.walk) pjrtc_outbox_remove_source(client, call);
  if (!call->listed) return; /* it ended while its memory was waited for */
  send_cancel(client, call);
  if (client->corked) return;
  pjrtc_outbox_pump(client);
  if (pjrtc_outbox_wants_write(&client->outbox)) pjrtc_driver_kick(client);
}

static void unqueue_callback(pjrtc_client *client, pjrtc_future *call) {
  pjrtc_future *previous = NULL;
  for (pjrtc_future *c = client->first_callback; c; previous = c, c = c->next_callback) {
    if (c != call) continue;
    if (previous)
      previous->next_callback = c->next_callback;
    else
      client->first_callback = c->next_callback;
    if (client->last_callback == c) client->last_callback = previous;
    return;
  }
}

void pjrtc_call_let_go(pjrtc_client *client, pjrtc_future *call) {
  pjrtc_call_cancel(client, call);
  if (client->outbox.item_call == call) pjrtc_outbox_remove_source(client, call);
  pjrtc_client_wait_unpinned(client, call);
  if (call->callback_queued) unqueue_callback(client, call);
  if (call->listed) drop_results(call);
  client->num_held--;
  call->held = false;
  call->callback = NULL;
  call->sink.data = NULL;
  if (call->listed) {
    memset(&call->to, 0, sizeof call->to);
    return;
  }
  recycle(client, call);
}

void pjrtc_calls_note_quiet_failure(pjrtc_client *client, pjrtc_failure *failure) {
  pjrtc_failure **first = &client->quiet_failure;
  if (*first && (*first)->call <= failure->call) {
    pjrtc_failure_release(failure);
    return;
  }
  pjrtc_failure_release(*first);
  *first = failure;
}

/* ---- Connection ---- */

void pjrtc_client_wait_unpinned(pjrtc_client *client, pjrtc_future *call) {
  while ((client->outbox.writing && client->outbox.item_call == call) ||
         (client->inbox.pinned == call && !pjrtc_client_is_in_item(client))) {
    client->unpin_waiters++;
    pthread_cond_wait(&client->unpinned, &client->lock);
    client->unpin_waiters--;
  }
}

void pjrtc_client_lose(pjrtc_client *client, pjrtc_failure *failure) {
  if (client->lost) {
    pjrtc_failure_release(failure);
    return;
  }
  client->lost = failure;
  client->outbox.broken = true;
  for (size_t i = 0; i < PJRTC_CALL_BUCKETS; i++)
    while (client->buckets[i]) pjrtc_call_complete(client, client->buckets[i], pjrtc_failure_retain(failure));
  client->inbox.item_call = NULL;
  client->inbox.item_left_bytes = 0;
  pjrtc_driver_interrupt(client);
  pjrtc_driver_wake(client, NULL);
}

void pjrtc_client_free(pjrtc_client *client) {
  while (client->free_calls) {
    pjrtc_future *next = client->free_calls->next;
    free(client->free_calls);
    client->free_calls = next;
  }
  pjrtc_outbox_deinit(&client->outbox);
  pjrtc_inbox_deinit(&client->inbox);
  pjrtc_failure_release(client->lost);
  pjrtc_failure_release(client->quiet_failure);
  pjrtc_fork_guard_deinit(&client->fork_guard);
  pthread_cond_destroy(&client->unpinned);
  pthread_mutex_destroy(&client->lock);
  free(client->target);
  free(client);
}
