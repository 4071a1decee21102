/* How pjrtctl says what went wrong. */
#include <jansson.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "ctl_json.h"

void *ctl_alloc(size_t size_bytes) {
  void *block = calloc(1, size_bytes ? size_bytes : 1);
  if (block) return block;
  fprintf(stderr, "pjrtctl: no memory for %zu bytes\n", size_bytes);
  exit(CTL_FAILED);
}

static char *vtext(const char *format, va_list args) {
  va_list again;
  va_copy(again, args);
  int length = vsnprintf(NULL, 0, format, again);
  va_end(again);
  char *text = ctl_alloc((size_t)length + 1);
  vsnprintf(text, (size_t)length + 1, format, args);
  return text;
}

char *ctl_text(const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *text = vtext(format, args);
  va_end(args);
  return text;
}

void ctl_error_init(pjrtc_error *error) {
  *error = (pjrtc_error)PJRTC_ERROR_INIT;
  error->detail_size = PJRTC_DETAIL_BYTES + 1;
  error->detail = ctl_alloc(error->detail_size);
}

static void print_json(const char *code, const char *message, const char *hint, const pjrtc_error *error) {
  json_t *body = json_object();
  json_object_set_new(body, "code", ctl_json_text(code));
  json_object_set_new(body, "message", ctl_json_text(message));
  if (hint && *hint) json_object_set_new(body, "hint", ctl_json_text(hint));
  if (error && error->has_argument)
    json_object_set_new(
        body, "argument",
        json_pack("{s:i, s:o, s:o}", "index", (int)error->argument_index, "expected",
                  ctl_json_text(error->argument_expected), "actual", ctl_json_text(error->argument_actual)));
  if (error && error->retry_after_ns)
    json_object_set_new(body, "retry_after_ns", json_integer((json_int_t)error->retry_after_ns));
  if (error && error->allocator[0]) json_object_set_new(body, "allocator", ctl_json_text(error->allocator));
  json_t *root = json_pack("{s:o}", "error", body);
  json_dumpf(root, stdout, JSON_INDENT(2));
  putchar('\n');
  json_decref(root);
}

/* What a server says goes to a terminal: nothing in it may move the cursor. */
static void print_safely(const char *text) {
  for (; *text; text++) fputc((unsigned char)*text >= ' ' || *text == '\n' || *text == '\t' ? *text : '?', stderr);
}

int ctl_fail(const ctl_common *common, const pjrtc_error *error) {
  const char *message = error->detail && error->detail[0] ? error->detail : error->message;
  fflush(stdout);
  fprintf(stderr, "pjrtctl: %s: ", pjrtc_code_name(error->code));
  print_safely(message);
  fputc('\n', stderr);
  if (error->has_argument && !strstr(message, error->argument_expected))
    fprintf(stderr, "argument %u: expected %s, got %s\n", error->argument_index, error->argument_expected,
            error->argument_actual);
  if (error->allocator[0]) fprintf(stderr, "allocator: %s\n", error->allocator);
  if (error->hint[0]) fprintf(stderr, "hint: %s\n", error->hint);
  if (common->json) print_json(pjrtc_code_name(error->code), message, error->hint, error);
  return error->code == PJRTC_UNAVAILABLE ? CTL_NO_SERVER : CTL_FAILED;
}

int ctl_complain(const ctl_common *common, int status, const char *hint, const char *format, ...) {
  va_list args;
  va_start(args, format);
  char *message = vtext(format, args);
  va_end(args);
  fflush(stdout);
  fprintf(stderr, "pjrtctl: %s\n", message);
  if (hint) fprintf(stderr, "hint: %s\n", hint);
  if (common->json) print_json(status == CTL_USAGE ? "USAGE" : "FILE", message, hint, NULL);
  free(message);
  return status;
}

pjrtc_client *ctl_connect(const ctl_common *common, int *out_status) {
  pjrtc_connect_options options = PJRTC_CONNECT_OPTIONS_INIT;
  options.client_name = "pjrtctl " PJRTD_VERSION;
  pjrtc_error error;
  ctl_error_init(&error);
  pjrtc_client *client;
  *out_status = CTL_OK;
  if (pjrtc_connect(common->target, &options, &client, &error)) {
    *out_status = ctl_fail(common, &error);
    /* Whatever kept it from connecting, there is no server to ask; but a target that is none is a usage. */
    *out_status = error.code == PJRTC_INVALID_ARGUMENT ? CTL_USAGE : CTL_NO_SERVER;
  }
  free(error.detail);
  return client;
}
