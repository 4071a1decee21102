/* See inbox.h. */
#include "inbox.h"

#include <errno.h>
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "driver.h"
#include "error_reply.h"
#include "heap.h"
#include "method_ids.h"
#include "socket_link.h"
#include "varint.h"

/* Room for one full inline reply and then some; only a large message makes it grow. */
enum { FIRST_BYTES = 128 << 10 };

bool pjrtc_inbox_init(pjrtc_inbox *inbox) {
  memset(inbox, 0, sizeof *inbox);
  inbox->data = pjrtc_heap_alloc(FIRST_BYTES);
  inbox->capacity = inbox->data ? FIRST_BYTES : 0;
  return inbox->data != NULL;
}

void pjrtc_inbox_deinit(pjrtc_inbox *inbox) {
  free(inbox->data);
  memset(inbox, 0, sizeof *inbox);
}

static void broken(pjrtc_client *client, const char *what) {
  pjrtc_client_lose(client, pjrtc_failure_make(PJRTC_INTERNAL, "client and server may be of different versions",
                                               "the server at %s broke the protocol: %s", client->target, what));
}

/* ---- Data of downloads ---- */

/* Lets the server send more once a good part of the window was used. */
static void grant(pjrtc_client *client, pjrtc_future *call) {
  pjrtc_sink *sink = &call->sink;
  if (call->cancelled || sink->received_bytes == sink->total_bytes) return;
  if (sink->ungranted_bytes < client->download_window_bytes / 4) return;
  uint8_t payload[11];
  uint8_t *end = pjrtc_varint_put(pjrtc_tag_put(payload, 1, PJRTC_WIRE_VARINT), sink->ungranted_bytes);
  size_t payload_bytes = (size_t)(end - payload);
  uint8_t *frame = pjrtc_outbox_reserve(&client->outbox, PJRTD_FRAME_HEADER_BYTES + payload_bytes);
  if (!frame) {
    pjrtc_client_lose(client, pjrtc_failure_oom());
    return;
  }
  pjrtd_frame_encode(&(pjrtd_frame_header){.payload_bytes = (uint32_t)payload_bytes,
                                           .method = call->method,
                                           .kind = PJRTD_FRAME_CREDIT,
                                           .call = call->id},
                     frame);
  memcpy(frame + PJRTD_FRAME_HEADER_BYTES, payload, payload_bytes);
  pjrtc_outbox_commit(&client->outbox, PJRTD_FRAME_HEADER_BYTES + payload_bytes);
  sink->ungranted_bytes = 0;
}

/* `size_bytes` of the current ITEM have arrived, and lie where they belong. */
static void item_received(pjrtc_client *client, size_t size_bytes) {
  pjrtc_inbox *inbox = &client->inbox;
  pjrtc_future *call = inbox->item_call;
  pjrtc_sink *sink = &call->sink;
  inbox->item_left_bytes -= size_bytes;
  if (sink->data) sink->data += size_bytes;
  sink->received_bytes += size_bytes;
  sink->ungranted_bytes += size_bytes;
  if (inbox->item_left_bytes) return;
  inbox->item_call = NULL;
  if (sink->received_bytes == sink->total_bytes)
    pjrtc_call_complete(client, call, NULL);
  else
    grant(client, call);
}

/* ---- Frames ---- */

/* The lock is dropped: whoever lets go of the call waits until the callback has returned. */
static void tell_item(pjrtc_client *client, pjrtc_future *call, const pjrtc_item *item) {
  uint64_t id = call->id;
  client->inbox.pinned = call;
  client->in_item = true;
  client->item_thread = pthread_self();
  pthread_mutex_unlock(&client->lock);
  bool goes_on = item->callback(item->user, item->steps, item->values, item->num_values);
  pthread_mutex_lock(&client->lock);
  client->in_item = false;
  client->inbox.pinned = NULL;
  if (client->unpin_waiters) pthread_cond_broadcast(&client->unpinned);
  if (!goes_on && pjrtc_call_find(client, id) == call) pjrtc_call_cancel(client, call);
}

static void on_item_message(pjrtc_client *client, const pjrtd_frame_header *header, const uint8_t *payload) {
  pjrtc_future *call = pjrtc_call_find(client, header->call);
  if (!call || !call->decode_item) {
    broken(client, "a message came within a call that takes none");
    return;
  }
  if (!call->held || call->failure) return; /* nobody wants it any more */
  pjrtc_item item = {0};
  call->failure = call->decode_item(call, payload, header->payload_bytes, payload + header->payload_bytes,
                                    header->bulk_bytes, &item);
  if (call->failure)
    pjrtc_call_cancel(client, call);
  else if (item.callback && !call->cancelled)
    tell_item(client, call, &item);
}

