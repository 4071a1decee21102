/* See frames_out.h. */
#include "frames_out.h"

#include <stdlib.h>
#include <string.h>

#include "proto/grpc_wire.h"

enum { FIRST_BYTES = 1024 };

static bool reserve(pjrtc_frames_out *out, size_t bytes) {
  if (out->capacity - out->bytes >= bytes) return true;
  size_t capacity = out->capacity ? out->capacity : FIRST_BYTES;
  while (capacity - out->bytes < bytes) capacity *= 2;
  uint8_t *data = realloc(out->data, capacity);
  if (!data) return false;
  out->data = data;
  out->capacity = capacity;
  return true;
}

typedef enum { BEGUN, NO_ROOM, NO_MEMORY } outcome;

/* Its header is whole. */
static outcome begin_frame(pjrtc_frames_out *out) {
  pjrtd_frame_header header;
  pjrtd_frame_decode(out->header, &header); /* of our own making */
  size_t most = GRPC_FRAME_OVERHEAD_BYTES + (size_t)header.payload_bytes + header.bulk_bytes;
  if (out->bytes && out->bytes + most > PJRTC_MESSAGE_BYTES_MAX) return NO_ROOM;
  if (!reserve(out, most)) return NO_MEMORY;
  grpc_frame_shape shape = grpc_wire_frame_begin(&header, out->data + out->bytes);
  out->payload_at = out->bytes + shape.payload_at;
  out->payload_left = header.payload_bytes;
  out->bulk_at = out->bytes + shape.bulk_at;
  out->bulk_left = header.bulk_bytes;
  out->frame_end = out->bytes + shape.total_bytes;
  out->in_frame = true;
  return BEGUN;
}

static size_t copy(uint8_t *to, size_t *at, size_t *left, const uint8_t *from, size_t bytes) {
  if (bytes > *left) bytes = *left;
  memcpy(to + *at, from, bytes);
  *at += bytes;
  *left -= bytes;
  return bytes;
}

/* Takes some of the bytes. */
static outcome take_some(pjrtc_frames_out *out, const uint8_t *from, size_t bytes, size_t *out_taken) {
  *out_taken = 0;
  if (!out->in_frame) {
    /* A header that found no room stays what it was: its last byte is taken when it does. */
    size_t header_left = sizeof out->header - out->header_bytes;
    size_t taken = bytes < header_left ? bytes : header_left;
    memcpy(out->header + out->header_bytes, from, taken);
    if (taken == header_left) {
      outcome begun = begin_frame(out);
      if (begun != BEGUN) return begun;
      out->header_bytes = 0;
    } else {
      out->header_bytes += taken;
    }
    *out_taken = taken;
  } else if (out->payload_left) {
    *out_taken = copy(out->data, &out->payload_at, &out->payload_left, from, bytes);
  } else {
    *out_taken = copy(out->data, &out->bulk_at, &out->bulk_left, from, bytes);
  }
  if (out->in_frame && !out->payload_left && !out->bulk_left) {
    out->bytes = out->frame_end;
    out->in_frame = false;
  }
  return BEGUN;
}

ssize_t pjrtc_frames_out_add(pjrtc_frames_out *out, const struct iovec *parts, size_t num_parts) {
  size_t total = 0;
  for (size_t i = 0; i < num_parts; i++) {
    const uint8_t *from = parts[i].iov_base;
    for (size_t left = parts[i].iov_len; left;) {
      size_t taken;
      outcome result = take_some(out, from, left, &taken);
      if (result == NO_MEMORY && !total) return -1;
      if (result != BEGUN) return (ssize_t)total;
      from += taken;
      left -= taken;
      total += taken;
    }
  }
  return (ssize_t)total;
}

bool pjrtc_frames_out_ready(const pjrtc_frames_out *out) {
  return out->bytes && !out->in_frame;
}

uint8_t *pjrtc_frames_out_take(pjrtc_frames_out *out, size_t *out_bytes) {
  uint8_t *data = out->data;
  *out_bytes = out->bytes;
  out->data = NULL;
  out->bytes = out->capacity = 0;
  return data;
}
