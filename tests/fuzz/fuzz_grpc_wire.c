/* proto/grpc_wire.c: any bytes as a message of `Channel` give frames that keep the rules and lie inside the
 * message, or a reason; a frame that was read is written again and reads the same. Any bytes are cut in two where their
 * bulk begins. */
#include <stdint.h>
#include <stdlib.h>

#include "proto/grpc_wire.h"

static void require(bool claim) {
  if (!claim) abort();
}

static bool inside(const uint8_t *part, size_t bytes, const uint8_t *data, size_t size_bytes) {
  return !bytes || (part >= data && bytes <= size_bytes && part + bytes <= data + size_bytes);
}

static void check_again(const pjrtd_frame_header *header, const uint8_t *payload, const uint8_t *bulk) {
  size_t most = GRPC_FRAME_OVERHEAD_BYTES + (size_t)header->payload_bytes + header->bulk_bytes;
  uint8_t *out = malloc(most);
  require(out != NULL);
  grpc_frame_shape shape = grpc_wire_frame_begin(header, out);
  require(shape.total_bytes <= most && shape.bulk_at + header->bulk_bytes == shape.total_bytes);
  if (header->payload_bytes) memcpy(out + shape.payload_at, payload, header->payload_bytes);
  if (header->bulk_bytes) memcpy(out + shape.bulk_at, bulk, header->bulk_bytes);
  grpc_bytes message = {out, out + shape.total_bytes};
  pjrtd_frame_header again;
  const uint8_t *payload_again, *bulk_again;
  bool any;
  require(!grpc_wire_frame_next(&message, &any, &again, &payload_again, &bulk_again) && any);
  require(message.at == message.end);
  require(again.call == header->call && again.method == header->method && again.kind == header->kind &&
          again.quiet == header->quiet && again.deadline_ns == header->deadline_ns &&
          again.payload_bytes == header->payload_bytes && again.bulk_bytes == header->bulk_bytes);
  require(!header->payload_bytes || memcmp(payload, payload_again, header->payload_bytes) == 0);
  require(!header->bulk_bytes || memcmp(bulk, bulk_again, header->bulk_bytes) == 0);
  free(out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
  grpc_bytes message = {data, data + size_bytes};
  for (;;) {
    pjrtd_frame_header header;
    const uint8_t *payload, *bulk;
    bool any;
    const char *fault = grpc_wire_frame_next(&message, &any, &header, &payload, &bulk);
    if (fault) require(fault[0] != 0);
    if (fault || !any) break;
    require(header.kind >= PJRTD_FRAME_REQUEST && header.kind <= PJRTD_FRAME_NOTICE);
    require(header.payload_bytes <= PJRTD_FRAME_MAX_PAYLOAD_BYTES && header.bulk_bytes <= PJRTD_FRAME_MAX_ITEM_BYTES);
    require(inside(payload, header.payload_bytes, data, size_bytes));
    require(inside(bulk, header.bulk_bytes, data, size_bytes));
    check_again(&header, payload, bulk);
  }
  size_t payload_bytes, bulk_bytes;
  const uint8_t *bulk;
  if (!grpc_wire_split_bulk(data, size_bytes, &payload_bytes, &bulk, &bulk_bytes)) {
    require(payload_bytes <= size_bytes && inside(bulk, bulk_bytes, data, size_bytes));
    require(!bulk || bulk + bulk_bytes == data + size_bytes);
  }
  grpc_wire_find_varint(data, size_bytes, 3, 0);
  return 0;
}
