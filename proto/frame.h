/* The 32-byte frame header of the local socket (proto/README.md), for the daemon and the C client. No I/O, any thread.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PJRTD_PROTOCOL_MIN 1
#define PJRTD_PROTOCOL_MAX 1

#define PJRTD_FRAME_HEADER_BYTES 32
#define PJRTD_FRAME_MAX_PAYLOAD_BYTES (1u << 20)
#define PJRTD_FRAME_MAX_INLINE_BYTES (64u << 10)
#define PJRTD_FRAME_MAX_ITEM_BYTES (1u << 20)
#define PJRTD_FRAME_MAX_DESCRIPTORS 15

typedef enum {
  PJRTD_FRAME_REQUEST = 1,
  PJRTD_FRAME_REPLY = 2,
  PJRTD_FRAME_ERROR = 3,
  PJRTD_FRAME_ITEM = 4,
  PJRTD_FRAME_END = 5,
  PJRTD_FRAME_CANCEL = 6,
  PJRTD_FRAME_CREDIT = 7,
  PJRTD_FRAME_NOTICE = 8,
} pjrtd_frame_kind;

enum { PJRTD_FRAME_QUIET = 1 };

typedef struct {
  uint32_t payload_bytes;
  uint32_t bulk_bytes;
  uint16_t method;
  uint8_t kind;
  bool quiet;
  uint8_t num_descriptors;
  uint64_t call;
  uint64_t deadline_ns;
} pjrtd_frame_header;

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the frame codec is written for little-endian hosts"
#endif

static inline void pjrtd_frame_encode(const pjrtd_frame_header *header, uint8_t out[PJRTD_FRAME_HEADER_BYTES]) {
  uint8_t flags = (uint8_t)((header->quiet ? PJRTD_FRAME_QUIET : 0) | header->num_descriptors << 4);
  memcpy(out, "PJRT", 4);
  memcpy(out + 4, &header->payload_bytes, 4);
  memcpy(out + 8, &header->bulk_bytes, 4);
  memcpy(out + 12, &header->method, 2);
  out[14] = header->kind;
  out[15] = flags;
  memcpy(out + 16, &header->call, 8);
  memcpy(out + 24, &header->deadline_ns, 8);
}

/* NULL for a header that keeps the rules, else what is wrong with it (static). `out_header` is filled as far as the
 * bytes go, so that an error can name the call; but not where the magic is wrong, when it is all zeros. */
static inline const char *pjrtd_frame_decode(const uint8_t in[PJRTD_FRAME_HEADER_BYTES],
                                             pjrtd_frame_header *out_header) {
  memset(out_header, 0, sizeof *out_header);
  if (memcmp(in, "PJRT", 4) != 0) return "the frame does not begin with the magic \"PJRT\"";
  memcpy(&out_header->payload_bytes, in + 4, 4);
  memcpy(&out_header->bulk_bytes, in + 8, 4);
  memcpy(&out_header->method, in + 12, 2);
  out_header->kind = in[14];
  out_header->quiet = in[15] & PJRTD_FRAME_QUIET;
  out_header->num_descriptors = in[15] >> 4;
  memcpy(&out_header->call, in + 16, 8);
  memcpy(&out_header->deadline_ns, in + 24, 8);
  if (out_header->payload_bytes > PJRTD_FRAME_MAX_PAYLOAD_BYTES) return "payload_bytes is over 1 MiB";
  if (in[15] & 0x0e) return "unknown flags are set";
  if (out_header->call == 0 && out_header->kind != PJRTD_FRAME_ERROR && out_header->kind != PJRTD_FRAME_NOTICE)
    return "the call id is 0";
  switch (out_header->kind) {
    case PJRTD_FRAME_REQUEST:
    case PJRTD_FRAME_REPLY:
      if (out_header->bulk_bytes > PJRTD_FRAME_MAX_INLINE_BYTES)
        return "bulk_bytes of a request or reply is over 64 KiB";
      break;
    case PJRTD_FRAME_ITEM:
      if (out_header->bulk_bytes > PJRTD_FRAME_MAX_ITEM_BYTES) return "bulk_bytes of an item is over 1 MiB";
      if (out_header->bulk_bytes == 0 && out_header->payload_bytes == 0) return "an item is empty";
      break;
    case PJRTD_FRAME_ERROR:
    case PJRTD_FRAME_END:
    case PJRTD_FRAME_CANCEL:
    case PJRTD_FRAME_CREDIT:
    case PJRTD_FRAME_NOTICE:
      if (out_header->bulk_bytes) return "bulk_bytes is not 0 in a frame that carries none";
      break;
    default: return "the frame kind does not exist";
  }
  if (out_header->kind != PJRTD_FRAME_REQUEST && (out_header->quiet || out_header->deadline_ns))
    return "quiet and deadline_ns belong to requests only";
  return NULL;
}
