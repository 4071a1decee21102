/* plugin/executable_run.c. */
#include <pthread.h>
#include <semaphore.h>

#include "plugin_fixture.h"

/* Under AddressSanitizer too an allocation that cannot be met fails, as malloc's does, and does not end the process. */
const char *__asan_default_options(void);
__attribute__((visibility("default"))) const char *__asan_default_options(void) {
  return "allocator_may_return_null=1";
}

TestSuite(executable_run, .init = open_client, .fini = close_client);

static const char add[] =
    "func.func @main(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> { %0 = stablehlo.add %a, %b : "
    "tensor<4xf32> return %0 : tensor<4xf32> }";
static const char donate_first[] =
    "module @m { func.func public @main(%a: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<4xf32>) -> "
    "tensor<4xf32> { %0 = stablehlo.add %a, %b : tensor<4xf32> return %0 : tensor<4xf32> } }";

static pjrtd_device_buffer *floats(float a, float b, float c, float d) {
  return upload(TYPE(F32, 4), ((float[]){a, b, c, d}));
}

static void holds(pjrtd_device_buffer *buffer, float a, float b, float c, float d) {
  float out[4], wanted[4] = {a, b, c, d};
  read_all(buffer, out, sizeof out);
  cr_assert_arr_eq(out, wanted, sizeof wanted);
}

Test(executable_run, ends_before_it_returns_on_a_synchronous_client) {
  pjrtd_executable *executable = compile(add);
  pjrtd_device_buffer *args[2] = {floats(1, 2, 3, 4), floats(10, 20, 30, 40)}, *output;
  pjrtd_execute_call call = {.args = args, .num_args = 2};
  bool pending = true;
  ASSERT_OK(pjrtd_executable_execute(executable, &call, &output, &pending));
  cr_assert_not(pending);
  cr_assert(pjrtd_device_buffer_is_ready(output));
  cr_assert_eq(pjrtd_device_buffer_device(output), device_at(0));
  cr_assert_eq(pjrtd_device_buffer_memory(output), device_at(0)->default_memory);
  holds(output, 11, 22, 33, 44);
  holds(args[0], 1, 2, 3, 4);
  for (int i = 0; i < 2; i++) pjrtd_device_buffer_destroy(args[i]);
  pjrtd_executable_destroy(executable); /* an output outlives its program */
  holds(output, 11, 22, 33, 44);
  char text[PJRTD_TENSOR_TYPE_TEXT];
  cr_assert_str_eq(pjrtd_tensor_type_format(pjrtd_device_buffer_type(output), text), "f32[4]");
  pjrtd_device_buffer_destroy(output);
}

Test(executable_run, refuses_another_number_of_arguments) {
  pjrtd_executable *executable = compile(add);
  pjrtd_device_buffer *args[3] = {floats(1, 2, 3, 4), floats(1, 2, 3, 4), NULL}, *output;
  ASSERT_FAILS(run(executable, args, 1, &output), PJRTD_CODE_INVALID_ARGUMENT, "1 arguments, the program takes 2");
  ASSERT_FAILS(run(executable, args, 3, &output), PJRTD_CODE_INVALID_ARGUMENT, "3 arguments, the program takes 2");
  for (int i = 0; i < 2; i++) pjrtd_device_buffer_destroy(args[i]);
  pjrtd_executable_destroy(executable);
}

/* Case 13. */
Test(executable_run, refuses_to_donate_a_buffer_that_is_passed_twice) {
  pjrtd_executable *executable = compile(donate_first);
  pjrtd_device_buffer *a = floats(1, 2, 3, 4), *b = floats(10, 20, 30, 40), *output;
  pjrtd_device_buffer *same[2] = {a, a}, *good[2] = {a, b};
  ASSERT_FAILS(run(executable, same, 2, &output), PJRTD_CODE_INVALID_ARGUMENT, "donated");
  cr_assert_not(pjrtd_device_buffer_is_deleted(a));
  holds(a, 1, 2, 3, 4);
  ASSERT_OK(run(executable, good, 2, &output));
  holds(output, 11, 22, 33, 44);
  cr_assert(pjrtd_device_buffer_is_deleted(a));
  cr_assert_not(pjrtd_device_buffer_is_deleted(b));
  pjrtd_device_buffer_destroy(a);
  pjrtd_device_buffer_destroy(b);
  pjrtd_device_buffer_destroy(output);
  pjrtd_executable_destroy(executable);
}

