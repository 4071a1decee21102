/* Frames that came: a message of `Channel` becomes bytes as the local socket would carry them. No I/O. One thread at a
 * time. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "proto/frame.h"
#include "proto/grpc_wire.h"

typedef struct {
  grpc_bytes message; /* borrowed: what of it is still to be read */
  uint8_t header[PJRTD_FRAME_HEADER_BYTES];
  grpc_bytes pieces[3]; /* of the frame that is being read: header, payload, bulk */
} pjrtc_frames_in;

/* The message is borrowed until it was read whole, when all of `in` is empty. */
void pjrtc_frames_in_begin(pjrtc_frames_in *in, const uint8_t *message, size_t bytes);
/* Fills the parts as far as the message goes: how many bytes; 0 at its end. Where the message is broken `*out_fault` is
 * what is wrong with it (static), and nothing more can be read. */
size_t pjrtc_frames_in_read(pjrtc_frames_in *in, const struct iovec *parts, size_t num_parts, const char **out_fault);
