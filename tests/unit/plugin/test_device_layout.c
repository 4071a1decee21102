/* plugin/device_layout.c. */
#include "plugin/buffer_internal.h"
#include "plugin_fixture.h"

Test(device_layout, is_dense_when_row_major_without_tiles) {
  cr_assert(pjrtd_layout_is_dense(&(pjrtd_layout){.rank = 0}));
  cr_assert(pjrtd_layout_is_dense(&(pjrtd_layout){.rank = 3, .minor_to_major = {2, 1, 0}}));
  cr_assert_not(pjrtd_layout_is_dense(&(pjrtd_layout){.rank = 2, .minor_to_major = {0, 1}}));
  cr_assert_not(pjrtd_layout_is_dense(
      &(pjrtd_layout){.rank = 1, .minor_to_major = {0}, .num_tiles = 1, .tile_ranks = {1}, .tile_dims = {128}}));
}

Test(device_layout, equals_only_with_the_same_order_and_tiles) {
  pjrtd_layout a = {.rank = 2, .minor_to_major = {0, 1}, .num_tiles = 1, .tile_ranks = {2}, .tile_dims = {8, 128}};
  pjrtd_layout b = a;
  cr_assert(pjrtd_layout_equal(&a, &b));
  b.tile_dims[1] = 64;
  cr_assert_not(pjrtd_layout_equal(&a, &b));
  b = a;
  b.minor_to_major[0] = 1;
  cr_assert_not(pjrtd_layout_equal(&a, &b));
  b = a;
  b.num_tiles = 0;
  cr_assert_not(pjrtd_layout_equal(&a, &b));
}

Test(device_layout, is_written_as_xla_writes_it) {
  char text[PJRTD_LAYOUT_TEXT];
  cr_assert_str_eq(pjrtd_layout_format(&(pjrtd_layout){.rank = 0}, text), "{}");
  cr_assert_str_eq(pjrtd_layout_format(&(pjrtd_layout){.rank = 2, .minor_to_major = {0, 1}}, text), "{0,1}");
  pjrtd_layout tiled = {
      .rank = 2, .minor_to_major = {1, 0}, .num_tiles = 2, .tile_ranks = {2, 2}, .tile_dims = {8, 128, 2, 1}};
  cr_assert_str_eq(pjrtd_layout_format(&tiled, text), "{1,0:T(8,128)(2,1)}");
}

Test(device_layout, is_undone_for_any_order_of_dimensions) {
  /* A 2x3x4 tensor whose value at (i,j,k) is 100i + 10j + k, laid out in each of the 6 orders. */
  static const int64_t orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  static const int64_t dims[3] = {2, 3, 4};
  for (int o = 0; o < 6; o++) {
    int16_t device[24], out[24];
    int64_t strides[3], stride = 1;
    for (int d = 0; d < 3; d++) {
      strides[orders[o][d]] = stride;
      stride *= dims[orders[o][d]];
    }
    for (int i = 0; i < 2; i++)
      for (int j = 0; j < 3; j++)
        for (int k = 0; k < 4; k++)
          device[i * strides[0] + j * strides[1] + k * strides[2]] = (int16_t)(100 * i + 10 * j + k);
    pjrtd_layout layout = {.rank = 3};
    memcpy(layout.minor_to_major, orders[o], sizeof orders[o]);
    pjrtd_layout_copy_to_dense(&layout, dims, 2, device, out);
    for (int n = 0; n < 24; n++) cr_assert_eq(out[n], 100 * (n / 12) + 10 * (n / 4 % 3) + n % 4, "order %d", o);
  }
}

Test(device_layout, of_an_output_is_what_the_program_asked_for, .init = open_client, .fini = close_client) {
  pjrtd_executable *executable = compile(
      "module @m { func.func public @main(%a: tensor<2x3xf32>) -> (tensor<2x3xf32> {mhlo.layout_mode = "
      "\"{0,1}\"}) { return %a : tensor<2x3xf32> } }");
  cr_assert_not(pjrtd_executable_get_info(executable)->outputs[0].dense);
  float in[6] = {1, 2, 3, 4, 5, 6}, out[6];
  pjrtd_device_buffer *argument = upload(TYPE(F32, 2, 3), in), *output;
  ASSERT_OK(run(executable, &argument, 1, &output));
  pjrtd_layout layout;
  ASSERT_OK(pjrtd_device_buffer_layout(output, &layout));
  cr_assert_eq(layout.minor_to_major[0], 0);
  cr_assert_null(pjrtd_device_buffer_view(output), "the bytes are not in row-major order");
  read_all(output, out, sizeof out);
  cr_assert_arr_eq(out, in, sizeof in);
  ASSERT_OK(pjrtd_device_buffer_layout(argument, &layout));
  cr_assert(pjrtd_layout_is_dense(&layout));
  pjrtd_device_buffer_destroy(output);
  pjrtd_device_buffer_destroy(argument);
  pjrtd_executable_destroy(executable);
}
