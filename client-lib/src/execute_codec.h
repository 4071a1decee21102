/* ExecuteRequest and ExecuteReply, written and read without allocating: the hot path. Tests hold them against
 * protobuf-c's. Any thread. */
#pragma once

#include "failure.h"

typedef struct {
  uint64_t program;
  const pjrtc_argument *args; /* borrowed, checked */
  size_t num_args;
  const uint64_t *outputs; /* ids; 0: not kept */
  size_t num_outputs;
  const pjrtc_value *fetch;
  size_t num_fetch;
  const pjrtc_feed_back *feed_back;
  size_t num_feed_back;
  const uint32_t *non_donatable;
  size_t num_non_donatable;
  bool is_run; /* a step of a run: outputs may be fed back to arguments */
} pjrtc_execute_request;

/* Checks what the server could not tell apart any more, and adds up the bytes of the arguments given by value. NULL is
 * success. */
pjrtc_failure *pjrtc_execute_request_check(const pjrtc_execute_request *request, uint32_t max_inline_bytes,
                                           uint64_t *out_inline_bytes);
/* Exact bytes of the message. */
size_t pjrtc_execute_request_size(const pjrtc_execute_request *request);
/* Writes that many bytes and returns the end. */
uint8_t *pjrtc_execute_request_write(const pjrtc_execute_request *request, uint8_t *out);
/* Writes the data of the arguments given by value and returns the end. */
uint8_t *pjrtc_execute_request_write_data(const pjrtc_execute_request *request, uint8_t *out);

/* Reads a reply: fills in `fetch`, with the data from `bulk`, and `result`, which may be NULL. NULL is success.
 * Nothing that a server sends makes it write outside of the values' capacities. */
pjrtc_failure *pjrtc_execute_reply_read(const uint8_t *payload, size_t payload_bytes, const uint8_t *bulk,
                                        size_t bulk_bytes, pjrtc_value *fetch, size_t num_fetch,
                                        pjrtc_execute_result *result);
