/* plugin/host_transfer.c, plugin/device_buffer.c: data in and out, without a program. */
#include <stdatomic.h>

#include "base/tensor_type.h"
#include "plugin_fixture.h"

TestSuite(host_transfer, .init = open_client, .fini = close_client);

static bool has_dtype(pjrtd_dtype dtype) {
  pjrtd_status *status = pjrtd_client_check_dtype(client, dtype);
  pjrtd_status_destroy(status);
  return status == NULL;
}

Test(host_transfer, brings_every_element_type_back_bit_for_bit) {
  int tried = 0;
  for (int dtype = PJRTD_DTYPE_PRED; dtype < PJRTD_DTYPE_COUNT; dtype++) {
    if (dtype == PJRTD_DTYPE_TOKEN || !has_dtype(dtype)) continue;
    int64_t dims[] = {3, 5};
    pjrtd_tensor_type type = {dtype, 2, dims};
    uint64_t bytes;
    ASSERT_OK(pjrtd_tensor_type_check(&type, &bytes));
    uint8_t in[15 * 16], out[15 * 16], wanted[15 * 16];
    uint32_t bits = pjrtd_dtype_bits(dtype);
    for (size_t i = 0; i < bytes; i++) {
      in[i] = (uint8_t)(37 * i + 0x81);
      if (dtype == PJRTD_DTYPE_PRED) in[i] &= 1;
      if (bits < 8) in[i] &= (uint8_t)((1u << bits) - 1);
    }
    memcpy(wanted, in, bytes);
    if (pjrtd_dtype_is_signed_subbyte(dtype)) pjrtd_sign_extend_subbyte(dtype, wanted, bytes);
    pjrtd_device_buffer *buffer = upload(type, in);
    memset(out, 0xee, sizeof out);
    read_all(buffer, out, bytes);
    cr_assert_arr_eq(out, wanted, bytes, "%s", pjrtd_dtype_name(dtype));
    cr_assert(pjrtd_tensor_type_equal(pjrtd_device_buffer_type(buffer), &type));
    uint64_t packed = (15 * bits + 7) / 8;
    uint64_t device_bytes = pjrtd_device_buffer_device_bytes(buffer);
    cr_assert(device_bytes == packed || device_bytes == bytes, "%s takes %lu bytes", pjrtd_dtype_name(dtype),
              (unsigned long)device_bytes);
    pjrtd_device_buffer_destroy(buffer);
    tried++;
  }
  cr_assert_geq(tried, 28);
}

Test(host_transfer, sign_extends_signed_types_under_8_bits) {
  int8_t in[4] = {-8, -1, 7, 0}, out[4] = {0};
  pjrtd_device_buffer *buffer = upload(TYPE(S4, 4), in);
  read_all(buffer, out, 4);
  cr_assert_arr_eq(out, in, 4);
  pjrtd_device_buffer_destroy(buffer);
  uint8_t unsigned_in[4] = {8, 15, 7, 0}, unsigned_out[4];
  buffer = upload(TYPE(U4, 4), unsigned_in);
  read_all(buffer, unsigned_out, 4);
  cr_assert_arr_eq(unsigned_out, unsigned_in, 4);
  pjrtd_device_buffer_destroy(buffer);
}

/* Case 23: no hop may go through a number. */
Test(host_transfer, keeps_nan_payloads_and_infinities) {
  uint32_t in[7] = {0x7fc00123, 0xffc0ffee, 0x7f800000, 0xff800000, 0x80000000, 1, 0x7f800001}, out[7];
  pjrtd_device_buffer *buffer = upload(TYPE(F32, 7), in);
  read_all(buffer, out, sizeof out);
  cr_assert_arr_eq(out, in, sizeof in);
  pjrtd_device_buffer_destroy(buffer);
}

