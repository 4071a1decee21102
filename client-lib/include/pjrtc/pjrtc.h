/* pjrtc: the C client of pjrtd, the daemon that owns a PJRT plugin and serves it.
 *
 * This header is the manual. A program connects, compiles StableHLO, uploads arrays, executes, and reads results:
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
 * stays until it is deleted. The waiting forms of upload, compile and execute do that deletion themselves and set the
 * ids to 0.
 *
 * THREADS. Any thread may use one connection, and several at once: one of those that wait reads for all. A callback
 * runs on whichever thread moves the connection when the answer arrives; it may start calls and destroy futures, but
 * must not close the client. A future is used by one thread at a time, except that several may wait for it. After fork,
 * the child gets FAILED_PRECONDITION from every call on a connection of its parent; it may only close it (which leaves
 * the parent's connection alone) and connect anew.
 *
 * MEMORY. What a call is given is read before the call returns, with two exceptions, both of futures: data to upload
 * (`pjrtc_upload_options.data`, `pjrtc_compile_options.code`) is read until the future is done, and results are written
 * to the caller's memory until then. Destroying a future ends both, whether it was done or not.
 *
 * ERRORS. Functions return a pjrtc_code, 0 for success, and fill in the caller's pjrtc_error, which may be NULL.
 *
 * OPTIONS. Option and result structs begin with `struct_size`; set it to sizeof and everything else to zero, which
 * means the default. So a program that was built for an older pjrtc.h works with a newer library.
 *
 * DATA. Arrays are little-endian. Element types under 8 bits take one byte an element on the host, signed ones
 * sign-extended. Times are nanoseconds; timeouts of 0 mean none. */
#ifndef PJRTC_PJRTC_H_
#define PJRTC_PJRTC_H_

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define PJRTC_API __attribute__((visibility("default")))

/* One connection to a pjrtd. */
typedef struct pjrtc_client pjrtc_client;
/* A call that was started and not yet destroyed. */
typedef struct pjrtc_future pjrtc_future;

/* The version of the library, "0.1.0". Static. */
PJRTC_API const char *pjrtc_version(void);

/* ---- Errors ---------------------------------------------------------------------------------------------------- */

/* PJRT's and gRPC's codes. What they mean when pjrtd or this library says them, and what to do:
 *
 * INVALID_ARGUMENT     the request is wrong; the message says what and what was expected. Do not retry.
 * NOT_FOUND            no such id in this session; or a custom-call target that does not exist.
 * PERMISSION_DENIED    the identity lacks the right, or may not open the socket.
 * RESOURCE_EXHAUSTED   a bound was reached, or memory; `retry_after_ns` is set where waiting helps.
 * FAILED_PRECONDITION  not now: session closed, connection of another process.
 * OUT_OF_RANGE         a result is larger than the memory given for it; its `size_bytes` says how large.
 * UNIMPLEMENTED        this plugin, server or library does not have it.
 * UNAVAILABLE          no connection, or it was lost, or the server drains. Connect again.
 * CANCELLED, DEADLINE_EXCEEDED   as asked.
 * INTERNAL             the plugin's own error, or a server that broke the protocol.
 * PENDING              not an error: the future is not done yet. */
typedef enum pjrtc_code {
  PJRTC_PENDING = -1,
  PJRTC_OK = 0,
  PJRTC_CANCELLED = 1,
  PJRTC_UNKNOWN = 2,
  PJRTC_INVALID_ARGUMENT = 3,
  PJRTC_DEADLINE_EXCEEDED = 4,
  PJRTC_NOT_FOUND = 5,
  PJRTC_ALREADY_EXISTS = 6,
  PJRTC_PERMISSION_DENIED = 7,
  PJRTC_RESOURCE_EXHAUSTED = 8,
  PJRTC_FAILED_PRECONDITION = 9,
  PJRTC_ABORTED = 10,
  PJRTC_OUT_OF_RANGE = 11,
  PJRTC_UNIMPLEMENTED = 12,
  PJRTC_INTERNAL = 13,
  PJRTC_UNAVAILABLE = 14,
  PJRTC_DATA_LOSS = 15,
  PJRTC_UNAUTHENTICATED = 16,
} pjrtc_code;

/* "INVALID_ARGUMENT". "UNKNOWN" for what is not a code. Static. */
PJRTC_API const char *pjrtc_code_name(pjrtc_code code);

