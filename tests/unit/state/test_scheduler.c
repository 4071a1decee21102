/* state/scheduler.c, with made-up times: no thread, no plugin. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "state/scheduler.h"

#define US UINT64_C(1000)
#define MS UINT64_C(1000000)

#define ASSERT_OK(expression)                                     \
  do {                                                            \
    pjrtd_status *status_ = (expression);                         \
    cr_assert_null(status_, "%s", pjrtd_status_message(status_)); \
  } while (0)

enum { FLOWS = 40, JOBS = 400 };

/* A session of one program, which keeps `depth` jobs queued. */
typedef struct {
  pjrtd_flow flow;
  uint64_t program_ns;
  uint64_t think_ns;                 /* from an answer to the next request, */
  uint64_t slow_each, slow_think_ns; /* but so long each slow_each-th time */
  int depth;
  pjrtd_job *ready; /* to be submitted at ready_ns */
  uint64_t ready_ns;
  uint64_t got_ns; /* device time */
  uint64_t runs;
  uint64_t longest_wait_ns;
  bool stopped;
} session;

static pjrtd_scheduler scheduler;
static session sessions[FLOWS];
static pjrtd_job jobs[JOBS];
static size_t num_jobs;
static uint64_t now_ns, idle_ns;

static void begin(void) {
  ASSERT_OK(pjrtd_scheduler_init(&scheduler));
  now_ns = 1000 * MS;
  for (int i = 0; i < FLOWS; i++) sessions[i].flow.priority = PJRTD_PRIORITY_NORMAL;
}

static void end(void) {
  pjrtd_scheduler_deinit(&scheduler);
}

TestSuite(scheduler, .init = begin, .fini = end, .timeout = 60);

static pjrtd_job *new_job(pjrtd_flow *flow, uint64_t estimate_ns) {
  cr_assert_lt(num_jobs, JOBS);
  pjrtd_job *job = &jobs[num_jobs++];
  job->flow = flow;
  job->estimate_ns = estimate_ns;
  return job;
}

static pjrtd_job *push(pjrtd_flow *flow, uint64_t estimate_ns) {
  pjrtd_job *job = new_job(flow, estimate_ns);
  ASSERT_OK(pjrtd_scheduler_push(&scheduler, job, now_ns));
  return job;
}

static pjrtd_job *take(void) {
  uint64_t retry_ns;
  return pjrtd_scheduler_take(&scheduler, now_ns, false, &retry_ns);
}

/* Takes the next, which has to be this one, and lets it run. */
static void run(pjrtd_job *job, uint64_t ns) {
  cr_assert_eq(take(), job);
  now_ns += ns;
  pjrtd_scheduler_end(&scheduler, job, now_ns);
  cr_assert_eq(job->measured_ns, ns);
}

/* ---- a made-up device ---- */

static void submit_what_is_due(session *all, int count) {
  for (int i = 0; i < count; i++) {
    session *one = &all[i];
    if (!one->ready || one->ready_ns > now_ns || one->stopped) continue;
    ASSERT_OK(pjrtd_scheduler_push(&scheduler, one->ready, one->ready_ns));
    one->ready = NULL;
  }
}

static uint64_t next_due_ns(const session *all, int count) {
  uint64_t due_ns = UINT64_MAX;
  for (int i = 0; i < count; i++)
    if (all[i].ready && !all[i].stopped && all[i].ready_ns < due_ns) due_ns = all[i].ready_ns;
  return due_ns;
}

static session *session_of(const pjrtd_job *job) {
  return (session *)((char *)job->flow - offsetof(session, flow));
}

/* Lets the sessions have the device for so long. Those with depth 1 think before each request; the others always have
 * something queued. */
