/* See lane.h. The mutex is over the scheduler; it is held for a few instructions, but whoever holds it may lose the
 * core, on a busy machine for milliseconds. So the loop submits without it, and gives up on it where it can. */
#include "state/lane.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>

#include "base/clock.h"

typedef struct worker worker;
struct worker {
  pjrtd_lane *lane;
  pthread_t thread;
  pjrtd_job *job; /* running; under the lane's mutex */
  bool abandoned; /* under the lane's mutex: another thread has the queue */
};

struct pjrtd_lane {
  pjrtd_mailbox *mailbox; /* borrowed */
  char *name;             /* owned */
  size_t stack_bytes;
  pjrtd_message_stack inbox; /* of jobs, submitted and not yet in the scheduler */
  atomic_bool asleep;        /* the queue's thread: who sets it to false posts `wakeup` */
  sem_t wakeup;
  pthread_mutex_t mutex;
  pjrtd_scheduler scheduler;
  worker *current; /* the thread that has the queue; NULL before the first job */
  bool closing;
  atomic_uint stuck; /* changed under the mutex */
  pjrtd_lane_stats stats;
};

/* Longer than that the loop does not wait for the mutex where it can do without. */
#define BRIEFLY_NS UINT64_C(1000000)

static bool lock_briefly(pjrtd_lane *lane) {
  uint64_t began_ns = pjrtd_clock_now_ns();
  while (pthread_mutex_trylock(&lane->mutex) != 0) {
    if (pjrtd_clock_now_ns() - began_ns > BRIEFLY_NS) return false;
    sched_yield(); /* to whoever holds it, where that one has no core */
  }
  return true;
}

/* After what the queue's thread is to see. */
static void wake(pjrtd_lane *lane) {
  if (atomic_exchange(&lane->asleep, false)) sem_post(&lane->wakeup);
}

/* Under the mutex, which it gives up meanwhile: until there is something to do, or `until_ns`; 0: however long. */
static void wait_for_work(pjrtd_lane *lane, uint64_t until_ns) {
  const struct timespec until = {.tv_sec = (time_t)(until_ns / 1000000000u), .tv_nsec = (long)(until_ns % 1000000000u)};
  bool woken = false;
  atomic_store(&lane->asleep, true);
  if (pjrtd_message_stack_is_empty(&lane->inbox)) {
    pthread_mutex_unlock(&lane->mutex);
    woken = (until_ns ? sem_clockwait(&lane->wakeup, CLOCK_MONOTONIC, &until) : sem_wait(&lane->wakeup)) == 0;
    pthread_mutex_lock(&lane->mutex);
  }
  /* Somebody woke it all the same: that must not wake it the next time. */
  if (!woken && !atomic_exchange(&lane->asleep, false))
    while (sem_wait(&lane->wakeup) != 0) continue;
}

static pjrtd_job *job_of(pjrtd_message *message) {
  return (pjrtd_job *)((char *)message - offsetof(pjrtd_job, message));
}

/* Under the mutex. */
static void empty_inbox(pjrtd_lane *lane) {
  pjrtd_message *oldest = pjrtd_message_take_all(&lane->inbox);
  while (oldest) {
    pjrtd_job *job = job_of(oldest);
    oldest = oldest->next;
    job->refusal = pjrtd_scheduler_push(&lane->scheduler, job, job->queued_ns);
    if (job->refusal) pjrtd_mailbox_post(lane->mailbox, &job->message);
  }
}

/* Under the mutex. What its `run` said: it is to run again; or it has ended, or is outstanding, and is to be told of.
 */
static bool job_returned(pjrtd_lane *lane, pjrtd_job *job, uint64_t now_ns) {
  lane->stats.busy_ns += now_ns - job->started_ns;
  if (job->again && !lane->closing) {
    pjrtd_scheduler_again(&lane->scheduler, job, now_ns);
    return false;
  }
  lane->stats.jobs++;
  if (job->outstanding)
    pjrtd_scheduler_leave_out(&lane->scheduler, job);
  else
    pjrtd_scheduler_end(&lane->scheduler, job, now_ns);
  return true;
}

/* The queue's thread is also freed here, by itself when abandoned, by destroy after joining otherwise. */
static void *worker_main(void *argument) {
  worker *self = argument;
  pjrtd_lane *lane = self->lane;
  pjrtd_job *returned = NULL; /* to be told of */
  pthread_mutex_lock(&lane->mutex);
  while (!self->abandoned) {
    empty_inbox(lane);
    uint64_t retry_ns;
    pjrtd_job *job = pjrtd_scheduler_take(&lane->scheduler, pjrtd_clock_now_ns(), lane->closing, &retry_ns);
    if (!job && !returned) {
      if (lane->closing) break;
      wait_for_work(lane, retry_ns);
      continue;
    }
    self->job = job;
    pthread_mutex_unlock(&lane->mutex);

    /* Not under the mutex: it wakes the loop, which takes this thread's core where there is no other, and would then
     * wait for the mutex until this thread has a core again. */
    if (returned) pjrtd_mailbox_post(lane->mailbox, &returned->message);
    returned = NULL;
    if (job) job->run(job);

    pthread_mutex_lock(&lane->mutex);
    self->job = NULL;
    if (job && job_returned(lane, job, pjrtd_clock_now_ns())) returned = job;
  }
  bool abandoned = self->abandoned;
  if (abandoned) {
    /* Under the mutex, until whose end the lane stays: destroy looks at `stuck` under it. */
    atomic_fetch_sub_explicit(&lane->stuck, 1, memory_order_relaxed);
    if (returned) pjrtd_mailbox_post(lane->mailbox, &returned->message);
    wake(lane); /* the lane's thread may wait for what it had */
  }
  pthread_mutex_unlock(&lane->mutex);
  if (abandoned) pjrtd_free(self);
  return NULL;
}

