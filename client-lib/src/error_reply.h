/* The payload of an ERROR frame as a failure. Any thread. */
#pragma once

#include "failure.h"

struct Pjrtd__V1__Error;

/* Never NULL: a payload that cannot be decoded is a failure too. */
pjrtc_failure *pjrtc_error_reply_read(const uint8_t *payload, size_t payload_bytes, uint64_t call);
/* The same from a decoded message. */
pjrtc_failure *pjrtc_error_reply_convert(const struct Pjrtd__V1__Error *message, uint64_t call);
