/* See execute_codec.h. Field numbers are those of proto/pjrtd/v1/execute.proto. */
#include "execute_codec.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "fetched_codec.h"
#include "reply_value.h"
#include "tensor_size.h"
#include "varint.h"

enum {
  REQUEST_PROGRAM = 1,
  REQUEST_ARGS = 2,
  REQUEST_OUTPUTS = 3,
  REQUEST_FETCH = 4,
  REQUEST_INLINE_ARGS = 5,
  REQUEST_SLOT_ARGS = 6,
  REQUEST_FEED_BACK = 7,
  REQUEST_NON_DONATABLE = 8,
  INLINE_POSITION = 1,
  INLINE_TYPE = 2,
  INLINE_DATA_BYTES = 3,
  SLOT_POSITION = 1, /* of SlotArgument; FeedBack's output has the same number */
  SLOT_NAME = 2,
  FEED_BACK_ARGUMENT = 3,
  TYPE_DTYPE = 1,
  TYPE_DIMS = 2,
  REPLY_FETCHED = 1,
  REPLY_CONSUMED = 2,
  REPLY_EXECUTE_NS = 3,
};

/* ---- Request ---- */

static bool is_inline(const pjrtc_argument *arg) {
  return !arg->buffer && !arg->slot;
}

static pjrtc_failure *check_inline(const pjrtc_argument *arg, uint64_t *out_size_bytes) {
  pjrtc_failure *failure = pjrtc_tensor_check(&arg->type, out_size_bytes);
  if (!failure && *out_size_bytes && !arg->data)
    failure = pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, NULL, "there is neither a buffer nor a slot nor data");
  return failure;
}

static pjrtc_failure *of_argument(size_t position, pjrtc_failure *failure) {
  pjrtc_failure *outer = pjrtc_failure_make(failure->code, NULL, "argument %zu: %s", position, failure->message);
  pjrtc_failure_release(failure);
  return outer;
}

pjrtc_failure *pjrtc_execute_request_check(const pjrtc_execute_options *request, bool is_run, uint32_t max_inline_bytes,
                                           uint64_t *out_inline_bytes) {
  uint64_t total = 0;
  for (size_t i = 0; i < request->num_args; i++) {
    const pjrtc_argument *arg = &request->args[i];
    if (arg->buffer && arg->slot)
      return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, NULL, "argument %zu is both a buffer and slot '%s'", i,
                                arg->slot);
    if (!is_inline(arg)) continue;
    uint64_t size_bytes;
    pjrtc_failure *failure = check_inline(arg, &size_bytes);
    if (failure) return of_argument(i, failure);
    total += size_bytes > max_inline_bytes ? (uint64_t)max_inline_bytes + 1 : size_bytes;
  }
  if (total > max_inline_bytes)
    return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, "upload them with pjrtc_upload and pass their ids",
                              "the arguments given by value are over the limit of %" PRIu32 " bytes", max_inline_bytes);
  for (size_t i = 1; i < request->num_fetch; i++)
    if (request->fetch[i].position <= request->fetch[i - 1].position)
      return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, NULL,
                                "the positions to fetch must increase: %" PRIu32 " follows %" PRIu32,
                                request->fetch[i].position, request->fetch[i - 1].position);
  for (size_t i = 0; i < request->num_feed_back && !is_run; i++)
    if (!request->feed_back[i].slot)
      return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, NULL, "feed_back[%zu] names no slot", i);
  *out_inline_bytes = total;
  return NULL;
}

static size_t dims_size(const pjrtc_type *type) {
  size_t size = 0;
  for (uint32_t i = 0; i < type->rank; i++) size += pjrtc_varint_size((uint64_t)type->dims[i]);
  return size;
}

static size_t type_size(const pjrtc_type *type) {
  size_t dims = dims_size(type);
  return 1 + pjrtc_varint_size(type->dtype) + (type->rank ? pjrtc_bytes_size(dims) : 0);
}

static uint64_t data_bytes_of(const pjrtc_type *type) {
  uint64_t size_bytes;
  pjrtc_tensor_size(type->dtype, type->rank, type->dims, &size_bytes);
  return size_bytes;
}

static size_t inline_size(size_t position, const pjrtc_argument *arg) {
  uint64_t data_bytes = data_bytes_of(&arg->type);
  return pjrtc_number_size(position) + pjrtc_bytes_size(type_size(&arg->type)) + pjrtc_number_size(data_bytes);
}

/* A SlotArgument, or a FeedBack. */
static size_t slot_size(size_t position, size_t name_bytes) {
  return pjrtc_number_size(position) + (name_bytes ? pjrtc_bytes_size(name_bytes) : 0);
}

