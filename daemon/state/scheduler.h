/* Which job a lane runs next: fair between sessions in measured device time.
 *
 * Each session has a flow on each lane that it uses: its jobs in order, its priority, and the device time that it was
 * served. The flow of the highest priority goes first, among those of one priority the one that was served least. What
 * a job takes is known only when it is back: an estimate is charged when it begins, and put right then. That is deficit
 * round robin with a quantum of nothing: a session whose program took 50 ms waits until each of the others that want
 * the device had 50 ms, whatever the programs of those take; and there are no rounds to go through until then.
 *
 * - A session that was idle begins where the others are now (their level): it has saved nothing up. What it was served
 *   beyond that it still owes, or a client that waits for each answer would have no debts.
 * - Such a client is idle for a moment after each of its jobs. Were the device given to another session in that moment,
 *   the one with the shorter programs would get one of its own for each long one of the other. So, where it is its
 *   turn, the lane waits for it: as long as its last program took, or the one that would run instead takes, whichever
 *   is less, and a little longer for one that is owed much; but not where it is late more often than not.
 * - Where the plugin returns before the device is done, so much is handed to the device as hides the hand-over and no
 *   more, since what it has cannot be taken back; and no more than max_executions at one time, beyond which the plugin
 *   would block.
 *
 * A data structure without threads: a lane calls it under its mutex, with its time. */
#pragma once

#include <stdatomic.h>

#include "state/job.h"

typedef enum { PJRTD_PRIORITY_LOW, PJRTD_PRIORITY_NORMAL, PJRTD_PRIORITY_HIGH, PJRTD_PRIORITIES } pjrtd_priority;

/* One session's on one lane. Zeroed, with its priority, it is ready. It may go when none of its jobs is left. */
struct pjrtd_flow {
  pjrtd_lane *lane; /* borrowed; the share's */
  pjrtd_priority priority;
  pjrtd_job *first, *last; /* queued */
  uint64_t jobs;           /* queued, running and outstanding */
  size_t place;            /* 1-based in the heap; 0: nothing is queued */
  uint64_t stamp;          /* since when; the earlier goes first among equals */
  uint64_t served_ns;      /* what counts in the choice: it starts from where others are */
  uint64_t device_ns;      /* measured, in all */
  uint64_t rested_ns;      /* when its last job ended, with none left */
  uint64_t window_ns;      /* within which it is prompt then */
  uint16_t late;           /* a bit for each of its last requests: whether that was not */
};

typedef struct {
  pjrtd_flow common; /* of jobs without a flow */
  pjrtd_flow **heap; /* owned; places 1 to num_waiting: the flows that have something queued */
  size_t num_waiting, capacity;
  size_t queued; /* jobs */
  uint64_t stamps;
  uint64_t level_ns[PJRTD_PRIORITIES]; /* what the flow that began last had been served by then */
  const pjrtd_job *latest;             /* began last, and runs; compared only */
  pjrtd_flow *latest_flow;
  uint64_t latest_served_ns, latest_began_ns;
  pjrtd_flow *expected; /* compared only: it may be gone */
  pjrtd_flow expected_as;
  pjrtd_job *oldest_out, *newest_out; /* outstanding on the device */
  uint64_t out_ns;                    /* their estimates */
  uint64_t ended_ns;                  /* when the last outstanding one did */
  atomic_uint *executions;            /* borrowed; outstanding on the device, of all its lanes; NULL: no limit */
  uint32_t max_executions;
  atomic_size_t busy;                  /* flows with jobs; any thread may read it */
  uint64_t waited_ns, longest_wait_ns; /* of jobs, before they began */
} pjrtd_scheduler;

/* Without a limit; `executions` and `max_executions` may be set after it. */
PJRTD_MUST_USE pjrtd_status *pjrtd_scheduler_init(pjrtd_scheduler *scheduler);
void pjrtd_scheduler_deinit(pjrtd_scheduler *scheduler);

/* Queues the job in its flow. Fails without memory only. */
PJRTD_MUST_USE pjrtd_status *pjrtd_scheduler_push(pjrtd_scheduler *scheduler, pjrtd_job *job, uint64_t now_ns);
/* The job that is to begin now, at `now_ns`. NULL: none, or, unless it is to be `at_once`, none before `out_retry_ns`
 * (0: before something else happens). */
pjrtd_job *pjrtd_scheduler_take(pjrtd_scheduler *scheduler, uint64_t now_ns, bool at_once, uint64_t *out_retry_ns);
/* What became of a job that was taken: it has ended; it has returned, and is outstanding (then it ends later); it wants
 * to go on. */
void pjrtd_scheduler_end(pjrtd_scheduler *scheduler, pjrtd_job *job, uint64_t end_ns);
void pjrtd_scheduler_leave_out(pjrtd_scheduler *scheduler, pjrtd_job *job);
void pjrtd_scheduler_again(pjrtd_scheduler *scheduler, pjrtd_job *job, uint64_t end_ns);
/* It seems not to come back: charges what it took so far. */
void pjrtd_scheduler_give_up(pjrtd_scheduler *scheduler, pjrtd_job *job, uint64_t now_ns);
/* Takes a queued job out: any where it is NULL. The one that was, or NULL. */
pjrtd_job *pjrtd_scheduler_withdraw(pjrtd_scheduler *scheduler, pjrtd_job *job);
void pjrtd_scheduler_set_priority(pjrtd_scheduler *scheduler, pjrtd_flow *flow, pjrtd_priority priority);
