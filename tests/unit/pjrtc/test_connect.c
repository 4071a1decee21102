/* Connecting, the version window, lost connections, forks. */
#include <criterion/criterion.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fake_peer.h"
#include "pjrtd/v1/runtime.pb-c.h"

Test(connect, learns_what_the_server_says) {
  fake_peer peer;
  fake_peer_init(&peer, peer_serve, NULL);
  pjrtc_connect_options options = PJRTC_CONNECT_OPTIONS_INIT;
  options.download_window_bytes = 12345;
  pjrtc_client *client = fake_peer_connect_with(&peer, &options);
  const pjrtc_hello *hello = pjrtc_get_hello(client);
  cr_assert_str_eq(hello->target, peer.target);
  cr_assert_str_eq(hello->server_version, "9.9.9");
  cr_assert_eq(hello->server_epoch, 77);
  cr_assert_eq(hello->protocol_version, 1);
  cr_assert_eq(hello->max_inline_bytes, 65536);
  cr_assert_eq(peer.download_credit_bytes, 12345);
  pjrtc_close(client);
  fake_peer_join(&peer);
}

static pjrtc_error connect_error(fake_script *script) {
  fake_peer peer;
  fake_peer_init(&peer, script, NULL);
  fake_peer_start(&peer);
  pjrtc_error error = PJRTC_ERROR_INIT;
  pjrtc_connect_options options = PJRTC_CONNECT_OPTIONS_INIT;
  options.timeout_ns = 200000000;
  pjrtc_client *client;
  cr_assert_neq(pjrtc_connect(peer.target, &options, &client, &error), PJRTC_OK);
  cr_assert_null(client);
  fake_peer_join(&peer);
  return error;
}

static void refuse_version(fake_peer *peer) {
  pjrtd_frame_header header;
  if (!peer_expect(peer, PJRTD_FRAME_REQUEST, &header)) return;
  peer_error(peer, &header, 9, "the client speaks 1 to 1, this server 3 to 14: upgrade the client");
}

Test(connect, passes_on_why_the_versions_do_not_meet) {
  pjrtc_error error = connect_error(refuse_version);
  cr_assert_eq(error.code, PJRTC_FAILED_PRECONDITION);
  cr_assert_str_eq(error.message, "the client speaks 1 to 1, this server 3 to 14: upgrade the client");
}

static void say_nothing(fake_peer *peer) {
  fake_frame frame;
  while (peer_read(peer, &frame)) peer_frame_free(&frame);
}

Test(connect, gives_up_on_a_server_that_says_nothing) {
  pjrtc_error error = connect_error(say_nothing);
  cr_assert_eq(error.code, PJRTC_DEADLINE_EXCEEDED);
  cr_assert_not_null(strstr(error.message, "did not answer within 200 ms"));
}

static void hang_up(fake_peer *peer) {}

Test(connect, names_the_target_of_a_server_that_hangs_up) {
  pjrtc_error error = connect_error(hang_up);
  cr_assert_eq(error.code, PJRTC_UNAVAILABLE);
  const char *named = FAKE_PEER_OVER_SOCKET ? "unix:/tmp/pjrtc-test-" : "grpc://127.0.0.1:";
  cr_assert_not_null(strstr(error.message, named), "%s", error.message);
}

#ifndef FAKE_PEER_OVER_GRPC /* what gRPC makes of it: tests/e2e/test_c_client_grpc_targets.py */
static void speak_http(fake_peer *peer) {
  pjrtd_frame_header header;
  peer_expect(peer, PJRTD_FRAME_REQUEST, &header);
  static const char text[] = "HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n";
  peer_write(peer, text, sizeof text - 1);
  say_nothing(peer);
}

Test(connect, recognises_another_kind_of_server) {
  pjrtc_error error = connect_error(speak_http);
  cr_assert_eq(error.code, PJRTC_INTERNAL);
  cr_assert_not_null(strstr(error.message, "magic"), "%s", error.message);
}
#endif

static void limits_of_nothing(fake_peer *peer) {
  pjrtd_frame_header header;
  if (!peer_expect(peer, PJRTD_FRAME_REQUEST, &header)) return;
  Pjrtd__V1__HelloReply reply = PJRTD__V1__HELLO_REPLY__INIT;
  reply.version = 1;
  peer_reply(peer, &header, &reply.base, NULL, 0);
  say_nothing(peer);
}

Test(connect, refuses_a_hello_whose_limits_make_no_sense) {
  cr_assert_eq(connect_error(limits_of_nothing).code, PJRTC_INTERNAL);
}

