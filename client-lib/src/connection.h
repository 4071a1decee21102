/* The state of one connection, for all files of the client. Everything is under `lock` except where it says otherwise.
 *
 * How the parts work together: a call (pjrtc_future) is started by appending its request to the outbox; whoever waits
 * while nobody else does becomes the driver, the one thread that reads from the link (driver.c); the inbox cuts what
 * was read into frames and hands them to the calls (calls.c), which wake their waiters. */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include "failure.h"
#include "fork_guard.h"
#include "inbox.h"
#include "link.h"
#include "outbox.h"
#include "proto/frame.h"
#include "spinner.h"

enum { PJRTC_CALL_BUCKETS = 1024 };

/* A thread that waits: for a call, or, where `call` is NULL, for room. On its stack. */
typedef struct pjrtc_waiter {
  struct pjrtc_waiter *next, *previous;
  pjrtc_future *call;
  pthread_cond_t wake;
} pjrtc_waiter;

struct pjrtc_client {
  pthread_mutex_t lock;
  pthread_cond_t unpinned; /* somebody stopped using a call's memory without the lock */
  uint32_t unpin_waiters;
  pjrtc_fork_guard fork_guard;
  pjrtc_link *link; /* owned; NULL: not connected yet, or closed */
  char *target;
  pjrtc_hello hello; /* constant once connected */
  char server_version[64];
  uint64_t busy_poll_ns;
  uint64_t download_window_bytes;
  uint64_t upload_window_bytes;
  uint64_t max_queued_bytes;
  uint32_t max_item_bytes;
  bool nonblocking;
  bool corked;
  bool closed;
  pjrtc_failure *lost; /* owned; why there is no connection any more */
  uint64_t next_call, next_buffer, next_program;

  pjrtc_outbox outbox;
  pjrtc_inbox inbox;

  pjrtc_future *buckets[PJRTC_CALL_BUCKETS]; /* calls that the server has to answer, by id */
  uint32_t num_listed;
  uint32_t num_held; /* futures in users' hands */
  pjrtc_future *free_calls;
  pjrtc_future *first_callback, *last_callback; /* done, callback to be run */

  bool driving;   /* a thread has the driver's role */
  bool polling;   /* and sleeps where others can wake it */
  bool long_wait; /* nothing came for PJRTC_RECEIVE_MS */
  bool polling_out;
  bool wake_sent;
  pjrtc_waiter *first_waiter, *last_waiter;
  uint32_t num_room_waiters;
  pjrtc_spinner spinner;
  bool in_item;          /* the driver is in a callback of the user's for an ITEM, without the lock: */
  pthread_t item_thread; /* this thread, which must not wait for the driver */

  uint64_t quiet_sent;  /* quiet calls so far */
  uint64_t quiet_ended; /* how many of them have certainly ended, as a sync told */
  bool quiet_sync_in_flight;
  pjrtc_failure *quiet_failure; /* owned; the first since the last sync of the user's */
};

/* Reads the reply of a call into where its results go. NULL is success. */
typedef pjrtc_failure *pjrtc_decode(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes,
                                    const uint8_t *bulk, size_t bulk_bytes);

/* What the user is told of an ITEM, without the lock; `callback` NULL: nothing. */
typedef struct {
  pjrtc_run_callback callback;
  void *user;
  uint64_t steps;
  const pjrtc_value *values;
  size_t num_values;
} pjrtc_item;

/* Reads an ITEM that carries a message. NULL is success. */
typedef pjrtc_failure *pjrtc_decode_item(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes,
                                         const uint8_t *bulk, size_t bulk_bytes, pjrtc_item *out_item);

struct pjrtc_future {
  pjrtc_client *client;
  pjrtc_future *next; /* in its bucket, or in the free list */
  uint64_t id;
  uint16_t method;
  bool held;      /* by the user, or by the function that waits for it */
  bool listed;    /* the server has to answer */
  bool cancelled; /* a CANCEL was sent */
  bool quiet;
  atomic_bool done;       /* set under the lock, last; read without it */
  pjrtc_failure *failure; /* owned, once done */
  uint32_t num_waiters;
  pjrtc_callback callback;
  void *callback_user;
  pjrtc_future *next_callback;
  bool callback_queued;

  pjrtc_source source;
  pjrtc_sink sink;

  pjrtc_decode *decode;
  pjrtc_decode_item *decode_item; /* NULL: its ITEMs carry data and no messages */
  union {                         /* where results go: the caller's memory; all zero once the user has let go */
    struct {
      pjrtc_value *fetch;
      size_t num_fetch;
      pjrtc_execute_result *result;
    } execute;
    struct {
      pjrtc_value *value;
      uint64_t buffer;
    } download;
    pjrtc_buffer_info *buffer_info;
    void **object; /* one of the public result objects */
    struct {
      int32_t *devices;
      size_t num_devices;
    } assignment;
    struct {
      uint64_t *first, *second;
      char *token;
    } session;
    pjrtc_attached *attached;
    struct {
      uint64_t quiet_sent; /* quiet calls that it waits for */
    } sync;
    struct {
      pjrtc_value *fetch;
      size_t num_fetch;
      pjrtc_run_result *result;
      pjrtc_run_callback on_step;
      void *user;
      uint64_t values_of; /* the step that the values are of; 0: there are none yet */
    } run;
  } to;
};
