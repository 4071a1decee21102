/* service/buffer_download.c. */
#include "peer_fixture.h"

TestSuite(buffer_download, .init = open_service, .fini = close_service, .timeout = 120);

static uint8_t data[2 << 20];

static uint64_t upload_s32(uint64_t bytes) {
  for (size_t i = 0; i < bytes / 4; i++) ((int32_t *)data)[i] = (int32_t)i * 7;
  uint64_t id = ++client->next_buffer;
  uint64_t call = post_upload((upload){id, PJRTD_DTYPE_S32, 1, {(int64_t)bytes / 4}, bytes}, (how){0});
  for (uint64_t sent = 0; sent < bytes; sent += 250000)
    cr_assert(send_item(call, data + sent, (uint32_t)(bytes - sent < 250000 ? bytes - sent : 250000), 1 << 20));
  succeed(call);
  return id;
}

static uint64_t inline_bytes(uint64_t call) {
  recorded *frame = answer(call);
  cr_assert_eq(frame->header.kind, PJRTD_FRAME_REPLY);
  Pjrtd__V1__DownloadReply *message =
      pjrtd__v1__download_reply__unpack(NULL, frame->header.payload_bytes, frame->payload);
  uint64_t bytes = message->data_bytes;
  cr_assert_eq(message->type->dtype, PJRTD__V1__DTYPE__DTYPE_S32);
  pjrtd__v1__download_reply__free_unpacked(message, NULL);
  cr_assert(frame->header.bulk_bytes == 0 || frame->header.bulk_bytes == bytes);
  if (frame->header.bulk_bytes) cr_assert_eq(memcmp(frame->bulk, data, bytes), 0);
  return bytes;
}

/* Moves the whole stream, as a transport would. */
static void drain_stream(void) {
  cr_assert_eq(client->num_streams, 1);
  pjrtd_stream *stream = client->streams[--client->num_streams];
  cr_assert_eq(memcmp(stream->data, data, stream->remaining_bytes), 0);
  stream->data += stream->remaining_bytes;
  stream->remaining_bytes = 0;
  stream->ended(stream);
}

Test(buffer_download, carries_small_data_in_the_reply_and_streams_big_data) {
  uint64_t id = upload_s32(65536);
  cr_assert_eq(inline_bytes(download(id)), 65536);
  cr_assert_eq(client->num_streams, 0);
  id = upload_s32(65540);
  uint64_t call = download(id);
  cr_assert_eq(inline_bytes(call), 65540);
  cr_assert_eq(client->num_streams, 1);
  cr_assert_eq(client->streams[0]->call, call);
  cr_assert_eq(client->streams[0]->remaining_bytes, 65540);
  cr_assert_eq(runtime->stats.calls_in_flight, 1, "it is under way until all is sent");
  drain_stream();
  cr_assert_eq(runtime->stats.calls_in_flight, 0);
}

Test(buffer_download, holds_the_buffer_while_its_data_is_on_the_way) {
  uint64_t id = upload_s32(1 << 20);
  download(id);
  succeed(delete_buffer(id));
  wait_until_idle();
  cr_assert_eq(runtime->stats.buffers, 1);
  drain_stream();
  wait_until_idle();
  cr_assert_eq(runtime->stats.buffers, 0);
}

Test(buffer_download, passes_credit_on_to_the_stream) {
  uint64_t call = download(upload_s32(1 << 20));
  pjrtd_stream *stream = client->streams[0];
  uint64_t window = stream->credit_bytes;
  cr_assert_eq(window, client->peer.download_credit_bytes);
  int kicks = client->kicks;
  grant_credit(call, 1000);
  cr_assert_eq(stream->credit_bytes, window + 1000);
  cr_assert_eq(client->kicks, kicks + 1);
  grant_credit(call, UINT64_MAX);
  cr_assert_eq(stream->credit_bytes, UINT64_MAX, "more than all there is is all there is");
  drain_stream();
  grant_credit(call, 5);
}

Test(buffer_download, keeps_credit_that_comes_before_the_data) {
  uint64_t id = ++client->next_buffer;
  uint64_t uploading = post_upload((upload){id, PJRTD_DTYPE_S32, 1, {100000}, 400000}, (how){0});
  uint64_t call = download(id);
  grant_credit(call, 5000);
  grant_credit(call, 7);
  cr_assert_eq(client->num_streams, 0);
  cr_assert(send_item(uploading, data, 200000, 200000));
  cr_assert(send_item(uploading, data + 200000, 200000, 200000));
  succeed(uploading);
  succeed(call);
  cr_assert_eq(client->num_streams, 1);
  cr_assert_eq(client->streams[0]->credit_bytes, client->peer.download_credit_bytes + 5007);
  drain_stream();
}

Test(buffer_download, knows_the_difference_between_gone_donated_and_poisoned) {
  fails(download(123), PJRTD_CODE_NOT_FOUND, "no buffer 123", 0);
  uint64_t program = make_program(ADD_TEXT(DONATED)), id = make_pair(1, 2), output = ++client->next_buffer;
  uint64_t run = execute((execution){program, 1, {id}, 1, {output}}, (how){0});
  succeed(run);
  fails(download(id), PJRTD_CODE_INVALID_ARGUMENT, "was donated", 0);
  check_pair(output, 2, 4);
  uint64_t poisoned = ++client->next_buffer;
  uint64_t failing = execute((execution){program, 1, {id}, 1, {poisoned}}, (how){0});
  fails(failing, PJRTD_CODE_INVALID_ARGUMENT, "was donated", failing);
  fails(download(poisoned), PJRTD_CODE_INVALID_ARGUMENT, "was donated", failing);
}

Test(buffer_download, reads_packed_types_one_element_a_byte) {
  static const int8_t values[] = {-8, -1, 0, 7, 3};
  uint64_t id = ++client->next_buffer;
  succeed(post_upload((upload){id, PJRTD_DTYPE_S4, 1, {5}, 5}, (how){.bulk = values, .bulk_bytes = 5}));
  recorded *frame = answer(download(id));
  cr_assert_eq(frame->header.bulk_bytes, 5);
  cr_assert_eq(memcmp(frame->bulk, values, 5), 0);
}

Test(buffer_download, of_no_elements_has_no_data) {
  uint64_t id = ++client->next_buffer;
  succeed(post_upload((upload){id, PJRTD_DTYPE_S32, 2, {0, 3}, 0}, (how){0}));
  cr_assert_eq(inline_bytes(download(id)), 0);
  cr_assert_eq(client->num_streams, 0);
}

Test(buffer_download, that_is_quiet_sends_nothing) {
  uint64_t id = upload_s32(1 << 20);
  Pjrtd__V1__DownloadRequest message = PJRTD__V1__DOWNLOAD_REQUEST__INIT;
  message.buffer = id;
  uint64_t call = request(PJRTD_METHOD_Buffer_Download, &message.base, (how){.quiet = true});
  is_silent(call);
  cr_assert_eq(client->num_streams, 0);
  cr_assert_eq(runtime->stats.calls_in_flight, 0);
}

Test(buffer_download, stops_its_stream_when_the_connection_goes) {
  download(upload_s32(1 << 20));
  cr_assert_eq(client->num_streams, 1);
  pjrtd_peer_gone(&client->peer);
  cr_assert_eq(client->num_streams, 0);
}
