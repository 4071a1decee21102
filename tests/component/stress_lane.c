/* Lanes under load: jobs run in order and each is delivered once, whether it is quick, slow enough to be moved off its
 * thread, or withdrawn before it begins; the lane goes when its stuck threads have come back. */
#include <stdatomic.h>
#include <unistd.h>

#include "base/clock.h"
#include "state/lane.h"
#include "support/require.h"

enum { LANES = 3, JOBS = 3000, STALL_MS = 20 };

typedef struct {
  pjrtd_job job; /* first */
  int lane, number;
  unsigned microseconds;
  atomic_bool ran;
  bool done, withdrawn;
  uint64_t result;
} task;

static uv_loop_t loop;
static pjrtd_lane *lanes[LANES];
static task *tasks;
static int outstanding, submitted, withdrawn, moved;
/* The job that a lane began last; quick jobs of one lane begin in order. */
static atomic_int last_begun[LANES];

static void run(pjrtd_job *job) {
  task *self = (task *)job;
  int before = atomic_exchange(&last_begun[self->lane], self->number);
  REQUIRE(before < self->number);
  REQUIRE(!atomic_exchange(&self->ran, true));
  if (self->microseconds) usleep(self->microseconds);
  self->result = (uint64_t)self->number * 3 + 1;
}

static void done(pjrtd_job *job) {
  task *self = (task *)job;
  REQUIRE(!self->done && !self->withdrawn && atomic_load(&self->ran));
  REQUIRE(self->result == (uint64_t)self->number * 3 + 1);
  self->done = true;
  outstanding--;
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
    last_begun[i] = -1;
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
    the->microseconds = kind == 0 ? 3 * STALL_MS * 1000 : kind < 10 ? 200 : 0;
    REQUIRE(pjrtd_lane_submit(lanes[the->lane], &the->job) == PJRTD_OK);
    submitted++;
    outstanding++;
    if (rand_r(&seed) % 10 == 0) {
      task *victim = &tasks[rand_r(&seed) % (unsigned)(i + 1)];
      if (!victim->done && !victim->withdrawn && pjrtd_lane_withdraw(lanes[victim->lane], &victim->job)) {
        REQUIRE(!atomic_load(&victim->ran));
        victim->withdrawn = true;
        withdrawn++;
        outstanding--;
      }
    }
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
  REQUIRE(moved > 0);
  for (int i = 0; i < JOBS; i++) REQUIRE(tasks[i].done != tasks[i].withdrawn);

  /* Destroying one with work in its queue runs that work first; the mailbox delivers it. */
  task last[10] = {0};
  for (int i = 0; i < 10; i++) {
    last[i] = (task){.number = JOBS + i, .microseconds = 500, .job = {.run = run, .done = done}};
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
