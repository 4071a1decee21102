/* proto/grpc_wire.c, against bytes made by hand and by protobuf-c. */
#include <criterion/criterion.h>

#include "pjrtd/v1/buffer.pb-c.h"
#include "pjrtd/v1/frame.pb-c.h"
#include "proto/grpc_wire.h"

/* The message as grpc_wire writes it. */
static size_t write_frame(const pjrtd_frame_header *header, const void *payload, const void *bulk, uint8_t *out) {
  grpc_frame_shape shape = grpc_wire_frame_begin(header, out);
  memcpy(out + shape.payload_at, payload, header->payload_bytes);
  memcpy(out + shape.bulk_at, bulk, header->bulk_bytes);
  return shape.total_bytes;
}

Test(grpc_wire, writes_what_protobuf_reads) {
  uint8_t bytes[4096];
  const pjrtd_frame_header headers[] = {
      {.call = 1, .method = 0x0101, .kind = PJRTD_FRAME_REPLY, .payload_bytes = 5},
      {.call = UINT64_MAX - 1, .method = 0xffff, .kind = PJRTD_FRAME_ITEM, .bulk_bytes = 1000},
      {.call = 300,
       .method = 7,
       .kind = PJRTD_FRAME_REQUEST,
       .quiet = true,
       .deadline_ns = UINT64_MAX,
       .payload_bytes = 200,
       .bulk_bytes = 1},
      {.kind = PJRTD_FRAME_ERROR},
  };
  uint8_t data[1000];
  for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 7);
  for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
    const pjrtd_frame_header *header = &headers[i];
    size_t count = write_frame(header, data, data, bytes);
    cr_assert_leq(count, GRPC_FRAME_OVERHEAD_BYTES + header->payload_bytes + header->bulk_bytes);
    Pjrtd__V1__Frames *frames = pjrtd__v1__frames__unpack(NULL, count, bytes);
    cr_assert_not_null(frames);
    cr_assert_eq(frames->n_frames, 1);
    const Pjrtd__V1__Frame *frame = frames->frames[0];
    cr_assert_eq(frame->call, header->call);
    cr_assert_eq(frame->method, header->method);
    cr_assert_eq(frame->kind, header->kind);
    cr_assert_eq(frame->flags, header->quiet ? 1 : 0);
    cr_assert_eq(frame->deadline_ns, header->deadline_ns);
    cr_assert_eq(frame->payload.len, header->payload_bytes);
    if (header->payload_bytes) cr_assert_arr_eq(frame->payload.data, data, header->payload_bytes);
    cr_assert_eq(frame->bulk.len, header->bulk_bytes);
    if (header->bulk_bytes) cr_assert_arr_eq(frame->bulk.data, data, header->bulk_bytes);
    pjrtd__v1__frames__free_unpacked(frames, NULL);
  }
}

Test(grpc_wire, reads_what_protobuf_writes) {
  Pjrtd__V1__Frame one = PJRTD__V1__FRAME__INIT, two = PJRTD__V1__FRAME__INIT;
  one.call = 1;
  one.method = 0x0301;
  one.kind = PJRTD__V1__FRAME_KIND__FRAME_KIND_REQUEST;
  one.flags = 1;
  one.deadline_ns = 5;
  one.payload = (ProtobufCBinaryData){3, (uint8_t *)"abc"};
  one.bulk = (ProtobufCBinaryData){2, (uint8_t *)"xy"};
  two.call = 2;
  two.kind = PJRTD__V1__FRAME_KIND__FRAME_KIND_CANCEL;
  Pjrtd__V1__Frame *list[] = {&one, &two};
  Pjrtd__V1__Frames frames = PJRTD__V1__FRAMES__INIT;
  frames.n_frames = 2;
  frames.frames = list;
  uint8_t bytes[256];
  grpc_bytes message = {bytes, bytes + pjrtd__v1__frames__pack(&frames, bytes)};
  pjrtd_frame_header header;
  const uint8_t *payload, *bulk;
  bool any;
  cr_assert_null(grpc_wire_frame_next(&message, &any, &header, &payload, &bulk));
  cr_assert(any && header.quiet);
  cr_assert_eq(header.call, 1);
  cr_assert_eq(header.method, 0x0301);
  cr_assert_eq(header.deadline_ns, 5);
  cr_assert_eq(header.payload_bytes, 3);
  cr_assert_arr_eq(payload, "abc", 3);
  cr_assert_arr_eq(bulk, "xy", 2);
  cr_assert_null(grpc_wire_frame_next(&message, &any, &header, &payload, &bulk));
  cr_assert(any && header.kind == PJRTD_FRAME_CANCEL && header.call == 2);
  cr_assert_null(grpc_wire_frame_next(&message, &any, &header, &payload, &bulk));
  cr_assert_not(any);
}

