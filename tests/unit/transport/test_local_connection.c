/* transport/local_connection.c: reading. */
#include <dirent.h>

#include "transport/local_connection.h"
#include "wire_fixture.h"

TestSuite(local_connection, .init = open_server, .fini = close_server, .timeout = 300);

static uint8_t data[4 << 20];

static void fill(void) {
  for (size_t i = 0; i < sizeof data; i++) data[i] = (uint8_t)(i * 31 + i / 251);
}

/* A conversation with frames of every kind that a client sends, in one piece. */
static bytes conversation(wire_client *client) {
  bytes all = {0};
  add_hello(&all, client, 0);                                   /* 1 */
  add_upload(&all, client, 1, data, 20, true);                  /* 2 */
  uint64_t big = add_upload(&all, client, 2, data, 100, false); /* 3 */
  add_item(&all, big, data, 60);
  add_info(&all, client); /* 4 */
  add_item(&all, big, data + 60, 40);
  add_frame(&all, 0, 2, NULL, (extra){.kind = PJRTD_FRAME_CANCEL});
  add_credit(&all, 2, 5);
  add_download(&all, client, 1);                                                   /* 5 */
  add_download(&all, client, 2);                                                   /* 6 */
  add_request(&all, client, PJRTD_METHOD_Session_Sync, EMPTY_MESSAGE, (extra){0}); /* 7 */
  return all;
}

static void check_conversation(wire_client *client) {
  bool seen[8] = {0};
  for (int i = 1; i <= 7; i++) {
    wire_frame frame = take(client);
    cr_assert_eq(frame.header.kind, PJRTD_FRAME_REPLY, "call %d", (int)frame.header.call);
    cr_assert(frame.header.call >= 1 && frame.header.call <= 7 && !seen[frame.header.call]);
    seen[frame.header.call] = true;
    if (frame.header.call == 5) cr_assert(frame.header.bulk_bytes == 20 && !memcmp(frame.bulk, data, 20));
    if (frame.header.call == 6) cr_assert(frame.header.bulk_bytes == 100 && !memcmp(frame.bulk, data, 100));
  }
  receive(client);
  cr_assert_eq(client->input_bytes, 0);
  cr_assert_not(client->at_end);
}

Test(local_connection, understands_frames_that_are_cut_anywhere) {
  fill();
  wire_client client;
  connect_client(&client);
  bytes all = conversation(&client);
  close_client(&client);
  for (size_t cut = 0; cut <= all.size; cut++) {
    connect_client(&client);
    send_all(&client, all.data, cut);
    turn();
    send_all(&client, all.data + cut, all.size - cut);
    check_conversation(&client);
    close_client(&client);
  }
  cr_assert_eq(runtime->stats.wire_errors, 0);
  free(all.data);
}

Test(local_connection, understands_frames_that_come_a_byte_at_a_time) {
  fill();
  wire_client client;
  connect_client(&client);
  bytes all = conversation(&client);
  for (size_t at = 0; at < all.size; at++) send_all(&client, all.data + at, 1);
  check_conversation(&client);
  close_client(&client);
  free(all.data);
}

Test(local_connection, understands_big_frames_and_items_cut_at_random) {
  fill();
  unsigned seed = 4;
  for (int round = 0; round < 20; round++) {
    wire_client client;
    connect_client(&client);
    bytes all = {0};
    add_hello(&all, &client, UINT64_C(1) << 30);
    add_upload(&all, &client, 1, data, 65536, true);
    uint64_t big = add_upload(&all, &client, 2, data, 900000, false);
    for (uint32_t sent = 0; sent < 900000;) {
      uint32_t now = 1 + (uint32_t)rand_r(&seed) % 300000;
      if (now > 900000 - sent) now = 900000 - sent;
      add_item(&all, big, data + sent, now);
      add_upload(&all, &client, client.last_call + 10, data + sent, (uint64_t)rand_r(&seed) % 65536, true);
      sent += now;
    }
    uint64_t last = add_download(&all, &client, 2);
    for (size_t at = 0; at < all.size;) {
      size_t now = 1 + (size_t)rand_r(&seed) % 150000;
      if (now > all.size - at) now = all.size - at;
      send_all(&client, all.data + at, now);
      at += now;
    }
    free(all.data);
    for (uint64_t got = 0; got < 900000;) {
      wire_frame frame = take(&client);
      cr_assert_neq(frame.header.kind, PJRTD_FRAME_ERROR);
      if (frame.header.kind != PJRTD_FRAME_ITEM) continue;
      cr_assert_eq(frame.header.call, last);
      cr_assert_eq(memcmp(frame.bulk, data + got, frame.header.bulk_bytes), 0);
      got += frame.header.bulk_bytes;
    }
    close_client(&client);
  }
}

