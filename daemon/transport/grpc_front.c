/* See grpc_front.h: the server, and which RPC goes where. */
#include "transport/grpc_front.h"

#include <grpc/compression.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/log.h>
#include <string.h>

#include "base/clock.h"

/* Calls that may begin without waiting for the loop. */
#define ACCEPTING 32
#define MAX_STREAMS_OF_A_CONNECTION 1000
#define MAX_HEADERS_BYTES (16 << 10)
#define WATCH_PERIOD_MS 1000
#define MAX_IDLE_MS (15 * 60 * 1000)
#define CHANNEL_PATH "/pjrtd.v1.Runtime/Channel"

const pjrtd_identity grpc_remote_identity = {.local = false, .rights = PJRTD_RIGHT_USE};

/* ---- calls that begin ---- */

typedef struct {
  grpc_tag tag; /* first */
  grpc_front *front;
  grpc_call *call;
  grpc_call_details details;
  grpc_metadata_array metadata;
} acceptance;

static void accept_another(grpc_front *front);

/* Streams and calls of all clients together: a connection may have MAX_STREAMS_OF_A_CONNECTION of them. */
static bool is_full(const grpc_front *front) {
  return front->num_rpcs >= front->settings->max_connections + front->settings->max_calls_in_flight;
}

static void on_accepted(grpc_tag *tag, bool ok) {
  acceptance *accepted = (acceptance *)tag;
  grpc_front *front = accepted->front;
  front->num_accepting--;
  if (ok) {
    pjrtd_runtime_enter(front->runtime);
    if (!front->closing) accept_another(front);
    char *path = grpc_slice_to_c_string(accepted->details.method);
    if (is_full(front))
      grpc_call_refuse(accepted->call,
                       "too many calls of all clients are open: max_connections and max_calls_in_flight");
    else if (strcmp(path, CHANNEL_PATH) == 0)
      grpc_channel_begin(front, accepted->call);
    else if (!grpc_health_begin(front, accepted->call, path) && !grpc_reflection_begin(front, accepted->call, path))
      grpc_unary_begin(front, accepted->call, &accepted->details, &accepted->metadata, path);
    gpr_free(path);
  }
  grpc_call_details_destroy(&accepted->details);
  grpc_metadata_array_destroy(&accepted->metadata);
  pjrtd_free(accepted);
}

/* Without memory there is one fewer at a time; on_watch makes up for it. */
static void accept_another(grpc_front *front) {
  acceptance *next = pjrtd_calloc(1, sizeof *next);
  if (!next) return;
  next->tag = grpc_tag_make(on_accepted);
  next->front = front;
  grpc_call_details_init(&next->details);
  grpc_metadata_array_init(&next->metadata);
  grpc_tag_start(&next->tag);
  if (grpc_server_request_call(front->server, &next->call, &next->details, &next->metadata, front->queue, front->queue,
                               next) == GRPC_CALL_OK) {
    front->num_accepting++;
    return;
  }
  grpc_call_details_destroy(&next->details);
  grpc_metadata_array_destroy(&next->metadata);
  pjrtd_free(next);
}

void grpc_front_adopt(grpc_front *front, int descriptor) {
  grpc_server_add_channel_from_fd(front->server, descriptor, front->plaintext);
}

/* ---- turns ---- */

static void flush_own(grpc_front *front) {
  grpc_channel_flush_all(front);
  grpc_unary_flush_all(front);
}

static void flush(void *user) {
  grpc_front *front = user;
  flush_own(front);
  if (front->next_flush) front->next_flush(front->next_flush_user);
}

static void on_resume(uv_idle_t *resume) {
  grpc_front *front = resume->data;
  pjrtd_runtime_enter(front->runtime);
  grpc_channel_resume_all(front);
  if (!front->waiting) uv_idle_stop(resume);
}

static void on_prepare(uv_prepare_t *prepare) {
  grpc_front *front = prepare->data;
  if (front->watchers) grpc_health_update(front);
  pjrtd_runtime_settle(front->runtime);
  flush_own(front);
  grpc_pump_end_turn(&front->pump);
}

static void on_watch(uv_timer_t *watch) {
  grpc_front *front = watch->data;
  pjrtd_runtime_enter(front->runtime);
  while (!front->closing && front->num_accepting < ACCEPTING) {
    uint64_t before = front->num_accepting;
    accept_another(front);
    if (front->num_accepting == before) break;
  }
  uint64_t now_ns = pjrtd_clock_now_ns();
  for (grpc_rpc *at = front->rpcs; at; at = at->next) {
    grpc_channel_check_hello(at, now_ns);
    grpc_unary_check_asked(at, now_ns);
    if (at->ended || !at->sending ||
        now_ns - at->sending_since_ns < front->settings->client_stall_seconds * UINT64_C(1000000000))
      continue;
    pjrtd_log(PJRTD_LOG_WARNING, "cutting a gRPC call off: its client read nothing for client_stall_seconds");
    front->runtime->stats.clients_cut_off++;
    at->sending_since_ns = now_ns;
    grpc_rpc_cancel(at);
  }
  grpc_unary_end_idle(front, now_ns);
  grpc_connections_check(front, now_ns);
}

/* ---- life ---- */

