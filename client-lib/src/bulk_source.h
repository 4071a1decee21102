/* Data that goes with a call: inside the request where it is small, else in ITEMs. Under the client's lock. */
#pragma once

#include "calls.h"

/* Decides which, and says so in the request. */
void pjrtc_bulk_plan(const pjrtc_client *client, uint64_t size_bytes, pjrtc_request *request);
/* INVALID_ARGUMENT where a quiet call would have to wait and must not. */
pjrtc_failure *pjrtc_bulk_check_quiet(const pjrtc_client *client, const pjrtc_request *request);
/* Waits until a quiet call's data is sent, and forgets the call. Drops the lock in between. */
pjrtc_failure *pjrtc_bulk_send_quiet(pjrtc_client *client, pjrtc_future *call);
