/* state/lane.c. */
#include <criterion/criterion.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "state/lane.h"

#define ASSERT_OK(expression)                                     \
  do {                                                            \
    pjrtd_status *status_ = (expression);                         \
    cr_assert_null(status_, "%s", pjrtd_status_message(status_)); \
  } while (0)

enum { MOST = 1000, STACK_BYTES = 256 << 10 };

typedef struct {
  pjrtd_job job; /* first */
  int number;
  sem_t began, may_end;
  pthread_t thread;
} task;

static uv_loop_t loop;
static pjrtd_mailbox *mailbox;
static pjrtd_lane *lane;
static int done[MOST], num_done;
static atomic_int ran[MOST], num_ran;

/* Refused jobs are noted with their number below 0. */
static void on_done(pjrtd_job *job) {
  int number = ((task *)job)->number;
  if (job->refusal) {
    cr_assert_eq(pjrtd_status_code(job->refusal), PJRTD_CODE_RESOURCE_EXHAUSTED);
    cr_assert(strstr(pjrtd_status_message(job->refusal), "the-lane-of-the-test"), "%s",
              pjrtd_status_message(job->refusal));
    pjrtd_status_destroy(job->refusal);
    number = -number;
  }
  done[num_done++] = number;
}
static void run_quick(pjrtd_job *job) {
  ran[atomic_fetch_add(&num_ran, 1)] = ((task *)job)->number;
}
/* Runs until the test lets it end. */
static void run_held(pjrtd_job *job) {
  task *self = (task *)job;
  self->thread = pthread_self();
  sem_post(&self->began);
  while (sem_wait(&self->may_end) != 0) continue;
  run_quick(job);
}

static void begin(void) {
  cr_assert_eq(uv_loop_init(&loop), 0);
  ASSERT_OK(pjrtd_mailbox_create(&loop, NULL, NULL, &mailbox));
  ASSERT_OK(pjrtd_lane_create("the-lane-of-the-test", mailbox, STACK_BYTES, &lane));
}

static void shut(void) {
  pjrtd_lane_destroy(lane);
  pjrtd_mailbox_close(mailbox);
  cr_assert_eq(uv_run(&loop, UV_RUN_DEFAULT), 0);
  cr_assert_eq(uv_loop_close(&loop), 0);
}

TestSuite(lane, .init = begin, .timeout = 60);

static void submit(task *task, int number, void (*run)(pjrtd_job *job)) {
  *task = (__typeof__(*task)){.job = {.run = run, .done = on_done}, .number = number};
  sem_init(&task->began, 0, 0);
  sem_init(&task->may_end, 0, 0);
  ASSERT_OK(pjrtd_lane_submit(lane, &task->job));
}

static void submit_held(task *task, int number) {
  submit(task, number, run_held);
  while (sem_wait(&task->began) != 0) continue;
}

static void run_until(int count) {
  while (num_done < count) uv_run(&loop, UV_RUN_ONCE);
}

static void wait_for_stuck(uint32_t count) {
  while (pjrtd_lane_get_stats(lane).stuck != count) usleep(200);
}

/* As if the stall limit had passed. */
static bool check_stall_within(uint64_t max_stuck, bool refuse) {
  return pjrtd_lane_check_stall(lane, pjrtd_clock_now_ns() + UINT64_C(10000000000), 1000, max_stuck, refuse);
}
static bool check_stall(void) {
  return check_stall_within(100, false);
}

Test(lane, runs_jobs_in_order_and_hands_them_back_to_the_loop) {
  static task tasks[200];
  for (int i = 0; i < 200; i++) submit(&tasks[i], i, run_quick);
  run_until(200);
  for (int i = 0; i < 200; i++) {
    cr_assert_eq(ran[i], i);
    cr_assert_eq(done[i], i);
  }
  pjrtd_lane_stats stats = pjrtd_lane_get_stats(lane);
  cr_assert_eq(stats.jobs, 200);
  cr_assert_eq(stats.queued, 0);
  cr_assert_not(stats.running);
  shut();
}

Test(lane, has_a_name_and_no_thread_before_the_first_job) {
  cr_assert_str_eq(pjrtd_lane_name(lane), "the-lane-of-the-test");
  cr_assert_not(check_stall());
  pjrtd_lane_stats stats = pjrtd_lane_get_stats(lane);
  cr_assert(!stats.jobs && !stats.queued && !stats.busy_ns && !stats.stuck && !stats.running);
  shut();
}

