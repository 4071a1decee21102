/* service/peer.c: the rules of a connection. */
#include "peer_fixture.h"
#include "service/peer.h"

TestSuite(peer, .init = open_service, .fini = close_service, .timeout = 120);

/* A second connection, without hello. */
static void connect_anew(const pjrtd_identity *identity) {
  client = &clients[1];
  pjrtd_peer_init(&client->peer, &fake_transport, runtime, identity);
}

static void is_hung_up(bool expected) {
  cr_assert_eq(client->hung_up, expected);
  cr_assert_eq(client->peer.failing, expected);
}

/* ---- hello ---- */

Test(peer, says_what_it_speaks_and_its_limits) {
  connect_anew(&owner);
  Pjrtd__V1__HelloReply *hello = reply(hello_as(1, 7), &pjrtd__v1__hello_reply__descriptor);
  cr_assert_eq(hello->version, 1);
  cr_assert_eq(hello->server_epoch, runtime->epoch);
  cr_assert_str_eq(hello->server_version, PJRTD_VERSION);
  cr_assert_eq(hello->max_payload_bytes, 1 << 20);
  cr_assert_eq(hello->max_inline_bytes, 64 << 10);
  cr_assert_eq(hello->max_item_bytes, 1 << 20);
  cr_assert_eq(hello->upload_credit_bytes, settings.upload_credit_bytes);
  cr_assert_eq(hello->max_calls_in_flight, settings.max_calls_in_flight);
  cr_assert_eq(runtime->stats.sessions, 2);
  free_reply(hello);
}

Test(peer, closes_a_connection_that_does_not_begin_with_hello) {
  connect_anew(&owner);
  uint64_t call = request(PJRTD_METHOD_Runtime_Info, EMPTY_MESSAGE, (how){0});
  fails(call, PJRTD_CODE_FAILED_PRECONDITION, "must be Runtime.Hello", 0);
  is_hung_up(true);
}

Test(peer, names_both_ranges_when_no_version_is_common) {
  connect_anew(&owner);
  fails(hello_as(2, 9), PJRTD_CODE_FAILED_PRECONDITION, "the client speaks 2 to 9, pjrtd 1 to 1", 0);
  is_hung_up(true);
  clients[1] = (fake_peer){0};
  connect_anew(&owner);
  fails(hello_as(0, 0), PJRTD_CODE_FAILED_PRECONDITION, "the client speaks 0 to 0", 0);
  is_hung_up(true);
  clients[1] = (fake_peer){0};
  connect_anew(&owner);
  fails(hello_as(1, 0), PJRTD_CODE_FAILED_PRECONDITION, "the client speaks 1 to 0", 0);
  is_hung_up(true);
  cr_assert_eq(runtime->stats.sessions, 1);
}

Test(peer, refuses_a_second_hello_and_goes_on) {
  fails(hello_as(1, 1), PJRTD_CODE_FAILED_PRECONDITION, "before", 0);
  is_hung_up(false);
  succeed(request(PJRTD_METHOD_Runtime_Info, EMPTY_MESSAGE, (how){0}));
}

Test(peer, lets_a_client_try_hello_again_after_one_that_was_garbage) {
  connect_anew(&owner);
  hand_in(PJRTD_FRAME_REQUEST, PJRTD_METHOD_Runtime_Hello, ++client->next_call, "\xff\xff\xff", 3, (how){0});
  fails(1, PJRTD_CODE_INVALID_ARGUMENT, "HelloRequest", 0);
  is_hung_up(false);
  succeed(hello_as(1, 1));
}

/* ---- requests ---- */

Test(peer, answers_a_method_that_does_not_exist_and_goes_on) {
  fails(request(0x7777, EMPTY_MESSAGE, (how){0}), PJRTD_CODE_UNIMPLEMENTED, "0x7777", 0);
  fails(request(0, EMPTY_MESSAGE, (how){0}), PJRTD_CODE_UNIMPLEMENTED, "0x0000", 0);
  fails(request(0xffff, EMPTY_MESSAGE, (how){0}), PJRTD_CODE_UNIMPLEMENTED, "0xffff", 0);
  is_hung_up(false);
  succeed(request(PJRTD_METHOD_Runtime_Info, EMPTY_MESSAGE, (how){0}));
}

Test(peer, answers_a_message_that_does_not_parse_and_goes_on) {
  static const char *const garbage[] = {"\xff", "\x08", "\x0a\x7f", "\x12\x05\x08"};
  for (size_t i = 0; i < 4; i++) {
    uint64_t call = ++client->next_call;
    hand_in(PJRTD_FRAME_REQUEST, PJRTD_METHOD_Buffer_Upload, call, garbage[i], (uint32_t)strlen(garbage[i]), (how){0});
    fails(call, PJRTD_CODE_INVALID_ARGUMENT, "not a valid UploadRequest", 0);
  }
  is_hung_up(false);
  make_pair(1, 2);
}

