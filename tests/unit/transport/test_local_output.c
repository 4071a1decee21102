/* transport/local_output.c: writing. */
#include "wire_fixture.h"

TestSuite(local_output, .init = open_server, .fini = close_server, .timeout = 300);

enum { BIG = 3 << 20 };
static uint8_t data[BIG];

/* A client with buffer 1 of `size` bytes; it grants so much credit to each download. */
static local_connection *open_with_buffer(wire_client *client, uint64_t size, uint64_t credit) {
  for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 7 + i / 509);
  local_connection *connection = connect_client(client);
  bytes all = {0};
  add_hello(&all, client, credit);
  uint64_t call = add_upload(&all, client, 1, data, size, false);
  for (uint64_t sent = 0; sent < size;) {
    uint32_t now = (uint32_t)(size - sent < 100000 ? size - sent : 100000);
    add_item(&all, call, data + sent, now);
    sent += now;
    if (sent % 500000 == 0) send_bytes(client, &all); /* credit comes back meanwhile */
  }
  send_bytes(client, &all);
  for (;;) {
    wire_frame frame = take(client);
    cr_assert_neq(frame.header.kind, PJRTD_FRAME_ERROR);
    if (frame.header.call == call && frame.header.kind == PJRTD_FRAME_REPLY) return connection;
  }
}

static void send_one(wire_client *client, bytes *all) {
  cr_assert_eq(send_some_of(client, all->data, all->size), all->size);
  free(all->data);
  *all = (bytes){0};
}

/* Takes frames until the download has all its bytes; `sizes` (may be NULL) gets those of the items. */
static void take_download(wire_client *client, uint64_t call, uint64_t size) {
  uint64_t got = 0;
  bool replied = false;
  while (got < size) {
    wire_frame frame = take(client);
    cr_assert_neq(frame.header.kind, PJRTD_FRAME_ERROR);
    if (frame.header.call != call) continue;
    if (frame.header.kind == PJRTD_FRAME_REPLY) {
      replied = true;
      continue;
    }
    cr_assert_eq(frame.header.kind, PJRTD_FRAME_ITEM);
    cr_assert(replied, "the reply comes first");
    cr_assert_leq(frame.header.bulk_bytes, PJRTD_FRAME_MAX_ITEM_BYTES);
    cr_assert_leq(got + frame.header.bulk_bytes, size);
    cr_assert_eq(memcmp(frame.bulk, data + got, frame.header.bulk_bytes), 0, "at %d", (int)got);
    got += frame.header.bulk_bytes;
  }
}

Test(local_output, streams_big_data_in_items) {
  wire_client client;
  open_with_buffer(&client, BIG, UINT64_C(1) << 30);
  bytes all = {0};
  uint64_t call = add_download(&all, &client, 1);
  send_one(&client, &all);
  take_download(&client, call, BIG);
  turn();
  cr_assert_eq(runtime->stats.calls_in_flight, 0);
  close_client(&client);
}

Test(local_output, lets_small_answers_in_between_items) {
  wire_client client;
  open_with_buffer(&client, BIG, UINT64_C(1) << 30);
  bytes all = {0};
  uint64_t call = add_download(&all, &client, 1);
  send_one(&client, &all);
  idle_turns(3); /* the socket is full of the first items */
  uint64_t small = add_info(&all, &client);
  send_one(&client, &all);
  uint64_t before = 0;
  for (;;) {
    wire_frame frame = take(&client);
    if (frame.header.call == small) break;
    cr_assert_eq(frame.header.call, call);
    before += frame.header.bulk_bytes;
  }
  cr_assert_lt(before, BIG / 2 + PJRTD_FRAME_MAX_ITEM_BYTES, "%d bytes came first", (int)before);
  uint64_t got = before;
  while (got < BIG) {
    wire_frame frame = take(&client);
    cr_assert_eq(memcmp(frame.bulk, data + got, frame.header.bulk_bytes), 0);
    got += frame.header.bulk_bytes;
  }
  close_client(&client);
}