Test(local_connection, answers_many_frames_of_one_write_in_order_and_over_several_turns) {
  enum { MANY = 5000 };
  wire_client client;
  open_client(&client);
  bytes all = {0};
  for (int i = 0; i < MANY; i++) add_info(&all, &client);
  uint64_t turns = runtime->stats.loop_turns;
  send_bytes(&client, &all);
  for (uint64_t i = 0; i < MANY; i++) take_reply(&client, 2 + i);
  cr_assert_gt(runtime->stats.loop_turns - turns, 3);
  close_client(&client);
}

/* How many of a greedy client's requests are answered in the turn in which another asks for one thing. */
Test(local_connection, lets_another_client_in_between) {
  enum { MANY = 5000 };
  wire_client greedy, modest;
  open_client(&greedy);
  open_client(&modest);
  bytes all = {0}, one = {0};
  for (int i = 0; i < MANY; i++)
    add_request(&all, &greedy, PJRTD_METHOD_Runtime_Devices, EMPTY_MESSAGE, (extra){.quiet = true});
  size_t sent = send_some_of(&greedy, all.data, all.size);
  cr_assert_eq(sent, all.size, "all of it is there for the first turn");
  uint64_t call = add_info(&one, &modest), before = runtime->stats.calls_total;
  send_some_of(&modest, one.data, one.size);
  take_reply(&modest, call);
  cr_assert_lt(runtime->stats.calls_total - before, MANY / 2, "%d came first",
               (int)(runtime->stats.calls_total - before));
  TURN_UNTIL(runtime->stats.calls_total - before == MANY + 1);
  free(all.data);
  free(one.data);
  close_client(&greedy);
  close_client(&modest);
}

/* ---- a client that does not read ---- */

Test(local_connection, stops_reading_from_who_does_not_read_and_goes_on_when_it_does) {
  enum { MANY = 300 };
  fill();
  settings.max_queued_bytes = 4 << 20;
  wire_client client;
  local_connection *connection = open_client(&client);
  bytes all = {0};
  uint64_t first = add_upload(&all, &client, 1, data, 65536, true);
  send_bytes(&client, &all);
  take_reply(&client, first);
  for (int i = 0; i < MANY; i++) add_download(&all, &client, 1);
  size_t sent = 0;
  for (int i = 0; i < 100; i++) {
    sent += send_some_of(&client, all.data + sent, all.size - sent);
    turn();
  }
  cr_assert_eq(sent, all.size);
  free(all.data);
  cr_assert(connection->read_paused);
  cr_assert_leq(connection->output_bytes - connection->output_sent, (4 << 20) + 70000);
  for (uint64_t i = 1; i <= MANY; i++) {
    wire_frame frame = take_reply(&client, first + i);
    cr_assert_eq(memcmp(frame.bulk, data, 65536), 0);
    cr_assert_leq(connection->output_bytes - connection->output_sent, (4 << 20) + 70000);
  }
  cr_assert_not(connection->read_paused);
  close_client(&client);
}

