/* A TensorType on the wire, read without allocating. Any thread. */
#pragma once

#include "failure.h"
#include "varint.h"

typedef struct {
  pjrtc_dtype dtype;
  uint32_t rank;
  int64_t dims[PJRTC_MAX_RANK];
} pjrtc_wire_type;

/* The reader fails where there are too many dimensions. */
void pjrtc_wire_type_read(pjrtc_reader *reader, pjrtc_wire_type *out_type);
