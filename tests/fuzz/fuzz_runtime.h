/* The daemon's runtime and service over a plugin layer in memory, for targets that bring a transport. */
#pragma once

#include "state/runtime.h"

extern uv_loop_t fuzz_loop;
extern pjrtd_runtime *fuzz_runtime; /* NULL before the start */
extern pjrtd_settings fuzz_settings;

/* Once. The transport still has to say what flushes. */
void fuzz_runtime_start(void);
/* Takes turns until the runtime holds nothing of a client, and `transport_left` says the same of the transport; aborts
 * where that takes 20 s. */
void fuzz_runtime_wait_until_empty(void (*turn)(void), bool (*transport_left)(void));
