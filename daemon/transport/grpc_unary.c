/* Methods as ordinary RPCs: a message becomes a request, and the answer a message. Bulk is the last field of both;
 * where it is more than fits a frame, an upload (or a program) is a stream of messages, and so is a download. Loop
 * thread. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "service/call.h"
#include "transport/grpc_guest.h"

#define PACKAGE "/pjrtd.v1."
#define SESSION_KEY "pjrtd-session"
/* A download's message, and what is taken from an upload's at a time. */
#define PIECE_BYTES (256u << 10)
/* Unread answers of all unary calls together, in max_queued_bytes: no connection is known whose they would be. */
#define QUEUES 4
#define NS_A_SECOND UINT64_C(1000000000)

/* ---- what is answered ---- */

void grpc_unary_mark_dirty(grpc_unary *unary) {
  if (unary->dirty || unary->rpc.ended || unary->rpc.finished) return;
  unary->dirty = true;
  unary->next_dirty = unary->rpc.front->dirty_unary;
  unary->rpc.front->dirty_unary = unary;
}

static void drop_input(grpc_unary *unary) {
  if (!unary->has_input) return;
  grpc_slice_unref(unary->input);
  unary->has_input = false;
}

static grpc_byte_buffer *take_answer(grpc_unary *unary) {
  return grpc_message_of(PJRTD_TAKE(unary->answer), unary->answer_bytes);
}

/* The next piece of a download, as a message that is all bulk. False without memory. */
static bool send_piece(grpc_unary *unary) {
  pjrtd_stream *stream = unary->stream;
  size_t bytes = stream->remaining_bytes < PIECE_BYTES ? (size_t)stream->remaining_bytes : PIECE_BYTES;
  uint8_t *message = pjrtd_malloc(bytes + 16);
  if (!message) return false;
  size_t at = grpc_wire_bulk_tag(bytes, message);
  memcpy(message + at, stream->data, bytes);
  stream->data += bytes;
  stream->remaining_bytes -= bytes;
  unary->announced_bytes -= bytes;
  if (!stream->remaining_bytes) {
    unary->stream = NULL;
    stream->ended(stream);
  }
  unary->rpc.front->runtime->stats.bytes_sent += bytes;
  grpc_rpc_send(&unary->rpc, grpc_message_of(message, at + bytes));
  return true;
}

static void send_item(grpc_unary *unary) {
  grpc_answer *item = unary->items;
  unary->items = item->next;
  unary->item_bytes -= item->count;
  unary->rpc.front->runtime->stats.bytes_sent += item->count;
  grpc_rpc_send(&unary->rpc, grpc_message_of(item->bytes, item->count));
  pjrtd_free(item);
  if (unary->item_bytes || !unary->guest) return;
  pjrtd_peer_has_room(&unary->guest->peer);
  pjrtd_runtime_do_more(unary->rpc.front->runtime);
}

static void ask(grpc_unary *unary);

static void flush(grpc_unary *unary) {
  if (unary->rpc.sending || unary->rpc.finished || unary->rpc.ended) return;
  if (unary->items) {
    send_item(unary);
  } else if (unary->failed) {
    drop_input(unary);
    grpc_rpc_fail(&unary->rpc, unary->answer, unary->answer_bytes);
  } else if (unary->replied && unary->answer) {
    drop_input(unary);
    unary->rpc.front->runtime->stats.bytes_sent += unary->answer_bytes;
    if (unary->announced_bytes)
      grpc_rpc_send(&unary->rpc, take_answer(unary));
    else
      grpc_rpc_finish(&unary->rpc, take_answer(unary));
  } else if (unary->stream) {
    if (!send_piece(unary)) grpc_rpc_cancel(&unary->rpc);
  } else if (unary->replied && !unary->announced_bytes) {
    grpc_rpc_finish(&unary->rpc, NULL);
  } else if (unary->has_input && !unary->asked) {
    if (unary->guest) ask(unary);
  } else {
    grpc_unary_feed(unary);
  }
}

void grpc_unary_flush_all(grpc_front *front) {
  grpc_unary *at = PJRTD_TAKE(front->dirty_unary);
  while (at) {
    grpc_unary *next = at->next_dirty;
    at->dirty = false;
    flush(at);
    at = next;
  }
}

static void on_sent(grpc_rpc *rpc, bool ok) {
  if (ok) grpc_unary_mark_dirty((grpc_unary *)rpc);
}

/* ---- what is asked ---- */

