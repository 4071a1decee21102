/* See scheduler.h. */
#include "state/scheduler.h"

#include "base/alloc.h"

/* Longer than a client on this host takes from an answer to its next request. */
#define PATIENCE_NS UINT64_C(1000000)
/* Of its last 16 requests: a client that is late more often is not waited for. */
#define MOST_LATE 8
/* A client that is owed much may once take longer, on a busy machine: for this part of it, and at most for that of
 * this. */
#define OWED_PART 8
#define MOST_OWED_NS UINT64_C(32000000)
/* A session that comes back within this was not idle: it keeps what it is behind the others, */
#define BRIEF_NS UINT64_C(10000000)
/* but not more than this. */
#define CREDIT_NS UINT64_C(50000000)
/* What a program is taken to need before it has run. */
#define UNKNOWN_NS UINT64_C(1000000)
/* Work that a device may have in hand when more is given to it: the hand-over takes some ten microseconds. */
#define AHEAD_NS UINT64_C(200000)
/* At the limit of the device, whose other lane does not tell when its executions end. */
#define LIMIT_RETRY_NS UINT64_C(1000000)
#define FIRST_CAPACITY 8

pjrtd_status *pjrtd_scheduler_init(pjrtd_scheduler *scheduler) {
  *scheduler = (pjrtd_scheduler){.common.priority = PJRTD_PRIORITY_NORMAL, .capacity = FIRST_CAPACITY};
  scheduler->heap = pjrtd_calloc(FIRST_CAPACITY + 1, sizeof *scheduler->heap);
  return scheduler->heap ? PJRTD_OK : pjrtd_status_oom();
}

void pjrtd_scheduler_deinit(pjrtd_scheduler *scheduler) {
  pjrtd_free(scheduler->heap);
  scheduler->heap = NULL;
}

static pjrtd_flow *flow_of(pjrtd_scheduler *scheduler, const pjrtd_job *job) {
  return job->flow ? job->flow : &scheduler->common;
}

static uint64_t min_ns(uint64_t a, uint64_t b) {
  return a < b ? a : b;
}

static uint64_t max_ns(uint64_t a, uint64_t b) {
  return a > b ? a : b;
}

/* ---- the heap ---- */

static bool goes_before(const pjrtd_flow *a, const pjrtd_flow *b) {
  if (a->priority != b->priority) return a->priority > b->priority;
  if (a->served_ns != b->served_ns) return a->served_ns < b->served_ns;
  return a->stamp < b->stamp;
}

static void place(pjrtd_scheduler *scheduler, pjrtd_flow *flow, size_t at) {
  scheduler->heap[at] = flow;
  flow->place = at;
}

/* Moves the flow to where it belongs. */
static void sift(pjrtd_scheduler *scheduler, pjrtd_flow *flow) {
  size_t at = flow->place;
  for (; at > 1 && goes_before(flow, scheduler->heap[at / 2]); at /= 2) place(scheduler, scheduler->heap[at / 2], at);
  for (;;) {
    size_t child = 2 * at;
    if (child > scheduler->num_waiting) break;
    if (child < scheduler->num_waiting && goes_before(scheduler->heap[child + 1], scheduler->heap[child])) child++;
    if (!goes_before(scheduler->heap[child], flow)) break;
    place(scheduler, scheduler->heap[child], at);
    at = child;
  }
  place(scheduler, flow, at);
}

/* There is room: see reserve. */
static void heap_insert(pjrtd_scheduler *scheduler, pjrtd_flow *flow) {
  flow->stamp = ++scheduler->stamps;
  flow->place = ++scheduler->num_waiting;
  sift(scheduler, flow);
}

static void heap_remove(pjrtd_scheduler *scheduler, pjrtd_flow *flow) {
  size_t at = flow->place;
  pjrtd_flow *last = scheduler->heap[scheduler->num_waiting--];
  flow->place = 0;
  if (last == flow) return;
  last->place = at;
  sift(scheduler, last);
}

/* For all flows that have jobs, whatever those do: one that wants to go on must find its place. */
static pjrtd_status *reserve(pjrtd_scheduler *scheduler, size_t flows) {
  if (flows <= scheduler->capacity) return PJRTD_OK;
  pjrtd_flow **grown = pjrtd_realloc(scheduler->heap, (2 * flows + 1) * sizeof *grown);
  if (!grown) return pjrtd_status_oom();
  scheduler->heap = grown;
  scheduler->capacity = 2 * flows;
  return PJRTD_OK;
}

