/* One request: as it is being handled (pjrtd_request, on the stack), and as it waits for something (pjrtd_call, on the
 * heap). The service layer's inside. Loop thread only.
 *
 * Exactly one answer goes out for each request: a request answers, fails, or becomes a call; a call answers or fails
 * once. A call that was answered early (cancelled, past its deadline) lives on, unheard, until its job is back. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "service/peer.h"
#include "service/staging.h"

typedef struct {
  pjrtd_peer *peer;
  const pjrtd_frame_header *header;
  const void *message; /* decoded, in the arena: gone when the handler returns */
  const uint8_t *bulk;
  uint64_t previous_call; /* the call id before this one */
} pjrtd_request;

/* A method: answers, or fails with a status (which it returns), or makes a call. */
typedef pjrtd_status *(*pjrtd_method_fn)(pjrtd_request *request);

typedef struct {
  uint16_t id;
  const char *name; /* "Buffer.Upload" */
  const ProtobufCMessageDescriptor *request;
  pjrtd_right right;
  bool needs_session; /* and is refused while the daemon drains */
  bool takes_bulk;
  pjrtd_method_fn handle;
} pjrtd_method;

/* NULL where there is none. */
const pjrtd_method *pjrtd_method_find(uint16_t id);
#define PJRTD_METHOD(id, family, Name, name, Request, Reply, right) PJRTD_METHOD_##family##_##Name = id,
enum {
#include "proto/methods.def"
  PJRTD_METHOD_HELLO = PJRTD_METHOD_Runtime_Hello,
};
#undef PJRTD_METHOD
/* The handlers, by the names of the method table. */
#define PJRTD_METHOD(id, family, Name, name, Request, Reply, right) \
  pjrtd_status *pjrtd_handle_##name(pjrtd_request *request);
#include "proto/methods.def"
#undef PJRTD_METHOD

/* ---- answering ---- */

/* `bulk` may be NULL with 0 bytes. Does nothing for a quiet request, or where nobody is there (NULL). */
void pjrtd_answer(pjrtd_peer *peer, const pjrtd_frame_header *request, const ProtobufCMessage *reply, const void *bulk,
                  uint32_t bulk_bytes);
void pjrtd_request_answer(const pjrtd_request *request, const ProtobufCMessage *reply, const void *bulk,
                          uint32_t bulk_bytes);
/* With an Empty. PJRTD_OK. */
PJRTD_MUST_USE pjrtd_status *pjrtd_request_done(const pjrtd_request *request);
/* For replies that write their bulk themselves: room for it; false when there is nothing to answer. */
bool pjrtd_answer_begin(pjrtd_peer *peer, const pjrtd_frame_header *request, const ProtobufCMessage *reply,
                        uint32_t bulk_bytes, uint8_t **out_bulk);
void pjrtd_answer_end(pjrtd_peer *peer);
/* An element of a stream of answers: does not end the call. */
void pjrtd_answer_item(pjrtd_peer *peer, const pjrtd_frame_header *request, const ProtobufCMessage *message,
                       const void *bulk, uint32_t bulk_bytes);
/* A frame that is all payload, of the call and method that `about` names. False: it did not go out. */
bool pjrtd_send_frame(pjrtd_peer *peer, const pjrtd_frame_header *about, uint8_t kind, const ProtobufCMessage *message);
/* Takes `status`; counts it, and remembers it for Sync when the request was quiet. */
void pjrtd_answer_error(pjrtd_peer *peer, const pjrtd_frame_header *request, pjrtd_status *status);

/* ---- calls that wait ---- */

struct pjrtd_call {
  pjrtd_operation operation;
  pjrtd_runtime *runtime;
  pjrtd_peer *peer;       /* NULL once answered, or once the connection is gone */
  pjrtd_account *account; /* retained: of the session that it is of; NULL where the connection has none */
  pjrtd_call *older, *newer;
  pjrtd_frame_header header;
  size_t size_bytes; /* of this allocation, and what else the method counted */
  pjrtd_deadline deadline;
  bool lasting; /* it goes on until it is stopped, which it can be at any time: it ends with its session */
  /* Bulk that is coming in. */
  uint8_t *inbound; /* the next byte's place; NULL: none is expected */
  pjrtd_staging *inbound_pages;
  uint64_t inbound_remaining, inbound_window, inbound_consumed, inbound_received;
  /* The answer is on its way out in pieces. */
  pjrtd_stream *outbound;
  uint64_t granted_bytes; /* credit that came before the answer */
  void (*inbound_done)(pjrtd_call *call);
  /* Somebody no longer wants it: CANCEL, deadline, or the connection went. It was answered already. Ends what has not
   * begun (pjrtd_call_end), and lets run what has. */
  void (*abandon)(pjrtd_call *call, pjrtd_status *why);
};

/* Where what lies behind so many bytes of a call may begin. */
static inline size_t pjrtd_call_aligned(size_t size_bytes) {
  return (size_bytes + 15) & ~(size_t)15;
}
/* Allocates `size_bytes` (a struct that begins with a pjrtd_call) with room for `num_holds`, zeroed but for the call,
 * and enters it among the peer's. RESOURCE_EXHAUSTED when it has too many. `ready` as for operations. */
PJRTD_MUST_USE pjrtd_status *pjrtd_call_create(const pjrtd_request *request, size_t size_bytes, uint32_t num_holds,
                                               void (*ready)(pjrtd_operation *operation),
                                               void (*abandon)(pjrtd_call *call, pjrtd_status *why), void *out_call);
/* To be asked when the operation is ready: true when its answer has to wait, and `ready` will come again. */
bool pjrtd_call_park(pjrtd_call *call);
/* The call has had its answer, or needs none any more: later answers are dropped, and it leaves the peer's list. */
void pjrtd_call_detach(pjrtd_call *call);
/* Detaches, gives the holds back, frees. */
void pjrtd_call_end(pjrtd_call *call);
void pjrtd_call_answer(pjrtd_call *call, const ProtobufCMessage *reply);
/* Takes `status`. */
void pjrtd_call_fail(pjrtd_call *call, pjrtd_status *status);
/* Expects `bytes` of bulk in `pages` (borrowed), then calls `done`. */
void pjrtd_call_receive(pjrtd_call *call, pjrtd_staging *pages, uint64_t bytes, void (*done)(pjrtd_call *call));
static inline pjrtd_call *pjrtd_call_of(pjrtd_operation *operation) {
  return (pjrtd_call *)operation;
}
/* Fails the call with `why` (taken), poisons what it was to make, and lets the method clean up. */
void pjrtd_peer_abandon_call(pjrtd_call *call, pjrtd_status *why);
/* Answers each Sync whose turn has come. */
void pjrtd_peer_check_sync(pjrtd_peer *peer);