Test(host_transfer, takes_scalars_and_empty_tensors) {
  float in = 2.5f, out = 0;
  pjrtd_device_buffer *buffer = upload(SCALAR(F32), &in);
  read_all(buffer, &out, 4);
  cr_assert_eq(out, 2.5f);
  cr_assert_eq(pjrtd_device_buffer_type(buffer)->rank, 0);
  pjrtd_device_buffer_destroy(buffer);
  buffer = upload(TYPE(F32, 2, 0, 3), NULL);
  read_all(buffer, NULL, 0);
  cr_assert_not_null(pjrtd_device_buffer_view(buffer));
  cr_assert_eq(pjrtd_device_buffer_device_bytes(buffer), 0);
  pjrtd_device_buffer_destroy(buffer);
}

Test(host_transfer, copies_before_it_returns) {
  float in[4] = {1, 2, 3, 4}, out[4];
  pjrtd_device_buffer *buffer = upload(TYPE(F32, 4), in);
  memset(in, 0, sizeof in);
  read_all(buffer, out, sizeof out);
  cr_assert_arr_eq(out, ((float[]){1, 2, 3, 4}), 16);
  pjrtd_device_buffer_destroy(buffer);
}

Test(host_transfer, is_ready_at_once_on_a_synchronous_client) {
  pjrtd_device_buffer *buffer = upload(TYPE(S32, 2), ((int32_t[]){5, 6}));
  cr_assert(pjrtd_device_buffer_is_ready(buffer));
  ASSERT_OK(pjrtd_device_buffer_await(buffer));
  cr_assert_not(pjrtd_device_buffer_is_deleted(buffer));
  pjrtd_device_buffer_destroy(buffer);
}

Test(host_transfer, shows_the_data_in_place_only_where_it_is_in_host_form) {
  pjrtd_device_buffer *buffer = upload(TYPE(S32, 2), ((int32_t[]){5, 6}));
  const int32_t *view = pjrtd_device_buffer_view(buffer);
  cr_assert_eq(view[0], 5);
  cr_assert_eq(view[1], 6);
  pjrtd_device_buffer_destroy(buffer);
  buffer = upload(TYPE(S4, 2), ((int8_t[]){-1, 6}));
  cr_assert_null(pjrtd_device_buffer_view(buffer));
  pjrtd_device_buffer_destroy(buffer);
}

Test(host_transfer, refuses_a_read_of_another_size) {
  pjrtd_device_buffer *buffer = upload(TYPE(F32, 4), ((float[]){1, 2, 3, 4}));
  char out[32];
  ASSERT_FAILS(pjrtd_device_buffer_read(buffer, out, 12), PJRTD_CODE_INVALID_ARGUMENT, "f32[4] has 16 bytes, not 12");
  ASSERT_FAILS(pjrtd_device_buffer_read(buffer, out, 20), PJRTD_CODE_INVALID_ARGUMENT, "has 16 bytes, not 20");
  pjrtd_device_buffer_destroy(buffer);
}

Test(host_transfer, goes_to_the_device_and_memory_that_is_named) {
  const pjrtd_device *second = device_at(1);
  for (size_t i = 0; i < second->num_memories; i++) {
    pjrtd_device_buffer *buffer;
    pjrtd_tensor_type type = TYPE(F32, 2);
    float out[2];
    ASSERT_OK(pjrtd_device_buffer_from_host(client, ((float[]){1, 2}), &type, NULL, second->memories[i], &buffer));
    cr_assert_eq(pjrtd_device_buffer_device(buffer), second);
    cr_assert_eq(pjrtd_device_buffer_memory(buffer), second->memories[i]);
    read_all(buffer, out, 8);
    cr_assert_eq(out[1], 2);
    pjrtd_device_buffer_destroy(buffer);
  }
  pjrtd_device_buffer *buffer = upload_on(second, TYPE(F32, 2), ((float[]){1, 2}));
  cr_assert_eq(pjrtd_device_buffer_memory(buffer), second->default_memory);
  pjrtd_device_buffer_destroy(buffer);
}