static pjrtd_status *worker_start(pjrtd_lane *lane, worker **out_worker) {
  *out_worker = NULL;
  worker *self = pjrtd_calloc(1, sizeof *self);
  if (!self) return pjrtd_status_oom();
  self->lane = lane;
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  int error = pthread_attr_setstacksize(&attributes, lane->stack_bytes);
  /* Signals are the loop's. */
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  if (!error) error = pthread_create(&self->thread, &attributes, worker_main, self);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  pthread_attr_destroy(&attributes);
  if (error) {
    pjrtd_free(self);
    return pjrtd_status_from_errno(error, "starting the thread of lane %s", lane->name);
  }
  char name[16]; /* what the kernel keeps */
  snprintf(name, sizeof name, "%.15s", lane->name);
  pthread_setname_np(self->thread, name);
  *out_worker = self;
  return PJRTD_OK;
}

pjrtd_status *pjrtd_lane_create(const char *name, pjrtd_mailbox *mailbox, size_t stack_bytes, pjrtd_lane **out_lane) {
  *out_lane = NULL;
  pjrtd_lane *lane = pjrtd_calloc(1, sizeof *lane);
  char *copy = lane ? pjrtd_strdup(name) : NULL;
  pjrtd_status *status = copy ? pjrtd_scheduler_init(&lane->scheduler) : pjrtd_status_oom();
  if (status) {
    pjrtd_free(copy);
    pjrtd_free(lane);
    return status;
  }
  lane->name = copy;
  lane->mailbox = mailbox;
  lane->stack_bytes = stack_bytes;
  pthread_mutex_init(&lane->mutex, NULL);
  sem_init(&lane->wakeup, 0, 0);
  *out_lane = lane;
  return PJRTD_OK;
}

void pjrtd_lane_limit_executions(pjrtd_lane *lane, atomic_uint *executions, uint32_t most) {
  lane->scheduler.executions = executions;
  lane->scheduler.max_executions = most;
}

void pjrtd_lane_destroy(pjrtd_lane *lane) {
  if (!lane) return;
  pthread_mutex_lock(&lane->mutex);
  lane->closing = true;
  worker *current = lane->current;
  wake(lane);
  pthread_mutex_unlock(&lane->mutex);
  if (current) {
    pthread_join(current->thread, NULL);
    pjrtd_free(current);
  }
  pthread_mutex_lock(&lane->mutex);
  bool stuck = pjrtd_lane_get_stuck(lane) > 0;
  pthread_mutex_unlock(&lane->mutex);
  if (stuck) return;
  sem_destroy(&lane->wakeup);
  pthread_mutex_destroy(&lane->mutex);
  pjrtd_scheduler_deinit(&lane->scheduler);
  pjrtd_free(lane->name);
  pjrtd_free(lane);
}

static void deliver_done(pjrtd_message *message) {
  pjrtd_job *job = job_of(message);
  job->done(job);
}

pjrtd_status *pjrtd_lane_submit(pjrtd_lane *lane, pjrtd_job *job) {
  if (!lane->current) PJRTD_TRY(worker_start(lane, &lane->current));
  job->refusal = NULL;
  job->lane = lane;
  job->message.deliver = deliver_done;
  job->queued = false;
  job->queued_ns = pjrtd_clock_now_ns();
  pjrtd_message_push(&lane->inbox, &job->message);
  wake(lane);
  return PJRTD_OK;
}

bool pjrtd_lane_withdraw(pjrtd_lane *lane, pjrtd_job *job) {
  if (!lock_briefly(lane)) return false;
  empty_inbox(lane);
  bool found = pjrtd_scheduler_withdraw(&lane->scheduler, job);
  pthread_mutex_unlock(&lane->mutex);
  return found;
}

void pjrtd_lane_execution_ended(pjrtd_lane *lane, pjrtd_job *job, uint64_t end_ns) {
  pthread_mutex_lock(&lane->mutex);
  pjrtd_scheduler_end(&lane->scheduler, job, end_ns);
  lane->stats.device_stuck = false;
  wake(lane);
  pthread_mutex_unlock(&lane->mutex);
}

