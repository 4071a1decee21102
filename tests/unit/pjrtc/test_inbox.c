/* Hostile and broken servers: never a crash, never a hang, always an error. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "fake_peer.h"

/* Waits for a request and answers with the bytes in `user`. */
typedef struct {
  const void *bytes;
  size_t size_bytes;
} raw;

static void send_raw(fake_peer *peer) {
  const raw *r = peer->user;
  peer_hello(peer);
  pjrtd_frame_header header;
  peer_expect(peer, PJRTD_FRAME_REQUEST, &header);
  peer_write(peer, r->bytes, r->size_bytes);
  shutdown(peer->fd, SHUT_WR);
  peer_expect(peer, PJRTD_FRAME_REQUEST, &header);
}

static pjrtc_code answer_of(const void *bytes, size_t size_bytes, pjrtc_error *error) {
  raw r = {bytes, size_bytes};
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, send_raw, &r);
  pjrtc_code code = pjrtc_sync(client, 0, error);
  pjrtc_close(client);
  fake_peer_join(&peer);
  return code;
}

/* A frame to the sync, which is call 2. */
static size_t make_frame(uint8_t *out, pjrtd_frame_kind kind, uint64_t call, const void *payload,
                         uint32_t payload_bytes, uint32_t bulk_bytes) {
  pjrtd_frame_encode(&(pjrtd_frame_header){.kind = kind,
                                           .call = call,
                                           .method = PJRTC_METHOD_session_sync,
                                           .payload_bytes = payload_bytes,
                                           .bulk_bytes = bulk_bytes},
                     out);
  if (payload_bytes) memcpy(out + PJRTD_FRAME_HEADER_BYTES, payload, payload_bytes);
  memset(out + PJRTD_FRAME_HEADER_BYTES + payload_bytes, 0, bulk_bytes);
  return PJRTD_FRAME_HEADER_BYTES + payload_bytes + bulk_bytes;
}

Test(inbox, names_what_a_server_did_wrong, .timeout = 30) {
  static uint8_t frame[200000];
  pjrtc_error error = PJRTC_ERROR_INIT;
  struct {
    pjrtd_frame_kind kind;
    uint64_t call;
    uint32_t bulk_bytes;
    const char *said;
  } cases[] = {
      {PJRTD_FRAME_REPLY, 99, 0, "a reply came to no call"},
      {PJRTD_FRAME_ERROR, 99, 0, "an error came to a call that was not made"},
      {PJRTD_FRAME_ITEM, 2, 5, "data came for a call that expects none"},
      {PJRTD_FRAME_REQUEST, 2, 0, "a frame of a kind came that only clients send"},
      {PJRTD_FRAME_CANCEL, 2, 0, "a frame of a kind came that only clients send"},
      {(pjrtd_frame_kind)9, 2, 0, "the frame kind does not exist"},
      {PJRTD_FRAME_REPLY, 2, 65537, "bulk_bytes of a request or reply is over 64 KiB"},
      {PJRTD_FRAME_ERROR, 2, 3, "bulk_bytes is not 0"},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    size_t size = make_frame(frame, cases[i].kind, cases[i].call, NULL, 0, cases[i].bulk_bytes);
    cr_assert_eq(answer_of(frame, size, &error), PJRTC_INTERNAL, "case %zu: %s", i, error.message);
    cr_assert_not_null(strstr(error.message, cases[i].said), "case %zu: %s", i, error.message);
  }
  size_t item = make_frame(frame, PJRTD_FRAME_ITEM, 2, "\x08\x01", 2, 3);
  cr_assert_eq(answer_of(frame, item, &error), PJRTC_INTERNAL);
  cr_assert_not_null(strstr(error.message, "a message came within a call that takes none"), "%s", error.message);
  /* A message that cannot be decoded fails its own call only. */
  size_t size = make_frame(frame, PJRTD_FRAME_REPLY, 2, "\x12\xff", 2, 0);
  cr_assert_eq(answer_of(frame, size, &error), PJRTC_INTERNAL);
  cr_assert_str_eq(error.message, "the server's reply to Sync is malformed");
  size = make_frame(frame, PJRTD_FRAME_ERROR, 2, "\x12\xff", 2, 0);
  cr_assert_eq(answer_of(frame, size, &error), PJRTC_INTERNAL);
  cr_assert_str_eq(error.message, "the call failed, and the server's error cannot be decoded");
  /* Half a frame and the end. */
  size = make_frame(frame, PJRTD_FRAME_REPLY, 2, NULL, 0, 0);
  cr_assert_eq(answer_of(frame, size - 1, &error), PJRTC_UNAVAILABLE);
}

Test(inbox, survives_random_bytes_and_mutated_frames, .timeout = 60) {
  uint64_t random = 7;
  uint8_t bytes[4096];
  for (int round = 0; round < 150; round++) {
    size_t size = 0;
    while (size < 600) {
      uint8_t payload[32];
      for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (uint8_t)((random = random * 6364136223846793005u + 1) >> 40);
      pjrtd_frame_kind kind = (pjrtd_frame_kind)(2 + random % 6);
      size += make_frame(bytes + size, kind, 1 + (random >> 20) % 3, payload, (random >> 50) % 32, 0);
    }
    for (int i = 0; i < round % 4; i++) {
      random = random * 6364136223846793005u + 1;
      bytes[(random >> 33) % size] ^= (uint8_t)(random >> 20);
    }
    pjrtc_error error = PJRTC_ERROR_INIT;
    pjrtc_code code = answer_of(bytes, size, &error);
    cr_assert(code == PJRTC_OK || error.message[0]);
  }
}

/* A long message, as compilers write them, comes whole. */
static void send_long_error(fake_peer *peer) {
  peer_hello(peer);
  pjrtd_frame_header header;
  peer_expect(peer, PJRTD_FRAME_REQUEST, &header);
  char *text = malloc(900001);
  memset(text, 'x', 900000);
  text[899999] = '!';
  text[900000] = '\0';
  peer_error(peer, &header, 3, text);
  free(text);
  peer_expect(peer, PJRTD_FRAME_REQUEST, &header);
}

Test(inbox, takes_a_message_of_a_megabyte_whole, .timeout = 20) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, send_long_error, NULL);
  pjrtc_error error = PJRTC_ERROR_INIT;
  error.detail_size = PJRTC_DETAIL_BYTES;
  error.detail = malloc(error.detail_size);
  cr_assert_eq(pjrtc_sync(client, 0, &error), PJRTC_INVALID_ARGUMENT);
  cr_assert_eq(error.message_bytes, 900000);
  cr_assert_eq(strlen(error.detail), 900000);
  cr_assert_eq(error.detail[899999], '!');
  cr_assert_eq(strlen(error.message), PJRTC_MESSAGE_BYTES - 1);
  free(error.detail);
  pjrtc_close(client);
  fake_peer_join(&peer);
}