/* How much bulk the request announces: the fields of UploadRequest and CompileRequest. */
static uint64_t announced(uint16_t method, const uint8_t *payload, size_t bytes, uint64_t here) {
  if (method == PJRTD_METHOD_Buffer_Upload) return grpc_wire_find_varint(payload, bytes, 3, 0);
  if (method == PJRTD_METHOD_Program_Compile) return grpc_wire_find_varint(payload, bytes, 2, 0);
  return here;
}

/* A call that has ended ignores it. */
static void cancel(grpc_unary *unary) {
  if (!unary->asked || !unary->guest) return;
  const pjrtd_frame_header header = {.method = unary->method, .kind = PJRTD_FRAME_CANCEL, .call = unary->call};
  pjrtd_peer_on_frame(&unary->guest->peer, &header, NULL, NULL);
}

static void refuse(grpc_unary *unary, pjrtd_status *status) {
  drop_input(unary);
  unary->failed = true; /* its answer is ours */
  cancel(unary);
  pjrtd_free(PJRTD_TAKE(unary->answer));
  if (unary->rpc.sending) {
    pjrtd_status_destroy(status);
    grpc_rpc_cancel(&unary->rpc);
    return;
  }
  grpc_rpc_fail_status(&unary->rpc, status);
}

/* Hundreds of calls that come at once do not all get their turn in one. */
static void in_another_turn(grpc_unary *unary) {
  grpc_unary_mark_dirty(unary);
  pjrtd_runtime_do_more(unary->rpc.front->runtime);
}

void grpc_unary_feed(grpc_unary *unary) {
  pjrtd_peer *peer = unary->guest ? &unary->guest->peer : NULL;
  while (peer && unary->has_input && !unary->failed && !unary->replied) {
    size_t here = (size_t)(unary->input_left.end - unary->input_left.at);
    if (!here) {
      drop_input(unary);
      break;
    }
    uint64_t bytes = here < unary->credit_bytes ? here : unary->credit_bytes;
    if (bytes > PIECE_BYTES) bytes = PIECE_BYTES;
    if (!bytes) return; /* a CREDIT comes */
    if (pjrtd_runtime_time_is_up(peer->runtime)) {
      in_another_turn(unary);
      return;
    }
    const pjrtd_frame_header item = {
        .bulk_bytes = (uint32_t)bytes, .method = unary->method, .kind = PJRTD_FRAME_ITEM, .call = unary->call};
    uint8_t *place = pjrtd_peer_item_begin(peer, &item);
    if (place) memcpy(place, unary->input_left.at, bytes);
    unary->input_left.at += bytes;
    unary->credit_bytes -= bytes;
    unary->expected_bytes -= bytes;
    pjrtd_peer_item_end(peer, &item);
  }
  if (!unary->has_input && unary->expected_bytes && !unary->failed && !unary->replied) grpc_rpc_receive(&unary->rpc);
}

/* Takes bulk that came; `false` where it was refused. */
static bool take_bulk(grpc_unary *unary, const uint8_t *bulk, size_t bytes) {
  if (bytes > unary->expected_bytes) {
    refuse(unary, PJRTD_INVALID("the stream carries more bulk bytes than its first message announces"));
    return false;
  }
  unary->input_left = (grpc_bytes){bulk, bulk + bytes};
  return true;
}

static void ask(grpc_unary *unary) {
  const uint8_t *bytes = GRPC_SLICE_START_PTR(unary->input), *bulk;
  size_t payload_bytes, bulk_bytes;
  const char *fault = grpc_wire_split_bulk(bytes, GRPC_SLICE_LENGTH(unary->input), &payload_bytes, &bulk, &bulk_bytes);
  if (!fault && payload_bytes > PJRTD_FRAME_MAX_PAYLOAD_BYTES) fault = "the message takes over 1 MiB beside its bulk";
  uint64_t all = announced(unary->method, bytes, payload_bytes, bulk_bytes);
  bool in_one = all == bulk_bytes && bulk_bytes <= PJRTD_FRAME_MAX_INLINE_BYTES;
  if (!fault && !in_one && all == bulk_bytes &&
      (unary->method == PJRTD_METHOD_Execute_Execute || unary->method == PJRTD_METHOD_Execute_Run))
    fault = "inline arguments take at most 64 KiB together; upload the others";
  if (fault) {
    refuse(unary, PJRTD_INVALID("%s", fault));
    return;
  }
  unary->call = unary->guest->peer.last_call + 1;
  const pjrtd_frame_header request = {.payload_bytes = (uint32_t)payload_bytes,
                                      .bulk_bytes = in_one ? (uint32_t)bulk_bytes : 0,
                                      .method = unary->method,
                                      .kind = PJRTD_FRAME_REQUEST,
                                      .call = unary->call,
                                      .deadline_ns = unary->deadline_ns};
  unary->asked = true;
  pjrtd_peer_on_frame(&unary->guest->peer, &request, bytes, bulk);
  if (in_one) {
    drop_input(unary);
    return;
  }
  unary->expected_bytes = all;
  unary->credit_bytes += unary->rpc.front->settings->upload_credit_bytes;
  if (!unary->failed && !unary->replied && take_bulk(unary, bulk, bulk_bytes)) grpc_unary_feed(unary);
}