static const char *fault_of(const char *bytes, size_t count) {
  grpc_bytes message = {(const uint8_t *)bytes, (const uint8_t *)bytes + count};
  pjrtd_frame_header header;
  const uint8_t *payload, *bulk;
  bool any;
  return grpc_wire_frame_next(&message, &any, &header, &payload, &bulk);
}

#define FAULT(bytes, text)                                             \
  do {                                                                 \
    const char *fault = fault_of(bytes, sizeof(bytes) - 1);            \
    cr_assert(fault &&strstr(fault, text), "%s", fault ? fault : "-"); \
  } while (0)

Test(grpc_wire, says_what_is_wrong_with_a_frame) {
  FAULT("\x08\x05\x0a", "not a Frames");
  FAULT("\x08\x05\x09", "not a Frames");
  FAULT("\x0a\x05\x08\x01", "not a Frames");
  FAULT("\x0a\x01\x08", "cannot be decoded");
  FAULT("\x0a\x0b\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "cannot be decoded");
  FAULT("\x0a\x02\x0a\x00", "wrong type");
  FAULT("\x0a\x02\x30\x01", "wrong type");
  FAULT("\x0a\x04\x10\x80\x80\x04", "65535");
  FAULT("\x0a\x04\x08\x01\x20\x02", "flags");
  FAULT("\x0a\x02\x18\x01", "call id is 0");
  FAULT("\x0a\x05\x08\x01\x18\x80\x02", "kind");
}

Test(grpc_wire, cuts_a_message_where_its_bulk_begins) {
  Pjrtd__V1__UploadRequest request = PJRTD__V1__UPLOAD_REQUEST__INIT;
  request.buffer = 77;
  request.data_bytes = 300;
  uint8_t bytes[1024];
  size_t own = pjrtd__v1__upload_request__pack(&request, bytes), payload_bytes, bulk_bytes;
  const uint8_t *bulk;
  cr_assert_null(grpc_wire_split_bulk(bytes, own, &payload_bytes, &bulk, &bulk_bytes));
  cr_assert_eq(payload_bytes, own);
  cr_assert_eq(bulk_bytes, 0);
  request.bulk = (ProtobufCBinaryData){300, bytes + 600};
  size_t all = pjrtd__v1__upload_request__pack(&request, bytes);
  cr_assert_null(grpc_wire_split_bulk(bytes, all, &payload_bytes, &bulk, &bulk_bytes));
  cr_assert_eq(payload_bytes, own);
  cr_assert_eq(bulk_bytes, 300);
  cr_assert_eq(bulk + 300, bytes + all);
  cr_assert_eq(grpc_wire_find_varint(bytes, payload_bytes, 3, 1), 300);
  cr_assert_eq(grpc_wire_find_varint(bytes, payload_bytes, 4, 1), 1);
  bytes[all] = 0x08; /* another field behind it */
  bytes[all + 1] = 1;
  cr_assert_not_null(grpc_wire_split_bulk(bytes, all + 2, &payload_bytes, &bulk, &bulk_bytes));
}

Test(grpc_wire, cuts_a_block_of_frames_into_messages) {
  uint8_t block[4096];
  size_t ends[4], at = 0;
  const uint32_t payloads[4] = {100, 300, 5, 1000};
  uint8_t data[1000] = {0};
  for (size_t i = 0; i < 4; i++) {
    const pjrtd_frame_header header = {
        .call = i + 1, .method = 1, .kind = PJRTD_FRAME_REPLY, .payload_bytes = payloads[i]};
    ends[i] = at += write_frame(&header, data, data, block + at);
  }
  cr_assert_eq(grpc_wire_frames_within(block, ends[3], ends[3]), ends[3]);
  cr_assert_eq(grpc_wire_frames_within(block, ends[3], ends[3] - 1), ends[2]);
  cr_assert_eq(grpc_wire_frames_within(block, ends[3], ends[2]), ends[2]);
  cr_assert_eq(grpc_wire_frames_within(block, ends[3], ends[2] - 1), ends[1]);
  cr_assert_eq(grpc_wire_frames_within(block, ends[3], ends[0]), ends[0]);
  cr_assert_eq(grpc_wire_frames_within(block, ends[3], 1), ends[0], "one frame is a message, whatever its size");
  cr_assert_eq(grpc_wire_frames_within(block, 0, 1), 0);
}