Test(lane, counts_what_waits_and_what_runs) {
  static task tasks[3];
  submit_held(&tasks[0], 0);
  submit(&tasks[1], 1, run_quick);
  submit(&tasks[2], 2, run_quick);
  pjrtd_lane_stats stats = pjrtd_lane_get_stats(lane);
  cr_assert(stats.running);
  cr_assert_eq(stats.queued, 2);
  cr_assert_eq(stats.jobs, 0);
  usleep(3000);
  sem_post(&tasks[0].may_end);
  run_until(3);
  cr_assert_geq(pjrtd_lane_get_stats(lane).busy_ns, 3000000);
  shut();
}

Test(lane, can_be_given_a_job_again_once_it_is_done) {
  static task one;
  for (int i = 0; i < 5; i++) {
    submit(&one, i, run_quick);
    run_until(i + 1);
  }
  for (int i = 0; i < 5; i++) cr_assert_eq(done[i], i);
  shut();
}

Test(lane, leaves_a_job_alone_that_is_within_the_limit) {
  static task one;
  submit_held(&one, 0);
  cr_assert_not(pjrtd_lane_check_stall(lane, pjrtd_clock_now_ns(), 60000, 100, true));
  cr_assert_not(pjrtd_lane_check_stall(lane, 0, 0, 100, true), "a clock that was read before the job began");
  sem_post(&one.may_end);
  run_until(1);
  cr_assert_not(check_stall(), "nothing runs");
  cr_assert_eq(pjrtd_lane_get_stats(lane).stuck, 0);
  shut();
}

Test(lane, moves_a_stalled_job_off_and_goes_on_with_the_queue) {
  static task stuck, tasks[10];
  submit_held(&stuck, 100);
  for (int i = 0; i < 10; i++) submit(&tasks[i], i, run_quick);
  cr_assert(check_stall());
  run_until(10);
  for (int i = 0; i < 10; i++) cr_assert_eq(done[i], i);
  pjrtd_lane_stats stats = pjrtd_lane_get_stats(lane);
  cr_assert_eq(stats.stuck, 1);
  cr_assert_eq(stats.jobs, 10);
  cr_assert_not(check_stall(), "it was moved off before");
  sem_post(&stuck.may_end);
  run_until(11);
  cr_assert_eq(done[10], 100, "it is handed back all the same");
  cr_assert_eq(pjrtd_lane_get_stats(lane).stuck, 0);
  cr_assert_eq(pjrtd_lane_get_stats(lane).jobs, 11);
  shut();
}

Test(lane, does_not_let_a_thread_that_comes_back_take_the_queue) {
  static task first, second, third;
  submit_held(&first, 1);
  cr_assert(check_stall());
  submit_held(&second, 2);
  submit(&third, 3, run_quick);
  sem_post(&first.may_end);
  run_until(1);
  usleep(20000);
  cr_assert_eq(pjrtd_lane_get_stats(lane).queued, 1, "only the new thread may go on, and it is busy");
  sem_post(&second.may_end);
  run_until(3);
  cr_assert_eq(done[0], 1);
  cr_assert_eq(done[1], 2);
  cr_assert_eq(done[2], 3);
  shut();
}

Test(lane, can_lose_several_threads_one_after_the_other) {
  static task stuck[3];
  for (int i = 0; i < 3; i++) {
    submit_held(&stuck[i], i);
    cr_assert(check_stall());
    cr_assert_eq(pjrtd_lane_get_stats(lane).stuck, (uint32_t)i + 1);
  }
  static task quick;
  submit(&quick, 9, run_quick);
  run_until(1);
  cr_assert_eq(done[0], 9);
  for (int i = 2; i >= 0; i--) {
    sem_post(&stuck[i].may_end);
    run_until(4 - i);
    cr_assert_eq(done[3 - i], i);
  }
  cr_assert_eq(pjrtd_lane_get_stats(lane).stuck, 0);
  shut();
}

