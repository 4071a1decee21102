/* service/call.c: one answer for each request, whatever ends it. */
#include "peer_fixture.h"

TestSuite(call, .init = open_service, .fini = close_service, .timeout = 120);

static uint8_t zeros[1 << 20];
static const how quiet = {.quiet = true};

/* What Sync says: the last call and the failed one. */
static void synced(uint64_t call, uint64_t last_call, uint64_t failed_call, pjrtd_code code) {
  Pjrtd__V1__SyncReply *sync = reply(call, &pjrtd__v1__sync_reply__descriptor);
  cr_assert_eq(sync->last_call, last_call, "last_call %d", (int)sync->last_call);
  cr_assert_eq(sync->failed_call, failed_call, "failed_call %d", (int)sync->failed_call);
  cr_assert_eq(sync->error != NULL, failed_call != 0);
  if (failed_call) cr_assert_eq(sync->error->code, code, "%u %s", sync->error->code, sync->error->message);
  free_reply(sync);
}

/* ---- quiet and sync ---- */

Test(call, that_is_quiet_is_silent_when_it_succeeds) {
  const float data[] = {1, 2};
  uint64_t id = ++client->next_buffer;
  uint64_t upload_call =
      post_upload((upload){id, PJRTD_DTYPE_F32, 1, {2}, 8}, (how){.bulk = data, .bulk_bytes = 8, .quiet = true});
  uint64_t big = ++client->next_buffer, big_call = begin_upload(big, 25000, quiet);
  cr_assert(send_item(big_call, zeros, 100000, 100000));
  uint64_t program = ++client->next_program, compile_call = post_compile(program, ADD_TEXT(""), quiet);
  uint64_t run_call = execute((execution){program, 1, {id}, 1, {++client->next_buffer}}, quiet);
  uint64_t sync = post_sync();
  synced(sync, run_call, 0, 0);
  is_silent(upload_call);
  is_silent(big_call);
  is_silent(compile_call);
  is_silent(run_call);
  check_pair(client->next_buffer, 2, 4);
}

Test(call, that_is_quiet_says_how_it_failed_and_sync_says_it_again_once) {
  uint64_t first = execute((execution){99}, quiet);
  uint64_t second = execute((execution){98}, quiet);
  fails(first, PJRTD_CODE_NOT_FOUND, "no program 99", 0);
  fails(second, PJRTD_CODE_NOT_FOUND, "no program 98", 0);
  uint64_t sync = post_sync();
  synced(sync, second, first, PJRTD_CODE_NOT_FOUND);
  synced(post_sync(), sync, 0, 0);
  uint64_t loud = execute((execution){97}, (how){0});
  synced(post_sync(), loud, 0, 0);
}

Test(call, of_sync_is_answered_when_all_before_it_have_ended_and_not_for_those_after) {
  uint64_t one = begin_upload(++client->next_buffer, 25000, (how){0});
  uint64_t first = post_sync();
  uint64_t two = begin_upload(++client->next_buffer, 25000, (how){0});
  uint64_t second = post_sync();
  is_silent(first);
  cr_assert(send_item(two, zeros, 100000, 100000));
  succeed(two);
  is_silent(first);
  is_silent(second);
  cr_assert(send_item(one, zeros, 100000, 100000));
  synced(first, one, 0, 0);
  synced(second, two, 0, 0);
  size_t first_at = (size_t)(find_frame(first, PJRTD_FRAME_REPLY) - client->frames);
  size_t second_at = (size_t)(find_frame(second, PJRTD_FRAME_REPLY) - client->frames);
  cr_assert_lt(first_at, second_at);
  cr_assert_lt(find_frame(one, PJRTD_FRAME_REPLY) - client->frames, (ptrdiff_t)first_at);
}

Test(call, of_sync_names_the_first_failure_in_the_order_of_the_requests) {
  uint64_t slow = begin_upload(++client->next_buffer, 25000, quiet);
  uint64_t quick = execute((execution){99}, quiet);
  fails(quick, PJRTD_CODE_NOT_FOUND, "", 0);
  cancel(slow);
  fails(slow, PJRTD_CODE_CANCELLED, "", 0);
  synced(post_sync(), quick, slow, PJRTD_CODE_CANCELLED);
}

Test(call, of_sync_comes_to_an_end_when_what_it_waits_for_is_cancelled_or_it_is_itself) {
  uint64_t uploading = begin_upload(++client->next_buffer, 25000, (how){0});
  uint64_t syncs[3] = {post_sync(), post_sync(), post_sync()};
  cancel(syncs[1]);
  fails(syncs[1], PJRTD_CODE_CANCELLED, "", 0);
  is_silent(syncs[0]);
  is_silent(syncs[2]);
  cancel(uploading);
  synced(syncs[0], uploading, 0, 0);
  synced(syncs[2], syncs[1], 0, 0);
}

