/* See convert.h. */
#include "service/convert.h"

#include <string.h>

#include "base/utf8.h"

/* An error must fit a frame, with room for the rest of it. */
#define ERROR_TEXT_MAX_BYTES (960u << 10)

const char *pjrtd_valid_text(const char *text, char **slot) {
  size_t length = 0, step;
  uint32_t point;
  while (text[length] && (step = pjrtd_utf8_decode(text + length, 4, &point))) length += step;
  if (!text[length] && length <= ERROR_TEXT_MAX_BYTES) return text;
  pjrtd_free(*slot);
  size_t size = strlen(text);
  *slot = pjrtd_utf8_mend(text, size < ERROR_TEXT_MAX_BYTES ? size : ERROR_TEXT_MAX_BYTES);
  return *slot ? *slot : "out of memory for the error's text";
}

static void fill_shortage(pjrtd_error_message *out_message, const pjrtd_shortage *shortage) {
  Pjrtd__V1__Error *error = &out_message->message;
  if (shortage->setting) {
    pjrtd__v1__quota_use__init(&out_message->quota);
    out_message->quota.setting = (char *)shortage->setting;
    out_message->quota.used = shortage->used;
    out_message->quota.allowed = shortage->allowed;
    error->quota = &out_message->quota;
    error->needed = shortage->needed;
  }
  for (size_t i = 0; i < shortage->num_biggest; i++) {
    const pjrtd_buffer_detail *from = &shortage->biggest[i];
    Pjrtd__V1__BufferDetail *to = out_message->biggest_list[i] = &out_message->biggest[i];
    pjrtd__v1__buffer_detail__init(to);
    to->session = from->session;
    to->buffer = from->buffer;
    to->bytes = from->bytes;
    to->type = (char *)from->type;
    to->device = from->device;
    to->slot = (char *)from->slot;
  }
  error->biggest = out_message->biggest_list;
  error->n_biggest = shortage->num_biggest;
  for (size_t i = 0; i < shortage->num_allocator; i++) {
    Pjrtd__V1__Attribute *to = out_message->allocator_list[i] = &out_message->allocator[i];
    pjrtd__v1__attribute__init(to);
    to->name = (char *)shortage->allocator[i].name;
    to->value_case = PJRTD__V1__ATTRIBUTE__VALUE_INTEGER;
    to->integer = shortage->allocator[i].value;
  }
  error->allocator = out_message->allocator_list;
  error->n_allocator = shortage->num_allocator;
}

void pjrtd_error_message_fill(pjrtd_error_message *out_message, const pjrtd_status *status) {
  static char *mended;
  pjrtd__v1__error__init(&out_message->message);
  out_message->message.code = pjrtd_status_code(status);
  out_message->message.message = (char *)pjrtd_valid_text(pjrtd_status_message(status), &mended);
  out_message->message.hint = (char *)pjrtd_status_hint(status);
  out_message->message.origin_call = pjrtd_status_origin(status);
  out_message->message.retry_after_ns = pjrtd_status_retry_ns(status);
  if (pjrtd_status_has_argument(status)) {
    pjrtd__v1__argument_detail__init(&out_message->argument);
    out_message->argument.index = pjrtd_status_argument_index(status);
    out_message->argument.expected = (char *)pjrtd_status_argument_expected(status);
    out_message->argument.actual = (char *)pjrtd_status_argument_actual(status);
    out_message->message.argument = &out_message->argument;
  }
  if (pjrtd_status_shortage(status)) fill_shortage(out_message, pjrtd_status_shortage(status));
}

void pjrtd_type_message_fill(Pjrtd__V1__TensorType *out_message, const pjrtd_tensor_type *type) {
  pjrtd__v1__tensor_type__init(out_message);
  out_message->dtype = (Pjrtd__V1__DType)type->dtype;
  out_message->n_dims = type->rank;
  out_message->dims = (int64_t *)type->dims;
}

void pjrtd_layout_message_fill(pjrtd_layout_message *out_message, const pjrtd_layout *layout) {
  pjrtd__v1__layout__init(&out_message->message);
  out_message->message.minor_to_major = (int64_t *)layout->minor_to_major;
  out_message->message.n_minor_to_major = layout->rank;
  const int64_t *dims = layout->tile_dims;
  for (uint32_t i = 0; i < layout->num_tiles; i++) {
    pjrtd__v1__tile__init(&out_message->tiles[i]);
    out_message->tiles[i].dims = (int64_t *)dims;
    out_message->tiles[i].n_dims = layout->tile_ranks[i];
    dims += layout->tile_ranks[i];
    out_message->tile_list[i] = &out_message->tiles[i];
  }
  out_message->message.tiles = out_message->tile_list;
  out_message->message.n_tiles = layout->num_tiles;
}