Test(lane, loses_no_more_threads_than_it_may) {
  static task stuck[3], waiting;
  for (int i = 0; i < 2; i++) {
    submit_held(&stuck[i], i);
    cr_assert(check_stall_within(2, false));
  }
  submit_held(&stuck[2], 2);
  submit(&waiting, 3, run_quick);
  cr_assert_not(check_stall_within(2, false));
  cr_assert_eq(pjrtd_lane_get_stats(lane).stuck, 2);
  uv_run(&loop, UV_RUN_NOWAIT);
  cr_assert_eq(num_done, 0, "what is not to be refused waits");
  sem_post(&stuck[0].may_end);
  run_until(1);
  cr_assert(check_stall_within(2, false), "one came back, so another may go");
  run_until(2);
  cr_assert_eq(done[1], 3);
  sem_post(&stuck[1].may_end);
  sem_post(&stuck[2].may_end);
  run_until(4);
  wait_for_stuck(0);
  shut();
}

Test(lane, refuses_what_is_queued_when_no_thread_may_be_lost_and_nothing_comes_back) {
  static task stuck[3], waiting[4], later;
  submit_held(&stuck[0], 10);
  submit(&waiting[0], 1, run_quick);
  cr_assert(check_stall_within(2, true));
  run_until(1);
  cr_assert_eq(done[0], 1, "there was a thread left");
  submit_held(&stuck[1], 11);
  cr_assert(check_stall_within(2, true));
  submit_held(&stuck[2], 12);
  for (int i = 1; i < 4; i++) submit(&waiting[i], i + 1, run_quick);
  cr_assert_not(pjrtd_lane_check_stall(lane, pjrtd_clock_now_ns() + UINT64_C(9000000000), 1000, 2, true));
  uv_run(&loop, UV_RUN_NOWAIT);
  cr_assert_eq(num_done, 1, "patience lasts ten times as long");
  cr_assert_not(check_stall_within(2, true));
  run_until(4);
  for (int i = 1; i < 4; i++) cr_assert_eq(done[i], -(i + 1));
  cr_assert_eq(pjrtd_lane_get_stats(lane).queued, 0);
  cr_assert_eq(atomic_load(&num_ran), 1);
  cr_assert_not(pjrtd_lane_withdraw(lane, &waiting[1].job), "it was handed back");
  for (int i = 0; i < 3; i++) sem_post(&stuck[i].may_end);
  run_until(7);
  submit(&later, 20, run_quick);
  run_until(8);
  cr_assert_eq(done[7], 20);
  shut();
}

Test(lane, says_how_many_are_stuck) {
  PJRTD_AUTO(pjrtd_status) status = pjrtd_lane_exhausted(lane, 7);
  cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_RESOURCE_EXHAUSTED);
  cr_assert(strstr(pjrtd_status_message(status), "7"), "%s", pjrtd_status_message(status));
  cr_assert(strstr(pjrtd_status_hint(status), "max_stuck"), "%s", pjrtd_status_hint(status));
  shut();
}

Test(lane, goes_on_without_a_fresh_thread_when_there_is_no_memory_for_one) {
  static task stuck;
  submit_held(&stuck, 1);
  pjrtd_alloc_fail_after(0);
  cr_assert_not(check_stall());
  pjrtd_alloc_fail_after(-1);
  cr_assert_eq(pjrtd_lane_get_stats(lane).stuck, 0);
  cr_assert(check_stall(), "the next check tries again");
  sem_post(&stuck.may_end);
  run_until(1);
  wait_for_stuck(0);
  shut();
}

Test(lane, gives_a_job_back_that_has_not_begun) {
  static task held, tasks[4];
  submit_held(&held, 100);
  for (int i = 0; i < 4; i++) submit(&tasks[i], i, run_quick);
  cr_assert_not(pjrtd_lane_withdraw(lane, &held.job), "it runs");
  cr_assert(pjrtd_lane_withdraw(lane, &tasks[1].job));
  cr_assert_not(pjrtd_lane_withdraw(lane, &tasks[1].job), "it was taken out before");
  cr_assert(pjrtd_lane_withdraw(lane, &tasks[3].job)); /* the last */
  cr_assert_eq(pjrtd_lane_get_stats(lane).queued, 2);
  static task late;
  submit(&late, 4, run_quick);
  cr_assert(pjrtd_lane_withdraw(lane, &tasks[0].job)); /* the first */
  sem_post(&held.may_end);
  run_until(3);
  cr_assert_eq(done[0], 100);
  cr_assert_eq(done[1], 2);
  cr_assert_eq(done[2], 4);
  cr_assert_not(pjrtd_lane_withdraw(lane, &tasks[2].job), "it has ended");
  shut();
  cr_assert_eq(num_done, 3);
}

