/* service/session_methods.c; sync is in test_call.c. */
#include "peer_fixture.h"

TestSuite(session_methods, .init = open_service, .fini = close_service, .timeout = 120);

static uint64_t open_session(const char *name, uint64_t ttl_ns) {
  Pjrtd__V1__SessionOpenRequest message = PJRTD__V1__SESSION_OPEN_REQUEST__INIT;
  message.name = (char *)name;
  message.ttl_ns = ttl_ns;
  return request(PJRTD_METHOD_Session_Open, &message.base, (how){0});
}

static uint64_t close_session(void) {
  return request(PJRTD_METHOD_Session_Close, EMPTY_MESSAGE, (how){0});
}

Test(session_methods, name_the_implicit_session_by_a_secret) {
  Pjrtd__V1__SessionOpenReply *one = reply(open_session("", 0), &pjrtd__v1__session_open_reply__descriptor);
  Pjrtd__V1__SessionOpenReply *again = reply(open_session("", 0), &pjrtd__v1__session_open_reply__descriptor);
  cr_assert_eq(one->session, again->session);
  cr_assert_str_eq(one->token, again->token);
  cr_assert_eq(strlen(one->token), 43);
  cr_assert_eq(one->server_epoch, runtime->epoch);
  cr_assert_eq(runtime->stats.sessions, 1);
  free_reply(one);
  free_reply(again);
}

Test(session_methods, have_names_that_are_theirs_alone) {
  succeed(open_session("name", 0));
  succeed(open_session("name", 5));
  fails(open_session("other", 0), PJRTD_CODE_INVALID_ARGUMENT, "has the name 'name' already", 0);
  open_client(&clients[1]);
  fails(open_session("name", 0), PJRTD_CODE_ALREADY_EXISTS, "there is a session 'name' already", 0);
  fails(open_session("a b", 0), PJRTD_CODE_INVALID_ARGUMENT, "1 to 64 letters", 0);
  fails(open_session("", UINT64_MAX), PJRTD_CODE_INVALID_ARGUMENT, "at most 400 days", 0);
  drop_client(&clients[1]);
  client = &clients[0];
}

/* ---- priority ---- */

static uint64_t open_with(Pjrtd__V1__SessionPriority priority) {
  Pjrtd__V1__SessionOpenRequest message = PJRTD__V1__SESSION_OPEN_REQUEST__INIT;
  message.priority = priority;
  return request(PJRTD_METHOD_Session_Open, &message.base, (how){0});
}

static uint64_t configure(Pjrtd__V1__SessionPriority priority) {
  Pjrtd__V1__ConfigureRequest message = PJRTD__V1__CONFIGURE_REQUEST__INIT;
  message.priority = priority;
  return request(PJRTD_METHOD_Session_Configure, &message.base, (how){0});
}

static pjrtd_priority priority_now(void) {
  return client->peer.session->share->priority;
}

Test(session_methods, set_a_priority_and_leave_it_where_none_is_named) {
  cr_assert_eq(priority_now(), PJRTD_PRIORITY_NORMAL);
  succeed(open_with(PJRTD__V1__SESSION_PRIORITY__SESSION_PRIORITY_LOW));
  cr_assert_eq(priority_now(), PJRTD_PRIORITY_LOW);
  succeed(open_session("", 0));
  succeed(configure(PJRTD__V1__SESSION_PRIORITY__SESSION_PRIORITY_UNSPECIFIED));
  cr_assert_eq(priority_now(), PJRTD_PRIORITY_LOW);
  succeed(configure(PJRTD__V1__SESSION_PRIORITY__SESSION_PRIORITY_HIGH));
  cr_assert_eq(priority_now(), PJRTD_PRIORITY_HIGH);
  fails(configure((Pjrtd__V1__SessionPriority)9), PJRTD_CODE_INVALID_ARGUMENT, "session priority 9 does not exist", 0);
  cr_assert_eq(priority_now(), PJRTD_PRIORITY_HIGH);
  succeed(close_session());
  fails(configure(PJRTD__V1__SESSION_PRIORITY__SESSION_PRIORITY_LOW), PJRTD_CODE_FAILED_PRECONDITION, "was closed", 0);
}

