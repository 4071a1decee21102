/* Lanes under load: jobs of one session run in order and each is delivered once, whether it is quick, slow enough to be
 * moved off its thread, in slices, goes on on the device, or is withdrawn before it begins; sessions change their
 * priority meanwhile; the lane goes when its stuck threads have come back. */
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "state/lane.h"
#include "support/require.h"

enum { LANES = 3, FLOWS = 4, JOBS = 3000, STALL_MS = 20 };

typedef struct {
  pjrtd_job job; /* first */
  int lane, flow, number;
  int slices; /* left to run */
  unsigned microseconds;
  atomic_bool ran;
  bool sliced, goes_on, done, withdrawn;
  uint64_t result;
} task;

static uv_loop_t loop;
static pjrtd_lane *lanes[LANES];
static task *tasks;
static int outstanding, submitted, withdrawn, moved;
static pjrtd_flow flows[LANES][FLOWS]; /* the last is not used: jobs without one */
static atomic_uint executions;
/* The job that a flow began last: they begin in order. */
static atomic_int last_begun[LANES][FLOWS];

static void run(pjrtd_job *job) {
  task *self = (task *)job;
  if (atomic_exchange(&self->ran, true))
    REQUIRE(self->sliced);
  else
    REQUIRE(atomic_exchange(&last_begun[self->lane][self->flow], self->number) < self->number);
  if (self->microseconds) usleep(self->microseconds);
  job->again = --self->slices > 0;
  job->outstanding = self->goes_on && !job->again;
  if (job->again) usleep(50);
  self->result = (uint64_t)self->number * 3 + 1;
}

static void done(pjrtd_job *job) {
  task *self = (task *)job;
  REQUIRE(!self->done && !self->withdrawn && atomic_load(&self->ran));
  REQUIRE(self->result == (uint64_t)self->number * 3 + 1);
  REQUIRE(self->slices <= 0);
  self->done = true;
  outstanding--;
  if (job->outstanding) pjrtd_lane_execution_ended(lanes[self->lane], job, pjrtd_clock_now_ns());
}

static void on_timer(uv_timer_t *timer) {
  for (int i = 0; i < LANES; i++)
    if (pjrtd_lane_check_stall(lanes[i], pjrtd_clock_now_ns(), STALL_MS, UINT64_MAX, false)) moved++;
}

int main(void) {
  REQUIRE(uv_loop_init(&loop) == 0);
  pjrtd_mailbox *mailbox;
  REQUIRE(pjrtd_mailbox_create(&loop, NULL, NULL, &mailbox) == PJRTD_OK);
  uv_timer_t timer;
  uv_timer_init(&loop, &timer);
  uv_timer_start(&timer, on_timer, 5, 5);
  for (int i = 0; i < LANES; i++) {
    char name[16];
    snprintf(name, sizeof name, "lane-%d", i);
    REQUIRE(pjrtd_lane_create(name, mailbox, 256 << 10, &lanes[i]) == PJRTD_OK);
    pjrtd_lane_limit_executions(lanes[i], &executions, 4);
    for (int j = 0; j < FLOWS; j++) last_begun[i][j] = -1;
  }
  tasks = calloc(JOBS, sizeof *tasks);
  REQUIRE(tasks);
  unsigned seed = 7;
  for (int i = 0; i < JOBS; i++) {
    task *the = &tasks[i];
    the->lane = (int)(rand_r(&seed) % LANES);
    the->number = i;
    the->job.run = run;
    the->job.done = done;
    unsigned kind = rand_r(&seed) % 100;
    the->flow = (int)(rand_r(&seed) % FLOWS);
    if (the->flow < FLOWS - 1) the->job.flow = &flows[the->lane][the->flow];
    the->slices = rand_r(&seed) % 20 == 0 ? 5 : 1;
    the->sliced = the->slices > 1;
    the->goes_on = the->job.flow && rand_r(&seed) % 4 == 0;
    the->microseconds = kind == 0 ? 3 * STALL_MS * 1000 : kind < 10 ? 200 : 0;
    REQUIRE(pjrtd_lane_submit(lanes[the->lane], &the->job) == PJRTD_OK);
    submitted++;
    outstanding++;
    if (rand_r(&seed) % 10 == 0) {
      task *victim = &tasks[rand_r(&seed) % (unsigned)(i + 1)];
      if (!victim->done && !victim->withdrawn && pjrtd_lane_withdraw(lanes[victim->lane], &victim->job)) {
        REQUIRE(!atomic_load(&victim->ran) || victim->sliced);
        victim->withdrawn = true;
        withdrawn++;
        outstanding--;
      }
    }
    if (rand_r(&seed) % 50 == 0)
      pjrtd_lane_set_priority(lanes[the->lane], &flows[the->lane][rand_r(&seed) % (FLOWS - 1)],
                              (pjrtd_priority)(rand_r(&seed) % PJRTD_PRIORITIES));
    if (rand_r(&seed) % 20 == 0) uv_run(&loop, UV_RUN_NOWAIT);
    if (outstanding > 500)
      while (outstanding > 100) uv_run(&loop, UV_RUN_ONCE);
  }
  while (outstanding) uv_run(&loop, UV_RUN_ONCE);

  uint64_t jobs = 0;
  for (int i = 0; i < LANES; i++) {
    pjrtd_lane_stats stats = pjrtd_lane_get_stats(lanes[i]);
    REQUIRE(stats.queued == 0 && stats.stuck == 0 && !stats.running);
    jobs += stats.jobs;
  }
  REQUIRE(jobs == (uint64_t)(submitted - withdrawn));
  REQUIRE(executions == 0);
  REQUIRE(moved > 0);
  for (int i = 0; i < JOBS; i++) REQUIRE(tasks[i].done != tasks[i].withdrawn);

  /* Destroying one with work in its queue runs that work first; the mailbox delivers it. */
  task last[10] = {0};
  for (int i = 0; i < 10; i++) {
    last[i] = (task){.number = JOBS + i, .microseconds = 500, .slices = 1, .job = {.run = run, .done = done}};
    REQUIRE(pjrtd_lane_submit(lanes[0], &last[i].job) == PJRTD_OK);
    outstanding++;
  }
  uv_timer_stop(&timer);
  for (int i = 0; i < LANES; i++) pjrtd_lane_destroy(lanes[i]);
  uv_close((uv_handle_t *)&timer, NULL);
  pjrtd_mailbox_close(mailbox);
  REQUIRE(outstanding == 0);
  uv_run(&loop, UV_RUN_DEFAULT);
  REQUIRE(uv_loop_close(&loop) == 0);
  printf("%d jobs, %d withdrawn, %d moved off their thread\n", submitted, withdrawn, moved);
  free(tasks);
  return 0;
}
