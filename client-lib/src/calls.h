/* The calls of a connection: their life from start to answer. Under the client's lock. */
#pragma once

#include "connection.h"

/* What a request is made of. */
typedef struct {
  uint16_t method;
  uint64_t timeout_ns;
  size_t payload_bytes;
  uint64_t bulk_bytes; /* data inside the request; at most the server's max_inline_bytes */
  uint64_t item_bytes; /* data that follows in ITEMs; then bulk_bytes is 0 */
  bool quiet;
} pjrtc_request;

/* Waits until one more call may be started; or fails, where the client is `nonblocking` and the caller does not wait
 * anyway. NULL is success. Drops the lock. */
pjrtc_failure *pjrtc_calls_wait_for_room(pjrtc_client *client, bool waits);

/* Makes a call and reserves its request in the outbox; `*out_payload` is where payload and bulk go, and
 * pjrtc_call_commit sends it. In between nothing may drop the lock. NULL is success.
 * A quiet call without ITEMs has no future: `*out_call` is NULL. */
pjrtc_failure *pjrtc_call_begin(pjrtc_client *client, const pjrtc_request *request, pjrtc_future **out_call,
                                uint8_t **out_payload);
void pjrtc_call_commit(pjrtc_client *client, const pjrtc_request *request, pjrtc_future *call);

/* A call that waits for an answer; NULL where there is none of that id. */
pjrtc_future *pjrtc_call_find(pjrtc_client *client, uint64_t id);
/* The answer is there. Takes `failure`; NULL is success. Nothing uses the call's memory after it. */
void pjrtc_call_complete(pjrtc_client *client, pjrtc_future *call, pjrtc_failure *failure);
/* Sends CANCEL, once. */
void pjrtc_call_cancel(pjrtc_client *client, pjrtc_future *call);
/* The user lets go: results go nowhere, data is not read any more. The call is gone when the server has answered. */
void pjrtc_call_let_go(pjrtc_client *client, pjrtc_future *call);
/* A quiet call that is still in flight failed. Takes `failure`. */
void pjrtc_calls_note_quiet_failure(pjrtc_client *client, pjrtc_failure *failure);

/* Every quiet call up to that count has ended. */
void pjrtc_calls_note_quiet_ended(pjrtc_client *client, uint64_t quiet_sent);
/* Take back the memory that the library allocated for results of a call that fails or is let go: of a download
 * (op_download.c), and of a run (op_run.c). */
void pjrtc_call_drop_download(pjrtc_future *call);
void pjrtc_call_drop_run(pjrtc_future *call);

/* Nothing can be sent or received any more: fails every call. Takes `failure`. Only the first one counts. */
void pjrtc_client_lose(pjrtc_client *client, pjrtc_failure *failure);
/* This thread is in a callback of the user's for an ITEM: it is the driver, and must not wait for it. */
bool pjrtc_client_is_in_item(const pjrtc_client *client);
/* Waits until no thread uses `call`'s memory without the lock; but for this thread's own callback. */
void pjrtc_client_wait_unpinned(pjrtc_client *client, pjrtc_future *call);
/* Frees what is left of a closed client once no future is held. Without the lock. */
void pjrtc_client_free(pjrtc_client *client);
/* Fuzzing and tests: a client on a connected socket, which it owns from here on; NULL where that fails. */
pjrtc_client *pjrtc_connect_socket(int fd);
