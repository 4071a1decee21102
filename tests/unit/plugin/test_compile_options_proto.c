/* plugin/compile_options_proto.c: the bytes, and that the plugin reads them as they are meant. */
#include "plugin_fixture.h"
#include "xla_compile_options.pb-c.h"

TestSuite(compile_options_proto, .init = open_client, .fini = close_client);

static size_t encode(pjrtd_compile_options options, uint8_t **out_bytes) {
  size_t size;
  ASSERT_OK(pjrtd_compile_options_check(client, &options));
  ASSERT_OK(pjrtd_compile_options_encode(client, &options, out_bytes, &size));
  return size;
}

static void encodes_as(pjrtd_compile_options options, const uint8_t *wanted, size_t wanted_size) {
  uint8_t *bytes;
  size_t size = encode(options, &bytes);
  cr_assert_eq(size, wanted_size);
  cr_assert_arr_eq(bytes, wanted, size);
  pjrtd_free(bytes);
}

Test(compile_options_proto, of_the_defaults_is_the_well_known_six_bytes) {
  static const uint8_t six[] = {0x1a, 0x04, 0x20, 0x01, 0x28, 0x01};
  encodes_as((pjrtd_compile_options){0}, six, sizeof six);
  encodes_as((pjrtd_compile_options){.num_replicas = 1, .num_partitions = 1}, six, sizeof six);
  encodes_as((pjrtd_compile_options){.memory_fitting_effort = -0.0}, six, sizeof six);
}

Test(compile_options_proto, has_each_field_under_its_number) {
  /* Written by hand from the field numbers of the vendored compile_options.proto. */
  static const uint8_t wanted[] = {
      0x10, 1,                         /* parameter_is_tupled_arguments 2 */
      0x1a, 61,                        /* executable_build_options 3 */
      0x20, 2,                         /* num_replicas 4 */
      0x28, 2,                         /* num_partitions 5 */
      0x30, 1,                         /* use_spmd_partitioning 6 */
      0x38, 1,                         /* use_auto_spmd_partitioning 7 */
      0x40, 1,                         /* deduplicate_hlo 8 */
      0x4a, 16,                        /* device_assignment 9 */
      0x08, 2,    0x10, 2,             /*   replica_count 1, computation_count 2 */
      0x1a, 4,    0x0a, 2, 3,    1,    /*   computation_devices 3: partition 0 of both replicas */
      0x1a, 4,    0x0a, 2, 2,    0,    /*   partition 1 */
      0x50, 1,                         /* alias_passthrough_params 10 */
      0x62, 1,    1,                   /* allow_spmd_sharding_propagation_to_output 12 */
      0x82, 0x01, 1,    2,             /* auto_spmd_partitioning_mesh_shape 16 */
      0x8a, 0x01, 2,    1, 0,          /* auto_spmd_partitioning_mesh_ids 17 */
      0x92, 0x01, 1,    0,             /* allow_spmd_sharding_propagation_to_parameters 18 */
      0x98, 0x01, 1,                   /* use_shardy_partitioner 19 */
      0xa5, 0x01, 0,    0, 0,    0x3f, /* exec_time_optimization_effort 20: 0.5f */
      0xad, 0x01, 0,    0, 0x80, 0xbf, /* memory_fitting_effort 21: -1.0f */
  };
  static const int ids[] = {3, 2, 1, 0}; /* replica-major */
  static const bool no[] = {false}, yes[] = {true};
  pjrtd_compile_options options = {.num_replicas = 2,
                                   .num_partitions = 2,
                                   .use_spmd_partitioning = true,
                                   .use_shardy_partitioner = true,
                                   .use_auto_spmd_partitioning = true,
                                   .mesh_shape = (int64_t[]){2},
                                   .num_mesh_shape = 1,
                                   .mesh_ids = (int64_t[]){1, 0},
                                   .num_mesh_ids = 2,
                                   .device_assignment = ids,
                                   .num_device_assignment = 4,
                                   .alias_passthrough_params = true,
                                   .propagate_to_parameters = no,
                                   .num_propagate_to_parameters = 1,
                                   .propagate_to_output = yes,
                                   .num_propagate_to_output = 1,
                                   .parameter_is_tupled_arguments = true,
                                   .deduplicate_hlo = true,
                                   .exec_time_optimization_effort = 0.5,
                                   .memory_fitting_effort = -1};
  encodes_as(options, wanted, sizeof wanted);
  static const uint8_t portable[] = {0x1a, 0x04, 0x20, 0x01, 0x28, 0x01, 0x20, 1};
  encodes_as((pjrtd_compile_options){.compile_portable_executable = true}, portable, sizeof portable);
}

Test(compile_options_proto, does_not_depend_on_the_order_of_overrides) {
  pjrtd_value values[] = {{.name = "xla_b", .kind = PJRTD_VALUE_INTEGER, .integer = 7},
                          {.name = "xla_a", .kind = PJRTD_VALUE_TEXT, .text = "t"},
                          {.name = "xla_c", .kind = PJRTD_VALUE_BOOLEAN, .integer = 0},
                          {.name = "xla_d", .kind = PJRTD_VALUE_REAL, .real = 0.5}};
  pjrtd_value turned[] = {values[3], values[2], values[1], values[0]};
  uint8_t *one, *other;
  size_t size = encode((pjrtd_compile_options){.overrides = values, .num_overrides = 4}, &one);
  cr_assert_eq(encode((pjrtd_compile_options){.overrides = turned, .num_overrides = 4}, &other), size);
  cr_assert_arr_eq(one, other, size);
  Xla__CompileOptionsProto *read = xla__compile_options_proto__unpack(NULL, size, one);
  cr_assert_eq(read->n_env_option_overrides, 4);
  cr_assert_str_eq(read->env_option_overrides[0]->key, "xla_a");
  cr_assert_str_eq(read->env_option_overrides[0]->value->string_field, "t");
  cr_assert_eq(read->env_option_overrides[1]->value->int_field, 7);
  cr_assert_eq(read->env_option_overrides[2]->value->value_case, XLA__OPTION_OVERRIDE_PROTO__VALUE_BOOL_FIELD);
  cr_assert_eq(read->env_option_overrides[3]->value->double_field, 0.5);
  xla__compile_options_proto__free_unpacked(read, NULL);
  pjrtd_free(one);
  pjrtd_free(other);
}

