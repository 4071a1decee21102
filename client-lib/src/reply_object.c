/* See reply_object.h: what all objects have in common. */
#include "reply_object.h"

#include "operation.h"
#include "pjrtd/v1/common.pb-c.h"

pjrtc_failure *pjrtc_reply_object_read(pjrtc_reply_object_reader *reader, const uint8_t *payload, size_t payload_bytes,
                                       const char *name, void **out_object) {
  *out_object = NULL;
  pjrtc_reply_arena *arena = pjrtc_reply_arena_create();
  if (!arena) return pjrtc_failure_oom();
  void *object = reader(arena, payload, payload_bytes);
  if (!object) return pjrtc_op_decoded(arena, false, name);
  *out_object = object;
  return NULL;
}

const pjrtc_attribute *pjrtc_read_attributes(pjrtc_reply_arena *arena, size_t count,
                                             Pjrtd__V1__Attribute *const *messages) {
  pjrtc_attribute *attributes = pjrtc_reply_arena_zalloc(arena, count * sizeof *attributes);
  for (size_t i = 0; attributes && i < count; i++) {
    const Pjrtd__V1__Attribute *message = messages[i];
    pjrtc_attribute *out = &attributes[i];
    out->name = message->name;
    out->text = "";
    switch (message->value_case) {
      case PJRTD__V1__ATTRIBUTE__VALUE_TEXT:
        out->kind = PJRTC_ATTRIBUTE_TEXT;
        out->text = message->text;
        break;
      case PJRTD__V1__ATTRIBUTE__VALUE_INTEGER:
        out->kind = PJRTC_ATTRIBUTE_INTEGER;
        out->integer = message->integer;
        break;
      case PJRTD__V1__ATTRIBUTE__VALUE_REAL:
        out->kind = PJRTC_ATTRIBUTE_REAL;
        out->real = message->real;
        break;
      case PJRTD__V1__ATTRIBUTE__VALUE_BOOLEAN:
        out->kind = PJRTC_ATTRIBUTE_BOOLEAN;
        out->boolean = message->boolean;
        break;
      case PJRTD__V1__ATTRIBUTE__VALUE_INTEGERS:
        out->kind = PJRTC_ATTRIBUTE_INTEGERS;
        out->num_integers = message->integers ? message->integers->n_values : 0;
        out->integers = message->integers ? message->integers->values : NULL;
        break;
      default: break;
    }
  }
  return attributes;
}