/* ---- time ---- */

/* Where a session begins that was idle: what those who have the device now were served. */
static uint64_t level_now(const pjrtd_scheduler *scheduler, pjrtd_priority priority, uint64_t now_ns) {
  uint64_t level_ns = scheduler->level_ns[priority];
  if (!scheduler->latest || scheduler->latest_flow->priority != priority) return level_ns;
  uint64_t running_ns = scheduler->latest_served_ns;
  if (now_ns > scheduler->latest_began_ns) running_ns += now_ns - scheduler->latest_began_ns;
  /* Nobody who waits may be overtaken. */
  const pjrtd_flow *next = scheduler->num_waiting ? scheduler->heap[1] : NULL;
  if (next && (next->priority != priority || next->served_ns < running_ns))
    running_ns = next->priority == priority ? next->served_ns : 0;
  return max_ns(level_ns, running_ns);
}

static void charge(pjrtd_scheduler *scheduler, pjrtd_flow *flow, pjrtd_job *job, uint64_t ns) {
  flow->served_ns = flow->served_ns + ns > job->charged_ns ? flow->served_ns + ns - job->charged_ns : 0;
  job->charged_ns = 0;
  if (flow->place) sift(scheduler, flow);
}

static void count_busy(pjrtd_scheduler *scheduler, int change) {
  size_t busy = atomic_load_explicit(&scheduler->busy, memory_order_relaxed);
  atomic_store_explicit(&scheduler->busy, busy + (size_t)change, memory_order_relaxed);
}

/* ---- jobs come ---- */

/* The flow had no job. */
static void wake(pjrtd_scheduler *scheduler, pjrtd_flow *flow, uint64_t now_ns) {
  uint64_t idle_ns = now_ns > flow->rested_ns ? now_ns - flow->rested_ns : 0;
  if (flow->window_ns) flow->late = (uint16_t)(flow->late << 1 | (idle_ns > flow->window_ns));
  uint64_t level_ns = level_now(scheduler, flow->priority, now_ns);
  if (idle_ns <= BRIEF_NS) level_ns = level_ns > CREDIT_NS ? level_ns - CREDIT_NS : 0;
  flow->served_ns = max_ns(flow->served_ns, level_ns);
  if (scheduler->expected == flow) scheduler->expected = NULL;
  count_busy(scheduler, 1);
}

static void append(pjrtd_flow *flow, pjrtd_job *job) {
  job->next = NULL;
  job->previous = flow->last;
  if (flow->last)
    flow->last->next = job;
  else
    flow->first = job;
  flow->last = job;
}

pjrtd_status *pjrtd_scheduler_push(pjrtd_scheduler *scheduler, pjrtd_job *job, uint64_t now_ns) {
  pjrtd_flow *flow = flow_of(scheduler, job);
  PJRTD_TRY(reserve(scheduler, atomic_load_explicit(&scheduler->busy, memory_order_relaxed) + 1));
  if (!flow->jobs) wake(scheduler, flow, now_ns);
  flow->served_ns += job->loop_ns;
  flow->jobs++;
  append(flow, job);
  job->queued = true;
  job->queued_ns = now_ns;
  job->charged_ns = job->measured_ns = 0;
  job->outstanding = job->again = false;
  scheduler->queued++;
  if (flow->place)
    sift(scheduler, flow);
  else
    heap_insert(scheduler, flow);
  return PJRTD_OK;
}

/* ---- and go ---- */

static void unqueue(pjrtd_scheduler *scheduler, pjrtd_flow *flow, pjrtd_job *job) {
  if (job->previous)
    job->previous->next = job->next;
  else
    flow->first = job->next;
  if (job->next)
    job->next->previous = job->previous;
  else
    flow->last = job->previous;
  job->next = job->previous = NULL;
  job->queued = false;
  scheduler->queued--;
  if (!flow->first) heap_remove(scheduler, flow);
}

/* How long the client that had the device is worth waiting for, where `next` would have it otherwise. That one's
 * program is what it would then have to wait for. */
