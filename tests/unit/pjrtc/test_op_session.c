/* Quiet calls and syncs. */
#include <criterion/criterion.h>
#include <string.h>

#include "fake_peer.h"

Test(op_session, sync_tells_the_first_quiet_failure_once) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, peer_serve, NULL);
  pjrtc_error error = PJRTC_ERROR_INIT;
  uint64_t missing[] = {901, 902};
  cr_assert_eq(pjrtc_sync(client, 0, &error), PJRTC_OK);
  cr_assert_eq(pjrtc_delete_start(client, &missing[0], 1, NULL, NULL), PJRTC_OK); /* call 3 */
  cr_assert_eq(pjrtc_delete_start(client, &missing[1], 1, NULL, NULL), PJRTC_OK);
  cr_assert_eq(pjrtc_sync(client, 0, &error), PJRTC_NOT_FOUND);
  cr_assert_str_eq(error.message, "no such buffer");
  cr_assert_eq(error.call, 3);
  cr_assert_eq(pjrtc_sync(client, 0, &error), PJRTC_OK);
  pjrtc_close(client);
  fake_peer_join(&peer);
}

/* Counts the quiet calls under way, as a server does that allows 10 of them. */
static void count_in_flight(fake_peer *peer) {
  uint32_t *most = peer->user, in_flight = 0;
  peer_hello(peer);
  fake_frame frame;
  while (peer_read(peer, &frame)) {
    if (frame.header.quiet) {
      if (++in_flight > *most) *most = in_flight;
      if (frame.header.call == 8) peer_error(peer, &frame.header, 5, "call 8");
    } else if (frame.header.kind == PJRTD_FRAME_REQUEST) {
      in_flight = 0;
      peer_reply(peer, &frame.header, NULL, NULL, 0);
    }
    peer_frame_free(&frame);
  }
}

Test(op_session, quiet_calls_stay_within_what_the_server_allows) {
  uint32_t most = 0;
  fake_peer peer;
  fake_peer_init(&peer, count_in_flight, &most);
  peer.max_calls_in_flight = 10;
  pjrtc_client *client = fake_peer_connect_with(&peer, NULL);
  uint64_t buffer = 1;
  for (int i = 0; i < 200; i++) cr_assert_eq(pjrtc_delete_start(client, &buffer, 1, NULL, NULL), PJRTC_OK);
  pjrtc_error error = PJRTC_ERROR_INIT;
  cr_assert_eq(pjrtc_sync(client, 0, &error), PJRTC_NOT_FOUND, "a failure long before the last of the client's syncs");
  cr_assert_eq(error.call, 8);
  cr_assert_str_eq(error.message, "call 8");
  cr_assert_eq(pjrtc_sync(client, 0, &error), PJRTC_OK);
  pjrtc_close(client);
  fake_peer_join(&peer);
  cr_assert_leq(most, 10);
}

static void answer_after_a_few(fake_peer *peer) {
  uint32_t *most = peer->user;
  peer_hello(peer);
  pjrtd_frame_header waiting[4];
  uint32_t in_flight = 0;
  while (peer_expect(peer, PJRTD_FRAME_REQUEST, &waiting[in_flight])) {
    if (++in_flight > *most) *most = in_flight;
    if (in_flight < 4) continue;
    while (in_flight) peer_reply(peer, &waiting[--in_flight], NULL, NULL, 0);
  }
}

Test(op_session, calls_with_futures_stay_within_what_the_server_allows) {
  uint32_t most = 0;
  fake_peer peer;
  fake_peer_init(&peer, answer_after_a_few, &most);
  peer.max_calls_in_flight = 4;
  pjrtc_client *client = fake_peer_connect_with(&peer, NULL);
  pjrtc_future *futures[40];
  uint64_t buffer = 1;
  for (int i = 0; i < 40; i++) cr_assert_eq(pjrtc_delete_start(client, &buffer, 1, &futures[i], NULL), PJRTC_OK);
  for (int i = 0; i < 40; i++) {
    cr_assert_eq(pjrtc_future_wait(futures[i], PJRTC_FOREVER, NULL), PJRTC_OK);
    pjrtc_future_destroy(futures[i]);
  }
  pjrtc_close(client);
  fake_peer_join(&peer);
  cr_assert_eq(most, 4);
}

static void fail_syncs(fake_peer *peer) {
  pjrtd_frame_header header;
  peer_hello(peer);
  peer_expect(peer, PJRTD_FRAME_REQUEST, &header);
  peer_error(peer, &header, 4, "too late");
  peer_expect(peer, PJRTD_FRAME_REQUEST, &header);
}

Test(op_session, a_sync_that_fails_itself_names_no_call) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, fail_syncs, NULL);
  pjrtc_error error = PJRTC_ERROR_INIT;
  cr_assert_eq(pjrtc_sync(client, 1000, &error), PJRTC_DEADLINE_EXCEEDED);
  cr_assert_eq(error.call, 0);
  cr_assert_str_eq(error.message, "too late");
  pjrtc_close(client);
  fake_peer_join(&peer);
}
