/* Uploads: inside the request, in pieces under credit, strided, cut short. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "fake_peer.h"
#include "pjrtd/v1/buffer.pb-c.h"

static uint8_t *pattern(size_t size_bytes) {
  uint8_t *data = malloc(size_bytes);
  for (size_t i = 0; i < size_bytes; i++) data[i] = (uint8_t)(i * 2654435761u >> 13);
  return data;
}

static void expect_download(pjrtc_client *client, uint64_t buffer, const void *expected, size_t size_bytes) {
  pjrtc_value value = {0};
  pjrtc_error error = PJRTC_ERROR_INIT;
  cr_assert_eq(pjrtc_download(client, buffer, &value, 0, &error), PJRTC_OK, "%s", error.message);
  cr_assert_eq(value.size_bytes, size_bytes);
  cr_assert_eq(memcmp(value.data ? value.data : "", expected, size_bytes), 0);
  pjrtc_free(value.data);
}

Test(op_upload, carries_every_size_across_the_inline_limit) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, peer_serve, NULL);
  static const int64_t sizes[] = {0, 1, 65535, 65536, 65537, 262144, 262145, 5000000};
  uint8_t *data = pattern(5000000);
  uint64_t last = 0;
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    pjrtc_upload_options options = {.struct_size = sizeof options, .type = {PJRTC_U8, 1, &sizes[i]}, .data = data};
    pjrtc_error error = PJRTC_ERROR_INIT;
    uint64_t buffer;
    cr_assert_eq(pjrtc_upload(client, &options, &buffer, &error), PJRTC_OK, "%s", error.message);
    cr_assert_gt(buffer, last);
    cr_assert_eq(buffer >> 48, 3, "the prefix that the server gave");
    last = buffer;
    expect_download(client, buffer, data, (size_t)sizes[i]);
  }
  free(data);
  pjrtc_close(client);
  fake_peer_join(&peer);
}

Test(op_upload, makes_strided_data_dense_small_and_large) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, peer_serve, NULL);
  for (int64_t side = 3; side <= 700; side += 697) {
    uint32_t *data = malloc((size_t)(side * side) * 4), *expected = malloc((size_t)(side * side) * 4);
    for (int64_t i = 0; i < side * side; i++) data[i] = (uint32_t)i;
    for (int64_t r = 0; r < side; r++)
      for (int64_t c = 0; c < side; c++) expected[r * side + c] = data[c * side + (side - 1 - r)];
    int64_t dims[] = {side, side}, strides[] = {-4, side * 4};
    pjrtc_upload_options options = {
        .struct_size = sizeof options, .type = {PJRTC_U32, 2, dims}, .data = data + side - 1, .byte_strides = strides};
    uint64_t buffer;
    cr_assert_eq(pjrtc_upload(client, &options, &buffer, NULL), PJRTC_OK);
    expect_download(client, buffer, expected, (size_t)(side * side) * 4);
    free(data);
    free(expected);
  }
  pjrtc_close(client);
  fake_peer_join(&peer);
}

/* ---- Credit ---- */

typedef struct {
  uint64_t received_before_credit;
  uint64_t most_under_way;
} credit_log;

/* Lets 100000 bytes be under way, and grants as little as 10000 at a time. */
static void grant_little(fake_peer *peer) {
  credit_log *log = peer->user;
  peer_hello(peer);
  pjrtd_frame_header upload, item;
  peer_expect(peer, PJRTD_FRAME_REQUEST, &upload);
  uint64_t received = 0, granted = 0;
  while (received < 1000000) {
    if (!peer_expect(peer, PJRTD_FRAME_ITEM, &item)) return;
    received += item.bulk_bytes;
    if (received - granted > log->most_under_way) log->most_under_way = received - granted;
    if (!granted && received < 100000) continue;
    if (!granted) log->received_before_credit = received;
    while (granted + 10000 <= received) {
      peer_credit(peer, &upload, 10000);
      granted += 10000;
    }
  }
  peer_reply(peer, &upload, NULL, NULL, 0);
  peer_expect(peer, PJRTD_FRAME_REQUEST, &item);
}