static uint64_t worth_ns(const pjrtd_flow *expected, const pjrtd_flow *next) {
  uint64_t next_ns = next->first->estimate_ns ? next->first->estimate_ns : UNKNOWN_NS;
  uint64_t owed_ns = expected->priority == next->priority ? next->served_ns - expected->served_ns : MOST_OWED_NS;
  return min_ns(expected->window_ns, next_ns) + min_ns(min_ns(owed_ns, next_ns), MOST_OWED_NS) / OWED_PART;
}

/* Until when nothing may begin, though `next` waits; UINT64_MAX: until something ends. */
static uint64_t held_until(const pjrtd_scheduler *scheduler, const pjrtd_flow *next, uint64_t now_ns) {
  const pjrtd_flow *expected = &scheduler->expected_as;
  if (scheduler->expected && goes_before(expected, next)) {
    uint64_t until_ns = expected->rested_ns + worth_ns(expected, next);
    if (until_ns > now_ns) return until_ns;
  }
  const pjrtd_job *oldest = scheduler->oldest_out;
  if (oldest) {
    uint64_t began_ns = max_ns(oldest->started_ns, scheduler->ended_ns);
    uint64_t elapsed_ns = now_ns > began_ns ? now_ns - began_ns : 0;
    /* One that runs over its estimate says nothing about those behind it. */
    bool over = elapsed_ns >= oldest->estimate_ns;
    uint64_t left_ns = scheduler->out_ns - (over ? oldest->estimate_ns : elapsed_ns);
    if (left_ns > AHEAD_NS) return over ? UINT64_MAX : now_ns + left_ns - AHEAD_NS;
  }
  if (scheduler->executions &&
      atomic_load_explicit(scheduler->executions, memory_order_relaxed) >= scheduler->max_executions)
    return now_ns + LIMIT_RETRY_NS;
  return 0;
}

pjrtd_job *pjrtd_scheduler_take(pjrtd_scheduler *scheduler, uint64_t now_ns, bool at_once, uint64_t *out_retry_ns) {
  *out_retry_ns = 0;
  if (!scheduler->num_waiting) return NULL;
  pjrtd_flow *flow = scheduler->heap[1];
  if (!at_once) {
    uint64_t until_ns = held_until(scheduler, flow, now_ns);
    if (until_ns > now_ns) {
      *out_retry_ns = until_ns == UINT64_MAX ? 0 : until_ns;
      return NULL;
    }
  }
  scheduler->expected = NULL;
  pjrtd_job *job = flow->first;
  unqueue(scheduler, flow, job);
  scheduler->latest = job;
  scheduler->latest_flow = flow;
  scheduler->latest_served_ns = flow->served_ns;
  scheduler->latest_began_ns = job->started_ns = now_ns;
  scheduler->level_ns[flow->priority] = max_ns(scheduler->level_ns[flow->priority], flow->served_ns);
  if (!job->estimate_ns) job->estimate_ns = UNKNOWN_NS;
  job->charged_ns = job->estimate_ns;
  flow->served_ns += job->estimate_ns;
  if (flow->place) sift(scheduler, flow);
  uint64_t waited_ns = now_ns > job->queued_ns ? now_ns - job->queued_ns : 0;
  scheduler->waited_ns += waited_ns;
  scheduler->longest_wait_ns = max_ns(scheduler->longest_wait_ns, waited_ns);
  return job;
}

/* It runs no more, on the lane or the device. */
static void settle(pjrtd_scheduler *scheduler, pjrtd_flow *flow, pjrtd_job *job, uint64_t end_ns) {
  /* The device does one after the other, threads that were given up do not. */
  uint64_t began_ns = job->outstanding ? max_ns(job->started_ns, scheduler->ended_ns) : job->started_ns;
  uint64_t ns = end_ns > began_ns ? end_ns - began_ns : 0;
  job->measured_ns += ns;
  flow->device_ns += ns;
  charge(scheduler, flow, job, ns);
  if (scheduler->latest == job) scheduler->latest = NULL;
}

