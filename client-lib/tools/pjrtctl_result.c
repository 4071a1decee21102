/* See ctl_result.h. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl_numpy.h"
#include "ctl_result.h"
#include "ctl_values.h"

/* How many elements of a result are shown where it is not to be shown whole. */
enum { SHOWN = 64 };

static uint64_t count_of(const pjrtc_value *value) {
  return value->size_bytes / pjrtc_dtype_host_bytes(value->dtype);
}

static const void *element(const pjrtc_value *value, uint64_t i) {
  return (const char *)value->data + i * pjrtc_dtype_host_bytes(value->dtype);
}

static pjrtc_type type_of(const pjrtc_value *value) {
  return (pjrtc_type){value->dtype, value->rank, value->dims};
}

bool ctl_result_whole(bool full) {
  return full || !isatty(STDOUT_FILENO);
}

char *ctl_result_values(const pjrtc_value *value, bool whole) {
  uint64_t count = count_of(value), shown = whole || count <= SHOWN ? count : SHOWN;
  size_t size = shown * (CTL_VALUE_TEXT + 1) + 64, length = 0;
  char *text = ctl_alloc(size), one[CTL_VALUE_TEXT];
  for (uint64_t i = 0; i < shown; i++)
    length += (size_t)snprintf(text + length, size - length, "%s%s", i ? "," : "",
                               ctl_value_write(value->dtype, element(value, i), one));
  if (shown < count) snprintf(text + length, size - length, ",... (%" PRIu64 " elements; --full shows all)", count);
  return text;
}

void ctl_result_print(const pjrtc_value *value, bool whole) {
  char text[CTL_VALUE_TEXT], type[1600];
  pjrtc_type of = type_of(value);
  printf("%s=", pjrtc_type_format(&of, type, sizeof type));
  for (uint64_t i = 0; whole && i < count_of(value); i++)
    printf("%s%s", i ? "," : "", ctl_value_write(value->dtype, element(value, i), text));
  char *start = whole ? NULL : ctl_result_values(value, false);
  puts(start ? start : "");
  free(start);
}

/* ---- JSON ---- */

static json_t *real_json(double value, const char *text) {
  if (!isfinite(value)) return json_string(isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
  return json_real(text ? strtod(text, NULL) : value);
}

/* Numbers where JSON has them; "nan", "inf" and "-inf" are strings, complex numbers pairs. */
static json_t *element_json(pjrtc_dtype dtype, const void *at) {
  char text[CTL_VALUE_TEXT];
  double real, imaginary;
  if (dtype == PJRTC_PRED) return json_boolean(*(const uint8_t *)at);
  if (ctl_dtype_is_signed(dtype)) return json_integer(ctl_value_signed(dtype, at));
  if (!ctl_value_real(dtype, at, &real, &imaginary)) return ctl_json_unsigned(ctl_value_unsigned(dtype, at));
  if (!ctl_dtype_is_complex(dtype)) return real_json(real, ctl_value_write(dtype, at, text));
  json_t *pair = json_array();
  json_array_append_new(pair, real_json(real, NULL));
  json_array_append_new(pair, real_json(imaginary, NULL));
  return pair;
}

json_t *ctl_result_json(const pjrtc_value *value) {
  char type[1600];
  json_t *dims = json_array(), *values = json_array(), *object = json_object();
  for (uint32_t i = 0; i < value->rank; i++) json_array_append_new(dims, json_integer(value->dims[i]));
  for (uint64_t i = 0; i < count_of(value); i++)
    json_array_append_new(values, element_json(value->dtype, element(value, i)));
  pjrtc_type of = type_of(value);
  json_object_set_new(object, "type", json_string(pjrtc_type_format(&of, type, sizeof type)));
  json_object_set_new(object, "dtype", json_string(pjrtc_dtype_name(value->dtype)));
  json_object_set_new(object, "dims", dims);
  json_object_set_new(object, "values", values);
  return object;
}

/* ---- A file ---- */

struct ctl_results_file {
  const ctl_common *common;
  ctl_archive *archive;
  bool has_raw;
};

static int complain(const ctl_common *common, char *complaint) {
  if (!complaint) return CTL_OK;
  int status = ctl_complain(common, CTL_FILE, NULL, "%s", complaint);
  free(complaint);
  return status;
}

int ctl_results_file_create(const ctl_common *common, const char *path, ctl_results_file **out_file) {
  char *complaint = NULL;
  ctl_archive *archive = ctl_archive_create(path, &complaint);
  *out_file = NULL;
  if (!archive) return complain(common, complaint);
  *out_file = ctl_alloc(sizeof **out_file);
  **out_file = (ctl_results_file){.common = common, .archive = archive};
  return CTL_OK;
}

void ctl_results_file_add(ctl_results_file *file, const char *name, const pjrtc_value *value) {
  bool raw;
  const char *descr = ctl_numpy_descr(value->dtype, &raw);
  if (raw && !file->has_raw)
    fprintf(stderr, "note: numpy has no %s; %s holds its bytes as %s: in Python, array.view(ml_dtypes...)\n",
            pjrtc_dtype_name(value->dtype), name, descr);
  file->has_raw |= raw;
  pjrtc_type type = type_of(value);
  ctl_archive_add(file->archive, name, &type, value->data);
}

int ctl_results_file_finish(ctl_results_file *file) {
  int status = complain(file->common, ctl_archive_finish(file->archive));
  free(file);
  return status;
}

/* ---- Downloads ---- */

int ctl_results_download(const ctl_common *common, pjrtc_client *client, const uint64_t *buffers, size_t count,
                         uint64_t timeout_ns, pjrtc_value *values) {
  pjrtc_future **futures = ctl_alloc(count * sizeof *futures);
  pjrtc_error error;
  ctl_error_init(&error);
  int status = CTL_OK;
  for (size_t i = 0; !status && i < count; i++)
    if (buffers[i] && pjrtc_download_start(client, buffers[i], &values[i], timeout_ns, &futures[i], &error))
      status = ctl_fail(common, &error);
  for (size_t i = 0; i < count; i++) {
    if (!status && futures[i] && pjrtc_future_wait(futures[i], PJRTC_FOREVER, &error))
      status = ctl_fail(common, &error);
    pjrtc_future_destroy(futures[i]);
  }
  free(futures);
  free(error.detail);
  return status;
}

void ctl_results_free(pjrtc_value *values, size_t count) {
  for (size_t i = 0; values && i < count; i++) pjrtc_free(values[i].data);
  free(values);
}