Test(host_transfer, refuses_a_memory_that_the_device_does_not_reach) {
  pjrtd_device_buffer *buffer;
  pjrtd_tensor_type type = TYPE(F32, 2);
  ASSERT_FAILS(pjrtd_device_buffer_from_host(client, ((float[]){1, 2}), &type, device_at(0),
                                             device_at(1)->default_memory, &buffer),
               PJRTD_CODE_INVALID_ARGUMENT, "does not reach memory space");
  ASSERT_FAILS(pjrtd_device_buffer_from_host(client, ((float[]){1, 2}), &type, NULL, NULL, &buffer),
               PJRTD_CODE_INVALID_ARGUMENT, "needs a device");
}

/* Each of these ends the process where it reaches the plugin. */
Test(host_transfer, keeps_types_from_the_plugin_that_it_would_abort_on) {
  static const int wrong[] = {PJRTD_DTYPE_INVALID, PJRTD_DTYPE_TOKEN, PJRTD_DTYPE_COUNT, 200, -1};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    pjrtd_device_buffer *buffer;
    int64_t dims[] = {2};
    pjrtd_tensor_type type = {wrong[i], 1, dims};
    char data[32];
    ASSERT_FAILS(pjrtd_device_buffer_from_host(client, data, &type, device_at(0), NULL, &buffer),
                 PJRTD_CODE_INVALID_ARGUMENT, "element type");
    ASSERT_FAILS(pjrtd_device_buffer_adopt_host(client, data, &type, device_at(0), NULL, NULL, NULL, &buffer),
                 PJRTD_CODE_INVALID_ARGUMENT, "element type");
    cr_assert_null(buffer);
  }
}

Test(host_transfer, passes_on_that_memory_is_exhausted) {
  pjrtd_device_buffer *buffer;
  pjrtd_tensor_type type = TYPE(S8, 1ll << 42);
  /* The plugin allocates before it reads, so this does not touch what lies behind `one`. */
  char one = 1;
  ASSERT_FAILS(pjrtd_device_buffer_from_host(client, &one, &type, device_at(0), NULL, &buffer),
               PJRTD_CODE_RESOURCE_EXHAUSTED, "");
}

/* ---- adopting ---- */

static atomic_int releases;
static void count_release(void *user, pjrtd_status *error) {
  pjrtd_status_destroy(error);
  *(int *)user += 1;
  releases++;
}

static pjrtd_device_buffer *adopt(float *data, pjrtd_tensor_type type, int *released) {
  pjrtd_device_buffer *buffer;
  ASSERT_OK(pjrtd_device_buffer_adopt_host(client, data, &type, device_at(0), NULL, count_release, released, &buffer));
  return buffer;
}

Test(host_transfer, adopts_aligned_pages_until_the_buffer_goes) {
  float *data = aligned_alloc(64, 64);
  memcpy(data, ((float[]){1, 2, 3, 4}), 16);
  int released = 0;
  pjrtd_device_buffer *buffer = adopt(data, TYPE(F32, 4), &released);
  cr_assert_eq(pjrtd_device_buffer_view(buffer), data);
  cr_assert_eq(released, 0);
  pjrtd_device_buffer_destroy(buffer);
  cr_assert_eq(released, 1);
  free(data);
}

Test(host_transfer, copies_what_it_cannot_adopt_and_releases_at_once) {
  float *data = aligned_alloc(64, 128);
  memset(data, 0, 128);
  data[1] = 7;
  int released = 0;
  pjrtd_device_buffer *buffer = adopt(data + 1, TYPE(F32, 4), &released); /* not aligned */
  cr_assert_eq(released, 1);
  data[1] = 0;
  float out[4];
  read_all(buffer, out, 16);
  cr_assert_eq(out[0], 7);
  pjrtd_device_buffer_destroy(buffer);

  int8_t *nibbles = (int8_t *)data; /* packed on the device */
  memcpy(nibbles, ((int8_t[]){-3, 2}), 2);
  buffer = adopt(data, TYPE(S4, 2), &released);
  cr_assert_eq(released, 2);
  int8_t read[2];
  read_all(buffer, read, 2);
  cr_assert_arr_eq(read, ((int8_t[]){-3, 2}), 2);
  pjrtd_device_buffer_destroy(buffer);

  buffer = adopt(NULL, TYPE(F32, 0), &released);
  pjrtd_device_buffer_destroy(buffer);
  cr_assert_eq(released, 3);
  free(data);
}

