/* See reply_value.h. */
#include "reply_value.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "heap.h"

pjrtc_failure *pjrtc_reply_value_set(pjrtc_value *value, pjrtc_dtype dtype, uint32_t rank, const int64_t *dims,
                                     uint64_t size_bytes, const char *noun, uint64_t number) {
  value->dtype = dtype;
  value->rank = rank;
  for (uint32_t i = 0; i < rank; i++) value->dims[i] = dims[i];
  value->size_bytes = size_bytes;
  if (!value->data && size_bytes) {
    value->data = pjrtc_heap_alloc(size_bytes);
    if (!value->data) return pjrtc_failure_oom();
    value->capacity_bytes = size_bytes;
  }
  if (size_bytes <= value->capacity_bytes) return NULL;
  char text[160];
  return pjrtc_failure_make(PJRTC_OUT_OF_RANGE, "give more memory, or NULL to let the library allocate",
                            "%s %" PRIu64 " is %s, %" PRIu64 " bytes, and there is room for %" PRIu64, noun, number,
                            pjrtc_type_format(&(pjrtc_type){dtype, rank, dims}, text, sizeof text), size_bytes,
                            value->capacity_bytes);
}

void pjrtc_reply_value_free(pjrtc_value *value) {
  free(value->data);
  value->data = NULL;
  value->capacity_bytes = 0;
}

void pjrtc_free(void *data) {
  free(data);
}
