/* See wire_type.h. Field numbers are those of proto/pjrtd/v1/common.proto. */
#include "wire_type.h"

enum { TYPE_DTYPE = 1, TYPE_DIMS = 2 };

static void add_dim(pjrtc_reader *reader, pjrtc_wire_type *type, uint64_t dim) {
  if (type->rank >= PJRTC_MAX_RANK)
    pjrtc_reader_fail(reader);
  else
    type->dims[type->rank++] = (int64_t)dim;
}

void pjrtc_wire_type_read(pjrtc_reader *reader, pjrtc_wire_type *out_type) {
  uint32_t field;
  unsigned wire_type;
  out_type->dtype = PJRTC_DTYPE_INVALID;
  out_type->rank = 0;
  while (pjrtc_field_next(reader, &field, &wire_type)) {
    if (field == TYPE_DTYPE && wire_type == PJRTC_WIRE_VARINT) {
      out_type->dtype = (pjrtc_dtype)pjrtc_varint_get(reader);
    } else if (field == TYPE_DIMS && wire_type == PJRTC_WIRE_BYTES) {
      pjrtc_reader dims = pjrtc_bytes_get(reader);
      while (dims.cursor < dims.end) add_dim(&dims, out_type, pjrtc_varint_get(&dims));
      if (dims.failed) pjrtc_reader_fail(reader);
    } else if (field == TYPE_DIMS && wire_type == PJRTC_WIRE_VARINT) {
      add_dim(reader, out_type, pjrtc_varint_get(reader));
    } else {
      pjrtc_field_skip(reader, wire_type);
    }
  }
}
