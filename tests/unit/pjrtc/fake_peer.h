/* The server's end of a connection, in a thread of the test: read and write frames by hand, or serve like a small pjrtd
 * that keeps uploads and answers executes with its first argument. For tests of libpjrtc. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "method_ids.h"
#include "pjrtc/pjrtc.h"
#include "proto/frame.h"

#ifdef FAKE_PEER_OVER_GRPC
#define FAKE_PEER_OVER_SOCKET false
#else
#define FAKE_PEER_OVER_SOCKET true
#endif

typedef struct fake_peer fake_peer;
typedef void fake_script(fake_peer *peer);

struct fake_peer {
  char target[128]; /* what the client connects to: the socket, or gRPC in front of it */
  char path[108];   /* the socket */
  void *bridge;     /* owned, where the program is built with FAKE_PEER_OVER_GRPC */
  int listener, fd;
  pthread_t thread;
  fake_script *script;
  void *user;
  bool accepted;
  /* What peer_hello answers with; change before fake_peer_start. */
  uint32_t max_inline_bytes, max_item_bytes, max_calls_in_flight;
  uint64_t upload_credit_bytes;
  /* What the client said. */
  uint64_t download_credit_bytes;
};

typedef struct {
  pjrtd_frame_header header;
  uint8_t *payload, *bulk; /* owned */
} fake_frame;

void fake_peer_init(fake_peer *peer, fake_script *script, void *user);
/* Listens, and runs the script in a thread once a client has come. The script ends by returning: then the connection
 * is closed. */
void fake_peer_start(fake_peer *peer);
/* Waits for the script's end. */
void fake_peer_join(fake_peer *peer);
/* Both for a peer with the usual settings, and a client of it. */
pjrtc_client *fake_peer_connect(fake_peer *peer, fake_script *script, void *user);
pjrtc_client *fake_peer_connect_with(fake_peer *peer, const pjrtc_connect_options *options);

/* ---- For scripts ---- */

/* False at the end of the stream. */
bool peer_read(fake_peer *peer, fake_frame *out_frame);
void peer_frame_free(fake_frame *frame);
/* Reads frames until one of this kind and frees it; false at the end of the stream. */
bool peer_expect(fake_peer *peer, pjrtd_frame_kind kind, pjrtd_frame_header *out_header);
void peer_write(fake_peer *peer, const void *data, size_t size_bytes);
void peer_send(fake_peer *peer, const pjrtd_frame_header *to, pjrtd_frame_kind kind, const void *payload,
               size_t payload_bytes, const void *bulk, size_t bulk_bytes);
void peer_reply(fake_peer *peer, const pjrtd_frame_header *to, const ProtobufCMessage *message, const void *bulk,
                size_t bulk_bytes);
/* An ITEM with a message, or without one (NULL). */
void peer_item(fake_peer *peer, const pjrtd_frame_header *to, const ProtobufCMessage *message, const void *bulk,
               size_t bulk_bytes);
void peer_error(fake_peer *peer, const pjrtd_frame_header *to, uint32_t code, const char *message);
void peer_credit(fake_peer *peer, const pjrtd_frame_header *to, uint64_t bytes);
/* Answers the Hello. */
void peer_hello(fake_peer *peer);
/* Hello, and then everything until the client goes. */
void peer_serve(fake_peer *peer);
