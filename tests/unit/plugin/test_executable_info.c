/* plugin/executable_info.c: what a program says of its arguments and results. */
#include "plugin_fixture.h"

TestSuite(executable_info, .init = open_client, .fini = close_client);

static void is_type(const pjrtd_program_tensor *tensor, pjrtd_tensor_type type, const char *text) {
  char actual[PJRTD_TENSOR_TYPE_TEXT];
  cr_assert_str_eq(pjrtd_tensor_type_format(&tensor->type, actual), text);
  cr_assert(pjrtd_tensor_type_equal(&tensor->type, &type));
}

Test(executable_info, gives_types_layouts_and_memory_kinds) {
  pjrtd_executable *executable = compile(
      "module @named { func.func public @main(%a: tensor<2x3xf32>, %b: tensor<i64>, %c: tensor<0x5xbf16>) -> "
      "(tensor<3x2xf32>, tensor<i1>) { %0 = stablehlo.transpose %a, dims = [1, 0] : (tensor<2x3xf32>) -> "
      "tensor<3x2xf32> %1 = stablehlo.compare EQ, %b, %b : (tensor<i64>, tensor<i64>) -> tensor<i1> return %0, "
      "%1 : tensor<3x2xf32>, tensor<i1> } }");
  const pjrtd_program_info *info = pjrtd_executable_get_info(executable);
  cr_assert_str_eq(info->name, "named");
  cr_assert_eq(info->num_replicas, 1);
  cr_assert_eq(info->num_partitions, 1);
  cr_assert_eq(info->num_devices, 1);
  cr_assert_eq(info->devices[0], device_at(0));
  cr_assert_eq(info->num_args, 3);
  is_type(&info->args[0], TYPE(F32, 2, 3), "f32[2,3]");
  is_type(&info->args[1], SCALAR(S64), "s64[]");
  is_type(&info->args[2], TYPE(BF16, 0, 5), "bf16[0,5]");
  cr_assert_eq(info->args[0].host_bytes, 24);
  cr_assert_eq(info->args[2].host_bytes, 0);
  cr_assert_eq(info->num_outputs, 2);
  is_type(&info->outputs[0], TYPE(F32, 3, 2), "f32[3,2]");
  is_type(&info->outputs[1], SCALAR(PRED), "pred[]");
  bool kinds = pjrtd_plugin_get_info(plugin)->api_minor >= 114; /* older CPU plugins give none */
  for (size_t i = 0; i < 3; i++) {
    cr_assert(info->args[i].has_layout);
    cr_assert(info->args[i].dense);
    cr_assert_null(info->args[i].unsupported);
    cr_assert_not(info->args[i].donated);
    if (kinds) cr_assert_str_eq(info->args[i].memory_kind, "device");
  }
  if (kinds) cr_assert_str_eq(info->outputs[0].memory_kind, "device");
  cr_assert_not(info->any_donated);
  cr_assert(info->straight_line);
  cr_assert_gt(strlen(info->fingerprint), 0);
  cr_assert_eq(strspn(info->fingerprint, "0123456789abcdef"), strlen(info->fingerprint));
  pjrtd_executable_destroy(executable);
}