static void on_message(grpc_rpc *rpc, grpc_byte_buffer *message) {
  grpc_unary *unary = (grpc_unary *)rpc;
  pjrtd_runtime_enter(rpc->front->runtime);
  if (!unary->guest || unary->failed || unary->replied) return;
  if (!message) {
    refuse(unary, unary->asked
                      ? PJRTD_INVALID("the stream ended %" PRIu64 " bulk bytes too early", unary->expected_bytes)
                      : PJRTD_INVALID("the call carries no message, or one of over 4 MiB"));
    return;
  }
  rpc->front->runtime->stats.bytes_received += grpc_byte_buffer_length(message);
  unary->input = grpc_message_bytes(message);
  unary->has_input = true;
  if (!unary->asked) {
    if (pjrtd_runtime_time_is_up(rpc->front->runtime))
      in_another_turn(unary);
    else
      ask(unary);
    return;
  }
  const uint8_t *bulk;
  size_t payload_bytes, bulk_bytes;
  const char *fault = grpc_wire_split_bulk(GRPC_SLICE_START_PTR(unary->input), GRPC_SLICE_LENGTH(unary->input),
                                           &payload_bytes, &bulk, &bulk_bytes);
  if (fault || payload_bytes)
    refuse(unary, PJRTD_INVALID("%s", fault ? fault : "a later message of a stream carries bulk and nothing else"));
  else if (take_bulk(unary, bulk, bulk_bytes))
    grpc_unary_feed(unary);
}

static void on_ended(grpc_rpc *rpc, bool cancelled) {
  grpc_unary *unary = (grpc_unary *)rpc;
  pjrtd_runtime_enter(rpc->front->runtime);
  for (grpc_unary **at = &rpc->front->dirty_unary; unary->dirty && *at; at = &(*at)->next_dirty) {
    if (*at != unary) continue;
    *at = unary->next_dirty;
    unary->dirty = false;
    break;
  }
  drop_input(unary);
  if (!unary->guest) return;
  cancel(unary); /* whatever it still does, nobody hears of it */
  grpc_guest_leave(unary);
}

static void free_unary(grpc_rpc *rpc) {
  grpc_unary *unary = (grpc_unary *)rpc;
  while (unary->items) {
    grpc_answer *item = unary->items;
    unary->items = item->next;
    pjrtd_free(item->bytes);
    pjrtd_free(item);
  }
  pjrtd_free(unary->answer);
  pjrtd_free(unary);
}

static const grpc_rpc_events events = {
    .on_message = on_message, .on_sent = on_sent, .on_ended = on_ended, .free = free_unary};

void grpc_unary_check_asked(grpc_rpc *rpc, uint64_t now_ns) {
  if (rpc->events != &events || rpc->ended || rpc->finished) return;
  const grpc_unary *unary = (const grpc_unary *)rpc;
  if (unary->asked || unary->has_input ||
      now_ns - unary->began_ns < rpc->front->settings->handshake_seconds * UINT64_C(1000000000))
    return;
  pjrtd_log(PJRTD_LOG_WARNING, "ending a gRPC call: no message within handshake_seconds");
  rpc->front->runtime->stats.clients_cut_off++;
  grpc_rpc_cancel(rpc);
}

/* ---- which method, whose session ---- */