Test(local_output, lets_streams_take_turns) {
  wire_client client;
  open_with_buffer(&client, BIG, UINT64_C(1) << 30);
  bytes all = {0};
  uint64_t calls[3];
  for (int i = 0; i < 3; i++) calls[i] = add_download(&all, &client, 1);
  send_one(&client, &all);
  uint64_t got[3] = {0};
  while (got[0] + got[1] + got[2] < 3 * (uint64_t)BIG) {
    wire_frame frame = take(&client);
    if (frame.header.kind != PJRTD_FRAME_ITEM) continue;
    size_t which = frame.header.call - calls[0];
    cr_assert_lt(which, 3);
    cr_assert_eq(memcmp(frame.bulk, data + got[which], frame.header.bulk_bytes), 0);
    got[which] += frame.header.bulk_bytes;
    for (int i = 0; i < 3; i++)
      cr_assert_geq(got[i] + 2 * PJRTD_FRAME_MAX_ITEM_BYTES, got[which], "none runs away from the others");
  }
  close_client(&client);
}

Test(local_output, sends_no_more_than_it_has_credit_for) {
  enum { SIZE = 1000000, WINDOW = 100000 };
  wire_client client;
  open_with_buffer(&client, SIZE, WINDOW);
  bytes all = {0};
  uint64_t call = add_download(&all, &client, 1);
  send_one(&client, &all);
  uint64_t granted = WINDOW, got = 0;
  take_reply(&client, call);
  static const uint64_t grants[] = {1, 999, 50000, 7, 300000, 600000};
  for (size_t i = 0; i <= sizeof grants / sizeof *grants; i++) {
    uint64_t due = granted < SIZE ? granted : SIZE;
    while (got < due) {
      wire_frame frame = take(&client);
      cr_assert_eq(frame.header.kind, PJRTD_FRAME_ITEM);
      got += frame.header.bulk_bytes;
    }
    cr_assert_eq(got, due);
    idle_turns(5);
    receive(&client);
    cr_assert_eq(client.input_bytes, 0, "more than was granted");
    if (i == sizeof grants / sizeof *grants) break;
    add_credit(&all, call, grants[i]);
    send_one(&client, &all);
    granted += grants[i];
  }
  cr_assert_eq(got, SIZE);
  close_client(&client);
}

Test(local_output, does_not_let_one_without_credit_stand_in_the_way) {
  wire_client client;
  open_with_buffer(&client, BIG, 70000);
  bytes all = {0};
  uint64_t first = add_download(&all, &client, 1), second = add_download(&all, &client, 1);
  add_credit(&all, second, BIG); /* in the same write: before there is a stream to give it to */
  send_one(&client, &all);
  take_download(&client, second, BIG);
  add_credit(&all, first, BIG);
  send_one(&client, &all);
  uint64_t got = 70000;
  while (got < BIG) {
    wire_frame frame = take(&client);
    cr_assert_eq(frame.header.call, first);
    got += frame.header.bulk_bytes;
  }
  close_client(&client);
}

