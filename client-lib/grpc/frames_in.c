/* See frames_in.h. */
#include "frames_in.h"

#include <string.h>

void pjrtc_frames_in_begin(pjrtc_frames_in *in, const uint8_t *message, size_t bytes) {
  memset(in, 0, sizeof *in);
  in->message = (grpc_bytes){message, message + bytes};
}

/* False where there is no other frame. */
static bool next_frame(pjrtc_frames_in *in, const char **out_fault) {
  pjrtd_frame_header header;
  const uint8_t *payload, *bulk;
  bool any = false;
  *out_fault = grpc_wire_frame_next(&in->message, &any, &header, &payload, &bulk);
  if (*out_fault || !any) return false;
  pjrtd_frame_encode(&header, in->header);
  in->pieces[0] = (grpc_bytes){in->header, in->header + sizeof in->header};
  in->pieces[1] = (grpc_bytes){payload, payload + header.payload_bytes};
  in->pieces[2] = (grpc_bytes){bulk, bulk + header.bulk_bytes};
  return true;
}

static grpc_bytes *current_piece(pjrtc_frames_in *in, const char **out_fault) {
  do {
    for (size_t i = 0; i < sizeof in->pieces / sizeof *in->pieces; i++)
      if (in->pieces[i].at < in->pieces[i].end) return &in->pieces[i];
  } while (next_frame(in, out_fault));
  return NULL;
}

size_t pjrtc_frames_in_read(pjrtc_frames_in *in, const struct iovec *parts, size_t num_parts, const char **out_fault) {
  *out_fault = NULL;
  size_t total = 0;
  for (size_t i = 0; i < num_parts; i++) {
    uint8_t *to = parts[i].iov_base;
    for (size_t room = parts[i].iov_len; room;) {
      grpc_bytes *piece = current_piece(in, out_fault);
      if (!piece) return total;
      size_t bytes = (size_t)(piece->end - piece->at);
      if (bytes > room) bytes = room;
      memcpy(to, piece->at, bytes);
      piece->at += bytes;
      to += bytes;
      room -= bytes;
      total += bytes;
    }
  }
  return total;
}
