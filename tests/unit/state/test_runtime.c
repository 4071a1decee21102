/* state/runtime.c. */
#include <semaphore.h>
#include <stdatomic.h>

#include "runtime_fixture.h"

/* ---- with the real plugin ---- */

Test(runtime, has_lanes_for_each_device_of_a_plugin_that_passed_the_probe, .init = open_runtime, .fini = close_runtime,
     .timeout = 120) {
  cr_assert_eq(runtime->num_devices, 2);
  cr_assert_neq(runtime->epoch, 0);
  cr_assert_str_eq(pjrtd_lane_name(runtime->device_lanes[0]), "device-0");
  cr_assert_str_eq(pjrtd_lane_name(runtime->open_lanes[1]), "open-1");
  cr_assert_str_eq(pjrtd_lane_name(runtime->transfer_lanes[1]), "transfer-1");
  cr_assert_str_eq(pjrtd_lane_name(runtime->compile_lane), "compile");
  cr_assert_str_eq(pjrtd_lane_name(runtime->reaper), "reaper");
  cr_assert_eq(runtime->stats.buffers, 0, "the probe leaves nothing");
}

Test(runtime, has_another_epoch_at_each_start, .timeout = 120) {
  open_runtime();
  uint64_t epoch = runtime->epoch;
  close_runtime();
  open_runtime();
  cr_assert_neq(runtime->epoch, epoch);
  close_runtime();
}

Test(runtime, does_not_start_with_an_option_that_is_wrong, .timeout = 120) {
  static char *options[] = {"cpu_device_count=many"};
  cr_assert_eq(uv_loop_init(&loop), 0);
  settings.option = (pjrtd_text_list){options, 1};
  pjrtd_plugin *plugin;
  ASSERT_OK(pjrtd_plugin_load(test_plugin_path(), &plugin));
  runtime = &bare;
  PJRTD_AUTO(pjrtd_status) status = pjrtd_runtime_create(&loop, &settings, plugin, &runtime);
  cr_assert_not_null(status);
  cr_assert(strstr(pjrtd_status_message(status), "cpu_device_count"), "%s", pjrtd_status_message(status));
  cr_assert_null(runtime);
  cr_assert_eq(uv_loop_close(&loop), 0, "nothing is left on the loop");
}

/* The first allocations one by one, then some of the many: each try loads a plugin and compiles. */
Test(runtime, is_not_made_when_any_allocation_fails, .timeout = 300) {
  cr_assert_eq(uv_loop_init(&loop), 0);
  int64_t successes = 0, asked;
  int failed = 0;
  do {
    pjrtd_alloc_fail_after(successes);
    pjrtd_status *status = try_runtime();
    asked = pjrtd_alloc_fail_after(-1);
    if (asked > successes && status) {
      cr_assert_null(successes ? runtime : NULL);
      failed++;
    }
    if (!status) close_runtime();
    pjrtd_status_destroy(status);
    if (!status) cr_assert_eq(uv_loop_init(&loop), 0);
    successes += successes < 30 ? 1 : 7;
  } while (asked > successes - (successes < 31 ? 1 : 7));
  cr_assert_gt(failed, 30);
  cr_assert_eq(uv_loop_close(&loop), 0);
}

static sem_t may_end;
static atomic_int num_began;
static int num_done, num_refused;

static void run_held(pjrtd_job *job) {
  atomic_fetch_add(&num_began, 1);
  while (sem_wait(&may_end) != 0) continue;
}

static void on_done(pjrtd_job *job) {
  pjrtd_runtime_job_ended(runtime);
  num_done++;
  if (!job->refusal) return;
  cr_assert_eq(pjrtd_status_code(job->refusal), PJRTD_CODE_RESOURCE_EXHAUSTED);
  pjrtd_status_destroy(job->refusal);
  num_refused++;
}

static void submit_held(pjrtd_lane *lane, pjrtd_job *job) {
  *job = (pjrtd_job){.run = run_held, .done = on_done};
  ASSERT_OK(pjrtd_runtime_submit(runtime, lane, job));
}

