/* proto/frame.h: any 32 bytes either are refused with a reason, or decode to a header that keeps the stated limits and
 * encodes to the same bytes. */
#include <stdint.h>
#include <stdlib.h>

#include "proto/frame.h"

static void require(bool claim) {
  if (!claim) abort();
}

static void check(const uint8_t *bytes) {
  pjrtd_frame_header header;
  const char *fault = pjrtd_frame_decode(bytes, &header);
  if (fault) {
    require(fault[0] != 0);
    return;
  }
  require(header.payload_bytes <= PJRTD_FRAME_MAX_PAYLOAD_BYTES);
  require(header.bulk_bytes <= PJRTD_FRAME_MAX_ITEM_BYTES);
  require(header.bulk_bytes <= PJRTD_FRAME_MAX_INLINE_BYTES || header.kind == PJRTD_FRAME_ITEM);
  require(header.kind >= PJRTD_FRAME_REQUEST && header.kind <= PJRTD_FRAME_NOTICE);
  require(header.num_descriptors <= PJRTD_FRAME_MAX_DESCRIPTORS);
  require(header.call || header.kind == PJRTD_FRAME_ERROR || header.kind == PJRTD_FRAME_NOTICE);
  require(!header.deadline_ns || header.kind == PJRTD_FRAME_REQUEST);
  uint8_t again[PJRTD_FRAME_HEADER_BYTES];
  pjrtd_frame_encode(&header, again);
  require(memcmp(again, bytes, sizeof again) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
  for (; size_bytes >= PJRTD_FRAME_HEADER_BYTES; data++, size_bytes--) check(data);
  return 0;
}
