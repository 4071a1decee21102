/* plugin/executable.c: what compiles, and how what does not is refused. */
#include "plugin_fixture.h"

TestSuite(executable, .init = open_client, .fini = close_client);

static const char twice[] =
    "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { %0 = stablehlo.add %a, %a : tensor<4xf32> return %0 : "
    "tensor<4xf32> }";

static void refuses(const char *code, size_t size, pjrtd_code status, const char *piece) {
  pjrtd_executable *executable = (pjrtd_executable *)1;
  char *ended = calloc(size + 1, 1); /* the parser wants a 0 after the end */
  memcpy(ended, code, size);
  ASSERT_FAILS(pjrtd_executable_compile(client, ended, size, NULL, &executable), status, piece);
  cr_assert_null(executable);
  free(ended);
}

static void refuses_text(const char *code, pjrtd_code status, const char *piece) {
  refuses(code, strlen(code), status, piece);
}

static void still_compiles(void) {
  pjrtd_executable_destroy(compile(twice));
}

/* Case 24. */
Test(executable, refuses_an_empty_program_and_one_with_a_nul_byte) {
  refuses("", 0, PJRTD_CODE_INVALID_ARGUMENT, "the program is empty");
  char text[sizeof twice + 5];
  memcpy(text, twice, sizeof twice); /* its NUL included */
  memcpy(text + sizeof twice, "junk!", 5);
  refuses(text, sizeof text, PJRTD_CODE_INVALID_ARGUMENT, "NUL byte at offset");
  still_compiles();
}

Test(executable, passes_on_the_parsers_whole_message_as_invalid_argument) {
  refuses_text(
      "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { %0 = \"vhlo.constant_v99\"() : () -> "
      "tensor<4xf32> return %0 : tensor<4xf32> }",
      PJRTD_CODE_INVALID_ARGUMENT, "vhlo.constant_v99");
  refuses_text("this is no program", PJRTD_CODE_INVALID_ARGUMENT, "error");
  refuses_text("module {}", PJRTD_CODE_INVALID_ARGUMENT, "main");
  still_compiles();
}

Test(executable, refuses_truncated_bytecode) {
  static const char bytecode[] = "ML\xefR\x0d\x01StableHLO_v1.0.0\x00\x01\x1f\x05\x01\x05";
  static const size_t sizes[] = {4, 8, 20, sizeof bytecode - 1};
  for (size_t i = 0; i < 4; i++) refuses(bytecode, sizes[i], PJRTD_CODE_INVALID_ARGUMENT, "");
  still_compiles();
}

/* Case 20. */
Test(executable, passes_on_that_shapes_are_dynamic) {
  refuses_text(
      "func.func @main(%a: tensor<?xf32>) -> tensor<?xf32> { %0 = stablehlo.add %a, %a : tensor<?xf32> return "
      "%0 : tensor<?xf32> }",
      PJRTD_CODE_INVALID_ARGUMENT, "");
  refuses_text(
      "func.func @main(%a: tensor<?xf32, #stablehlo.bounds<8>>) -> tensor<?xf32, #stablehlo.bounds<8>> { %0 = "
      "stablehlo.add %a, %a : tensor<?xf32, #stablehlo.bounds<8>> return %0 : tensor<?xf32, "
      "#stablehlo.bounds<8>> }",
      PJRTD_CODE_UNIMPLEMENTED, "");
  still_compiles();
}

/* Case 21. */
Test(executable, names_the_custom_call_target_that_is_missing) {
  refuses_text(
      "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { %0 = stablehlo.custom_call @no_such_target(%a) "
      "{api_version = 4 : i32, backend_config = {}} : (tensor<4xf32>) -> tensor<4xf32> return %0 : "
      "tensor<4xf32> }",
      PJRTD_CODE_NOT_FOUND, "no_such_target");
  refuses_text(
      "func.func @main(%a: tensor<4xf32>) -> tensor<4xf32> { %0 = stablehlo.custom_call @untyped_target(%a) : "
      "(tensor<4xf32>) -> tensor<4xf32> return %0 : tensor<4xf32> }",
      PJRTD_CODE_NOT_FOUND, "untyped_target");
  still_compiles();
}

Test(executable, checks_options_before_the_plugin_sees_them) {
  pjrtd_executable *executable;
  ASSERT_FAILS(
      pjrtd_executable_compile(client, twice, strlen(twice), &(pjrtd_compile_options){.num_replicas = 99}, &executable),
      PJRTD_CODE_INVALID_ARGUMENT, "num_replicas 99");
  cr_assert_null(executable);
}

/* The partitioner ends the process on a list of another length. */
Test(executable, wants_propagation_lists_as_long_as_the_program_has_arguments_and_results) {
  static const char three[] =
      "func.func @main(%a: tensor<8xf32>, %b: tensor<8xf32>, %c: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) { %0 "
      "= "
      "stablehlo.add %a, %b : tensor<8xf32> return %0, %c : tensor<8xf32>, tensor<8xf32> }";
  static const bool yes[4] = {true, true, true, true};
  for (size_t count = 0; count <= 4; count++) {
    pjrtd_compile_options options = {.num_partitions = 2,
                                     .use_spmd_partitioning = true,
                                     .propagate_to_parameters = yes,
                                     .num_propagate_to_parameters = count};
    pjrtd_executable *executable;
    pjrtd_status *status = pjrtd_executable_compile(client, three, strlen(three), &options, &executable);
    if (count <= 1 || count == 3)
      ASSERT_OK(status);
    else
      ASSERT_FAILS(status, PJRTD_CODE_INVALID_ARGUMENT, "the program has 3 arguments");
    pjrtd_executable_destroy(executable);
    options.propagate_to_output = yes;
    options.num_propagate_to_output = count;
    options.num_propagate_to_parameters = 0;
    status = pjrtd_executable_compile(client, three, strlen(three), &options, &executable);
    if (count <= 2)
      ASSERT_OK(status);
    else
      ASSERT_FAILS(status, PJRTD_CODE_INVALID_ARGUMENT, "the program has 2 results");
    pjrtd_executable_destroy(executable);
  }
}

static pjrtd_status *compile_once(void) {
  pjrtd_executable *executable;
  pjrtd_status *status = pjrtd_executable_compile(client, twice, strlen(twice), NULL, &executable);
  if (status) cr_assert_null(executable);
  pjrtd_executable_destroy(executable);
  return status;
}

Test(executable, survives_each_failing_allocation) {
  cr_assert_geq(walk_failures(compile_once), 25);
}
