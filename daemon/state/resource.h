/* What calls name by id and wait for: buffers and programs; and the operations that wait.
 *
 * Each resource has a queue of holds, granted in the order in which calls were admitted: any number of readers, or one
 * writer (who makes it, or may consume it). An operation takes all its holds at once, at admission, so there is one
 * global order and no deadlock; it becomes ready when all are granted. That gives: outputs that do not exist yet can be
 * named, a donation waits for earlier readers, and a call waits for nothing that it does not name.
 * Loop thread only. */
#pragma once

#include "base/status.h"

typedef struct pjrtd_resource pjrtd_resource;
typedef struct pjrtd_operation pjrtd_operation;
typedef struct pjrtd_hold pjrtd_hold;

typedef enum {
  PJRTD_RESOURCE_PENDING, /* its producer holds it */
  PJRTD_RESOURCE_READY,
  PJRTD_RESOURCE_FAILED,   /* poisoned: `error` says why */
  PJRTD_RESOURCE_CONSUMED, /* donated */
} pjrtd_resource_state;

typedef enum { PJRTD_HOLD_READ, PJRTD_HOLD_WRITE } pjrtd_hold_mode;

struct pjrtd_hold {
  pjrtd_resource *resource; /* retained */
  pjrtd_operation *operation;
  pjrtd_hold *next, *previous; /* in the resource's queue */
  pjrtd_hold_mode mode;
  bool granted;
};

struct pjrtd_resource {
  uint32_t references;
  uint32_t readers;
  bool written;
  pjrtd_resource_state state;
  pjrtd_status *error;                       /* owned, with FAILED */
  pjrtd_hold *first, *last;                  /* waiting */
  pjrtd_hold *recent;                        /* the hold that the operation being built has on it */
  void (*destroy)(pjrtd_resource *resource); /* at the last release */
};

void pjrtd_resource_init(pjrtd_resource *resource, void (*destroy)(pjrtd_resource *resource));
pjrtd_resource *pjrtd_resource_retain(pjrtd_resource *resource);
void pjrtd_resource_release(pjrtd_resource *resource);
/* PENDING to READY, FAILED (takes `error`) or, from READY, CONSUMED. By who holds it for writing. */
void pjrtd_resource_set_ready(pjrtd_resource *resource);
void pjrtd_resource_set_failed(pjrtd_resource *resource, pjrtd_status *error);
/* True when a reader would be granted now and the data is there: the hot path then needs no operation. */
static inline bool pjrtd_resource_readable_now(const pjrtd_resource *resource) {
  return resource->state == PJRTD_RESOURCE_READY && !resource->written && !resource->first;
}
/* The same for a writer. */
static inline bool pjrtd_resource_writable_now(const pjrtd_resource *resource) {
  return pjrtd_resource_readable_now(resource) && !resource->readers;
}

/* Operations whose holds are all granted, in that order. Running one may make others ready; the list keeps that from
 * becoming recursion. */
typedef struct {
  pjrtd_operation *first, *last;
} pjrtd_ready_list;
/* False when there was none. */
bool pjrtd_ready_list_run_one(pjrtd_ready_list *list);

struct pjrtd_operation {
  pjrtd_ready_list *list;           /* where it waits once it is ready */
  pjrtd_operation *next, *previous; /* in the list */
  pjrtd_hold *holds;                /* the owner's memory, room for `capacity` */
  uint32_t num_holds, capacity, waiting;
  bool started, queued;
  void (*ready)(pjrtd_operation *operation); /* once, unless it was ended before */
};

void pjrtd_operation_init(pjrtd_operation *operation, pjrtd_ready_list *list, pjrtd_hold *holds, uint32_t capacity,
                          void (*ready)(pjrtd_operation *operation));
/* Between init and start. A resource named twice is held once, in the stronger mode. */
void pjrtd_operation_hold(pjrtd_operation *operation, pjrtd_resource *resource, pjrtd_hold_mode mode);
/* Queues all holds. `ready` comes from pjrtd_ready_list_run, never from here. */
void pjrtd_operation_start(pjrtd_operation *operation);
/* Queues an operation whose `ready` ran, to have it run again: from that list. */
void pjrtd_operation_requeue(pjrtd_operation *operation, pjrtd_ready_list *list);
/* Appends all that waits in `from` to `to`. */
void pjrtd_ready_list_move(pjrtd_ready_list *from, pjrtd_ready_list *to);
/* Instead of start, where all holds are on resources that nobody else knows yet: grants them, and `ready` never comes.
 */
void pjrtd_operation_grant_new(pjrtd_operation *operation);
/* Gives back early what it holds for writing and has failed: outputs whose users need not wait for the operation's end.
 */
void pjrtd_operation_give_back_failed(pjrtd_operation *operation);
/* Gives all holds back, granted or not; `ready` will not come any more. Twice is fine. */
void pjrtd_operation_end(pjrtd_operation *operation);
