/* Filling in a pjrtc_value from what a reply says. Whoever holds the value's memory. */
#pragma once

#include "failure.h"

/* Kept in `reserved` while a reply is read: whose memory `data` is. */
typedef enum { PJRTC_VALUE_UNSET = 0, PJRTC_VALUE_CALLERS = 1, PJRTC_VALUE_ALLOCATED = 2 } pjrtc_value_memory;

/* Sets type and size (which the caller has checked against each other), and allocates where `data` is NULL.
 * OUT_OF_RANGE where the capacity is too small: "output 1 is f32[64]...". NULL is success. */
pjrtc_failure *pjrtc_reply_value_set(pjrtc_value *value, pjrtc_dtype dtype, uint32_t rank, const int64_t *dims,
                                     uint64_t size_bytes, const char *noun, uint64_t number);
/* Takes back what the library allocated, since the call failed after all. */
void pjrtc_reply_value_free(pjrtc_value *value);