#define PJRTC_MESSAGE_BYTES 1024
/* No message is longer than this. */
#define PJRTC_DETAIL_BYTES (1u << 20)

/* An error, in storage of the caller's. Initialise it with PJRTC_ERROR_INIT and use it for any number of calls.
 * On success only `code` is written.
 *
 * A compiler's message can be long. `message` holds its first PJRTC_MESSAGE_BYTES - 1 bytes. To get it whole, let
 * `detail` point to memory of yours; PJRTC_DETAIL_BYTES are always enough, `message_bytes` says how many it has. */
typedef struct pjrtc_error {
  size_t struct_size;
  char *detail;       /* yours, or NULL: receives the whole message, NUL-terminated, as far as it fits */
  size_t detail_size; /* in bytes */
  pjrtc_code code;
  uint32_t has_argument; /* 1: the next three say which argument was wrong, what was expected and what came */
  uint32_t argument_index;
  uint32_t reserved;
  uint64_t message_bytes;  /* of the whole message, without the NUL */
  uint64_t call;           /* number of the call that failed; 0: none was sent */
  uint64_t origin_call;    /* number of the call that failed first, where this one failed because of it; else 0 */
  uint64_t retry_after_ns; /* when another try may succeed; 0: not known */
  char argument_expected[160];
  char argument_actual[160];
  char allocator[512]; /* "bytes_in_use=1024 ...", where a device ran out of memory; else "" */
  char hint[512];      /* what to do about it; may be "" */
  char message[PJRTC_MESSAGE_BYTES];
} pjrtc_error;

#ifdef __cplusplus
#define PJRTC_ERROR_INIT \
  { sizeof(pjrtc_error) }
#else
#define PJRTC_ERROR_INIT \
  { .struct_size = sizeof(pjrtc_error) }
#endif

/* ---- Types ----------------------------------------------------------------------------------------------------- */

/* Element types; the values are PJRT_Buffer_Type's. */
typedef enum pjrtc_dtype {
  PJRTC_DTYPE_INVALID = 0,
  PJRTC_PRED = 1,
  PJRTC_S8 = 2,
  PJRTC_S16 = 3,
  PJRTC_S32 = 4,
  PJRTC_S64 = 5,
  PJRTC_U8 = 6,
  PJRTC_U16 = 7,
  PJRTC_U32 = 8,
  PJRTC_U64 = 9,
  PJRTC_F16 = 10,
  PJRTC_F32 = 11,
  PJRTC_F64 = 12,
  PJRTC_BF16 = 13,
  PJRTC_C64 = 14,
  PJRTC_C128 = 15,
  PJRTC_F8E5M2 = 16,
  PJRTC_F8E4M3FN = 17,
  PJRTC_F8E4M3B11FNUZ = 18,
  PJRTC_F8E5M2FNUZ = 19,
  PJRTC_F8E4M3FNUZ = 20,
  PJRTC_S4 = 21,
  PJRTC_U4 = 22,
  PJRTC_TOKEN = 23,
  PJRTC_S2 = 24,
  PJRTC_U2 = 25,
  PJRTC_F8E4M3 = 26,
  PJRTC_F8E3M4 = 27,
  PJRTC_F8E8M0FNU = 28,
  PJRTC_F4E2M1FN = 29,
  PJRTC_S1 = 30,
  PJRTC_U1 = 31,
  PJRTC_F6E2M3FN = 32,
  PJRTC_F6E3M2FN = 33,
} pjrtc_dtype;

/* "f32", "s4", "f8e4m3fn"; "invalid" for what is not an element type. Static. */
PJRTC_API const char *pjrtc_dtype_name(pjrtc_dtype dtype);
/* The element type of that name; PJRTC_DTYPE_INVALID where there is none. */
PJRTC_API pjrtc_dtype pjrtc_dtype_from_name(const char *name);
/* Bytes of one element on the host; 0 for a token and for what is not an element type. */
PJRTC_API uint32_t pjrtc_dtype_host_bytes(pjrtc_dtype dtype);
/* Bits of the value: 4 for s4, 8 for pred. */
PJRTC_API uint32_t pjrtc_dtype_bits(pjrtc_dtype dtype);

#define PJRTC_MAX_RANK 64

