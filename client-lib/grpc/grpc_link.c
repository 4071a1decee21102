/* See grpc_link.h. */
#include "grpc_link.h"

#include <errno.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/support/log.h>
#include <grpc/support/time.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define METHOD "/pjrtd.v1.Runtime/Channel"

/* ---- operations; under the lock ---- */

static bool start(pjrtc_grpc_link *own, const grpc_op *op, pjrtc_grpc_tag tag) {
  return grpc_call_start_batch(own->call, op, 1, (void *)tag, NULL) == GRPC_CALL_OK;
}

/* Asks for the next message. gRPC 1.51 writes to the socket then, to open the window again by what the last one took;
 * so it comes after the next request, which it does not hold up, or when there is nothing else to do. */
static void start_receiving(pjrtc_grpc_link *own) {
  if (own->receiving || own->arrived || own->over) return;
  const grpc_op op = {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &own->incoming};
  own->receiving = start(own, &op, PJRTC_GRPC_RECEIVED);
}

static void start_sending(pjrtc_grpc_link *own) {
  if (own->sending || own->unsendable || !pjrtc_frames_out_ready(&own->out)) return;
  size_t bytes;
  uint8_t *data = pjrtc_frames_out_take(&own->out, &bytes);
  grpc_slice slice = grpc_slice_new_with_user_data(data, bytes, free, data);
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&slice, 1);
  grpc_slice_unref(slice);
  const grpc_op op = {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message};
  own->sending = start(own, &op, PJRTC_GRPC_SENT);
  own->unsendable = !own->sending;
  grpc_byte_buffer_destroy(message);
}

static void start_call(pjrtc_grpc_link *own) {
  const grpc_op send_headers = {.op = GRPC_OP_SEND_INITIAL_METADATA};
  const grpc_op headers = {.op = GRPC_OP_RECV_INITIAL_METADATA,
                           .data.recv_initial_metadata.recv_initial_metadata = &own->initial_metadata};
  const grpc_op ops[] = {send_headers, headers};
  own->greeting = grpc_call_start_batch(own->call, ops, 2, (void *)PJRTC_GRPC_GREETED, NULL) == GRPC_CALL_OK;
  const grpc_op status = {
      .op = GRPC_OP_RECV_STATUS_ON_CLIENT,
      .data.recv_status_on_client = {
          .trailing_metadata = &own->trailing_metadata, .status = &own->status, .status_details = &own->details}};
  own->over = !start(own, &status, PJRTC_GRPC_ENDED);
  start_receiving(own);
}

bool pjrtc_grpc_link_idle(const pjrtc_grpc_link *own) {
  return own->over && !own->sending && !own->receiving && !own->greeting && !own->waking;
}

pjrtc_grpc_tag pjrtc_grpc_link_collect(pjrtc_grpc_link *own, gpr_timespec deadline) {
  grpc_event event = grpc_completion_queue_next(own->queue, deadline, NULL);
  if (event.type != GRPC_OP_COMPLETE) return PJRTC_GRPC_NOTHING;
  pjrtc_grpc_tag tag = (pjrtc_grpc_tag)(uintptr_t)event.tag;
  pthread_mutex_lock(&own->lock);
  switch (tag) {
    case PJRTC_GRPC_NOTHING: break;
    case PJRTC_GRPC_GREETED: own->greeting = false; break;
    case PJRTC_GRPC_RECEIVED:
      own->receiving = false;
      own->arrived = own->incoming; /* none where the call is over */
      own->incoming = NULL;
      if (own->arrived) own->greeted = true; /* gRPC makes headers up where none came */
      break;
    case PJRTC_GRPC_SENT:
      own->sending = false;
      if (!event.success) own->unsendable = true;
      if (!own->closing) start_sending(own);
      break;
    case PJRTC_GRPC_ENDED: own->over = true; break;
    case PJRTC_GRPC_WOKEN: own->waking = false; break;
  }
  pthread_mutex_unlock(&own->lock);
  return tag;
}

/* ---- sending ---- */

static bool has_room(const pjrtc_grpc_link *own) {
  return own->unsendable || own->over || !own->sending || !pjrtc_frames_out_ready(&own->out);
}

static ssize_t link_send(pjrtc_link *link, const struct iovec *parts, size_t num_parts) {
  pjrtc_grpc_link *own = (pjrtc_grpc_link *)link;
  pthread_mutex_lock(&own->lock);
  int error = 0;
  ssize_t taken = -1;
  if (own->over || own->unsendable) {
    error = EPIPE;
  } else {
    taken = pjrtc_frames_out_add(&own->out, parts, num_parts);
    if (taken < 0) error = ENOMEM;
    start_sending(own);
    start_receiving(own);
  }
  pthread_mutex_unlock(&own->lock);
  if (taken > 0) return taken;
  errno = error ? error : EAGAIN;
  return -1;
}

/* ---- receiving ---- */

