/* Bytes of protobuf that both ends of gRPC read and write themselves: the frames inside a message of `Channel`, and the
 * bulk that a unary message carries as its last field. The payloads inside are for others to decode. No I/O, no
 * allocation, any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/frame.h"

/* The number of the field `bulk`, in Frame and in every message that carries tensor data: its last. */
#define GRPC_BULK_FIELD 15
/* The most that a frame in a message of `Channel` takes beside its payload and its bulk. */
#define GRPC_FRAME_OVERHEAD_BYTES 64

/* What `grpc_wire_frame_begin` writes before the payload, at most GRPC_FRAME_OVERHEAD_BYTES, and where things go. */
typedef struct {
  size_t total_bytes;
  size_t payload_at, bulk_at; /* from the beginning; bulk_at is the end where there is none */
} grpc_frame_shape;

/* One entry of Frames.frames with all but payload and bulk written, for which it leaves room. `out` has room for
 * GRPC_FRAME_OVERHEAD_BYTES and both. */
grpc_frame_shape grpc_wire_frame_begin(const pjrtd_frame_header *header, uint8_t *out);

/* Bytes that are being read. */
typedef struct {
  const uint8_t *at, *end;
} grpc_bytes;

/* The next frame of a message Frames: NULL and true; NULL and false in `*out_any` at the end; else what is wrong
 * (static). The header keeps the rules of proto/frame.h; payload and bulk are borrowed. Where something is wrong, the
 * header is filled as far as it was read. */
const char *grpc_wire_frame_next(grpc_bytes *message, bool *out_any, pjrtd_frame_header *out_header,
                                 const uint8_t **out_payload, const uint8_t **out_bulk);

/* The longest beginning of `message`, made by grpc_wire_frame_begin, that ends with a frame and has at most
 * `most_bytes`; one frame where that has more. */
size_t grpc_wire_frames_within(const uint8_t *message, size_t bytes, size_t most_bytes);

/* A unary message, cut in two: what comes before the field `bulk`, and that. NULL, or what is wrong with it (static).
 */
const char *grpc_wire_split_bulk(const uint8_t *message, size_t bytes, size_t *out_payload_bytes,
                                 const uint8_t **out_bulk, size_t *out_bulk_bytes);
/* The tag and the length of the field `bulk`; how many bytes, at most 11. */
size_t grpc_wire_bulk_tag(size_t bulk_bytes, uint8_t *out);

/* The next length-delimited field of a message; false at its end, or where it is broken. Other fields are passed over.
 */
bool grpc_wire_next_bytes(grpc_bytes *message, uint32_t *out_field, grpc_bytes *out_value);
/* The value of a top-level varint field; `absent` where the message has none (or is broken: its decoder will say so).
 */
uint64_t grpc_wire_find_varint(const uint8_t *message, size_t bytes, uint32_t field, uint64_t absent);
