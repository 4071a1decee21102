/* Every request of the method table, and the payloads of control frames, as the daemon decodes them: under its arena's
 * cap. The first byte chooses the message. What decodes is read to its last byte and packs to something that decodes
 * again. */
#include <protobuf-c/protobuf-c.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "service/messages.h"

#define CAP_BYTES (32u << 20)

static const ProtobufCMessageDescriptor *const messages[] = {
#define PJRTD_METHOD(id, family, Name, name, Request, Reply, right) PJRTD_DESCRIPTOR_##Request,
#include "proto/methods.def"
#undef PJRTD_METHOD
    &pjrtd__v1__credit__descriptor,
    &pjrtd__v1__error__descriptor,
    &pjrtd__v1__frames__descriptor,
};

static void *take(void *arena, size_t size_bytes) {
  return pjrtd_arena_alloc(arena, size_bytes);
}
static void leave(void *arena, void *block) {}

/* Read through this, so that the compiler keeps the reads. */
static volatile uint64_t sink;

static void touch(const void *data, size_t size_bytes) {
  for (size_t i = 0; i < size_bytes; i++) sink += ((const uint8_t *)data)[i];
}

static void walk(const ProtobufCMessage *message, int depth);

static size_t width_of(ProtobufCType type) {
  switch (type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_SINT64:
    case PROTOBUF_C_TYPE_SFIXED64:
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64:
    case PROTOBUF_C_TYPE_DOUBLE: return 8;
    case PROTOBUF_C_TYPE_BOOL: return sizeof(protobuf_c_boolean);
    case PROTOBUF_C_TYPE_STRING:
    case PROTOBUF_C_TYPE_MESSAGE: return sizeof(void *);
    case PROTOBUF_C_TYPE_BYTES: return sizeof(ProtobufCBinaryData);
    default: return 4;
  }
}

static void walk_value(const ProtobufCFieldDescriptor *field, const void *place, int depth) {
  if (field->type == PROTOBUF_C_TYPE_STRING) {
    const char *text = *(const char *const *)place;
    if (text) touch(text, strlen(text));
  } else if (field->type == PROTOBUF_C_TYPE_BYTES) {
    const ProtobufCBinaryData *bytes = place;
    touch(bytes->data, bytes->len);
  } else if (field->type == PROTOBUF_C_TYPE_MESSAGE) {
    const ProtobufCMessage *inner = *(const ProtobufCMessage *const *)place;
    if (inner) walk(inner, depth + 1);
  } else {
    touch(place, width_of(field->type));
  }
}

static void walk(const ProtobufCMessage *message, int depth) {
  if (depth > 16) abort(); /* the schema is not recursive */
  for (unsigned i = 0; i < message->descriptor->n_fields; i++) {
    const ProtobufCFieldDescriptor *field = &message->descriptor->fields[i];
    const uint8_t *place = (const uint8_t *)message + field->offset;
    if (field->label == PROTOBUF_C_LABEL_REPEATED) {
      size_t count = *(const size_t *)((const uint8_t *)message + field->quantifier_offset);
      const uint8_t *list = *(const uint8_t *const *)place;
      for (size_t k = 0; k < count; k++) walk_value(field, list + k * width_of(field->type), depth);
    } else if (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) {
      if (*(const uint32_t *)((const uint8_t *)message + field->quantifier_offset) == field->id)
        walk_value(field, place, depth);
    } else {
      walk_value(field, place, depth);
    }
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size_bytes) {
  if (size_bytes < 1) return 0;
  const ProtobufCMessageDescriptor *descriptor = messages[data[0] % (sizeof messages / sizeof *messages)];
  pjrtd_arena arena;
  pjrtd_arena_init(&arena, CAP_BYTES);
  ProtobufCAllocator allocator = {.alloc = take, .free = leave, .allocator_data = &arena};
  ProtobufCMessage *message = protobuf_c_message_unpack(descriptor, &allocator, size_bytes - 1, data + 1);
  if (message) {
    walk(message, 0);
    size_t packed_bytes = protobuf_c_message_get_packed_size(message);
    uint8_t *packed = malloc(packed_bytes ? packed_bytes : 1);
    if (packed) {
      if (protobuf_c_message_pack(message, packed) != packed_bytes) abort();
      pjrtd_arena_reset(&arena);
      ProtobufCMessage *again = protobuf_c_message_unpack(descriptor, &allocator, packed_bytes, packed);
      /* Unknown fields take more room the second time only if they took some the first time: the cap may be hit. */
      if (again) walk(again, 0);
    }
    free(packed);
  }
  pjrtd_arena_deinit(&arena);
  return 0;
}