static const char donate_first[] =
    "module @m { func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<4xf32>) -> "
    "tensor<4xf32> { %0 = stablehlo.add %a, %b : tensor<4xf32> return %0 : tensor<4xf32> } }";

Test(host_transfer, donates_adopted_pages_without_a_copy_and_releases_them_with_the_output) {
  float *data = aligned_alloc(64, 64);
  memcpy(data, ((float[]){1, 2, 3, 4}), 16);
  int released = 0;
  pjrtd_device_buffer *args[2] = {adopt(data, TYPE(F32, 4), &released),
                                  upload(TYPE(F32, 4), (float[4]){10, 20, 30, 40})};
  pjrtd_executable *executable = compile(donate_first);
  pjrtd_device_buffer *output;
  ASSERT_OK(run(executable, args, 2, &output));
  cr_assert(pjrtd_device_buffer_is_deleted(args[0]));
  cr_assert_eq(pjrtd_device_buffer_view(output), data);
  pjrtd_device_buffer_destroy(args[0]);
  cr_assert_eq(released, 0);
  cr_assert_eq(data[3], 44);
  pjrtd_device_buffer_destroy(output);
  cr_assert_eq(released, 1);
  pjrtd_device_buffer_destroy(args[1]);
  pjrtd_executable_destroy(executable);
  free(data);
}

Test(host_transfer, never_writes_to_pages_adopted_as_readonly) {
  float *data = aligned_alloc(64, 64);
  memcpy(data, ((float[]){1, 2, 3, 4}), 16);
  int released = 0;
  pjrtd_tensor_type type = TYPE(F32, 4);
  pjrtd_device_buffer *args[2], *output;
  ASSERT_OK(
      pjrtd_device_buffer_adopt_readonly(client, data, &type, device_at(0), NULL, count_release, &released, &args[0]));
  cr_assert_eq(pjrtd_device_buffer_view(args[0]), data);
  args[1] = upload(TYPE(F32, 4), (float[4]){10, 20, 30, 40});
  pjrtd_executable *executable = compile(donate_first);
  ASSERT_OK(run(executable, args, 2, &output));
  cr_assert_neq(pjrtd_device_buffer_view(output), data);
  cr_assert_eq(((const float *)pjrtd_device_buffer_view(output))[0], 11);
  cr_assert_eq(data[0], 1);
  for (int i = 0; i < 2; i++) pjrtd_device_buffer_destroy(args[i]);
  cr_assert_eq(released, 1);
  pjrtd_device_buffer_destroy(output);
  pjrtd_executable_destroy(executable);
  free(data);
}

/* ---- failing allocations ---- */

static pjrtd_status *upload_once(void) {
  pjrtd_device_buffer *buffer;
  pjrtd_tensor_type type = TYPE(F32, 2);
  pjrtd_status *status = pjrtd_device_buffer_from_host(client, ((float[]){1, 2}), &type, device_at(0), NULL, &buffer);
  if (status) cr_assert_null(buffer);
  pjrtd_device_buffer_destroy(buffer);
  return status;
}

static pjrtd_status *adopt_once(void) {
  static float data[16] __attribute__((aligned(64)));
  pjrtd_device_buffer *buffer;
  pjrtd_tensor_type type = TYPE(F32, 2);
  int released = 0;
  pjrtd_status *status =
      pjrtd_device_buffer_adopt_host(client, data, &type, device_at(0), NULL, count_release, &released, &buffer);
  pjrtd_device_buffer_destroy(buffer);
  cr_assert_eq(released, status ? 0 : 1);
  return status;
}

Test(host_transfer, survives_each_failing_allocation) {
  cr_assert_eq(walk_failures(upload_once), 1);
  cr_assert_eq(walk_failures(adopt_once), 2);
}
