/* For the service layer's tests: a peer whose transport is the test itself. What the service sends is recorded; streams
 * are moved by hand. On the real plugin. */
#pragma once

#include "../state/runtime_fixture.h"
#include "service/call.h"
#include "service/messages.h"

/* Requests are written as short literals: what they leave out is 0. */
#pragma GCC diagnostic ignored "-Wmissing-field-initializers"

typedef struct {
  pjrtd_frame_header header;
  uint8_t *payload, *bulk;
} recorded;

enum { MOST_FRAMES = 20000, MOST_STREAMS = 64 };

typedef struct {
  pjrtd_peer peer; /* first */
  recorded frames[MOST_FRAMES];
  size_t num_frames, num_seen;
  bool in_frame, hung_up, is_full;
  bool is_mute; /* the connection is going: it takes no frames */
  pjrtd_stream *streams[MOST_STREAMS];
  size_t num_streams;
  int kicks;
  uint64_t next_call, next_buffer, next_program;
} fake_peer;

static fake_peer clients[2], *client = &clients[0];

static bool fake_begin_frame(pjrtd_peer *peer, const pjrtd_frame_header *header, uint8_t **out_payload,
                             uint8_t **out_bulk) {
  fake_peer *fake = (fake_peer *)peer;
  cr_assert_not(fake->in_frame, "a frame was begun inside another");
  cr_assert_not(peer->gone, "a frame for a connection that is gone");
  cr_assert_not(fake->hung_up, "a frame after hanging up");
  if (fake->is_mute) return false;
  cr_assert_lt(fake->num_frames, MOST_FRAMES);
  recorded *frame = &fake->frames[fake->num_frames++];
  frame->header = *header;
  *out_payload = frame->payload = malloc(header->payload_bytes + 1);
  *out_bulk = frame->bulk = malloc(header->bulk_bytes + 1);
  fake->in_frame = true;
  return true;
}

static void fake_end_frame(pjrtd_peer *peer) {
  fake_peer *fake = (fake_peer *)peer;
  cr_assert(fake->in_frame);
  fake->in_frame = false;
}

static void fake_start_stream(pjrtd_peer *peer, pjrtd_stream *stream) {
  fake_peer *fake = (fake_peer *)peer;
  cr_assert_lt(fake->num_streams, MOST_STREAMS);
  stream->owner = fake;
  fake->streams[fake->num_streams++] = stream;
}

static void fake_stop_stream(pjrtd_stream *stream) {
  fake_peer *fake = stream->owner;
  for (size_t i = 0; i < fake->num_streams; i++) {
    if (fake->streams[i] != stream) continue;
    fake->streams[i] = fake->streams[--fake->num_streams];
    return;
  }
  cr_assert_fail("a stream was stopped that is not there");
}

static void fake_kick(pjrtd_peer *peer) {
  ((fake_peer *)peer)->kicks++;
}
static bool fake_is_full(const pjrtd_peer *peer, uint64_t call) {
  return ((const fake_peer *)peer)->is_full;
}
static void fake_hang_up(pjrtd_peer *peer) {
  ((fake_peer *)peer)->hung_up = true;
}

static const pjrtd_peer_transport fake_transport = {.begin_frame = fake_begin_frame,
                                                    .end_frame = fake_end_frame,
                                                    .start_stream = fake_start_stream,
                                                    .stop_stream = fake_stop_stream,
                                                    .kick = fake_kick,
                                                    .is_full = fake_is_full,
                                                    .hang_up = fake_hang_up};

static const pjrtd_identity owner = {
    .local = true, .uid = 0, .pid = 1, .rights = PJRTD_RIGHT_USE | PJRTD_RIGHT_TRUSTED | PJRTD_RIGHT_ADMIN};

/* ---- sending ---- */

typedef struct {
  const void *bulk;
  uint32_t bulk_bytes;
  bool quiet;
  uint64_t deadline_ns;
} how;