Test(op_upload, never_sends_more_than_it_was_granted) {
  credit_log log = {0};
  fake_peer peer;
  fake_peer_init(&peer, grant_little, &log);
  peer.upload_credit_bytes = 100000;
  pjrtc_client *client = fake_peer_connect_with(&peer, NULL);
  uint8_t *data = pattern(1000000);
  int64_t dims[] = {1000000};
  pjrtc_upload_options options = {.struct_size = sizeof options, .type = {PJRTC_U8, 1, dims}, .data = data};
  uint64_t buffer;
  cr_assert_eq(pjrtc_upload(client, &options, &buffer, NULL), PJRTC_OK);
  pjrtc_close(client);
  fake_peer_join(&peer);
  free(data);
  cr_assert_eq(log.received_before_credit, 100000);
  cr_assert_leq(log.most_under_way, 100000);
}

/* ---- Failures ---- */

/* Takes the first piece and fails the upload; then goes on serving nothing but that the client may go. */
static void fail_early(fake_peer *peer) {
  uint64_t *deleted = peer->user;
  peer_hello(peer);
  pjrtd_frame_header upload, item;
  peer_expect(peer, PJRTD_FRAME_REQUEST, &upload);
  peer_expect(peer, PJRTD_FRAME_ITEM, &item);
  peer_error(peer, &upload, 8, "no memory");
  fake_frame frame;
  while (peer_read(peer, &frame)) {
    if (frame.header.method == PJRTC_METHOD_buffer_delete) {
      Pjrtd__V1__DeleteRequest *request =
          pjrtd__v1__delete_request__unpack(NULL, frame.header.payload_bytes, frame.payload);
      *deleted = request->buffers[0];
      pjrtd__v1__delete_request__free_unpacked(request, NULL);
      peer_reply(peer, &frame.header, NULL, NULL, 0);
    } else if (frame.header.method == PJRTC_METHOD_session_sync) {
      peer_reply(peer, &frame.header, NULL, NULL, 0);
    }
    peer_frame_free(&frame);
  }
}

Test(op_upload, that_fails_half_way_ends_cleanly_and_deletes_its_id) {
  uint64_t deleted = 0;
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, fail_early, &deleted);
  uint8_t *data = pattern(3000000);
  int64_t dims[] = {3000000};
  pjrtc_upload_options options = {.struct_size = sizeof options, .type = {PJRTC_U8, 1, dims}, .data = data};
  pjrtc_error error = PJRTC_ERROR_INIT;
  uint64_t buffer = 5;
  cr_assert_eq(pjrtc_upload(client, &options, &buffer, &error), PJRTC_RESOURCE_EXHAUSTED);
  cr_assert_str_eq(error.message, "no memory");
  cr_assert_eq(buffer, 0);
  free(data); /* nothing reads it any more, also where a piece was half written */
  cr_assert_eq(pjrtc_sync(client, 0, &error), PJRTC_OK, "%s", error.message);
  pjrtc_close(client);
  fake_peer_join(&peer);
  cr_assert_eq(deleted, (3ull << 48) + 1);
}

/* Reads the request and nothing else until told to; then counts what the stream is made of. */
typedef struct {
  int cancels;
  uint64_t item_bytes;
} stream_log;

static void answer_cancels(fake_peer *peer) {
  stream_log *log = peer->user;
  peer_hello(peer);
  fake_frame frame;
  while (peer_read(peer, &frame)) {
    if (frame.header.kind == PJRTD_FRAME_CANCEL) {
      log->cancels++;
      peer_error(peer, &frame.header, 1, "cancelled");
    }
    if (frame.header.kind == PJRTD_FRAME_ITEM) log->item_bytes += frame.header.bulk_bytes;
    if (frame.header.method == PJRTC_METHOD_session_sync) peer_reply(peer, &frame.header, NULL, NULL, 0);
    peer_frame_free(&frame);
  }
}