Test(session_methods, give_a_high_priority_to_the_trusted_only) {
  client->peer.identity.rights = PJRTD_RIGHT_USE;
  fails(open_with(PJRTD__V1__SESSION_PRIORITY__SESSION_PRIORITY_HIGH), PJRTD_CODE_PERMISSION_DENIED, "trusted", 0);
  fails(configure(PJRTD__V1__SESSION_PRIORITY__SESSION_PRIORITY_HIGH), PJRTD_CODE_PERMISSION_DENIED, "trusted", 0);
  cr_assert_eq(priority_now(), PJRTD_PRIORITY_NORMAL);
  succeed(configure(PJRTD__V1__SESSION_PRIORITY__SESSION_PRIORITY_LOW));
  cr_assert_eq(priority_now(), PJRTD_PRIORITY_LOW);
}

Test(session_methods, tell_of_a_sessions_priority_and_device_time) {
  uint64_t program = make_program(ADD_TEXT("")), id = make_pair(1, 2);
  for (int i = 0; i < 3; i++) succeed(execute((execution){program, 1, {id}, 1, {++client->next_buffer}}, (how){0}));
  succeed(configure(PJRTD__V1__SESSION_PRIORITY__SESSION_PRIORITY_LOW));
  Pjrtd__V1__SessionListRequest message = PJRTD__V1__SESSION_LIST_REQUEST__INIT;
  Pjrtd__V1__SessionListReply *list =
      reply(request(PJRTD_METHOD_Session_List, &message.base, (how){0}), &pjrtd__v1__session_list_reply__descriptor);
  cr_assert_eq(list->n_sessions, 1);
  cr_assert_eq(list->sessions[0]->priority, PJRTD__V1__SESSION_PRIORITY__SESSION_PRIORITY_LOW);
  cr_assert_gt(list->sessions[0]->device_ns, 0);
  cr_assert_lt(list->sessions[0]->device_ns, UINT64_C(60000000000));
  free_reply(list);
}

/* ---- home ---- */

static uint64_t move_home(int device) {
  Pjrtd__V1__ConfigureRequest message = PJRTD__V1__CONFIGURE_REQUEST__INIT;
  message.home_case = PJRTD__V1__CONFIGURE_REQUEST__HOME_DEVICE;
  message.device = device;
  return request(PJRTD_METHOD_Session_Configure, &message.base, (how){0});
}

static int home_now(void) {
  return client->peer.session->home->id;
}

static int device_of(uint64_t buffer) {
  return pjrtd_device_buffer_device(pjrtd_session_find_buffer(client->peer.session, buffer)->device_buffer)->id;
}

Test(session_methods, place_what_names_no_device_at_home) {
  const pjrtd_device *devices = pjrtd_client_get_info(runtime->client)->devices;
  cr_assert_eq(home_now(), devices[0].id);
  uint64_t before = make_pair(1, 2);
  cr_assert_eq(device_of(before), devices[0].id);
  fails(move_home(99), PJRTD_CODE_INVALID_ARGUMENT, "there is no device 99", 0);
  succeed(move_home(devices[1].id));
  cr_assert_eq(home_now(), devices[1].id);
  cr_assert_eq(runtime->device_loads[0].sessions, 0);
  cr_assert_eq(runtime->device_loads[1].sessions, 1);
  uint64_t after = make_pair(3, 4), program = make_program(ADD_TEXT("")), output = ++client->next_buffer;
  cr_assert_eq(device_of(after), devices[1].id);
  succeed(execute((execution){program, 1, {after}, 1, {output}}, (how){0}));
  check_pair(output, 6, 8);
  cr_assert_eq(device_of(output), devices[1].id);
  fails(execute((execution){program, 1, {before}, 0, {0}}, (how){0}), PJRTD_CODE_INVALID_ARGUMENT,
        "must be on device 1", 0);
  cr_assert_eq(runtime->device_loads[0].buffer_bytes, 8);
  cr_assert_eq(runtime->device_loads[1].buffer_bytes, 16);
  succeed(delete_buffer(before));
  succeed(close_session());
  wait_until_idle();
  for (int i = 0; i < 2; i++) {
    cr_assert_eq(runtime->device_loads[i].buffer_bytes, 0);
    cr_assert_eq(runtime->device_loads[i].sessions, 0);
  }
}

