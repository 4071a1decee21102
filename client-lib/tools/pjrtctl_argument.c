/* See ctl_argument.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "ctl_argument.h"
#include "ctl_values.h"

#define SPELLING "TYPE[DIMENSIONS]=VALUES, as in f32[2,2]=1,2,3,4"

/* "f32[2,3]" or "f32", up to the '='. */
static char *read_type(const char *text, size_t length, ctl_argument *out) {
  char *type = ctl_text("%.*s", (int)length, text), *complaint = NULL;
  char *bracket = strchr(type, '[');
  if (bracket) {
    char *cursor = bracket + 1;
    *bracket = '\0';
    while (*cursor && *cursor != ']') {
      char *end;
      long long dim = strtoll(cursor, &end, 10);
      if (end == cursor || dim < 0 || out->rank == PJRTC_MAX_RANK || (*end != ',' && *end != ']')) break;
      out->dims[out->rank++] = dim;
      cursor = end + (*end == ',');
    }
    if (strcmp(cursor, "]") != 0) complaint = ctl_text("the dimensions are not as in %s", SPELLING);
  }
  out->dtype = pjrtc_dtype_from_name(type);
  if (!complaint && (out->dtype == PJRTC_DTYPE_INVALID || out->dtype == PJRTC_TOKEN))
    complaint = ctl_text(
        "\"%s\" is not an element type; pred, s8 to s64, u8 to u64, f16, bf16, f32, f64, c64, c128 "
        "are, and s4, u4, f8e4m3fn and others",
        type);
  free(type);
  return complaint;
}

static void set_strides(ctl_argument *argument) {
  int64_t stride = (int64_t)argument->array.item_bytes;
  for (uint32_t i = 0; i < argument->rank; i++) {
    argument->strides[i] = stride;
    stride *= argument->dims[i];
  }
  argument->strided = true;
}

static char *shape_text(const ctl_argument *argument, const ctl_array *array) {
  char wanted[160], found[160];
  pjrtc_type_format(&(pjrtc_type){argument->dtype, argument->rank, argument->dims}, wanted, sizeof wanted);
  pjrtc_type_format(&(pjrtc_type){array->dtype, array->rank, array->dims}, found, sizeof found);
  if (!array->dtype)
    return ctl_text("the file has raw elements of %zu bytes, %s, not %s", array->item_bytes, strchr(found, '['),
                    wanted);
  return ctl_text("the file has %s, not %s", found, wanted);
}

/* `typed`: the type was given, and the file must be of it. */
static char *read_file(const char *path, bool typed, ctl_argument *out) {
  ctl_array *array = &out->array;
  char *complaint = ctl_array_read(path, array);
  if (complaint) return complaint;
  if (!typed && array->dtype == PJRTC_DTYPE_INVALID)
    return ctl_text("%s: numpy does not know the type of its elements; say which it is, as in bf16[4]=@%s", path, path);
  if (!typed) {
    out->dtype = array->dtype;
    out->rank = array->rank;
    memcpy(out->dims, array->dims, sizeof out->dims);
  }
  if (!ctl_array_fits(array, out->dtype) || out->rank != array->rank ||
      memcmp(out->dims, array->dims, out->rank * sizeof *out->dims) != 0) {
    char *difference = shape_text(out, array);
    complaint = ctl_text("%s: %s", path, difference);
    free(difference);
    return complaint;
  }
  out->data = array->data;
  if (array->fortran_order && out->rank > 1) set_strides(out);
  return NULL;
}

static char *read_values(const char *text, ctl_argument *out) {
  pjrtc_error error = PJRTC_ERROR_INIT;
  uint64_t size_bytes;
  if (pjrtc_type_size(&(pjrtc_type){out->dtype, out->rank, out->dims}, &size_bytes, &error))
    return ctl_text("%s", error.message);
  out->owned = malloc(size_bytes ? size_bytes : 1);
  if (!out->owned) return ctl_text("no memory for %" PRIu64 " bytes", size_bytes);
  out->data = out->owned;
  if (strncmp(text, "hex:", 4) == 0) return ctl_values_read_hex(text + 4, out->owned, size_bytes);
  return ctl_values_read(out->dtype, text, out->owned, size_bytes / pjrtc_dtype_host_bytes(out->dtype));
}

char *ctl_argument_read(const char *text, ctl_argument *out_argument, bool *out_is_file) {
  memset(out_argument, 0, sizeof *out_argument);
  *out_is_file = false;
  if (strncmp(text, "slot:", 5) == 0) {
    out_argument->slot = text + 5;
    return text[5] ? NULL : ctl_text("slot: of which name?");
  }
  const char *equals = strchr(text, '='), *values = equals ? equals + 1 : text;
  if (!equals && text[0] != '@') return ctl_text("\"%s\" is not %s", text, SPELLING);
  bool typed = equals && text[0] != '@';
  if (!typed) values = text; /* a file's name may have a '=' */
  char *complaint = typed ? read_type(text, (size_t)(equals - text), out_argument) : NULL;
  if (!complaint && values[0] == '@') {
    *out_is_file = true;
    complaint = read_file(values + 1, typed, out_argument);
  } else if (!complaint) {
    complaint = read_values(values, out_argument);
  }
  if (complaint) ctl_argument_deinit(out_argument);
  return complaint;
}

pjrtc_upload_options ctl_argument_upload(const ctl_argument *argument) {
  return (pjrtc_upload_options){.struct_size = sizeof(pjrtc_upload_options),
                                .type = {argument->dtype, argument->rank, argument->dims},
                                .data = argument->data,
                                .byte_strides = argument->strided ? argument->strides : NULL};
}

void ctl_argument_deinit(ctl_argument *argument) {
  free(argument->owned);
  ctl_array_deinit(&argument->array);
  memset(argument, 0, sizeof *argument);
}