Test(connect, says_that_struct_size_is_missing_or_that_the_library_is_too_old) {
  pjrtc_connect_options options = {0};
  pjrtc_client *client;
  pjrtc_error error = PJRTC_ERROR_INIT;
  cr_assert_eq(pjrtc_connect("unix:/x", &options, &client, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert_str_eq(error.message, "pjrtc_connect_options.struct_size is not set");
  struct {
    pjrtc_connect_options known;
    uint64_t newer;
  } future = {.known = PJRTC_CONNECT_OPTIONS_INIT, .newer = 0};
  future.known.struct_size = sizeof future;
  cr_assert_eq(pjrtc_connect("unix:/x", &future.known, &client, &error), PJRTC_UNAVAILABLE);
  future.newer = 1;
  cr_assert_eq(pjrtc_connect("unix:/x", &future.known, &client, &error), PJRTC_UNIMPLEMENTED);
}

/* ---- Lost connections ---- */

static void answer_none_of_three(fake_peer *peer) {
  pjrtd_frame_header header;
  peer_hello(peer);
  for (int i = 0; i < 3; i++) peer_expect(peer, PJRTD_FRAME_REQUEST, &header);
}

Test(connect, lost_later_fails_every_call_and_every_later_one) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, answer_none_of_three, NULL);
  pjrtc_future *futures[3];
  pjrtc_error error = PJRTC_ERROR_INIT;
  uint64_t buffer = 1;
  for (int i = 0; i < 3; i++) cr_assert_eq(pjrtc_delete_start(client, &buffer, 1, &futures[i], &error), PJRTC_OK);
  for (int i = 0; i < 3; i++) {
    cr_assert_eq(pjrtc_future_wait(futures[i], PJRTC_FOREVER, &error), PJRTC_UNAVAILABLE);
    cr_assert_not_null(strstr(error.message, peer.target));
    pjrtc_future_destroy(futures[i]);
  }
  cr_assert_eq(pjrtc_delete(client, &buffer, 1, &error), PJRTC_UNAVAILABLE);
  cr_assert_eq(pjrtc_sync(client, 0, &error), PJRTC_UNAVAILABLE);
  cr_assert_eq(pjrtc_progress(client, &error), PJRTC_UNAVAILABLE);
  pjrtc_close(client);
  fake_peer_join(&peer);
}

static void complain_about_the_connection(fake_peer *peer) {
  pjrtd_frame_header header;
  peer_hello(peer);
  peer_expect(peer, PJRTD_FRAME_REQUEST, &header);
  peer_error(peer, &(pjrtd_frame_header){0}, 8, "this client does not read what it asked for");
}

Test(connect, ended_by_the_server_with_a_reason_passes_the_reason_on) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, complain_about_the_connection, NULL);
  pjrtc_error error = PJRTC_ERROR_INIT;
  cr_assert_eq(pjrtc_sync(client, 0, &error), PJRTC_RESOURCE_EXHAUSTED);
  cr_assert_not_null(strstr(error.message, "ended the connection: this client does not read"), "%s", error.message);
  pjrtc_close(client);
  fake_peer_join(&peer);
}

Test(connect, closed_with_futures_leaves_them_to_be_destroyed) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, answer_none_of_three, NULL);
  pjrtc_future *future;
  uint64_t buffer = 1;
  pjrtc_error error = PJRTC_ERROR_INIT;
  cr_assert_eq(pjrtc_delete_start(client, &buffer, 1, &future, &error), PJRTC_OK);
  pjrtc_close(client);
  cr_assert_eq(pjrtc_future_poll(future, &error), PJRTC_CANCELLED);
  pjrtc_future_destroy(future);
  pjrtc_close(NULL);
  fake_peer_join(&peer);
}

/* ---- Fork ---- */

Test(connect, in_a_forked_child_is_refused_and_the_parent_goes_on) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, peer_serve, NULL);
  pjrtc_error error = PJRTC_ERROR_INIT;
  pid_t child = fork();
  if (child == 0) {
    int faults = 0;
    faults += pjrtc_sync(client, 0, &error) != PJRTC_FAILED_PRECONDITION;
    faults += strstr(error.message, "belongs to the process that was forked") == NULL;
    faults += pjrtc_progress(client, NULL) != PJRTC_FAILED_PRECONDITION;
    faults += pjrtc_events(client) != 0;
    pjrtc_close(client);
    _exit(faults);
  }
  int status;
  waitpid(child, &status, 0);
  cr_assert(WIFEXITED(status) && WEXITSTATUS(status) == 0, "status %x", status);
  cr_assert_eq(pjrtc_sync(client, 0, &error), PJRTC_OK, "%s", error.message);
  pjrtc_close(client);
  fake_peer_join(&peer);
}
