/* Runs: what comes while they are under way, and what a callback may do. */
#include <criterion/criterion.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "fake_peer.h"
#include "pjrtd/v1/execute.pb-c.h"

static int64_t dims[] = {2};

/* What the peer says after a step: its values are {steps, -steps}. */
static void tell(fake_peer *peer, const pjrtd_frame_header *to, bool ends, uint64_t steps, bool values, bool stopped) {
  float data[2] = {(float)steps, -(float)steps};
  Pjrtd__V1__TensorType type = PJRTD__V1__TENSOR_TYPE__INIT;
  type.dtype = PJRTD__V1__DTYPE__DTYPE_F32, type.n_dims = 1, type.dims = dims;
  Pjrtd__V1__FetchedTensor fetched = PJRTD__V1__FETCHED_TENSOR__INIT, *list[] = {&fetched};
  fetched.position = 1, fetched.type = &type, fetched.data_bytes = sizeof data;
  Pjrtd__V1__RunReply reply = PJRTD__V1__RUN_REPLY__INIT;
  reply.steps = steps, reply.stopped = stopped, reply.execute_ns = steps * 10;
  if (values) reply.n_fetched = 1, reply.fetched = list;
  (ends ? peer_reply : peer_item)(peer, to, &reply.base, data, values ? sizeof data : 0);
}

/* A step that brings back output 1, into memory of the library's or of the test's. */
static pjrtc_execute_options step_of(pjrtc_value *fetch) {
  fetch->position = 1;
  return (pjrtc_execute_options){
      .struct_size = sizeof(pjrtc_execute_options), .program = 1, .fetch = fetch, .num_fetch = 1};
}

typedef struct {
  pjrtc_client *client;
  uint64_t steps[16];
  float values[16];
  int count, stop_after;
  pjrtc_future *other;
} seen;

static bool note(void *user, uint64_t steps, const pjrtc_value *values, size_t num_values) {
  seen *s = user;
  s->steps[s->count] = steps;
  s->values[s->count] = num_values ? ((const float *)values[0].data)[0] : -1;
  return ++s->count != s->stop_after;
}

/* ---- */

static void three_items(fake_peer *peer) {
  pjrtd_frame_header header;
  peer_hello(peer);
  peer_expect(peer, PJRTD_FRAME_REQUEST, &header);
  tell(peer, &header, false, 2, true, false);
  tell(peer, &header, false, 3, false, false);
  tell(peer, &header, false, 4, true, false);
  tell(peer, &header, true, 5, true, true);
  peer_expect(peer, PJRTD_FRAME_REQUEST, &header);
}

Test(op_run, tells_each_item_in_order_and_the_end_once) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, three_items, NULL);
  pjrtc_error error = PJRTC_ERROR_INIT;
  pjrtc_value fetch = {0};
  pjrtc_execute_options step = step_of(&fetch);
  seen s = {0};
  pjrtc_run_result result = {.struct_size = sizeof result};
  pjrtc_run_options run = {
      .struct_size = sizeof run, .step = &step, .steps = 9, .every = 2, .on_step = note, .user = &s, .result = &result};
  cr_assert_eq(pjrtc_run(client, &run, &error), PJRTC_OK, "%s", error.message);
  cr_assert_eq(s.count, 3);
  cr_assert_eq(s.steps[0], 2);
  cr_assert_eq(s.values[0], 2.0f);
  cr_assert_eq(s.steps[1], 3);
  cr_assert_eq(s.values[1], -1.0f, "no values, only how far it is");
  cr_assert_eq(s.values[2], 4.0f);
  cr_assert_eq(((float *)fetch.data)[1], -5.0f);
  cr_assert_eq(result.steps, 5);
  cr_assert_eq(result.execute_ns, 50);
  cr_assert(result.stopped);
  pjrtc_free(fetch.data);
  pjrtc_close(client);
  fake_peer_join(&peer);
}