uint32_t pjrtd_lane_get_stuck(const pjrtd_lane *lane) {
  return atomic_load_explicit(&lane->stuck, memory_order_relaxed);
}

bool pjrtd_lane_is_busy(const pjrtd_lane *lane) {
  return atomic_load_explicit(&lane->scheduler.busy, memory_order_relaxed) ||
         !pjrtd_message_stack_is_empty(&lane->inbox);
}

void pjrtd_lane_set_priority(pjrtd_lane *lane, pjrtd_flow *flow, pjrtd_priority priority) {
  pthread_mutex_lock(&lane->mutex);
  empty_inbox(lane);
  pjrtd_scheduler_set_priority(&lane->scheduler, flow, priority);
  wake(lane);
  pthread_mutex_unlock(&lane->mutex);
}

pjrtd_status *pjrtd_lane_exhausted(const pjrtd_lane *lane, uint64_t stuck) {
  return pjrtd_status_with_hint(
      pjrtd_status_make(PJRTD_CODE_RESOURCE_EXHAUSTED,
                        "%llu calls of lane %s are stuck in the plugin, the most that are allowed",
                        (unsigned long long)stuck, lane->name),
      "programs that do not end cannot be stopped: restart pjrtd, or raise max_stuck");
}

uint64_t pjrtd_lane_get_device_ns(pjrtd_lane *lane, const pjrtd_flow *flow) {
  pthread_mutex_lock(&lane->mutex);
  uint64_t ns = flow->device_ns;
  pthread_mutex_unlock(&lane->mutex);
  return ns;
}

/* Under the mutex. */
static void refuse_queued(pjrtd_lane *lane, uint64_t stuck) {
  PJRTD_AUTO(pjrtd_status) refusal = pjrtd_lane_exhausted(lane, stuck);
  pjrtd_job *job;
  while ((job = pjrtd_scheduler_withdraw(&lane->scheduler, NULL))) {
    job->refusal = pjrtd_status_retain(refusal);
    pjrtd_mailbox_post(lane->mailbox, &job->message);
  }
}

/* Under the mutex. The plugin has returned, but its device does not come back. */
static bool device_is_stuck(const pjrtd_lane *lane, uint64_t now_ns, uint64_t stall_ns, uint64_t max_stuck) {
  const pjrtd_job *oldest = lane->scheduler.oldest_out;
  if (!oldest || lane->current->job) return false;
  uint64_t began_ns = oldest->started_ns > lane->scheduler.ended_ns ? oldest->started_ns : lane->scheduler.ended_ns;
  uint64_t ran_ns = now_ns > began_ns ? now_ns - began_ns : 0;
  return ran_ns / PJRTD_LANE_PATIENCE / (max_stuck + 1) >= stall_ns;
}

bool pjrtd_lane_check_stall(pjrtd_lane *lane, uint64_t now_ns, uint64_t stall_ms, uint64_t max_stuck, bool refuse) {
  if (!lane->current) return false;
  bool moved = false;
  if (!lock_briefly(lane)) return false;
  empty_inbox(lane);
  pjrtd_job *job = lane->current->job;
  uint64_t ran_ns = job && now_ns > job->started_ns ? now_ns - job->started_ns : 0;
  uint64_t stall_ns = stall_ms * 1000000u;
  uint32_t stuck = pjrtd_lane_get_stuck(lane);
  if (ran_ns > stall_ns && stuck < max_stuck) {
    worker *fresh;
    pjrtd_status *status = worker_start(lane, &fresh);
    if (!status) {
      lane->current->abandoned = true;
      pthread_detach(lane->current->thread);
      atomic_fetch_add_explicit(&lane->stuck, 1, memory_order_relaxed);
      lane->current = fresh;
      pjrtd_scheduler_give_up(&lane->scheduler, job, now_ns);
      moved = true;
    }
    pjrtd_status_destroy(status); /* the next check tries again */
  } else if (refuse && ran_ns > stall_ns && ran_ns / PJRTD_LANE_PATIENCE >= stall_ns) {
    refuse_queued(lane, stuck + 1);
  } else if (refuse && device_is_stuck(lane, now_ns, stall_ns, max_stuck)) {
    lane->stats.device_stuck = true;
    refuse_queued(lane, 1);
  }
  pthread_mutex_unlock(&lane->mutex);
  return moved;
}

pjrtd_lane_stats pjrtd_lane_get_stats(pjrtd_lane *lane) {
  pthread_mutex_lock(&lane->mutex);
  empty_inbox(lane);
  pjrtd_lane_stats stats = lane->stats;
  stats.stuck = pjrtd_lane_get_stuck(lane);
  stats.running = lane->current && lane->current->job;
  stats.queued = lane->scheduler.queued;
  stats.waited_ns = lane->scheduler.waited_ns;
  stats.longest_wait_ns = lane->scheduler.longest_wait_ns;
  pthread_mutex_unlock(&lane->mutex);
  return stats;
}

const char *pjrtd_lane_name(const pjrtd_lane *lane) {
  return lane->name;
}