/* ---- cancel ---- */

Test(call, that_is_cancelled_in_the_middle_of_its_data_poisons_what_it_was_to_make) {
  uint64_t id = ++client->next_buffer, call = begin_upload(id, 25000, (how){0});
  cr_assert(send_item(call, zeros, 50000, 50000));
  uint64_t waiting = download(id);
  cancel(call);
  cancel(call);
  fails(call, PJRTD_CODE_CANCELLED, "cancelled", 0);
  fails(waiting, PJRTD_CODE_CANCELLED, "cancelled", call);
  fails(download(id), PJRTD_CODE_CANCELLED, "cancelled", call);
  succeed(delete_buffer(id));
  fails(download(id), PJRTD_CODE_NOT_FOUND, "", 0);
}

Test(call, that_waits_can_be_cancelled_without_harm_to_what_it_waits_for) {
  uint64_t id = ++client->next_buffer, uploading = begin_upload(id, 25000, (how){0});
  uint64_t program = make_program(ADD_TEXT(""));
  uint64_t output = ++client->next_buffer;
  uint64_t calls[] = {stat_buffer(id), download(id), execute((execution){program, 1, {id}, 1, {output}}, (how){0})};
  for (int i = 0; i < 3; i++) {
    cancel(calls[i]);
    fails(calls[i], PJRTD_CODE_CANCELLED, "", 0);
  }
  fails(download(output), PJRTD_CODE_CANCELLED, "", calls[2]);
  cr_assert(send_item(uploading, zeros, 100000, 100000));
  succeed(uploading);
  succeed(stat_buffer(id));
}

Test(call, that_runs_answers_at_once_when_cancelled_and_keeps_its_arguments_busy) {
  uint64_t program = make_program(COUNT_DOWN_TEXT), rounds = make_rounds(400000000);
  uint64_t output = ++client->next_buffer;
  uint64_t running = execute((execution){program, 1, {rounds}, 1, {output}}, (how){0});
  uint64_t queued_output = ++client->next_buffer;
  uint64_t queued = execute((execution){program, 1, {rounds}, 1, {queued_output}}, (how){0});
  for (int i = 0; i < 20; i++) {
    turn();
    usleep(1000);
  }
  is_silent(running);
  uint64_t reading = download(output);
  cancel(queued);
  fails(queued, PJRTD_CODE_CANCELLED, "", 0);
  cancel(running);
  fails(running, PJRTD_CODE_CANCELLED, "", 0);
  fails(reading, PJRTD_CODE_CANCELLED, "", running);
  cr_assert_gt(runtime->jobs_running, 0, "nothing can stop it");
  succeed(delete_buffer(rounds));
  cr_assert_geq(runtime->stats.buffers, 1, "it reads its argument still");
  wait_until_idle();
  cr_assert_eq(count_answers(running), 1);
  cr_assert_eq(pjrtd_lane_get_stats(runtime->open_lanes[0]).jobs, 1, "what had not begun never ran");
  fails(download(output), PJRTD_CODE_CANCELLED, "", running);
}

Test(call, that_compiles_can_be_cancelled) {
  uint64_t first = ++client->next_program, second = ++client->next_program;
  uint64_t calls[] = {post_compile(first, ADD_TEXT(""), (how){0}), post_compile(second, ADD_TEXT(""), (how){0})};
  uint64_t waiting = describe(second);
  cancel(calls[0]);
  cancel(calls[1]);
  for (int i = 0; i < 2; i++) {
    recorded *frame = answer(calls[i]);
    /* A compile of a small program may have ended before. */
    if (frame->header.kind == PJRTD_FRAME_ERROR) fails(calls[i], PJRTD_CODE_CANCELLED, "", 0);
  }
  cr_assert_not_null(answer(waiting));
  wait_until_idle();
  cr_assert_eq(count_answers(calls[0]), 1);
  cr_assert_eq(count_answers(calls[1]), 1);
}

