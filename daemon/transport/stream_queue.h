/* The streams of one connection that wait to send, in the order in which they take turns. Loop thread. */
#pragma once

#include "service/peer.h"

typedef struct {
  pjrtd_stream *first, *last;
} pjrtd_stream_queue;

/* At the end. */
static inline void pjrtd_stream_queue_add(pjrtd_stream_queue *queue, pjrtd_stream *stream) {
  stream->next = NULL;
  if (queue->last)
    queue->last->next = stream;
  else
    queue->first = stream;
  queue->last = stream;
}

static inline void pjrtd_stream_queue_remove(pjrtd_stream_queue *queue, pjrtd_stream *stream) {
  pjrtd_stream *before = NULL;
  for (pjrtd_stream *at = queue->first; at; before = at, at = at->next) {
    if (at != stream) continue;
    if (before)
      before->next = at->next;
    else
      queue->first = at->next;
    if (queue->last == at) queue->last = before;
    return;
  }
}

/* The first that may send; NULL: none may. */
static inline pjrtd_stream *pjrtd_stream_queue_sendable(const pjrtd_stream_queue *queue) {
  pjrtd_stream *stream = queue->first;
  while (stream && !(stream->credit_bytes && stream->remaining_bytes)) stream = stream->next;
  return stream;
}
