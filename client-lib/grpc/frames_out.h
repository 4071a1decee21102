/* Frames on their way out: bytes as the local socket would carry them become messages of `Channel`. No I/O. The caller
 * locks. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "proto/frame.h"

/* No frame is begun in a message that would become larger than this by it. */
#define PJRTC_MESSAGE_BYTES_MAX (1u << 20)

typedef struct {
  uint8_t *data; /* owned: the message */
  size_t bytes, capacity;
  /* The frame that is not whole yet. */
  uint8_t header[PJRTD_FRAME_HEADER_BYTES];
  size_t header_bytes;
  size_t payload_at, payload_left; /* where in `data` its next byte goes, and how many come */
  size_t bulk_at, bulk_left;
  size_t frame_end;
  bool in_frame;
} pjrtc_frames_out;

/* Takes bytes of frames as far as there is room in the message: how many, or -1 where memory is out. */
ssize_t pjrtc_frames_out_add(pjrtc_frames_out *out, const struct iovec *parts, size_t num_parts);
/* Whether there is a message, with nothing but whole frames in it. */
bool pjrtc_frames_out_ready(const pjrtc_frames_out *out);
/* Gives it away, to be freed with free(3). */
uint8_t *pjrtc_frames_out_take(pjrtc_frames_out *out, size_t *out_bytes);
