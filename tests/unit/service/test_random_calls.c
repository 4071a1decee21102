/* Random requests, cancels, deadlines and pauses of one client: whatever comes of each, it is answered once (or not at
 * all, where it was quiet and succeeded), values are right, and nothing is left at the end. */
#include "peer_fixture.h"

TestSuite(random_calls, .init = open_service, .fini = close_service, .timeout = 300);

enum { STEPS = 2500, BIG_ELEMENTS = 25000, RECENT = 12 };

typedef struct {
  uint64_t id;
  bool is_quiet, is_download;
} sent;

static uint8_t zeros[BIG_ELEMENTS * 4];
static unsigned seed;
static sent all[STEPS * 2];
static size_t num_all;
static uint64_t programs[3], recent[RECENT], uploading[8];
static uint32_t upload_left[8];

static unsigned draw(unsigned below) {
  return (unsigned)rand_r(&seed) % below;
}

static how draw_how(void) {
  how how = {.quiet = draw(3) == 0};
  if (draw(8) == 0) how.deadline_ns = 1 + draw(4000000);
  return how;
}

static uint64_t note(uint64_t id, bool is_quiet, bool is_download) {
  all[num_all++] = (sent){id, is_quiet, is_download};
  return id;
}

static uint64_t draw_buffer(void) {
  return draw(30) ? recent[draw(RECENT)] : 100000 + draw(10);
}
static uint64_t new_buffer(void) {
  return recent[draw(RECENT)] = ++client->next_buffer;
}

static void send_execute(void) {
  how how = draw_how();
  execution what = {.program = draw(40) ? programs[draw(3)] : 77, .n_args = 1, .args = {draw_buffer()}};
  if (draw(20) == 0) what.n_args = 2;
  if (draw(4)) {
    what.n_outputs = 1;
    what.outputs[0] = new_buffer();
  }
  if (draw(3) == 0) what.n_fetch = 1;
  note(post_execute(what, how), how.quiet, false);
}

static const char *draw_slot(void) {
  static const char *const names[] = {"a", "b", "c", "d"};
  return names[draw(4)];
}

static void send_step(void) {
  how how = draw_how();
  uint64_t steps = draw(2) ? 0 : draw(8) ? 1 + draw(50) : UINT64_MAX;
  if (steps == UINT64_MAX) how.deadline_ns = 1 + draw(4000000); /* it ends no other way, unless it is cancelled */
  slot_step what = {programs[draw(3)], steps, draw(5), draw(2) ? new_buffer() : 0, draw_slot(), draw_slot()};
  note(step_slots(what, how), how.quiet, false);
}

static void send_bind(void) {
  note(bind_slot(draw_slot(), draw_buffer(), (how){0}), false, false);
}

static void begin_big(void) {
  size_t at = draw(8);
  if (upload_left[at]) return;
  how how = draw_how();
  uploading[at] = note(begin_upload(new_buffer(), BIG_ELEMENTS, how), how.quiet, false);
  upload_left[at] = BIG_ELEMENTS * 4;
}

static void continue_big(void) {
  size_t at = draw(8);
  if (!upload_left[at]) return;
  uint32_t bytes = 1 + draw(upload_left[at]);
  if (draw(2)) bytes = upload_left[at];
  send_item(uploading[at], zeros, bytes, 1 + draw(50000));
  upload_left[at] -= bytes;
}

static void move_stream(void) {
  if (!client->num_streams) return;
  pjrtd_stream *stream = client->streams[draw((unsigned)client->num_streams)];
  if (draw(2)) {
    uint64_t bytes = 1 + draw((unsigned)stream->remaining_bytes);
    stream->data += bytes;
    stream->remaining_bytes -= bytes;
    if (stream->remaining_bytes) return;
  }
  for (size_t i = 0; i < client->num_streams; i++)
    if (client->streams[i] == stream) client->streams[i] = client->streams[--client->num_streams];
  stream->remaining_bytes = 0;
  stream->ended(stream);
}

