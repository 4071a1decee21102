/* Adds two arrays on the device that pjrtd serves, and prints the sum.
 *
 *   cc hello.c $(pkg-config --cflags --libs pjrtc) && ./a.out        the target is PJRTD_TARGET's or the default */
#include <pjrtc/pjrtc.h>
#include <stdio.h>
#include <string.h>

static const char program_text[] =
    "func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {\n"
    "  %sum = stablehlo.add %x, %y : tensor<4xf32>\n"
    "  return %sum : tensor<4xf32>\n"
    "}\n";

static int fail(const pjrtc_error *error) {
  fprintf(stderr, "hello: %s: %s\n", pjrtc_code_name(error->code), error->message);
  if (error->hint[0]) fprintf(stderr, "hint: %s\n", error->hint);
  return 1;
}

int main(void) {
  pjrtc_error error = PJRTC_ERROR_INIT;
  pjrtc_client *client;
  if (pjrtc_connect(NULL, NULL, &client, &error)) return fail(&error);

  uint64_t program;
  pjrtc_compile_options compile = {
      .struct_size = sizeof compile, .code = program_text, .code_bytes = strlen(program_text)};
  if (pjrtc_compile(client, &compile, &program, NULL, &error)) return fail(&error);

  /* One array is put on the device and stays there; the other travels with the request. */
  int64_t dims[] = {4};
  float x[] = {1, 2, 3, 4}, y[] = {10, 20, 30, 40}, sum[4];
  uint64_t buffer;
  pjrtc_upload_options upload = {.struct_size = sizeof upload, .type = {PJRTC_F32, 1, dims}, .data = x};
  if (pjrtc_upload(client, &upload, &buffer, &error)) return fail(&error);

  pjrtc_argument args[] = {{.buffer = buffer}, {.type = {PJRTC_F32, 1, dims}, .data = y}};
  pjrtc_value result = {.position = 0, .data = sum, .capacity_bytes = sizeof sum};
  pjrtc_execute_options execute = {
      .struct_size = sizeof execute, .program = program, .args = args, .num_args = 2, .fetch = &result, .num_fetch = 1};
  if (pjrtc_execute(client, &execute, &error)) return fail(&error);

  printf("%g %g %g %g\n", sum[0], sum[1], sum[2], sum[3]);
  pjrtc_close(client);
  return 0;
}