/* Element type and dimensions. `dims` is borrowed; a scalar has rank 0 and needs none. A dimension may be 0. */
typedef struct pjrtc_type {
  pjrtc_dtype dtype;
  uint32_t rank;
  const int64_t *dims;
} pjrtc_type;

/* Checks a type and gives the bytes of a dense array of it. INVALID_ARGUMENT says what is wrong with it. */
PJRTC_API pjrtc_code pjrtc_type_size(const pjrtc_type *type, uint64_t *out_size_bytes, pjrtc_error *error);
/* Writes "f32[2,3]" into `buffer`, cut short with "...]" where it does not fit, and returns it. 24 bytes at least. */
PJRTC_API char *pjrtc_type_format(const pjrtc_type *type, char *buffer, size_t buffer_size);

/* A tensor that comes back, and the memory for it.
 *
 * In: `data` and `capacity_bytes`. Where `data` is NULL the library allocates, and pjrtc_free releases it.
 * Out: type, dimensions and `size_bytes`. Where the capacity is too small the call fails with OUT_OF_RANGE, and these
 * are filled in. Data is dense row-major. */
typedef struct pjrtc_value {
  uint32_t position; /* in: which output of a program; not used by a download */
  pjrtc_dtype dtype;
  void *data;
  uint64_t capacity_bytes;
  uint64_t size_bytes;
  uint32_t rank;
  uint32_t reserved;
  int64_t dims[PJRTC_MAX_RANK];
} pjrtc_value;

/* Frees what the library allocated for a pjrtc_value. NULL is fine. */
PJRTC_API void pjrtc_free(void *data);

typedef enum pjrtc_attribute_kind {
  PJRTC_ATTRIBUTE_NONE = 0,
  PJRTC_ATTRIBUTE_TEXT = 1,
  PJRTC_ATTRIBUTE_INTEGER = 2,
  PJRTC_ATTRIBUTE_REAL = 3,
  PJRTC_ATTRIBUTE_BOOLEAN = 4,
  PJRTC_ATTRIBUTE_INTEGERS = 5,
} pjrtc_attribute_kind;

/* A named value: of a plugin, of a device, or an option of XLA's. */
typedef struct pjrtc_attribute {
  const char *name;
  pjrtc_attribute_kind kind;
  bool boolean;
  int64_t integer;
  double real;
  const char *text;
  const int64_t *integers;
  size_t num_integers;
} pjrtc_attribute;

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

/* ---- Runtime: what is served ----------------------------------------------------------------------------------- */

/* Results of this section are owned by the caller, one block each, and end with their _destroy (NULL is fine). */

typedef struct pjrtc_info {
  size_t struct_size;
  const char *server_version;
  uint64_t server_epoch;
  uint64_t uptime_ns;
  uint32_t pid;
  uint32_t protocol_min, protocol_max;
  uint32_t pjrt_major, pjrt_minor;       /* of the plugin */
  uint32_t headers_major, headers_minor; /* that the server was built for */
  const char *plugin_path;
  const char *platform_name; /* "cpu" */
  const char *platform_version;
  const char *stablehlo_current; /* "1.20.0"; "" where the plugin does not say */
  const char *stablehlo_minimum;
  uint32_t process_index;
  uint32_t num_devices;
  uint32_t num_addressable_devices;
  const char *const *extensions; /* of the plugin */
  size_t num_extensions;
  const pjrtc_attribute *attributes; /* of the plugin */
  size_t num_attributes;
  const pjrtc_attribute *create_options; /* that the plugin's client was created with */
  size_t num_create_options;
} pjrtc_info;

PJRTC_API pjrtc_code pjrtc_get_info(pjrtc_client *client, pjrtc_info **out_info, pjrtc_error *error);
PJRTC_API void pjrtc_info_destroy(pjrtc_info *info);

typedef struct pjrtc_device {
  size_t struct_size;
  int32_t id; /* what uploads and device assignments name */
  int32_t local_hardware_id;
  int32_t process_index;
  int32_t default_memory; /* id; -1: none */
  bool addressable;
  const char *kind;
  const char *debug_string;
  const char *to_string;
  const int32_t *memories; /* ids */
  size_t num_memories;
  const pjrtc_attribute *attributes;
  size_t num_attributes;
  const pjrtc_attribute *memory_stats; /* none where the plugin keeps none */
  size_t num_memory_stats;
} pjrtc_device;

