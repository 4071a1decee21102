/* pjrtc: the C client of pjrtd, the daemon that owns a PJRT plugin and serves it.
 *
 * This header, with those that it includes, is the manual. A program connects, compiles StableHLO, uploads arrays,
 * executes, and reads results:
 *
 *     pjrtc_client *client;
 *     pjrtc_error error = PJRTC_ERROR_INIT;
 *     if (pjrtc_connect(NULL, NULL, &client, &error)) return fail(&error);
 *
 *     pjrtc_compile_options compile = {.struct_size = sizeof compile, .code = text, .code_bytes = strlen(text)};
 *     uint64_t program;
 *     if (pjrtc_compile(client, &compile, &program, NULL, &error)) return fail(&error);
 *
 *     int64_t dims[] = {4};
 *     float x[4] = {1, 2, 3, 4}, y[4];
 *     pjrtc_argument argument = {.type = {PJRTC_F32, 1, dims}, .data = x};
 *     pjrtc_value value = {.position = 0, .data = y, .capacity_bytes = sizeof y};
 *     pjrtc_execute_options run = {.struct_size = sizeof run, .program = program, .args = &argument, .num_args = 1,
 *                                  .fetch = &value, .num_fetch = 1};
 *     if (pjrtc_execute(client, &run, &error)) return fail(&error);
 *     pjrtc_close(client);
 *
 * Link with `pkg-config --cflags --libs pjrtc`. The library has no global state and no thread of its own.
 *
 * CALLS AND FUTURES. Every operation that takes device time exists twice: `pjrtc_execute` sends the request and waits;
 * `pjrtc_execute_start` only sends, and gives a future to wait for, to poll, or to hang a callback on. Requests are
 * admitted by the server in the order in which they were started, and ids of buffers and programs are known at once,
 * so compile, upload, execute and download can all be started without waiting for anything in between. Where
 * `out_future` is NULL the call is quiet: success is silent, and the next pjrtc_sync tells the first failure.
 *
 * IDS. Buffers and programs are named by uint64 ids that the library hands out; 0 names nothing. They live in the
 * connection's session until they are deleted (released), the session is closed, or the connection ends. A call that
 * fails poisons the ids that it was to make: whoever uses one gets the error of the call that failed first, and the id
 * stays until it is deleted. The waiting forms of upload, compile, lookup, execute and run do that deletion themselves
 * and set the ids to 0. What persists from step to step is better held by slots, names that a session keeps
 * (session.h).
 *
 * THREADS. Any thread may use one connection, and several at once: one of those that wait reads for all. A callback
 * runs on whichever thread moves the connection when the answer arrives; it may start calls and destroy futures, but
 * must not close the client (run.h: nor wait, where it is called between the steps of a run). A future is used by one
 * thread at a time, except that several may wait for it. After fork, the child gets FAILED_PRECONDITION from every call
 * on a connection of its parent; it may only close it (which leaves the parent's connection alone) and connect anew.
 *
 * MEMORY. What a call is given is read before the call returns, with two exceptions, both of futures: data to upload
 * (`pjrtc_upload_options.data`, `pjrtc_compile_options.code`) is read until the future is done, and results are written
 * to the caller's memory until then. Destroying a future ends both, whether it was done or not.
 *
 * ERRORS. Functions return a pjrtc_code, 0 for success, and fill in the caller's pjrtc_error, which may be NULL.
 *
 * OPTIONS. Option and result structs begin with `struct_size`; set it to sizeof and everything else to zero, which
 * means the default. So a program that was built for an older pjrtc.h works with a newer library. What comes
 * in arrays or is part of another struct has no such field and stays as it is: pjrtc_argument, pjrtc_attribute,
 * pjrtc_borrowed_slot, pjrtc_feed_back, pjrtc_slot_binding, pjrtc_type, pjrtc_value.
 *
 * DATA. Arrays are little-endian. Element types under 8 bits take one byte an element on the host, signed ones
 * sign-extended. Times are nanoseconds; timeouts of 0 mean none. */
#ifndef PJRTC_PJRTC_H_
#define PJRTC_PJRTC_H_

#include "buffer.h"
#include "client.h"
#include "execute.h"
#include "program.h"
#include "run.h"
#include "runtime.h"
#include "session.h"
#include "types.h"

#endif /* PJRTC_PJRTC_H_ */
