/* pjrtc: buffers on devices. Part of pjrtc.h. */
#ifndef PJRTC_BUFFER_H_
#define PJRTC_BUFFER_H_

#include "client.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef enum pjrtc_placement {
  PJRTC_PLACE_DEFAULT = 0, /* the session's home device, or else the first addressable one */
  PJRTC_PLACE_DEVICE = 1,  /* `place` is a device's id: its default memory */
  PJRTC_PLACE_MEMORY = 2,  /* `place` is a memory's id */
} pjrtc_placement;

typedef struct pjrtc_upload_options {
  size_t struct_size;
  pjrtc_type type;
  /* The element at index 0,0,... Up to 64 KiB are copied before the call returns; more is read until the call ends,
   * or, where it is quiet, before the call returns. */
  const void *data;
  /* Bytes from one element to the next in each dimension: `type.rank` of them, any sign, 0 too. NULL: dense row-major.
   * Strided data is made dense piece by piece while it is sent; dense data is never copied whole. */
  const int64_t *byte_strides;
  pjrtc_placement placement;
  int32_t place;
  uint64_t timeout_ns;
} pjrtc_upload_options;

/* Makes a device buffer from host data. `*out_buffer` is its id, valid for further calls at once. */
PJRTC_API pjrtc_code pjrtc_upload(pjrtc_client *client, const pjrtc_upload_options *options, uint64_t *out_buffer,
                                  pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_upload_start(pjrtc_client *client, const pjrtc_upload_options *options, uint64_t *out_buffer,
                                        pjrtc_future **out_future, pjrtc_error *error);

/* Brings a buffer's data to `value`. Use pjrtc_stat for its size, or let the library allocate. `timeout_ns` 0: none. */
PJRTC_API pjrtc_code pjrtc_download(pjrtc_client *client, uint64_t buffer, pjrtc_value *value, uint64_t timeout_ns,
                                    pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_download_start(pjrtc_client *client, uint64_t buffer, pjrtc_value *value,
                                          uint64_t timeout_ns, pjrtc_future **out_future, pjrtc_error *error);

typedef struct pjrtc_buffer_info {
  size_t struct_size;
  pjrtc_dtype dtype;
  uint32_t rank;
  int64_t dims[PJRTC_MAX_RANK];
  uint64_t host_bytes;   /* what a download needs */
  uint64_t device_bytes; /* what it takes there */
  int32_t device;
  int32_t memory; /* -1 where the plugin does not say */
  char memory_kind[64];
  bool is_deleted; /* donated away */
} pjrtc_buffer_info;

/* Asks about a buffer; waits for the call that makes it. */
PJRTC_API pjrtc_code pjrtc_stat(pjrtc_client *client, uint64_t buffer, pjrtc_buffer_info *out_info, pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_stat_start(pjrtc_client *client, uint64_t buffer, pjrtc_buffer_info *out_info,
                                      pjrtc_future **out_future, pjrtc_error *error);

/* Deletes buffers. One that is in use goes when its last user ends. */
PJRTC_API pjrtc_code pjrtc_delete(pjrtc_client *client, const uint64_t *buffers, size_t num_buffers,
                                  pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_delete_start(pjrtc_client *client, const uint64_t *buffers, size_t num_buffers,
                                        pjrtc_future **out_future, pjrtc_error *error);

#ifdef __cplusplus
}
#endif

#endif /* PJRTC_BUFFER_H_ */
