/* See grpc_wire.h. The fields of Frame are those of pjrtd/v1/frame.proto. */
#include "proto/grpc_wire.h"

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };
enum { FRAME_CALL = 1, FRAME_METHOD, FRAME_KIND, FRAME_FLAGS, FRAME_DEADLINE, FRAME_PAYLOAD };

static size_t varint_size(uint64_t value) {
  size_t bytes = 1;
  while (value >= 0x80) {
    value >>= 7;
    bytes++;
  }
  return bytes;
}

static uint8_t *put_varint(uint8_t *out, uint64_t value) {
  while (value >= 0x80) {
    *out++ = (uint8_t)(value | 0x80);
    value >>= 7;
  }
  *out++ = (uint8_t)value;
  return out;
}

static uint8_t *put_number(uint8_t *out, uint32_t field, uint64_t value) {
  if (!value) return out;
  *out++ = (uint8_t)(field << 3 | WIRE_VARINT);
  return put_varint(out, value);
}

static bool get_varint(grpc_bytes *from, uint64_t *out_value) {
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64 && from->at < from->end; shift += 7) {
    uint8_t byte = *from->at++;
    value |= (uint64_t)(byte & 0x7f) << shift;
    if (!(byte & 0x80)) {
      *out_value = value;
      return true;
    }
  }
  return false;
}

typedef struct {
  uint32_t number;
  uint8_t type;
  uint64_t value;   /* of a varint */
  grpc_bytes bytes; /* of a length-delimited one */
} wire_field;

static bool get_field(grpc_bytes *from, wire_field *out_field) {
  uint64_t tag, length;
  if (!get_varint(from, &tag) || tag >> 3 == 0 || tag >> 3 > UINT32_MAX >> 3) return false;
  *out_field = (wire_field){.number = (uint32_t)(tag >> 3), .type = tag & 7};
  switch (out_field->type) {
    case WIRE_VARINT: return get_varint(from, &out_field->value);
    case WIRE_FIXED64: length = 8; break;
    case WIRE_FIXED32: length = 4; break;
    case WIRE_BYTES:
      if (!get_varint(from, &length)) return false;
      break;
    default: return false;
  }
  if (length > (size_t)(from->end - from->at)) return false;
  out_field->bytes = (grpc_bytes){from->at, from->at + length};
  from->at += length;
  return true;
}

size_t grpc_wire_bulk_tag(size_t bulk_bytes, uint8_t *out) {
  *out = GRPC_BULK_FIELD << 3 | WIRE_BYTES;
  return (size_t)(put_varint(out + 1, bulk_bytes) - out);
}

grpc_frame_shape grpc_wire_frame_begin(const pjrtd_frame_header *header, uint8_t *out) {
  uint8_t fields[GRPC_FRAME_OVERHEAD_BYTES], *end = fields;
  end = put_number(end, FRAME_CALL, header->call);
  end = put_number(end, FRAME_METHOD, header->method);
  end = put_number(end, FRAME_KIND, header->kind);
  end = put_number(end, FRAME_FLAGS, header->quiet ? PJRTD_FRAME_QUIET : 0);
  end = put_number(end, FRAME_DEADLINE, header->deadline_ns);
  if (header->payload_bytes) {
    *end++ = FRAME_PAYLOAD << 3 | WIRE_BYTES;
    end = put_varint(end, header->payload_bytes);
  }
  size_t fields_bytes = (size_t)(end - fields);
  size_t bulk_tag_bytes = header->bulk_bytes ? 1 + varint_size(header->bulk_bytes) : 0;
  size_t frame_bytes = fields_bytes + header->payload_bytes + bulk_tag_bytes + header->bulk_bytes;
  *out = 1 << 3 | WIRE_BYTES; /* Frames.frames */
  uint8_t *at = put_varint(out + 1, frame_bytes);
  memcpy(at, fields, fields_bytes);
  at += fields_bytes;
  grpc_frame_shape shape = {.payload_at = (size_t)(at - out)};
  at += header->payload_bytes;
  if (header->bulk_bytes) at += grpc_wire_bulk_tag(header->bulk_bytes, at);
  shape.bulk_at = (size_t)(at - out);
  shape.total_bytes = shape.bulk_at + header->bulk_bytes;
  return shape;
}