Test(op_upload, destroyed_half_way_frees_the_callers_memory_and_keeps_the_stream_whole) {
  stream_log log = {0};
  fake_peer peer;
  fake_peer_init(&peer, answer_cancels, &log);
  peer.upload_credit_bytes = 2 << 20; /* however fast it reads, it does not get all */
  pjrtc_client *client = fake_peer_connect_with(&peer, NULL);
  uint8_t *data = pattern(3500000);
  int64_t dims[] = {3500000};
  pjrtc_upload_options options = {.struct_size = sizeof options, .type = {PJRTC_U8, 1, dims}, .data = data};
  uint64_t buffer;
  pjrtc_future *future;
  cr_assert_eq(pjrtc_upload_start(client, &options, &buffer, &future, NULL), PJRTC_OK);
  pjrtc_future_destroy(future);
  free(data);
  pjrtc_error error = PJRTC_ERROR_INIT;
  cr_assert_eq(pjrtc_sync(client, 0, &error), PJRTC_OK, "%s", error.message);
  pjrtc_close(client);
  fake_peer_join(&peer);
  cr_assert_eq(log.cancels, 1);
  cr_assert_lt(log.item_bytes, 3500000);
}

Test(op_upload, quiet_has_read_the_data_when_it_returns) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, peer_serve, NULL);
  uint8_t *expected = pattern(6000000), *data = pattern(6000000);
  int64_t dims[] = {6000000};
  pjrtc_upload_options options = {.struct_size = sizeof options, .type = {PJRTC_U8, 1, dims}, .data = data};
  uint64_t buffer;
  cr_assert_eq(pjrtc_upload_start(client, &options, &buffer, NULL, NULL), PJRTC_OK);
  memset(data, 0, 6000000);
  expect_download(client, buffer, expected, 6000000);
  cr_assert_eq(pjrtc_sync(client, 0, NULL), PJRTC_OK);
  free(data);
  free(expected);
  pjrtc_close(client);
  fake_peer_join(&peer);
}

Test(op_upload, two_at_once_share_the_connection) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, peer_serve, NULL);
  uint8_t *data = pattern(2000000);
  int64_t dims[] = {2000000};
  pjrtc_upload_options options = {.struct_size = sizeof options, .type = {PJRTC_U8, 1, dims}, .data = data};
  uint64_t buffers[2];
  pjrtc_future *futures[2];
  for (int i = 0; i < 2; i++)
    cr_assert_eq(pjrtc_upload_start(client, &options, &buffers[i], &futures[i], NULL), PJRTC_OK);
  for (int i = 1; i >= 0; i--) {
    cr_assert_eq(pjrtc_future_wait(futures[i], PJRTC_FOREVER, NULL), PJRTC_OK);
    pjrtc_future_destroy(futures[i]);
    expect_download(client, buffers[i], data, 2000000);
  }
  free(data);
  pjrtc_close(client);
  fake_peer_join(&peer);
}

Test(op_upload, refuses_what_cannot_be_sent) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, peer_serve, NULL);
  pjrtc_error error = PJRTC_ERROR_INIT;
  uint64_t buffer;
  int64_t dims[] = {4};
  pjrtc_upload_options options = {.struct_size = sizeof options, .type = {PJRTC_F32, 1, dims}};
  cr_assert_eq(pjrtc_upload(client, &options, &buffer, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert_str_eq(error.message, "there is no data to upload");
  options.data = dims;
  options.placement = (pjrtc_placement)7;
  cr_assert_eq(pjrtc_upload(client, &options, &buffer, &error), PJRTC_INVALID_ARGUMENT);
  options.struct_size = 0;
  cr_assert_eq(pjrtc_upload(client, &options, &buffer, &error), PJRTC_INVALID_ARGUMENT);
  pjrtc_close(client);
  fake_peer_join(&peer);
}
