/* Slots: what is asked of the server, and what becomes of its answers. */
#include <criterion/criterion.h>
#include <string.h>

#include "fake_peer.h"
#include "pjrtd/v1/execute.pb-c.h"
#include "pjrtd/v1/session.pb-c.h"

enum { FIRST_ID = 1 }; /* of the peer's prefix, 3 */
static const uint64_t prefix = (uint64_t)3 << 48;

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

static void serve_slots(fake_peer *peer) {
  peer_hello(peer);
  fake_frame frame = next(peer, PJRTC_METHOD_session_bind);
  Pjrtd__V1__BindRequest *bind = pjrtd__v1__bind_request__unpack(NULL, frame.header.payload_bytes, frame.payload);
  note(peer, bind && bind->n_bindings == 2 && bind->bindings[0]->buffer == 7 && bind->bindings[1]->buffer == 9);
  note(peer, bind && strcmp(bind->bindings[0]->slot, "x") == 0 && strcmp(bind->bindings[1]->slot, "y") == 0);
  pjrtd__v1__bind_request__free_unpacked(bind, NULL);
  peer_reply(peer, &frame.header, NULL, NULL, 0);
  peer_frame_free(&frame);

  frame = next(peer, PJRTC_METHOD_session_lookup);
  Pjrtd__V1__LookupRequest *lookup = pjrtd__v1__lookup_request__unpack(NULL, frame.header.payload_bytes, frame.payload);
  note(peer, lookup && lookup->n_bindings == 2 && lookup->bindings[0]->buffer == prefix + FIRST_ID &&
                 lookup->bindings[1]->buffer == prefix + FIRST_ID + 1);
  pjrtd__v1__lookup_request__free_unpacked(lookup, NULL);
  peer_reply(peer, &frame.header, NULL, NULL, 0);
  peer_frame_free(&frame);

  /* This one fails, and the client deletes the id that it was to make. */
  frame = next(peer, PJRTC_METHOD_session_lookup);
  peer_error(peer, &frame.header, 5, "this session has no slot 'z'");
  peer_frame_free(&frame);
  frame = next(peer, PJRTC_METHOD_buffer_delete);
  note(peer, frame.header.kind == PJRTD_FRAME_REQUEST);
  peer_reply(peer, &frame.header, NULL, NULL, 0);
  peer_frame_free(&frame);

  frame = next(peer, PJRTC_METHOD_session_unbind);
  Pjrtd__V1__UnbindRequest *unbind = pjrtd__v1__unbind_request__unpack(NULL, frame.header.payload_bytes, frame.payload);
  note(peer, unbind && unbind->n_slots == 1 && strcmp(unbind->slots[0], "y") == 0);
  pjrtd__v1__unbind_request__free_unpacked(unbind, NULL);
  peer_reply(peer, &frame.header, NULL, NULL, 0);
  peer_frame_free(&frame);
}

Test(op_slots, are_bound_looked_up_and_unbound) {
  int checks = 0;
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, serve_slots, &checks);
  pjrtc_error error = PJRTC_ERROR_INIT;
  pjrtc_slot_binding bindings[] = {{"x", 7}, {"y", 9}};
  const char *names[] = {"x", "y", "z"};
  uint64_t found[2] = {0}, none = 77;
  cr_assert_eq(pjrtc_bind(client, bindings, 2, &error), PJRTC_OK);
  cr_assert_eq(pjrtc_lookup(client, names, 2, found, &error), PJRTC_OK);
  cr_assert_eq(found[0], prefix + FIRST_ID);
  cr_assert_eq(found[1], prefix + FIRST_ID + 1);
  cr_assert_eq(pjrtc_lookup(client, &names[2], 1, &none, &error), PJRTC_NOT_FOUND);
  cr_assert_eq(none, 0);
  cr_assert_eq(pjrtc_unbind(client, &names[1], 1, &error), PJRTC_OK);
  pjrtc_close(client);
  fake_peer_join(&peer);
  cr_assert_eq(checks, 5);
}