Test(peer, refuses_a_message_that_decodes_to_more_memory_than_anybody_needs) {
  /* Empty inline arguments: two bytes on the wire, many in memory. */
  static uint8_t payload[1 << 20];
  for (size_t i = 0; i < sizeof payload; i += 2) {
    payload[i] = 0x2a;
    payload[i + 1] = 0;
  }
  uint64_t call = ++client->next_call;
  hand_in(PJRTD_FRAME_REQUEST, PJRTD_METHOD_Execute_Execute, call, payload, sizeof payload, (how){0});
  cr_assert_eq(answer(call)->header.kind, PJRTD_FRAME_ERROR);
  is_hung_up(false);
  make_pair(1, 2);
}

Test(peer, closes_a_connection_whose_call_ids_do_not_increase) {
  client->next_call = 9;
  succeed(request(PJRTD_METHOD_Runtime_Info, EMPTY_MESSAGE, (how){0}));
  hand_in(PJRTD_FRAME_REQUEST, PJRTD_METHOD_Runtime_Devices, 10, NULL, 0, (how){0});
  recorded *last = &client->frames[client->num_frames - 1];
  cr_assert_eq(last->header.kind, PJRTD_FRAME_ERROR);
  is_hung_up(true);
  size_t frames = client->num_frames;
  request(PJRTD_METHOD_Runtime_Info, EMPTY_MESSAGE, (how){0});
  cr_assert_eq(client->num_frames, frames, "nothing is answered after that");
}

Test(peer, refuses_bulk_and_descriptors_where_none_belong) {
  fails(request(PJRTD_METHOD_Runtime_Info, EMPTY_MESSAGE, (how){.bulk = "x", .bulk_bytes = 1}),
        PJRTD_CODE_INVALID_ARGUMENT, "takes no bulk bytes", 0);
  const pjrtd_frame_header header = {.method = PJRTD_METHOD_Runtime_Info,
                                     .kind = PJRTD_FRAME_REQUEST,
                                     .num_descriptors = 2,
                                     .call = ++client->next_call};
  pjrtd_peer_on_frame(&client->peer, &header, (const uint8_t *)"", (const uint8_t *)"");
  fails(header.call, PJRTD_CODE_INVALID_ARGUMENT, "takes no file descriptors, 2 came", 0);
  is_hung_up(false);
}

Test(peer, refuses_whom_the_identity_gives_no_right) {
  const pjrtd_identity nobody = {.local = true, .uid = 55};
  connect_anew(&nobody);
  fails(hello_as(1, 1), PJRTD_CODE_PERMISSION_DENIED, "'use'", 0);
  cr_assert_eq(runtime->stats.sessions, 1);
}

Test(peer, says_when_to_come_back_while_the_daemon_drains) {
  uint64_t id = make_pair(1, 2);
  runtime->draining = true;
  fails(download(id), PJRTD_CODE_UNAVAILABLE, "stopping", 0);
  Pjrtd__V1__Error *error = pjrtd__v1__error__unpack(NULL, client->frames[client->num_frames - 1].header.payload_bytes,
                                                     client->frames[client->num_frames - 1].payload);
  cr_assert_gt(error->retry_after_ns, 0);
  pjrtd__v1__error__free_unpacked(error, NULL);
  succeed(request(PJRTD_METHOD_Runtime_Info, EMPTY_MESSAGE, (how){0}));
}

/* ---- calls in flight ---- */

Test(peer, takes_no_more_calls_than_may_be_in_flight) {
  settings.max_calls_in_flight = 3;
  uint64_t big = ++client->next_buffer;
  uint64_t uploading = begin_upload(big, 100000, (how){0});
  uint64_t waiting[2] = {stat_buffer(big), stat_buffer(big)};
  uint64_t refused = stat_buffer(big);
  fails(refused, PJRTD_CODE_RESOURCE_EXHAUSTED, "3 calls under way", 0);
  is_hung_up(false);
  cancel(uploading);
  fails(uploading, PJRTD_CODE_CANCELLED, "", 0);
  for (int i = 0; i < 2; i++) fails(waiting[i], PJRTD_CODE_CANCELLED, "", uploading);
  fails(stat_buffer(big), PJRTD_CODE_CANCELLED, "", uploading);
}

/* ---- other frames ---- */

