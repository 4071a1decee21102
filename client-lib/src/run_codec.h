/* RunRequest and RunReply, written and read as execute_codec.h does it. Any thread. */
#pragma once

#include "execute_codec.h"

size_t pjrtc_run_request_size(const pjrtc_run_options *options);
/* Writes that many bytes and returns the end; the data of the step's arguments given by value comes behind. */
uint8_t *pjrtc_run_request_write(const pjrtc_run_options *options, uint8_t *out);

typedef struct {
  uint64_t steps, execute_ns;
  bool stopped;
  size_t num_fetched; /* 0, or as many as were asked for */
} pjrtc_run_reply;

/* Reads one, of an ITEM or of the REPLY; `fetch` is filled in where it has values. NULL is success. What was allocated
 * for `fetch` stays on failure: `reserved` knows it (fetched_codec.h). */
pjrtc_failure *pjrtc_run_reply_read(const uint8_t *payload, size_t payload_bytes, const uint8_t *bulk,
                                    size_t bulk_bytes, pjrtc_value *fetch, size_t num_fetch,
                                    pjrtc_run_reply *out_reply);