static const char *check(pjrtd_frame_header *header, uint64_t method, uint64_t kind, uint64_t flags,
                         uint64_t payload_bytes, uint64_t bulk_bytes) {
  /* What does not fit the header of the local socket breaks a rule there too. */
  if (method > UINT16_MAX) return "the method is over 65535";
  if (kind > UINT8_MAX) return "the kind is unknown";
  if (flags & ~(uint64_t)PJRTD_FRAME_QUIET) return "unknown flags are set";
  if (payload_bytes > PJRTD_FRAME_MAX_PAYLOAD_BYTES) return "the payload is over 1 MiB";
  if (bulk_bytes > PJRTD_FRAME_MAX_ITEM_BYTES) return "the bulk is over 1 MiB";
  header->method = (uint16_t)method;
  header->kind = (uint8_t)kind;
  header->quiet = flags & PJRTD_FRAME_QUIET;
  header->payload_bytes = (uint32_t)payload_bytes;
  header->bulk_bytes = (uint32_t)bulk_bytes;
  uint8_t bytes[PJRTD_FRAME_HEADER_BYTES];
  pjrtd_frame_encode(header, bytes);
  return pjrtd_frame_decode(bytes, header);
}

const char *grpc_wire_frame_next(grpc_bytes *message, bool *out_any, pjrtd_frame_header *out_header,
                                 const uint8_t **out_payload, const uint8_t **out_bulk) {
  static const uint8_t nothing[1];
  memset(out_header, 0, sizeof *out_header);
  *out_any = false;
  *out_payload = *out_bulk = nothing;
  wire_field field;
  for (;;) {
    if (message->at == message->end) return NULL;
    if (!get_field(message, &field)) return "the message is not a Frames";
    if (field.number == 1) break;
  }
  if (field.type != WIRE_BYTES) return "the message is not a Frames";
  grpc_bytes frame = field.bytes;
  uint64_t method = 0, kind = 0, flags = 0;
  size_t payload_bytes = 0, bulk_bytes = 0;
  while (frame.at < frame.end) {
    if (!get_field(&frame, &field)) return "the frame cannot be decoded";
    bool bytes_wanted = field.number == FRAME_PAYLOAD || field.number == GRPC_BULK_FIELD;
    if (bytes_wanted ? field.type != WIRE_BYTES : field.number <= FRAME_DEADLINE && field.type != WIRE_VARINT)
      return "a field of the frame has the wrong type";
    switch (field.number) {
      case FRAME_CALL: out_header->call = field.value; break;
      case FRAME_METHOD: method = field.value; break;
      case FRAME_KIND: kind = field.value; break;
      case FRAME_FLAGS: flags = field.value; break;
      case FRAME_DEADLINE: out_header->deadline_ns = field.value; break;
      case FRAME_PAYLOAD:
        *out_payload = field.bytes.at;
        payload_bytes = (size_t)(field.bytes.end - field.bytes.at);
        break;
      case GRPC_BULK_FIELD:
        *out_bulk = field.bytes.at;
        bulk_bytes = (size_t)(field.bytes.end - field.bytes.at);
        break;
      default: break;
    }
  }
  *out_any = true;
  return check(out_header, method, kind, flags, payload_bytes, bulk_bytes);
}

size_t grpc_wire_frames_within(const uint8_t *message, size_t bytes, size_t most_bytes) {
  if (bytes <= most_bytes) return bytes;
  grpc_bytes from = {message, message + bytes};
  size_t whole = 0;
  wire_field frame;
  while (from.at < from.end && get_field(&from, &frame)) {
    size_t end = (size_t)(from.at - message);
    if (whole && end > most_bytes) break;
    whole = end;
  }
  return whole;
}

const char *grpc_wire_split_bulk(const uint8_t *message, size_t bytes, size_t *out_payload_bytes,
                                 const uint8_t **out_bulk, size_t *out_bulk_bytes) {
  grpc_bytes from = {message, message + bytes};
  *out_payload_bytes = bytes;
  *out_bulk = NULL;
  *out_bulk_bytes = 0;
  while (from.at < from.end) {
    const uint8_t *began = from.at;
    wire_field field;
    /* Not ours to judge: the message's own decoder says what is wrong. */
    if (!get_field(&from, &field)) return NULL;
    if (field.number != GRPC_BULK_FIELD || field.type != WIRE_BYTES) continue;
    if (from.at != from.end) return "the field bulk must be the last of its message, once";
    *out_payload_bytes = (size_t)(began - message);
    *out_bulk = field.bytes.at;
    *out_bulk_bytes = (size_t)(field.bytes.end - field.bytes.at);
  }
  return NULL;
}

uint64_t grpc_wire_find_varint(const uint8_t *message, size_t bytes, uint32_t field_number, uint64_t absent) {
  grpc_bytes from = {message, message + bytes};
  wire_field field;
  while (from.at < from.end && get_field(&from, &field))
    if (field.number == field_number && field.type == WIRE_VARINT) absent = field.value;
  return absent;
}

bool grpc_wire_next_bytes(grpc_bytes *message, uint32_t *out_field, grpc_bytes *out_value) {
  wire_field field;
  while (message->at < message->end && get_field(message, &field)) {
    if (field.type != WIRE_BYTES) continue;
    *out_field = field.number;
    *out_value = field.bytes;
    return true;
  }
  return false;
}