/* Takes the message that has arrived. False where there is none. */
static bool take_message(pjrtc_grpc_link *own) {
  pthread_mutex_lock(&own->lock);
  own->reading = own->arrived;
  own->arrived = NULL;
  if (!own->reading) start_receiving(own);
  pthread_mutex_unlock(&own->lock);
  if (!own->reading) return false;
  grpc_byte_buffer_reader reader;
  own->message = grpc_empty_slice();
  if (grpc_byte_buffer_reader_init(&reader, own->reading)) {
    own->message = grpc_byte_buffer_reader_readall(&reader);
    grpc_byte_buffer_reader_destroy(&reader);
  } else {
    own->fault = "a message is compressed in a way that was not offered";
  }
  pjrtc_frames_in_begin(&own->in, GRPC_SLICE_START_PTR(own->message), GRPC_SLICE_LENGTH(own->message));
  return true;
}

static void drop_message(pjrtc_grpc_link *own) {
  if (!own->reading) return;
  grpc_slice_unref(own->message);
  grpc_byte_buffer_destroy(own->reading);
  own->reading = NULL;
}

static gpr_timespec in_ms(int timeout_ms) {
  if (timeout_ms < 0) return gpr_inf_future(GPR_CLOCK_MONOTONIC);
  if (timeout_ms == 0) return gpr_inf_past(GPR_CLOCK_MONOTONIC);
  return gpr_time_add(gpr_now(GPR_CLOCK_MONOTONIC), gpr_time_from_millis(timeout_ms, GPR_TIMESPAN));
}

static bool is_watched(pjrtc_grpc_link *own) {
  pthread_mutex_lock(&own->lock);
  bool watched = own->event_fd >= 0;
  pthread_mutex_unlock(&own->lock);
  return watched;
}

static bool is_over(pjrtc_grpc_link *own) {
  pthread_mutex_lock(&own->lock);
  bool over = own->over && !own->arrived;
  pthread_mutex_unlock(&own->lock);
  return over || own->fault;
}

static ssize_t link_receive(pjrtc_link *link, const struct iovec *parts, size_t num_parts, uint32_t sleep_ms) {
  pjrtc_grpc_link *own = (pjrtc_grpc_link *)link;
  for (bool waited = false;;) {
    while (!own->fault && (own->reading || take_message(own))) {
      size_t bytes = pjrtc_frames_in_read(&own->in, parts, num_parts, &own->fault);
      if (bytes) return (ssize_t)bytes;
      drop_message(own);
    }
    if (is_over(own)) return 0;
    if (waited) break;
    /* One completion, whichever: the caller has other things to look at, too. */
    waited = true;
    if (!is_watched(own)) {
      pjrtc_grpc_link_collect(own, in_ms((int)sleep_ms));
    } else {
      if (sleep_ms) pjrtc_grpc_link_sleep(own, (int)sleep_ms);
      /* In this order: what arrives from here on says so again. */
      pjrtc_grpc_link_forget_events(own);
    }
  }
  errno = EAGAIN;
  return -1;
}

/* Whether `wait` has nothing to wait for. */
static bool is_ready(pjrtc_grpc_link *own, bool out, bool *out_readable) {
  pthread_mutex_lock(&own->lock);
  *out_readable = own->arrived || own->over;
  bool ready = *out_readable || (out && has_room(own));
  pthread_mutex_unlock(&own->lock);
  return ready;
}

static bool link_wait(pjrtc_link *link, bool out, int timeout_ms) {
  pjrtc_grpc_link *own = (pjrtc_grpc_link *)link;
  if (own->reading || own->fault) return true;
  bool readable;
  if (is_watched(own)) {
    pjrtc_grpc_link_forget_events(own);
    if (is_ready(own, out, &readable)) return readable;
    pjrtc_grpc_link_sleep(own, timeout_ms);
    is_ready(own, out, &readable);
    return readable;
  }
  gpr_timespec deadline = in_ms(timeout_ms);
  while (!is_ready(own, out, &readable)) {
    pjrtc_grpc_tag tag = pjrtc_grpc_link_collect(own, deadline);
    if (tag == PJRTC_GRPC_NOTHING || tag == PJRTC_GRPC_WOKEN) return false;
  }
  return readable;
}

static void link_wake(pjrtc_link *link) {
  pjrtc_grpc_link *own = (pjrtc_grpc_link *)link;
  pthread_mutex_lock(&own->lock);
  if (own->event_fd >= 0) {
    pjrtc_grpc_link_tell(own);
  } else if (!own->waking) {
    /* Nothing to do completes at once. */
    own->waking = grpc_call_start_batch(own->call, NULL, 0, (void *)PJRTC_GRPC_WOKEN, NULL) == GRPC_CALL_OK;
  }
  pthread_mutex_unlock(&own->lock);
}

/* The eventfd says when there is room, too. */
static short link_get_events(const pjrtc_link *link, bool wants_write) {
  return POLLIN;
}