/* The flow's last job ended. */
static void rest(pjrtd_scheduler *scheduler, pjrtd_flow *flow, uint64_t took_ns, uint64_t now_ns) {
  count_busy(scheduler, -1);
  flow->rested_ns = now_ns;
  flow->window_ns = 0;
  if (flow == &scheduler->common) return;
  /* Nobody had to wait for it: nothing is owed. */
  if (!atomic_load_explicit(&scheduler->busy, memory_order_relaxed))
    scheduler->level_ns[flow->priority] = max_ns(scheduler->level_ns[flow->priority], flow->served_ns);
  flow->window_ns = min_ns(took_ns, PATIENCE_NS);
  if (__builtin_popcount(flow->late) > MOST_LATE) return;
  scheduler->expected = flow;
  scheduler->expected_as = *flow;
  scheduler->expected_as.stamp = UINT64_MAX; /* whoever is there goes before an equal who is not */
}

void pjrtd_scheduler_end(pjrtd_scheduler *scheduler, pjrtd_job *job, uint64_t end_ns) {
  pjrtd_flow *flow = flow_of(scheduler, job);
  uint64_t before_ns = job->measured_ns;
  settle(scheduler, flow, job, end_ns);
  if (job->outstanding) {
    if (job->previous)
      job->previous->next = job->next;
    else
      scheduler->oldest_out = job->next;
    if (job->next)
      job->next->previous = job->previous;
    else
      scheduler->newest_out = job->previous;
    job->next = job->previous = NULL;
    scheduler->out_ns -= job->estimate_ns;
    if (scheduler->executions) atomic_fetch_sub_explicit(scheduler->executions, 1, memory_order_relaxed);
    scheduler->ended_ns = max_ns(scheduler->ended_ns, end_ns);
  }
  if (--flow->jobs == 0) rest(scheduler, flow, job->measured_ns - before_ns, end_ns);
}

void pjrtd_scheduler_leave_out(pjrtd_scheduler *scheduler, pjrtd_job *job) {
  job->next = NULL;
  job->previous = scheduler->newest_out;
  if (scheduler->newest_out)
    scheduler->newest_out->next = job;
  else
    scheduler->oldest_out = job;
  scheduler->newest_out = job;
  scheduler->out_ns += job->estimate_ns;
  if (scheduler->executions) atomic_fetch_add_explicit(scheduler->executions, 1, memory_order_relaxed);
}

void pjrtd_scheduler_again(pjrtd_scheduler *scheduler, pjrtd_job *job, uint64_t end_ns) {
  pjrtd_flow *flow = flow_of(scheduler, job);
  settle(scheduler, flow, job, end_ns);
  job->again = false;
  job->queued = true;
  job->queued_ns = end_ns;
  append(flow, job);
  scheduler->queued++;
  if (!flow->place) heap_insert(scheduler, flow);
}

void pjrtd_scheduler_give_up(pjrtd_scheduler *scheduler, pjrtd_job *job, uint64_t now_ns) {
  pjrtd_flow *flow = flow_of(scheduler, job);
  uint64_t ns = now_ns > job->started_ns ? now_ns - job->started_ns : 0;
  charge(scheduler, flow, job, ns);
  job->charged_ns = ns;
  if (scheduler->latest == job) scheduler->latest = NULL;
}

pjrtd_job *pjrtd_scheduler_withdraw(pjrtd_scheduler *scheduler, pjrtd_job *job) {
  if (!job && scheduler->num_waiting) job = scheduler->heap[1]->first;
  if (!job || !job->queued) return NULL;
  pjrtd_flow *flow = flow_of(scheduler, job);
  unqueue(scheduler, flow, job);
  if (--flow->jobs == 0) {
    count_busy(scheduler, -1);
    flow->window_ns = 0;
  }
  return job;
}

void pjrtd_scheduler_set_priority(pjrtd_scheduler *scheduler, pjrtd_flow *flow, pjrtd_priority priority) {
  if (flow->priority == priority) return;
  /* What it owes, it owes there too. */
  uint64_t before_ns = scheduler->level_ns[flow->priority];
  uint64_t debt_ns = flow->served_ns > before_ns ? flow->served_ns - before_ns : 0;
  flow->served_ns = scheduler->level_ns[priority] + debt_ns;
  flow->priority = priority;
  if (flow->place) sift(scheduler, flow);
  if (scheduler->expected == flow) scheduler->expected = NULL;
}