/* Case 14. */
Test(executable_run, refuses_a_donated_buffer_and_shows_nothing_of_it) {
  pjrtd_executable *executable = compile(donate_first);
  pjrtd_device_buffer *args[2] = {floats(1, 2, 3, 4), floats(10, 20, 30, 40)}, *output, *second;
  ASSERT_OK(run(executable, args, 2, &output));
  ASSERT_FAILS(run(executable, args, 2, &second), PJRTD_CODE_INVALID_ARGUMENT, "donated");
  cr_assert_null(second);
  cr_assert_null(pjrtd_device_buffer_view(args[0]));
  float out[4];
  ASSERT_FAILS(pjrtd_device_buffer_read(args[0], out, sizeof out), PJRTD_CODE_INVALID_ARGUMENT, "donated");
  holds(args[1], 10, 20, 30, 40);
  for (int i = 0; i < 2; i++) pjrtd_device_buffer_destroy(args[i]);
  pjrtd_device_buffer_destroy(output);
  pjrtd_executable_destroy(executable);
}

Test(executable_run, keeps_an_argument_that_is_listed_as_not_to_be_donated) {
  pjrtd_executable *executable = compile(donate_first);
  pjrtd_device_buffer *a = floats(1, 2, 3, 4), *output;
  pjrtd_device_buffer *args[2] = {a, a};
  pjrtd_execute_call call = {.args = args, .num_args = 2, .non_donatable = (int64_t[]){0}, .num_non_donatable = 1};
  bool pending;
  ASSERT_OK(pjrtd_executable_execute(executable, &call, &output, &pending));
  holds(output, 2, 4, 6, 8);
  cr_assert_not(pjrtd_device_buffer_is_deleted(a));
  holds(a, 1, 2, 3, 4);
  pjrtd_device_buffer_destroy(a);
  pjrtd_device_buffer_destroy(output);
  pjrtd_executable_destroy(executable);
}

/* Case 15: what is refused leaves the arguments alive. */
Test(executable_run, consumes_nothing_when_it_is_refused) {
  pjrtd_executable *executable = compile(donate_first);
  pjrtd_device_buffer *a = floats(1, 2, 3, 4), *b = floats(10, 20, 30, 40), *output;
  pjrtd_device_buffer *shorter = upload(TYPE(F32, 2), ((float[]){1, 2})), *elsewhere;
  pjrtd_device_buffer *wrong[2] = {a, shorter};
  ASSERT_FAILS(run(executable, &a, 1, &output), PJRTD_CODE_INVALID_ARGUMENT, "the program takes 2");
  holds(a, 1, 2, 3, 4);
  ASSERT_FAILS(run(executable, wrong, 2, &output), PJRTD_CODE_INVALID_ARGUMENT, "");
  holds(a, 1, 2, 3, 4);
  elsewhere = upload_on(device_at(1), TYPE(F32, 4), ((float[]){1, 2, 3, 4})); /* case 49 */
  wrong[1] = elsewhere;
  ASSERT_FAILS(run(executable, wrong, 2, &output), PJRTD_CODE_INVALID_ARGUMENT, "");
  cr_assert_not(pjrtd_device_buffer_is_deleted(a));
  holds(a, 1, 2, 3, 4);
  wrong[1] = b;
  ASSERT_OK(run(executable, wrong, 2, &output));
  cr_assert(pjrtd_device_buffer_is_deleted(a));
  pjrtd_device_buffer *all[] = {a, b, shorter, elsewhere, output};
  for (size_t i = 0; i < 5; i++) pjrtd_device_buffer_destroy(all[i]);
  pjrtd_executable_destroy(executable);
}