static void log_from_grpc(gpr_log_func_args *args) {
  pjrtd_log(args->severity == GPR_LOG_SEVERITY_ERROR ? PJRTD_LOG_WARNING : PJRTD_LOG_DEBUG, "gRPC says",
            PJRTD_LOG_TEXT("text", args->message));
}

static grpc_arg integer(const char *name, int value) {
  return (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)name, .value.integer = value};
}

pjrtd_status *grpc_front_create(pjrtd_runtime *runtime, grpc_front **out_front) {
  *out_front = NULL;
  grpc_front *front = pjrtd_calloc(1, sizeof *front);
  if (!front) return pjrtd_status_oom();
  front->runtime = runtime;
  front->settings = runtime->settings;
  front->last_waiting = &front->waiting;
  gpr_set_log_function(log_from_grpc);
  grpc_init();
  front->queue = grpc_completion_queue_create_for_next(NULL);
  grpc_arg args[] = {
      integer(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, GRPC_MAX_MESSAGE_BYTES),
      integer(GRPC_ARG_MAX_CONCURRENT_STREAMS, MAX_STREAMS_OF_A_CONNECTION),
      integer(GRPC_ARG_MAX_METADATA_SIZE, MAX_HEADERS_BYTES),
      integer(GRPC_ARG_ALLOW_REUSEPORT, 0),
      /* gRPC would unpack a message whole, in our turn, before it looks how large it has become. */
      integer(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE),
      /* A connection without calls is closed then; clients connect anew by themselves. */
      integer(GRPC_ARG_MAX_CONNECTION_IDLE_MS, MAX_IDLE_MS),
      /* A client's keepalive is welcome, a flood of pings is not. */
      integer(GRPC_ARG_HTTP2_MIN_RECV_PING_INTERVAL_WITHOUT_DATA_MS, 5000),
      integer(GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1),
  };
  grpc_channel_args channel_args = {.num_args = sizeof args / sizeof *args, .args = args};
  front->server = grpc_server_create(&channel_args, NULL);
  front->plaintext = grpc_insecure_server_credentials_create();
  grpc_server_register_completion_queue(front->server, front->queue, NULL);
  grpc_server_start(front->server);
  uv_idle_init(runtime->loop, &front->resume);
  uv_timer_init(runtime->loop, &front->watch);
  uv_prepare_init(runtime->loop, &front->prepare);
  front->resume.data = front->watch.data = front->prepare.data = front;
  front->next_flush = runtime->flush;
  front->next_flush_user = runtime->flush_user;
  runtime->flush = flush;
  runtime->flush_user = front;
  pjrtd_status *status = grpc_pump_start(&front->pump, runtime, front->queue);
  if (status) {
    grpc_front_close(front);
    return status;
  }
  for (int i = 0; i < ACCEPTING; i++) accept_another(front);
  uv_timer_start(&front->watch, on_watch, WATCH_PERIOD_MS, WATCH_PERIOD_MS);
  /* libuv calls the last one first: before the turn is closed by the local socket's. */
  uv_prepare_start(&front->prepare, on_prepare);
  *out_front = front;
  return PJRTD_OK;
}

void grpc_front_start_resuming(grpc_front *front) {
  if (!uv_is_active((uv_handle_t *)&front->resume)) uv_idle_start(&front->resume, on_resume);
}

bool grpc_front_is_writing(const grpc_front *front) {
  const grpc_rpc *rpc = front->rpcs;
  while (rpc && (rpc->ended || !rpc->sending)) rpc = rpc->next;
  return rpc != NULL;
}

static void on_shut_down(grpc_tag *tag, bool ok) {
  grpc_front *front = *(grpc_front **)(tag + 1);
  grpc_completion_queue_shutdown(front->queue);
}

void grpc_front_close(grpc_front *front) {
  front->closing = true;
  grpc_front_stop_listening(front);
  front->runtime->flush = front->next_flush;
  front->runtime->flush_user = front->next_flush_user;
  grpc_unary_end_idle(front, UINT64_MAX);
  grpc_pump_close(&front->pump);
  struct {
    grpc_tag tag;
    grpc_front *front;
  } shutdown = {.tag = grpc_tag_make(on_shut_down), .front = front};
  grpc_tag_start(&shutdown.tag);
  grpc_server_shutdown_and_notify(front->server, front->queue, &shutdown.tag);
  grpc_server_cancel_all_calls(front->server);
  if (!front->pump.running) {
    grpc_event event;
    do event = grpc_completion_queue_next(front->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
    while (event.tag != &shutdown.tag);
    grpc_completion_queue_shutdown(front->queue);
    while (grpc_completion_queue_next(front->queue, gpr_inf_future(GPR_CLOCK_REALTIME), NULL).type !=
           GRPC_QUEUE_SHUTDOWN) {
    }
  }
  grpc_pump_join(&front->pump);
  grpc_front_forget_connections(front);
  grpc_server_destroy(front->server);
  grpc_completion_queue_destroy(front->queue);
  grpc_server_credentials_release(front->plaintext);
  uv_close((uv_handle_t *)&front->resume, NULL);
  uv_close((uv_handle_t *)&front->watch, NULL);
  uv_close((uv_handle_t *)&front->prepare, NULL);
}

void grpc_front_destroy(grpc_front *front) {
  if (!front) return;
  grpc_shutdown_blocking();
  pjrtd_free(front);
}
