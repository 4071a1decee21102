/* Steps through a protobuf message's fields without copying or allocating. For messages that may hold a field of any
 * size which a decoder would copy. Any thread. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
  const uint8_t *at, *end; /* borrowed */
} pjrtd_wire_cursor;

typedef struct {
  uint32_t number;
  bool is_bytes;
  uint64_t value;       /* of a varint or fixed number */
  const uint8_t *bytes; /* of a length-delimited field, inside the message */
  size_t size;
} pjrtd_wire_field;

typedef enum { PJRTD_WIRE_FIELD, PJRTD_WIRE_END, PJRTD_WIRE_BROKEN } pjrtd_wire_step;

static inline pjrtd_wire_cursor pjrtd_wire_open(const uint8_t *bytes, size_t size) {
  return (pjrtd_wire_cursor){bytes, bytes + size};
}

pjrtd_wire_step pjrtd_wire_next(pjrtd_wire_cursor *cursor, pjrtd_wire_field *out_field);