/* Case 17. */
Test(executable_run, gives_no_output_two_or_six_hundred) {
  pjrtd_executable *executable = compile("func.func @main() { return }");
  pjrtd_device_buffer *none = NULL;
  ASSERT_OK(run(executable, NULL, 0, &none));
  cr_assert_null(none);
  pjrtd_executable_destroy(executable);

  enum { MANY = 600 };
  char *code = malloc(MANY * 128 + 1024), *at = code;
  at += sprintf(at, "func.func @main(%%a: tensor<i32>) -> (tensor<i32>");
  for (int i = 1; i < MANY; i++) at += sprintf(at, ", tensor<i32>");
  at += sprintf(at, ") {\n");
  for (int i = 0; i < MANY; i++)
    at += sprintf(at,
                  "%%c%d = stablehlo.constant dense<%d> : tensor<i32>\n%%%d = stablehlo.add %%a, %%c%d : tensor<i32>\n",
                  i, i, i, i);
  at += sprintf(at, "return %%0");
  for (int i = 1; i < MANY; i++) at += sprintf(at, ", %%%d", i);
  at += sprintf(at, " : tensor<i32>");
  for (int i = 1; i < MANY; i++) at += sprintf(at, ", tensor<i32>");
  sprintf(at, "\n}");
  executable = compile(code);
  free(code);
  cr_assert_eq(pjrtd_executable_get_info(executable)->num_outputs, MANY);
  int32_t thousand = 1000;
  pjrtd_device_buffer *argument = upload(SCALAR(S32), &thousand), *outputs[MANY];
  ASSERT_OK(run(executable, &argument, 1, outputs));
  int64_t sum = 0;
  for (int i = 0; i < MANY; i++) {
    int32_t value;
    read_all(outputs[i], &value, 4);
    cr_assert_eq(value, 1000 + i);
    sum += value;
    pjrtd_device_buffer_destroy(outputs[i]);
  }
  cr_assert_eq(sum, 779700);
  pjrtd_device_buffer_destroy(argument);
  pjrtd_executable_destroy(executable);
}

/* Case 22. */
Test(executable_run, divides_by_zero_without_a_signal) {
  pjrtd_executable *executable = compile(
      "func.func @main(%a: tensor<4xi32>, %b: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>) { %0 = "
      "stablehlo.divide %a, %b : tensor<4xi32> %1 = stablehlo.remainder %a, %b : tensor<4xi32> return %0, %1 : "
      "tensor<4xi32>, tensor<4xi32> }");
  int32_t a[4] = {7, -7, 0, INT32_MIN}, b[4] = {0, 0, 0, -1}, out[4];
  pjrtd_device_buffer *args[2] = {upload(TYPE(S32, 4), a), upload(TYPE(S32, 4), b)}, *outputs[2];
  ASSERT_OK(run(executable, args, 2, outputs));
  read_all(outputs[0], out, sizeof out);
  cr_assert_arr_eq(out, ((int32_t[]){-1, -1, -1, INT32_MIN}), sizeof out);
  read_all(outputs[1], out, sizeof out);
  cr_assert_arr_eq(out, ((int32_t[]){7, -7, 0, 0}), sizeof out);
  for (int i = 0; i < 2; i++) {
    pjrtd_device_buffer_destroy(args[i]);
    pjrtd_device_buffer_destroy(outputs[i]);
  }
  pjrtd_executable_destroy(executable);
}

/* Case 31. */
Test(executable_run, passes_on_that_memory_is_exhausted_and_goes_on) {
  pjrtd_executable *huge = compile(
      "func.func @main() -> tensor<800000x65536xf32> { %0 = stablehlo.iota dim = 1 : tensor<800000x65536xf32> return "
      "%0 : "
      "tensor<800000x65536xf32> }");
  pjrtd_device_buffer *output = (pjrtd_device_buffer *)1;
  ASSERT_FAILS(run(huge, NULL, 0, &output), PJRTD_CODE_RESOURCE_EXHAUSTED, "");
  cr_assert_null(output);
  pjrtd_executable *small = compile(add);
  pjrtd_device_buffer *args[2] = {floats(1, 2, 3, 4), floats(1, 1, 1, 1)};
  ASSERT_OK(run(small, args, 2, &output));
  holds(output, 2, 3, 4, 5);
  for (int i = 0; i < 2; i++) pjrtd_device_buffer_destroy(args[i]);
  pjrtd_device_buffer_destroy(output);
  pjrtd_executable_destroy(small);
  pjrtd_executable_destroy(huge);
}