/* A frame as it came off a socket. Its bytes are gone when the service returns. */
UNUSED static void hand_in(uint8_t kind, uint16_t method, uint64_t call, const void *payload, uint32_t payload_bytes,
                           how how) {
  uint8_t *bytes = malloc((size_t)payload_bytes + how.bulk_bytes + 1);
  if (payload_bytes) memcpy(bytes, payload, payload_bytes);
  if (how.bulk_bytes) memcpy(bytes + payload_bytes, how.bulk, how.bulk_bytes);
  const pjrtd_frame_header header = {.payload_bytes = payload_bytes,
                                     .bulk_bytes = how.bulk_bytes,
                                     .method = method,
                                     .kind = kind,
                                     .quiet = how.quiet,
                                     .call = call,
                                     .deadline_ns = how.deadline_ns};
  pjrtd_peer_on_frame(&client->peer, &header, bytes, bytes + payload_bytes);
  memset(bytes, 0xdd, (size_t)payload_bytes + how.bulk_bytes);
  free(bytes);
}

/* A request; its call id. Nothing has settled yet. */
UNUSED static uint64_t post(uint16_t method, const ProtobufCMessage *message, how how) {
  size_t size = protobuf_c_message_get_packed_size(message);
  uint8_t *payload = malloc(size + 1);
  protobuf_c_message_pack(message, payload);
  uint64_t call = ++client->next_call;
  hand_in(PJRTD_FRAME_REQUEST, method, call, payload, (uint32_t)size, how);
  free(payload);
  return call;
}

UNUSED static uint64_t request(uint16_t method, const ProtobufCMessage *message, how how) {
  uint64_t call = post(method, message, how);
  pjrtd_runtime_settle(runtime);
  return call;
}

#define EMPTY_MESSAGE (&(Pjrtd__V1__Empty)PJRTD__V1__EMPTY__INIT.base)

UNUSED static void cancel(uint64_t call) {
  hand_in(PJRTD_FRAME_CANCEL, 0, call, NULL, 0, (how){0});
  pjrtd_runtime_settle(runtime);
}

UNUSED static void grant_credit(uint64_t call, uint64_t bytes) {
  Pjrtd__V1__Credit credit = PJRTD__V1__CREDIT__INIT;
  credit.bytes = bytes;
  uint8_t payload[16];
  hand_in(PJRTD_FRAME_CREDIT, 0, call, payload, (uint32_t)pjrtd__v1__credit__pack(&credit, payload), (how){0});
}

/* One item, in parts of `part` bytes. False: nobody wanted it. */
UNUSED static bool send_item(uint64_t call, const uint8_t *data, uint32_t bytes, uint32_t part) {
  const pjrtd_frame_header header = {.bulk_bytes = bytes, .kind = PJRTD_FRAME_ITEM, .call = call};
  bool wanted = pjrtd_peer_item_begin(&client->peer, &header) != NULL;
  if (client->peer.failing) return false;
  for (uint32_t done = 0; done < bytes; done += part) {
    uint8_t *place = pjrtd_peer_item_place(&client->peer, call, done);
    uint32_t now = bytes - done < part ? bytes - done : part;
    if (place) memcpy(place, data + done, now);
  }
  pjrtd_peer_item_end(&client->peer, &header);
  pjrtd_runtime_settle(runtime);
  return wanted;
}

/* ---- what came back ---- */

UNUSED static recorded *find_frame(uint64_t call, uint8_t kind) {
  for (size_t i = 0; i < client->num_frames; i++)
    if (client->frames[i].header.call == call && client->frames[i].header.kind == kind) return &client->frames[i];
  return NULL;
}

UNUSED static size_t count_answers(uint64_t call) {
  size_t count = 0;
  for (size_t i = 0; i < client->num_frames; i++) {
    const pjrtd_frame_header *header = &client->frames[i].header;
    count += header->call == call && (header->kind == PJRTD_FRAME_REPLY || header->kind == PJRTD_FRAME_ERROR);
  }
  return count;
}

/* Waits for the answer, which has to be the only one. */
UNUSED static recorded *answer(uint64_t call) {
  TURN_UNTIL(count_answers(call));
  cr_assert_eq(count_answers(call), 1);
  recorded *frame = find_frame(call, PJRTD_FRAME_REPLY);
  return frame ? frame : find_frame(call, PJRTD_FRAME_ERROR);
}

