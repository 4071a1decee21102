/* Cancel, deadlines, callbacks, destruction. */
#include <criterion/criterion.h>
#include <string.h>
#include <unistd.h>

#include "fake_peer.h"

static void answer_only_cancels(fake_peer *peer) {
  uint64_t *deadline_ns = peer->user;
  peer_hello(peer);
  fake_frame frame;
  while (peer_read(peer, &frame)) {
    if (frame.header.kind == PJRTD_FRAME_CANCEL) peer_error(peer, &frame.header, 1, "cancelled as asked");
    if (frame.header.kind == PJRTD_FRAME_REQUEST && frame.header.method == PJRTC_METHOD_execute && deadline_ns)
      *deadline_ns = frame.header.deadline_ns;
    if (frame.header.method == PJRTC_METHOD_session_sync) peer_reply(peer, &frame.header, NULL, NULL, 0);
    peer_frame_free(&frame);
  }
}

static pjrtc_future *start(pjrtc_client *client, uint64_t timeout_ns) {
  pjrtc_execute_options run = {.struct_size = sizeof run, .program = 1, .timeout_ns = timeout_ns};
  pjrtc_future *future;
  cr_assert_eq(pjrtc_execute_start(client, &run, &future, NULL), PJRTC_OK);
  return future;
}

Test(future, cancelled_ends_with_the_servers_word, .timeout = 20) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, answer_only_cancels, NULL);
  pjrtc_future *future = start(client, 0);
  cr_assert_eq(pjrtc_future_call(future), 2);
  cr_assert_eq(pjrtc_future_wait(future, 1000000, NULL), PJRTC_PENDING);
  pjrtc_future_cancel(future);
  pjrtc_future_cancel(future);
  pjrtc_error error = PJRTC_ERROR_INIT;
  cr_assert_eq(pjrtc_future_wait(future, PJRTC_FOREVER, &error), PJRTC_CANCELLED);
  cr_assert_str_eq(error.message, "cancelled as asked");
  pjrtc_future_cancel(future);
  pjrtc_future_destroy(future);
  cr_assert_eq(pjrtc_sync(client, 0, NULL), PJRTC_OK);
  pjrtc_close(client);
  fake_peer_join(&peer);
}

Test(future, destroyed_before_its_answer_leaves_the_connection_in_order, .timeout = 20) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, answer_only_cancels, NULL);
  for (int i = 0; i < 100; i++) pjrtc_future_destroy(start(client, 0));
  pjrtc_future_destroy(NULL);
  cr_assert_eq(pjrtc_sync(client, 0, NULL), PJRTC_OK);
  pjrtc_close(client);
  fake_peer_join(&peer);
}

Test(future, sends_its_deadline_and_does_not_outwait_a_silent_server, .timeout = 20) {
  uint64_t deadline_ns = 0;
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, answer_only_cancels, &deadline_ns);
  pjrtc_execute_options run = {.struct_size = sizeof run, .program = 1, .timeout_ns = 50000000};
  pjrtc_error error = PJRTC_ERROR_INIT;
  cr_assert_eq(pjrtc_execute(client, &run, &error), PJRTC_DEADLINE_EXCEEDED);
  cr_assert_not_null(strstr(error.message, "did not answer within the deadline of 50 ms"), "%s", error.message);
  cr_assert_eq(deadline_ns, 50000000);
  cr_assert_eq(pjrtc_sync(client, 0, &error), PJRTC_OK, "%s", error.message);
  pjrtc_close(client);
  fake_peer_join(&peer);
}

static void note(pjrtc_future *future, void *user) {
  *(int *)user += 1;
}

Test(future, that_is_done_calls_back_at_once_and_only_once, .timeout = 20) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, answer_only_cancels, NULL);
  pjrtc_future *future = start(client, 0);
  int calls = 0;
  pjrtc_future_on_done(future, note, &calls);
  pjrtc_future_cancel(future);
  pjrtc_future_wait(future, PJRTC_FOREVER, NULL);
  cr_assert_eq(calls, 1);
  pjrtc_future_on_done(future, note, &calls);
  cr_assert_eq(calls, 2);
  pjrtc_future_destroy(future);
  future = start(client, 0);
  pjrtc_future_on_done(future, note, &calls);
  pjrtc_future_destroy(future);
  cr_assert_eq(pjrtc_sync(client, 0, NULL), PJRTC_OK);
  cr_assert_eq(calls, 2, "a destroyed future calls nobody");
  pjrtc_close(client);
  fake_peer_join(&peer);
}