Test(call, that_compiles_for_long_fails_at_once_when_cancelled_with_all_that_wait_for_it) {
  enum { LINES = 700 };
  char *text = malloc(LINES * 100 + 1000), *at = text;
  at += sprintf(at, "module @long { func.func public @main(%%a: tensor<7xf32>) -> tensor<7xf32> {\n");
  for (int i = 0; i < LINES; i++) {
    char before[16];
    sprintf(before, i ? "%%s%d" : "%%a", i - 1);
    at += sprintf(at, "  %%s%d = stablehlo.%s %s : tensor<7xf32>\n", i, i % 2 ? "sine" : "exponential", before);
  }
  sprintf(at, "  return %%s%d : tensor<7xf32> } }\n", LINES - 1);
  uint64_t id = ++client->next_program, pair = make_pair(1, 2), output = ++client->next_buffer;
  uint64_t call = post_compile(id, text, (how){0});
  for (size_t sent = 0, size = strlen(text); size > PJRTD_FRAME_MAX_INLINE_BYTES && sent < size; sent += 60000)
    cr_assert(
        send_item(call, (const uint8_t *)text + sent, (uint32_t)(size - sent < 60000 ? size - sent : 60000), 1 << 20));
  uint64_t waiting = describe(id), running = execute((execution){id, 1, {pair}, 1, {output}}, (how){0});
  TURN_UNTIL(pjrtd_lane_get_stats(runtime->compile_lane).running);
  cancel(call);
  fails(call, PJRTD_CODE_CANCELLED, "", 0);
  fails(waiting, PJRTD_CODE_CANCELLED, "", call);
  fails(running, PJRTD_CODE_CANCELLED, "", call);
  fails(download(output), PJRTD_CODE_CANCELLED, "", call);
  cr_assert_eq(pjrtd_lane_get_stats(runtime->compile_lane).jobs, 0, "the compiler is at it still");
  check_pair(pair, 1, 2);
  wait_until_idle();
  cr_assert_eq(runtime->stats.programs, 0);
  cr_assert_eq(count_answers(call), 1);
  free(text);
}

Test(call, whose_answer_is_streaming_can_be_cancelled) {
  uint64_t id = ++client->next_buffer, uploading = begin_upload(id, 250000, (how){0});
  for (int i = 0; i < 10; i++) cr_assert(send_item(uploading, zeros, 100000, 100000));
  succeed(uploading);
  uint64_t call = download(id);
  TURN_UNTIL(client->num_streams == 1);
  cr_assert_eq(client->streams[0]->call, call);
  cancel(call);
  cr_assert_eq(client->num_streams, 0);
  /* Its reply was out. */
  cr_assert_not_null(find_frame(call, PJRTD_FRAME_REPLY));
  cr_assert_not_null(find_frame(call, PJRTD_FRAME_ERROR));
  succeed(delete_buffer(id));
  wait_until_idle();
  cr_assert_eq(runtime->stats.buffers, 0);
}

/* ---- deadlines ---- */

static const how soon = {.deadline_ns = 3000000};
/* The lane has begun by then, however busy the machine is. */
static const how while_it_runs = {.deadline_ns = 150000000};

Test(call, past_its_deadline_fails_wherever_it_is) {
  uint64_t id = ++client->next_buffer, uploading = begin_upload(id, 25000, soon);
  fails(uploading, PJRTD_CODE_DEADLINE_EXCEEDED, "within its deadline of 0.003 s", 0);
  fails(download(id), PJRTD_CODE_DEADLINE_EXCEEDED, "", uploading);

  uint64_t other = ++client->next_buffer, uploading_other = begin_upload(other, 25000, (how){0});
  Pjrtd__V1__BufferRequest message = PJRTD__V1__BUFFER_REQUEST__INIT;
  message.buffer = other;
  uint64_t waiting = request(PJRTD_METHOD_Buffer_Stat, &message.base, soon);
  uint64_t sync = request(PJRTD_METHOD_Session_Sync, EMPTY_MESSAGE, soon);
  fails(waiting, PJRTD_CODE_DEADLINE_EXCEEDED, "", 0);
  fails(sync, PJRTD_CODE_DEADLINE_EXCEEDED, "", 0);
  is_silent(uploading_other);

  uint64_t program = make_program(COUNT_DOWN_TEXT), rounds = make_rounds(400000000);
  uint64_t output = ++client->next_buffer;
  uint64_t running = execute((execution){program, 1, {rounds}, 1, {output}}, while_it_runs);
  fails(running, PJRTD_CODE_DEADLINE_EXCEEDED, "", 0);
  fails(download(output), PJRTD_CODE_DEADLINE_EXCEEDED, "", running);
  cr_assert_gt(runtime->jobs_running, 0);
  wait_until_idle();
  cr_assert_eq(count_answers(running), 1);
}

Test(call, that_ends_in_time_has_no_deadline_any_more) {
  uint64_t id = ++client->next_buffer, call = begin_upload(id, 25000, (how){.deadline_ns = 60000000000});
  cr_assert_eq(runtime->deadlines.count, 1);
  cr_assert(send_item(call, zeros, 100000, 100000));
  succeed(call);
  cr_assert_eq(runtime->deadlines.count, 0);
  /* And one that is as far off as can be. */
  call = begin_upload(++client->next_buffer, 25000, (how){.deadline_ns = UINT64_MAX});
  for (int i = 0; i < 5; i++) turn();
  is_silent(call);
  cancel(call);
}