/* "/pjrtd.v1.Buffer/Stat" is "Buffer.Stat" of the method table. */
static const pjrtd_method *method_of(const char *path) {
  if (strncmp(path, PACKAGE, sizeof PACKAGE - 1) != 0) return NULL;
  const char *name = path + sizeof PACKAGE - 1, *slash = strchr(name, '/');
  if (!slash) return NULL;
  size_t family = (size_t)(slash - name);
#define PJRTD_METHOD(id, Family, Name, name_, Request, Reply, right)                                    \
  if (strncmp(name, #Family, family) == 0 && family == sizeof #Family - 1 && !strcmp(slash + 1, #Name)) \
    return pjrtd_method_find(id);
#include "proto/methods.def"
#undef PJRTD_METHOD
  return NULL;
}

static uint64_t deadline_of(gpr_timespec deadline) {
  if (gpr_time_cmp(deadline, gpr_inf_future(deadline.clock_type)) == 0) return 0;
  gpr_timespec left = gpr_time_sub(deadline, gpr_now(deadline.clock_type));
  if (left.tv_sec < 0) return 1;
  if (left.tv_sec > INT64_MAX / 2 / (int64_t)NS_A_SECOND) return 0;
  uint64_t ns = (uint64_t)left.tv_sec * NS_A_SECOND + (uint64_t)left.tv_nsec;
  return ns ? ns : 1;
}

/* Borrowed; NULL: there is none. */
static const char *token_of(const grpc_metadata_array *metadata, size_t *out_length) {
  for (size_t i = 0; i < metadata->count; i++) {
    if (grpc_slice_str_cmp(metadata->metadata[i].key, SESSION_KEY) != 0) continue;
    *out_length = GRPC_SLICE_LENGTH(metadata->metadata[i].value);
    return (const char *)GRPC_SLICE_START_PTR(metadata->metadata[i].value);
  }
  return NULL;
}

static pjrtd_status *find_guest(grpc_front *front, const pjrtd_method *method, const grpc_metadata_array *metadata,
                                const char *path, grpc_guest **out_guest) {
  *out_guest = NULL;
  if (!method)
    return pjrtd_status_with_hint(
        pjrtd_status_make(PJRTD_CODE_UNIMPLEMENTED, "pjrtd " PJRTD_VERSION " has no method %s", path),
        "the client may be newer than the daemon");
  if (method->id == PJRTD_METHOD_Session_Attach)
    return pjrtd_status_with_hint(
        pjrtd_status_make(PJRTD_CODE_FAILED_PRECONDITION, "an RPC of its own is of no connection that could attach"),
        "send the session's token as the metadata " SESSION_KEY " with each call");
  size_t length = 0;
  const char *token = token_of(metadata, &length);
  bool of_a_session =
      method->needs_session || method->id == PJRTD_METHOD_Session_Close || method->id == PJRTD_METHOD_Session_Sync;
  if (!token && of_a_session)
    return pjrtd_status_with_hint(
        pjrtd_status_make(PJRTD_CODE_FAILED_PRECONDITION, "%s is of a session, and the call names none", method->name),
        "call Session.Open and send its token as the metadata " SESSION_KEY);
  if (front->queued_bytes > QUEUES * front->settings->max_queued_bytes)
    return pjrtd_status_with_retry(
        pjrtd_status_with_hint(
            pjrtd_status_make(PJRTD_CODE_RESOURCE_EXHAUSTED,
                              "answers of %" PRIu64 " bytes wait for their clients to read them", front->queued_bytes),
            "read answers, or raise max_queued_bytes"),
        NS_A_SECOND);
  PJRTD_TRY(grpc_guest_find(front, token, length, out_guest));
  if (method->id == PJRTD_METHOD_Session_Open) (*out_guest)->kept = true;
  if (method->id == PJRTD_METHOD_HELLO && !token) (*out_guest)->peer.greeted = false;
  return PJRTD_OK;
}

void grpc_unary_begin(grpc_front *front, grpc_call *call, const grpc_call_details *details,
                      const grpc_metadata_array *metadata, const char *path) {
  grpc_unary *unary = pjrtd_calloc(1, sizeof *unary);
  if (!unary) {
    grpc_call_refuse(call, GRPC_NO_MEMORY);
    return;
  }
  unary->began_ns = pjrtd_clock_now_ns();
  grpc_rpc_init(&unary->rpc, &events, front, call);
  const pjrtd_method *method = method_of(path);
  grpc_guest *guest;
  pjrtd_status *status = find_guest(front, method, metadata, path, &guest);
  if (status) {
    grpc_rpc_fail_status(&unary->rpc, status);
    return;
  }
  unary->method = method->id;
  unary->deadline_ns = deadline_of(details->deadline);
  grpc_guest_enter(guest, unary);
  grpc_rpc_receive(&unary->rpc);
}
