/* plugin/hlo_module.c: our reading of XLA's module, against what the real plugin writes. */
#include "plugin/executable_internal.h"
#include "plugin/hlo_module.h"
#include "plugin_fixture.h"

/* The optimised module of a program, as the plugin gives it. */
static uint8_t *optimised(const char *code, size_t *out_size) {
  pjrtd_executable *executable = compile(code);
  PJRTD_ARGS(LoadedExecutable_GetExecutable, get, .loaded_executable = executable->handle);
  ASSERT_OK(PJRTD_CALL(plugin, LoadedExecutable_GetExecutable, get));
  PJRT_Program program = {.struct_size = PJRT_Program_STRUCT_SIZE};
  PJRTD_ARGS(Executable_OptimizedProgram, args, .executable = get.executable, .program = &program);
  ASSERT_OK(PJRTD_CALL(plugin, Executable_OptimizedProgram, args));
  program.code = malloc(program.code_size);
  ASSERT_OK(PJRTD_CALL(plugin, Executable_OptimizedProgram, args));
  cr_assert_eq(program.format_size, 15);
  cr_assert_arr_eq(program.format, "hlo_with_config", 15);
  PJRTD_ARGS(Executable_Destroy, destroy, .executable = get.executable);
  ASSERT_OK(PJRTD_CALL(plugin, Executable_Destroy, destroy));
  pjrtd_executable_destroy(executable);
  *out_size = program.code_size;
  return (uint8_t *)program.code;
}

static const char donate_second[] =
    "module @m { func.func public @main(%b: tensor<4xf32>, %a: tensor<2x3xf32> {tf.aliasing_output = 1 : i32}) -> "
    "(tensor<4xf32>, tensor<2x3xf32>) { %0 = stablehlo.add %a, %a : tensor<2x3xf32> return %b, %0 : tensor<4xf32>, "
    "tensor<2x3xf32> } }";

Test(hlo_module, reads_shapes_and_aliasing_of_a_real_program, .init = open_client, .fini = close_client) {
  size_t size;
  uint8_t *bytes = optimised(donate_second, &size);
  pjrtd_hlo_module module;
  ASSERT_OK(pjrtd_hlo_module_read(bytes, size, true, &module));
  cr_assert(module.straight_line);
  cr_assert_eq(module.program_shape->n_parameters, 2);
  const Xla__ShapeProto *first = module.program_shape->parameters[0], *second = module.program_shape->parameters[1];
  cr_assert_eq(pjrtd_hlo_dtype(first->element_type), PJRTD_DTYPE_F32);
  cr_assert_eq(first->n_dimensions, 1);
  cr_assert_eq(first->dimensions[0], 4);
  cr_assert_eq(second->n_dimensions, 2);
  cr_assert_eq(second->dimensions[0], 2);
  cr_assert_eq(second->dimensions[1], 3);
  pjrtd_layout layout;
  cr_assert(pjrtd_hlo_layout(second, &layout));
  cr_assert_eq(layout.rank, 2);
  cr_assert(pjrtd_layout_is_dense(&layout));
  Xla__ShapeProto **parts;
  size_t count;
  ASSERT_OK(pjrtd_hlo_shape_parts(module.program_shape->result, &parts, &count));
  cr_assert_eq(count, 2);
  cr_assert_eq(parts[1]->dimensions[1], 3);
  pjrtd_hlo_shape_parts_destroy(parts, count);
  cr_assert_eq(module.alias->n_entries, 1);
  cr_assert_eq(module.alias->entries[0]->parameter_number, 1);
  cr_assert_eq(module.alias->entries[0]->output_shape_index[0], 1);
  pjrtd_hlo_module_deinit(&module);
  free(bytes);
}

