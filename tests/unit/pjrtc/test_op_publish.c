/* Published slots: what is asked of the server, and what becomes of its answers. */
#include <criterion/criterion.h>
#include <string.h>

#include "fake_peer.h"
#include "pjrtd/v1/session.pb-c.h"

/* The next request; the connection is to have one. */
static fake_frame next(fake_peer *peer, uint16_t method) {
  fake_frame frame;
  if (!peer_read(peer, &frame) || frame.header.method != method) *(volatile int *)peer->user = -1;
  return frame;
}

static void note(fake_peer *peer, bool good) {
  int *checks = peer->user;
  if (!good) *checks = -1000;
  ++*checks;
}

static void finish(fake_peer *peer, fake_frame *frame) {
  if (!frame->header.quiet) peer_reply(peer, &frame->header, NULL, NULL, 0);
  peer_frame_free(frame);
}

static void serve_publications(fake_peer *peer) {
  peer_hello(peer);
  fake_frame frame = next(peer, PJRTC_METHOD_session_publish);
  Pjrtd__V1__PublishRequest *publish =
      pjrtd__v1__publish_request__unpack(NULL, frame.header.payload_bytes, frame.payload);
  note(peer, publish && strcmp(publish->name, "model") == 0 && !publish->everybody);
  note(peer, publish && publish->n_slots == 2 && strcmp(publish->slots[1], "b") == 0);
  note(peer, publish && publish->n_uids == 2 && publish->uids[0] == 1000 && publish->uids[1] == UINT32_MAX);
  pjrtd__v1__publish_request__free_unpacked(publish, NULL);
  finish(peer, &frame);

  frame = next(peer, PJRTC_METHOD_session_publish);
  publish = pjrtd__v1__publish_request__unpack(NULL, frame.header.payload_bytes, frame.payload);
  note(peer, publish && publish->everybody && !publish->n_slots && !publish->n_uids && frame.header.quiet);
  pjrtd__v1__publish_request__free_unpacked(publish, NULL);
  finish(peer, &frame);

  frame = next(peer, PJRTC_METHOD_session_borrow);
  Pjrtd__V1__BorrowRequest *borrow = pjrtd__v1__borrow_request__unpack(NULL, frame.header.payload_bytes, frame.payload);
  note(peer, borrow && strcmp(borrow->name, "model") == 0 && borrow->n_slots == 2);
  note(peer, borrow && strcmp(borrow->slots[0]->slot, "w") == 0 && strcmp(borrow->slots[0]->as, "mine") == 0);
  note(peer, borrow && strcmp(borrow->slots[1]->slot, "b") == 0 && !*borrow->slots[1]->as);
  pjrtd__v1__borrow_request__free_unpacked(borrow, NULL);
  finish(peer, &frame);

  frame = next(peer, PJRTC_METHOD_session_borrow);
  borrow = pjrtd__v1__borrow_request__unpack(NULL, frame.header.payload_bytes, frame.payload);
  note(peer, borrow && strcmp(borrow->name, "all") == 0 && !borrow->n_slots && !frame.header.quiet);
  pjrtd__v1__borrow_request__free_unpacked(borrow, NULL);
  finish(peer, &frame);

  for (int i = 0; i < 2; i++) {
    frame = next(peer, PJRTC_METHOD_session_withdraw);
    Pjrtd__V1__WithdrawRequest *withdraw =
        pjrtd__v1__withdraw_request__unpack(NULL, frame.header.payload_bytes, frame.payload);
    note(peer, withdraw && strcmp(withdraw->name, "model") == 0);
    pjrtd__v1__withdraw_request__free_unpacked(withdraw, NULL);
    if (i == 0) finish(peer, &frame);
  }
  peer_error(peer, &frame.header, 5, "nothing is published as 'model'");
  peer_frame_free(&frame);
}

Test(op_publish, slots_are_published_borrowed_and_withdrawn) {
  int checks = 0;
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, serve_publications, &checks);
  pjrtc_error error = PJRTC_ERROR_INIT;
  const char *names[] = {"w", "b"};
  uint32_t uids[] = {1000, UINT32_MAX};
  pjrtc_publish_options publish = {
      .struct_size = sizeof publish, .name = "model", .slots = names, .num_slots = 2, .uids = uids, .num_uids = 2};
  cr_assert_eq(pjrtc_publish(client, &publish, &error), PJRTC_OK);
  publish = (pjrtc_publish_options){.struct_size = sizeof publish, .name = "all", .everybody = true};
  cr_assert_eq(pjrtc_publish_start(client, &publish, NULL, &error), PJRTC_OK);
  pjrtc_borrowed_slot borrowed[] = {{"w", "mine"}, {"b", NULL}};
  cr_assert_eq(pjrtc_borrow(client, "model", borrowed, 2, &error), PJRTC_OK);
  pjrtc_future *future;
  cr_assert_eq(pjrtc_borrow_start(client, "all", NULL, 0, &future, &error), PJRTC_OK);
  cr_assert_eq(pjrtc_future_wait(future, PJRTC_FOREVER, &error), PJRTC_OK);
  pjrtc_future_destroy(future);
  cr_assert_eq(pjrtc_withdraw(client, "model", &error), PJRTC_OK);
  cr_assert_eq(pjrtc_withdraw_start(client, "model", &future, &error), PJRTC_OK);
  cr_assert_eq(pjrtc_future_wait(future, PJRTC_FOREVER, &error), PJRTC_NOT_FOUND);
  cr_assert_str_eq(error.message, "nothing is published as 'model'");
  pjrtc_future_destroy(future);
  pjrtc_close(client);
  fake_peer_join(&peer);
  cr_assert_eq(checks, 10);
}