static void step(void) {
  how how = draw_how();
  switch (draw(26)) {
    case 0:
    case 1: {
      const float pair[] = {1, 2};
      bool is_quiet = how.quiet;
      how.bulk = pair;
      how.bulk_bytes = 8;
      note(post_upload((upload){new_buffer(), PJRTD_DTYPE_F32, 1, {2}, 8}, how), is_quiet, false);
      break;
    }
    case 2: begin_big(); break;
    case 3:
    case 4: continue_big(); break;
    case 5:
    case 6:
    case 7:
    case 8: send_execute(); break;
    case 9:
    case 10: note(download(draw_buffer()), false, true); break;
    case 11: note(stat_buffer(draw_buffer()), false, false); break;
    case 12:
      if (draw(3) == 0) note(delete_buffer(draw_buffer()), false, false);
      break;
    case 13: note(describe(programs[draw(3)]), false, false); break;
    case 14: note(post_sync(), false, false); break;
    case 15:
      if (num_all) cancel(all[num_all - 1 - draw(num_all < 15 ? (unsigned)num_all : 15)].id);
      break;
    case 16: grant_credit(1 + draw((unsigned)client->next_call), draw(100000)); break;
    case 17:
    case 18: move_stream(); break;
    case 19:
    case 20:
    case 21: send_step(); break;
    case 22: send_bind(); break;
    default:
      client->is_full = !client->is_full && draw(2);
      if (!client->is_full) pjrtd_peer_has_room(&client->peer);
      turn();
      if (draw(4) == 0) usleep(draw(2000));
  }
  if (draw(2)) pjrtd_runtime_settle(runtime);
}

static size_t count_of(uint64_t call, uint8_t kind) {
  size_t count = 0;
  for (size_t i = 0; i < client->num_frames; i++)
    count += client->frames[i].header.call == call && client->frames[i].header.kind == kind;
  return count;
}

static void run(unsigned with_seed) {
  seed = with_seed;
  settings.loop_execute_us = 1000000;
  settings.max_calls_in_flight = 1000;
  programs[0] = make_program(ADD_TEXT(""));
  programs[1] = make_program(ADD_TEXT(DONATED));
  programs[2] = make_program(
      "module @big { func.func public @main(%a: tensor<25000xf32>) -> tensor<25000xf32> {\n"
      "  %0 = stablehlo.sine %a : tensor<25000xf32>\n  return %0 : tensor<25000xf32> } }\n");
  for (int i = 0; i < STEPS; i++) step();
  /* Everything may come to an end now. */
  client->is_full = false;
  pjrtd_peer_has_room(&client->peer);
  for (int at = 0; at < 8; at++)
    if (upload_left[at]) send_item(uploading[at], zeros, upload_left[at], 1 << 20);
  uint64_t until_ns = pjrtd_clock_now_ns() + UINT64_C(60000000000);
  while (client->peer.oldest) {
    while (client->num_streams) move_stream();
    turn();
    cr_assert_lt(pjrtd_clock_now_ns(), until_ns, "call %d of method 0x%04x does not end",
                 (int)client->peer.oldest->header.call, client->peer.oldest->header.method);
  }
  size_t replies = 0, errors = 0;
  for (size_t i = 0; i < num_all; i++) {
    size_t ok = count_of(all[i].id, PJRTD_FRAME_REPLY), bad = count_of(all[i].id, PJRTD_FRAME_ERROR);
    replies += ok;
    errors += bad;
    if (all[i].is_quiet)
      cr_assert(ok == 0 && bad <= 1, "quiet call %d: %zu replies, %zu errors", (int)all[i].id, ok, bad);
    else if (all[i].is_download) /* an error may take the place of the data */
      cr_assert(ok <= 1 && bad <= 1 && ok + bad, "download %d: %zu replies, %zu errors", (int)all[i].id, ok, bad);
    else
      cr_assert_eq(ok + bad, 1, "call %d: %zu replies, %zu errors", (int)all[i].id, ok, bad);
  }
  cr_assert_gt(replies, 100);
  cr_assert_gt(errors, 100);
  cr_assert_not(client->peer.failing);
  check_pair(make_pair(5, 6), 5, 6);
}

Test(random_calls, are_each_answered_once_1) {
  run(1);
}
Test(random_calls, are_each_answered_once_2) {
  run(2);
}
Test(random_calls, are_each_answered_once_3) {
  run(3);
}

Test(random_calls, end_with_the_connection_in_the_middle) {
  for (unsigned round = 0; round < 6; round++) {
    seed = 100 + round;
    clients[1] = (fake_peer){0};
    num_all = 0;
    memset(upload_left, 0, sizeof upload_left);
    open_client(&clients[1]);
    programs[0] = make_program(ADD_TEXT(""));
    programs[1] = make_program(ADD_TEXT(DONATED));
    programs[2] = programs[0];
    for (int i = 0; i < 400; i++) step();
    drop_client(&clients[1]);
    wait_until_idle();
    cr_assert_eq(runtime->stats.buffers, 0);
    cr_assert_eq(runtime->stats.staging_bytes, 0);
  }
}
