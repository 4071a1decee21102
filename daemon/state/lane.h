/* A queue of jobs and a replaceable thread that runs them in order: the place for plugin calls that can block.
 *
 * A plugin call may never return. A job that runs past the stall limit is moved off: a fresh thread takes the queue
 * over, the stuck one is abandoned and counted, and goes when its call returns after all.
 * All functions are for the loop thread; jobs run on the lane's and touch no state of the daemon. */
#pragma once

#include "base/mailbox.h"
#include "base/status.h"

typedef struct pjrtd_lane pjrtd_lane;
typedef struct pjrtd_job pjrtd_job;

/* Embedded in what it is about. `run` is called on the lane's thread, then `done` on the loop. */
struct pjrtd_job {
  void (*run)(pjrtd_job *job);
  void (*done)(pjrtd_job *job);
  pjrtd_status
      *refusal; /* set before `done` where `run` never was: the lane has too many stuck threads. `done` takes it */
  /* The lane's own. */
  pjrtd_message message;
  pjrtd_job *next, *previous;
  bool queued; /* under the lane's mutex */
  pjrtd_lane *lane;
  uint64_t started_ns;
};

typedef struct {
  uint64_t jobs;   /* ended */
  uint64_t queued; /* not begun */
  uint64_t busy_ns;
  uint32_t stuck; /* abandoned threads that have not come back */
  bool running;   /* a job is on the lane's own thread */
} pjrtd_lane_stats;

/* `name` is copied; `mailbox` is borrowed and outlives the lane. The thread starts with the first job. */
PJRTD_MUST_USE pjrtd_status *pjrtd_lane_create(const char *name, pjrtd_mailbox *mailbox, size_t stack_bytes,
                                               pjrtd_lane **out_lane);
/* Joins the thread after what is queued has run; with stuck threads the lane's memory is left to them. NULL is fine.
 * Jobs not yet delivered are delivered by the mailbox later, so close that afterwards. */
void pjrtd_lane_destroy(pjrtd_lane *lane);

/* Fails only when the thread cannot be started: then the job was not taken. */
PJRTD_MUST_USE pjrtd_status *pjrtd_lane_submit(pjrtd_lane *lane, pjrtd_job *job);

/* Takes a job out that has not begun. False: it has, and `done` will come. */
bool pjrtd_lane_withdraw(pjrtd_lane *lane, pjrtd_job *job);

/* Moves the running job off where it has run for `stall_ms`, unless `max_stuck` threads are lost already. Then what is
 * queued waits; with `refuse`, for PJRTD_LANE_PATIENCE times as long, after which it is refused with
 * RESOURCE_EXHAUSTED: long programs come back, endless ones do not. To be called now and then while anything runs. True
 * where a thread was abandoned. */
#define PJRTD_LANE_PATIENCE 10
bool pjrtd_lane_check_stall(pjrtd_lane *lane, uint64_t now_ns, uint64_t stall_ms, uint64_t max_stuck, bool refuse);
/* What to say to work for a lane with so many stuck threads. */
PJRTD_MUST_USE pjrtd_status *pjrtd_lane_exhausted(const pjrtd_lane *lane, uint64_t stuck);

pjrtd_lane_stats pjrtd_lane_get_stats(pjrtd_lane *lane);
const char *pjrtd_lane_name(const pjrtd_lane *lane);