/* The reply's message; the test fails where the answer is an error. */
UNUSED static void *reply(uint64_t call, const ProtobufCMessageDescriptor *descriptor) {
  recorded *frame = answer(call);
  if (frame->header.kind == PJRTD_FRAME_ERROR) {
    Pjrtd__V1__Error *error = pjrtd__v1__error__unpack(NULL, frame->header.payload_bytes, frame->payload);
    cr_assert_fail("call %d failed: %u %s", (int)call, error->code, error->message);
  }
  void *message = protobuf_c_message_unpack(descriptor, NULL, frame->header.payload_bytes, frame->payload);
  cr_assert_not_null(message);
  return message;
}

UNUSED static void free_reply(void *message) {
  protobuf_c_message_free_unpacked(message, NULL);
}

UNUSED static void succeed(uint64_t call) {
  recorded *frame = answer(call);
  if (frame->header.kind == PJRTD_FRAME_ERROR) {
    Pjrtd__V1__Error *error = pjrtd__v1__error__unpack(NULL, frame->header.payload_bytes, frame->payload);
    cr_assert_fail("call %d failed: %u %s", (int)call, error->code, error->message);
  }
}

/* The call has to fail so: code, a piece of the message, the call that failed first (0: do not look). */
UNUSED static void fails(uint64_t call, pjrtd_code code, const char *piece, uint64_t origin) {
  recorded *frame = answer(call);
  cr_assert_eq(frame->header.kind, PJRTD_FRAME_ERROR, "call %d succeeded", (int)call);
  Pjrtd__V1__Error *error = pjrtd__v1__error__unpack(NULL, frame->header.payload_bytes, frame->payload);
  cr_assert_not_null(error);
  cr_assert_eq(error->code, code, "%u: %s", error->code, error->message);
  cr_assert(strstr(error->message, piece), "'%s' is not in: %s", piece, error->message);
  if (origin) cr_assert_eq(error->origin_call, origin, "origin %d", (int)error->origin_call);
  pjrtd__v1__error__free_unpacked(error, NULL);
}

UNUSED static void is_silent(uint64_t call) {
  recorded *frame = find_frame(call, PJRTD_FRAME_ERROR);
  if (frame) {
    Pjrtd__V1__Error *error = pjrtd__v1__error__unpack(NULL, frame->header.payload_bytes, frame->payload);
    cr_assert_fail("call %d failed: %u %s", (int)call, error->code, error->message);
  }
  cr_assert_null(find_frame(call, PJRTD_FRAME_REPLY), "call %d was answered", (int)call);
}

/* ---- methods ---- */

UNUSED static uint64_t post_sync(void) {
  return post(PJRTD_METHOD_Session_Sync, EMPTY_MESSAGE, (how){0});
}

UNUSED static uint64_t hello_as(uint32_t least, uint32_t most) {
  Pjrtd__V1__HelloRequest hello = PJRTD__V1__HELLO_REQUEST__INIT;
  hello.min_version = least;
  hello.max_version = most;
  hello.client_name = "unit test";
  return request(PJRTD_METHOD_Runtime_Hello, &hello.base, (how){0});
}

typedef struct {
  uint64_t buffer;
  pjrtd_dtype dtype;
  size_t rank;
  int64_t dims[4];
  uint64_t data_bytes;
} upload;

UNUSED static uint64_t post_upload(upload what, how how) {
  Pjrtd__V1__TensorType type = PJRTD__V1__TENSOR_TYPE__INIT;
  type.dtype = (Pjrtd__V1__DType)what.dtype;
  type.n_dims = what.rank;
  type.dims = what.dims;
  Pjrtd__V1__UploadRequest message = PJRTD__V1__UPLOAD_REQUEST__INIT;
  message.buffer = what.buffer;
  message.type = &type;
  message.data_bytes = what.data_bytes;
  return post(PJRTD_METHOD_Buffer_Upload, &message.base, how);
}

/* f32[2] under a new id, at once. */
UNUSED static uint64_t make_pair(float first, float second) {
  uint64_t id = ++client->next_buffer;
  const float data[] = {first, second};
  uint64_t call = post_upload((upload){id, PJRTD_DTYPE_F32, 1, {2}, 8}, (how){.bulk = data, .bulk_bytes = 8});
  pjrtd_runtime_settle(runtime);
  succeed(call);
  return id;
}

