/* See ctl_program.h. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "ctl_file.h"
#include "ctl_program.h"

char *ctl_set_device(void *options, const char *value) {
  ctl_compile_options *o = options;
  o->has_device = true;
  return ctl_read_device(value, &o->device);
}

char *ctl_set_replicas(void *options, const char *value) {
  long count;
  char *complaint = ctl_read_count(value, 1, 65536, &count);
  ((ctl_compile_options *)options)->num_replicas = (uint32_t)count;
  return complaint;
}

char *ctl_set_partitions(void *options, const char *value) {
  long count;
  char *complaint = ctl_read_count(value, 1, 65536, &count);
  ((ctl_compile_options *)options)->num_partitions = (uint32_t)count;
  return complaint;
}

char *ctl_set_spmd(void *options, const char *value) {
  ((ctl_compile_options *)options)->spmd = true;
  return NULL;
}

/* "xla_cpu_enable_fast_math=true": the value's kind is the plainest that it can be read as. */
char *ctl_set_override(void *options, const char *value) {
  ctl_compile_options *o = options;
  const char *equals = strchr(value, '=');
  if (!equals || equals == value) return ctl_text("\"%s\" is not NAME=VALUE", value);
  if (o->num_overrides == CTL_MAX_OVERRIDES) return ctl_text("more than %d", CTL_MAX_OVERRIDES);
  pjrtc_attribute *out = &o->overrides[o->num_overrides++];
  const char *text = equals + 1;
  char *end;
  out->name = ctl_text("%.*s", (int)(equals - value), value);
  errno = 0;
  if (strcmp(text, "true") == 0 || strcmp(text, "false") == 0) {
    out->kind = PJRTC_ATTRIBUTE_BOOLEAN;
    out->boolean = text[0] == 't';
    return NULL;
  }
  out->integer = strtoll(text, &end, 10);
  if (*text && !*end && !errno) {
    out->kind = PJRTC_ATTRIBUTE_INTEGER;
    return NULL;
  }
  out->real = strtod(text, &end);
  out->kind = *text && !*end ? PJRTC_ATTRIBUTE_REAL : PJRTC_ATTRIBUTE_TEXT;
  out->text = text;
  return NULL;
}

char *ctl_set_deadline(void *options, const char *value) {
  return ctl_read_seconds(value, &((ctl_compile_options *)options)->deadline_ns);
}

int ctl_compile_file(const ctl_common *common, pjrtc_client *client, const ctl_compile_options *options,
                     const char *path, uint64_t *out_program, pjrtc_program_info **out_info) {
  void *code;
  size_t code_bytes;
  *out_info = NULL;
  char *complaint = ctl_file_read(path, &code, &code_bytes);
  if (complaint) {
    int status = ctl_complain(common, CTL_FILE, NULL, "%s", complaint);
    free(complaint);
    return status;
  }
  pjrtc_compile_options compile = {
      .struct_size = sizeof compile,
      .code = code,
      .code_bytes = code_bytes,
      .timeout_ns = options->deadline_ns,
      .num_replicas = options->num_replicas,
      .num_partitions = options->num_partitions,
      .use_spmd_partitioning = options->spmd,
      .device_assignment = &options->device,
      .num_device_assignment = options->has_device,
      .overrides = options->overrides,
      .num_overrides = options->num_overrides,
  };
  pjrtc_error error;
  ctl_error_init(&error);
  int status = CTL_OK;
  if (pjrtc_compile(client, &compile, out_program, out_info, &error)) status = ctl_fail(common, &error);
  free(error.detail);
  free(code);
  return status;
}