pjrtd_tensor_type pjrtd_type_of_message(const Pjrtd__V1__TensorType *message) {
  if (!message) return (pjrtd_tensor_type){0};
  return (pjrtd_tensor_type){
      .dtype = (pjrtd_dtype)message->dtype,
      /* A rank beyond uint32 cannot come in a frame; one beyond the maximum is refused by name. */
      .rank = (uint32_t)message->n_dims,
      .dims = message->dims,
  };
}

Pjrtd__V1__Attribute **pjrtd_attributes_make(const pjrtd_value *values, size_t count, bool *out_ok) {
  typedef struct {
    Pjrtd__V1__Attribute attribute;
    Pjrtd__V1__IntegerList integers;
  } part;
  *out_ok = true;
  if (!count) return NULL;
  size_t parts_at = (count * sizeof(void *) + 15) & ~(size_t)15;
  char *block = pjrtd_malloc(parts_at + count * sizeof(part));
  *out_ok = block != NULL;
  if (!block) return NULL;
  Pjrtd__V1__Attribute **attributes = (Pjrtd__V1__Attribute **)block;
  part *parts = (part *)(block + parts_at);
  for (size_t i = 0; i < count; i++) {
    Pjrtd__V1__Attribute *attribute = attributes[i] = &parts[i].attribute;
    pjrtd__v1__attribute__init(attribute);
    attribute->name = values[i].name;
    switch (values[i].kind) {
      case PJRTD_VALUE_TEXT:
        attribute->value_case = PJRTD__V1__ATTRIBUTE__VALUE_TEXT;
        attribute->text = values[i].text;
        break;
      case PJRTD_VALUE_INTEGER:
        attribute->value_case = PJRTD__V1__ATTRIBUTE__VALUE_INTEGER;
        attribute->integer = values[i].integer;
        break;
      case PJRTD_VALUE_REAL:
        attribute->value_case = PJRTD__V1__ATTRIBUTE__VALUE_REAL;
        attribute->real = values[i].real;
        break;
      case PJRTD_VALUE_BOOLEAN:
        attribute->value_case = PJRTD__V1__ATTRIBUTE__VALUE_BOOLEAN;
        attribute->boolean = values[i].integer != 0;
        break;
      case PJRTD_VALUE_INTEGERS:
        attribute->value_case = PJRTD__V1__ATTRIBUTE__VALUE_INTEGERS;
        pjrtd__v1__integer_list__init(&parts[i].integers);
        parts[i].integers.values = values[i].integers;
        parts[i].integers.n_values = values[i].num_integers;
        attribute->integers = &parts[i].integers;
        break;
    }
  }
  return attributes;
}

pjrtd_value *pjrtd_values_of_attributes(Pjrtd__V1__Attribute *const *attributes, size_t count) {
  pjrtd_value *values = pjrtd_calloc(count, sizeof *values);
  if (!values) return NULL;
  for (size_t i = 0; i < count; i++) {
    const Pjrtd__V1__Attribute *attribute = attributes[i];
    values[i].name = attribute->name;
    switch (attribute->value_case) {
      case PJRTD__V1__ATTRIBUTE__VALUE_INTEGER:
        values[i].kind = PJRTD_VALUE_INTEGER;
        values[i].integer = attribute->integer;
        break;
      case PJRTD__V1__ATTRIBUTE__VALUE_REAL:
        values[i].kind = PJRTD_VALUE_REAL;
        values[i].real = attribute->real;
        break;
      case PJRTD__V1__ATTRIBUTE__VALUE_BOOLEAN:
        values[i].kind = PJRTD_VALUE_BOOLEAN;
        values[i].integer = attribute->boolean;
        break;
      case PJRTD__V1__ATTRIBUTE__VALUE_INTEGERS:
        values[i].kind = PJRTD_VALUE_INTEGERS;
        values[i].integers = attribute->integers->values;
        values[i].num_integers = attribute->integers->n_values;
        break;
      default:
        values[i].kind = PJRTD_VALUE_TEXT;
        values[i].text = attribute->value_case == PJRTD__V1__ATTRIBUTE__VALUE_TEXT ? attribute->text : "";
        break;
    }
  }
  return values;
}