static void values_were_sent(fake_peer *peer) {
  pjrtd_frame_header header;
  peer_hello(peer);
  peer_expect(peer, PJRTD_FRAME_REQUEST, &header);
  tell(peer, &header, false, 4, true, false);
  tell(peer, &header, true, *(uint64_t *)peer->user, false, false);
  peer_expect(peer, PJRTD_FRAME_REQUEST, &header);
}

Test(op_run, values_of_the_last_step_may_have_come_before) {
  for (uint64_t last = 4; last < 6; last++) {
    fake_peer peer;
    pjrtc_client *client = fake_peer_connect(&peer, values_were_sent, &last);
    pjrtc_error error = PJRTC_ERROR_INIT;
    pjrtc_value fetch = {0};
    pjrtc_execute_options step = step_of(&fetch);
    pjrtc_run_options run = {.struct_size = sizeof run, .step = &step, .steps = 4, .every = 4};
    pjrtc_code code = pjrtc_run(client, &run, &error);
    if (last == 4) {
      cr_assert_eq(code, PJRTC_OK);
      cr_assert_eq(((float *)fetch.data)[0], 4.0f);
    } else {
      cr_assert_eq(code, PJRTC_INTERNAL);
      cr_assert_str_eq(error.message,
                       "the server's reply to a run is malformed: it has not the values of the last step");
      cr_assert_null(fetch.data, "what was allocated is taken back");
    }
    pjrtc_free(fetch.data);
    pjrtc_close(client);
    fake_peer_join(&peer);
  }
}

static void until_cancelled(fake_peer *peer) {
  pjrtd_frame_header header, cancel;
  peer_hello(peer);
  peer_expect(peer, PJRTD_FRAME_REQUEST, &header);
  for (uint64_t i = 1; i <= 5; i++) tell(peer, &header, false, i, true, false);
  peer_expect(peer, PJRTD_FRAME_CANCEL, &cancel);
  *(bool *)peer->user = cancel.call == header.call;
  peer_error(peer, &header, 1, "cancelled after 5 steps");
  peer_expect(peer, PJRTD_FRAME_REQUEST, &header);
}

Test(op_run, a_callback_that_says_no_cancels_it_and_is_not_called_again) {
  bool cancelled = false;
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, until_cancelled, &cancelled);
  pjrtc_error error = PJRTC_ERROR_INIT;
  pjrtc_value fetch = {0};
  pjrtc_execute_options step = step_of(&fetch);
  seen s = {.stop_after = 2};
  pjrtc_run_result result = {.struct_size = sizeof result};
  pjrtc_run_options run = {
      .struct_size = sizeof run, .step = &step, .steps = 9, .every = 1, .on_step = note, .user = &s, .result = &result};
  cr_assert_eq(pjrtc_run(client, &run, &error), PJRTC_CANCELLED);
  cr_assert_eq(s.count, 2);
  cr_assert_eq(result.steps, 5);
  cr_assert_null(fetch.data);
  pjrtc_close(client);
  fake_peer_join(&peer);
  cr_assert(cancelled);
}

Test(op_run, too_little_room_cancels_it_and_says_how_much_it_takes) {
  bool cancelled = false;
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, until_cancelled, &cancelled);
  pjrtc_error error = PJRTC_ERROR_INIT;
  float room;
  pjrtc_value fetch = {.data = &room, .capacity_bytes = sizeof room};
  pjrtc_execute_options step = step_of(&fetch);
  seen s = {0};
  pjrtc_run_options run = {
      .struct_size = sizeof run, .step = &step, .steps = 9, .every = 1, .on_step = note, .user = &s};
  cr_assert_eq(pjrtc_run(client, &run, &error), PJRTC_OUT_OF_RANGE);
  cr_assert_eq(fetch.size_bytes, 8);
  cr_assert_eq(s.count, 0);
  pjrtc_close(client);
  fake_peer_join(&peer);
  cr_assert(cancelled);
}

/* ---- What a callback may do ---- */

