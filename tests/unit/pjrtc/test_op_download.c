/* Downloads: into the caller's memory, allocated, too large, poisoned, in bad pieces. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "fake_peer.h"
#include "pjrtd/v1/buffer.pb-c.h"

static uint64_t upload(pjrtc_client *client, const void *data, int64_t size_bytes) {
  pjrtc_upload_options options = {.struct_size = sizeof options, .type = {PJRTC_U8, 1, &size_bytes}, .data = data};
  uint64_t buffer;
  cr_assert_eq(pjrtc_upload(client, &options, &buffer, NULL), PJRTC_OK);
  return buffer;
}

Test(op_download, goes_straight_to_the_callers_memory) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, peer_serve, NULL);
  uint8_t *data = malloc(1000000), *back = malloc(1000000);
  for (int i = 0; i < 1000000; i++) data[i] = (uint8_t)(i * 7 >> 3);
  uint64_t buffer = upload(client, data, 1000000);
  pjrtc_buffer_info info = {.struct_size = sizeof info};
  cr_assert_eq(pjrtc_stat(client, buffer, &info, NULL), PJRTC_OK);
  cr_assert_eq(info.host_bytes, 1000000);
  cr_assert_eq(info.rank, 1);
  cr_assert_eq(info.dims[0], 1000000);
  cr_assert_str_eq(info.memory_kind, "device");
  pjrtc_value value = {.data = back, .capacity_bytes = info.host_bytes};
  cr_assert_eq(pjrtc_download(client, buffer, &value, 0, NULL), PJRTC_OK);
  cr_assert_eq(value.data, back);
  cr_assert_eq(value.dtype, PJRTC_U8);
  cr_assert_eq(memcmp(back, data, 1000000), 0);
  free(data);
  free(back);
  pjrtc_close(client);
  fake_peer_join(&peer);
}

Test(op_download, into_too_little_memory_says_the_size_and_writes_nothing) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, peer_serve, NULL);
  static const int64_t sizes[] = {100, 400000};
  uint8_t *data = calloc(1, 400000), room[99];
  memset(data, 1, 400000);
  for (int i = 0; i < 2; i++) {
    memset(room, 0, sizeof room);
    uint64_t buffer = upload(client, data, sizes[i]);
    pjrtc_value value = {.data = room, .capacity_bytes = sizeof room};
    pjrtc_error error = PJRTC_ERROR_INIT;
    cr_assert_eq(pjrtc_download(client, buffer, &value, 0, &error), PJRTC_OUT_OF_RANGE, "%s", error.message);
    cr_assert_eq(value.size_bytes, (uint64_t)sizes[i]);
    cr_assert_eq(value.data, room);
    cr_assert_eq(room[0], 0);
    cr_assert_eq(pjrtc_sync(client, 0, &error), PJRTC_OK, "the connection goes on: %s", error.message);
  }
  free(data);
  pjrtc_close(client);
  fake_peer_join(&peer);
}

/* ---- Credit ---- */

typedef struct {
  uint64_t sent, granted, most_under_way;
} window_log;

/* Sends 3 MB, never beyond the window that the client gave. */
static void send_under_credit(fake_peer *peer) {
  window_log *log = peer->user;
  peer_hello(peer);
  pjrtd_frame_header request, credit;
  peer_expect(peer, PJRTD_FRAME_REQUEST, &request);
  int64_t dims[] = {3000000};
  Pjrtd__V1__TensorType type = PJRTD__V1__TENSOR_TYPE__INIT;
  type.dtype = PJRTD__V1__DTYPE__DTYPE_U8, type.n_dims = 1, type.dims = dims;
  Pjrtd__V1__DownloadReply reply = PJRTD__V1__DOWNLOAD_REPLY__INIT;
  reply.type = &type, reply.data_bytes = 3000000;
  peer_reply(peer, &request, &reply.base, NULL, 0);
  uint8_t *piece = malloc(1 << 20);
  uint64_t granted = peer->download_credit_bytes;
  while (log->sent < 3000000) {
    uint64_t size = granted - log->sent < 70001 ? granted - log->sent : 70001;
    if (size > 3000000 - log->sent) size = 3000000 - log->sent;
    if (size) {
      for (uint64_t i = 0; i < size; i++) piece[i] = (uint8_t)((log->sent + i) % 251);
      peer_send(peer, &request, PJRTD_FRAME_ITEM, NULL, 0, piece, size);
      log->sent += size;
      continue;
    }
    fake_frame frame;
    if (!peer_read(peer, &frame)) break;
    if (frame.header.kind == PJRTD_FRAME_CREDIT && frame.header.call == request.call) {
      /* Credit{bytes}: a tag and a varint. */
      uint64_t bytes = 0;
      for (uint32_t i = 1; i < frame.header.payload_bytes; i++)
        bytes |= (uint64_t)(frame.payload[i] & 0x7f) << 7 * (i - 1);
      granted += bytes;
      log->granted += bytes;
    }
    peer_frame_free(&frame);
  }
  free(piece);
  peer_expect(peer, PJRTD_FRAME_REQUEST, &credit);
}

