/* grpc/frames_out.c and frames_in.c: bytes of frames become messages and the same bytes again, however they are cut. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "frames_in.h"
#include "frames_out.h"

enum { CAPACITY = 8 << 20 };

/* A stream of frames of all kinds and sizes, and how long it is. */
static size_t make_stream(uint8_t *out, size_t most_bytes) {
  static const uint32_t sizes[] = {0, 1, 5, 127, 128, 300, 65536, 20, 0, 1};
  size_t bytes = 0;
  uint64_t call = 1;
  for (size_t i = 0;; i++, call = call * 3 + 1) {
    bool item = i % 3 == 2;
    pjrtd_frame_header header = {.call = call,
                                 .method = (uint16_t)(i * 77),
                                 .kind = item ? PJRTD_FRAME_ITEM : PJRTD_FRAME_REQUEST,
                                 .quiet = !item && i % 2,
                                 .deadline_ns = item ? 0 : call / 2,
                                 .payload_bytes = item ? 0 : sizes[i % 10],
                                 .bulk_bytes = item ? 1 + sizes[(i + 3) % 10] * 4 : sizes[(i + 5) % 10]};
    size_t size = PJRTD_FRAME_HEADER_BYTES + header.payload_bytes + header.bulk_bytes;
    if (bytes + size > most_bytes) return bytes;
    pjrtd_frame_encode(&header, out + bytes);
    for (size_t at = PJRTD_FRAME_HEADER_BYTES; at < size; at++) out[bytes + at] = (uint8_t)(at * 31 + i);
    bytes += size;
  }
}

/* Reads a message in pieces of `step` bytes to `out`. */
static size_t read_message(const uint8_t *message, size_t message_bytes, uint8_t *out, size_t step) {
  pjrtc_frames_in in;
  pjrtc_frames_in_begin(&in, message, message_bytes);
  size_t total = 0, bytes;
  do {
    const struct iovec parts[2] = {{out + total, step / 2}, {out + total + step / 2, step - step / 2}};
    const char *fault;
    bytes = pjrtc_frames_in_read(&in, parts, 2, &fault);
    cr_assert_null(fault);
    total += bytes;
  } while (bytes == step);
  return total;
}

static size_t pass_on(pjrtc_frames_out *out, uint8_t *to, size_t step) {
  size_t bytes;
  uint8_t *message = pjrtc_frames_out_take(out, &bytes);
  cr_assert_not_null(message);
  cr_assert_leq(bytes, PJRTC_MESSAGE_BYTES_MAX, "no frame here is larger");
  size_t read = read_message(message, bytes, to, step);
  free(message);
  return read;
}

/* Writes `bytes` in pieces of `step`, a message where nothing more is taken, and reads it all again. */
static void there_and_back(const uint8_t *stream, size_t bytes, size_t step, uint8_t *result) {
  pjrtc_frames_out out = {0};
  size_t given = 0, got = 0;
  while (given < bytes) {
    size_t piece = bytes - given < step ? bytes - given : step;
    const struct iovec parts[2] = {{(void *)(stream + given), piece / 3},
                                   {(void *)(stream + given + piece / 3), piece - piece / 3}};
    ssize_t taken = pjrtc_frames_out_add(&out, parts, 2);
    cr_assert_geq(taken, 0);
    given += (size_t)taken;
    if ((size_t)taken < piece) {
      cr_assert(pjrtc_frames_out_ready(&out), "it is full of whole frames, or takes more");
      got += pass_on(&out, result + got, step);
    }
  }
  cr_assert(pjrtc_frames_out_ready(&out));
  got += pass_on(&out, result + got, step);
  cr_assert_eq(got, bytes);
  cr_assert_eq(memcmp(stream, result, bytes), 0);
}

Test(frames_out, bytes_are_the_same_after_a_way_as_messages, .timeout = 60) {
  uint8_t *stream = malloc(CAPACITY), *result = malloc(2 * CAPACITY);
  size_t bytes = make_stream(stream, CAPACITY);
  there_and_back(stream, bytes, CAPACITY, result);
  there_and_back(stream, bytes, 100003, result);
  bytes = make_stream(stream, 700000);
  for (size_t step = 2; step < 80; step++) there_and_back(stream, bytes, step, result);
  free(stream);
  free(result);
}

Test(frames_out, a_part_of_a_frame_is_no_message) {
  uint8_t stream[1000];
  size_t bytes = make_stream(stream, 500);
  pjrtc_frames_out out = {0};
  struct iovec part = {stream, PJRTD_FRAME_HEADER_BYTES - 1};
  cr_assert_eq(pjrtc_frames_out_add(&out, &part, 1), PJRTD_FRAME_HEADER_BYTES - 1);
  cr_assert_not(pjrtc_frames_out_ready(&out));
  part = (struct iovec){stream + part.iov_len, bytes - part.iov_len - 1};
  cr_assert_eq(pjrtc_frames_out_add(&out, &part, 1), (ssize_t)part.iov_len);
  cr_assert_not(pjrtc_frames_out_ready(&out));
  part = (struct iovec){stream + bytes - 1, 1};
  cr_assert_eq(pjrtc_frames_out_add(&out, &part, 1), 1);
  cr_assert(pjrtc_frames_out_ready(&out));
  free(out.data);
}

Test(frames_in, says_what_is_wrong_with_a_message) {
  uint8_t out[100];
  const struct iovec part = {out, sizeof out};
  const char *fault;
  pjrtc_frames_in in;
  pjrtc_frames_in_begin(&in, (const uint8_t *)"\xff\xff", 2);
  cr_assert_eq(pjrtc_frames_in_read(&in, &part, 1, &fault), 0);
  cr_assert_str_eq(fault, "the message is not a Frames");
  pjrtc_frames_in_begin(&in, (const uint8_t *)"\x0a\x04\x08\x01\x18\x09", 6);
  cr_assert_eq(pjrtc_frames_in_read(&in, &part, 1, &fault), 0);
  cr_assert_str_eq(fault, "the frame kind does not exist");
  pjrtc_frames_in_begin(&in, (const uint8_t *)"", 0);
  cr_assert_eq(pjrtc_frames_in_read(&in, &part, 1, &fault), 0);
  cr_assert_null(fault);
}
