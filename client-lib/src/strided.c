/* See strided.h. */
#include "strided.h"

#include <string.h>

void pjrtc_strided_init(pjrtc_strided *walk, const pjrtc_type *type, const void *data, const int64_t *byte_strides) {
  walk->next = data;
  walk->element_bytes = pjrtc_dtype_host_bytes(type->dtype);
  walk->rank = 0;
  walk->offset_in_element = 0;
  for (uint32_t i = 0; i < type->rank; i++) {
    if (type->dims[i] == 1) continue;
    uint32_t last = walk->rank;
    /* The dimension before steps exactly over this one: both are one longer dimension. */
    int64_t span;
    if (last && !__builtin_mul_overflow(byte_strides[i], type->dims[i], &span) && walk->strides[last - 1] == span) {
      walk->dims[last - 1] *= type->dims[i];
      walk->strides[last - 1] = byte_strides[i];
    } else {
      walk->dims[last] = type->dims[i];
      walk->strides[last] = byte_strides[i];
      walk->rank++;
    }
  }
  if (walk->rank && walk->strides[walk->rank - 1] == (int64_t)walk->element_bytes) {
    walk->rank--;
    walk->element_bytes *= (uint64_t)walk->dims[walk->rank];
  }
  memset(walk->index, 0, sizeof walk->index);
}

bool pjrtc_strided_is_dense(const pjrtc_strided *walk) {
  return walk->rank == 0;
}

static void step(pjrtc_strided *walk) {
  for (uint32_t i = walk->rank; i-- > 0;) {
    walk->next += walk->strides[i];
    if (++walk->index[i] < walk->dims[i]) return;
    walk->next -= walk->strides[i] * walk->dims[i];
    walk->index[i] = 0;
  }
}

/* The innermost dimension, `count` whole elements of a fixed size: what a compiler turns into a tight loop. */
#define COPY_ROW(bytes)                   \
  case bytes:                             \
    for (int64_t i = 0; i < count; i++) { \
      memcpy(out, from, bytes);           \
      out += bytes;                       \
      from += stride;                     \
    }                                     \
    break

static void copy_row(uint8_t *out, const uint8_t *from, int64_t stride, int64_t count, uint64_t element_bytes) {
  switch (element_bytes) {
    COPY_ROW(1);
    COPY_ROW(2);
    COPY_ROW(4);
    COPY_ROW(8);
    COPY_ROW(16);
    default:
      for (int64_t i = 0; i < count; i++) {
        memcpy(out, from, element_bytes);
        out += element_bytes;
        from += stride;
      }
  }
}

void pjrtc_strided_read(pjrtc_strided *walk, uint8_t *out, uint64_t size_bytes) {
  while (size_bytes) {
    uint64_t left = walk->element_bytes - walk->offset_in_element;
    if (walk->rank && walk->offset_in_element == 0 && size_bytes >= walk->element_bytes) {
      uint32_t inner = walk->rank - 1;
      int64_t count = walk->dims[inner] - walk->index[inner];
      if ((uint64_t)count > size_bytes / walk->element_bytes) count = (int64_t)(size_bytes / walk->element_bytes);
      copy_row(out, walk->next, walk->strides[inner], count, walk->element_bytes);
      out += (uint64_t)count * walk->element_bytes;
      size_bytes -= (uint64_t)count * walk->element_bytes;
      /* All but the last step of the row at once; the last may carry into the outer dimensions. */
      walk->index[inner] += count - 1;
      walk->next += walk->strides[inner] * (count - 1);
      step(walk);
      continue;
    }
    uint64_t take = left < size_bytes ? left : size_bytes;
    memcpy(out, walk->next + walk->offset_in_element, take);
    out += take;
    size_bytes -= take;
    walk->offset_in_element += take;
    if (walk->offset_in_element == walk->element_bytes) {
      walk->offset_in_element = 0;
      step(walk);
    }
  }
}
