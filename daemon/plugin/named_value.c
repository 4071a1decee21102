/* Named values: PJRT's and ours, and their form on a command line. Any thread. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/pjrt_call.h"

#define MAX_NAME_BYTES 128
#define MAX_LIST_ITEMS 4096

void pjrtd_value_deinit(pjrtd_value *value) {
  pjrtd_free(value->name);
  pjrtd_free(value->text);
  pjrtd_free(value->integers);
  memset(value, 0, sizeof *value);
}

void pjrtd_values_destroy(pjrtd_value *values, size_t count) {
  for (size_t i = 0; values && i < count; i++) pjrtd_value_deinit(&values[i]);
  pjrtd_free(values);
}

pjrtd_status *pjrtd_value_copy(const pjrtd_value *value, pjrtd_value *out_value) {
  *out_value = *value;
  out_value->name = pjrtd_strdup(value->name);
  out_value->text = value->text ? pjrtd_strdup(value->text) : NULL;
  out_value->integers =
      value->integers ? pjrtd_memdup(value->integers, value->num_integers * sizeof *value->integers) : NULL;
  if (out_value->name && (out_value->text || !value->text) && (out_value->integers || !value->integers))
    return PJRTD_OK;
  pjrtd_value_deinit(out_value);
  return pjrtd_status_oom();
}

static pjrtd_status *value_from_pjrt(const PJRT_NamedValue *in, pjrtd_value *out) {
  PJRTD_TRY(pjrtd_plugin_copy_text(in->name, in->name_size, &out->name));
  switch (in->type) {
    case PJRT_NamedValue_kString:
      out->kind = PJRTD_VALUE_TEXT;
      return pjrtd_plugin_copy_text(in->string_value, in->value_size, &out->text);
    case PJRT_NamedValue_kInt64:
      out->kind = PJRTD_VALUE_INTEGER;
      out->integer = in->int64_value;
      return PJRTD_OK;
    case PJRT_NamedValue_kInt64List:
      out->kind = PJRTD_VALUE_INTEGERS;
      out->num_integers = in->int64_array_value ? in->value_size : 0;
      if (out->num_integers > SIZE_MAX / sizeof *out->integers) return pjrtd_status_oom();
      out->integers = pjrtd_memdup(in->int64_array_value, out->num_integers * sizeof *out->integers);
      return out->integers ? PJRTD_OK : pjrtd_status_oom();
    case PJRT_NamedValue_kFloat:
      out->kind = PJRTD_VALUE_REAL;
      out->real = (double)in->float_value;
      return PJRTD_OK;
    case PJRT_NamedValue_kBool:
      out->kind = PJRTD_VALUE_BOOLEAN;
      out->integer = in->bool_value;
      return PJRTD_OK;
  }
  out->kind = PJRTD_VALUE_TEXT;
  out->text = pjrtd_strdup("(a value of a kind that pjrtd does not know)");
  return out->text ? PJRTD_OK : pjrtd_status_oom();
}

pjrtd_status *pjrtd_values_from_pjrt(const PJRT_NamedValue *values, size_t count, pjrtd_value **out_values) {
  *out_values = NULL;
  if (!values) count = 0;
  pjrtd_value *copies = pjrtd_calloc(count, sizeof *copies);
  if (!copies) return pjrtd_status_oom();
  /* The elements lie as far apart as the plugin's own struct is long. */
  size_t stride = sizeof *values;
  if (count && values->struct_size > stride) stride = (values->struct_size + 7) & ~(size_t)7;
  for (size_t i = 0; i < count; i++) {
    pjrtd_status *status = value_from_pjrt((const PJRT_NamedValue *)((const char *)values + i * stride), &copies[i]);
    if (status) {
      pjrtd_values_destroy(copies, count);
      return status;
    }
  }
  *out_values = copies;
  return PJRTD_OK;
}

PJRT_NamedValue pjrtd_value_to_pjrt(const pjrtd_value *value) {
  PJRT_NamedValue out = {.struct_size = PJRT_NamedValue_STRUCT_SIZE,
                         .name = value->name,
                         .name_size = strlen(value->name),
                         .value_size = 1};
  switch (value->kind) {
    case PJRTD_VALUE_TEXT:
      out.type = PJRT_NamedValue_kString;
      out.string_value = value->text;
      out.value_size = strlen(value->text);
      break;
    case PJRTD_VALUE_INTEGER:
      out.type = PJRT_NamedValue_kInt64;
      out.int64_value = value->integer;
      break;
    case PJRTD_VALUE_REAL:
      out.type = PJRT_NamedValue_kFloat;
      out.float_value = (float)value->real;
      break;
    case PJRTD_VALUE_BOOLEAN:
      out.type = PJRT_NamedValue_kBool;
      out.bool_value = value->integer != 0;
      break;
    case PJRTD_VALUE_INTEGERS:
      out.type = PJRT_NamedValue_kInt64List;
      out.int64_array_value = value->integers;
      out.value_size = value->num_integers;
      break;
  }
  return out;
}