Test(runtime, moves_stalled_calls_off_up_to_the_bound_and_then_refuses, .timeout = 120) {
  settings.lane_stall_ms = 20;
  settings.max_stuck = 2;
  pjrtd_log_set_level(PJRTD_LOG_ERROR);
  open_runtime();
  sem_init(&may_end, 0, 0);
  pjrtd_job jobs[5], extra = {.run = run_held, .done = on_done};
  for (int i = 0; i < 5; i++) submit_held(runtime->device_lanes[0], &jobs[i]);
  cr_assert_eq(runtime->jobs_running, 5);
  TURN_UNTIL(num_refused == 2);
  cr_assert_eq(atomic_load(&num_began), 3);
  cr_assert_eq(pjrtd_lane_get_stats(runtime->device_lanes[0]).stuck, 2);
  ASSERT_FAILS(pjrtd_runtime_submit(runtime, runtime->device_lanes[0], &extra), PJRTD_CODE_RESOURCE_EXHAUSTED,
               "device-0");
  cr_assert_eq(runtime->jobs_running, 3);
  /* Other lanes have their own bound. */
  ASSERT_OK(pjrtd_runtime_submit(runtime, runtime->device_lanes[1], &extra));
  for (int i = 0; i < 4; i++) sem_post(&may_end);
  wait_until_idle();
  cr_assert_eq(num_done, 6);
  submit_held(runtime->device_lanes[0], &extra);
  sem_post(&may_end);
  wait_until_idle();
  cr_assert_eq(num_done, 7);
  cr_assert_eq(num_refused, 2);
  close_runtime();
}

static int num_given_up;

static void on_give_up(void *user) {
  cr_assert_eq(user, &num_given_up);
  num_given_up++;
}

static void turn_for_ms(uint64_t ms) {
  uint64_t until_ns = pjrtd_clock_now_ns() + ms * 1000000;
  while (pjrtd_clock_now_ns() < until_ns) {
    turn();
    usleep(1000);
  }
}

Test(runtime, gives_up_once_where_a_full_lane_stays_full, .timeout = 120) {
  settings.lane_stall_ms = 20;
  settings.max_stuck = 2;
  pjrtd_log_set_level(PJRTD_LOG_ERROR);
  open_runtime();
  runtime->give_up = on_give_up;
  runtime->give_up_user = &num_given_up;
  sem_init(&may_end, 0, 0);
  pjrtd_job jobs[3];
  submit_held(runtime->open_lanes[1], &jobs[0]);
  submit_held(runtime->open_lanes[1], &jobs[1]);
  turn_for_ms(2 * PJRTD_LANE_PATIENCE * settings.lane_stall_ms);
  cr_assert_eq(runtime->full_lane, runtime->open_lanes[1]);
  cr_assert_eq(num_given_up, 0, "it is only to be reported");
  /* One comes back: it was not stuck for good. */
  sem_post(&may_end);
  TURN_UNTIL(num_done == 1 && !runtime->full_lane);
  settings.on_stuck = PJRTD_ON_STUCK_EXIT;
  turn_for_ms(2 * PJRTD_LANE_PATIENCE * settings.lane_stall_ms);
  cr_assert_eq(num_given_up, 0, "one may stay");
  uint64_t full_again_ns = pjrtd_clock_now_ns();
  submit_held(runtime->open_lanes[1], &jobs[2]);
  TURN_UNTIL(num_given_up == 1);
  cr_assert_gt(pjrtd_clock_now_ns() - full_again_ns, PJRTD_LANE_PATIENCE * settings.lane_stall_ms * 1000000);
  turn_for_ms(2 * PJRTD_LANE_PATIENCE * settings.lane_stall_ms);
  cr_assert_eq(num_given_up, 1);
  sem_post(&may_end);
  sem_post(&may_end);
  wait_until_idle();
  close_runtime();
}

Test(runtime, never_refuses_a_compile_or_what_is_to_be_freed, .timeout = 120) {
  settings.lane_stall_ms = 10;
  settings.max_stuck = 1;
  pjrtd_log_set_level(PJRTD_LOG_ERROR);
  open_runtime();
  sem_init(&may_end, 0, 0);
  pjrtd_job jobs[6];
  for (int i = 0; i < 3; i++) submit_held(runtime->compile_lane, &jobs[i]);
  for (int i = 3; i < 6; i++) submit_held(runtime->reaper, &jobs[i]);
  TURN_UNTIL(pjrtd_lane_get_stats(runtime->compile_lane).stuck == 1 &&
             pjrtd_lane_get_stats(runtime->reaper).stuck == 1);
  for (int i = 0; i < 100; i++) {
    turn();
    usleep(1000);
  }
  cr_assert_eq(atomic_load(&num_began), 4, "one lost and one running on each");
  for (int i = 0; i < 6; i++) sem_post(&may_end);
  wait_until_idle();
  cr_assert_eq(num_done, 6);
  cr_assert_eq(num_refused, 0);
  close_runtime();
}

Test(runtime, refuses_work_for_a_lane_that_is_gone, .init = open_bare, .fini = close_bare) {
  pjrtd_job job = {.run = run_held, .done = on_done};
  ASSERT_FAILS(pjrtd_runtime_submit(runtime, NULL, &job), PJRTD_CODE_UNAVAILABLE, "stopping");
  cr_assert_eq(runtime->jobs_running, 0);
}