static const char add[] =
    "func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { %0 = stablehlo.add %a, %b : "
    "tensor<4xf32> return %0 : tensor<4xf32> }";

Test(compile_options_proto, reaches_the_plugin_as_meant) {
  static const int ids[] = {3, 1};
  pjrtd_executable *executable = compile_with(
      add, &(pjrtd_compile_options){.num_replicas = 2, .device_assignment = ids, .num_device_assignment = 2});
  const pjrtd_program_info *info = pjrtd_executable_get_info(executable);
  cr_assert_eq(info->num_replicas, 2);
  cr_assert_eq(info->num_partitions, 1);
  cr_assert_eq(info->num_devices, 2);
  cr_assert_eq(info->devices[0]->id, 3);
  cr_assert_eq(info->devices[1]->id, 1);
  pjrtd_executable_destroy(executable);
  /* Two replicas of two partitions: the device order is replica-major. */
  static const int square[] = {3, 2, 1, 0};
  executable = compile_with(add, &(pjrtd_compile_options){.num_replicas = 2,
                                                          .num_partitions = 2,
                                                          .use_spmd_partitioning = true,
                                                          .device_assignment = square,
                                                          .num_device_assignment = 4});
  info = pjrtd_executable_get_info(executable);
  cr_assert_eq(info->num_replicas, 2);
  cr_assert_eq(info->num_partitions, 2);
  for (int i = 0; i < 4; i++) cr_assert_eq(info->devices[i]->id, square[i]);
  pjrtd_executable_destroy(executable);
}

Test(compile_options_proto, overrides_reach_the_compiler) {
  pjrtd_value unknown = {.name = "xla_no_such_flag", .kind = PJRTD_VALUE_BOOLEAN};
  pjrtd_executable *executable;
  ASSERT_FAILS(
      pjrtd_executable_compile(client, add, strlen(add),
                               &(pjrtd_compile_options){.overrides = &unknown, .num_overrides = 1}, &executable),
      PJRTD_CODE_INVALID_ARGUMENT, "xla_no_such_flag");
  pjrtd_value kind = {.name = "xla_cpu_enable_fast_math", .kind = PJRTD_VALUE_TEXT, .text = "junk"};
  ASSERT_FAILS(pjrtd_executable_compile(client, add, strlen(add),
                                        &(pjrtd_compile_options){.overrides = &kind, .num_overrides = 1}, &executable),
               PJRTD_CODE_INVALID_ARGUMENT, "xla_cpu_enable_fast_math");
  /* x != x is true of a NaN, unless fast mathematics says that there are none. */
  static const char not_equal[] =
      "func.func @main(%a: tensor<2xf32>) -> tensor<2xi1> { %0 = stablehlo.compare NE, %a, %a : (tensor<2xf32>, "
      "tensor<2xf32>) -> tensor<2xi1> return %0 : tensor<2xi1> }";
  pjrtd_value fast[] = {{.name = "xla_cpu_enable_fast_math", .kind = PJRTD_VALUE_BOOLEAN, .integer = 1},
                        {.name = "xla_cpu_fast_math_honor_nans", .kind = PJRTD_VALUE_BOOLEAN, .integer = 0}};
  uint32_t in[2] = {0x7fc00000, 0x3f800000};
  pjrtd_device_buffer *argument = upload(TYPE(F32, 2), in), *output;
  for (int with = 0; with < 2; with++) {
    executable = compile_with(not_equal, &(pjrtd_compile_options){.overrides = fast, .num_overrides = with ? 2 : 0});
    ASSERT_OK(run(executable, &argument, 1, &output));
    cr_assert_eq(((const uint8_t *)pjrtd_device_buffer_view(output))[0], with ? 0 : 1);
    pjrtd_device_buffer_destroy(output);
    pjrtd_executable_destroy(executable);
  }
  pjrtd_device_buffer_destroy(argument);
}

static pjrtd_status *encode_once(void) {
  static const int ids[] = {0, 1, 2, 3};
  static const bool yes[] = {true};
  pjrtd_value value = {.name = "xla_a", .kind = PJRTD_VALUE_TEXT, .text = "t"};
  pjrtd_compile_options options = {.num_replicas = 2,
                                   .num_partitions = 2,
                                   .device_assignment = ids,
                                   .num_device_assignment = 4,
                                   .propagate_to_output = yes,
                                   .num_propagate_to_output = 1,
                                   .overrides = &value,
                                   .num_overrides = 1};
  uint8_t *bytes;
  size_t size;
  pjrtd_status *status = pjrtd_compile_options_encode(client, &options, &bytes, &size);
  if (status) cr_assert_null(bytes);
  pjrtd_free(bytes);
  return status;
}

Test(compile_options_proto, survives_each_failing_allocation) {
  cr_assert_eq(walk_failures(encode_once), 9);
}
