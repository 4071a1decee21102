/* state/buffer.c, on the real plugin. */
#include "runtime_fixture.h"
#include "state/buffer.h"
#include "state/session.h"

TestSuite(buffer, .init = open_runtime, .fini = close_runtime, .timeout = 120);

enum { SMALL = 2, BIG = 1 << 20 }; /* elements: the big one has 4 MiB */

static pjrtd_buffer *create(void) {
  pjrtd_buffer *buffer;
  ASSERT_OK(pjrtd_buffer_create(runtime, &buffer));
  return buffer;
}

static pjrtd_buffer *create_with(int64_t count) {
  pjrtd_buffer *buffer = create();
  pjrtd_buffer_set(buffer, make_device_buffer(count, 1));
  return buffer;
}

Test(buffer, is_pending_until_it_is_set) {
  pjrtd_buffer *buffer = create();
  cr_assert_eq(buffer->resource.state, PJRTD_RESOURCE_PENDING);
  ASSERT_FAILS(pjrtd_buffer_check_usable(buffer), PJRTD_CODE_INTERNAL, "before it is made");
  pjrtd_buffer_set(buffer, make_device_buffer(SMALL, 1));
  cr_assert_eq(buffer->resource.state, PJRTD_RESOURCE_READY);
  ASSERT_OK(pjrtd_buffer_check_usable(buffer));
  pjrtd_resource_release(&buffer->resource);
}

Test(buffer, is_counted_while_it_exists) {
  pjrtd_buffer *pending = create(), *small = create_with(SMALL), *big = create_with(BIG);
  cr_assert_eq(runtime->stats.buffers, 2);
  cr_assert_eq(small->bytes, 8);
  cr_assert_eq(big->bytes, 4 << 20);
  cr_assert_eq(runtime->stats.buffer_bytes, 8 + (4 << 20));
  pjrtd_resource_release(&pending->resource);
  pjrtd_resource_release(&small->resource);
  pjrtd_resource_release(&big->resource);
  wait_until_idle();
  cr_assert_eq(runtime->stats.buffers, 0);
  cr_assert_eq(runtime->stats.buffer_bytes, 0);
}

Test(buffer, is_freed_later_when_small_and_by_another_thread_when_big) {
  pjrtd_buffer *small = create_with(SMALL), *big = create_with(BIG);
  pjrtd_resource_release(&small->resource);
  cr_assert_not_null(runtime->doomed);
  cr_assert_eq(runtime->jobs_running, 0);
  pjrtd_resource_release(&big->resource);
  cr_assert_eq(runtime->jobs_running, 1);
  wait_until_idle();
  cr_assert_eq(pjrtd_lane_get_stats(runtime->reaper).jobs, 1);
}

Test(buffer, that_is_poisoned_gives_everybody_the_same_error) {
  pjrtd_buffer *buffer = create();
  pjrtd_status *error = pjrtd_status_make(PJRTD_CODE_ABORTED, "the first reason");
  pjrtd_resource_set_failed(&buffer->resource, error);
  for (int i = 0; i < 2; i++) {
    PJRTD_AUTO(pjrtd_status) status = pjrtd_buffer_check_usable(buffer);
    cr_assert_eq(status, error);
  }
  pjrtd_resource_release(&buffer->resource);
  cr_assert_eq(runtime->stats.buffers, 0);
}

static pjrtd_status *forget(pjrtd_session *from, pjrtd_id_kind kind, uint64_t id) {
  return pjrtd_session_forget(from, kind, &id, 1);
}

static void run(pjrtd_executable *executable, pjrtd_buffer *argument, pjrtd_buffer *output) {
  pjrtd_device_buffer *made;
  bool pending;
  pjrtd_execute_call call = {.args = &argument->device_buffer, .num_args = 1};
  ASSERT_OK(pjrtd_executable_execute(executable, &call, &made, &pending));
  pjrtd_buffer_set(output, made);
}

Test(buffer, is_consumed_by_an_execution_that_it_was_donated_to) {
  pjrtd_executable *executable = compile(ADD_TEXT(DONATED));
  cr_assert(pjrtd_executable_get_info(executable)->args[0].donated);
  pjrtd_buffer *argument = create_with(SMALL), *output = create();
  argument->id = 17;
  run(executable, argument, output);
  cr_assert(pjrtd_buffer_update_consumed(argument));
  cr_assert_eq(argument->resource.state, PJRTD_RESOURCE_CONSUMED);
  cr_assert_not(pjrtd_buffer_update_consumed(argument), "it was before");
  ASSERT_FAILS(pjrtd_buffer_check_usable(argument), PJRTD_CODE_INVALID_ARGUMENT, "buffer 17 was donated");
  cr_assert_eq(runtime->stats.buffers, 1);
  cr_assert_eq(runtime->stats.buffer_bytes, 8);
  float values[2];
  ASSERT_OK(pjrtd_device_buffer_read(output->device_buffer, values, sizeof values));
  cr_assert_eq(values[0], 2);
  cr_assert_eq(values[1], 4);
  pjrtd_resource_release(&argument->resource);
  pjrtd_resource_release(&output->resource);
  wait_until_idle();
  cr_assert_eq(runtime->stats.buffers, 0);
  pjrtd_executable_destroy(executable);
}