Test(lane, takes_a_withdrawn_job_again) {
  static task held, one;
  submit_held(&held, 100);
  submit(&one, 1, run_quick);
  cr_assert(pjrtd_lane_withdraw(lane, &one.job));
  ASSERT_OK(pjrtd_lane_submit(lane, &one.job));
  sem_post(&held.may_end);
  run_until(2);
  cr_assert_eq(done[1], 1);
  shut();
}

Test(lane, runs_what_is_queued_before_it_goes) {
  static task tasks[50];
  for (int i = 0; i < 50; i++) submit(&tasks[i], i, run_quick);
  pjrtd_lane_destroy(lane);
  lane = NULL;
  cr_assert_eq(atomic_load(&num_ran), 50);
  pjrtd_mailbox_drain(mailbox);
  cr_assert_eq(num_done, 50);
  shut();
}

Test(lane, leaves_its_memory_to_a_stuck_thread) {
  /* That thread comes back after the lane was given up. */
  static task stuck, quick;
  submit_held(&stuck, 1);
  cr_assert(check_stall());
  submit(&quick, 2, run_quick);
  pjrtd_lane_destroy(lane);
  pjrtd_mailbox_drain(mailbox);
  cr_assert_eq(num_done, 1);
  sem_post(&stuck.may_end);
  run_until(2);
  cr_assert_eq(done[1], 1);
  usleep(20000); /* the thread takes the lane's mutex once more as it goes */
}

static void run_look_at_signals(pjrtd_job *job) {
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  int all = 1;
  for (int number = 1; number < SIGSYS; number++)
    if (number != SIGKILL && number != SIGSTOP) all &= sigismember(&blocked, number);
  atomic_fetch_add(&num_ran, 1);
  atomic_store(&ran[0], all);
}

Test(lane, takes_no_signals_from_the_loop) {
  static task one;
  submit(&one, 1, run_look_at_signals);
  run_until(1);
  cr_assert_eq(atomic_load(&ran[0]), 1);
  sigset_t blocked;
  pthread_sigmask(SIG_SETMASK, NULL, &blocked);
  cr_assert_not(sigismember(&blocked, SIGTERM), "the loop's own mask is as it was");
  shut();
}

Test(lane, is_not_made_without_memory) {
  for (int64_t successes = 0; successes < 3; successes++) {
    pjrtd_lane *other = lane;
    pjrtd_alloc_fail_after(successes);
    PJRTD_AUTO(pjrtd_status) status = pjrtd_lane_create("x", mailbox, STACK_BYTES, &other);
    pjrtd_alloc_fail_after(-1);
    cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_RESOURCE_EXHAUSTED);
    cr_assert_null(other);
  }
  pjrtd_lane_destroy(NULL);
  shut();
}

Test(lane, does_not_take_a_job_for_which_there_is_no_thread) {
  static task one = {.job = {.run = run_quick, .done = on_done}};
  pjrtd_alloc_fail_after(0);
  PJRTD_AUTO(pjrtd_status) status = pjrtd_lane_submit(lane, &one.job);
  pjrtd_alloc_fail_after(-1);
  cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_RESOURCE_EXHAUSTED);
  cr_assert_eq(pjrtd_lane_get_stats(lane).queued, 0);
  submit(&one, 5, run_quick);
  run_until(1);
  cr_assert_eq(done[0], 5);
  shut();
  cr_assert_eq(num_done, 1);
}

static int num_refused;

static void on_refused_or_done(pjrtd_job *job) {
  if (job->refusal) {
    cr_assert_eq(pjrtd_status_code(job->refusal), PJRTD_CODE_RESOURCE_EXHAUSTED);
    pjrtd_status_destroy(job->refusal);
    num_refused++;
  }
  num_done++;
}

