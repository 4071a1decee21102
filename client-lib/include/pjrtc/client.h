/* pjrtc: connections, and futures of calls. Part of pjrtc.h. */
#ifndef PJRTC_CLIENT_H_
#define PJRTC_CLIENT_H_

#include "types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One connection to a pjrtd. */
typedef struct pjrtc_client pjrtc_client;
/* A call that was started and not yet destroyed. */
typedef struct pjrtc_future pjrtc_future;

/* ---- Connection ------------------------------------------------------------------------------------------------ */

#define PJRTC_DEFAULT_BUSY_POLL_US 200

typedef struct pjrtc_connect_options {
  size_t struct_size;
  const char *client_name; /* for the server's logs; NULL: "libpjrtc VERSION" */
  uint64_t timeout_ns;     /* for the connection and the greeting; 0: 10 s */
  /* How long a waiting thread polls the socket before it sleeps; 0: it sleeps at once. Polling answers sooner (some
   * microseconds in place of tens) and costs processor time; it stops by itself while it does not pay. */
  uint32_t busy_poll_us;
  /* Starting a call never waits: where the bounds below are reached it fails with RESOURCE_EXHAUSTED, and the caller
   * goes on with pjrtc_progress. For event loops. */
  bool nonblocking;
  uint64_t download_window_bytes; /* of one download that may be under way; 0: 4 MiB */
  uint64_t max_queued_bytes;      /* requests that were started but not yet written; 0: 4 MiB */
  /* For grpcs://: a file of the certificates to trust (PEM); NULL: PJRTD_CA_FILE's, else what the system trusts. */
  const char *ca_file;
} pjrtc_connect_options;

#ifdef __cplusplus
#define PJRTC_CONNECT_OPTIONS_INIT \
  { sizeof(pjrtc_connect_options), NULL, 0, PJRTC_DEFAULT_BUSY_POLL_US, false, 0, 0, NULL }
#else
#define PJRTC_CONNECT_OPTIONS_INIT \
  { .struct_size = sizeof(pjrtc_connect_options), .busy_poll_us = PJRTC_DEFAULT_BUSY_POLL_US }
#endif

/* Connects and agrees on a protocol version.
 *
 * `target` is "unix:PATH", "grpc://HOST:PORT" or "grpcs://HOST:PORT" (port 7578 where there is none). NULL means the
 * environment's PJRTD_TARGET; where that is not set either, $XDG_RUNTIME_DIR/pjrtd.sock if it exists, else
 * /run/pjrtd/pjrtd.sock. `options` may be NULL; else initialise it with PJRTC_CONNECT_OPTIONS_INIT.
 *
 * For gRPC, libpjrtc-grpc.so is loaded, and with it gRPC C core, whose threads stay until the process ends.
 *
 * INVALID_ARGUMENT: not a target (a plugin's path is none: pjrtd loads the plugin). UNAVAILABLE: nobody listens there.
 * PERMISSION_DENIED: the socket may not be opened. FAILED_PRECONDITION or UNIMPLEMENTED: client and server have no
 * protocol version in common; the message names both ranges. UNIMPLEMENTED: libpjrtc-grpc.so
 * is not there, or the server speaks gRPC and is no pjrtd. DEADLINE_EXCEEDED: the server accepted and does not answer.
 */
PJRTC_API pjrtc_code pjrtc_connect(const char *target, const pjrtc_connect_options *options, pjrtc_client **out_client,
                                   pjrtc_error *error);

/* Ends the connection; the server frees the session's buffers and programs, unless it is kept. What nobody has waited
 * for may not be done any more over gRPC: pjrtc_sync first. Futures that are still held fail with CANCELLED and may be
 * destroyed later. No other thread may be in a call on it. NULL is fine. */
PJRTC_API void pjrtc_close(pjrtc_client *client);

/* What the server said when the connection began. Borrowed until the client is closed. */
typedef struct pjrtc_hello {
  size_t struct_size;
  const char *target;         /* as connected, "unix:/run/pjrtd/pjrtd.sock" */
  const char *server_version; /* "0.1.0" */
  uint64_t server_epoch;      /* another value after each start of the daemon */
  uint32_t protocol_version;
  uint32_t max_inline_bytes;    /* of arguments given by value, and of values fetched by an execute */
  uint32_t max_calls_in_flight; /* more wait, or fail where `nonblocking` is set */
  uint32_t server_busy_poll_us; /* how long the server polls before it sleeps */
} pjrtc_hello;

PJRTC_API const pjrtc_hello *pjrtc_get_hello(const pjrtc_client *client);

/* For a caller's own event loop: poll pjrtc_fd() for pjrtc_events() (POLLIN, POLLOUT), and call pjrtc_progress() when
 * it is ready and after starting calls. pjrtc_progress never waits: it writes and reads what it can, completes futures
 * and runs their callbacks. It reads a bounded amount, so poll level-triggered. UNAVAILABLE: the connection is lost,
 * and every future has failed. The descriptor stays the library's. Over gRPC the first pjrtc_fd() starts a thread that
 * waits in your place; -1 where that is not possible. */
PJRTC_API int pjrtc_fd(const pjrtc_client *client);
PJRTC_API short pjrtc_events(pjrtc_client *client);
PJRTC_API pjrtc_code pjrtc_progress(pjrtc_client *client, pjrtc_error *error);

/* Gathers small requests to send them in one write: from pjrtc_cork on, started calls are queued until pjrtc_flush,
 * until 64 KiB are queued, or until somebody waits. Without a cork each call is written when it is started. */
PJRTC_API void pjrtc_cork(pjrtc_client *client);
PJRTC_API pjrtc_code pjrtc_flush(pjrtc_client *client, pjrtc_error *error);

/* ---- Futures --------------------------------------------------------------------------------------------------- */

#define PJRTC_FOREVER ((int64_t)-1)

/* Waits for the call to end, at most `timeout_ns`. Returns its result, or PENDING where the time was too short. */
PJRTC_API pjrtc_code pjrtc_future_wait(pjrtc_future *future, int64_t timeout_ns, pjrtc_error *error);
/* Its result, or PENDING; reads and writes nothing. */
PJRTC_API pjrtc_code pjrtc_future_poll(pjrtc_future *future, pjrtc_error *error);
/* The number of the call on this connection, as errors and the server's logs name it. */
PJRTC_API uint64_t pjrtc_future_call(const pjrtc_future *future);

typedef void (*pjrtc_callback)(pjrtc_future *future, void *user);
/* Calls `callback` once when the call has ended; at once, on this thread, if it has. One a future. */
PJRTC_API void pjrtc_future_on_done(pjrtc_future *future, pjrtc_callback callback, void *user);

/* Asks the server to end the call. The future is done when the server has answered: CANCELLED, or the result that came
 * first. What runs on a device is not stopped. */
PJRTC_API void pjrtc_future_cancel(pjrtc_future *future);

/* Forgets the call, and cancels it if it has not ended; ids that it was to make stay and must be deleted. After this
 * nothing is read from or written to the caller's memory for it. NULL is fine. */
PJRTC_API void pjrtc_future_destroy(pjrtc_future *future);

#ifdef __cplusplus
}
#endif

#endif /* PJRTC_CLIENT_H_ */