static void tell_publications(fake_peer *peer) {
  peer_hello(peer);
  for (int i = 0; i < 3; i++) {
    fake_frame frame = next(peer, PJRTC_METHOD_session_published);
    note(peer, frame.header.payload_bytes == 0);
    Pjrtd__V1__PublicationInfo infos[2], *list[] = {&infos[0], &infos[1]};
    pjrtd__v1__publication_info__init(&infos[0]);
    pjrtd__v1__publication_info__init(&infos[1]);
    infos[0].name = "model", infos[0].session = 7, infos[0].session_name = "train";
    infos[0].local = infos[0].own = infos[0].everybody = true;
    infos[0].uid = UINT32_MAX, infos[0].slots = 2, infos[0].bytes = UINT64_MAX, infos[0].borrowed = 3;
    infos[1].name = "other";
    Pjrtd__V1__PublishedReply reply = PJRTD__V1__PUBLISHED_REPLY__INIT;
    reply.publications = list;
    reply.n_publications = i == 0 ? 2 : 0;
    if (i < 2)
      peer_reply(peer, &frame.header, &reply.base, NULL, 0);
    else
      peer_send(peer, &frame.header, PJRTD_FRAME_REPLY, (const uint8_t *)"\x0a\x05", 2, NULL, 0);
    peer_frame_free(&frame);
  }
}

Test(op_publish, tells_what_is_published) {
  int checks = 0;
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, tell_publications, &checks);
  pjrtc_error error = PJRTC_ERROR_INIT;
  pjrtc_published *published;
  cr_assert_eq(pjrtc_get_published(client, &published, NULL), PJRTC_OK);
  cr_assert_eq(published->num_publications, 2);
  const pjrtc_publication *model = published->publications[0], *other = published->publications[1];
  cr_assert_str_eq(model->name, "model");
  cr_assert_str_eq(model->session_name, "train");
  cr_assert_eq(model->session, 7);
  cr_assert(model->local && model->own && model->everybody);
  cr_assert_eq(model->uid, UINT32_MAX);
  cr_assert_eq(model->slots, 2);
  cr_assert_eq(model->bytes, UINT64_MAX);
  cr_assert_eq(model->borrowed, 3);
  cr_assert_str_eq(other->name, "other");
  cr_assert_str_eq(other->session_name, "");
  cr_assert_not(other->local || other->own || other->everybody);
  pjrtc_published_destroy(published);
  cr_assert_eq(pjrtc_get_published(client, &published, &error), PJRTC_OK);
  cr_assert_eq(published->num_publications, 0);
  pjrtc_published_destroy(published);
  cr_assert_eq(pjrtc_get_published(client, &published, &error), PJRTC_INTERNAL);
  cr_assert_str_eq(error.message, "the server's reply to Session.Published is malformed");
  cr_assert_null(published);
  pjrtc_published_destroy(NULL);
  pjrtc_close(client);
  fake_peer_join(&peer);
  cr_assert_eq(checks, 3);
}

static void send_nothing_more(fake_peer *peer) {
  fake_frame frame;
  peer_hello(peer);
  while (peer_read(peer, &frame)) {
    ++*(int *)peer->user;
    peer_frame_free(&frame);
  }
}

Test(op_publish, what_has_no_name_is_refused_before_it_is_sent) {
  int sent = 0;
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, send_nothing_more, &sent);
  pjrtc_error error = PJRTC_ERROR_INIT;
  const char *names[] = {"x", NULL};
  pjrtc_publish_options publish = {.struct_size = sizeof publish};
  cr_assert_eq(pjrtc_publish(client, &publish, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert_str_eq(error.message, "the publication has no name");
  publish.name = "model", publish.num_slots = 2;
  cr_assert_eq(pjrtc_publish(client, &publish, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert_str_eq(error.message, "slots is NULL");
  publish.slots = names;
  cr_assert_eq(pjrtc_publish_start(client, &publish, NULL, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert_str_eq(error.message, "slot 1 has no name");
  publish.num_slots = 1, publish.num_uids = 1;
  cr_assert_eq(pjrtc_publish(client, &publish, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert_str_eq(error.message, "uids is NULL");
  publish.struct_size = 0;
  cr_assert_eq(pjrtc_publish(client, &publish, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert(strstr(error.message, "pjrtc_publish_options"));
  cr_assert_eq(pjrtc_withdraw(client, NULL, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert_str_eq(error.message, "the publication has no name");
  pjrtc_borrowed_slot borrowed[] = {{"x", NULL}, {NULL, "y"}};
  cr_assert_eq(pjrtc_borrow(client, NULL, borrowed, 1, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert_eq(pjrtc_borrow_start(client, "model", borrowed, 2, NULL, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert_str_eq(error.message, "slot 1 has no name");
  cr_assert_eq(pjrtc_borrow(client, "model", NULL, 1, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert_str_eq(error.message, "slots is NULL");
  cr_assert_eq(pjrtc_borrow(client, "model", borrowed, SIZE_MAX / 2, &error), PJRTC_INVALID_ARGUMENT);
  pjrtc_close(client);
  fake_peer_join(&peer);
  cr_assert_eq(sent, 0);
}