typedef struct pjrtc_devices {
  size_t struct_size;
  const pjrtc_device *const *devices;
  size_t num_devices;
} pjrtc_devices;

PJRTC_API pjrtc_code pjrtc_get_devices(pjrtc_client *client, pjrtc_devices **out_devices, pjrtc_error *error);
PJRTC_API void pjrtc_devices_destroy(pjrtc_devices *devices);

typedef struct pjrtc_memory {
  size_t struct_size;
  int32_t id;
  int32_t kind_id;
  const char *kind; /* "device", "pinned_host" */
  const char *debug_string;
  const char *to_string;
  const int32_t *devices; /* ids of those that can address it */
  size_t num_devices;
} pjrtc_memory;

typedef struct pjrtc_memories {
  size_t struct_size;
  const pjrtc_memory *const *memories;
  size_t num_memories;
} pjrtc_memories;

PJRTC_API pjrtc_code pjrtc_get_memories(pjrtc_client *client, pjrtc_memories **out_memories, pjrtc_error *error);
PJRTC_API void pjrtc_memories_destroy(pjrtc_memories *memories);

/* The plugin's own choice of devices for a program: `num_replicas` * `num_partitions` ids, replica-major, into
 * `out_devices`, which has room for that many. */
PJRTC_API pjrtc_code pjrtc_default_assignment(pjrtc_client *client, uint32_t num_replicas, uint32_t num_partitions,
                                              int32_t *out_devices, pjrtc_error *error);

typedef struct pjrtc_lane_stats {
  size_t struct_size;
  int32_t device;
  uint32_t stuck; /* calls into the plugin that were abandoned */
  uint64_t jobs;
  uint64_t queued;
  uint64_t busy_ns;
} pjrtc_lane_stats;

typedef struct pjrtc_stats {
  size_t struct_size;
  uint64_t uptime_ns;
  uint64_t connections, connections_total, sessions;
  uint64_t buffers, buffer_bytes, programs;
  uint64_t calls_total, calls_failed, calls_in_flight;
  uint64_t executes_on_loop, executes_on_lane;
  uint64_t compiles, compile_ns;
  uint64_t bytes_received, bytes_sent;
  uint64_t loop_turns, loop_stalls, loop_longest_turn_ns;
  uint64_t wire_errors, clients_cut_off;
  uint64_t resident_bytes, staging_bytes, open_descriptors, threads;
  const pjrtc_lane_stats *const *lanes;
  size_t num_lanes;
} pjrtc_stats;

PJRTC_API pjrtc_code pjrtc_get_stats(pjrtc_client *client, pjrtc_stats **out_stats, pjrtc_error *error);
PJRTC_API void pjrtc_stats_destroy(pjrtc_stats *stats);

/* ---- Session --------------------------------------------------------------------------------------------------- */

#define PJRTC_TOKEN_BYTES 128

/* A connection has a session from the start; this opens another one after pjrtc_session_close, or names the one that
 * there is. `out_token`, of PJRTC_TOKEN_BYTES, receives the secret that gives the right to it; it may be NULL. */
PJRTC_API pjrtc_code pjrtc_session_open(pjrtc_client *client, uint64_t *out_session, char *out_token,
                                        pjrtc_error *error);
/* Frees every buffer and program of the session. Calls after it fail with FAILED_PRECONDITION. The counts may be
 * NULL. */
PJRTC_API pjrtc_code pjrtc_session_close(pjrtc_client *client, uint64_t *out_buffers_freed,
                                         uint64_t *out_programs_freed, pjrtc_error *error);

/* Lets the session outlive its connections by `ttl_ns` (0: the server's session_lease_seconds where it has a name, else
 * not at all), and names it: 1 to 64 letters, digits, '.', '_' or '-'; NULL: without a name. Before anything was
 * uploaded, compiled or executed. ALREADY_EXISTS: another session of yours has the name. */
PJRTC_API pjrtc_code pjrtc_session_keep(pjrtc_client *client, const char *name, uint64_t ttl_ns, pjrtc_error *error);

typedef struct pjrtc_attach_options {
  size_t struct_size;
  const char *name;  /* of a session of yours, over the local socket; or */
  const char *token; /* its token */
  bool create;       /* where there is none of that name, the connection's own becomes it */
  bool join;         /* beside the connections that take part already; otherwise those are ended */
  uint64_t ttl_ns;   /* with create: see pjrtc_session_keep */
} pjrtc_attach_options;