static void tell_slots(fake_peer *peer) {
  peer_hello(peer);
  fake_frame frame = next(peer, PJRTC_METHOD_session_slots);
  static int64_t dims[] = {2, 3};
  Pjrtd__V1__TensorType type = PJRTD__V1__TENSOR_TYPE__INIT;
  type.dtype = PJRTD__V1__DTYPE__DTYPE_F32, type.n_dims = 2, type.dims = dims;
  Pjrtd__V1__Error failure = PJRTD__V1__ERROR__INIT;
  failure.code = 13, failure.message = "the plugin gave up";
  Pjrtd__V1__SlotInfo infos[4], *list[4];
  static char *const names[] = {"ready", "pending", "failed", "other"};
  for (int i = 0; i < 4; i++) {
    pjrtd__v1__slot_info__init(&infos[i]);
    infos[i].slot = names[i];
    infos[i].state = (Pjrtd__V1__SlotState)(i < 3 ? i + 1 : -5);
    list[i] = &infos[i];
  }
  infos[0].type = &type, infos[0].device_bytes = 24, infos[0].device = 1, infos[0].published = true;
  infos[2].error = &failure;
  Pjrtd__V1__SlotsReply reply = PJRTD__V1__SLOTS_REPLY__INIT;
  reply.n_slots = 4, reply.slots = list;
  peer_reply(peer, &frame.header, &reply.base, NULL, 0);
  peer_frame_free(&frame);
}

Test(op_slots, tell_what_they_hold) {
  int checks = 0;
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, tell_slots, &checks);
  pjrtc_slots *slots;
  cr_assert_eq(pjrtc_get_slots(client, NULL, 0, &slots, NULL), PJRTC_OK);
  cr_assert_eq(slots->num_slots, 4);
  const pjrtc_slot *ready = slots->slots[0], *failed = slots->slots[2];
  cr_assert_str_eq(ready->slot, "ready");
  cr_assert_eq(ready->state, PJRTC_SLOT_READY);
  cr_assert_eq(ready->bytes, 24);
  cr_assert_eq(ready->device, 1);
  cr_assert_eq(ready->type.rank, 2);
  cr_assert_eq(ready->type.dims[1], 3);
  cr_assert_str_eq(ready->message, "");
  cr_assert(ready->published);
  cr_assert_not(failed->published);
  cr_assert_eq(slots->slots[1]->state, PJRTC_SLOT_PENDING);
  cr_assert_eq(failed->state, PJRTC_SLOT_FAILED);
  cr_assert_eq(failed->code, PJRTC_INTERNAL);
  cr_assert_str_eq(failed->message, "the plugin gave up");
  cr_assert_eq(slots->slots[3]->state, PJRTC_SLOT_UNKNOWN, "a state that is not in the list");
  pjrtc_slots_destroy(slots);
  pjrtc_close(client);
  fake_peer_join(&peer);
  cr_assert_eq(checks, 0);
}

static void send_nothing_more(fake_peer *peer) {
  fake_frame frame;
  peer_hello(peer);
  while (peer_read(peer, &frame)) {
    ++*(int *)peer->user;
    peer_frame_free(&frame);
  }
}

Test(op_slots, what_has_no_name_is_refused_before_it_is_sent) {
  int sent = 0;
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, send_nothing_more, &sent);
  pjrtc_error error = PJRTC_ERROR_INIT;
  pjrtc_slot_binding binding = {.buffer = 3};
  const char *names[] = {"x", NULL};
  uint64_t found[2] = {5, 5};
  pjrtc_slots *slots;
  cr_assert_eq(pjrtc_bind(client, &binding, 1, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert_str_eq(error.message, "slot 0 has no name");
  cr_assert_eq(pjrtc_unbind_start(client, names, 2, NULL, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert_str_eq(error.message, "slot 1 has no name");
  cr_assert_eq(pjrtc_lookup(client, names, 2, found, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert_eq(pjrtc_lookup(client, names, 1, NULL, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert_str_eq(error.message, "out_buffers is NULL");
  cr_assert_eq(pjrtc_get_slots(client, NULL, 1, &slots, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert_null(slots);
  cr_assert_eq(pjrtc_bind(client, &binding, SIZE_MAX / 2, &error), PJRTC_INVALID_ARGUMENT);
  pjrtc_close(client);
  fake_peer_join(&peer);
  cr_assert_eq(sent, 0);
}
