/* service/buffer_upload.c. */
#include "peer_fixture.h"

TestSuite(buffer_upload, .init = open_service, .fini = close_service, .timeout = 120);

static uint8_t data[8 << 20];

static void fill(void) {
  for (size_t i = 0; i < sizeof data / 4; i++) ((float *)data)[i] = (float)(i % 1000003);
}

/* Uploads `bytes` of data as f32 in items of that size; the buffer's id. */
static uint64_t upload_items(uint64_t bytes, uint32_t item_bytes) {
  uint64_t id = ++client->next_buffer, call = begin_upload(id, (int64_t)bytes / 4, (how){0});
  for (uint64_t sent = 0; sent < bytes; sent += item_bytes)
    cr_assert(send_item(call, data + sent, (uint32_t)(bytes - sent < item_bytes ? bytes - sent : item_bytes), 3001));
  succeed(call);
  return id;
}

/* What the device buffer of the id holds. */
static void check_data(uint64_t id, uint64_t bytes) {
  uint8_t *read = malloc(bytes);
  pjrtd_buffer *buffer = pjrtd_session_find_buffer(client->peer.session, id);
  cr_assert_not_null(buffer);
  ASSERT_OK(pjrtd_device_buffer_read(buffer->device_buffer, read, bytes));
  cr_assert_eq(memcmp(read, data, bytes), 0);
  free(read);
}

Test(buffer_upload, takes_data_inside_the_request_and_in_items_of_any_size) {
  fill();
  uint64_t id = ++client->next_buffer;
  succeed(post_upload((upload){id, PJRTD_DTYPE_F32, 1, {16384}, 65536}, (how){.bulk = data, .bulk_bytes = 65536}));
  check_data(id, 65536);
  check_data(upload_items(400, 7), 400);
  check_data(upload_items(100000, 100000), 100000);
  check_data(upload_items(1 << 20, 65537), 1 << 20);
  check_data(upload_items(8 << 20, 200000), 8 << 20);
}

Test(buffer_upload, counts_adopted_pages_once) {
  fill();
  uint64_t id = upload_items(8 << 20, 250000);
  cr_assert_eq(runtime->stats.buffer_bytes, 8 << 20);
  cr_assert_eq(runtime->stats.staging_bytes, 0);
  succeed(delete_buffer(id));
  wait_until_idle();
  cr_assert_eq(runtime->stats.buffer_bytes, 0);
}

Test(buffer_upload, takes_scalars_and_tensors_of_no_elements) {
  static const upload cases[] = {
      {0, PJRTD_DTYPE_F32, 0, {0}, 4},  {0, PJRTD_DTYPE_F32, 1, {0}, 0}, {0, PJRTD_DTYPE_F64, 3, {5, 0, 7}, 0},
      {0, PJRTD_DTYPE_PRED, 1, {3}, 3}, {0, PJRTD_DTYPE_S4, 1, {3}, 3},  {0, PJRTD_DTYPE_C128, 2, {1, 2}, 32},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    upload what = cases[i];
    what.buffer = ++client->next_buffer;
    succeed(post_upload(what, (how){.bulk = data, .bulk_bytes = (uint32_t)what.data_bytes}));
    succeed(stat_buffer(what.buffer));
  }
}

/* A refusal poisons the id with the same words. */
static void refuses(upload what, how how, const char *piece) {
  what.buffer = ++client->next_buffer;
  uint64_t call = post_upload(what, how);
  fails(call, PJRTD_CODE_INVALID_ARGUMENT, piece, call);
  fails(download(what.buffer), PJRTD_CODE_INVALID_ARGUMENT, piece, call);
}

Test(buffer_upload, refuses_what_does_not_fit_together) {
  refuses((upload){0, PJRTD_DTYPE_F32, 1, {2}, 9}, (how){0}, "f32[2] takes 8 bytes on the host, data_bytes is 9");
  refuses((upload){0, PJRTD_DTYPE_F32, 1, {2}, 8}, (how){.bulk = data, .bulk_bytes = 7}, "7 bytes came");
  refuses((upload){0, PJRTD_DTYPE_F32, 1, {-1}, 8}, (how){0}, "");
  refuses((upload){0, PJRTD_DTYPE_INVALID, 1, {2}, 8}, (how){0}, "");
  refuses((upload){0, (pjrtd_dtype)99, 1, {2}, 8}, (how){0}, "");
  refuses((upload){0, (pjrtd_dtype)-1, 1, {2}, 8}, (how){0}, "");
  refuses((upload){0, PJRTD_DTYPE_F32, 2, {INT64_MAX, INT64_MAX}, 8}, (how){0}, "");
  refuses((upload){0, PJRTD_DTYPE_F32, 2, {INT64_MAX, 0}, 8}, (how){0}, "");
}