typedef struct pjrtc_attached {
  size_t struct_size;
  uint64_t session;
  uint32_t connections; /* that take part, this one included */
  bool created;
  char token[PJRTC_TOKEN_BYTES]; /* a secret */
} pjrtc_attached;

/* Takes part in another session, in place of the connection's own, which must be new: buffers and programs of it can be
 * used by their ids. `out_attached`, with struct_size set, may be NULL. NOT_FOUND: there is no such session; it may
 * have ended, or the server was started anew. */
PJRTC_API pjrtc_code pjrtc_session_attach(pjrtc_client *client, const pjrtc_attach_options *options,
                                          pjrtc_attached *out_attached, pjrtc_error *error);

typedef struct pjrtc_session_connection {
  size_t struct_size;
  uint32_t pid; /* 0: not on the server's host */
  uint32_t id_prefix;
  const char *command, *client_name, *transport; /* "python3", "libpjrtc 0.1.0", "unix" */
} pjrtc_session_connection;

typedef struct pjrtc_session_buffer {
  size_t struct_size;
  uint64_t buffer;
  uint64_t bytes; /* on the device */
  pjrtc_type type;
  int32_t device;
} pjrtc_session_buffer;

typedef struct pjrtc_session_info {
  size_t struct_size;
  uint64_t session;
  const char *name; /* "": none */
  bool own;         /* the one of this connection */
  bool local;       /* its owner is a user of the server's host: `uid` */
  uint32_t uid;
  uint64_t buffers, programs, buffer_bytes, calls_in_flight;
  uint64_t age_ns, idle_ns, ttl_ns;
  uint64_t lease_left_ns; /* until it ends; 0: somebody takes part */
  const pjrtc_session_connection *const *connections;
  size_t num_connections;
  const pjrtc_session_buffer *const *largest;
  size_t num_largest;
} pjrtc_session_info;

typedef struct pjrtc_sessions {
  size_t struct_size;
  const pjrtc_session_info *const *sessions;
  size_t num_sessions;
} pjrtc_sessions;

/* Your sessions; everybody's where you run the server or are root. `session` (0) and `name` (NULL) narrow it to one, of
 * which NOT_FOUND says that there is none. Each tells its `num_largest` largest buffers, at most 64; the server looks
 * at 65536 buffers in all, so ask for one session where there may be more. */
PJRTC_API pjrtc_code pjrtc_get_sessions(pjrtc_client *client, uint64_t session, const char *name, uint32_t num_largest,
                                        pjrtc_sessions **out_sessions, pjrtc_error *error);
PJRTC_API void pjrtc_sessions_destroy(pjrtc_sessions *sessions);
/* Ends one of them, whoever takes part in it: as pjrtc_session_close does with the connection's own. */
PJRTC_API pjrtc_code pjrtc_session_close_other(pjrtc_client *client, uint64_t session, const char *name,
                                               uint64_t *out_buffers_freed, uint64_t *out_programs_freed,
                                               pjrtc_error *error);

/* Waits until every call that was started before has ended, at most `timeout_ns` (0: no limit). Returns the first
 * failure of a quiet call since the last sync, with `error->call` its number; or the failure of the sync itself, with
 * `error->call` 0. Futures' own failures are not in it. The form with a future is done likewise. */