Test(executable_info, knows_every_element_type_that_programs_have) {
  /* In both notations, since MLIR writes them otherwise. */
  static const struct {
    const char *mlir;
    pjrtd_dtype dtype;
  } types[] = {{"i1", PJRTD_DTYPE_PRED},
               {"i2", PJRTD_DTYPE_S2},
               {"i4", PJRTD_DTYPE_S4},
               {"i8", PJRTD_DTYPE_S8},
               {"i16", PJRTD_DTYPE_S16},
               {"i32", PJRTD_DTYPE_S32},
               {"i64", PJRTD_DTYPE_S64},
               {"ui2", PJRTD_DTYPE_U2},
               {"ui4", PJRTD_DTYPE_U4},
               {"ui8", PJRTD_DTYPE_U8},
               {"ui16", PJRTD_DTYPE_U16},
               {"ui32", PJRTD_DTYPE_U32},
               {"ui64", PJRTD_DTYPE_U64},
               {"f16", PJRTD_DTYPE_F16},
               {"bf16", PJRTD_DTYPE_BF16},
               {"f32", PJRTD_DTYPE_F32},
               {"f64", PJRTD_DTYPE_F64},
               {"complex<f32>", PJRTD_DTYPE_C64},
               {"complex<f64>", PJRTD_DTYPE_C128},
               {"f8E5M2", PJRTD_DTYPE_F8E5M2},
               {"f8E4M3FN", PJRTD_DTYPE_F8E4M3FN},
               {"f8E4M3B11FNUZ", PJRTD_DTYPE_F8E4M3B11FNUZ},
               {"f8E5M2FNUZ", PJRTD_DTYPE_F8E5M2FNUZ},
               {"f8E4M3FNUZ", PJRTD_DTYPE_F8E4M3FNUZ},
               {"f8E4M3", PJRTD_DTYPE_F8E4M3},
               {"f8E3M4", PJRTD_DTYPE_F8E3M4},
               {"f8E8M0FNU", PJRTD_DTYPE_F8E8M0FNU},
               {"f4E2M1FN", PJRTD_DTYPE_F4E2M1FN},
               {"f6E2M3FN", PJRTD_DTYPE_F6E2M3FN},
               {"f6E3M2FN", PJRTD_DTYPE_F6E3M2FN}};
  for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
    pjrtd_status *missing = pjrtd_client_check_dtype(client, types[i].dtype);
    if (missing) {
      pjrtd_status_destroy(missing);
      continue;
    }
    char code[256];
    snprintf(code, sizeof code, "func.func @main(%%a: tensor<3x%s>) -> tensor<3x%s> { return %%a : tensor<3x%s> }",
             types[i].mlir, types[i].mlir, types[i].mlir);
    pjrtd_executable *executable = compile(code);
    const pjrtd_program_info *info = pjrtd_executable_get_info(executable);
    cr_assert_eq(info->args[0].type.dtype, types[i].dtype, "%s", types[i].mlir);
    cr_assert_eq(info->outputs[0].type.dtype, types[i].dtype, "%s", types[i].mlir);
    cr_assert(info->args[0].dense);
    /* And what the program passes through comes back, packed types included. */
    uint32_t bytes = pjrtd_dtype_host_bytes(types[i].dtype), bits = pjrtd_dtype_bits(types[i].dtype);
    uint8_t in[48] = {0}, out[48];
    for (uint32_t j = 0; j < 3 * bytes; j++)
      in[j] = (uint8_t)(bits < 8 ? j % 2 : types[i].dtype == PJRTD_DTYPE_PRED ? j % 2 : j + 1);
    pjrtd_tensor_type type = {types[i].dtype, 1, (int64_t[]){3}};
    pjrtd_device_buffer *argument = upload(type, in), *output;
    ASSERT_OK(run(executable, &argument, 1, &output));
    read_all(output, out, 3 * bytes);
    cr_assert_arr_eq(out, in, 3 * bytes, "%s", types[i].mlir);
    pjrtd_device_buffer_destroy(argument);
    pjrtd_device_buffer_destroy(output);
    pjrtd_executable_destroy(executable);
  }
}

/* Cases 13 and 14: what the plugin consumes is what is said to be donated. */
Test(executable_info, says_donated_of_exactly_what_is_consumed) {
  static const struct {
    const char *code;
    bool donated;
  } programs[] = {
      {"module @m { func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> { %0 = "
       "stablehlo.add %a, %a : tensor<4xf32> return %0 : tensor<4xf32> } }",
       true},
      {"module @m { func.func public @main(%a: tensor<4xf32> {jax.buffer_donor = true}) -> tensor<4xf32> { %0 = "
       "stablehlo.add %a, %a : tensor<4xf32> return %0 : tensor<4xf32> } }",
       true},
      {"module @m { func.func public @main(%a: tensor<4xf32> {jax.buffer_donor = true}) -> tensor<2xf32> { %0 = "
       "stablehlo.slice %a [0:2] : (tensor<4xf32>) -> tensor<2xf32> return %0 : tensor<2xf32> } }",
       false},
      {"module @m { func.func public @main(%a: tensor<4xf32>) -> tensor<4xf32> { %0 = stablehlo.add %a, %a : "
       "tensor<4xf32> return %0 : tensor<4xf32> } }",
       false},
  };
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    pjrtd_executable *executable = compile(programs[i].code);
    const pjrtd_program_info *info = pjrtd_executable_get_info(executable);
    cr_assert_eq(info->args[0].donated, programs[i].donated, "program %zu", i);
    cr_assert_eq(info->any_donated, programs[i].donated);
    pjrtd_device_buffer *argument = upload(TYPE(F32, 4), ((float[]){1, 2, 3, 4})), *output;
    ASSERT_OK(run(executable, &argument, 1, &output));
    cr_assert_eq(pjrtd_device_buffer_is_deleted(argument), programs[i].donated, "program %zu", i);
    pjrtd_device_buffer_destroy(argument);
    pjrtd_device_buffer_destroy(output);
    pjrtd_executable_destroy(executable);
  }
}