Test(peer, closes_a_connection_that_sends_what_only_daemons_send) {
  static const uint8_t kinds[] = {PJRTD_FRAME_REPLY, PJRTD_FRAME_ERROR, PJRTD_FRAME_END};
  for (int i = 0; i < 3; i++) {
    clients[1] = (fake_peer){0};
    open_client(&clients[1]);
    hand_in(kinds[i], PJRTD_METHOD_Runtime_Info, 1, NULL, 0, (how){0});
    is_hung_up(true);
    drop_client(&clients[1]);
  }
}

Test(peer, closes_a_connection_that_speaks_of_calls_it_never_made) {
  static const uint8_t kinds[] = {PJRTD_FRAME_CANCEL, PJRTD_FRAME_CREDIT};
  for (int i = 0; i < 2; i++) {
    clients[1] = (fake_peer){0};
    open_client(&clients[1]);
    hand_in(kinds[i], 0, 2, NULL, 0, (how){0});
    fails(2, PJRTD_CODE_INVALID_ARGUMENT, "was not requested", 0);
    is_hung_up(true);
    drop_client(&clients[1]);
  }
}

Test(peer, ignores_cancel_and_credit_for_calls_that_have_ended) {
  uint64_t id = make_pair(1, 2), call = download(id);
  succeed(call);
  size_t frames = client->num_frames;
  cancel(call);
  cancel(call);
  grant_credit(call, 1000);
  cancel(1);
  cr_assert_eq(client->num_frames, frames);
  is_hung_up(false);
}

Test(peer, closes_a_connection_whose_credit_is_garbage) {
  hand_in(PJRTD_FRAME_CREDIT, 0, 1, "\xff\xff", 2, (how){0});
  is_hung_up(true);
}

/* ---- items ---- */

static uint8_t zeros[2 << 20];

Test(peer, closes_a_connection_that_sends_items_nobody_asked_for) {
  cr_assert_not(send_item(77, zeros, 10, 10));
  fails(77, PJRTD_CODE_INVALID_ARGUMENT, "was not requested", 0);
  is_hung_up(true);
}

Test(peer, closes_a_connection_that_sends_more_than_it_announced) {
  uint64_t call = begin_upload(++client->next_buffer, 25000, (how){0});
  cr_assert(send_item(call, zeros, 99990, 99990));
  cr_assert_not(send_item(call, zeros, 11, 11));
  is_hung_up(true);
}

Test(peer, closes_a_connection_that_sends_more_than_it_has_credit_for) {
  settings.upload_credit_bytes = 1 << 20;
  uint64_t call = begin_upload(++client->next_buffer, 1 << 20, (how){0});
  /* A quarter is granted back after a quarter; before that all of the window may be sent. */
  cr_assert(send_item(call, zeros, (1 << 18) - 1, 1 << 20));
  cr_assert_null(find_frame(call, PJRTD_FRAME_CREDIT));
  cr_assert_not(send_item(call, zeros, (1 << 20) - (1 << 18) + 2, 1 << 20));
  fails(call, PJRTD_CODE_INVALID_ARGUMENT, "credit", 0);
  is_hung_up(true);
}

Test(peer, grants_back_what_it_consumed) {
  settings.upload_credit_bytes = 1 << 20;
  enum { TOTAL = 8 << 20, ITEM = 100000 };
  uint64_t call = begin_upload(++client->next_buffer, TOTAL / 4, (how){0});
  uint64_t sent = 0;
  while (sent < TOTAL) {
    uint64_t granted = 0;
    for (size_t i = 0; i < client->num_frames; i++) {
      if (client->frames[i].header.kind != PJRTD_FRAME_CREDIT) continue;
      Pjrtd__V1__Credit *credit =
          pjrtd__v1__credit__unpack(NULL, client->frames[i].header.payload_bytes, client->frames[i].payload);
      granted += credit->bytes;
      pjrtd__v1__credit__free_unpacked(credit, NULL);
    }
    cr_assert_leq(granted, sent);
    uint64_t room = (1 << 20) + granted - sent, left = TOTAL - sent;
    cr_assert_gt(room, 0, "the sender may go on before its window is used up");
    uint32_t now = (uint32_t)(ITEM < left ? ITEM : left);
    if (now > room) now = (uint32_t)room;
    cr_assert(send_item(call, zeros, now, 4096));
    sent += now;
  }
  succeed(call);
}

Test(peer, closes_a_connection_that_sends_items_to_a_call_that_has_all_or_wants_none) {
  uint64_t big = ++client->next_buffer;
  begin_upload(big, 100000, (how){0});
  uint64_t waiting = stat_buffer(big);
  cr_assert_not(send_item(waiting, zeros, 10, 10));
  fails(waiting, PJRTD_CODE_INVALID_ARGUMENT, "takes no more bulk", 0);
  is_hung_up(true);
}

