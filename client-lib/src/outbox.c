/* See outbox.h. */
#include "outbox.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "calls.h"
#include "driver.h"
#include "heap.h"

enum { FIRST_BYTES = 16 << 10 };

static const uint8_t zeros[4096];

void pjrtc_outbox_deinit(pjrtc_outbox *outbox) {
  free(outbox->data);
  free(outbox->scratch);
  memset(outbox, 0, sizeof *outbox);
}

uint8_t *pjrtc_outbox_reserve(pjrtc_outbox *outbox, size_t size_bytes) {
  if (outbox->head == outbox->tail) outbox->head = outbox->tail = 0;
  if (size_bytes <= outbox->capacity - outbox->tail) return outbox->data + outbox->tail;
  size_t used = outbox->tail - outbox->head;
  if (size_bytes <= outbox->capacity - used) {
    memmove(outbox->data, outbox->data + outbox->head, used);
  } else {
    size_t capacity = outbox->capacity ? outbox->capacity : FIRST_BYTES;
    while (capacity - used < size_bytes) capacity *= 2;
    uint8_t *data = pjrtc_heap_alloc(capacity);
    if (!data) return NULL;
    if (used) memcpy(data, outbox->data + outbox->head, used);
    free(outbox->data);
    outbox->data = data;
    outbox->capacity = capacity;
  }
  outbox->head = 0;
  outbox->tail = used;
  return outbox->data + used;
}

void pjrtc_outbox_commit(pjrtc_outbox *outbox, size_t size_bytes) {
  outbox->tail += size_bytes;
}

size_t pjrtc_outbox_queued_bytes(const pjrtc_outbox *outbox) {
  return outbox->tail - outbox->head;
}

/* ---- Sources ---- */

void pjrtc_outbox_add_source(pjrtc_client *client, pjrtc_future *call) {
  pjrtc_outbox *outbox = &client->outbox;
  call->source.listed = true;
  call->source.next = NULL;
  call->source.previous = outbox->last_source;
  if (outbox->last_source)
    outbox->last_source->source.next = call;
  else
    outbox->first_source = call;
  outbox->last_source = call;
}

static void unlist(pjrtc_outbox *outbox, pjrtc_future *call) {
  pjrtc_source *source = &call->source;
  if (!source->listed) return;
  source->listed = false;
  if (source->previous)
    source->previous->source.next = source->next;
  else
    outbox->first_source = source->next;
  if (source->next)
    source->next->source.previous = source->previous;
  else
    outbox->last_source = source->previous;
}

void pjrtc_outbox_remove_source(pjrtc_client *client, pjrtc_future *call) {
  pjrtc_client_wait_unpinned(client, call);
  unlist(&client->outbox, call);
  if (client->outbox.item_call == call) {
    client->outbox.item_call = NULL;
    client->outbox.item_data = NULL;
    client->outbox.item_gather = false;
  }
  free(call->source.walk);
  memset(&call->source, 0, sizeof call->source);
}

void pjrtc_outbox_add_credit(pjrtc_client *client, pjrtc_future *call, uint64_t size_bytes) {
  if (!call->source.left_bytes) return;
  if (__builtin_add_overflow(call->source.credit_bytes, size_bytes, &call->source.credit_bytes))
    call->source.credit_bytes = UINT64_MAX;
}

/* ---- Writing ---- */

static pjrtc_future *next_source(const pjrtc_outbox *outbox) {
  pjrtc_future *call = outbox->first_source;
  while (call && !call->source.credit_bytes) call = call->source.next;
  return call;
}

bool pjrtc_outbox_wants_write(const pjrtc_outbox *outbox) {
  return !outbox->broken && (outbox->head < outbox->tail || outbox->item_active || next_source(outbox));
}