/* Case 17. */
Test(executable_info, flattens_a_tuple_result) {
  pjrtd_executable *executable = compile(
      "func.func @main(%a: tensor<2xf32>) -> tuple<tensor<2xf32>, tensor<i32>> { %c = stablehlo.constant "
      "dense<7> : tensor<i32> %0 = stablehlo.tuple %a, %c : tuple<tensor<2xf32>, tensor<i32>> return %0 : "
      "tuple<tensor<2xf32>, tensor<i32>> }");
  const pjrtd_program_info *info = pjrtd_executable_get_info(executable);
  cr_assert_eq(info->num_outputs, 2);
  is_type(&info->outputs[0], TYPE(F32, 2), "f32[2]");
  is_type(&info->outputs[1], SCALAR(S32), "s32[]");
  pjrtd_executable_destroy(executable);
}

static const char tuple_argument[] =
    "func.func @main(%a: tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32> { %0 = stablehlo.get_tuple_element "
    "%a[0] "
    ": (tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32> %1 = stablehlo.get_tuple_element %a[1] : "
    "(tuple<tensor<2xf32>, tensor<2xf32>>) -> tensor<2xf32> %2 = stablehlo.add %0, %1 : tensor<2xf32> return %2 : "
    "tensor<2xf32> }";

Test(executable_info, says_why_tuples_and_tokens_cannot_be_passed) {
  pjrtd_executable *executable = compile(tuple_argument);
  const pjrtd_program_info *info = pjrtd_executable_get_info(executable);
  cr_assert_eq(info->num_args, 1);
  cr_assert(strstr(info->args[0].unsupported, "tuple"));
  pjrtd_executable_destroy(executable);
  executable = compile(
      "func.func @main(%a: tensor<2xf32>, %t: !stablehlo.token) -> (tensor<2xf32>, !stablehlo.token) { "
      "return %a, %t : tensor<2xf32>, !stablehlo.token }");
  info = pjrtd_executable_get_info(executable);
  cr_assert_null(info->args[0].unsupported);
  cr_assert(strstr(info->args[1].unsupported, "token"));
  cr_assert(strstr(info->outputs[1].unsupported, "token"));
  pjrtd_executable_destroy(executable);
}

Test(executable_info, shows_parameters_that_travel_as_one_tuple_one_by_one) {
  static const char code[] =
      "module @m { func.func public @main(%a: tensor<2xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<2xf32>) -> "
      "tensor<2xf32> { %0 = stablehlo.subtract %a, %b : tensor<2xf32> return %0 : tensor<2xf32> } }";
  pjrtd_executable *executable = compile_with(code, &(pjrtd_compile_options){.parameter_is_tupled_arguments = true});
  const pjrtd_program_info *info = pjrtd_executable_get_info(executable);
  cr_assert_eq(info->num_args, 2);
  is_type(&info->args[1], TYPE(F32, 2), "f32[2]");
  cr_assert_null(info->args[0].unsupported);
  pjrtd_device_buffer *args[2] = {upload(TYPE(F32, 2), ((float[]){5, 6})), upload(TYPE(F32, 2), ((float[]){1, 1}))};
  pjrtd_device_buffer *output;
  ASSERT_OK(run(executable, args, 2, &output));
  cr_assert_eq(((const float *)pjrtd_device_buffer_view(output))[1], 5);
  for (int i = 0; i < 2; i++) {
    cr_assert_eq(pjrtd_device_buffer_is_deleted(args[i]), info->args[i].donated, "argument %d", i);
    pjrtd_device_buffer_destroy(args[i]);
  }
  pjrtd_device_buffer_destroy(output);
  pjrtd_executable_destroy(executable);
}

Test(executable_info, gives_the_shapes_of_one_device_of_a_partitioned_program) {
  pjrtd_executable *executable = compile_with(
      "module @m attributes {mhlo.num_partitions = 2 : i32} { func.func public @main(%a: tensor<8xf32> {mhlo.sharding "
      "= "
      "\"{devices=[2]<=[2]}\"}) -> (tensor<8xf32> {mhlo.sharding = \"{devices=[2]<=[2]}\"}) { %0 = stablehlo.add %a, "
      "%a : "
      "tensor<8xf32> return %0 : tensor<8xf32> } }",
      &(pjrtd_compile_options){.num_partitions = 2, .use_spmd_partitioning = true});
  const pjrtd_program_info *info = pjrtd_executable_get_info(executable);
  cr_assert_eq(info->num_devices, 2);
  is_type(&info->args[0], TYPE(F32, 4), "f32[4]");
  is_type(&info->outputs[0], TYPE(F32, 4), "f32[4]");
  pjrtd_executable_destroy(executable);
}
