/* See wire_cursor.h. */
#include "plugin/wire_cursor.h"

#include <string.h>

static bool read_varint(pjrtd_wire_cursor *cursor, uint64_t *out) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += 7) {
    if (cursor->at == cursor->end) return false;
    uint8_t byte = *cursor->at++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte & 0x80) continue;
    *out = value;
    return true;
  }
  return false;
}

static bool read_fixed(pjrtd_wire_cursor *cursor, size_t size, uint64_t *out) {
  if ((size_t)(cursor->end - cursor->at) < size) return false;
  *out = 0;
  memcpy(out, cursor->at, size); /* little-endian, as the host (proto/frame.h) */
  cursor->at += size;
  return true;
}

pjrtd_wire_step pjrtd_wire_next(pjrtd_wire_cursor *cursor, pjrtd_wire_field *out_field) {
  memset(out_field, 0, sizeof *out_field);
  if (cursor->at == cursor->end) return PJRTD_WIRE_END;
  uint64_t tag;
  if (!read_varint(cursor, &tag) || tag >> 3 == 0 || tag >> 3 > 0x1fffffff) return PJRTD_WIRE_BROKEN;
  out_field->number = (uint32_t)(tag >> 3);
  bool whole = false;
  switch (tag & 7) {
    case 0: whole = read_varint(cursor, &out_field->value); break;
    case 1: whole = read_fixed(cursor, 8, &out_field->value); break;
    case 5: whole = read_fixed(cursor, 4, &out_field->value); break;
    case 2: {
      uint64_t size;
      whole = read_varint(cursor, &size) && size <= (uint64_t)(cursor->end - cursor->at);
      if (!whole) break;
      out_field->is_bytes = true;
      out_field->bytes = cursor->at;
      out_field->size = (size_t)size;
      cursor->at += size;
      break;
    }
    default: break; /* groups are not used by anything that pjrtd reads */
  }
  return whole ? PJRTD_WIRE_FIELD : PJRTD_WIRE_BROKEN;
}
