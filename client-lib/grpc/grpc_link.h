/* One RPC `Channel` as a link (../src/link.h), on gRPC C core.
 *
 * gRPC does its work in the threads that wait at its completion queue: here that is the thread that receives, so an
 * answer reaches it without a hop through another one. Only where a caller has an event loop of its own, and so asks
 * for a descriptor, does a thread of ours wait in its place, and tells it through an eventfd. */
#pragma once

#include <grpc/grpc.h>
#include <pthread.h>

#include "dial.h"
#include "frames_in.h"
#include "frames_out.h"

/* What completed. */
typedef enum {
  PJRTC_GRPC_NOTHING,
  PJRTC_GRPC_GREETED,
  PJRTC_GRPC_RECEIVED,
  PJRTC_GRPC_SENT,
  PJRTC_GRPC_ENDED,
  PJRTC_GRPC_WOKEN,
} pjrtc_grpc_tag;

typedef struct {
  pjrtc_link link; /* first */
  char *target;    /* owned */
  char *ca_file;   /* owned; NULL: the system's certificates */
  pjrtc_dialled to;
  grpc_completion_queue *queue;
  grpc_call *call;

  /* Of the thread that receives. */
  grpc_byte_buffer *reading; /* owned: what `message` lies in */
  grpc_slice message;
  pjrtc_frames_in in;
  const char *fault; /* static: what the server did wrong */
  char text[1024];   /* of `explain` */
  char hint[512];

  /* Of gRPC while an operation is under way. */
  grpc_byte_buffer *incoming;
  grpc_metadata_array initial_metadata, trailing_metadata;
  grpc_status_code status;
  grpc_slice details;

  pthread_mutex_t lock; /* for all that follows */
  pjrtc_frames_out out;
  bool sending, receiving, greeting, waking; /* operations under way */
  bool greeted;                              /* a message came, so this is a pjrtd */
  bool unsendable;                           /* what was sent did not get out */
  bool over;                                 /* the status came; it is the last */
  bool closing;
  grpc_byte_buffer *arrived; /* owned: a message that nobody has taken yet */
  int event_fd;              /* -1: nobody asked for it; the watcher says there that something happened */
  bool watching;             /* there is a watcher to be joined */
  pthread_t watcher;
} pjrtc_grpc_link;

/* grpc_ends.c: why it is over. */
void pjrtc_grpc_link_explain(pjrtc_link *link, pjrtc_link_end *out_end);
/* grpc_watcher.c. Whoever receives is told by the eventfd from then on; -1 where that is not possible. */
int pjrtc_grpc_link_watch(pjrtc_link *link);
/* Sleeps until the watcher says something. */
void pjrtc_grpc_link_sleep(pjrtc_grpc_link *own, int timeout_ms);
void pjrtc_grpc_link_forget_events(pjrtc_grpc_link *own);
void pjrtc_grpc_link_tell(pjrtc_grpc_link *own);
/* grpc_link.c: waits for one completion and takes note of it. */
pjrtc_grpc_tag pjrtc_grpc_link_collect(pjrtc_grpc_link *own, gpr_timespec deadline);
/* Whether gRPC has nothing under way any more. Under the lock. */
bool pjrtc_grpc_link_idle(const pjrtc_grpc_link *own);