static void simulate(session *all, int count, uint64_t duration_ns) {
  for (int i = 0; i < count; i++) {
    for (int j = 1; j < all[i].depth; j++) push(&all[i].flow, 0);
    all[i].ready = new_job(&all[i].flow, 0);
    all[i].ready_ns = now_ns;
  }
  uint64_t until_ns = now_ns + duration_ns;
  while (now_ns < until_ns) {
    submit_what_is_due(all, count);
    uint64_t retry_ns;
    pjrtd_job *job = pjrtd_scheduler_take(&scheduler, now_ns, false, &retry_ns);
    if (!job) {
      uint64_t due_ns = next_due_ns(all, count), next_ns = retry_ns && retry_ns < due_ns ? retry_ns : due_ns;
      cr_assert_neq(next_ns, UINT64_MAX, "nothing is queued, and nothing comes");
      cr_assert_gt(next_ns, now_ns, "the lane would spin");
      idle_ns += next_ns - now_ns;
      now_ns = next_ns;
      continue;
    }
    session *one = session_of(job);
    uint64_t waited_ns = now_ns - job->queued_ns;
    if (waited_ns > one->longest_wait_ns) one->longest_wait_ns = waited_ns;
    /* What others send while it runs comes at its time. */
    uint64_t end_ns = now_ns + one->program_ns;
    while (next_due_ns(all, count) < end_ns) {
      now_ns = next_due_ns(all, count);
      submit_what_is_due(all, count);
    }
    now_ns = end_ns;
    pjrtd_scheduler_end(&scheduler, job, now_ns);
    one->got_ns += one->program_ns;
    one->runs++;
    job->estimate_ns = one->program_ns;
    if (one->depth > 1) {
      ASSERT_OK(pjrtd_scheduler_push(&scheduler, job, now_ns));
    } else {
      one->ready = job;
      bool slow = one->slow_each && one->runs % one->slow_each == 0;
      one->ready_ns = now_ns + (slow ? one->slow_think_ns : one->think_ns);
    }
  }
}

/* Of all that was served, in percent. */
static double share_of(const session *one, const session *all, int count) {
  uint64_t total_ns = 0;
  for (int i = 0; i < count; i++) total_ns += all[i].got_ns;
  return 100.0 * (double)one->got_ns / (double)total_ns;
}

static void check_share(int which, int count, double least, double most) {
  double share = share_of(&sessions[which], sessions, count);
  cr_assert(share >= least && share <= most, "session %d has %.1f %%, not %.1f to %.1f", which, share, least, most);
}

/* ---- order ---- */

Test(scheduler, keeps_the_order_within_a_session) {
  pjrtd_job *first = push(&sessions[0].flow, 5 * MS), *second = push(&sessions[0].flow, 1 * US),
            *third = push(&sessions[0].flow, 0);
  run(first, 1 * MS);
  run(second, 9 * MS);
  run(third, 1 * US);
  cr_assert_null(take());
  cr_assert_eq(scheduler.queued, 0);
  cr_assert_eq(scheduler.busy, 0);
}

Test(scheduler, keeps_the_order_of_jobs_that_are_of_no_session) {
  pjrtd_job *all[20];
  for (int i = 0; i < 20; i++) all[i] = push(NULL, 0);
  for (int i = 0; i < 20; i++) run(all[i], (uint64_t)(20 - i) * MS);
  cr_assert_null(take());
}

Test(scheduler, takes_the_session_that_was_served_least) {
  pjrtd_job *long_ones[3], *short_ones[3];
  for (int i = 0; i < 3; i++) long_ones[i] = push(&sessions[0].flow, 0);
  for (int i = 0; i < 3; i++) short_ones[i] = push(&sessions[1].flow, 0);
  run(long_ones[0], 10 * MS);
  for (int i = 0; i < 3; i++) run(short_ones[i], 2 * MS);
  now_ns += 2 * MS; /* it may have had more */
  run(long_ones[1], 10 * MS);
  run(long_ones[2], 10 * MS);
}

/* ---- fairness ---- */

Test(scheduler, shares_evenly_between_short_and_long_programs_that_are_queued) {
  sessions[0] = (session){.flow = sessions[0].flow, .program_ns = 1 * MS, .depth = 3};
  sessions[1] = (session){.flow = sessions[1].flow, .program_ns = 50 * MS, .depth = 3};
  simulate(sessions, 2, 10000 * MS);
  check_share(0, 2, 49, 51);
  cr_assert_eq(idle_ns, 0);
}

Test(scheduler, shares_evenly_between_clients_that_wait_for_each_answer) {
  sessions[0] = (session){.flow = sessions[0].flow, .program_ns = 1 * MS, .depth = 1, .think_ns = 150 * US};
  sessions[1] = (session){.flow = sessions[1].flow, .program_ns = 50 * MS, .depth = 1, .think_ns = 150 * US};
  simulate(sessions, 2, 10000 * MS);
  check_share(0, 2, 48, 52);
  cr_assert_lt(idle_ns, 1500 * MS, "only while it thinks");
}