static void on_item(pjrtc_client *client, const pjrtd_frame_header *header) {
  pjrtc_future *call = pjrtc_call_find(client, header->call);
  if (!call || !call->sink.announced) {
    broken(client, "data came for a call that expects none");
  } else if (header->bulk_bytes > call->sink.total_bytes - call->sink.received_bytes) {
    broken(client, "more data came than was announced");
  } else if (header->bulk_bytes) {
    client->inbox.item_call = call;
    client->inbox.item_left_bytes = header->bulk_bytes;
  }
}

static void on_reply(pjrtc_client *client, const pjrtd_frame_header *header, const uint8_t *payload,
                     const uint8_t *bulk) {
  pjrtc_future *call = pjrtc_call_find(client, header->call);
  if (!call || call->sink.announced) {
    broken(client, "a reply came to no call");
    return;
  }
  pjrtc_failure *failure = call->decode(call, payload, header->payload_bytes, bulk, header->bulk_bytes);
  /* A download whose data follows goes on, even where there is no room for it. */
  if (call->sink.announced && call->sink.received_bytes < call->sink.total_bytes) {
    if (failure) {
      pjrtc_failure_release(call->failure);
      call->failure = failure;
      pjrtc_call_cancel(client, call);
    }
    return;
  }
  if (failure && header->method == PJRTC_METHOD_buffer_download && !call->sink.announced) {
    /* Nobody knows what data follows. */
    pjrtc_client_lose(client, failure);
    return;
  }
  pjrtc_call_complete(client, call, failure);
}

static void on_error(pjrtc_client *client, const pjrtd_frame_header *header, const uint8_t *payload) {
  bool of_sync = header->method == PJRTC_METHOD_session_sync;
  pjrtc_failure *failure = pjrtc_error_reply_read(payload, header->payload_bytes, of_sync ? 0 : header->call);
  if (header->call == 0) {
    /* The connection itself is at fault, and the server is about to close it. */
    pjrtc_failure *lost = pjrtc_failure_make(failure->code, failure->hint, "%s ended the connection: %s",
                                             client->target, failure->message);
    pjrtc_failure_release(failure);
    pjrtc_client_lose(client, lost);
    return;
  }
  pjrtc_future *call = pjrtc_call_find(client, header->call);
  if (call) {
    pjrtc_call_complete(client, call, failure);
  } else if (header->call < client->next_call) {
    pjrtc_calls_note_quiet_failure(client, failure);
  } else {
    pjrtc_failure_release(failure);
    broken(client, "an error came to a call that was not made");
  }
}

static void on_credit(pjrtc_client *client, const pjrtd_frame_header *header, const uint8_t *payload) {
  pjrtc_future *call = pjrtc_call_find(client, header->call);
  if (!call) return; /* it has ended meanwhile */
  pjrtc_reader reader = pjrtc_reader_make(payload, header->payload_bytes);
  uint32_t field;
  unsigned wire_type;
  uint64_t bytes = 0;
  while (pjrtc_field_next(&reader, &field, &wire_type)) {
    if (field == 1 && wire_type == PJRTC_WIRE_VARINT)
      bytes = pjrtc_varint_get(&reader);
    else
      pjrtc_field_skip(&reader, wire_type);
  }
  if (reader.failed)
    broken(client, "a credit cannot be decoded");
  else
    pjrtc_outbox_add_credit(client, call, bytes);
}

static void on_frame(pjrtc_client *client, const pjrtd_frame_header *header, const uint8_t *payload) {
  switch (header->kind) {
    case PJRTD_FRAME_REPLY: on_reply(client, header, payload, payload + header->payload_bytes); break;
    case PJRTD_FRAME_ERROR: on_error(client, header, payload); break;
    case PJRTD_FRAME_CREDIT: on_credit(client, header, payload); break;
    case PJRTD_FRAME_ITEM:
      if (header->payload_bytes)
        on_item_message(client, header, payload);
      else
        on_item(client, header);
      break;
    default: broken(client, "a frame of a kind came that only clients send"); break;
  }
}

/* Makes room so that `size_bytes` from the head on can be whole. */
static bool make_room(pjrtc_inbox *inbox, size_t size_bytes) {
  if (size_bytes <= inbox->capacity - inbox->head) return true;
  size_t used = inbox->tail - inbox->head;
  if (size_bytes <= inbox->capacity) {
    memmove(inbox->data, inbox->data + inbox->head, used);
  } else {
    uint8_t *data = pjrtc_heap_alloc(size_bytes);
    if (!data) return false;
    memcpy(data, inbox->data + inbox->head, used);
    free(inbox->data);
    inbox->data = data;
    inbox->capacity = size_bytes;
  }
  inbox->head = 0;
  inbox->tail = used;
  return true;
}