Test(buffer, is_not_consumed_by_an_execution_that_only_reads_it) {
  pjrtd_executable *executable = compile(ADD_TEXT(""));
  pjrtd_buffer *argument = create_with(SMALL), *output = create();
  run(executable, argument, output);
  cr_assert_not(pjrtd_buffer_update_consumed(argument));
  ASSERT_OK(pjrtd_buffer_check_usable(argument));
  pjrtd_resource_release(&argument->resource);
  pjrtd_resource_release(&output->resource);
  pjrtd_executable_destroy(executable);
}

Test(buffer, counts_for_its_session_while_it_has_a_name) {
  pjrtd_session *session;
  pjrtd_id_space space = {0};
  const pjrtd_identity nobody = {0};
  ASSERT_OK(pjrtd_session_create(runtime, &nobody, &session));
  pjrtd_buffer *early = create_with(SMALL), *late = create(), *donated = create_with(SMALL);
  ASSERT_OK(pjrtd_session_name_buffer(session, &space, 1, early));
  ASSERT_OK(pjrtd_session_name_buffer(session, &space, 2, late));
  ASSERT_OK(pjrtd_session_name_buffer(session, &space, 3, donated));
  cr_assert_eq(session->account->used[PJRTD_QUOTA_DEVICE_BYTES], 16);
  pjrtd_buffer_set(late, make_device_buffer(4, 0));
  cr_assert_eq(session->account->used[PJRTD_QUOTA_DEVICE_BYTES], 32);

  pjrtd_executable *executable = compile(ADD_TEXT(DONATED));
  pjrtd_buffer *output = create();
  run(executable, donated, output);
  cr_assert(pjrtd_buffer_update_consumed(donated));
  cr_assert_eq(session->account->used[PJRTD_QUOTA_DEVICE_BYTES], 24);
  ASSERT_OK(forget(session, PJRTD_ID_BUFFER, 1));
  cr_assert_eq(session->account->used[PJRTD_QUOTA_DEVICE_BYTES], 16);
  cr_assert_eq(early->resource.references, 1, "it is used still");
  ASSERT_OK(forget(session, PJRTD_ID_BUFFER, 3));
  cr_assert_eq(session->account->used[PJRTD_QUOTA_DEVICE_BYTES], 16);

  pjrtd_session_close(session, NULL, NULL);
  pjrtd_buffer *all[] = {early, late, donated, output};
  for (int i = 0; i < 4; i++) pjrtd_resource_release(&all[i]->resource);
  pjrtd_executable_destroy(executable);
  wait_until_idle();
  cr_assert_eq(runtime->stats.buffers, 0);
  cr_assert_eq(runtime->stats.buffer_bytes, 0);
}

Test(buffer, that_nobody_keeps_is_discarded_whatever_its_size) {
  pjrtd_device_buffer_discard(runtime, NULL);
  pjrtd_device_buffer_discard(runtime, make_device_buffer(SMALL, 0));
  cr_assert_eq(runtime->jobs_running, 0);
  pjrtd_device_buffer_discard(runtime, make_device_buffer(BIG, 0));
  cr_assert_eq(runtime->jobs_running, 1, "a big one goes to the reaper");
  wait_until_idle();
  cr_assert_eq(runtime->stats.buffers, 0);
  cr_assert_eq(runtime->stats.buffer_bytes, 0);
}

Test(buffer, is_discarded_and_freed_without_memory_for_anything) {
  pjrtd_device_buffer *big = make_device_buffer(BIG, 0);
  pjrtd_buffer *other = create_with(BIG);
  pjrtd_alloc_fail_after(0); /* no orphan */
  pjrtd_device_buffer_discard(runtime, big);
  pjrtd_alloc_fail_after(0); /* no thread for the reaper */
  pjrtd_resource_release(&other->resource);
  pjrtd_alloc_fail_after(-1);
  cr_assert_eq(runtime->jobs_running, 0);
  wait_until_idle();
  cr_assert_eq(runtime->stats.buffers, 0);
}

Test(buffer, is_not_made_without_memory) {
  pjrtd_buffer *buffer = (pjrtd_buffer *)&loop;
  pjrtd_alloc_fail_after(0);
  ASSERT_FAILS(pjrtd_buffer_create(runtime, &buffer), PJRTD_CODE_RESOURCE_EXHAUSTED, "memory");
  pjrtd_alloc_fail_after(-1);
  cr_assert_null(buffer);
}
