/* What all operations have in common: entering the client, starting a call, waiting for it, leaving with a code. */
#pragma once

#include <protobuf-c/protobuf-c.h>

#include "calls.h"
#include "driver.h"
#include "reply_arena.h"

/* Takes the lock, once there is room for a call; where it fails the lock is not held. `waits`: the operation waits
 * anyway, so it may wait for room although the client is not to block. NULL is success. */
pjrtc_failure *pjrtc_op_enter(pjrtc_client *client, bool waits);
/* FAILED_PRECONDITION in a run's callback. NULL: waiting is possible. With the lock. */
pjrtc_failure *pjrtc_op_may_wait(const pjrtc_client *client);
/* Drops the lock and reports; takes `failure`. */
pjrtc_code pjrtc_op_leave(pjrtc_client *client, pjrtc_failure *failure, pjrtc_error *error);

/* Begins a call with a message as its payload. pjrtc_call_commit sends it. */
pjrtc_failure *pjrtc_op_begin(pjrtc_client *client, pjrtc_request *request, const ProtobufCMessage *message,
                              pjrtc_future **out_call);
/* The same; `*out_bulk` is where the request's own data goes. */
pjrtc_failure *pjrtc_op_begin_with_bulk(pjrtc_client *client, pjrtc_request *request, const ProtobufCMessage *message,
                                        pjrtc_future **out_call, uint8_t **out_bulk);
/* Waits for the call and lets it go; its failure. `timeout_ns` is what the request said: the server is given a moment
 * more to answer. */
pjrtc_failure *pjrtc_op_wait(pjrtc_client *client, pjrtc_future *call, uint64_t timeout_ns);
/* The end of a function with a future: gives it to the caller. Takes `failure`, drops the lock. */
pjrtc_code pjrtc_op_give(pjrtc_client *client, pjrtc_failure *failure, pjrtc_future *call, pjrtc_future **out_future,
                         pjrtc_error *error);
/* A whole call whose reply says nothing. Both take `failure`, which is what the caller found wrong already; then
 * `message` is not looked at. The first is quiet where `out_future` is NULL, the second waits. */
pjrtc_code pjrtc_op_start(pjrtc_client *client, pjrtc_failure *failure, uint16_t method,
                          const ProtobufCMessage *message, pjrtc_future **out_future, pjrtc_error *error);
pjrtc_code pjrtc_op_call(pjrtc_client *client, pjrtc_failure *failure, uint16_t method, const ProtobufCMessage *message,
                         pjrtc_error *error);
/* The same of one whose reply becomes a public object, which `decode` gives to call->to.object. */
pjrtc_code pjrtc_op_get(pjrtc_client *client, pjrtc_failure *failure, uint16_t method, const ProtobufCMessage *message,
                        pjrtc_decode *decode, void **out_object, pjrtc_error *error);
/* Nobody waits for the answer. */
void pjrtc_op_detach(pjrtc_client *client, pjrtc_future *call);

/* For replies that say nothing. */
pjrtc_failure *pjrtc_op_decode_empty(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes,
                                     const uint8_t *bulk, size_t bulk_bytes);
/* INTERNAL: "the server's reply to NAME is malformed". */
pjrtc_failure *pjrtc_op_malformed(const char *name);
/* That, or out of memory: the end of a decode function. Destroys the arena. */
pjrtc_failure *pjrtc_op_decoded(pjrtc_reply_arena *arena, bool good, const char *name);

/* The next id to choose on a connection: above the highest of its prefix (the top 16 bits); 0: none was chosen yet. */
uint64_t pjrtc_op_next_id(uint32_t prefix, uint64_t highest);

/* Copies an option struct that may be older or newer than this library. NULL is success. */
pjrtc_failure *pjrtc_op_options(void *out_options, size_t size_bytes, const void *options, const char *name);

/* Deletes ids that a failed call was to make; nobody waits for the answer. */
void pjrtc_op_forget_buffers(pjrtc_client *client, const uint64_t *buffers, size_t num_buffers);
void pjrtc_op_forget_program(pjrtc_client *client, uint64_t program);
