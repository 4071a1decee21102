/* See run_codec.h. Field numbers are those of proto/pjrtd/v1/execute.proto. */
#include "run_codec.h"

#include "fetched_codec.h"
#include "varint.h"

enum {
  REQUEST_STEP = 1,
  REQUEST_STEPS = 2,
  REQUEST_STACKED = 3,
  REQUEST_UNTIL = 4,
  REQUEST_EVERY = 5,
  REQUEST_PROGRESS_NS = 6,
  REPLY_STEPS = 1,
  REPLY_FETCHED = 2,
  REPLY_STOPPED = 3,
  REPLY_EXECUTE_NS = 4,
};

/* ---- Request ---- */

static size_t number_size(uint64_t value) {
  return value ? 1 + pjrtc_varint_size(value) : 0;
}

static size_t bytes_field_size(size_t content) {
  return 1 + pjrtc_varint_size(content) + content;
}

static size_t stacked_size(const pjrtc_run_options *options) {
  size_t size = 0;
  for (size_t i = 0; i < options->num_stacked; i++) size += pjrtc_varint_size(options->stacked[i]);
  return size;
}

size_t pjrtc_run_request_size(const pjrtc_run_request *request) {
  const pjrtc_run_options *options = request->options;
  size_t total = bytes_field_size(pjrtc_execute_request_size(request->step));
  total += number_size(options->steps) + number_size(options->every) + number_size(options->progress_ns);
  if (options->num_stacked) total += bytes_field_size(stacked_size(options));
  if (options->has_until) total += 1 + pjrtc_varint_size(options->until);
  return total;
}

static uint8_t *write_number(uint8_t *out, unsigned field, uint64_t value) {
  return value ? pjrtc_varint_put(pjrtc_tag_put(out, field, PJRTC_WIRE_VARINT), value) : out;
}

uint8_t *pjrtc_run_request_write(const pjrtc_run_request *request, uint8_t *out) {
  const pjrtc_run_options *options = request->options;
  out = pjrtc_tag_put(out, REQUEST_STEP, PJRTC_WIRE_BYTES);
  out = pjrtc_varint_put(out, pjrtc_execute_request_size(request->step));
  out = pjrtc_execute_request_write(request->step, out);
  out = write_number(out, REQUEST_STEPS, options->steps);
  if (options->num_stacked) {
    out = pjrtc_varint_put(pjrtc_tag_put(out, REQUEST_STACKED, PJRTC_WIRE_BYTES), stacked_size(options));
    for (size_t i = 0; i < options->num_stacked; i++) out = pjrtc_varint_put(out, options->stacked[i]);
  }
  if (options->has_until) out = pjrtc_varint_put(pjrtc_tag_put(out, REQUEST_UNTIL, PJRTC_WIRE_VARINT), options->until);
  out = write_number(out, REQUEST_EVERY, options->every);
  return write_number(out, REQUEST_PROGRESS_NS, options->progress_ns);
}

/* ---- Reply ---- */

static const char noun[] = "a run";

pjrtc_failure *pjrtc_run_reply_read(const uint8_t *payload, size_t payload_bytes, const uint8_t *bulk,
                                    size_t bulk_bytes, pjrtc_value *fetch, size_t num_fetch,
                                    pjrtc_run_reply *out_reply) {
  pjrtc_reader reader = pjrtc_reader_make(payload, payload_bytes);
  pjrtc_reader data = pjrtc_reader_make(bulk, bulk_bytes);
  pjrtc_failure *failure = NULL;
  uint32_t field;
  unsigned wire_type;
  *out_reply = (pjrtc_run_reply){0};
  while (!failure && pjrtc_field_next(&reader, &field, &wire_type)) {
    if (field == REPLY_FETCHED && wire_type == PJRTC_WIRE_BYTES) {
      pjrtc_reader inner = pjrtc_bytes_get(&reader);
      failure = pjrtc_fetched_read(&inner, &data, fetch, num_fetch, out_reply->num_fetched++, noun);
    } else if (field == REPLY_STEPS && wire_type == PJRTC_WIRE_VARINT) {
      out_reply->steps = pjrtc_varint_get(&reader);
    } else if (field == REPLY_STOPPED && wire_type == PJRTC_WIRE_VARINT) {
      out_reply->stopped = pjrtc_varint_get(&reader) != 0;
    } else if (field == REPLY_EXECUTE_NS && wire_type == PJRTC_WIRE_VARINT) {
      out_reply->execute_ns = pjrtc_varint_get(&reader);
    } else {
      pjrtc_field_skip(&reader, wire_type);
    }
  }
  if (failure) return failure;
  if (reader.failed) return pjrtc_fetched_malformed(noun, "it cannot be decoded");
  if (out_reply->num_fetched && out_reply->num_fetched != num_fetch)
    return pjrtc_fetched_malformed(noun, "it has not the outputs that were asked for");
  if (data.cursor != data.end) return pjrtc_fetched_malformed(noun, "there is too much data");
  return NULL;
}