/* Answers of calls that had to wait count too. */
Test(local_connection, makes_no_answers_for_who_does_not_read) {
  enum { MANY = 300 };
  fill();
  settings.max_queued_bytes = 4 << 20;
  settings.max_calls_in_flight = 1000;
  wire_client client;
  local_connection *connection = open_client(&client);
  bytes all = {0};
  uint64_t first = add_upload(&all, &client, 1, data, 65536, false);
  for (int i = 0; i < MANY; i++) add_download(&all, &client, 1);
  add_item(&all, first, data, 65536);
  size_t sent = 0;
  for (int i = 0; i < 200; i++) {
    sent += send_some_of(&client, all.data + sent, all.size - sent);
    turn();
    usleep(100);
  }
  cr_assert_eq(sent, all.size);
  free(all.data);
  TURN_UNTIL(connection->output_bytes - connection->output_sent > (4 << 20));
  idle_turns(20);
  cr_assert_leq(connection->output_bytes - connection->output_sent, (4 << 20) + 70000);
  take_reply(&client, first);
  for (uint64_t i = 1; i <= MANY; i++) take_reply(&client, first + i);
  close_client(&client);
}

Test(local_connection, cuts_off_who_reads_nothing_for_too_long) {
  fill();
  settings.client_stall_seconds = 1;
  wire_client client, other;
  open_client(&client);
  open_client(&other);
  bytes all = {0};
  add_upload(&all, &client, 1, data, 65536, true);
  for (int i = 0; i < 100; i++) add_download(&all, &client, 1);
  send_some_of(&client, all.data, all.size);
  free(all.data);
  TURN_UNTIL(runtime->stats.clients_cut_off == 1);
  cr_assert_eq(runtime->stats.connections, 1, "who has nothing to read is left alone");
  close_client(&client);
  close_client(&other);
}

Test(local_connection, cuts_off_who_does_not_say_hello) {
  settings.handshake_seconds = 1;
  wire_client silent, half, good;
  open_client(&good);
  connect_client(&silent);
  connect_client(&half);
  send_all(&half, (const uint8_t *)"PJRT", 4);
  TURN_UNTIL(runtime->stats.clients_cut_off == 2);
  cr_assert_eq(runtime->stats.connections, 1);
  is_at_end(&silent);
  close_client(&silent);
  close_client(&half);
  close_client(&good);
}

/* ---- broken frames ---- */

static void breaks(const uint8_t *head, size_t size, uint64_t call, const char *piece) {
  wire_client client;
  open_client(&client);
  uint64_t errors = runtime->stats.wire_errors;
  send_all(&client, head, size);
  take_error(&client, call, PJRTD_CODE_INVALID_ARGUMENT, piece);
  is_at_end(&client);
  cr_assert_eq(runtime->stats.wire_errors, errors + 1);
  close_client(&client);
}

Test(local_connection, answers_a_broken_frame_and_closes) {
  const pjrtd_frame_header good = {.method = PJRTD_METHOD_Runtime_Info, .kind = PJRTD_FRAME_REQUEST, .call = 2};
  uint8_t head[PJRTD_FRAME_HEADER_BYTES];
  pjrtd_frame_encode(&good, head);
  static const struct {
    size_t at;
    uint8_t value;
    uint64_t call;
    const char *piece;
  } faults[] = {
      {0, 'X', 0, "magic"},
      {3, 0, 0, "magic"},
      {6, 0x11, 2, "payload_bytes is over 1 MiB"},
      {7, 0xff, 2, "payload_bytes is over 1 MiB"},
      {10, 0x02, 2, "bulk_bytes of a request"},
      {14, 0, 2, "kind does not exist"},
      {14, 9, 2, "kind does not exist"},
      {14, 255, 2, "kind does not exist"},
      {14, PJRTD_FRAME_ITEM, 2, "an item is empty"},
      {15, 0x02, 2, "unknown flags"},
      {15, 0x08, 2, "unknown flags"},
      {16, 0, 0, "call id is 0"},
  };
  for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
    uint8_t broken[PJRTD_FRAME_HEADER_BYTES];
    memcpy(broken, head, sizeof broken);
    broken[faults[i].at] = faults[i].value;
    breaks(broken, sizeof broken, faults[i].call, faults[i].piece);
  }
  memcpy(head + 24, "\x01", 1);
  head[14] = PJRTD_FRAME_CANCEL;
  breaks(head, sizeof head, 2, "belong to requests only");
}