Test(local_output, finishes_the_item_under_way_when_its_download_is_cancelled) {
  wire_client client;
  local_connection *connection = open_with_buffer(&client, BIG, UINT64_C(1) << 30);
  bytes all = {0};
  uint64_t call = add_download(&all, &client, 1);
  send_one(&client, &all);
  TURN_UNTIL(connection->item_data_left);
  add_frame(&all, 0, call, NULL, (extra){.kind = PJRTD_FRAME_CANCEL});
  uint64_t last = add_info(&all, &client);
  send_one(&client, &all);
  idle_turns(3);
  /* The buffer may go while its bytes are on the way. */
  Pjrtd__V1__DeleteRequest message = PJRTD__V1__DELETE_REQUEST__INIT;
  message.buffers = (uint64_t[]){1};
  message.n_buffers = 1;
  uint64_t deleting = add_request(&all, &client, PJRTD_METHOD_Buffer_Delete, &message.base, (extra){0});
  send_one(&client, &all);
  wait_until_idle();
  cr_assert_eq(runtime->stats.buffers, 0);
  uint64_t got = 0;
  bool cancelled = false;
  for (;;) {
    wire_frame frame = take(&client);
    if (frame.header.call == deleting) break;
    if (frame.header.call != call) {
      cr_assert_eq(frame.header.call, last);
      cr_assert(cancelled);
    } else if (frame.header.kind == PJRTD_FRAME_ITEM) {
      cr_assert_not(cancelled, "no item follows the error");
      cr_assert_eq(memcmp(frame.bulk, data + got, frame.header.bulk_bytes), 0);
      got += frame.header.bulk_bytes;
    } else if (frame.header.kind == PJRTD_FRAME_ERROR) {
      cancelled = true;
    }
  }
  cr_assert(cancelled);
  cr_assert_lt(got, BIG);
  close_client(&client);
}

Test(local_output, goes_cleanly_when_the_client_leaves_in_the_middle_of_a_download) {
  for (int round = 0; round < 5; round++) {
    wire_client client;
    open_with_buffer(&client, BIG, UINT64_C(1) << 30);
    bytes all = {0};
    add_download(&all, &client, 1);
    add_download(&all, &client, 1);
    for (int i = 0; i < round; i++) add_info(&all, &client);
    send_one(&client, &all);
    idle_turns(round);
    close_client(&client);
    TURN_UNTIL(!runtime->stats.connections);
  }
}

Test(local_output, sends_what_is_queued_before_it_hangs_up) {
  wire_client client;
  open_with_buffer(&client, 65536, 1 << 20);
  bytes all = {0};
  uint64_t first = client.last_call + 1;
  for (int i = 0; i < 30; i++) add_download(&all, &client, 1);
  add_bytes(&all, "garbage that is as long as a header is, or more", 48);
  send_one(&client, &all);
  for (uint64_t i = 0; i < 30; i++) {
    wire_frame frame = take_reply(&client, first + i);
    cr_assert_eq(frame.header.bulk_bytes, 65536);
  }
  take_error(&client, 0, PJRTD_CODE_INVALID_ARGUMENT, "magic");
  is_at_end(&client);
  close_client(&client);
}

Test(local_output, closes_the_connection_when_there_is_no_memory_for_an_answer) {
  wire_client client;
  local_connection *connection = open_client(&client);
  /* The answer does not fit the memory that the connection keeps. */
  bytes all = {0};
  add_upload(&all, &client, 1, data, 60000, true);
  send_bytes(&client, &all);
  take(&client);
  add_download(&all, &client, 1);
  send_one(&client, &all);
  pjrtd_free(connection->output);
  connection->output = NULL;
  connection->output_capacity = connection->output_bytes = connection->output_sent = 0;
  int64_t failed = 0;
  for (int64_t i = 0; i < 8 && !client.at_end; i++) {
    pjrtd_alloc_fail_after(0);
    turn();
    failed += pjrtd_alloc_fail_after(-1);
    receive(&client);
  }
  cr_assert_gt(failed, 0);
  is_at_end(&client);
  close_client(&client);
}

Test(local_output, keeps_little_memory_when_all_is_sent) {
  wire_client client;
  local_connection *connection = open_with_buffer(&client, 65536, 1 << 20);
  bytes all = {0};
  uint64_t first = client.last_call + 1;
  for (int i = 0; i < 50; i++) add_download(&all, &client, 1);
  send_one(&client, &all);
  for (uint64_t i = 0; i < 50; i++) take_reply(&client, first + i);
  idle_turns(3);
  cr_assert_leq(connection->output_capacity, 4096);
  cr_assert_null(connection->backlog);
  cr_assert_null(connection->frame);
  close_client(&client);
}