Test(call, past_its_deadline_ignores_a_cancel_and_what_comes_of_it) {
  uint64_t call = begin_upload(++client->next_buffer, 25000, soon);
  fails(call, PJRTD_CODE_DEADLINE_EXCEEDED, "", 0);
  cancel(call);
  cr_assert_not(send_item(call, zeros, 100000, 100000));
  for (int i = 0; i < 5; i++) turn();
  cr_assert_eq(count_answers(call), 1);
}

/* ---- a client that does not read ---- */

Test(call, waits_with_its_answer_until_the_client_has_room) {
  uint64_t program = make_program(ADD_TEXT("")), id = make_pair(1, 2), poisoned = ++client->next_buffer;
  uint64_t failed = execute((execution){99, 0, {0}, 1, {poisoned}}, (how){0});
  fails(failed, PJRTD_CODE_NOT_FOUND, "", 0);
  client->is_full = true;
  uint64_t output = ++client->next_buffer;
  uint64_t calls[] = {stat_buffer(id), execute((execution){program, 1, {id}, 1, {output}}, (how){0}), describe(program),
                      download(poisoned)};
  for (int i = 0; i < 5; i++) turn();
  for (int i = 0; i < 4; i++) is_silent(calls[i]);
  /* A quiet one has no answer to wait with. */
  uint64_t silent_output = ++client->next_buffer;
  execute((execution){program, 1, {id}, 1, {silent_output}}, quiet);
  TURN_UNTIL(client->peer.calls.count == 4);
  client->is_full = false;
  pjrtd_peer_has_room(&client->peer);
  pjrtd_runtime_settle(runtime);
  for (int i = 0; i < 3; i++) succeed(calls[i]);
  fails(calls[3], PJRTD_CODE_NOT_FOUND, "no program 99", failed);
  check_pair(output, 2, 4);
  check_pair(silent_output, 2, 4);
}

Test(call, that_waits_for_room_can_be_cancelled_and_goes_with_the_connection) {
  uint64_t program = make_program(ADD_TEXT("")), id = make_pair(1, 2);
  client->is_full = true;
  uint64_t output = ++client->next_buffer;
  uint64_t running = execute((execution){program, 1, {id}, 1, {output}}, (how){0});
  uint64_t waiting = stat_buffer(output), other = stat_buffer(id), late = stat_buffer(id);
  for (int i = 0; i < 5; i++) turn();
  cancel(other);
  fails(other, PJRTD_CODE_CANCELLED, "", 0);
  cancel(running);
  fails(running, PJRTD_CODE_CANCELLED, "", 0);
  client->is_full = false;
  pjrtd_peer_has_room(&client->peer);
  pjrtd_runtime_settle(runtime);
  fails(waiting, PJRTD_CODE_CANCELLED, "", running);
  succeed(late);
  client->is_full = true;
  stat_buffer(id);
  execute((execution){program, 1, {id}, 1, {++client->next_buffer}}, (how){0});
  for (int i = 0; i < 5; i++) turn();
  pjrtd_peer_gone(&client->peer);
}

Test(call, takes_no_more_memory_than_may_be_queued) {
  settings.max_queued_bytes = 1 << 20;
  uint64_t big = ++client->next_buffer, uploading = begin_upload(big, 25000, (how){0});
  uint64_t program = make_program(ADD_TEXT(""));
  Pjrtd__V1__TensorType type = PJRTD__V1__TENSOR_TYPE__INIT;
  type.dtype = PJRTD__V1__DTYPE__DTYPE_U8;
  type.n_dims = 1;
  type.dims = (int64_t[]){65536};
  Pjrtd__V1__InlineArgument argument = PJRTD__V1__INLINE_ARGUMENT__INIT, *arguments = &argument;
  argument.position = 1;
  argument.type = &type;
  argument.data_bytes = 65536;
  Pjrtd__V1__ExecuteRequest message = PJRTD__V1__EXECUTE_REQUEST__INIT;
  message.program = program;
  message.args = (uint64_t[]){big, 0};
  message.n_args = 2;
  message.inline_args = &arguments;
  message.n_inline_args = 1;
  int taken = 0;
  uint64_t last;
  do {
    last = request(PJRTD_METHOD_Execute_Execute, &message.base, (how){.bulk = zeros, .bulk_bytes = 65536});
    cr_assert_lt(taken++, 17);
  } while (!count_answers(last));
  cr_assert_gt(taken, 8);
  fails(last, PJRTD_CODE_RESOURCE_EXHAUSTED, "bytes", 0);
  cancel(uploading);
  turn();
  last = stat_buffer(big);
  fails(last, PJRTD_CODE_CANCELLED, "", uploading);
}