Test(peer, drops_items_of_a_call_that_failed_without_a_word) {
  uint64_t id = ++client->next_buffer, call = begin_upload(id, 100000, (how){0});
  cr_assert(send_item(call, zeros, 1000, 1000));
  cancel(call);
  size_t frames = client->num_frames;
  for (int i = 0; i < 3; i++) cr_assert_not(send_item(call, zeros, 100000, 100000));
  cr_assert_eq(client->num_frames, frames);
  is_hung_up(false);
  /* Refused at once: the items are on their way all the same. */
  uint64_t refused = post_upload((upload){++client->next_buffer, PJRTD_DTYPE_F32, 1, {100000}, 5}, (how){0});
  cr_assert_not(send_item(refused, zeros, 5, 5));
  fails(refused, PJRTD_CODE_INVALID_ARGUMENT, "data_bytes", 0);
  is_hung_up(false);
}

Test(peer, reads_the_rest_of_an_item_away_when_its_call_ends_in_the_middle) {
  uint64_t call = begin_upload(++client->next_buffer, 100000, (how){0});
  const pjrtd_frame_header header = {.bulk_bytes = 5000, .kind = PJRTD_FRAME_ITEM, .call = call};
  cr_assert_not_null(pjrtd_peer_item_begin(&client->peer, &header));
  cr_assert_not_null(pjrtd_peer_item_place(&client->peer, call, 1000));
  cancel(call);
  cr_assert_null(pjrtd_peer_item_place(&client->peer, call, 2000));
  pjrtd_peer_item_end(&client->peer, &header);
  is_hung_up(false);
}

/* ---- gone ---- */

Test(peer, answers_nothing_when_it_fails_twice) {
  pjrtd_peer_fail(&client->peer, 0, 0, PJRTD_INVALID("first"));
  size_t frames = client->num_frames;
  pjrtd_peer_fail(&client->peer, 0, 0, PJRTD_INVALID("second"));
  cr_assert_eq(client->num_frames, frames);
  cr_assert_eq(runtime->stats.wire_errors, 1);
  cr_assert_eq(client->frames[frames - 1].header.call, 0);
  pjrtd_peer_gone(&client->peer);
  pjrtd_peer_fail(&client->peer, 0, 0, PJRTD_INVALID("third"));
  cr_assert_eq(client->num_frames, frames);
}

Test(peer, that_is_gone_takes_everything_with_it_in_whatever_state) {
  uint64_t program = make_program(COUNT_DOWN_TEXT), quick = make_program(ADD_TEXT(""));
  uint64_t rounds = make_rounds(300000000), pair = make_pair(1, 2);
  uint64_t running = execute((execution){program, 1, {rounds}, 1, {++client->next_buffer}}, (how){0});
  uint64_t output = client->next_buffer;
  stat_buffer(output);                                                              /* waits for the run */
  execute((execution){program, 1, {output}, 1, {++client->next_buffer}}, (how){0}); /* so does this */
  execute((execution){program, 1, {rounds}}, (how){.deadline_ns = 60000000000});    /* in the lane's queue */
  begin_upload(++client->next_buffer, 100000, (how){.deadline_ns = 60000000000});
  execute((execution){quick, 1, {client->next_buffer}}, (how){0});
  post_compile(++client->next_program, ADD_TEXT(""), (how){0});
  describe(client->next_program);
  post_sync();
  for (int i = 0; i < 5; i++) turn();
  is_silent(running);
  cr_assert_gt(runtime->stats.calls_in_flight, 5);
  size_t frames = client->num_frames;
  pjrtd_peer_gone(&client->peer);
  cr_assert_eq(runtime->stats.calls_in_flight, 0);
  cr_assert_eq(runtime->deadlines.count, 0);
  cr_assert_eq(client->num_frames, frames, "nobody listens");
  pjrtd_peer_gone(&client->peer);
  (void)pair;
}

Test(peer, that_takes_no_frames_any_more_is_not_a_problem) {
  uint64_t big = ++client->next_buffer;
  uint64_t call = begin_upload(big, 100000, (how){0});
  stat_buffer(big);
  post_sync();
  client->is_mute = true;
  cr_assert(send_item(call, zeros, 400000, 1000));
  request(PJRTD_METHOD_Runtime_Info, EMPTY_MESSAGE, (how){0});
  download(big);
  TURN_UNTIL(client->peer.calls.count <= 1);
}