Test(local_connection, answers_what_came_before_a_broken_frame_and_nothing_after) {
  wire_client client;
  open_client(&client);
  bytes all = {0};
  uint64_t before = add_info(&all, &client);
  add_bytes(&all, "this is not a frame, and it is longer than a header", 51);
  add_info(&all, &client);
  send_bytes(&client, &all);
  take_reply(&client, before);
  take_error(&client, 0, PJRTD_CODE_INVALID_ARGUMENT, "magic");
  is_at_end(&client);
  close_client(&client);
}

Test(local_connection, survives_random_bytes) {
  unsigned seed = 8;
  for (int round = 0; round < 60; round++) {
    wire_client client;
    if (round % 2)
      open_client(&client);
    else
      connect_client(&client);
    uint8_t noise[4096];
    for (size_t i = 0; i < sizeof noise; i++) noise[i] = (uint8_t)rand_r(&seed);
    if (round % 3 == 0) memcpy(noise, "PJRT", 4); /* then the header's checks see it */
    if (round % 6 == 0) memcpy(noise + 4, "\x10\0\0\0\0\0\0\0", 8);
    send_all(&client, noise, sizeof noise);
    close_client(&client);
    TURN_UNTIL(!runtime->stats.connections);
  }
}

/* ---- the end in the middle ---- */

Test(local_connection, goes_cleanly_wherever_the_client_leaves) {
  fill();
  wire_client client;
  connect_client(&client);
  bytes all = conversation(&client);
  close_client(&client);
  TURN_UNTIL(!runtime->stats.connections);
  for (size_t cut = 0; cut < all.size; cut += 7) {
    connect_client(&client);
    send_all(&client, all.data, cut);
    close_client(&client);
    TURN_UNTIL(!runtime->stats.connections);
  }
  wait_until_idle();
  cr_assert_eq(runtime->stats.sessions, 0);
  cr_assert_eq(runtime->stats.buffers, 0);
  cr_assert_eq(runtime->stats.wire_errors, 0, "leaving is no error");
  free(all.data);
}

Test(local_connection, goes_when_the_client_stops_sending) {
  wire_client client;
  open_client(&client);
  shutdown(client.descriptor, SHUT_WR);
  is_at_end(&client);
  close_client(&client);
}

Test(local_connection, is_not_made_without_memory) {
  int pair[2];
  cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair), 0);
  const pjrtd_identity identity = {0};
  pjrtd_alloc_fail_after(0);
  PJRTD_AUTO(pjrtd_status) status = local_connection_create(server, pair[0], &identity);
  pjrtd_alloc_fail_after(-1);
  cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_RESOURCE_EXHAUSTED);
  cr_assert_eq(fcntl(pair[0], F_GETFD), -1, "the descriptor was taken");
  cr_assert_eq(runtime->stats.connections, 0);
  close(pair[1]);
}

/* ---- file descriptors ---- */

static size_t count_descriptors(void) {
  DIR *folder = opendir("/proc/self/fd");
  size_t count = 0;
  while (readdir(folder)) count++;
  closedir(folder);
  return count;
}

static void send_with(wire_client *client, const bytes *all, int num_descriptors) {
  union {
    struct cmsghdr header;
    char bytes[CMSG_SPACE(sizeof(int) * 64)];
  } control;
  memset(&control, 0, sizeof control);
  struct iovec part = {all->data, all->size};
  struct msghdr message = {.msg_iov = &part,
                           .msg_iovlen = 1,
                           .msg_control = &control,
                           .msg_controllen = CMSG_SPACE(sizeof(int) * (size_t)num_descriptors)};
  struct cmsghdr *rights = CMSG_FIRSTHDR(&message);
  rights->cmsg_level = SOL_SOCKET;
  rights->cmsg_type = SCM_RIGHTS;
  rights->cmsg_len = CMSG_LEN(sizeof(int) * (size_t)num_descriptors);
  for (int i = 0; i < num_descriptors; i++)
    memcpy(CMSG_DATA(rights) + i * sizeof(int), &client->descriptor, sizeof(int));
  cr_assert_eq(sendmsg(client->descriptor, &message, MSG_NOSIGNAL), (ssize_t)all->size);
  free(all->data);
}

