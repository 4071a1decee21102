/* Starts a compile, an upload, two executes and a download without waiting for any of them: the ids are known at once,
 * and the server puts what depends on what in order. One round trip for all of it.
 *
 *   cc pipeline.c $(pkg-config --cflags --libs pjrtc) && ./a.out */
#include <pjrtc/pjrtc.h>
#include <stdio.h>
#include <string.h>

static const char program_text[] =
    "func.func @main(%x: tensor<8xf32>) -> tensor<8xf32> {\n"
    "  %y = stablehlo.multiply %x, %x : tensor<8xf32>\n"
    "  return %y : tensor<8xf32>\n"
    "}\n";

static int fail(const pjrtc_error *error) {
  fprintf(stderr, "pipeline: %s: %s\n", pjrtc_code_name(error->code), error->message);
  if (error->hint[0]) fprintf(stderr, "hint: %s\n", error->hint);
  return 1;
}

int main(void) {
  pjrtc_error error = PJRTC_ERROR_INIT;
  pjrtc_client *client;
  if (pjrtc_connect(NULL, NULL, &client, &error)) return fail(&error);

  enum { COMPILE, UPLOAD, SQUARE, SQUARE_AGAIN, DOWNLOAD, STEPS };
  static const char *const names[STEPS] = {"compile", "upload", "square", "square again", "download"};
  pjrtc_future *steps[STEPS];
  uint64_t program, x, squared, result;
  int64_t dims[] = {8};
  float host[] = {0, 1, 2, 3, 4, 5, 6, 7}, back[8];

  /* Nothing is written until the flush: all five requests leave in one write. */
  pjrtc_cork(client);
  pjrtc_compile_options compile = {
      .struct_size = sizeof compile, .code = program_text, .code_bytes = strlen(program_text)};
  if (pjrtc_compile_start(client, &compile, &program, NULL, &steps[COMPILE], &error)) return fail(&error);

  pjrtc_upload_options upload = {.struct_size = sizeof upload, .type = {PJRTC_F32, 1, dims}, .data = host};
  if (pjrtc_upload_start(client, &upload, &x, &steps[UPLOAD], &error)) return fail(&error);

  pjrtc_argument argument = {.buffer = x};
  pjrtc_execute_options execute = {.struct_size = sizeof execute,
                                   .program = program,
                                   .args = &argument,
                                   .num_args = 1,
                                   .outputs = &squared,
                                   .num_outputs = 1};
  if (pjrtc_execute_start(client, &execute, &steps[SQUARE], &error)) return fail(&error);

  argument.buffer = squared;
  execute.outputs = &result;
  if (pjrtc_execute_start(client, &execute, &steps[SQUARE_AGAIN], &error)) return fail(&error);

  pjrtc_value value = {.data = back, .capacity_bytes = sizeof back};
  if (pjrtc_download_start(client, result, &value, 0, &steps[DOWNLOAD], &error)) return fail(&error);
  if (pjrtc_flush(client, &error)) return fail(&error);

  for (int i = 0; i < STEPS; i++) {
    if (pjrtc_future_wait(steps[i], PJRTC_FOREVER, &error)) return fail(&error);
    printf("%s is done\n", names[i]);
    pjrtc_future_destroy(steps[i]);
  }
  for (int i = 0; i < 8; i++) printf("%g%c", back[i], i < 7 ? ' ' : '\n');
  pjrtc_close(client);
  return 0;
}