Test(scheduler, shares_evenly_where_one_waits_for_answers_and_the_other_has_much_queued) {
  sessions[0] = (session){.flow = sessions[0].flow, .program_ns = 1 * MS, .depth = 1, .think_ns = 300 * US};
  sessions[1] = (session){.flow = sessions[1].flow, .program_ns = 50 * MS, .depth = 8};
  simulate(sessions, 2, 10000 * MS);
  check_share(0, 2, 48, 52);
}

Test(scheduler, shares_evenly_among_many) {
  for (int i = 0; i < FLOWS; i++)
    sessions[i] = (session){.flow = sessions[i].flow, .program_ns = (uint64_t)(i + 1) * 500 * US, .depth = 2};
  simulate(sessions, FLOWS, 60000 * MS);
  for (int i = 0; i < FLOWS; i++) check_share(i, FLOWS, 2.3, 2.7);
}

Test(scheduler, does_not_wait_for_a_client_that_is_slow_to_come_back) {
  sessions[0] = (session){.flow = sessions[0].flow, .program_ns = 1 * MS, .depth = 1, .think_ns = 20 * MS};
  sessions[1] = (session){.flow = sessions[1].flow, .program_ns = 10 * MS, .depth = 4};
  simulate(sessions, 2, 10000 * MS);
  cr_assert_leq(idle_ns, 9 * (1 * MS + 1250 * US), "a few times it was waited for: %d us", (int)(idle_ns / US));
}

Test(scheduler, waits_no_longer_than_a_client_has_the_device) {
  /* Programs of 20 us, and a client that needs 300 us to ask for the next. */
  sessions[0] = (session){.flow = sessions[0].flow, .program_ns = 20 * US, .depth = 1, .think_ns = 300 * US};
  sessions[1] = (session){.flow = sessions[1].flow, .program_ns = 5 * MS, .depth = 4};
  simulate(sessions, 2, 10000 * MS);
  cr_assert_leq(idle_ns, 9 * 650 * US, "%d us", (int)(idle_ns / US));
}

Test(scheduler, does_not_wait_for_a_client_where_another_is_done_as_soon) {
  sessions[0] = (session){.flow = sessions[0].flow, .program_ns = 1 * MS, .depth = 1, .think_ns = 500 * US};
  sessions[1] = (session){.flow = sessions[1].flow, .program_ns = 20 * US, .depth = 4};
  simulate(sessions, 2, 10000 * MS);
  check_share(0, 2, 45, 51);
  cr_assert_lt(idle_ns, 300 * MS, "%d us", (int)(idle_ns / US));
}

Test(scheduler, bears_with_a_client_that_is_late_now_and_then) {
  sessions[0] = (session){.flow = sessions[0].flow,
                          .program_ns = 1 * MS,
                          .depth = 1,
                          .think_ns = 100 * US,
                          .slow_each = 12,
                          .slow_think_ns = 2500 * US};
  sessions[1] = (session){.flow = sessions[1].flow, .program_ns = 50 * MS, .depth = 2};
  simulate(sessions, 2, 10000 * MS);
  check_share(0, 2, 42, 52);
}

Test(scheduler, lets_a_small_program_wait_for_the_running_one_only) {
  sessions[0] = (session){.flow = sessions[0].flow, .program_ns = 200 * US, .depth = 1, .think_ns = 37 * MS};
  sessions[1] = (session){.flow = sessions[1].flow, .program_ns = 10 * MS, .depth = 16};
  simulate(sessions, 2, 10000 * MS);
  cr_assert_leq(sessions[0].longest_wait_ns, 10 * MS, "%d us", (int)(sessions[0].longest_wait_ns / US));
  cr_assert_gt(sessions[0].runs, 200);
}

Test(scheduler, gives_no_credit_to_a_session_that_was_idle) {
  sessions[0] = (session){.flow = sessions[0].flow, .program_ns = 2 * MS, .depth = 2};
  simulate(sessions, 1, 5000 * MS);
  /* The other comes after five seconds, with much to do: from there on they share. */
  sessions[1] = (session){.flow = sessions[1].flow, .program_ns = 2 * MS};
  pjrtd_job *late[50];
  for (int i = 0; i < 50; i++) late[i] = push(&sessions[1].flow, 2 * MS);
  int of_late = 0;
  for (int i = 0; i < 40; i++) {
    pjrtd_job *job = take();
    of_late += job->flow == &sessions[1].flow;
    now_ns += 2 * MS;
    pjrtd_scheduler_end(&scheduler, job, now_ns);
    if (job->flow == &sessions[0].flow) ASSERT_OK(pjrtd_scheduler_push(&scheduler, job, now_ns));
  }
  cr_assert(of_late >= 19 && of_late <= 21, "%d of 40", of_late);
  cr_assert(late[0]->measured_ns && !late[49]->measured_ns);
}

