/* A queue of jobs and a replaceable thread that runs them: the place for plugin calls that can block.
 *
 * Which job is next is the scheduler's choice (scheduler.h), made when the thread is free: jobs without a flow, and
 * those of one flow, run in order. A plugin call may never return. A job that runs past the stall limit is moved off: a
 * fresh thread takes the queue over, the stuck one is abandoned and counted, and goes when its call returns after all.
 * Functions are for the loop thread where nothing else is said; jobs run on the lane's and touch no state of the
 * daemon.
 */
#pragma once

#include "state/scheduler.h"

typedef struct {
  uint64_t jobs;   /* ended */
  uint64_t queued; /* not begun */
  uint64_t busy_ns;
  uint32_t stuck;                      /* abandoned threads that have not come back */
  bool running;                        /* a job is on the lane's own thread */
  bool device_stuck;                   /* what is outstanding does not come back: what waited for it was refused */
  uint64_t waited_ns, longest_wait_ns; /* of all jobs, before they began */
} pjrtd_lane_stats;

/* `name` is copied; `mailbox` is borrowed and outlives the lane. The thread starts with the first job. */
PJRTD_MUST_USE pjrtd_status *pjrtd_lane_create(const char *name, pjrtd_mailbox *mailbox, size_t stack_bytes,
                                               pjrtd_lane **out_lane);
/* At most so many of the lane's and others' executions, which `executions` (borrowed) counts, are outstanding on the
 * device. Before the first job. */
void pjrtd_lane_limit_executions(pjrtd_lane *lane, atomic_uint *executions, uint32_t most);
/* Joins the thread after what is queued has run; with stuck threads the lane's memory is left to them. NULL is fine.
 * Jobs not yet delivered are delivered by the mailbox later, so close that afterwards. */
void pjrtd_lane_destroy(pjrtd_lane *lane);

/* Fails only when the thread cannot be started: then the job was not taken. Without memory to queue it, it is refused.
 */
PJRTD_MUST_USE pjrtd_status *pjrtd_lane_submit(pjrtd_lane *lane, pjrtd_job *job);

/* Takes a job out that has not begun. False: it has, or that cannot be seen at once, and `done` will come. */
bool pjrtd_lane_withdraw(pjrtd_lane *lane, pjrtd_job *job);

/* The device is done with an outstanding job, since `end_ns`. After `done`. */
void pjrtd_lane_execution_ended(pjrtd_lane *lane, pjrtd_job *job, uint64_t end_ns);

/* Abandoned threads that have not come back. Any thread. */
uint32_t pjrtd_lane_get_stuck(const pjrtd_lane *lane);
/* Whether it has any job. */
bool pjrtd_lane_is_busy(const pjrtd_lane *lane);
/* Of a flow of this lane. */
void pjrtd_lane_set_priority(pjrtd_lane *lane, pjrtd_flow *flow, pjrtd_priority priority);
uint64_t pjrtd_lane_get_device_ns(pjrtd_lane *lane, const pjrtd_flow *flow);

/* Moves the running job off where it has run for `stall_ms`, unless `max_stuck` threads are lost already. Then what is
 * queued waits; with `refuse`, for PJRTD_LANE_PATIENCE times as long, after which it is refused with
 * RESOURCE_EXHAUSTED: long programs come back, endless ones do not. What waits for an outstanding execution waits as
 * long as for `max_stuck` and one more that are on threads, before it is refused. To be called now and then while
 * anything runs. True where a thread was abandoned. */
#define PJRTD_LANE_PATIENCE 10
bool pjrtd_lane_check_stall(pjrtd_lane *lane, uint64_t now_ns, uint64_t stall_ms, uint64_t max_stuck, bool refuse);
/* What to say to work for a lane with so many stuck threads. */
PJRTD_MUST_USE pjrtd_status *pjrtd_lane_exhausted(const pjrtd_lane *lane, uint64_t stuck);

pjrtd_lane_stats pjrtd_lane_get_stats(pjrtd_lane *lane);
const char *pjrtd_lane_name(const pjrtd_lane *lane);