static size_t feed_back_size(const pjrtc_feed_back *feed_back) {
  if (feed_back->slot) return slot_size(feed_back->output, strlen(feed_back->slot));
  return slot_size(feed_back->output, 0) + pjrtc_number_size(feed_back->argument);
}

typedef struct {
  size_t args, outputs, fetch, non_donatable;
} packed_sizes;

static packed_sizes packed_sizes_of(const pjrtc_execute_options *request) {
  packed_sizes sizes = {0};
  for (size_t i = 0; i < request->num_args; i++) sizes.args += pjrtc_varint_size(request->args[i].buffer);
  for (size_t i = 0; i < request->num_outputs; i++) sizes.outputs += pjrtc_varint_size(request->outputs[i]);
  for (size_t i = 0; i < request->num_fetch; i++) sizes.fetch += pjrtc_varint_size(request->fetch[i].position);
  for (size_t i = 0; i < request->num_non_donatable; i++)
    sizes.non_donatable += pjrtc_varint_size(request->non_donatable[i]);
  return sizes;
}

size_t pjrtc_execute_request_size(const pjrtc_execute_options *request) {
  packed_sizes sizes = packed_sizes_of(request);
  size_t total = 1 + pjrtc_varint_size(request->program);
  if (request->num_args) total += pjrtc_bytes_size(sizes.args);
  if (request->num_outputs) total += pjrtc_bytes_size(sizes.outputs);
  if (request->num_fetch) total += pjrtc_bytes_size(sizes.fetch);
  for (size_t i = 0; i < request->num_args; i++) {
    const pjrtc_argument *arg = &request->args[i];
    if (is_inline(arg))
      total += pjrtc_bytes_size(inline_size(i, arg));
    else if (arg->slot)
      total += pjrtc_bytes_size(slot_size(i, strlen(arg->slot)));
  }
  for (size_t i = 0; i < request->num_feed_back; i++) total += pjrtc_bytes_size(feed_back_size(&request->feed_back[i]));
  if (request->num_non_donatable) total += pjrtc_bytes_size(sizes.non_donatable);
  return total;
}

static uint8_t *write_inline(uint8_t *out, size_t position, const pjrtc_argument *arg) {
  out = pjrtc_bytes_begin(out, REQUEST_INLINE_ARGS, inline_size(position, arg));
  out = pjrtc_number_put(out, INLINE_POSITION, position);
  out = pjrtc_bytes_begin(out, INLINE_TYPE, type_size(&arg->type));
  out = pjrtc_varint_put(pjrtc_tag_put(out, TYPE_DTYPE, PJRTC_WIRE_VARINT), arg->type.dtype);
  if (arg->type.rank) {
    out = pjrtc_bytes_begin(out, TYPE_DIMS, dims_size(&arg->type));
    for (uint32_t i = 0; i < arg->type.rank; i++) out = pjrtc_varint_put(out, (uint64_t)arg->type.dims[i]);
  }
  return pjrtc_number_put(out, INLINE_DATA_BYTES, data_bytes_of(&arg->type));
}

static uint8_t *write_slot(uint8_t *out, unsigned field, size_t position, const char *name) {
  size_t name_bytes = strlen(name);
  out = pjrtc_bytes_begin(out, field, slot_size(position, name_bytes));
  out = pjrtc_number_put(out, SLOT_POSITION, position);
  if (!name_bytes) return out;
  out = pjrtc_bytes_begin(out, SLOT_NAME, name_bytes);
  memcpy(out, name, name_bytes);
  return out + name_bytes;
}

static uint8_t *write_feed_back(uint8_t *out, const pjrtc_feed_back *feed_back) {
  if (feed_back->slot) return write_slot(out, REQUEST_FEED_BACK, feed_back->output, feed_back->slot);
  out = pjrtc_bytes_begin(out, REQUEST_FEED_BACK, feed_back_size(feed_back));
  out = pjrtc_number_put(out, SLOT_POSITION, feed_back->output);
  return pjrtc_number_put(out, FEED_BACK_ARGUMENT, feed_back->argument);
}

