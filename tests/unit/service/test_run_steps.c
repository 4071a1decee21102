/* service/run_steps.c. */
#include "../state/runtime_fixture.h"
#include "service/run_steps.h"

static const char add[] =
    "func.func @main(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xf32> {\n"
    "  %0 = stablehlo.add %a, %b : tensor<2xf32>\n  return %0 : tensor<2xf32> }\n";
static const pjrtd_tensor_type pair = {.dtype = PJRTD_DTYPE_F32, .rank = 1, .dims = (const int64_t[]){2}};

static pjrtd_executable *executable;
static pjrtd_device_buffer *args[2], *buffers[2];
static const uint32_t fed_by[2] = {1, 0};
static pjrtd_run_steps run;

static void begin(uint64_t limit) {
  const pjrtd_device *device = pjrtd_client_get_info(runtime->client)->devices;
  ASSERT_OK(pjrtd_executable_compile(runtime->client, add, sizeof add - 1, NULL, &executable));
  static const float zero[2] = {0, 0}, step[2] = {1, 2};
  ASSERT_OK(pjrtd_device_buffer_from_host(runtime->client, zero, &pair, device, NULL, &buffers[0]));
  ASSERT_OK(pjrtd_device_buffer_from_host(runtime->client, step, &pair, device, NULL, &buffers[1]));
  memcpy(args, buffers, sizeof args);
  static pjrtd_device_buffer *outputs[2];
  run = (pjrtd_run_steps){.executable = executable,
                          .client = runtime->client,
                          .args = args,
                          .num_args = 2,
                          .fed_by = fed_by,
                          .num_outputs = 1,
                          .limit = limit,
                          .last = outputs,
                          .next = outputs + 1,
                          .max_items = 1};
}

static void end(float first, float second) {
  float values[2];
  ASSERT_OK(pjrtd_device_buffer_read(run.last[0], values, sizeof values));
  cr_assert(values[0] == first && values[1] == second, "%g, %g", (double)values[0], (double)values[1]);
  pjrtd_run_deinit(&run);
  for (int i = 0; i < 2; i++) pjrtd_device_buffer_destroy(buffers[i]);
  pjrtd_executable_destroy(executable);
}

TestSuite(run_steps, .init = open_runtime, .fini = close_runtime, .timeout = 120);

Test(run_steps, makes_all_of_them) {
  begin(1000);
  while (!pjrtd_run_has_ended(&run)) ASSERT_OK(pjrtd_run_slice(&run, 100000));
  cr_assert_eq(run.steps, 1000);
  cr_assert(run.execute_ns > 0);
  end(1000, 2000);
}

Test(run_steps, makes_one_though_there_is_no_time) {
  begin(1000);
  for (int i = 0; i < 3; i++) ASSERT_OK(pjrtd_run_slice(&run, 0));
  cr_assert_eq(run.steps, 3);
  end(3, 6);
}

Test(run_steps, makes_one_though_it_is_to_stop) {
  begin(1000);
  atomic_store(&run.stop, true);
  for (int i = 0; i < 3; i++) ASSERT_OK(pjrtd_run_slice(&run, 1000000000));
  cr_assert(pjrtd_run_has_ended(&run));
  cr_assert_eq(run.steps, 1);
  end(1, 2);
}