/* An upload of f32[count] whose data will come as items. */
UNUSED static uint64_t begin_upload(uint64_t id, int64_t count, how how) {
  uint64_t call = post_upload((upload){id, PJRTD_DTYPE_F32, 1, {count}, (uint64_t)count * 4}, how);
  pjrtd_runtime_settle(runtime);
  return call;
}

UNUSED static uint64_t post_compile(uint64_t id, const char *text, how how) {
  Pjrtd__V1__CompileRequest message = PJRTD__V1__COMPILE_REQUEST__INIT;
  message.program = id;
  message.code_bytes = strlen(text);
  if (message.code_bytes <= PJRTD_FRAME_MAX_INLINE_BYTES) {
    how.bulk = text;
    how.bulk_bytes = (uint32_t)strlen(text);
  }
  return post(PJRTD_METHOD_Program_Compile, &message.base, how);
}

UNUSED static uint64_t make_program(const char *text) {
  uint64_t id = ++client->next_program;
  succeed(post_compile(id, text, (how){0}));
  return id;
}

typedef struct {
  uint64_t program;
  size_t n_args;
  uint64_t args[8];
  size_t n_outputs;
  uint64_t outputs[8];
  size_t n_fetch;
  uint32_t fetch[8];
} execution;

UNUSED static uint64_t post_execute(execution what, how how) {
  Pjrtd__V1__ExecuteRequest message = PJRTD__V1__EXECUTE_REQUEST__INIT;
  message.program = what.program;
  message.n_args = what.n_args;
  message.args = what.args;
  message.n_outputs = what.n_outputs;
  message.outputs = what.outputs;
  message.n_fetch = what.n_fetch;
  message.fetch = what.fetch;
  return post(PJRTD_METHOD_Execute_Execute, &message.base, how);
}

UNUSED static uint64_t bind_slot(const char *slot, uint64_t buffer, how how) {
  Pjrtd__V1__SlotBinding binding = PJRTD__V1__SLOT_BINDING__INIT, *list[] = {&binding};
  binding.slot = (char *)slot;
  binding.buffer = buffer;
  Pjrtd__V1__BindRequest message = PJRTD__V1__BIND_REQUEST__INIT;
  message.bindings = list;
  message.n_bindings = 1;
  return request(PJRTD_METHOD_Session_Bind, &message.base, how);
}

/* A step of a program with one argument and one output, from slot to slot; `steps` 0: an Execute. */
typedef struct {
  uint64_t program, steps, every, output;
  const char *from, *to;
} slot_step;

UNUSED static uint64_t step_slots(slot_step what, how how) {
  Pjrtd__V1__SlotArgument argument = PJRTD__V1__SLOT_ARGUMENT__INIT, *arguments[] = {&argument};
  Pjrtd__V1__FeedBack feed = PJRTD__V1__FEED_BACK__INIT, *feeds[] = {&feed};
  argument.slot = (char *)what.from;
  feed.slot = (char *)what.to;
  Pjrtd__V1__ExecuteRequest step = PJRTD__V1__EXECUTE_REQUEST__INIT;
  step.program = what.program;
  step.n_args = 1;
  step.args = (uint64_t[]){0};
  step.n_slot_args = step.n_feed_back = step.n_fetch = 1;
  step.slot_args = arguments;
  step.feed_back = feeds;
  step.fetch = (uint32_t[]){0};
  step.n_outputs = what.output ? 1 : 0;
  step.outputs = &what.output;
  if (!what.steps) return post(PJRTD_METHOD_Execute_Execute, &step.base, how);
  Pjrtd__V1__RunRequest run = PJRTD__V1__RUN_REQUEST__INIT;
  run.step = &step;
  run.steps = what.steps;
  run.every = what.every;
  return post(PJRTD_METHOD_Execute_Run, &run.base, how);
}

UNUSED static uint64_t execute(execution what, how how) {
  uint64_t call = post_execute(what, how);
  pjrtd_runtime_settle(runtime);
  return call;
}

UNUSED static uint64_t download(uint64_t id) {
  Pjrtd__V1__DownloadRequest message = PJRTD__V1__DOWNLOAD_REQUEST__INIT;
  message.buffer = id;
  return request(PJRTD_METHOD_Buffer_Download, &message.base, (how){0});
}