/* The plugin would read the values in the wrong order. */
Test(executable_run, refuses_an_argument_of_another_device_layout) {
  pjrtd_executable *column = compile(
      "module @m { func.func public @main(%a: tensor<2x3xf32> {mhlo.layout_mode = \"{0,1}\"}) -> tensor<2x3xf32> { "
      "return "
      "%a : tensor<2x3xf32> } }");
  pjrtd_executable *maker = compile(
      "module @m { func.func public @main(%a: tensor<2x3xf32>) -> (tensor<2x3xf32> {mhlo.layout_mode = \"{0,1}\"}) { "
      "return %a : tensor<2x3xf32> } }");
  cr_assert_not(pjrtd_executable_get_info(column)->args[0].dense);
  float in[6] = {1, 2, 3, 4, 5, 6}, out[6];
  pjrtd_device_buffer *row = upload(TYPE(F32, 2, 3), in), *turned, *output;
  PJRTD_AUTO(pjrtd_status) refused = run(column, &row, 1, &output);
  cr_assert_eq(pjrtd_status_code(refused), PJRTD_CODE_INVALID_ARGUMENT);
  cr_assert_eq(pjrtd_status_argument_index(refused), 0);
  cr_assert_str_eq(pjrtd_status_argument_expected(refused), "{0,1}");
  cr_assert_str_eq(pjrtd_status_argument_actual(refused), "row-major");
  ASSERT_OK(run(maker, &row, 1, &turned));
  ASSERT_OK(run(column, &turned, 1, &output)); /* the same layout */
  read_all(output, out, sizeof out);
  cr_assert_arr_eq(out, in, sizeof in);
  pjrtd_device_buffer_destroy(output);
  ASSERT_FAILS(run(maker, &turned, 1, &output), PJRTD_CODE_INVALID_ARGUMENT, "argument 0 has the device layout {0,1}");
  pjrtd_device_buffer_destroy(row);
  pjrtd_device_buffer_destroy(turned);
  pjrtd_executable_destroy(column);
  pjrtd_executable_destroy(maker);
}

Test(executable_run, runs_on_several_devices_with_device_major_lists) {
  pjrtd_executable *executable = compile_with(add, &(pjrtd_compile_options){.num_replicas = 3});
  pjrtd_device_buffer *args[6], *outputs[3];
  for (int d = 0; d < 3; d++) {
    float base = (float)(10 * d);
    args[2 * d] = upload_on(device_at((size_t)d), TYPE(F32, 4), ((float[]){base, base + 1, base + 2, base + 3}));
    args[2 * d + 1] = upload_on(device_at((size_t)d), TYPE(F32, 4), ((float[]){1, 1, 1, 1}));
  }
  ASSERT_OK(run(executable, args, 6, outputs));
  for (int d = 0; d < 3; d++) {
    float base = (float)(10 * d);
    cr_assert_eq(pjrtd_device_buffer_device(outputs[d]), device_at((size_t)d));
    holds(outputs[d], base + 1, base + 2, base + 3, base + 4);
    pjrtd_device_buffer_destroy(outputs[d]);
  }
  for (int i = 0; i < 6; i++) pjrtd_device_buffer_destroy(args[i]);
  pjrtd_executable_destroy(executable);
}