Test(scheduler, has_no_debts_for_what_nobody_else_wanted) {
  sessions[0] = (session){.flow = sessions[0].flow, .program_ns = 30 * MS, .depth = 1, .think_ns = 100 * US};
  simulate(sessions, 1, 3000 * MS);
  now_ns += 100 * US;
  pjrtd_job *other = push(&sessions[1].flow, 0), *other_next = push(&sessions[1].flow, 0),
            *own = push(&sessions[0].flow, 0);
  run(other, 1 * MS);
  run(own, 1 * MS);
  run(other_next, 1 * MS);
}

Test(scheduler, counts_what_ran_on_the_loop_meanwhile) {
  pjrtd_job *a[2] = {push(&sessions[0].flow, 1 * MS), push(&sessions[0].flow, 1 * MS)};
  pjrtd_job *b[5];
  for (int i = 0; i < 5; i++) b[i] = push(&sessions[1].flow, 1 * MS);
  run(a[0], 1 * MS);
  run(b[0], 1 * MS);
  pjrtd_job *last = new_job(&sessions[0].flow, 1 * MS);
  last->loop_ns = 3 * MS;
  ASSERT_OK(pjrtd_scheduler_push(&scheduler, last, now_ns));
  for (int i = 1; i < 4; i++) run(b[i], 1 * MS);
  run(a[1], 1 * MS);
  run(b[4], 1 * MS);
  run(last, 1 * MS);
}

/* ---- priorities ---- */

Test(scheduler, lets_priorities_go_before_all_fairness) {
  sessions[0].flow.priority = PJRTD_PRIORITY_LOW;
  sessions[2].flow.priority = PJRTD_PRIORITY_HIGH;
  pjrtd_job *low = push(&sessions[0].flow, 0);
  pjrtd_job *normal[2] = {push(&sessions[1].flow, 0), push(&sessions[1].flow, 0)};
  pjrtd_job *high[3];
  for (int i = 0; i < 3; i++) high[i] = push(&sessions[2].flow, 0);
  for (int i = 0; i < 3; i++) run(high[i], 50 * MS);
  now_ns += 5 * MS;
  run(normal[0], 50 * MS);
  pjrtd_job *late = push(&sessions[2].flow, 0);
  run(late, 1 * MS);
  now_ns += 5 * MS;
  run(normal[1], 1 * MS);
  now_ns += 5 * MS;
  run(low, 1 * MS);
}

Test(scheduler, changes_the_priority_of_what_waits) {
  pjrtd_job *a = push(&sessions[0].flow, 0), *b = push(&sessions[1].flow, 0), *c = push(&sessions[2].flow, 0);
  pjrtd_scheduler_set_priority(&scheduler, &sessions[2].flow, PJRTD_PRIORITY_HIGH);
  pjrtd_scheduler_set_priority(&scheduler, &sessions[0].flow, PJRTD_PRIORITY_LOW);
  run(c, 1 * US);
  now_ns += MS;
  run(b, 1 * US);
  now_ns += MS;
  run(a, 1 * US);
}

Test(scheduler, keeps_debts_across_a_change_of_priority) {
  pjrtd_job *a[2] = {push(&sessions[0].flow, 0), push(&sessions[0].flow, 0)};
  pjrtd_job *b[3];
  for (int i = 0; i < 3; i++) b[i] = push(&sessions[1].flow, 0);
  run(a[0], 20 * MS);
  pjrtd_scheduler_set_priority(&scheduler, &sessions[0].flow, PJRTD_PRIORITY_LOW);
  pjrtd_scheduler_set_priority(&scheduler, &sessions[0].flow, PJRTD_PRIORITY_NORMAL);
  for (int i = 0; i < 3; i++) run(b[i], 5 * MS);
  now_ns += 2 * MS;
  run(a[1], 1 * MS);
}

/* ---- going away ---- */

