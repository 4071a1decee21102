/* Protobuf's wire format for what is written and read by hand: executes, runs, downloads, credits. Any thread; bounds
 * are the caller's on the writing side, checked on the reading side. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PJRTC_WIRE_VARINT = 0, PJRTC_WIRE_FIXED64 = 1, PJRTC_WIRE_BYTES = 2, PJRTC_WIRE_FIXED32 = 5 };

static inline size_t pjrtc_varint_size(uint64_t value) {
  return (size_t)(64 - __builtin_clzll(value | 1) + 6) / 7;
}

static inline uint8_t *pjrtc_varint_put(uint8_t *out, uint64_t value) {
  while (value >= 0x80) {
    *out++ = (uint8_t)(value | 0x80);
    value >>= 7;
  }
  *out++ = (uint8_t)value;
  return out;
}

/* Field numbers up to 15, so that a tag is one byte. */
static inline uint8_t *pjrtc_tag_put(uint8_t *out, unsigned field, unsigned wire_type) {
  *out++ = (uint8_t)(field << 3 | wire_type);
  return out;
}

/* A number's field, left out where it is 0. */
static inline size_t pjrtc_number_size(uint64_t value) {
  return value ? 1 + pjrtc_varint_size(value) : 0;
}

static inline uint8_t *pjrtc_number_put(uint8_t *out, unsigned field, uint64_t value) {
  return value ? pjrtc_varint_put(pjrtc_tag_put(out, field, PJRTC_WIRE_VARINT), value) : out;
}

/* A length-delimited field of so many bytes; and its head. */
static inline size_t pjrtc_bytes_size(size_t content_bytes) {
  return 1 + pjrtc_varint_size(content_bytes) + content_bytes;
}

static inline uint8_t *pjrtc_bytes_begin(uint8_t *out, unsigned field, size_t content_bytes) {
  return pjrtc_varint_put(pjrtc_tag_put(out, field, PJRTC_WIRE_BYTES), content_bytes);
}

/* What is left to read. A reader that failed stays at its end. */
typedef struct {
  const uint8_t *cursor;
  const uint8_t *end;
  bool failed;
} pjrtc_reader;

static inline pjrtc_reader pjrtc_reader_make(const uint8_t *data, size_t size_bytes) {
  return (pjrtc_reader){data, data + size_bytes, false};
}

static inline void pjrtc_reader_fail(pjrtc_reader *reader) {
  reader->failed = true;
  reader->cursor = reader->end;
}

static inline uint64_t pjrtc_varint_get(pjrtc_reader *reader) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && reader->cursor < reader->end; shift += 7) {
    uint8_t byte = *reader->cursor++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (byte < 0x80) return value;
  }
  pjrtc_reader_fail(reader);
  return 0;
}

/* A length-delimited field's content. */
static inline pjrtc_reader pjrtc_bytes_get(pjrtc_reader *reader) {
  uint64_t size_bytes = pjrtc_varint_get(reader);
  if (size_bytes > (uint64_t)(reader->end - reader->cursor)) pjrtc_reader_fail(reader);
  if (reader->failed) return (pjrtc_reader){reader->end, reader->end, true};
  pjrtc_reader inner = pjrtc_reader_make(reader->cursor, (size_t)size_bytes);
  reader->cursor = inner.end;
  return inner;
}

/* The next field's number and wire type; false at the end or where the tag is bad. */
static inline bool pjrtc_field_next(pjrtc_reader *reader, uint32_t *out_field, unsigned *out_wire_type) {
  if (reader->cursor >= reader->end) return false;
  uint64_t tag = pjrtc_varint_get(reader);
  if (reader->failed || tag >> 3 == 0 || tag >> 3 > 0x1fffffff) {
    pjrtc_reader_fail(reader);
    return false;
  }
  *out_field = (uint32_t)(tag >> 3);
  *out_wire_type = tag & 7;
  return true;
}

/* Passes over a field that the reader does not know. */
static inline void pjrtc_field_skip(pjrtc_reader *reader, unsigned wire_type) {
  size_t size_bytes = 0;
  switch (wire_type) {
    case PJRTC_WIRE_VARINT: pjrtc_varint_get(reader); return;
    case PJRTC_WIRE_BYTES: pjrtc_bytes_get(reader); return;
    case PJRTC_WIRE_FIXED64: size_bytes = 8; break;
    case PJRTC_WIRE_FIXED32: size_bytes = 4; break;
    default: pjrtc_reader_fail(reader); return;
  }
  if (size_bytes > (size_t)(reader->end - reader->cursor))
    pjrtc_reader_fail(reader);
  else
    reader->cursor += size_bytes;
}
