/* Waiting: one thread drives the connection for all, the others sleep until it hands them their answers or its role.
 * Under the client's lock, which every function here drops for a while. */
#pragma once

#include "connection.h"

/* Monotonic. */
uint64_t pjrtc_now_ns(void);

#define PJRTC_NO_DEADLINE UINT64_MAX

typedef bool pjrtc_condition(pjrtc_client *client, void *user);

/* Until `condition` holds; false where `deadline_ns` came first. `call` is the call that it is about, NULL where it is
 * about room. */
bool pjrtc_driver_wait(pjrtc_client *client, pjrtc_future *call, pjrtc_condition *condition, void *user,
                       uint64_t deadline_ns);
/* Until the call is done. */
bool pjrtc_driver_wait_done(pjrtc_client *client, pjrtc_future *call, uint64_t deadline_ns);
/* Writes and reads what there is, without waiting, and runs callbacks. */
void pjrtc_driver_progress(pjrtc_client *client);
/* Interrupts the driver's sleep where it must write as well; or in any case. */
void pjrtc_driver_kick(pjrtc_client *client);
void pjrtc_driver_interrupt(pjrtc_client *client);
/* Wakes those who wait for `call` (NULL: for room). */
void pjrtc_driver_wake(pjrtc_client *client, pjrtc_future *call);
/* Runs the callbacks of calls that are done. The role must be free. */
void pjrtc_driver_run_callbacks(pjrtc_client *client);