static void one_item_then_serve(fake_peer *peer) {
  pjrtd_frame_header header, other;
  peer_hello(peer);
  peer_expect(peer, PJRTD_FRAME_REQUEST, &header);
  tell(peer, &header, false, 1, true, false);
  peer_expect(peer, PJRTD_FRAME_REQUEST, &other); /* from the callback */
  peer_reply(peer, &other, NULL, NULL, 0);
  tell(peer, &header, true, 2, true, false);
  peer_expect(peer, PJRTD_FRAME_REQUEST, &header);
}

static bool start_and_try_to_wait(void *user, uint64_t steps, const pjrtc_value *values, size_t num_values) {
  seen *s = user;
  pjrtc_error error = PJRTC_ERROR_INIT;
  uint64_t buffer = 5;
  s->count++;
  cr_assert_eq(pjrtc_sync(s->client, 0, &error), PJRTC_FAILED_PRECONDITION);
  cr_assert_not_null(strstr(error.message, "callback cannot wait"));
  cr_assert_eq(pjrtc_delete_start(s->client, &buffer, 1, &s->other, &error), PJRTC_OK);
  cr_assert_eq(pjrtc_future_wait(s->other, PJRTC_FOREVER, &error), PJRTC_FAILED_PRECONDITION);
  cr_assert_eq(pjrtc_future_poll(s->other, &error), PJRTC_PENDING);
  cr_assert_eq(pjrtc_progress(s->client, &error), PJRTC_OK);
  static uint8_t data[300000];
  int64_t large[] = {300000};
  pjrtc_upload_options upload = {.struct_size = sizeof upload, .type = {PJRTC_U8, 1, large}, .data = data};
  cr_assert_eq(pjrtc_upload_start(s->client, &upload, &buffer, NULL, &error), PJRTC_FAILED_PRECONDITION);
  return true;
}

Test(op_run, a_callback_starts_calls_and_cannot_wait, .timeout = 20) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, one_item_then_serve, NULL);
  pjrtc_error error = PJRTC_ERROR_INIT;
  pjrtc_value fetch = {0};
  pjrtc_execute_options step = step_of(&fetch);
  seen s = {.client = client};
  pjrtc_run_options run = {
      .struct_size = sizeof run, .step = &step, .steps = 2, .every = 1, .on_step = start_and_try_to_wait, .user = &s};
  cr_assert_eq(pjrtc_run(client, &run, &error), PJRTC_OK, "%s", error.message);
  cr_assert_eq(s.count, 1);
  cr_assert_eq(pjrtc_future_wait(s.other, PJRTC_FOREVER, &error), PJRTC_OK);
  pjrtc_future_destroy(s.other);
  pjrtc_free(fetch.data);
  pjrtc_close(client);
  fake_peer_join(&peer);
}

/* ---- Letting go ---- */

static void items_all_along(fake_peer *peer) {
  pjrtd_frame_header header, frame;
  peer_hello(peer);
  peer_expect(peer, PJRTD_FRAME_REQUEST, &header);
  for (uint64_t i = 1; i <= 3; i++) tell(peer, &header, false, i, true, false);
  peer_expect(peer, PJRTD_FRAME_CANCEL, &frame);
  for (uint64_t i = 4; i <= 6; i++) tell(peer, &header, false, i, true, false);
  peer_error(peer, &header, 1, "cancelled");
  peer_expect(peer, PJRTD_FRAME_REQUEST, &frame); /* the sync */
  peer_reply(peer, &frame, NULL, NULL, 0);
  peer_expect(peer, PJRTD_FRAME_REQUEST, &frame);
}

Test(op_run, nothing_is_told_once_it_is_let_go, .timeout = 20) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, items_all_along, NULL);
  pjrtc_error error = PJRTC_ERROR_INIT;
  pjrtc_value fetch = {0};
  pjrtc_execute_options step = step_of(&fetch);
  seen s = {0};
  pjrtc_future *future;
  pjrtc_run_options run = {
      .struct_size = sizeof run, .step = &step, .steps = 9, .every = 1, .on_step = note, .user = &s};
  cr_assert_eq(pjrtc_run_start(client, &run, &future, &error), PJRTC_OK);
  while (s.count < 3) cr_assert_eq(pjrtc_future_wait(future, 1000000, &error), PJRTC_PENDING);
  pjrtc_future_destroy(future);
  cr_assert_null(fetch.data, "what was allocated is taken back");
  cr_assert_eq(pjrtc_sync(client, 0, &error), PJRTC_OK, "%s", error.message);
  cr_assert_eq(s.count, 3);
  pjrtc_close(client);
  fake_peer_join(&peer);
}