uint8_t *pjrtc_execute_request_write(const pjrtc_execute_options *request, uint8_t *out) {
  packed_sizes sizes = packed_sizes_of(request);
  out = pjrtc_varint_put(pjrtc_tag_put(out, REQUEST_PROGRAM, PJRTC_WIRE_VARINT), request->program);
  if (request->num_args) {
    out = pjrtc_bytes_begin(out, REQUEST_ARGS, sizes.args);
    for (size_t i = 0; i < request->num_args; i++) out = pjrtc_varint_put(out, request->args[i].buffer);
  }
  if (request->num_outputs) {
    out = pjrtc_bytes_begin(out, REQUEST_OUTPUTS, sizes.outputs);
    for (size_t i = 0; i < request->num_outputs; i++) out = pjrtc_varint_put(out, request->outputs[i]);
  }
  if (request->num_fetch) {
    out = pjrtc_bytes_begin(out, REQUEST_FETCH, sizes.fetch);
    for (size_t i = 0; i < request->num_fetch; i++) out = pjrtc_varint_put(out, request->fetch[i].position);
  }
  for (size_t i = 0; i < request->num_args; i++)
    if (is_inline(&request->args[i])) out = write_inline(out, i, &request->args[i]);
  for (size_t i = 0; i < request->num_args; i++)
    if (request->args[i].slot) out = write_slot(out, REQUEST_SLOT_ARGS, i, request->args[i].slot);
  for (size_t i = 0; i < request->num_feed_back; i++) out = write_feed_back(out, &request->feed_back[i]);
  if (request->num_non_donatable) {
    out = pjrtc_bytes_begin(out, REQUEST_NON_DONATABLE, sizes.non_donatable);
    for (size_t i = 0; i < request->num_non_donatable; i++) out = pjrtc_varint_put(out, request->non_donatable[i]);
  }
  return out;
}

uint8_t *pjrtc_execute_request_write_data(const pjrtc_execute_options *request, uint8_t *out) {
  for (size_t i = 0; i < request->num_args; i++) {
    const pjrtc_argument *arg = &request->args[i];
    if (!is_inline(arg)) continue;
    uint64_t data_bytes = data_bytes_of(&arg->type);
    if (data_bytes) memcpy(out, arg->data, data_bytes);
    out += data_bytes;
  }
  return out;
}

/* ---- Reply ---- */

static const char noun[] = "an execute";

static void add_consumed(pjrtc_execute_result *result, uint64_t position) {
  if (!result) return;
  if (result->num_consumed < result->max_consumed && result->consumed)
    result->consumed[result->num_consumed] = (uint32_t)position;
  result->num_consumed++;
}

pjrtc_failure *pjrtc_execute_reply_read(const uint8_t *payload, size_t payload_bytes, const uint8_t *bulk,
                                        size_t bulk_bytes, pjrtc_value *fetch, size_t num_fetch,
                                        pjrtc_execute_result *result) {
  pjrtc_reader reader = pjrtc_reader_make(payload, payload_bytes);
  pjrtc_reader data = pjrtc_reader_make(bulk, bulk_bytes);
  pjrtc_failure *failure = NULL;
  size_t count = 0;
  uint32_t field;
  unsigned wire_type;
  if (result) result->num_consumed = 0;
  for (size_t i = 0; i < num_fetch; i++) fetch[i].reserved = PJRTC_VALUE_UNSET;
  while (!failure && pjrtc_field_next(&reader, &field, &wire_type)) {
    if (field == REPLY_FETCHED && wire_type == PJRTC_WIRE_BYTES) {
      pjrtc_reader inner = pjrtc_bytes_get(&reader);
      failure = pjrtc_fetched_read(&inner, &data, fetch, num_fetch, count++, noun);
    } else if (field == REPLY_CONSUMED && wire_type == PJRTC_WIRE_BYTES) {
      pjrtc_reader inner = pjrtc_bytes_get(&reader);
      while (inner.cursor < inner.end) add_consumed(result, pjrtc_varint_get(&inner));
      if (inner.failed) pjrtc_reader_fail(&reader);
    } else if (field == REPLY_CONSUMED && wire_type == PJRTC_WIRE_VARINT) {
      add_consumed(result, pjrtc_varint_get(&reader));
    } else if (field == REPLY_EXECUTE_NS && wire_type == PJRTC_WIRE_VARINT) {
      uint64_t execute_ns = pjrtc_varint_get(&reader);
      if (result) result->execute_ns = execute_ns;
    } else {
      pjrtc_field_skip(&reader, wire_type);
    }
  }
  if (!failure && reader.failed) failure = pjrtc_fetched_malformed(noun, "it cannot be decoded");
  if (!failure && count != num_fetch)
    failure = pjrtc_fetched_malformed(noun, "it has not the outputs that were asked for");
  if (!failure && data.cursor != data.end) failure = pjrtc_fetched_malformed(noun, "there is too much data");
  if (failure) pjrtc_fetched_drop(fetch, num_fetch);
  return failure;
}
