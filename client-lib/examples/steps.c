/* State that stays on the device: a slot holds it, single steps and a run feed it back, and only the loss comes to the
 * host. Gradient descent on (w - 3)^2.
 *
 *   cc steps.c $(pkg-config --cflags --libs pjrtc) && ./a.out */
#include <inttypes.h>
#include <pjrtc/pjrtc.h>
#include <stdio.h>
#include <string.h>

static const char text[] =
    "func.func @main(%w: tensor<f32>, %rate: tensor<f32>) -> (tensor<f32>, tensor<f32>) {\n"
    "  %three = stablehlo.constant dense<3.0> : tensor<f32>\n"
    "  %error = stablehlo.subtract %w, %three : tensor<f32>\n"
    "  %loss = stablehlo.multiply %error, %error : tensor<f32>\n"
    "  %change = stablehlo.multiply %error, %rate : tensor<f32>\n"
    "  %next = stablehlo.subtract %w, %change : tensor<f32>\n"
    "  return %next, %loss : tensor<f32>, tensor<f32>\n"
    "}\n";

static int fail(const pjrtc_error *error) {
  fprintf(stderr, "steps: %s: %s\n", pjrtc_code_name(error->code), error->message);
  if (error->hint[0]) fprintf(stderr, "hint: %s\n", error->hint);
  return 1;
}

static bool show_loss(void *user, uint64_t steps, const pjrtc_value *values, size_t num_values) {
  if (num_values) printf("step %" PRIu64 ": loss %g\n", steps, (double)*(const float *)values[0].data);
  return true; /* go on */
}

int main(void) {
  pjrtc_client *client;
  pjrtc_error error = PJRTC_ERROR_INIT;
  if (pjrtc_connect(NULL, NULL, &client, &error)) return fail(&error);

  pjrtc_compile_options compile = {.struct_size = sizeof compile, .code = text, .code_bytes = strlen(text)};
  uint64_t program, start;
  float zero = 0, rate = 0.5f, loss;
  pjrtc_upload_options upload = {.struct_size = sizeof upload, .type = {PJRTC_F32, 0, NULL}, .data = &zero};
  if (pjrtc_compile(client, &compile, &program, NULL, &error)) return fail(&error);
  if (pjrtc_upload(client, &upload, &start, &error)) return fail(&error);
  if (pjrtc_bind(client, &(pjrtc_slot_binding){"w", start}, 1, &error)) return fail(&error);

  /* Two steps, sent without waiting: each is the same request. */
  pjrtc_argument args[] = {{.slot = "w"}, {.type = {PJRTC_F32, 0, NULL}, .data = &rate}};
  pjrtc_feed_back feed_back[] = {{.output = 0, .slot = "w"}};
  pjrtc_execute_options step = {.struct_size = sizeof step,
                                .program = program,
                                .args = args,
                                .num_args = 2,
                                .feed_back = feed_back,
                                .num_feed_back = 1};
  for (int i = 0; i < 2; i++)
    if (pjrtc_execute_start(client, &step, NULL, &error)) return fail(&error);
  if (pjrtc_sync(client, 0, &error)) return fail(&error);

  /* Six more in one call. */
  pjrtc_value value = {.position = 1, .data = &loss, .capacity_bytes = sizeof loss};
  step.fetch = &value;
  step.num_fetch = 1;
  pjrtc_run_options run = {.struct_size = sizeof run, .step = &step, .steps = 6, .every = 2, .on_step = show_loss};
  if (pjrtc_run(client, &run, &error)) return fail(&error);
  printf("last loss %g\n", (double)loss);

  /* What the slot holds now, under an id. */
  const char *slot = "w";
  uint64_t buffer;
  float w;
  pjrtc_value result = {.data = &w, .capacity_bytes = sizeof w};
  if (pjrtc_lookup(client, &slot, 1, &buffer, &error)) return fail(&error);
  if (pjrtc_download(client, buffer, &result, 0, &error)) return fail(&error);
  printf("w %g\n", (double)w);
  pjrtc_close(client);
  return 0;
}