/* ---- life ---- */

static void release(pjrtc_grpc_link *own) {
  drop_message(own);
  if (own->arrived) grpc_byte_buffer_destroy(own->arrived);
  free(own->out.data);
  if (own->call) grpc_call_unref(own->call);
  if (own->to.channel) grpc_channel_destroy(own->to.channel);
  if (own->queue) {
    grpc_completion_queue_shutdown(own->queue);
    while (grpc_completion_queue_next(own->queue, gpr_inf_future(GPR_CLOCK_MONOTONIC), NULL).type !=
           GRPC_QUEUE_SHUTDOWN) {
    }
    grpc_completion_queue_destroy(own->queue);
  }
  grpc_metadata_array_destroy(&own->initial_metadata);
  grpc_metadata_array_destroy(&own->trailing_metadata);
  grpc_slice_unref(own->details);
  if (own->event_fd >= 0) close(own->event_fd);
  pthread_mutex_destroy(&own->lock);
  free(own->target);
  free(own->ca_file);
  free(own);
}

static void link_close(pjrtc_link *link) {
  pjrtc_grpc_link *own = (pjrtc_grpc_link *)link;
  pthread_mutex_lock(&own->lock);
  own->closing = true;
  bool watching = own->watching;
  pthread_mutex_unlock(&own->lock);
  grpc_call_cancel(own->call, NULL);
  if (watching) pthread_join(own->watcher, NULL); /* it ends when all has completed */
  for (;;) {
    pthread_mutex_lock(&own->lock);
    bool idle = pjrtc_grpc_link_idle(own);
    pthread_mutex_unlock(&own->lock);
    if (idle) break;
    pjrtc_grpc_link_collect(own, gpr_inf_future(GPR_CLOCK_MONOTONIC));
  }
  release(own);
}

/* gRPC's state is the parent's, and so is a connection of gRPC's own making: it ends with this process or its next
 * program. */
static void link_close_in_child(pjrtc_link *link) {
  pjrtc_grpc_link *own = (pjrtc_grpc_link *)link;
  if (own->to.socket >= 0) close(own->to.socket);
}

static const pjrtc_link_ops ops = {.send = link_send,
                                   .receive = link_receive,
                                   .wait = link_wait,
                                   .wake = link_wake,
                                   .get_fd = pjrtc_grpc_link_watch,
                                   .get_events = link_get_events,
                                   .explain = pjrtc_grpc_link_explain,
                                   .close = link_close,
                                   .close_in_child = link_close_in_child};

static pthread_once_t started = PTHREAD_ONCE_INIT;

/* Never shut down: gRPC 1.51 does that in a thread of its own, which may outlive the caller's main. What it has to say
 * about a connection is in the error: only a program that uses gRPC itself, or asks for it, gets it on standard error,
 * too. */
static void start_grpc(void) {
  bool alone = !grpc_is_initialized();
  grpc_init();
  if (alone && !getenv("GRPC_VERBOSITY") && !getenv("GRPC_TRACE"))
    gpr_set_log_verbosity((gpr_log_severity)(GPR_LOG_SEVERITY_ERROR + 1));
}

__attribute__((visibility("default"))) pjrtc_grpc_open PJRTC_GRPC_OPEN;

pjrtc_code PJRTC_GRPC_OPEN(const pjrtc_grpc_options *options, pjrtc_link **out_link, pjrtc_grpc_error *out_error) {
  *out_link = NULL;
  pthread_once(&started, start_grpc);
  pjrtc_grpc_link *own = calloc(1, sizeof *own);
  char *target = own ? strdup(options->target) : NULL;
  char *ca_file = target && options->ca_file ? strdup(options->ca_file) : NULL;
  if (!target || (options->ca_file && !ca_file)) {
    free(target);
    free(own);
    snprintf(out_error->message, sizeof out_error->message, "out of memory");
    return PJRTC_RESOURCE_EXHAUSTED;
  }
  own->link.ops = &ops;
  own->target = target;
  own->ca_file = ca_file;
  own->event_fd = -1;
  own->details = grpc_empty_slice();
  grpc_metadata_array_init(&own->initial_metadata);
  grpc_metadata_array_init(&own->trailing_metadata);
  pthread_mutex_init(&own->lock, NULL);
  pjrtc_code code = pjrtc_dial(options, &own->to, out_error);
  if (code) {
    release(own);
    return code;
  }
  own->queue = grpc_completion_queue_create_for_next(NULL);
  own->call =
      grpc_channel_create_call(own->to.channel, NULL, GRPC_PROPAGATE_DEFAULTS, own->queue,
                               grpc_slice_from_static_string(METHOD), NULL, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
  pthread_mutex_lock(&own->lock);
  start_call(own);
  pthread_mutex_unlock(&own->lock);
  *out_link = &own->link;
  return PJRTC_OK;
}