Test(lane, refuses_what_it_has_no_memory_to_queue) {
  enum { FLOWS = 12 };
  static task held, one[FLOWS];
  static pjrtd_flow flows[FLOWS];
  submit_held(&held, 0);
  for (int i = 0; i < FLOWS; i++) {
    one[i] = (task){.job = {.run = run_quick, .done = on_refused_or_done, .flow = &flows[i]}};
    ASSERT_OK(pjrtd_lane_submit(lane, &one[i].job));
  }
  pjrtd_alloc_fail_after(0);
  cr_assert_eq(pjrtd_lane_get_stats(lane).queued, FLOWS - 1);
  pjrtd_alloc_fail_after(-1);
  run_until(1);
  cr_assert_eq(num_refused, 1);
  sem_post(&held.may_end);
  run_until(1 + FLOWS);
  cr_assert_eq(num_refused, 1);
  cr_assert_eq(num_ran, FLOWS);
  shut();
}

/* A wakeup that was not waited for must not be one the next time, nor one that is waited for be lost. */
Test(lane, sleeps_when_there_is_nothing_and_wakes_when_there_is) {
  static task one;
  for (int i = 0; i < 20000; i++) {
    submit(&one, i, run_quick);
    run_until(i % MOST + 1);
    if (i % MOST + 1 == MOST) num_done = num_ran = 0;
    for (volatile int pause = 0; pause < i % 1000; pause++) continue;
  }
  struct timespec before, after;
  clockid_t clock;
  submit_held(&one, 0);
  cr_assert_eq(pthread_getcpuclockid(one.thread, &clock), 0);
  sem_post(&one.may_end);
  run_until(num_done + 1);
  clock_gettime(clock, &before);
  usleep(100000);
  clock_gettime(clock, &after);
  int64_t ns = (int64_t)(after.tv_sec - before.tv_sec) * 1000000000 + after.tv_nsec - before.tv_nsec;
  cr_assert_lt(ns, 20000000, "%lld ns", (long long)ns);
  shut();
}

Test(lane, says_so_when_the_thread_cannot_have_its_stack) {
  pjrtd_lane *greedy;
  ASSERT_OK(pjrtd_lane_create("greedy", mailbox, (size_t)1 << 60, &greedy));
  static task one = {.job = {.run = run_quick, .done = on_done}};
  PJRTD_AUTO(pjrtd_status) status = pjrtd_lane_submit(greedy, &one.job);
  cr_assert_not_null(status);
  cr_assert(strstr(pjrtd_status_message(status), "greedy"), "%s", pjrtd_status_message(status));
  pjrtd_lane_destroy(greedy);
  shut();
}

/* ---- executions ---- */

typedef struct {
  task task; /* first */
  int slices;
} sliced;

static void run_slice(pjrtd_job *job) {
  sliced *self = (sliced *)job;
  usleep(1000);
  self->slices--;
  job->again = self->slices > 0;
  run_quick(job);
}

static void submit_slices(sliced *sliced, int number, int slices, pjrtd_flow *flow) {
  sliced->slices = slices;
  sliced->task.job = (pjrtd_job){.run = run_slice, .done = on_done, .flow = flow};
  sliced->task.number = number;
  ASSERT_OK(pjrtd_lane_submit(lane, &sliced->task.job));
}

Test(lane, runs_a_job_in_slices_between_which_others_have_their_turn) {
  static pjrtd_flow flows[2];
  static sliced one = {.task.number = 0}, other;
  submit_slices(&one, 1, 20, &flows[0]);
  submit_slices(&other, 2, 5, &flows[1]);
  run_until(2);
  cr_assert_eq(done[0], 2, "the shorter one ended before");
  cr_assert_eq(atomic_load(&num_ran), 25);
  cr_assert_geq(one.task.job.measured_ns, 20000000, "of all slices");
  cr_assert_eq(pjrtd_lane_get_stats(lane).jobs, 2);
  cr_assert_geq(pjrtd_lane_get_stats(lane).busy_ns, 25000000);
  cr_assert_not(pjrtd_lane_is_busy(lane));
  shut();
}

Test(lane, ends_a_job_after_its_slice_when_it_is_destroyed) {
  static pjrtd_flow flow;
  static sliced one;
  submit_slices(&one, 1, 1000000, &flow);
  while (!atomic_load(&num_ran)) usleep(200);
  pjrtd_lane_destroy(lane);
  lane = NULL;
  pjrtd_mailbox_drain(mailbox);
  cr_assert_eq(num_done, 1);
  cr_assert(one.task.job.again, "it had wanted to go on");
  shut();
}

