/* The sessions of unary calls: gRPC names no connection, so a call says by a token which session it is of. A call of
 * none gets a guest for itself. Loop thread. */
#pragma once

#include "proto/grpc_wire.h"
#include "transport/grpc_front.h"

struct grpc_guest {
  pjrtd_peer peer; /* first */
  grpc_front *front;
  grpc_guest *next, **link;
  grpc_unary *calls; /* that are under way */
  bool kept;         /* has a session that later calls may name */
  uint64_t last_used_ns;
};

/* A message of a stream of answers that waits for the one before it to be sent. */
typedef struct grpc_answer {
  struct grpc_answer *next;
  uint8_t *bytes; /* owned */
  size_t count;
} grpc_answer;

struct grpc_unary {
  grpc_rpc rpc;      /* first */
  grpc_guest *guest; /* NULL: none, or it is gone */
  grpc_unary *next_of_guest, *next_dirty;
  bool dirty, asked; /* asked: the request was handed to the peer */
  bool replied, failed;
  uint16_t method;
  uint64_t call; /* its id with the peer, once it has asked */
  uint64_t deadline_ns, began_ns;
  /* Bulk on its way in: what is left of the message that is here, and of all. */
  grpc_slice input;
  bool has_input;
  grpc_bytes input_left;
  uint64_t expected_bytes, credit_bytes;
  /* The elements of a stream, before its last answer. */
  grpc_answer *items, **last_item; /* owned */
  size_t item_bytes;
  /* The answer: a message, or a packed Error; then the pieces of a download. */
  uint8_t *answer; /* owned */
  size_t answer_bytes;
  uint64_t announced_bytes; /* of a download, that follow the reply */
  pjrtd_stream *stream;
};

/* The guest whose session has this token, or a new one where `token` is NULL. */
PJRTD_MUST_USE pjrtd_status *grpc_guest_find(grpc_front *front, const char *token, size_t token_length,
                                             grpc_guest **out_guest);
void grpc_guest_enter(grpc_guest *guest, grpc_unary *unary);
/* The call is over. A guest without calls and without a session goes. */
void grpc_guest_leave(grpc_unary *unary);
void grpc_unary_mark_dirty(grpc_unary *unary);
/* Credit for an upload came, or its place: sends on what is here. */
void grpc_unary_feed(grpc_unary *unary);