static pjrtd_lane *seen[20];
static size_t num_seen;
static void see(pjrtd_lane *lane, void *user) {
  cr_assert_eq(user, &num_seen);
  for (size_t i = 0; i < num_seen; i++) cr_assert_neq(seen[i], lane);
  seen[num_seen++] = lane;
}

Test(runtime, shows_each_lane_once, .init = open_runtime, .fini = close_runtime, .timeout = 120) {
  pjrtd_runtime_each_lane(runtime, see, &num_seen);
  cr_assert_eq(num_seen, 2 * 3 + 2);
}

/* ---- without ---- */

Test(runtime, has_memory_up_to_the_limit_for_buffers_and_staging_together, .init = open_bare, .fini = close_bare) {
  runtime->memory_limit_bytes = 1000;
  ASSERT_OK(pjrtd_runtime_check_memory(runtime, 1000, "x"));
  ASSERT_FAILS(pjrtd_runtime_check_memory(runtime, 1001, "the thing"), PJRTD_CODE_RESOURCE_EXHAUSTED,
               "the thing needs 1001 bytes");
  runtime->stats.buffer_bytes = 600;
  runtime->stats.staging_bytes = 300;
  ASSERT_OK(pjrtd_runtime_check_memory(runtime, 100, "x"));
  ASSERT_FAILS(pjrtd_runtime_check_memory(runtime, 101, "x"), PJRTD_CODE_RESOURCE_EXHAUSTED, "hold 900 of 1000");
  ASSERT_FAILS(pjrtd_runtime_check_memory(runtime, UINT64_MAX, "x"), PJRTD_CODE_RESOURCE_EXHAUSTED, "x");
  ASSERT_FAILS(pjrtd_runtime_check_memory(runtime, UINT64_MAX - 800, "x"), PJRTD_CODE_RESOURCE_EXHAUSTED, "x");
  runtime->stats.buffer_bytes = 5000;
  ASSERT_FAILS(pjrtd_runtime_check_memory(runtime, 0, "x"), PJRTD_CODE_RESOURCE_EXHAUSTED, "x");
}

enum { FREES = 3000 };
static pjrtd_job frees[FREES];
static int freed, freed_done;
static void run_free(pjrtd_job *job) {
  cr_assert_eq(job, &frees[freed]);
  freed++;
}
static void free_done(pjrtd_job *job) {
  freed_done++;
}

Test(runtime, frees_a_few_a_turn_in_order, .init = open_bare, .fini = close_bare) {
  for (int i = 0; i < FREES; i++) {
    frees[i] = (pjrtd_job){.run = run_free, .done = free_done};
    pjrtd_runtime_free_later(runtime, &frees[i]);
  }
  cr_assert_eq(freed, 0);
  turn();
  cr_assert_gt(freed, 0);
  cr_assert_lt(freed, FREES / 4);
  int turns = 1;
  while (runtime->doomed) {
    turn();
    turns++;
  }
  cr_assert_eq(freed, FREES);
  cr_assert_eq(freed_done, FREES);
  cr_assert_gt(turns, 4);
  turn();
  cr_assert_not(uv_is_active((uv_handle_t *)&runtime->more), "the loop may sleep again");
}

static pjrtd_operation operations[50];
static int operations_run;
static void run_slowly(pjrtd_operation *operation) {
  operations_run++;
  uint64_t until_ns = pjrtd_clock_now_ns() + 500000;
  while (pjrtd_clock_now_ns() < until_ns) continue;
}

Test(runtime, leaves_ready_operations_to_the_next_turn_when_time_is_up, .init = open_bare, .fini = close_bare) {
  for (int i = 0; i < 50; i++) {
    pjrtd_operation_init(&operations[i], &runtime->ready, NULL, 0, run_slowly);
    pjrtd_operation_start(&operations[i]);
  }
  pjrtd_runtime_enter(runtime);
  pjrtd_runtime_settle(runtime);
  cr_assert_geq(operations_run, 1);
  cr_assert_leq(operations_run, 10, "25 ms of work");
  pjrtd_runtime_end_turn(runtime);
  cr_assert(uv_is_active((uv_handle_t *)&runtime->more), "the loop does not sleep on them");
  int turns = 0;
  while (operations_run < 50) {
    turn();
    cr_assert_lt(turns++, 50);
  }
  cr_assert_gt(turns, 3);
  turn();
  cr_assert_not(uv_is_active((uv_handle_t *)&runtime->more));
}
