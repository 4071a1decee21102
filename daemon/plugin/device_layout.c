/* Device layouts. Any thread. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "plugin/buffer_internal.h"

bool pjrtd_layout_is_dense(const pjrtd_layout *layout) {
  if (layout->num_tiles) return false;
  for (uint32_t i = 0; i < layout->rank; i++)
    if (layout->minor_to_major[i] != (int64_t)(layout->rank - 1 - i)) return false;
  return true;
}

bool pjrtd_layout_equal(const pjrtd_layout *a, const pjrtd_layout *b) {
  if (a->rank != b->rank || a->num_tiles != b->num_tiles) return false;
  if (a->rank && memcmp(a->minor_to_major, b->minor_to_major, a->rank * sizeof *a->minor_to_major) != 0) return false;
  uint32_t dims = 0;
  for (uint32_t i = 0; i < a->num_tiles; i++) {
    if (a->tile_ranks[i] != b->tile_ranks[i]) return false;
    dims += a->tile_ranks[i];
  }
  return dims == 0 || memcmp(a->tile_dims, b->tile_dims, dims * sizeof *a->tile_dims) == 0;
}

static void append(char text[PJRTD_LAYOUT_TEXT], size_t *used, const char *format, ...) PJRTD_PRINTF(3, 4);
static void append(char text[PJRTD_LAYOUT_TEXT], size_t *used, const char *format, ...) {
  va_list args;
  va_start(args, format);
  int length = vsnprintf(text + *used, PJRTD_LAYOUT_TEXT - *used, format, args);
  va_end(args);
  *used += length < 0 ? 0 : (size_t)length;
  if (*used >= PJRTD_LAYOUT_TEXT) *used = PJRTD_LAYOUT_TEXT - 1;
}

const char *pjrtd_layout_format(const pjrtd_layout *layout, char text[PJRTD_LAYOUT_TEXT]) {
  size_t used = 0;
  append(text, &used, "{");
  for (uint32_t i = 0; i < layout->rank; i++)
    append(text, &used, "%s%" PRId64, i ? "," : "", layout->minor_to_major[i]);
  const int64_t *dims = layout->tile_dims;
  for (uint32_t i = 0; i < layout->num_tiles; i++) {
    append(text, &used, "%s", i ? "(" : ":T(");
    for (uint32_t j = 0; j < layout->tile_ranks[i]; j++) append(text, &used, "%s%" PRId64, j ? "," : "", *dims++);
    append(text, &used, ")");
  }
  append(text, &used, "}");
  return text;
}

void pjrtd_layout_copy_to_dense(const pjrtd_layout *layout, const int64_t *dims, size_t element_bytes,
                                const void *device, void *out_data) {
  uint32_t rank = layout->rank;
  int64_t stride_bytes[PJRTD_MAX_RANK], index[PJRTD_MAX_RANK] = {0}, stride = (int64_t)element_bytes;
  uint64_t count = 1;
  for (uint32_t i = 0; i < rank; i++) {
    stride_bytes[layout->minor_to_major[i]] = stride;
    stride *= dims[layout->minor_to_major[i]];
    count *= (uint64_t)dims[i];
  }
  const char *in = device;
  char *out = out_data;
  for (uint64_t i = 0; i < count; i++, out += element_bytes) {
    memcpy(out, in, element_bytes);
    /* The next index in row-major order; a dimension that ends goes back to 0 and carries. */
    for (uint32_t d = rank; d-- > 0;) {
      in += stride_bytes[d];
      if (++index[d] < dims[d]) break;
      in -= stride_bytes[d] * dims[d];
      index[d] = 0;
    }
  }
}
