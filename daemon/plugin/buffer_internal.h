/* Inside the plugin layer: a device buffer. */
#pragma once

#include <stdatomic.h>

#include "plugin/device_internal.h"

struct pjrtd_device_buffer {
  pjrtd_client *client;       /* borrowed */
  const pjrtd_device *device; /* borrowed from the client, as the memory space */
  const pjrtd_memory *memory; /* NULL: unknown */
  PJRT_Buffer *handle;        /* owned */
  pjrtd_tensor_type type;     /* `dims` below */
  uint64_t host_bytes;
  pjrtd_layout *layout; /* owned; NULL: dense row-major */
  atomic_bool ready;    /* the data is known to be there */
  int64_t dims[];
};

/* A buffer without a handle; `layout` NULL: dense. NULL without memory. */
pjrtd_device_buffer *pjrtd_device_buffer_alloc(pjrtd_client *client, const pjrtd_tensor_type *type, uint64_t host_bytes,
                                               const pjrtd_device *device, const pjrtd_memory *memory,
                                               const pjrtd_layout *layout);

/* The data on the device in the device's order, where the host can read it and its elements are in host form; else
 * NULL.
 */
const void *pjrtd_device_buffer_pointer(const pjrtd_device_buffer *buffer);

/* Row-major without tiles. */
bool pjrtd_layout_is_dense(const pjrtd_layout *layout);
/* Writes "{0,1}" or "{1,0:T(8,128)}" and returns `text`. */
#define PJRTD_LAYOUT_TEXT 256
const char *pjrtd_layout_format(const pjrtd_layout *layout, char text[PJRTD_LAYOUT_TEXT]);
/* Copies elements of `element_bytes` from the order of `layout`, which has no tiles, into row-major order. */
void pjrtd_layout_copy_to_dense(const pjrtd_layout *layout, const int64_t *dims, size_t element_bytes,
                                const void *device, void *out_data);
bool pjrtd_layout_equal(const pjrtd_layout *a, const pjrtd_layout *b);
