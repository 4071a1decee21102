/* ExecuteRequest and ExecuteReply, written and read without allocating: the hot path. Tests hold them against
 * protobuf-c's. Any thread. */
#pragma once

#include "failure.h"

/* Checks what the server could not tell apart any more, and adds up the bytes of the arguments given by value. NULL is
 * success. */
pjrtc_failure *pjrtc_execute_request_check(const pjrtc_execute_options *request, bool is_run, uint32_t max_inline_bytes,
                                           uint64_t *out_inline_bytes);
/* Exact bytes of the message. */
size_t pjrtc_execute_request_size(const pjrtc_execute_options *request);
/* Writes that many bytes and returns the end. */
uint8_t *pjrtc_execute_request_write(const pjrtc_execute_options *request, uint8_t *out);
/* Writes the data of the arguments given by value and returns the end. */
uint8_t *pjrtc_execute_request_write_data(const pjrtc_execute_options *request, uint8_t *out);

/* Reads a reply: fills in `fetch`, with the data from `bulk`, and `result`, which may be NULL. NULL is success.
 * Nothing that a server sends makes it write outside of the values' capacities. */
pjrtc_failure *pjrtc_execute_reply_read(const uint8_t *payload, size_t payload_bytes, const uint8_t *bulk,
                                        size_t bulk_bytes, pjrtc_value *fetch, size_t num_fetch,
                                        pjrtc_execute_result *result);
