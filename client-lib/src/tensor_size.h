/* Checked sizes of tensors, for what the caller gives and for what a server claims. Any thread. */
#pragma once

#include "failure.h"

#define PJRTC_DTYPE_COUNT 34

/* Bytes of a dense array; false where there is no such type or the size does not fit 63 bits. */
bool pjrtc_tensor_size(pjrtc_dtype dtype, uint32_t rank, const int64_t *dims, uint64_t *out_size_bytes);
/* The same with a reason: INVALID_ARGUMENT. NULL is success. */
pjrtc_failure *pjrtc_tensor_check(const pjrtc_type *type, uint64_t *out_size_bytes);