Test(executable_run, runs_a_portable_program_on_the_first_device) {
  pjrtd_executable *executable = compile_with(add, &(pjrtd_compile_options){.compile_portable_executable = true});
  cr_assert_eq(pjrtd_executable_get_info(executable)->num_devices, 1);
  cr_assert_eq(pjrtd_executable_get_info(executable)->devices[0], device_at(0));
  pjrtd_device_buffer *args[2] = {floats(1, 2, 3, 4), floats(1, 1, 1, 1)}, *output;
  ASSERT_OK(run(executable, args, 2, &output));
  holds(output, 2, 3, 4, 5);
  for (int i = 0; i < 2; i++) pjrtd_device_buffer_destroy(args[i]);
  pjrtd_device_buffer_destroy(output);
  pjrtd_executable_destroy(executable);
}

/* ---- a client that is asynchronous ---- */

/* After the suite's own. */
static void open_asynchronous(void) {
  pjrtd_client_destroy(client);
  pjrtd_value option = {.name = "asynchronous", .kind = PJRTD_VALUE_BOOLEAN, .integer = 1};
  ASSERT_OK(pjrtd_client_create(plugin, &option, 1, &client));
}

typedef struct {
  sem_t ended;
  int calls;
  pjrtd_code code;
} waiter;

static void on_done(void *user, pjrtd_status *error) {
  waiter *waiter = user;
  waiter->calls++;
  waiter->code = pjrtd_status_code(error);
  pjrtd_status_destroy(error);
  sem_post(&waiter->ended);
}

Test(executable_run, calls_done_once_when_a_pending_run_ends, .init = open_asynchronous) {
  pjrtd_executable *executable = compile(
      "func.func @main(%a: tensor<700x700xf32>) -> tensor<700x700xf32> { %0 = stablehlo.dot %a, %a : "
      "(tensor<700x700xf32>, tensor<700x700xf32>) -> tensor<700x700xf32> return %0 : tensor<700x700xf32> }");
  float *ones = malloc(700 * 700 * 4);
  for (int i = 0; i < 700 * 700; i++) ones[i] = 1;
  pjrtd_device_buffer *argument = upload(TYPE(F32, 700, 700), ones);
  bool was_pending = false;
  for (int round = 0; round < 20; round++) {
    waiter waiter = {.calls = 0};
    sem_init(&waiter.ended, 0, 0);
    pjrtd_device_buffer *output;
    bool pending;
    pjrtd_execute_call call = {.args = &argument, .num_args = 1, .done = on_done, .user = &waiter};
    ASSERT_OK(pjrtd_executable_execute(executable, &call, &output, &pending));
    if (pending) {
      was_pending = true;
      while (sem_wait(&waiter.ended) != 0) continue;
      cr_assert_eq(waiter.code, PJRTD_CODE_OK);
    }
    cr_assert_eq(waiter.calls, pending);
    ASSERT_OK(pjrtd_device_buffer_await(output));
    cr_assert_eq(((const float *)pjrtd_device_buffer_view(output))[700 * 350 + 350], 700);
    pjrtd_device_buffer_destroy(output);
    sem_destroy(&waiter.ended);
  }
  cr_assert(was_pending, "a product of 700x700 has never been pending in 20 runs");
  pjrtd_device_buffer_destroy(argument);
  pjrtd_executable_destroy(executable);
  free(ones);
}

/* ---- failing allocations ---- */

static pjrtd_executable *walked;
static pjrtd_device_buffer *walked_args[2];

static pjrtd_status *run_once(void) {
  pjrtd_device_buffer *output;
  pjrtd_status *status = run(walked, walked_args, 2, &output);
  if (status) cr_assert_null(output);
  pjrtd_device_buffer_destroy(output);
  return status;
}

Test(executable_run, survives_each_failing_allocation) {
  walked = compile(add);
  walked_args[0] = floats(1, 2, 3, 4);
  walked_args[1] = floats(1, 2, 3, 4);
  cr_assert_eq(walk_failures(run_once), 1, "one output is the one allocation of a small run");
  holds(walked_args[0], 1, 2, 3, 4);
  for (int i = 0; i < 2; i++) pjrtd_device_buffer_destroy(walked_args[i]);
  pjrtd_executable_destroy(walked);
}