Test(op_download, grants_as_it_consumes) {
  window_log log = {0};
  fake_peer peer;
  fake_peer_init(&peer, send_under_credit, &log);
  pjrtc_connect_options options = PJRTC_CONNECT_OPTIONS_INIT;
  options.download_window_bytes = 100000;
  pjrtc_client *client = fake_peer_connect_with(&peer, &options);
  pjrtc_value value = {0};
  cr_assert_eq(pjrtc_download(client, 1, &value, 0, NULL), PJRTC_OK);
  cr_assert_eq(value.size_bytes, 3000000);
  for (int i = 0; i < 3000000; i++) cr_assert_eq(((uint8_t *)value.data)[i], i % 251);
  pjrtc_free(value.data);
  pjrtc_close(client);
  fake_peer_join(&peer);
  cr_assert_leq(log.granted, 3000000);
  cr_assert_geq(log.granted, 2900000);
}

/* ---- What a server may do wrong ---- */

typedef struct {
  pjrtd_frame_kind kind; /* of what follows the reply */
  uint64_t announced, bulk, item;
  uint32_t dtype;
  bool item_before_reply;
} bad_download;

static void serve_badly(fake_peer *peer) {
  const bad_download *bad = peer->user;
  peer_hello(peer);
  pjrtd_frame_header request;
  peer_expect(peer, PJRTD_FRAME_REQUEST, &request);
  uint8_t *data = calloc(1, 1 << 20);
  int64_t dims[] = {(int64_t)bad->announced};
  Pjrtd__V1__TensorType type = PJRTD__V1__TENSOR_TYPE__INIT;
  type.dtype = (Pjrtd__V1__DType)bad->dtype, type.n_dims = 1, type.dims = dims;
  Pjrtd__V1__DownloadReply reply = PJRTD__V1__DOWNLOAD_REPLY__INIT;
  reply.type = &type, reply.data_bytes = bad->announced;
  if (bad->item_before_reply) peer_send(peer, &request, PJRTD_FRAME_ITEM, NULL, 0, data, 10);
  peer_reply(peer, &request, &reply.base, data, bad->bulk);
  if (bad->kind == PJRTD_FRAME_ITEM) peer_send(peer, &request, PJRTD_FRAME_ITEM, NULL, 0, data, bad->item);
  if (bad->kind == PJRTD_FRAME_ERROR) peer_error(peer, &request, 14, "poisoned on the way");
  if (bad->kind == PJRTD_FRAME_REPLY) peer_reply(peer, &request, &reply.base, NULL, 0);
  free(data);
  while (peer_expect(peer, PJRTD_FRAME_REQUEST, &request)) {
  }
}

static pjrtc_code download_from(bad_download bad, pjrtc_error *error) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, serve_badly, &bad);
  pjrtc_value value = {0};
  pjrtc_code code = pjrtc_download(client, 1, &value, 0, error);
  cr_assert_null(value.data, "what was allocated is taken back");
  pjrtc_close(client);
  fake_peer_join(&peer);
  return code;
}