Test(scheduler, withdraws_from_anywhere) {
  pjrtd_job *a[4], *b = push(&sessions[1].flow, 0);
  for (int i = 0; i < 4; i++) a[i] = push(&sessions[0].flow, 0);
  cr_assert_eq(pjrtd_scheduler_withdraw(&scheduler, a[0]), a[0]);
  cr_assert_eq(pjrtd_scheduler_withdraw(&scheduler, a[2]), a[2]);
  cr_assert_null(pjrtd_scheduler_withdraw(&scheduler, a[2]), "it was taken out before");
  cr_assert_eq(pjrtd_scheduler_withdraw(&scheduler, b), b);
  cr_assert_eq(scheduler.num_waiting, 1);
  cr_assert_eq(scheduler.busy, 1);
  cr_assert_eq(take(), a[1]);
  cr_assert_null(pjrtd_scheduler_withdraw(&scheduler, a[1]), "it runs");
  cr_assert_eq(pjrtd_scheduler_withdraw(&scheduler, a[3]), a[3]);
  cr_assert_eq(scheduler.queued, 0);
  now_ns += MS;
  pjrtd_scheduler_end(&scheduler, a[1], now_ns);
  cr_assert_eq(scheduler.busy, 0);
  cr_assert_eq(sessions[0].flow.jobs, 0);
  cr_assert_null(pjrtd_scheduler_withdraw(&scheduler, NULL));
}

Test(scheduler, gives_up_all_that_is_queued_one_by_one) {
  for (int i = 0; i < 30; i++) push(i % 3 ? &sessions[i % 3].flow : NULL, 0);
  for (int i = 0; i < 30; i++) cr_assert_not_null(pjrtd_scheduler_withdraw(&scheduler, NULL));
  cr_assert_null(pjrtd_scheduler_withdraw(&scheduler, NULL));
  cr_assert_eq(scheduler.queued, 0);
  cr_assert_eq(scheduler.num_waiting, 0);
}

Test(scheduler, forgets_a_session_that_went_when_its_work_had_ended) {
  pjrtd_flow *gone = malloc(sizeof *gone);
  *gone = (pjrtd_flow){.priority = PJRTD_PRIORITY_NORMAL};
  pjrtd_job *job = push(gone, 0), *withdrawn = push(gone, 0), *other = push(&sessions[1].flow, 0);
  run(job, 20 * MS);
  pjrtd_scheduler_withdraw(&scheduler, withdrawn);
  memset(gone, 0xee, sizeof *gone);
  free(gone);
  run(other, 1 * MS);
  pjrtd_job *last = push(&sessions[2].flow, 0);
  now_ns += 2 * MS;
  run(last, 1 * MS);
}

Test(scheduler, says_when_there_is_no_memory_for_another_session) {
  for (int i = 0; i < 8; i++) push(&sessions[i].flow, 0);
  pjrtd_job *job = new_job(&sessions[8].flow, 0);
  pjrtd_alloc_fail_after(0);
  PJRTD_AUTO(pjrtd_status) status = pjrtd_scheduler_push(&scheduler, job, now_ns);
  pjrtd_alloc_fail_after(-1);
  cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_RESOURCE_EXHAUSTED);
  cr_assert_eq(scheduler.queued, 8);
  cr_assert_eq(sessions[8].flow.jobs, 0);
  ASSERT_OK(pjrtd_scheduler_push(&scheduler, job, now_ns));
  for (int i = 0; i < 9; i++) {
    pjrtd_job *next = take();
    cr_assert_not_null(next);
    now_ns += 5 * MS;
    pjrtd_scheduler_end(&scheduler, next, now_ns);
    now_ns += 2 * MS;
  }
}

Test(scheduler, charges_a_job_that_seems_not_to_come_back_and_the_rest_when_it_does) {
  pjrtd_job *stuck = push(&sessions[0].flow, 0), *own = push(&sessions[0].flow, 0), *other = push(&sessions[1].flow, 0),
            *other_next = push(&sessions[1].flow, 0);
  cr_assert_eq(take(), stuck);
  now_ns += 1000 * MS;
  pjrtd_scheduler_give_up(&scheduler, stuck, now_ns);
  uint64_t served_ns = sessions[0].flow.served_ns;
  run(other, 300 * MS);
  run(other_next, 300 * MS);
  now_ns += 2 * MS;
  run(own, 1 * MS);
  pjrtd_scheduler_end(&scheduler, stuck, now_ns);
  cr_assert_eq(stuck->measured_ns, 1603 * MS);
  cr_assert_eq(sessions[0].flow.served_ns, served_ns + 604 * MS);
}