UNUSED static uint64_t stat_buffer(uint64_t id) {
  Pjrtd__V1__BufferRequest message = PJRTD__V1__BUFFER_REQUEST__INIT;
  message.buffer = id;
  return request(PJRTD_METHOD_Buffer_Stat, &message.base, (how){0});
}

UNUSED static uint64_t delete_buffer(uint64_t id) {
  Pjrtd__V1__DeleteRequest message = PJRTD__V1__DELETE_REQUEST__INIT;
  message.n_buffers = 1;
  message.buffers = &id;
  return request(PJRTD_METHOD_Buffer_Delete, &message.base, (how){0});
}

UNUSED static uint64_t describe(uint64_t id) {
  Pjrtd__V1__ProgramRequest message = PJRTD__V1__PROGRAM_REQUEST__INIT;
  message.program = id;
  return request(PJRTD_METHOD_Program_Describe, &message.base, (how){0});
}

UNUSED static void check_pair(uint64_t id, float first, float second) {
  recorded *frame = answer(download(id));
  cr_assert_eq(frame->header.kind, PJRTD_FRAME_REPLY);
  cr_assert_eq(frame->header.bulk_bytes, 8);
  float values[2];
  memcpy(values, frame->bulk, 8);
  cr_assert_eq(values[0], first, "%g", (double)values[0]);
  cr_assert_eq(values[1], second, "%g", (double)values[1]);
}

/* A program that runs until its argument, s32, has been counted down. */
#define COUNT_DOWN_TEXT                                                                                    \
  "module @count_down { func.func public @main(%a: tensor<i32>) -> tensor<i32> {\n"                        \
  "  %z = stablehlo.constant dense<0> : tensor<i32>\n  %one = stablehlo.constant dense<1> : tensor<i32>\n" \
  "  %0 = stablehlo.while(%x = %a) : tensor<i32> cond {\n"                                                 \
  "    %t = stablehlo.compare NE, %x, %z : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"                     \
  "    stablehlo.return %t : tensor<i1>\n  } do {\n"                                                       \
  "    %n = stablehlo.subtract %x, %one : tensor<i32>\n    stablehlo.return %n : tensor<i32>\n  }\n"       \
  "  return %0 : tensor<i32> } }\n"

/* An s32 buffer with the number of rounds. */
UNUSED static uint64_t make_rounds(int32_t rounds) {
  uint64_t id = ++client->next_buffer;
  uint64_t call = post_upload((upload){id, PJRTD_DTYPE_S32, 0, {0}, 4}, (how){.bulk = &rounds, .bulk_bytes = 4});
  succeed(call);
  return id;
}

/* ---- life ---- */

UNUSED static void open_client(fake_peer *which) {
  client = which;
  pjrtd_peer_init(&which->peer, &fake_transport, runtime, &owner);
  free_reply(reply(hello_as(1, 1), &pjrtd__v1__hello_reply__descriptor));
}

UNUSED static void open_service(void) {
  pjrtd_log_set_level(PJRTD_LOG_ERROR);
  open_runtime();
  ASSERT_OK(pjrtd_service_init());
  open_client(&clients[0]);
}

UNUSED static void drop_client(fake_peer *which) {
  pjrtd_peer_gone(&which->peer);
  cr_assert_eq(which->num_streams, 0);
  for (size_t i = 0; i < which->num_frames; i++) {
    free(which->frames[i].payload);
    free(which->frames[i].bulk);
  }
  which->num_frames = 0;
}

/* Drops all connections; then nothing of them may be left. */
UNUSED static void close_service(void) {
  for (int i = 0; i < 2; i++)
    if (clients[i].peer.transport) drop_client(&clients[i]);
  wait_until_idle();
  const pjrtd_stats *stats = &runtime->stats;
  cr_assert_eq(stats->sessions, 0);
  cr_assert_eq(stats->buffers, 0, "%d buffers are left", (int)stats->buffers);
  cr_assert_eq(stats->buffer_bytes, 0);
  cr_assert_eq(stats->programs, 0);
  cr_assert_eq(stats->staging_bytes, 0, "%d bytes of staging are left", (int)stats->staging_bytes);
  cr_assert_eq(stats->calls_in_flight, 0);
  cr_assert_eq(runtime->deadlines.count, 0);
  close_runtime();
  pjrtd_service_deinit();
}
