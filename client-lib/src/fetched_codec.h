/* FetchedTensor: a value that comes with a reply, read without allocating but for the value. Any thread. */
#pragma once

#include "failure.h"
#include "varint.h"

/* Reads one into fetch[index], which must be the output that it is of: a reply has them in the order of the request.
 * Its data is taken from the front of `bulk`. `fetch[index].reserved` says whose memory the value's is
 * (reply_value.h); where it is PJRTC_VALUE_UNSET that is found out here. Malformed: `noun` names the reply. */
pjrtc_failure *pjrtc_fetched_read(pjrtc_reader *message, pjrtc_reader *bulk, pjrtc_value *fetch, size_t num_fetch,
                                  size_t index, const char *noun);
/* Takes back what was allocated. */
void pjrtc_fetched_drop(pjrtc_value *fetch, size_t num_fetch);
/* INTERNAL: "the server's reply to NOUN is malformed: WHAT". */
pjrtc_failure *pjrtc_fetched_malformed(const char *noun, const char *what);