/* ---- slices ---- */

Test(scheduler, goes_on_with_a_slice_in_its_sessions_turn) {
  pjrtd_job *run_job = push(&sessions[0].flow, 1 * MS), *behind = push(&sessions[0].flow, 1 * MS);
  cr_assert_eq(take(), run_job);
  pjrtd_job *other = push(&sessions[1].flow, 1 * MS);
  now_ns += 1 * MS;
  pjrtd_scheduler_again(&scheduler, run_job, now_ns);
  run(other, 1 * MS);
  now_ns += 2 * MS;
  /* What its session sent meanwhile does not wait for its end. */
  run(behind, 1 * MS);
  cr_assert_eq(take(), run_job);
  now_ns += 1 * MS;
  pjrtd_scheduler_again(&scheduler, run_job, now_ns);
  cr_assert_eq(take(), run_job);
  now_ns += 1 * MS;
  pjrtd_scheduler_end(&scheduler, run_job, now_ns);
  cr_assert_eq(run_job->measured_ns, 3 * MS);
}

Test(scheduler, withdraws_a_job_between_its_slices) {
  pjrtd_job *job = push(&sessions[0].flow, 1 * MS);
  cr_assert_eq(take(), job);
  now_ns += 1 * MS;
  pjrtd_scheduler_again(&scheduler, job, now_ns);
  cr_assert_eq(pjrtd_scheduler_withdraw(&scheduler, job), job);
  cr_assert_eq(scheduler.busy, 0);
  cr_assert_null(take());
}

/* ---- devices that go on by themselves ---- */

/* Takes the next, which has to be this one, and leaves it with the device. */
static void hand_over(pjrtd_job *job) {
  cr_assert_eq(take(), job);
  job->outstanding = true;
  pjrtd_scheduler_leave_out(&scheduler, job);
}

static uint64_t when_next(void) {
  uint64_t retry_ns;
  cr_assert_null(pjrtd_scheduler_take(&scheduler, now_ns, false, &retry_ns));
  return retry_ns;
}

Test(scheduler, gives_a_device_the_next_program_shortly_before_it_is_done) {
  pjrtd_job *a = push(&sessions[0].flow, 50 * MS), *b = push(&sessions[0].flow, 50 * MS);
  uint64_t began_ns = now_ns;
  hand_over(a);
  cr_assert_eq(when_next(), began_ns + 50 * MS - 200 * US);
  now_ns += 50 * MS - 200 * US;
  hand_over(b);
  now_ns += 300 * US;
  pjrtd_scheduler_end(&scheduler, a, now_ns);
  cr_assert_eq(a->measured_ns, 50 * MS + 100 * US);
  now_ns += 50 * MS;
  pjrtd_scheduler_end(&scheduler, b, now_ns);
  cr_assert_eq(b->measured_ns, 50 * MS, "not while it waited behind the other");
}

Test(scheduler, gives_a_device_little_more_where_a_program_runs_over_its_estimate) {
  pjrtd_job *all[5];
  for (int i = 0; i < 5; i++) all[i] = push(&sessions[0].flow, 1 * MS);
  hand_over(all[0]);
  now_ns += 2 * MS;
  hand_over(all[1]);
  now_ns += 100 * MS;
  cr_assert_eq(when_next(), 0, "not before one ends");
  pjrtd_scheduler_end(&scheduler, all[0], now_ns);
  cr_assert_eq(when_next(), now_ns + 800 * US);
}

Test(scheduler, gives_a_device_many_small_programs_but_no_more_than_the_plugin_takes) {
  atomic_uint executions = 0;
  scheduler.executions = &executions;
  scheduler.max_executions = 5;
  pjrtd_job *all[8];
  for (int i = 0; i < 8; i++) all[i] = push(&sessions[0].flow, 2 * US);
  for (int i = 0; i < 5; i++) hand_over(all[i]);
  cr_assert_eq(executions, 5);
  cr_assert_neq(when_next(), 0, "the device's other lane may have ended one");
  pjrtd_scheduler_end(&scheduler, all[2], now_ns);
  cr_assert_eq(executions, 4);
  hand_over(all[5]);
  cr_assert_eq(executions, 5);
  /* At the end of the daemon nothing is held back. */
  uint64_t retry_ns;
  cr_assert_eq(pjrtd_scheduler_take(&scheduler, now_ns, true, &retry_ns), all[6]);
}