typedef struct {
  pjrtc_client *client;
  atomic_bool entered, left;
} slow;

static bool take_time(void *user, uint64_t steps, const pjrtc_value *values, size_t num_values) {
  slow *s = user;
  s->entered = true;
  usleep(100000);
  s->left = true;
  return true;
}

static void *drive(void *user) {
  slow *s = user;
  cr_assert_eq(pjrtc_sync(s->client, 0, NULL), PJRTC_OK);
  return NULL;
}

static void one_item_and_a_cancel(fake_peer *peer) {
  pjrtd_frame_header header, sync, cancel;
  peer_hello(peer);
  peer_expect(peer, PJRTD_FRAME_REQUEST, &header);
  peer_expect(peer, PJRTD_FRAME_REQUEST, &sync);
  tell(peer, &header, false, 1, true, false);
  peer_expect(peer, PJRTD_FRAME_CANCEL, &cancel);
  peer_error(peer, &header, 1, "cancelled");
  peer_reply(peer, &sync, NULL, NULL, 0);
  peer_expect(peer, PJRTD_FRAME_REQUEST, &header);
}

Test(op_run, letting_go_waits_for_the_callback_of_another_thread, .timeout = 20) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, one_item_and_a_cancel, NULL);
  pjrtc_error error = PJRTC_ERROR_INIT;
  pjrtc_value fetch = {0};
  pjrtc_execute_options step = step_of(&fetch);
  slow s = {.client = client};
  pjrtc_future *future;
  pjrtc_run_options run = {
      .struct_size = sizeof run, .step = &step, .steps = 9, .every = 1, .on_step = take_time, .user = &s};
  cr_assert_eq(pjrtc_run_start(client, &run, &future, &error), PJRTC_OK);
  pthread_t driver;
  pthread_create(&driver, NULL, drive, &s);
  while (!s.entered) usleep(1000);
  pjrtc_future_destroy(future);
  cr_assert(s.left);
  pthread_join(driver, NULL);
  pjrtc_close(client);
  fake_peer_join(&peer);
}

/* ---- Refused before anything is sent ---- */

static void count_requests(fake_peer *peer) {
  fake_frame frame;
  peer_hello(peer);
  while (peer_read(peer, &frame)) {
    ++*(int *)peer->user;
    peer_frame_free(&frame);
  }
}

Test(op_run, options_that_contradict_each_other_are_refused) {
  int sent = 0;
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, count_requests, &sent);
  pjrtc_error error = PJRTC_ERROR_INIT;
  pjrtc_value fetch = {0};
  pjrtc_execute_options step = step_of(&fetch);
  pjrtc_run_options run = {.struct_size = sizeof run, .steps = 9};
  cr_assert_eq(pjrtc_run(client, &run, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert_str_eq(error.message, "pjrtc_run_options.step is not set");
  run.step = &step;
  cr_assert_eq(pjrtc_run_start(client, &run, NULL, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert_str_eq(error.message, "a quiet run has no reply that could bring values back");
  step.timeout_ns = 1;
  cr_assert_eq(pjrtc_run(client, &run, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert_str_eq(error.message, "the step of a run has no result and no timeout of its own");
  step.timeout_ns = 0, run.num_stacked = 1;
  cr_assert_eq(pjrtc_run(client, &run, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert_str_eq(error.message, "pjrtc_run_options.stacked is not set");
  run.num_stacked = 0, step.struct_size = 0;
  cr_assert_eq(pjrtc_run(client, &run, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert_str_eq(error.message, "pjrtc_execute_options.struct_size is not set");
  pjrtc_close(client);
  fake_peer_join(&peer);
  cr_assert_eq(sent, 0);
}
