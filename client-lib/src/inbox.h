/* What was read: frames are cut out of one buffer; the data of downloads goes straight to where it belongs. Only the
 * driver uses it, under the client's lock except while it reads. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "failure.h"

/* A call's data on the way from the server. */
typedef struct {
  uint8_t *data; /* where the next byte goes; NULL: dropped */
  uint64_t total_bytes;
  uint64_t received_bytes;
  uint64_t ungranted_bytes;
  bool announced; /* the reply came */
  bool allocated; /* the library's memory */
} pjrtc_sink;

typedef struct {
  uint8_t *data;
  size_t capacity;
  size_t head, tail;
  uint64_t item_left_bytes; /* of the ITEM whose data comes next */
  pjrtc_future *item_call;
  pjrtc_future *pinned; /* the driver writes to its sink without the lock */
} pjrtc_inbox;

/* False where memory is out. */
bool pjrtc_inbox_init(pjrtc_inbox *inbox);
void pjrtc_inbox_deinit(pjrtc_inbox *inbox);

/* Reads once and handles whatever is whole; drops the lock while it reads, up to the monotonic time `spin_until_ns`
 * (0: one try). True where something came; false where nothing did. A lost or broken connection is dealt with. */
bool pjrtc_inbox_receive(pjrtc_client *client, uint64_t spin_until_ns);
/* The same, asleep for up to PJRTC_RECEIVE_MS. Not in the middle of an ITEM. */
bool pjrtc_inbox_receive_asleep(pjrtc_client *client);