/* Handles everything that is whole. */
static void parse(pjrtc_client *client) {
  pjrtc_inbox *inbox = &client->inbox;
  while (!client->lost) {
    size_t available = inbox->tail - inbox->head;
    if (inbox->item_left_bytes) {
      size_t take = available < inbox->item_left_bytes ? available : (size_t)inbox->item_left_bytes;
      if (!take) break;
      if (inbox->item_call->sink.data) memcpy(inbox->item_call->sink.data, inbox->data + inbox->head, take);
      inbox->head += take;
      item_received(client, take);
      continue;
    }
    pjrtd_frame_header header;
    size_t need = PJRTD_FRAME_HEADER_BYTES;
    if (available >= need) {
      const char *fault = pjrtd_frame_decode(inbox->data + inbox->head, &header);
      if (fault) {
        broken(client, fault);
        break;
      }
      /* The data of a download is received where it belongs; all else is made whole. */
      need += header.payload_bytes + (header.kind == PJRTD_FRAME_ITEM && !header.payload_bytes ? 0 : header.bulk_bytes);
    }
    if (available < need) {
      if (!make_room(inbox, need)) pjrtc_client_lose(client, pjrtc_failure_oom());
      break;
    }
    const uint8_t *payload = inbox->data + inbox->head + PJRTD_FRAME_HEADER_BYTES;
    inbox->head += need;
    on_frame(client, &header, payload);
  }
  if (inbox->head == inbox->tail) inbox->head = inbox->tail = 0;
}

/* ---- Reading ---- */

static void ended(pjrtc_client *client) {
  pjrtc_link_end end;
  client->link->ops->explain(client->link, &end);
  pjrtc_client_lose(client, pjrtc_failure_make(end.code, end.hint, "%s", end.message));
}

/* Between two attempts the core is for others that want it. Where one keeps it for long, polling is worse than
 * sleeping: who sleeps is woken at once, while who gives way comes after all others. */
static ssize_t receive_until(pjrtc_link *link, struct iovec *parts, size_t num_parts, uint64_t spin_until_ns,
                             bool *out_crowded) {
  for (;;) {
    ssize_t result = link->ops->receive(link, parts, num_parts, 0);
    if (result >= 0) return result;
    uint64_t now_ns = spin_until_ns ? pjrtc_now_ns() : 0;
    if (*out_crowded || now_ns >= spin_until_ns) return -1;
    sched_yield();
    *out_crowded = pjrtc_now_ns() - now_ns > PJRTC_CROWDED_NS;
  }
}

/* What came of a read; the lock is held again. */
static bool received(pjrtc_client *client, ssize_t result, size_t direct) {
  pjrtc_inbox *inbox = &client->inbox;
  if (client->lost) return true;
  if (result < 0) return false;
  if (result == 0) {
    ended(client);
    return true;
  }
  size_t count = (size_t)result;
  if (direct) {
    size_t of_item = count < direct ? count : direct;
    item_received(client, of_item);
    count -= of_item;
  }
  inbox->tail += count;
  client->long_wait = false;
  parse(client);
  return true;
}

bool pjrtc_inbox_receive(pjrtc_client *client, uint64_t spin_until_ns) {
  pjrtc_inbox *inbox = &client->inbox;
  struct iovec parts[2];
  size_t num_parts = 0, direct = 0;
  if (inbox->item_left_bytes && inbox->item_call->sink.data && inbox->head == inbox->tail) {
    direct = (size_t)inbox->item_left_bytes;
    parts[num_parts++] = (struct iovec){inbox->item_call->sink.data, direct};
    inbox->pinned = inbox->item_call;
  }
  if (inbox->tail == inbox->capacity && !make_room(inbox, inbox->capacity)) return false;
  parts[num_parts++] = (struct iovec){inbox->data + inbox->tail, inbox->capacity - inbox->tail};
  pthread_mutex_unlock(&client->lock);
  bool crowded = false;
  ssize_t result = receive_until(client->link, parts, num_parts, spin_until_ns, &crowded);
  pthread_mutex_lock(&client->lock);
  if (crowded) client->spinner.crowded = true;
  if (inbox->pinned) {
    inbox->pinned = NULL;
    if (client->unpin_waiters) pthread_cond_broadcast(&client->unpinned);
  }
  return received(client, result, direct);
}

bool pjrtc_inbox_receive_asleep(pjrtc_client *client) {
  pjrtc_inbox *inbox = &client->inbox;
  if (inbox->tail == inbox->capacity && !make_room(inbox, inbox->capacity)) return false;
  const struct iovec part = {inbox->data + inbox->tail, inbox->capacity - inbox->tail};
  pthread_mutex_unlock(&client->lock);
  ssize_t result = client->link->ops->receive(client->link, &part, 1, PJRTC_RECEIVE_MS);
  pthread_mutex_lock(&client->lock);
  return received(client, result, 0);
}