static void run_outstanding(pjrtd_job *job) {
  job->outstanding = true;
  run_quick(job);
}

static void submit_outstanding(task *task, int number, pjrtd_flow *flow, uint64_t estimate_ns) {
  task->job = (pjrtd_job){.run = run_outstanding, .done = on_done, .flow = flow, .estimate_ns = estimate_ns};
  task->number = number;
  ASSERT_OK(pjrtd_lane_submit(lane, &task->job));
}

Test(lane, holds_executions_back_while_the_device_has_as_many_as_it_may) {
  static pjrtd_flow flow;
  static task tasks[6];
  atomic_uint executions = 0;
  pjrtd_lane_limit_executions(lane, &executions, 3);
  for (int i = 0; i < 6; i++) submit_outstanding(&tasks[i], i, &flow, 1);
  run_until(3);
  usleep(20000);
  cr_assert_eq(atomic_load(&num_ran), 3);
  cr_assert_eq(executions, 3);
  cr_assert_eq(pjrtd_lane_get_stats(lane).queued, 3);
  pjrtd_lane_execution_ended(lane, &tasks[1].job, pjrtd_clock_now_ns());
  run_until(4);
  cr_assert_eq(atomic_load(&num_ran), 4);
  /* As if the device's other lane had ended one. */
  atomic_fetch_sub(&executions, 1);
  run_until(5);
  atomic_fetch_add(&executions, 1);
  for (int i = 0; i < 5; i++)
    if (i != 1) pjrtd_lane_execution_ended(lane, &tasks[i].job, pjrtd_clock_now_ns());
  run_until(6);
  pjrtd_lane_execution_ended(lane, &tasks[5].job, pjrtd_clock_now_ns());
  cr_assert_eq(executions, 0);
  cr_assert_not(pjrtd_lane_is_busy(lane));
  shut();
}

Test(lane, refuses_what_waits_for_a_device_that_does_not_come_back) {
  static pjrtd_flow flows[2];
  static task stuck, waiting[2];
  submit_outstanding(&stuck, 1, &flows[0], UINT64_C(1) << 40);
  run_until(1);
  submit_outstanding(&waiting[0], 2, &flows[0], 1);
  submit_outstanding(&waiting[1], 3, &flows[1], 1);
  /* 4 may be stuck, and one more: each has PJRTD_LANE_PATIENCE times 100 ms. */
  uint64_t now_ns = stuck.job.started_ns;
  cr_assert_not(pjrtd_lane_check_stall(lane, now_ns + UINT64_C(4900000000), 100, 4, true));
  cr_assert_eq(pjrtd_lane_get_stats(lane).queued, 2);
  cr_assert_not(pjrtd_lane_check_stall(lane, now_ns + UINT64_C(5100000000), 100, 4, false));
  cr_assert_eq(pjrtd_lane_get_stats(lane).queued, 2);
  pjrtd_lane_check_stall(lane, now_ns + UINT64_C(5100000000), 100, 4, true);
  cr_assert_eq(pjrtd_lane_get_stats(lane).queued, 0);
  run_until(3);
  cr_assert_eq(done[1] + done[2], -5, "both were refused");
  pjrtd_lane_execution_ended(lane, &stuck.job, pjrtd_clock_now_ns());
  shut();
}

Test(lane, changes_the_priority_of_what_waits) {
  static pjrtd_flow flows[2];
  static task held, normal, low;
  submit_held(&held, 1);
  low = (task){.job = {.run = run_quick, .done = on_done, .flow = &flows[0]}, .number = 2};
  normal = (task){.job = {.run = run_quick, .done = on_done, .flow = &flows[1]}, .number = 3};
  ASSERT_OK(pjrtd_lane_submit(lane, &low.job));
  ASSERT_OK(pjrtd_lane_submit(lane, &normal.job));
  pjrtd_lane_set_priority(lane, &flows[1], PJRTD_PRIORITY_NORMAL);
  sem_post(&held.may_end);
  run_until(3);
  cr_assert_eq(done[1], 3);
  cr_assert_eq(done[2], 2);
  shut();
}