static bool parse_integer(const char *text, int64_t *out) {
  char *end;
  errno = 0;
  long long value = strtoll(text, &end, 10);
  *out = value;
  return *text && !*end && !errno;
}

static bool parse_real(const char *text, double *out) {
  char *end;
  errno = 0;
  *out = strtod(text, &end);
  return *text && !*end && !errno;
}

static bool parse_boolean(const char *text, int64_t *out) {
  *out = strcmp(text, "true") == 0;
  return *out || strcmp(text, "false") == 0;
}

/* "1,2,3"; one number alone is a list only where the caller asked for one. */
static pjrtd_status *parse_list(const char *text, pjrtd_value *out, bool *out_is_list) {
  *out_is_list = false;
  size_t count = 1;
  for (const char *at = text; *at; at++) count += *at == ',';
  if (count > MAX_LIST_ITEMS) return PJRTD_OK;
  PJRTD_AUTO_FREE char *copy = pjrtd_strdup(text);
  int64_t *integers = pjrtd_malloc(count * sizeof *integers);
  if (!copy || !integers) {
    pjrtd_free(integers);
    return pjrtd_status_oom();
  }
  char *at = copy;
  size_t parsed = 0;
  for (char *item; (item = strsep(&at, ",")) != NULL; parsed++) {
    if (!parse_integer(item, &integers[parsed])) {
      pjrtd_free(integers);
      return PJRTD_OK;
    }
  }
  out->kind = PJRTD_VALUE_INTEGERS;
  out->integers = integers;
  out->num_integers = count;
  *out_is_list = true;
  return PJRTD_OK;
}

static pjrtd_status *parse_as(char kind, const char *text, pjrtd_value *out) {
  bool fits = false;
  const char *wanted = "";
  switch (kind) {
    case 's':
      out->kind = PJRTD_VALUE_TEXT;
      out->text = pjrtd_strdup(text);
      return out->text ? PJRTD_OK : pjrtd_status_oom();
    case 'i':
      out->kind = PJRTD_VALUE_INTEGER;
      fits = parse_integer(text, &out->integer);
      wanted = "an integer";
      break;
    case 'f':
      out->kind = PJRTD_VALUE_REAL;
      fits = parse_real(text, &out->real);
      wanted = "a real number";
      break;
    case 'b':
      out->kind = PJRTD_VALUE_BOOLEAN;
      fits = parse_boolean(text, &out->integer);
      wanted = "true or false";
      break;
    case 'l':
      PJRTD_TRY(parse_list(text, out, &fits));
      wanted = "a list of integers";
      break;
    default:
      return PJRTD_INVALID(
          "option %s has the kind '%c'; kinds are s (text), i (integer), f (real), b (boolean), l (list)", out->name,
          kind);
  }
  return fits ? PJRTD_OK : PJRTD_INVALID("option %s: \"%s\" is not %s", out->name, text, wanted);
}

static pjrtd_status *parse_by_look(const char *text, pjrtd_value *out) {
  if (parse_boolean(text, &out->integer)) {
    out->kind = PJRTD_VALUE_BOOLEAN;
  } else if (parse_integer(text, &out->integer)) {
    out->kind = PJRTD_VALUE_INTEGER;
  } else if (parse_real(text, &out->real)) {
    out->kind = PJRTD_VALUE_REAL;
  } else {
    bool is_list;
    PJRTD_TRY(parse_list(text, out, &is_list));
    if (!is_list) return parse_as('s', text, out);
  }
  return PJRTD_OK;
}

pjrtd_status *pjrtd_value_parse(const char *text, pjrtd_value *out_value) {
  memset(out_value, 0, sizeof *out_value);
  const char *equals = strchr(text, '=');
  if (!equals || equals == text)
    return pjrtd_status_with_hint(PJRTD_INVALID("\"%s\" is not an option", text),
                                  "options are NAME=VALUE, or NAME:i=VALUE to say the kind");
  size_t name_bytes = (size_t)(equals - text);
  char kind = 0;
  if (name_bytes > 2 && text[name_bytes - 2] == ':') {
    kind = text[name_bytes - 1];
    name_bytes -= 2;
  }
  if (name_bytes > MAX_NAME_BYTES)
    return PJRTD_INVALID("an option's name has %zu bytes, at most %d are allowed", name_bytes, MAX_NAME_BYTES);
  out_value->name = pjrtd_strndup(text, name_bytes);
  if (!out_value->name) return pjrtd_status_oom();
  pjrtd_status *status = kind ? parse_as(kind, equals + 1, out_value) : parse_by_look(equals + 1, out_value);
  if (status) pjrtd_value_deinit(out_value);
  return status;
}