static void begin_item(pjrtc_client *client, pjrtc_future *call) {
  pjrtc_outbox *outbox = &client->outbox;
  pjrtc_source *source = &call->source;
  uint64_t size_bytes = source->left_bytes;
  if (size_bytes > source->credit_bytes) size_bytes = source->credit_bytes;
  if (size_bytes > PJRTC_ITEM_BYTES) size_bytes = PJRTC_ITEM_BYTES;
  if (size_bytes > client->max_item_bytes) size_bytes = client->max_item_bytes;
  if (source->walk && !outbox->scratch && !(outbox->scratch = pjrtc_heap_alloc(PJRTC_ITEM_BYTES))) {
    pjrtc_client_lose(client, pjrtc_failure_oom());
    return;
  }
  pjrtd_frame_encode(
      &(pjrtd_frame_header){
          .bulk_bytes = (uint32_t)size_bytes, .method = call->method, .kind = PJRTD_FRAME_ITEM, .call = call->id},
      outbox->item_header);
  outbox->item_active = true;
  outbox->item_call = call;
  outbox->item_header_sent = 0;
  outbox->item_left_bytes = size_bytes;
  outbox->item_gather = source->walk != NULL;
  outbox->item_data = source->walk ? outbox->scratch : source->data;
  source->left_bytes -= size_bytes;
  source->credit_bytes -= size_bytes;
  if (!source->walk) source->data += size_bytes;
  /* To the end of the line, so that uploads share the connection. */
  unlist(outbox, call);
  if (source->left_bytes) pjrtc_outbox_add_source(client, call);
}

static void end_item(pjrtc_client *client) {
  pjrtc_outbox *outbox = &client->outbox;
  pjrtc_future *call = outbox->item_call;
  outbox->item_active = false;
  outbox->item_call = NULL;
  if (call && !call->source.left_bytes) pjrtc_driver_wake(client, call);
}

/* False where the link is full or gone. */
static bool written(pjrtc_outbox *outbox, ssize_t result, int error) {
  if (result >= 0) return true;
  if (error != EAGAIN) outbox->broken = true;
  return false;
}

/* Writes some of the current piece, without the lock. */
static bool write_item(pjrtc_client *client) {
  pjrtc_outbox *outbox = &client->outbox;
  struct iovec parts[2];
  size_t num_parts = 0, header_left = PJRTD_FRAME_HEADER_BYTES - outbox->item_header_sent;
  if (header_left) parts[num_parts++] = (struct iovec){outbox->item_header + outbox->item_header_sent, header_left};
  if (outbox->item_call)
    parts[num_parts++] = (struct iovec){(void *)outbox->item_data, outbox->item_left_bytes};
  else
    parts[num_parts++] =
        (struct iovec){(void *)zeros, outbox->item_left_bytes < sizeof zeros ? outbox->item_left_bytes : sizeof zeros};
  pjrtc_strided *walk = outbox->item_gather ? outbox->item_call->source.walk : NULL;
  outbox->item_gather = false;
  outbox->writing = true;
  pthread_mutex_unlock(&client->lock);
  if (walk) pjrtc_strided_read(walk, outbox->scratch, outbox->item_left_bytes);
  ssize_t result = client->link->ops->send(client->link, parts, num_parts);
  int error = errno;
  pthread_mutex_lock(&client->lock);
  outbox->writing = false;
  if (client->unpin_waiters) pthread_cond_broadcast(&client->unpinned);
  if (!written(outbox, result, error)) return false;
  size_t count = (size_t)result, of_header = count < header_left ? count : header_left;
  outbox->item_header_sent += of_header;
  count -= of_header;
  outbox->item_left_bytes -= count;
  if (outbox->item_call) outbox->item_data += count;
  if (!outbox->item_left_bytes) end_item(client);
  return true;
}

static bool write_frames(pjrtc_client *client) {
  pjrtc_outbox *outbox = &client->outbox;
  const struct iovec part = {outbox->data + outbox->head, outbox->tail - outbox->head};
  ssize_t result = client->link->ops->send(client->link, &part, 1);
  if (!written(outbox, result, errno)) return false;
  outbox->head += (size_t)result;
  return true;
}

void pjrtc_outbox_pump(pjrtc_client *client) {
  pjrtc_outbox *outbox = &client->outbox;
  bool going = true;
  while (going && !outbox->broken && !outbox->writing && !client->lost) {
    if (outbox->item_active) {
      going = write_item(client);
    } else if (outbox->head < outbox->tail) {
      going = write_frames(client);
    } else {
      pjrtc_future *call = next_source(outbox);
      if (!call) break;
      begin_item(client, call);
    }
  }
}