Test(op_download, survives_a_server_that_contradicts_itself) {
  pjrtc_error error = PJRTC_ERROR_INIT;
  cr_assert_eq(download_from((bad_download){.announced = 100, .bulk = 99, .dtype = PJRTC_U8}, &error), PJRTC_INTERNAL);
  cr_assert_eq(download_from((bad_download){.announced = 100, .bulk = 0, .dtype = PJRTC_U8}, &error), PJRTC_INTERNAL);
  cr_assert_eq(download_from((bad_download){.announced = 100, .bulk = 100, .dtype = PJRTC_F32}, &error),
               PJRTC_INTERNAL);
  cr_assert_eq(download_from((bad_download){.announced = 100, .bulk = 100, .dtype = 99}, &error), PJRTC_INTERNAL);
  cr_assert_eq(
      download_from((bad_download){.announced = 100000, .dtype = PJRTC_U8, .kind = PJRTD_FRAME_ITEM, .item = 100001},
                    &error),
      PJRTC_INTERNAL);
  cr_assert_not_null(strstr(error.message, "more data came than was announced"), "%s", error.message);
  cr_assert_eq(download_from((bad_download){.announced = 100000, .dtype = PJRTC_U8, .kind = PJRTD_FRAME_REPLY}, &error),
               PJRTC_INTERNAL);
  cr_assert_eq(download_from((bad_download){.announced = 100000, .dtype = PJRTC_U8, .item_before_reply = true}, &error),
               PJRTC_INTERNAL);
  cr_assert_not_null(strstr(error.message, "expects none"), "%s", error.message);
}

Test(op_download, of_more_than_there_is_memory_is_resource_exhausted) {
  pjrtc_error error = PJRTC_ERROR_INIT;
  bad_download bad = {.announced = 1ull << 60, .dtype = PJRTC_U8, .kind = PJRTD_FRAME_ERROR};
  cr_assert_eq(download_from(bad, &error), PJRTC_RESOURCE_EXHAUSTED);
}

Test(op_download, fails_with_the_error_that_comes_in_place_of_data) {
  pjrtc_error error = PJRTC_ERROR_INIT;
  bad_download bad = {.announced = 100000, .dtype = PJRTC_U8, .kind = PJRTD_FRAME_ERROR};
  cr_assert_eq(download_from(bad, &error), PJRTC_UNAVAILABLE);
  cr_assert_str_eq(error.message, "poisoned on the way");
}

static void send_poison(fake_peer *peer) {
  peer_hello(peer);
  pjrtd_frame_header request;
  peer_expect(peer, PJRTD_FRAME_REQUEST, &request);
  Pjrtd__V1__ArgumentDetail argument = PJRTD__V1__ARGUMENT_DETAIL__INIT;
  argument.index = 1, argument.expected = "f32[4]", argument.actual = "s32[4]";
  Pjrtd__V1__Attribute used = PJRTD__V1__ATTRIBUTE__INIT, peak = PJRTD__V1__ATTRIBUTE__INIT;
  used.name = "bytes_in_use", used.value_case = PJRTD__V1__ATTRIBUTE__VALUE_INTEGER, used.integer = 10;
  peak.name = "peak", peak.value_case = PJRTD__V1__ATTRIBUTE__VALUE_REAL, peak.real = 1.5;
  Pjrtd__V1__Attribute *allocator[] = {&used, &peak};
  Pjrtd__V1__Error error = PJRTD__V1__ERROR__INIT;
  error.code = 3, error.message = "argument 1 is s32[4]", error.hint = "convert it", error.argument = &argument;
  error.origin_call = 5, error.retry_after_ns = 77, error.n_allocator = 2, error.allocator = allocator;
  uint8_t payload[512];
  peer_send(peer, &request, PJRTD_FRAME_ERROR, payload, pjrtd__v1__error__pack(&error, payload), NULL, 0);
  peer_expect(peer, PJRTD_FRAME_REQUEST, &request);
}

Test(op_download, of_a_poisoned_buffer_tells_everything_about_the_first_error) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, send_poison, NULL);
  pjrtc_value value = {0};
  pjrtc_error error = PJRTC_ERROR_INIT;
  cr_assert_eq(pjrtc_download(client, 1, &value, 0, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert_str_eq(error.message, "argument 1 is s32[4]");
  cr_assert_str_eq(error.hint, "convert it");
  cr_assert_eq(error.has_argument, 1);
  cr_assert_eq(error.argument_index, 1);
  cr_assert_str_eq(error.argument_expected, "f32[4]");
  cr_assert_str_eq(error.argument_actual, "s32[4]");
  cr_assert_eq(error.origin_call, 5);
  cr_assert_eq(error.retry_after_ns, 77);
  cr_assert_str_eq(error.allocator, "bytes_in_use=10 peak=1.5");
  cr_assert_eq(error.call, 2);
  pjrtc_close(client);
  fake_peer_join(&peer);
}