/* The walk and the decoder must see the same module. */
Test(hlo_module, walks_the_fields_that_the_messages_name, .init = open_client, .fini = close_client) {
  size_t size;
  uint8_t *bytes = optimised(donate_second, &size);
  Xla__HloModuleProtoWithConfig *decoded = xla__hlo_module_proto_with_config__unpack(NULL, size, bytes);
  cr_assert_not_null(decoded);
  cr_assert_str_eq(decoded->hlo_module->name, "m");
  cr_assert_geq(decoded->hlo_module->n_computations, 1);
  bool entry = false;
  size_t parameters = 0;
  for (size_t i = 0; i < decoded->hlo_module->n_computations; i++) {
    const Xla__HloComputationProto *computation = decoded->hlo_module->computations[i];
    cr_assert_geq(computation->n_instructions, 1);
    if (computation->id != decoded->hlo_module->entry_computation_id) continue;
    entry = true;
    for (size_t j = 0; j < computation->n_instructions; j++)
      parameters += strcmp(computation->instructions[j]->opcode, "parameter") == 0;
  }
  cr_assert(entry);
  cr_assert_eq(parameters, 2);
  cr_assert_eq(decoded->hlo_module->host_program_shape->n_parameters, 2);
  cr_assert_eq(decoded->hlo_module->input_output_alias->n_entries, 1);
  xla__hlo_module_proto_with_config__free_unpacked(decoded, NULL);

  /* One opcode changed on the wire is seen by the walk, and named. */
  uint8_t *opcode = memmem(bytes, size, "\x12\x09parameter", 11);
  cr_assert_not_null(opcode);
  memcpy(opcode + 2, "moonphase", 9);
  pjrtd_hlo_module module;
  ASSERT_OK(pjrtd_hlo_module_read(bytes, size, true, &module));
  cr_assert_not(module.straight_line);
  cr_assert_str_eq(module.first_unbounded, "moonphase");
  pjrtd_hlo_module_deinit(&module);
  free(bytes);
}

Test(hlo_module, finds_the_loop_in_a_computation_below_the_entry, .init = open_client, .fini = close_client) {
  size_t size;
  uint8_t *bytes = optimised(
      "func.func @main(%a: tensor<i32>) -> tensor<i32> { %0 = stablehlo.while(%i = %a) : tensor<i32> cond { %z = "
      "stablehlo.constant dense<3> : tensor<i32> %c = stablehlo.compare LT, %i, %z : (tensor<i32>, tensor<i32>) -> "
      "tensor<i1> stablehlo.return %c : tensor<i1> } do { %o = stablehlo.add %i, %i : tensor<i32> stablehlo.return %o "
      ": "
      "tensor<i32> } return %0 : tensor<i32> }",
      &size);
  pjrtd_hlo_module module;
  ASSERT_OK(pjrtd_hlo_module_read(bytes, size, true, &module));
  cr_assert_not(module.straight_line);
  cr_assert_str_eq(module.first_unbounded, "while");
  pjrtd_hlo_module_deinit(&module);
  free(bytes);
}

Test(hlo_module, refuses_every_truncation_or_reads_it_whole, .init = open_client, .fini = close_client) {
  size_t size;
  uint8_t *bytes = optimised(donate_second, &size);
  for (size_t shorter = 0; shorter < size; shorter++) {
    pjrtd_hlo_module module;
    uint8_t *copy = malloc(shorter ? shorter : 1); /* its own block, so that a sanitizer sees a read past it */
    memcpy(copy, bytes, shorter);
    pjrtd_status *status = pjrtd_hlo_module_read(copy, shorter, true, &module);
    if (status) {
      cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_INTERNAL);
      cr_assert_null(module.program_shape);
    }
    pjrtd_status_destroy(status);
    pjrtd_hlo_module_deinit(&module);
    free(copy);
  }
  free(bytes);
}

Test(hlo_module, knows_every_element_type_of_pjrt_once) {
  bool seen[PJRTD_DTYPE_COUNT] = {false};
  for (int primitive = -1; primitive < 64; primitive++) {
    pjrtd_dtype dtype = pjrtd_hlo_dtype(primitive);
    if (dtype == PJRTD_DTYPE_INVALID) continue;
    cr_assert_not(seen[dtype], "%s", pjrtd_dtype_name(dtype));
    seen[dtype] = true;
  }
  for (int dtype = PJRTD_DTYPE_PRED; dtype < PJRTD_DTYPE_COUNT; dtype++)
    cr_assert(seen[dtype], "%s", pjrtd_dtype_name(dtype));
}

static uint8_t *module_bytes;
static size_t module_size;
static pjrtd_status *read_once(void) {
  pjrtd_hlo_module module;
  pjrtd_status *status = pjrtd_hlo_module_read(module_bytes, module_size, true, &module);
  pjrtd_hlo_module_deinit(&module);
  return status;
}

Test(hlo_module, survives_each_failing_allocation, .init = open_client, .fini = close_client) {
  module_bytes = optimised(donate_second, &module_size);
  cr_assert_geq(walk_failures(read_once), 10);
  free(module_bytes);
}
