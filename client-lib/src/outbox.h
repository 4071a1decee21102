/* What is to be written: small frames in one buffer, and the data of uploads straight from the caller's memory, piece
 * by piece under credit, in turn with the small frames. Under the client's lock, which it drops while it writes a
 * piece of an upload. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/frame.h"
#include "strided.h"

/* Most data of one ITEM: what a small call may have to wait for. */
#define PJRTC_ITEM_BYTES (256u << 10)

/* A call's data on the way to the server. */
typedef struct {
  pjrtc_future *next, *previous; /* among those with data left */
  bool listed;
  const uint8_t *data; /* the caller's, dense, where it goes on; NULL where strided */
  pjrtc_strided *walk; /* owned; NULL where dense */
  uint64_t left_bytes;
  uint64_t credit_bytes;
} pjrtc_source;

typedef struct {
  uint8_t *data;
  size_t capacity;
  size_t head, tail;
  pjrtc_future *first_source, *last_source;
  /* The piece that is being written. */
  bool item_active;
  pjrtc_future *item_call; /* NULL once the call has let go: zeros are sent in place of its data */
  uint8_t item_header[PJRTD_FRAME_HEADER_BYTES];
  size_t item_header_sent;
  const uint8_t *item_data; /* the caller's, or `scratch` */
  uint64_t item_left_bytes;
  bool item_gather; /* `scratch` is to be filled first */
  uint8_t *scratch; /* owned; for strided data */
  bool writing;     /* a thread writes that piece without the lock */
  bool broken;      /* the peer does not take anything any more; the inbox finds out why */
} pjrtc_outbox;

void pjrtc_outbox_deinit(pjrtc_outbox *outbox);
/* Room for one frame at the end; NULL where memory is out. The frame is there after pjrtc_outbox_commit. */
uint8_t *pjrtc_outbox_reserve(pjrtc_outbox *outbox, size_t size_bytes);
void pjrtc_outbox_commit(pjrtc_outbox *outbox, size_t size_bytes);
size_t pjrtc_outbox_queued_bytes(const pjrtc_outbox *outbox);

/* The call's source takes its turns from now on; or no longer. Removing waits until nobody reads its memory. */
void pjrtc_outbox_add_source(pjrtc_client *client, pjrtc_future *call);
void pjrtc_outbox_remove_source(pjrtc_client *client, pjrtc_future *call);
void pjrtc_outbox_add_credit(pjrtc_client *client, pjrtc_future *call, uint64_t size_bytes);

/* Writes what the link takes. Never waits for the peer. */
void pjrtc_outbox_pump(pjrtc_client *client);
/* Something is left that the link did not take. */
bool pjrtc_outbox_wants_write(const pjrtc_outbox *outbox);
