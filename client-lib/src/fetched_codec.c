/* See fetched_codec.h. Field numbers are those of proto/pjrtd/v1/execute.proto. */
#include "fetched_codec.h"

#include <string.h>

#include "reply_value.h"
#include "tensor_size.h"
#include "wire_type.h"

enum { FETCHED_POSITION = 1, FETCHED_TYPE = 2, FETCHED_DATA_BYTES = 3 };

typedef struct {
  uint32_t position;
  uint64_t data_bytes;
  pjrtc_wire_type type;
} fetched;

pjrtc_failure *pjrtc_fetched_malformed(const char *noun, const char *what) {
  return pjrtc_failure_make(PJRTC_INTERNAL, NULL, "the server's reply to %s is malformed: %s", noun, what);
}

static void read_fields(pjrtc_reader *reader, fetched *item) {
  item->position = 0;
  item->data_bytes = 0;
  item->type.dtype = PJRTC_DTYPE_INVALID;
  item->type.rank = 0;
  uint32_t field;
  unsigned wire_type;
  while (pjrtc_field_next(reader, &field, &wire_type)) {
    if (field == FETCHED_POSITION && wire_type == PJRTC_WIRE_VARINT) {
      item->position = (uint32_t)pjrtc_varint_get(reader);
    } else if (field == FETCHED_DATA_BYTES && wire_type == PJRTC_WIRE_VARINT) {
      item->data_bytes = pjrtc_varint_get(reader);
    } else if (field == FETCHED_TYPE && wire_type == PJRTC_WIRE_BYTES) {
      pjrtc_reader type = pjrtc_bytes_get(reader);
      pjrtc_wire_type_read(&type, &item->type);
      if (type.failed) pjrtc_reader_fail(reader);
    } else {
      pjrtc_field_skip(reader, wire_type);
    }
  }
}

pjrtc_failure *pjrtc_fetched_read(pjrtc_reader *message, pjrtc_reader *bulk, pjrtc_value *fetch, size_t num_fetch,
                                  size_t index, const char *noun) {
  fetched item;
  read_fields(message, &item);
  if (message->failed) return pjrtc_fetched_malformed(noun, "an output cannot be decoded");
  if (index >= num_fetch || fetch[index].position != item.position)
    return pjrtc_fetched_malformed(noun, "it has not the outputs that were asked for");
  uint64_t size_bytes;
  if (!pjrtc_tensor_size(item.type.dtype, item.type.rank, item.type.dims, &size_bytes) || size_bytes != item.data_bytes)
    return pjrtc_fetched_malformed(noun, "an output's size does not fit its type");
  if (size_bytes > (uint64_t)(bulk->end - bulk->cursor))
    return pjrtc_fetched_malformed(noun, "there is too little data");
  pjrtc_value *value = &fetch[index];
  if (value->reserved == PJRTC_VALUE_UNSET) value->reserved = value->data ? PJRTC_VALUE_CALLERS : PJRTC_VALUE_ALLOCATED;
  pjrtc_failure *failure = pjrtc_reply_value_set(value, item.type.dtype, item.type.rank, item.type.dims, size_bytes,
                                                 "output", item.position);
  if (!failure && size_bytes) memcpy(value->data, bulk->cursor, size_bytes);
  bulk->cursor += size_bytes;
  return failure;
}

void pjrtc_fetched_drop(pjrtc_value *fetch, size_t num_fetch) {
  for (size_t i = 0; i < num_fetch; i++)
    if (fetch[i].reserved == PJRTC_VALUE_ALLOCATED) pjrtc_reply_value_free(&fetch[i]);
}
