/* state/share.c. */
#include "runtime_fixture.h"

Test(share, has_a_flow_on_each_lane_that_it_uses_and_charges_what_ran_beside_a_busy_one, .init = open_runtime,
     .fini = close_runtime, .timeout = 120) {
  pjrtd_share *share;
  ASSERT_OK(pjrtd_share_create(runtime->num_devices, &share));
  pjrtd_share_charge(share, 1, 500);
  cr_assert_eq(pjrtd_share_device_ns(share), 500);
  size_t index = pjrtd_share_flow_index(1, false);
  pjrtd_flow *flow, *same, *open;
  ASSERT_OK(pjrtd_share_get_flow(share, index, runtime->device_lanes[1], &flow));
  ASSERT_OK(pjrtd_share_get_flow(share, index, runtime->device_lanes[1], &same));
  ASSERT_OK(pjrtd_share_get_flow(share, pjrtd_share_flow_index(1, true), runtime->open_lanes[1], &open));
  cr_assert_eq(flow, same);
  cr_assert_neq(flow, open);
  cr_assert_eq(flow->priority, PJRTD_PRIORITY_NORMAL);
  pjrtd_share_charge(share, 1, 500);
  cr_assert_eq(share->parts[index].loop_ns, 0, "nobody else wanted the device");
  cr_assert_eq(pjrtd_share_device_ns(share), 1000);
  pjrtd_share_set_priority(share, PJRTD_PRIORITY_LOW);
  cr_assert_eq(flow->priority, PJRTD_PRIORITY_LOW);
  cr_assert_eq(open->priority, PJRTD_PRIORITY_LOW);
  pjrtd_share_release(share);
}

static atomic_bool began, may_end;
static bool done;

static void run_held(pjrtd_job *job) {
  atomic_store(&began, true);
  while (!atomic_load(&may_end)) usleep(100);
}
static void on_done(pjrtd_job *job) {
  pjrtd_runtime_job_ended(runtime);
  done = true;
}

Test(share, outlives_its_session_while_its_work_runs, .init = open_runtime, .fini = close_runtime, .timeout = 120) {
  pjrtd_share *share;
  ASSERT_OK(pjrtd_share_create(runtime->num_devices, &share));
  pjrtd_job job = {.run = run_held, .done = on_done};
  ASSERT_OK(pjrtd_runtime_submit_execution(runtime, pjrtd_share_retain(share), 0, true, 0, &job));
  pjrtd_share_release(share); /* the session's */
  pjrtd_share_charge(share, 0, 300);
  TURN_UNTIL(atomic_load(&began));
  cr_assert_eq(share->parts[pjrtd_share_flow_index(0, true)].flow->jobs, 1);
  usleep(2000);
  atomic_store(&may_end, true);
  TURN_UNTIL(done);
  cr_assert_geq(pjrtd_share_device_ns(share), 1000300);
  pjrtd_share_release(share);
}

Test(share, charges_what_ran_on_the_loop_while_its_lane_was_busy, .init = open_runtime, .fini = close_runtime,
     .timeout = 120) {
  pjrtd_share *share, *other;
  ASSERT_OK(pjrtd_share_create(runtime->num_devices, &share));
  ASSERT_OK(pjrtd_share_create(runtime->num_devices, &other));
  pjrtd_flow *flow;
  size_t index = pjrtd_share_flow_index(0, false);
  ASSERT_OK(pjrtd_share_get_flow(share, index, runtime->device_lanes[0], &flow));
  pjrtd_job job = {.run = run_held, .done = on_done};
  ASSERT_OK(pjrtd_runtime_submit_execution(runtime, other, 0, false, 0, &job));
  pjrtd_share_charge(share, 0, 700);
  cr_assert_eq(pjrtd_share_take_loop_ns(share, index), 700);
  cr_assert_eq(pjrtd_share_take_loop_ns(share, index), 0);
  atomic_store(&may_end, true);
  TURN_UNTIL(done);
  pjrtd_share_release(share);
  pjrtd_share_release(other);
}

Test(share, is_not_made_without_memory) {
  pjrtd_share *share;
  pjrtd_alloc_fail_after(0);
  PJRTD_AUTO(pjrtd_status) status = pjrtd_share_create(2, &share);
  pjrtd_alloc_fail_after(-1);
  cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_RESOURCE_EXHAUSTED);
  cr_assert_null(share);
  ASSERT_OK(pjrtd_share_create(2, &share));
  pjrtd_flow *flow;
  pjrtd_alloc_fail_after(0);
  PJRTD_AUTO(pjrtd_status) no_flow = pjrtd_share_get_flow(share, 0, NULL, &flow);
  pjrtd_alloc_fail_after(-1);
  cr_assert_eq(pjrtd_status_code(no_flow), PJRTD_CODE_RESOURCE_EXHAUSTED);
  cr_assert_null(flow);
  pjrtd_share_release(share);
  pjrtd_share_release(NULL);
}