Test(buffer_upload, refuses_a_request_without_type_or_for_no_place) {
  Pjrtd__V1__UploadRequest message = PJRTD__V1__UPLOAD_REQUEST__INIT;
  message.buffer = ++client->next_buffer;
  fails(request(PJRTD_METHOD_Buffer_Upload, &message.base, (how){0}), PJRTD_CODE_INVALID_ARGUMENT, "no type", 0);
  Pjrtd__V1__TensorType type = PJRTD__V1__TENSOR_TYPE__INIT;
  type.dtype = PJRTD__V1__DTYPE__DTYPE_F32;
  message.type = &type;
  message.data_bytes = 4;
  message.buffer = ++client->next_buffer;
  message.placement_case = PJRTD__V1__UPLOAD_REQUEST__PLACEMENT_DEVICE;
  message.device = 77;
  fails(request(PJRTD_METHOD_Buffer_Upload, &message.base, (how){.bulk = data, .bulk_bytes = 4}),
        PJRTD_CODE_INVALID_ARGUMENT, "no device 77", 0);
  message.buffer = ++client->next_buffer;
  message.placement_case = PJRTD__V1__UPLOAD_REQUEST__PLACEMENT_MEMORY;
  message.memory = -5;
  fails(request(PJRTD_METHOD_Buffer_Upload, &message.base, (how){.bulk = data, .bulk_bytes = 4}),
        PJRTD_CODE_INVALID_ARGUMENT, "no memory space -5", 0);
  cr_assert_eq(runtime->stats.buffers, 0);
}

Test(buffer_upload, puts_the_buffer_where_the_client_wants_it) {
  const pjrtd_client_info *info = pjrtd_client_get_info(runtime->client);
  Pjrtd__V1__TensorType type = PJRTD__V1__TENSOR_TYPE__INIT;
  type.dtype = PJRTD__V1__DTYPE__DTYPE_F32;
  Pjrtd__V1__UploadRequest message = PJRTD__V1__UPLOAD_REQUEST__INIT;
  message.type = &type;
  message.data_bytes = 4;
  for (size_t i = 0; i < info->num_devices; i++) {
    message.buffer = ++client->next_buffer;
    message.placement_case = PJRTD__V1__UPLOAD_REQUEST__PLACEMENT_DEVICE;
    message.device = info->devices[i].id;
    succeed(request(PJRTD_METHOD_Buffer_Upload, &message.base, (how){.bulk = data, .bulk_bytes = 4}));
    Pjrtd__V1__StatReply *stat = reply(stat_buffer(message.buffer), &pjrtd__v1__stat_reply__descriptor);
    cr_assert_eq(stat->device, info->devices[i].id);
    free_reply(stat);
  }
  for (size_t i = 0; i < info->num_memories; i++) {
    message.buffer = ++client->next_buffer;
    message.placement_case = PJRTD__V1__UPLOAD_REQUEST__PLACEMENT_MEMORY;
    message.memory = info->memories[i].id;
    succeed(request(PJRTD_METHOD_Buffer_Upload, &message.base, (how){.bulk = data, .bulk_bytes = 4}));
    Pjrtd__V1__StatReply *stat = reply(stat_buffer(message.buffer), &pjrtd__v1__stat_reply__descriptor);
    cr_assert_eq(stat->memory, info->memories[i].id);
    free_reply(stat);
  }
}

Test(buffer_upload, refuses_ids_by_the_rules_and_leaves_the_others_alone) {
  uint64_t id = make_pair(1, 2);
  fails(begin_upload(id, 2, (how){0}), PJRTD_CODE_INVALID_ARGUMENT, "is not above", 0);
  check_pair(id, 1, 2);
  fails(begin_upload(0, 2, (how){0}), PJRTD_CODE_INVALID_ARGUMENT, "must not be 0", 0);
  fails(begin_upload(UINT64_C(1) << 48, 2, (how){0}), PJRTD_CODE_INVALID_ARGUMENT, "prefix", 0);
}

Test(buffer_upload, refuses_what_memory_has_no_room_for) {
  runtime->memory_limit_bytes = 1 << 20;
  uint64_t id = ++client->next_buffer, call = begin_upload(id, 1 << 20, (how){0});
  fails(call, PJRTD_CODE_RESOURCE_EXHAUSTED, "f32[1048576] needs 4194304 bytes", call);
  fails(download(id), PJRTD_CODE_RESOURCE_EXHAUSTED, "", call);
  uint64_t fits = begin_upload(++client->next_buffer, 200000, (how){0});
  fails(begin_upload(++client->next_buffer, 200000, (how){0}), PJRTD_CODE_RESOURCE_EXHAUSTED, "", 0);
  cancel(fits);
  wait_until_idle();
  fits = begin_upload(++client->next_buffer, 200000, (how){0});
  is_silent(fits);
}

Test(buffer_upload, can_be_used_before_its_data_has_come) {
  fill();
  uint64_t id = ++client->next_buffer, call = begin_upload(id, 25000, (how){0});
  uint64_t reading = stat_buffer(id);
  is_silent(reading);
  succeed(delete_buffer(id));
  fails(stat_buffer(id), PJRTD_CODE_NOT_FOUND, "", 0);
  cr_assert(send_item(call, data, 100000, 100000));
  succeed(call);
  succeed(reading);
  wait_until_idle();
  cr_assert_eq(runtime->stats.buffers, 0, "its name went before it was there");
}