PJRTC_API pjrtc_code pjrtc_sync(pjrtc_client *client, uint64_t timeout_ns, pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_sync_start(pjrtc_client *client, uint64_t timeout_ns, pjrtc_future **out_future,
                                      pjrtc_error *error);

/* ---- Buffers --------------------------------------------------------------------------------------------------- */

typedef enum pjrtc_placement {
  PJRTC_PLACE_DEFAULT = 0, /* the first addressable device */
  PJRTC_PLACE_DEVICE = 1,  /* `place` is a device's id: its default memory */
  PJRTC_PLACE_MEMORY = 2,  /* `place` is a memory's id */
} pjrtc_placement;

typedef struct pjrtc_upload_options {
  size_t struct_size;
  pjrtc_type type;
  /* The element at index 0,0,... Up to 64 KiB are copied before the call returns; more is read until the call ends,
   * or, where it is quiet, before the call returns. */
  const void *data;
  /* Bytes from one element to the next in each dimension: `type.rank` of them, any sign, 0 too. NULL: dense row-major.
   * Strided data is made dense piece by piece while it is sent; dense data is never copied whole. */
  const int64_t *byte_strides;
  pjrtc_placement placement;
  int32_t place;
  uint64_t timeout_ns;
} pjrtc_upload_options;

/* Makes a device buffer from host data. `*out_buffer` is its id, valid for further calls at once. */
PJRTC_API pjrtc_code pjrtc_upload(pjrtc_client *client, const pjrtc_upload_options *options, uint64_t *out_buffer,
                                  pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_upload_start(pjrtc_client *client, const pjrtc_upload_options *options, uint64_t *out_buffer,
                                        pjrtc_future **out_future, pjrtc_error *error);

/* Brings a buffer's data to `value`. Use pjrtc_stat for its size, or let the library allocate. `timeout_ns` 0: none. */
PJRTC_API pjrtc_code pjrtc_download(pjrtc_client *client, uint64_t buffer, pjrtc_value *value, uint64_t timeout_ns,
                                    pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_download_start(pjrtc_client *client, uint64_t buffer, pjrtc_value *value,
                                          uint64_t timeout_ns, pjrtc_future **out_future, pjrtc_error *error);

typedef struct pjrtc_buffer_info {
  size_t struct_size;
  pjrtc_dtype dtype;
  uint32_t rank;
  int64_t dims[PJRTC_MAX_RANK];
  uint64_t host_bytes;   /* what a download needs */
  uint64_t device_bytes; /* what it takes there */
  int32_t device;
  int32_t memory; /* -1 where the plugin does not say */
  char memory_kind[64];
  bool is_deleted; /* donated away */
} pjrtc_buffer_info;

/* Asks about a buffer; waits for the call that makes it. */
PJRTC_API pjrtc_code pjrtc_stat(pjrtc_client *client, uint64_t buffer, pjrtc_buffer_info *out_info, pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_stat_start(pjrtc_client *client, uint64_t buffer, pjrtc_buffer_info *out_info,
                                      pjrtc_future **out_future, pjrtc_error *error);

/* Deletes buffers. One that is in use goes when its last user ends. */
PJRTC_API pjrtc_code pjrtc_delete(pjrtc_client *client, const uint64_t *buffers, size_t num_buffers,
                                  pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_delete_start(pjrtc_client *client, const uint64_t *buffers, size_t num_buffers,
                                        pjrtc_future **out_future, pjrtc_error *error);

/* ---- Programs -------------------------------------------------------------------------------------------------- */

typedef struct pjrtc_compile_options {
  size_t struct_size;
  const void *code; /* StableHLO: text, MLIR bytecode or a portable artifact */
  size_t code_bytes;
  uint64_t timeout_ns;
  /* XLA's executable build options; 0, false and NULL mean its defaults. */
  uint32_t num_replicas;
  uint32_t num_partitions;
  const int32_t *device_assignment; /* device ids, replica-major */
  size_t num_device_assignment;
  bool use_spmd_partitioning;
  bool use_shardy_partitioner;
  bool use_auto_spmd_partitioning;
  bool alias_passthrough_params;
  bool parameter_is_tupled_arguments;
  bool compile_portable_executable;
  bool deduplicate_hlo;
  const int64_t *auto_spmd_partitioning_mesh_shape;
  size_t num_auto_spmd_partitioning_mesh_shape;
  const int64_t *auto_spmd_partitioning_mesh_ids;
  size_t num_auto_spmd_partitioning_mesh_ids;
  const bool *allow_spmd_sharding_propagation_to_parameters;
  size_t num_allow_spmd_sharding_propagation_to_parameters;
  const bool *allow_spmd_sharding_propagation_to_output;
  size_t num_allow_spmd_sharding_propagation_to_output;
  double exec_time_optimization_effort; /* -1 to 1 */
  double memory_fitting_effort;         /* -1 to 1 */
  const pjrtc_attribute *overrides;     /* XLA's own flags by name, "xla_..." */
  size_t num_overrides;
} pjrtc_compile_options;

typedef struct pjrtc_program_tensor {
  size_t struct_size;
  pjrtc_type type;
  const int64_t *minor_to_major; /* device layout, fastest varying dimension first; NULL where not known */
  const char *memory_kind;       /* "" where the plugin does not say */
  const char *unsupported;       /* why it cannot be passed (a tuple, a token); "": it can */
  bool donated;                  /* an argument that the program may consume */
} pjrtc_program_tensor;

typedef struct pjrtc_program_info {
  size_t struct_size;
  const char *name;
  const char *fingerprint; /* the plugin's; not a cache key */
  uint32_t num_replicas;
  uint32_t num_partitions;
  const int32_t *devices; /* ids, in the order of pjrtc_execute's device-major lists */
  size_t num_devices;
  const pjrtc_program_tensor *const *args; /* of one device */
  size_t num_args;
  const pjrtc_program_tensor *const *outputs; /* of one device */
  size_t num_outputs;
  uint64_t generated_code_bytes;
  uint64_t compile_ns; /* 0 from pjrtc_describe */
  bool straight_line;  /* its time does not depend on data: no loop, no host, no collective */
} pjrtc_program_info;

PJRTC_API void pjrtc_program_info_destroy(pjrtc_program_info *info);

/* Compiles a program. `*out_program` is its id, valid for further calls at once. `out_info` may be NULL; else
 * `*out_info` is NULL until the call has succeeded, and the caller's from then on. */
PJRTC_API pjrtc_code pjrtc_compile(pjrtc_client *client, const pjrtc_compile_options *options, uint64_t *out_program,
                                   pjrtc_program_info **out_info, pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_compile_start(pjrtc_client *client, const pjrtc_compile_options *options,
                                         uint64_t *out_program, pjrtc_program_info **out_info,
                                         pjrtc_future **out_future, pjrtc_error *error);

/* Argument and result types, donation, devices. Waits for the compile. */
PJRTC_API pjrtc_code pjrtc_describe(pjrtc_client *client, uint64_t program, pjrtc_program_info **out_info,
                                    pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_describe_start(pjrtc_client *client, uint64_t program, pjrtc_program_info **out_info,
                                          pjrtc_future **out_future, pjrtc_error *error);

/* Releases programs. One that runs goes when it has ended. */
PJRTC_API pjrtc_code pjrtc_release(pjrtc_client *client, const uint64_t *programs, size_t num_programs,
                                   pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_release_start(pjrtc_client *client, const uint64_t *programs, size_t num_programs,
                                         pjrtc_future **out_future, pjrtc_error *error);

/* ---- Execute --------------------------------------------------------------------------------------------------- */

/* An argument: a buffer's id, or, where `buffer` is 0, a value that travels in the request. */
typedef struct pjrtc_argument {
  uint64_t buffer;
  pjrtc_type type;
  const void *data; /* dense row-major */
} pjrtc_argument;

typedef struct pjrtc_execute_result {
  size_t struct_size;
  uint64_t execute_ns;   /* in the plugin */
  uint32_t *consumed;    /* yours, or NULL: receives the positions of arguments that were donated */
  uint32_t max_consumed; /* room in it */
  uint32_t num_consumed; /* how many there were */
} pjrtc_execute_result;

typedef struct pjrtc_execute_options {
  size_t struct_size;
  uint64_t program;
  /* Lists are device-major: all of the first device's arguments, then the second's. */
  const pjrtc_argument *args;
  size_t num_args;
  /* Receives the ids of the outputs, valid for further calls at once. NULL: none is kept. */
  uint64_t *outputs;
  size_t num_outputs;
  const bool *keep; /* `num_outputs` of them; false: not kept, its id becomes 0. NULL: all are kept */
  /* Outputs to bring back with the answer, in order of position, together at most `max_inline_bytes`. They need not be
   * kept. */
  pjrtc_value *fetch;
  size_t num_fetch;
  pjrtc_execute_result *result; /* may be NULL */
  uint64_t timeout_ns;
} pjrtc_execute_options;

/* Runs a program. A request that is refused leaves its arguments alive; a program that donates an argument takes it. */
PJRTC_API pjrtc_code pjrtc_execute(pjrtc_client *client, const pjrtc_execute_options *options, pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_execute_start(pjrtc_client *client, const pjrtc_execute_options *options,
                                         pjrtc_future **out_future, pjrtc_error *error);

#ifdef __cplusplus
}
#endif

#endif /* PJRTC_PJRTC_H_ */
