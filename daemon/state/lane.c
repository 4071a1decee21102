/* See lane.h. One mutex a lane; the loop holds it for a few instructions only. */
#include "state/lane.h"

#include <pthread.h>
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
  pthread_mutex_t mutex;
  pthread_cond_t has_work;
  pjrtd_job *first, *last;
  worker *current; /* the thread that has the queue; NULL before the first job */
  bool closing;
  pjrtd_lane_stats stats;
};

/* Under the mutex. */
static void unqueue(pjrtd_lane *lane, pjrtd_job *job) {
  if (job->previous)
    job->previous->next = job->next;
  else
    lane->first = job->next;
  if (job->next)
    job->next->previous = job->previous;
  else
    lane->last = job->previous;
  job->next = job->previous = NULL;
  job->queued = false;
  lane->stats.queued--;
}

/* The queue's thread is also freed here, by itself when abandoned, by destroy after joining otherwise. */
static void *worker_main(void *argument) {
  worker *self = argument;
  pjrtd_lane *lane = self->lane;
  pthread_mutex_lock(&lane->mutex);
  while (!self->abandoned) {
    pjrtd_job *job = lane->first;
    if (!job) {
      if (lane->closing) break;
      pthread_cond_wait(&lane->has_work, &lane->mutex);
      continue;
    }
    unqueue(lane, job);
    self->job = job;
    uint64_t started_ns = job->started_ns = pjrtd_clock_now_ns();
    pthread_mutex_unlock(&lane->mutex);

    job->run(job);

    pthread_mutex_lock(&lane->mutex);
    self->job = NULL;
    lane->stats.jobs++;
    lane->stats.busy_ns += pjrtd_clock_now_ns() - started_ns;
    if (self->abandoned) lane->stats.stuck--;
    /* Posting under the mutex keeps the lane alive until here: destroy looks at `stuck` and `current` under it. */
    pjrtd_mailbox_post(lane->mailbox, &job->message);
  }
  bool abandoned = self->abandoned;
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
  if (!copy) {
    pjrtd_free(lane);
    return pjrtd_status_oom();
  }
  lane->name = copy;
  lane->mailbox = mailbox;
  lane->stack_bytes = stack_bytes;
  pthread_mutex_init(&lane->mutex, NULL);
  pthread_cond_init(&lane->has_work, NULL);
  *out_lane = lane;
  return PJRTD_OK;
}

void pjrtd_lane_destroy(pjrtd_lane *lane) {
  if (!lane) return;
  pthread_mutex_lock(&lane->mutex);
  lane->closing = true;
  worker *current = lane->current;
  pthread_cond_broadcast(&lane->has_work);
  pthread_mutex_unlock(&lane->mutex);
  if (current) {
    pthread_join(current->thread, NULL);
    pjrtd_free(current);
  }
  pthread_mutex_lock(&lane->mutex);
  bool stuck = lane->stats.stuck > 0;
  pthread_mutex_unlock(&lane->mutex);
  if (stuck) return;
  pthread_cond_destroy(&lane->has_work);
  pthread_mutex_destroy(&lane->mutex);
  pjrtd_free(lane->name);
  pjrtd_free(lane);
}

static void deliver_done(pjrtd_message *message) {
  pjrtd_job *job = (pjrtd_job *)((char *)message - offsetof(pjrtd_job, message));
  job->done(job);
}

pjrtd_status *pjrtd_lane_submit(pjrtd_lane *lane, pjrtd_job *job) {
  if (!lane->current) PJRTD_TRY(worker_start(lane, &lane->current));
  job->next = job->previous = NULL;
  job->refusal = NULL;
  job->lane = lane;
  job->message.deliver = deliver_done;
  pthread_mutex_lock(&lane->mutex);
  job->queued = true;
  job->previous = lane->last;
  if (lane->last)
    lane->last->next = job;
  else
    lane->first = job;
  lane->last = job;
  lane->stats.queued++;
  pthread_cond_signal(&lane->has_work);
  pthread_mutex_unlock(&lane->mutex);
  return PJRTD_OK;
}

bool pjrtd_lane_withdraw(pjrtd_lane *lane, pjrtd_job *job) {
  pthread_mutex_lock(&lane->mutex);
  bool found = job->queued;
  if (found) unqueue(lane, job);
  pthread_mutex_unlock(&lane->mutex);
  return found;
}

pjrtd_status *pjrtd_lane_exhausted(const pjrtd_lane *lane, uint64_t stuck) {
  return pjrtd_status_with_hint(
      pjrtd_status_make(PJRTD_CODE_RESOURCE_EXHAUSTED,
                        "%llu calls of lane %s are stuck in the plugin, the most that are allowed",
                        (unsigned long long)stuck, lane->name),
      "programs that do not end cannot be stopped: restart pjrtd, or raise max_stuck");
}

/* Under the mutex. */
static void refuse_queued(pjrtd_lane *lane) {
  PJRTD_AUTO(pjrtd_status) refusal = pjrtd_lane_exhausted(lane, lane->stats.stuck + 1);
  while (lane->first) {
    pjrtd_job *job = lane->first;
    unqueue(lane, job);
    job->refusal = pjrtd_status_retain(refusal);
    pjrtd_mailbox_post(lane->mailbox, &job->message);
  }
}

bool pjrtd_lane_check_stall(pjrtd_lane *lane, uint64_t now_ns, uint64_t stall_ms, uint64_t max_stuck, bool refuse) {
  if (!lane->current) return false;
  bool moved = false;
  pthread_mutex_lock(&lane->mutex);
  const pjrtd_job *job = lane->current->job;
  uint64_t ran_ns = job && now_ns > job->started_ns ? now_ns - job->started_ns : 0;
  uint64_t stall_ns = stall_ms * 1000000u;
  if (ran_ns > stall_ns && lane->stats.stuck < max_stuck) {
    worker *fresh;
    pjrtd_status *status = worker_start(lane, &fresh);
    if (!status) {
      lane->current->abandoned = true;
      pthread_detach(lane->current->thread);
      lane->stats.stuck++;
      lane->current = fresh;
      moved = true;
    }
    pjrtd_status_destroy(status); /* the next check tries again */
  } else if (refuse && ran_ns > stall_ns && ran_ns / PJRTD_LANE_PATIENCE >= stall_ns) {
    refuse_queued(lane);
  }
  pthread_mutex_unlock(&lane->mutex);
  return moved;
}

pjrtd_lane_stats pjrtd_lane_get_stats(pjrtd_lane *lane) {
  pthread_mutex_lock(&lane->mutex);
  pjrtd_lane_stats stats = lane->stats;
  stats.running = lane->current && lane->current->job;
  pthread_mutex_unlock(&lane->mutex);
  return stats;
}

const char *pjrtd_lane_name(const pjrtd_lane *lane) {
  return lane->name;
}