Test(session_methods, begin_on_the_least_loaded_device_where_that_is_wanted) {
  uint64_t pair = make_pair(1, 2);
  open_client(&clients[1]);
  cr_assert_eq(home_now(), 0, "the first, unless it is said otherwise");
  drop_client(&clients[1]);
  settings.session_home = PJRTD_SESSION_HOME_LEAST_LOADED;
  open_client(&clients[1]);
  cr_assert_eq(home_now(), 1, "the first device has a buffer");
  drop_client(&clients[1]);
  client = &clients[0];
  succeed(delete_buffer(pair));
  wait_until_idle();
  open_client(&clients[1]);
  cr_assert_eq(home_now(), 1, "the first device is a session's home");
  succeed(close_session());
  client = &clients[0];
  succeed(close_session());
  succeed(open_session("", 0));
  cr_assert_eq(home_now(), 0, "nobody is there: a lone client has the first");
  drop_client(&clients[1]);
  client = &clients[0];
}

/* ---- the end ---- */

Test(session_methods, close_frees_everything_and_open_begins_anew) {
  uint64_t id = make_pair(1, 2);
  make_pair(3, 4);
  make_program(ADD_TEXT(""));
  Pjrtd__V1__SessionOpenReply *before = reply(open_session("", 0), &pjrtd__v1__session_open_reply__descriptor);
  Pjrtd__V1__SessionCloseReply *closed = reply(close_session(), &pjrtd__v1__session_close_reply__descriptor);
  cr_assert_eq(closed->buffers_freed, 2);
  cr_assert_eq(closed->programs_freed, 1);
  free_reply(closed);
  wait_until_idle();
  cr_assert_eq(runtime->stats.buffers, 0);
  cr_assert_eq(runtime->stats.programs, 0);
  cr_assert_eq(runtime->stats.sessions, 0);
  fails(download(id), PJRTD_CODE_FAILED_PRECONDITION, "was closed", 0);
  fails(close_session(), PJRTD_CODE_FAILED_PRECONDITION, "closed before", 0);
  succeed(post_sync());
  Pjrtd__V1__SessionOpenReply *after = reply(open_session("", 0), &pjrtd__v1__session_open_reply__descriptor);
  cr_assert_neq(after->session, before->session);
  cr_assert_str_neq(after->token, before->token);
  free_reply(before);
  free_reply(after);
  fails(download(id), PJRTD_CODE_NOT_FOUND, "", 0);
  check_pair(make_pair(5, 6), 5, 6);
  fails(begin_upload(id, 2, (how){0}), PJRTD_CODE_INVALID_ARGUMENT, "is not above", 0);
}

Test(session_methods, close_lets_calls_under_way_end) {
  static uint8_t zeros[100000];
  uint64_t program = make_program(COUNT_DOWN_TEXT), rounds = make_rounds(50000000), output = ++client->next_buffer;
  uint64_t running = execute((execution){program, 1, {rounds}, 1, {output}}, (how){0});
  uint64_t reading = download(output);
  uint64_t uploading = begin_upload(++client->next_buffer, 25000, (how){0});
  uint64_t compiling = post_compile(++client->next_program, ADD_TEXT(""), (how){0});
  succeed(close_session());
  cr_assert(send_item(uploading, zeros, 100000, 100000));
  succeed(uploading);
  succeed(running);
  succeed(reading);
  succeed(compiling);
  wait_until_idle();
  cr_assert_eq(runtime->stats.buffers, 0);
  cr_assert_eq(runtime->stats.programs, 0);
}

Test(session_methods, keep_connections_apart) {
  uint64_t mine = make_pair(1, 2), program = make_program(ADD_TEXT(""));
  open_client(&clients[1]);
  fails(download(mine), PJRTD_CODE_NOT_FOUND, "", 0);
  fails(delete_buffer(mine), PJRTD_CODE_NOT_FOUND, "", 0);
  fails(describe(program), PJRTD_CODE_NOT_FOUND, "", 0);
  uint64_t theirs = make_pair(7, 8);
  cr_assert_eq(theirs, mine, "each connection counts for itself");
  check_pair(theirs, 7, 8);
  fails(execute((execution){program, 1, {theirs}}, (how){0}), PJRTD_CODE_NOT_FOUND, "", 0);
  drop_client(&clients[1]);
  client = &clients[0];
  check_pair(mine, 1, 2);
}