Test(local_connection, closes_descriptors_that_no_method_takes_and_goes_on) {
  wire_client client;
  open_client(&client);
  size_t before = count_descriptors();
  bytes all = {0};
  uint64_t call = add_request(&all, &client, PJRTD_METHOD_Runtime_Info, EMPTY_MESSAGE, (extra){.num_descriptors = 3});
  uint64_t next = add_info(&all, &client);
  send_with(&client, &all, 3);
  take_error(&client, call, PJRTD_CODE_INVALID_ARGUMENT, "takes no file descriptors, 3 came");
  take_reply(&client, next);
  cr_assert_eq(count_descriptors(), before);
  close_client(&client);
}

Test(local_connection, closes_a_connection_whose_descriptors_are_not_as_announced) {
  static const struct {
    uint8_t announced;
    int sent;
    uint64_t call;
    const char *piece;
  } cases[] = {
      {2, 1, 2, "announces 2 file descriptors, 1 came"},
      {15, 1, 2, "announces 15 file descriptors, 1 came"},
      {0, 1, 0, "1 file descriptors came that no frame announced"},
      {15, 20, 0, "more than 15 file descriptors"},
  };
  size_t before = count_descriptors();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    wire_client client;
    open_client(&client);
    bytes all = {0};
    add_request(&all, &client, PJRTD_METHOD_Runtime_Info, EMPTY_MESSAGE,
                (extra){.num_descriptors = cases[i].announced});
    send_with(&client, &all, cases[i].sent);
    if (cases[i].announced == 0) take_reply(&client, 2);
    take_error(&client, cases[i].call, PJRTD_CODE_INVALID_ARGUMENT, cases[i].piece);
    is_at_end(&client);
    close_client(&client);
    TURN_UNTIL(!runtime->stats.connections);
    idle_turns(3);
    cr_assert_eq(count_descriptors(), before, "case %zu", i);
  }
}

Test(local_connection, keeps_descriptors_for_a_frame_whose_rest_is_to_come) {
  wire_client client;
  open_client(&client);
  size_t before = count_descriptors();
  bytes all = {0};
  uint64_t call = add_request(&all, &client, PJRTD_METHOD_Runtime_Info, EMPTY_MESSAGE, (extra){.num_descriptors = 1});
  bytes head = {0};
  add_bytes(&head, all.data, 10);
  send_with(&client, &head, 1);
  idle_turns(5);
  cr_assert_eq(count_descriptors(), before + 1);
  send_all(&client, all.data + 10, all.size - 10);
  take_error(&client, call, PJRTD_CODE_INVALID_ARGUMENT, "takes no file descriptors");
  cr_assert_eq(count_descriptors(), before);
  free(all.data);
  close_client(&client);
}

Test(local_connection, closes_descriptors_that_came_with_half_a_frame_when_the_client_leaves) {
  wire_client client;
  size_t before = count_descriptors();
  open_client(&client);
  bytes all = {0}, head = {0};
  add_request(&all, &client, PJRTD_METHOD_Runtime_Info, EMPTY_MESSAGE, (extra){.num_descriptors = 1});
  add_bytes(&head, all.data, 10);
  free(all.data);
  /* What was sent keeps this end open until the daemon drops it. */
  send_with(&client, &head, 1);
  idle_turns(3);
  shutdown(client.descriptor, SHUT_RDWR);
  close_client(&client);
  TURN_UNTIL(!runtime->stats.connections);
  idle_turns(3);
  cr_assert_eq(count_descriptors(), before);
}
