/* One client connection as the methods see it, whatever carries it: the calls under way, the session, and how answers
 * go out. Loop thread only.
 *
 * A transport embeds a pjrtd_peer, fills in `transport`, hands each frame in with the pjrtd_peer_on_... functions, and
 * says when the connection is gone. The service answers through `transport`. */
#pragma once

#include "base/arena.h"
#include "proto/frame.h"
#include "state/session.h"

typedef struct pjrtd_peer pjrtd_peer;
typedef struct pjrtd_call pjrtd_call;
typedef struct pjrtd_stream pjrtd_stream;

/* Bulk bytes that a transport sends in ITEM frames of one call, a chunk at a time, when small frames leave room. */
struct pjrtd_stream {
  pjrtd_stream *next; /* the transport's, as is `owner` */
  void *owner;
  uint64_t call;
  uint16_t method;
  const uint8_t *data; /* what remains; stays where it is until `ended` */
  uint64_t remaining_bytes;
  uint64_t credit_bytes; /* the peer's; pjrtd_peer_transport.kick after it grew */
  /* Once: all is handed to the kernel (or the connection is gone, or it was stopped). */
  void (*ended)(pjrtd_stream *stream);
};

typedef struct {
  const char *name; /* "unix", "grpc": for listings */
  /* Room for a whole frame in the output; false when the connection is going. The caller then writes the payload and
   * the bulk, and calls end_frame before anything else. */
  bool (*begin_frame)(pjrtd_peer *peer, const pjrtd_frame_header *header, uint8_t **out_payload, uint8_t **out_bulk);
  void (*end_frame)(pjrtd_peer *peer);
  void (*start_stream)(pjrtd_peer *peer, pjrtd_stream *stream);
  /* Takes it out without `ended`; the connection may be gone. */
  void (*stop_stream)(pjrtd_stream *stream);
  /* A stream may go on. */
  void (*kick)(pjrtd_peer *peer);
  /* Whether so many answers wait for the client that no more should be made, of that call. */
  bool (*is_full)(const pjrtd_peer *peer, uint64_t call);
  /* Sends what is queued, then closes; nothing further is read. */
  void (*hang_up)(pjrtd_peer *peer);
} pjrtd_peer_transport;

struct pjrtd_peer {
  const pjrtd_peer_transport *transport;
  pjrtd_runtime *runtime;
  pjrtd_identity identity;
  pjrtd_session *session; /* that it takes part in; NULL before hello and after Session.Close */
  pjrtd_peer *next_of_session, **session_link;
  pjrtd_id_space ids;
  uint64_t conversation; /* of the runtime's; stays when another connection resumes this one */
  bool greeted, failing, gone;
  bool wants_notices;
  uint32_t version;
  uint64_t download_credit_bytes;
  uint64_t last_call;          /* the highest call id seen */
  uint64_t resume_call;        /* of the attach that went on where another connection was lost, 0: of none, */
  uint64_t resumed_from;       /* and that one's last_call, which its answer tells */
  pjrtd_call *oldest, *newest; /* under way, in order of arrival */
  pjrtd_id_map calls;          /* the same, by id */
  uint64_t call_bytes;         /* memory of the calls under way */
  pjrtd_ready_list parked;     /* operations that wait until the client has read more */
  uint64_t failed_call;        /* the first quiet failure since the last Sync */
  pjrtd_status *failure;       /* owned */
  uint64_t told_call;          /* the one that a Sync told last: its answer may be lost with the connection */
  pjrtd_status *told_failure;  /* owned */
  char client_name[64];        /* for logs */
};

/* `arena` serves all peers: a request is decoded, handled and forgotten before the next. Once, at start. */
PJRTD_MUST_USE pjrtd_status *pjrtd_service_init(void);
void pjrtd_service_deinit(void);

void pjrtd_peer_init(pjrtd_peer *peer, const pjrtd_peer_transport *transport, pjrtd_runtime *runtime,
                     const pjrtd_identity *identity);
/* The connection is gone: drops all calls (what runs on, runs on unheard) and closes the session, unless others take
 * part in it, or it is kept (attachment.h). */
void pjrtd_peer_gone(pjrtd_peer *peer);

/* The peer leaves its own session, which is new if it has one, and takes part in that one, beside those that do. */
PJRTD_MUST_USE pjrtd_status *pjrtd_peer_join(pjrtd_peer *peer, pjrtd_session *session);
/* At the daemon's end, once all connections are gone: the sessions that are kept without one. */
void pjrtd_sessions_end(pjrtd_runtime *runtime);

/* The client has read: parked operations may go on. */
void pjrtd_peer_has_room(pjrtd_peer *peer);

/* A REQUEST, CANCEL, CREDIT, END or bulk-less frame, whole. The bytes are borrowed for the call. */
void pjrtd_peer_on_frame(pjrtd_peer *peer, const pjrtd_frame_header *header, const uint8_t *payload,
                         const uint8_t *bulk);
/* Where the bulk bytes of an ITEM go; NULL: nobody wants them (the call has failed): read them away. An item that
 * breaks the rules fails the peer (`peer->failing`), and NULL comes back. The place is valid until the loop's next turn
 * or the call's end: pjrtd_peer_item_place again before each part. */
uint8_t *pjrtd_peer_item_begin(pjrtd_peer *peer, const pjrtd_frame_header *header);
/* The same place, `done_bytes` into the item; NULL when the call has ended since. */
uint8_t *pjrtd_peer_item_place(pjrtd_peer *peer, uint64_t call, uint64_t done_bytes);
/* All of the item's bytes are in place. */
void pjrtd_peer_item_end(pjrtd_peer *peer, const pjrtd_frame_header *header);

/* Says why, takes `status`, and hangs up: through no fault of the client's. */
void pjrtd_peer_end(pjrtd_peer *peer, pjrtd_status *status);
/* A frame that cannot be believed: answers with an ERROR (of `call`, or 0) and hangs up. Takes `status`. */
void pjrtd_peer_fail(pjrtd_peer *peer, uint64_t call, uint16_t method, pjrtd_status *status);
