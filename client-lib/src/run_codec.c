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

static size_t stacked_size(const pjrtc_run_options *options) {
  size_t size = 0;
  for (size_t i = 0; i < options->num_stacked; i++) size += pjrtc_varint_size(options->stacked[i]);
  return size;
}

size_t pjrtc_run_request_size(const pjrtc_run_options *options) {
  size_t total = pjrtc_bytes_size(pjrtc_execute_request_size(options->step));
  total +=
      pjrtc_number_size(options->steps) + pjrtc_number_size(options->every) + pjrtc_number_size(options->progress_ns);
  if (options->num_stacked) total += pjrtc_bytes_size(stacked_size(options));
  if (options->has_until) total += 1 + pjrtc_varint_size(options->until);
  return total;
}

uint8_t *pjrtc_run_request_write(const pjrtc_run_options *options, uint8_t *out) {
  out = pjrtc_bytes_begin(out, REQUEST_STEP, pjrtc_execute_request_size(options->step));
  out = pjrtc_execute_request_write(options->step, out);
  out = pjrtc_number_put(out, REQUEST_STEPS, options->steps);
  if (options->num_stacked) {
    out = pjrtc_bytes_begin(out, REQUEST_STACKED, stacked_size(options));
    for (size_t i = 0; i < options->num_stacked; i++) out = pjrtc_varint_put(out, options->stacked[i]);
  }
  if (options->has_until) out = pjrtc_varint_put(pjrtc_tag_put(out, REQUEST_UNTIL, PJRTC_WIRE_VARINT), options->until);
  out = pjrtc_number_put(out, REQUEST_EVERY, options->every);
  return pjrtc_number_put(out, REQUEST_PROGRESS_NS, options->progress_ns);
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
