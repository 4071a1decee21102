/* transport/local_server.c. */
#include "wire_fixture.h"

TestSuite(local_server, .init = open_server, .fini = close_server, .timeout = 120);

static void ask(wire_client *client) {
  bytes all = {0};
  uint64_t call = add_info(&all, client);
  send_bytes(client, &all);
  take_reply(client, call);
}

Test(local_server, polls_for_a_while_after_a_request_and_then_sleeps) {
  wire_client client;
  open_client(&client);
  cr_assert_not(uv_is_active((uv_handle_t *)&server->spin), "polling is off");
  settings.busy_poll_us = 20000;
  runtime->few_cores = false;
  /* Where the tests' machine is busy, it may have given the polling up at once. */
  do {
    server->crowding.crowded_until_ns = 0;
    ask(&client);
  } while (server->crowding.crowded_until_ns);
  cr_assert(uv_is_active((uv_handle_t *)&server->spin));
  cr_assert_eq(server->hot[0], server->connections);
  TURN_UNTIL(!uv_is_active((uv_handle_t *)&server->spin));
  close_client(&client);
}

Test(local_server, does_not_poll_where_a_program_needs_the_core) {
  wire_client client;
  open_client(&client);
  settings.busy_poll_us = 1000000;
  runtime->few_cores = true;
  ask(&client);
  runtime->jobs_running++; /* as if */
  turn();
  turn();
  cr_assert_not(uv_is_active((uv_handle_t *)&server->spin));
  runtime->jobs_running--;
  close_client(&client);
}

Test(local_server, polls_only_those_that_asked_of_late) {
  settings.busy_poll_us = 1000000;
  runtime->few_cores = false;
  wire_client early, late;
  open_client(&early);
  open_client(&late);
  do {
    server->crowding.crowded_until_ns = 0;
    ask(&early);
    ask(&late);
  } while (server->crowding.crowded_until_ns);
  local_connection *of_late = server->hot[0], *of_early = server->hot[1];
  cr_assert_not_null(of_early);
  of_early->hot_until_ns = 1;
  turn();
  cr_assert_eq(server->hot[0], of_late);
  cr_assert_null(server->hot[1], "each that is tried for nothing costs the others");
  ask(&early);
  cr_assert_eq(server->hot[0], of_early, "it asked again");
  close_client(&early);
  close_client(&late);
}

Test(local_server, sleeps_where_others_need_the_core) {
  wire_client client;
  open_client(&client);
  settings.busy_poll_us = 1000000;
  runtime->few_cores = false;
  server->crowding.crowded_until_ns = UINT64_MAX; /* as if giving way had taken long */
  ask(&client);
  cr_assert_null(server->hot[0]);
  cr_assert_not(uv_is_active((uv_handle_t *)&server->spin));
  close_client(&client);
}

Test(local_server, forgets_connections_that_close_while_it_polls_them) {
  settings.busy_poll_us = 1000000;
  runtime->few_cores = false;
  wire_client clients[12];
  for (int i = 0; i < 12; i++) open_client(&clients[i]);
  do {
    server->crowding.crowded_until_ns = 0;
    for (int i = 0; i < 12; i++) ask(&clients[i]);
  } while (server->crowding.crowded_until_ns);
  for (int i = 0; i < LOCAL_HOT; i++) cr_assert_not_null(server->hot[i]);
  for (int i = 11; i >= 0; i -= 2) close_client(&clients[i]);
  TURN_UNTIL(runtime->stats.connections == 6);
  for (int i = 0; i < LOCAL_HOT; i++)
    if (server->hot[i]) cr_assert_not(server->hot[i]->closed);
  for (int i = 0; i < 12; i += 2) {
    ask(&clients[i]);
    close_client(&clients[i]);
  }
}

Test(local_server, answers_while_it_polls_as_otherwise) {
  settings.busy_poll_us = 1000000;
  runtime->few_cores = false;
  wire_client one, two;
  open_client(&one);
  open_client(&two);
  for (int i = 0; i < 200; i++) {
    ask(&one);
    if (i % 3 == 0) ask(&two);
  }
  /* A broken frame ends the connection there too. */
  send_all(&one, (const uint8_t *)"this is garbage, and it is long enough to be a header", 53);
  take_error(&one, 0, PJRTD_CODE_INVALID_ARGUMENT, "magic");
  is_at_end(&one);
  ask(&two);
  close_client(&one);
  close_client(&two);
}

Test(local_server, goes_on_with_frames_that_wait_for_their_turn_while_nothing_new_comes) {
  enum { MANY = 20000 };
  wire_client client;
  open_client(&client);
  bytes all = {0};
  uint64_t first = client.last_call + 1;
  for (int i = 0; i < MANY; i++)
    add_request(&all, &client, PJRTD_METHOD_Runtime_Info, EMPTY_MESSAGE, (extra){.quiet = true});
  uint64_t sync = add_request(&all, &client, PJRTD_METHOD_Session_Sync, EMPTY_MESSAGE, (extra){0});
  send_bytes(&client, &all);
  wire_frame frame = take_reply(&client, sync);
  Pjrtd__V1__SyncReply *reply = pjrtd__v1__sync_reply__unpack(NULL, frame.header.payload_bytes, frame.payload);
  cr_assert_eq(reply->last_call, first + MANY - 1);
  pjrtd__v1__sync_reply__free_unpacked(reply, NULL);
  turn();
  cr_assert_not(uv_is_active((uv_handle_t *)&server->resume), "then the loop may sleep again");
  close_client(&client);
}

/* The loop's time is up in each turn before those that wait for it get theirs: who asks again must queue behind them.
 */
Test(local_server, lets_nobody_ahead_of_those_that_wait_for_their_turn) {
  wire_client eager, patient;
  open_client(&eager);
  open_client(&patient);
  local_connection *waiting = server->connections; /* the last that came */
  bytes question = {0};
  uint64_t asked = add_info(&question, &patient);
  send_bytes(&patient, &question);
  uv_poll_stop(&waiting->poll); /* as if time had been up when it became readable */
  waiting->events = 0;
  local_server_resume_later(server, waiting);
  bytes eager_question = {0};
  uint64_t eager_asked = add_info(&eager_question, &eager);
  send_bytes(&eager, &eager_question);
  uv_run(&loop, UV_RUN_NOWAIT);
  /* One turn served the one that waited, or put the other behind it; never the other alone. */
  cr_assert(!waiting->resuming || server->resuming == waiting);
  take_reply(&patient, asked);
  take_reply(&eager, eager_asked);
  close_client(&eager);
  close_client(&patient);
}

Test(local_server, closes_what_is_connected_when_it_closes) {
  wire_client clients[3];
  for (int i = 0; i < 3; i++) open_client(&clients[i]);
  bytes all = {0};
  add_upload(&all, &clients[1], 1, (const uint8_t *)"", 100000, false);
  send_bytes(&clients[1], &all);
  while (server->connections) local_connection_close(server->connections);
  for (int i = 0; i < 3; i++) {
    is_at_end(&clients[i]);
    close_client(&clients[i]);
  }
}

Test(local_server, is_not_made_without_memory) {
  for (int64_t successes = 0; successes < 2; successes++) {
    local_server *other = server;
    pjrtd_alloc_fail_after(successes);
    ASSERT_FAILS(local_server_create(runtime, &other), PJRTD_CODE_RESOURCE_EXHAUSTED, "memory");
    pjrtd_alloc_fail_after(-1);
    cr_assert_null(other);
  }
}
