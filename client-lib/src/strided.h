/* Reading a strided host array in row-major order, piece by piece. Any thread; one user of a walk at a time. */
#pragma once

#include "failure.h"

/* Where the next element is. Dimensions that lie densely behind each other are one. */
typedef struct pjrtc_strided {
  const uint8_t *next;
  uint64_t element_bytes; /* that can be copied at once */
  uint32_t rank;
  int64_t dims[PJRTC_MAX_RANK];
  int64_t strides[PJRTC_MAX_RANK]; /* in bytes */
  int64_t index[PJRTC_MAX_RANK];
  uint64_t offset_in_element;
} pjrtc_strided;

/* Of a checked type that has elements. `data` is the element at index 0,0,... */
void pjrtc_strided_init(pjrtc_strided *walk, const pjrtc_type *type, const void *data, const int64_t *byte_strides);
/* True where the array lies dense in row-major order, so that it needs no walk. */
bool pjrtc_strided_is_dense(const pjrtc_strided *walk);
/* Copies the next `size_bytes` bytes, which the walk must still have. */
void pjrtc_strided_read(pjrtc_strided *walk, uint8_t *out, uint64_t size_bytes);
