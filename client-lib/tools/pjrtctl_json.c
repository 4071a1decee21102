/* See ctl_json.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "ctl_json.h"

json_t *ctl_json_text(const char *text) {
  json_t *value = json_string(text);
  if (value) return value;
  /* Not UTF-8. */
  char *clean = ctl_text("%s", text);
  for (char *c = clean; *c; c++)
    if ((unsigned char)*c >= 0x80) *c = '?';
  value = json_string(clean);
  free(clean);
  return value;
}

/* What JSON's readers cannot hold exactly as an integer is a string. */
json_t *ctl_json_unsigned(uint64_t value) {
  char text[24];
  if (value <= INT64_MAX) return json_integer((json_int_t)value);
  snprintf(text, sizeof text, "%" PRIu64, value);
  return json_string(text);
}

json_t *ctl_json_integers(const int32_t *values, size_t count) {
  json_t *array = json_array();
  for (size_t i = 0; i < count; i++) json_array_append_new(array, json_integer(values[i]));
  return array;
}

static json_t *attribute(const pjrtc_attribute *from) {
  json_t *array;
  switch (from->kind) {
    case PJRTC_ATTRIBUTE_TEXT: return ctl_json_text(from->text);
    case PJRTC_ATTRIBUTE_INTEGER: return json_integer(from->integer);
    case PJRTC_ATTRIBUTE_REAL: array = json_real(from->real); return array ? array : json_null();
    case PJRTC_ATTRIBUTE_BOOLEAN: return json_boolean(from->boolean);
    case PJRTC_ATTRIBUTE_INTEGERS:
      array = json_array();
      for (size_t i = 0; i < from->num_integers; i++) json_array_append_new(array, json_integer(from->integers[i]));
      return array;
    default: return json_null();
  }
}

json_t *ctl_json_attributes(const pjrtc_attribute *attributes, size_t count) {
  json_t *object = json_object();
  for (size_t i = 0; i < count; i++) json_object_set_new(object, attributes[i].name, attribute(&attributes[i]));
  return object;
}

void ctl_json_print(json_t *value) {
  json_dumpf(value, stdout, JSON_INDENT(2));
  putchar('\n');
  json_decref(value);
}

char *ctl_attribute_text(const pjrtc_attribute *attribute) {
  switch (attribute->kind) {
    case PJRTC_ATTRIBUTE_TEXT: return ctl_text("%s", attribute->text);
    case PJRTC_ATTRIBUTE_INTEGER: return ctl_text("%" PRId64, attribute->integer);
    case PJRTC_ATTRIBUTE_REAL: return ctl_text("%g", attribute->real);
    case PJRTC_ATTRIBUTE_BOOLEAN: return ctl_text("%s", attribute->boolean ? "true" : "false");
    case PJRTC_ATTRIBUTE_INTEGERS: {
      char *text = ctl_text("%s", "");
      for (size_t i = 0; i < attribute->num_integers; i++) {
        char *longer = ctl_text("%s%s%" PRId64, text, i ? "," : "", attribute->integers[i]);
        free(text);
        text = longer;
      }
      return text;
    }
    default: return ctl_text("%s", "");
  }
}
