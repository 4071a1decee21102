/* See fake_peer.h. */
#include "fake_peer.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "grpc_bridge.h"
#include "pjrtd/v1/admin.pb-c.h"
#include "pjrtd/v1/buffer.pb-c.h"
#include "pjrtd/v1/execute.pb-c.h"
#include "pjrtd/v1/frame.pb-c.h"
#include "pjrtd/v1/program.pb-c.h"
#include "pjrtd/v1/runtime.pb-c.h"
#include "pjrtd/v1/session.pb-c.h"
#include "support/require.h"

void fake_peer_init(fake_peer *peer, fake_script *script, void *user) {
  *peer = (fake_peer){
      .fd = -1,
      .script = script,
      .user = user,
      .max_inline_bytes = PJRTD_FRAME_MAX_INLINE_BYTES,
      .max_item_bytes = PJRTD_FRAME_MAX_ITEM_BYTES,
      .max_calls_in_flight = 1024,
      .upload_credit_bytes = 4 << 20,
  };
}

static void *run(void *user) {
  fake_peer *peer = user;
  peer->fd = accept(peer->listener, NULL, NULL);
  if (peer->fd >= 0) {
    peer->accepted = true;
    peer->script(peer);
    close(peer->fd);
  }
  return NULL;
}

void fake_peer_start(fake_peer *peer) {
  char folder[] = "/tmp/pjrtc-test-XXXXXX";
  REQUIRE(mkdtemp(folder));
  snprintf(peer->path, sizeof peer->path, "%s/s", folder);
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strcpy(address.sun_path, peer->path);
  peer->listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  REQUIRE(bind(peer->listener, (struct sockaddr *)&address, sizeof address) == 0);
  REQUIRE(listen(peer->listener, 8) == 0);
  /* Signals are for the client under test. */
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  REQUIRE(pthread_create(&peer->thread, NULL, run, peer) == 0);
#ifdef FAKE_PEER_OVER_GRPC
  int port;
  peer->bridge = grpc_bridge_start(peer->path, &port);
  snprintf(peer->target, sizeof peer->target, "grpc://127.0.0.1:%d", port);
#else
  snprintf(peer->target, sizeof peer->target, "unix:%s", peer->path);
#endif
  pthread_sigmask(SIG_SETMASK, &before, NULL);
}

void fake_peer_join(fake_peer *peer) {
  shutdown(peer->listener, SHUT_RDWR); /* for a client that never came */
  pthread_join(peer->thread, NULL);
  close(peer->listener);
#ifdef FAKE_PEER_OVER_GRPC
  grpc_bridge_stop(peer->bridge);
#endif
  unlink(peer->path);
  *strrchr(peer->path, '/') = '\0';
  rmdir(peer->path);
}

pjrtc_client *fake_peer_connect_with(fake_peer *peer, const pjrtc_connect_options *options) {
  fake_peer_start(peer);
  pjrtc_error error = PJRTC_ERROR_INIT;
  pjrtc_client *client;
  pjrtc_code code = pjrtc_connect(peer->target, options, &client, &error);
  if (code) fprintf(stderr, "%s\n", error.message);
  REQUIRE(code == PJRTC_OK);
  return client;
}

pjrtc_client *fake_peer_connect(fake_peer *peer, fake_script *script, void *user) {
  fake_peer_init(peer, script, user);
  return fake_peer_connect_with(peer, NULL);
}

/* ---- Frames ---- */

static bool read_whole(fake_peer *peer, void *data, size_t size_bytes) {
  for (size_t done = 0; done < size_bytes;) {
    ssize_t result = recv(peer->fd, (char *)data + done, size_bytes - done, 0);
    if (result < 0 && errno == EINTR) continue;
    if (result <= 0) return false;
    done += (size_t)result;
  }
  return true;
}

bool peer_read(fake_peer *peer, fake_frame *out_frame) {
  uint8_t header[PJRTD_FRAME_HEADER_BYTES];
  memset(out_frame, 0, sizeof *out_frame);
  if (!read_whole(peer, header, sizeof header)) return false;
  const char *fault = pjrtd_frame_decode(header, &out_frame->header);
  REQUIRE(!fault);
  out_frame->payload = malloc(out_frame->header.payload_bytes + 1);
  out_frame->bulk = malloc(out_frame->header.bulk_bytes + 1);
  if (read_whole(peer, out_frame->payload, out_frame->header.payload_bytes) &&
      read_whole(peer, out_frame->bulk, out_frame->header.bulk_bytes))
    return true;
  peer_frame_free(out_frame);
  return false;
}

void peer_frame_free(fake_frame *frame) {
  free(frame->payload);
  free(frame->bulk);
  frame->payload = frame->bulk = NULL;
}

bool peer_expect(fake_peer *peer, pjrtd_frame_kind kind, pjrtd_frame_header *out_header) {
  fake_frame frame;
  while (peer_read(peer, &frame)) {
    *out_header = frame.header;
    peer_frame_free(&frame);
    if (out_header->kind == kind) return true;
  }
  return false;
}

void peer_write(fake_peer *peer, const void *data, size_t size_bytes) {
  for (size_t done = 0; done < size_bytes;) {
    ssize_t result = send(peer->fd, (const char *)data + done, size_bytes - done, MSG_NOSIGNAL);
    if (result < 0 && errno == EINTR) continue;
    if (result < 0) return; /* the client has gone */
    done += (size_t)result;
  }
}

void peer_send(fake_peer *peer, const pjrtd_frame_header *to, pjrtd_frame_kind kind, const void *payload,
               size_t payload_bytes, const void *bulk, size_t bulk_bytes) {
  uint8_t *frame = malloc(PJRTD_FRAME_HEADER_BYTES + payload_bytes + bulk_bytes);
  pjrtd_frame_encode(&(pjrtd_frame_header){.payload_bytes = (uint32_t)payload_bytes,
                                           .bulk_bytes = (uint32_t)bulk_bytes,
                                           .method = to->method,
                                           .kind = kind,
                                           .call = to->call},
                     frame);
  if (payload_bytes) memcpy(frame + PJRTD_FRAME_HEADER_BYTES, payload, payload_bytes);
  if (bulk_bytes) memcpy(frame + PJRTD_FRAME_HEADER_BYTES + payload_bytes, bulk, bulk_bytes);
  peer_write(peer, frame, PJRTD_FRAME_HEADER_BYTES + payload_bytes + bulk_bytes);
  free(frame);
}

static void send_message(fake_peer *peer, const pjrtd_frame_header *to, pjrtd_frame_kind kind,
                         const ProtobufCMessage *message, const void *bulk, size_t bulk_bytes) {
  size_t payload_bytes = message ? protobuf_c_message_get_packed_size(message) : 0;
  uint8_t *payload = malloc(payload_bytes + 1);
  if (message) protobuf_c_message_pack(message, payload);
  peer_send(peer, to, kind, payload, payload_bytes, bulk, bulk_bytes);
  free(payload);
}

void peer_reply(fake_peer *peer, const pjrtd_frame_header *to, const ProtobufCMessage *message, const void *bulk,
                size_t bulk_bytes) {
  send_message(peer, to, PJRTD_FRAME_REPLY, message, bulk, bulk_bytes);
}

void peer_item(fake_peer *peer, const pjrtd_frame_header *to, const ProtobufCMessage *message, const void *bulk,
               size_t bulk_bytes) {
  send_message(peer, to, PJRTD_FRAME_ITEM, message, bulk, bulk_bytes);
}

void peer_error(fake_peer *peer, const pjrtd_frame_header *to, uint32_t code, const char *message) {
  Pjrtd__V1__Error error = PJRTD__V1__ERROR__INIT;
  error.code = code;
  error.message = (char *)message;
  send_message(peer, to, PJRTD_FRAME_ERROR, &error.base, NULL, 0);
}

void peer_credit(fake_peer *peer, const pjrtd_frame_header *to, uint64_t bytes) {
  Pjrtd__V1__Credit credit = PJRTD__V1__CREDIT__INIT;
  credit.bytes = bytes;
  send_message(peer, to, PJRTD_FRAME_CREDIT, &credit.base, NULL, 0);
}

void peer_hello(fake_peer *peer) {
  fake_frame frame;
  if (!peer_read(peer, &frame)) return;
  REQUIRE(frame.header.method == PJRTC_METHOD_hello);
  Pjrtd__V1__HelloRequest *request = pjrtd__v1__hello_request__unpack(NULL, frame.header.payload_bytes, frame.payload);
  peer->download_credit_bytes = request->download_credit_bytes;
  pjrtd__v1__hello_request__free_unpacked(request, NULL);
  Pjrtd__V1__HelloReply reply = PJRTD__V1__HELLO_REPLY__INIT;
  reply.version = 1;
  reply.server_epoch = 77;
  reply.server_version = "9.9.9";
  reply.max_payload_bytes = PJRTD_FRAME_MAX_PAYLOAD_BYTES;
  reply.max_inline_bytes = peer->max_inline_bytes;
  reply.max_item_bytes = peer->max_item_bytes;
  reply.upload_credit_bytes = peer->upload_credit_bytes;
  reply.max_calls_in_flight = peer->max_calls_in_flight;
  reply.id_prefix = 3;
  peer_reply(peer, &frame.header, &reply.base, NULL, 0);
  peer_frame_free(&frame);
}

/* ---- A small pjrtd ---- */

typedef struct stored {
  struct stored *next;
  uint64_t id;
  Pjrtd__V1__TensorType *type;
  uint8_t *data;
  uint64_t size_bytes, received_bytes;
  uint64_t call; /* while its items arrive */
  bool quiet;
} stored;

typedef struct {
  fake_peer *peer;
  stored *buffers;
  uint64_t code_left, code_call; /* a compile whose items arrive */
  bool code_quiet;
  uint64_t failed_call; /* the first quiet failure */
  uint64_t last_buffer, last_program;
} server;

static stored *find(server *s, uint64_t id) {
  stored *b = s->buffers;
  while (b && b->id != id) b = b->next;
  return b;
}

static void drop(server *s, uint64_t id) {
  for (stored **link = &s->buffers; *link; link = &(*link)->next) {
    stored *b = *link;
    if (b->id != id) continue;
    *link = b->next;
    pjrtd__v1__tensor_type__free_unpacked(b->type, NULL);
    free(b->data);
    free(b);
    return;
  }
}

static Pjrtd__V1__TensorType *copy_type(const Pjrtd__V1__TensorType *type) {
  uint8_t packed[2048];
  return pjrtd__v1__tensor_type__unpack(NULL, pjrtd__v1__tensor_type__pack(type, packed), packed);
}

static stored *add(server *s, uint64_t id, const Pjrtd__V1__TensorType *type, uint64_t size_bytes) {
  stored *b = calloc(1, sizeof *b);
  *b = (stored){.next = s->buffers, .id = id, .type = copy_type(type), .size_bytes = size_bytes};
  b->data = malloc(size_bytes + 1);
  s->buffers = b;
  return b;
}

static void fail(server *s, const pjrtd_frame_header *to, uint32_t code, const char *message) {
  if (to->quiet && !s->failed_call) s->failed_call = to->call;
  peer_error(s->peer, to, code, message);
}

static void succeed(server *s, const pjrtd_frame_header *to, const ProtobufCMessage *message, const void *bulk,
                    size_t bulk_bytes) {
  if (!to->quiet) peer_reply(s->peer, to, message, bulk, bulk_bytes);
}

static void upload(server *s, const fake_frame *frame) {
  Pjrtd__V1__UploadRequest *request =
      pjrtd__v1__upload_request__unpack(NULL, frame->header.payload_bytes, frame->payload);
  if (request->buffer <= s->last_buffer || request->buffer >> 48 != 3) {
    fail(s, &frame->header, 3, "the id is not above all earlier ones");
  } else {
    s->last_buffer = request->buffer;
    stored *b = add(s, request->buffer, request->type, request->data_bytes);
    memcpy(b->data, frame->bulk, frame->header.bulk_bytes);
    b->received_bytes = frame->header.bulk_bytes;
    b->quiet = frame->header.quiet;
    if (b->received_bytes < b->size_bytes)
      b->call = frame->header.call;
    else
      succeed(s, &frame->header, NULL, NULL, 0);
  }
  pjrtd__v1__upload_request__free_unpacked(request, NULL);
}

static void item(server *s, const fake_frame *frame) {
  if (frame->header.call == s->code_call) {
    s->code_left -= frame->header.bulk_bytes;
    peer_credit(s->peer, &frame->header, frame->header.bulk_bytes);
    if (!s->code_left && !s->code_quiet) {
      Pjrtd__V1__ProgramDescription description = PJRTD__V1__PROGRAM_DESCRIPTION__INIT;
      Pjrtd__V1__CompileReply reply = PJRTD__V1__COMPILE_REPLY__INIT;
      reply.description = &description;
      peer_reply(s->peer, &frame->header, &reply.base, NULL, 0);
    }
    return;
  }
  stored *b = s->buffers;
  while (b && b->call != frame->header.call) b = b->next;
  REQUIRE(b);
  REQUIRE(b->received_bytes + frame->header.bulk_bytes <= b->size_bytes);
  memcpy(b->data + b->received_bytes, frame->bulk, frame->header.bulk_bytes);
  b->received_bytes += frame->header.bulk_bytes;
  peer_credit(s->peer, &frame->header, frame->header.bulk_bytes);
  if (b->received_bytes < b->size_bytes) return;
  b->call = 0;
  if (!b->quiet) peer_reply(s->peer, &frame->header, NULL, NULL, 0);
}

static void download(server *s, const fake_frame *frame) {
  Pjrtd__V1__DownloadRequest *request =
      pjrtd__v1__download_request__unpack(NULL, frame->header.payload_bytes, frame->payload);
  stored *b = find(s, request->buffer);
  pjrtd__v1__download_request__free_unpacked(request, NULL);
  if (!b) {
    fail(s, &frame->header, 5, "no such buffer");
    return;
  }
  Pjrtd__V1__DownloadReply reply = PJRTD__V1__DOWNLOAD_REPLY__INIT;
  reply.type = b->type;
  reply.data_bytes = b->size_bytes;
  bool inside = b->size_bytes <= s->peer->max_inline_bytes;
  peer_reply(s->peer, &frame->header, &reply.base, b->data, inside ? b->size_bytes : 0);
  /* The credits are read by the main loop; a window of the whole tensor is what the tests give. */
  for (uint64_t at = 0; !inside && at < b->size_bytes;) {
    uint64_t size_bytes = b->size_bytes - at < 100000 ? b->size_bytes - at : 100000;
    peer_send(s->peer, &frame->header, PJRTD_FRAME_ITEM, NULL, 0, b->data + at, size_bytes);
    at += size_bytes;
  }
}

static void execute(server *s, const fake_frame *frame) {
  Pjrtd__V1__ExecuteRequest *request =
      pjrtd__v1__execute_request__unpack(NULL, frame->header.payload_bytes, frame->payload);
  Pjrtd__V1__TensorType *type = NULL;
  const uint8_t *data = frame->bulk;
  uint64_t size_bytes = 0;
  if (request->n_args && request->args[0]) {
    stored *b = find(s, request->args[0]);
    if (b) type = b->type, data = b->data, size_bytes = b->size_bytes;
  } else if (request->n_inline_args) {
    type = request->inline_args[0]->type;
    size_bytes = request->inline_args[0]->data_bytes;
  }
  if (!type) {
    fail(s, &frame->header, 5, "no such buffer");
  } else {
    for (size_t i = 0; i < request->n_outputs; i++) {
      if (!request->outputs[i]) continue;
      REQUIRE(request->outputs[i] > s->last_buffer);
      s->last_buffer = request->outputs[i];
      stored *b = add(s, request->outputs[i], type, size_bytes);
      memcpy(b->data, data, size_bytes);
      b->received_bytes = size_bytes;
    }
    Pjrtd__V1__ExecuteReply reply = PJRTD__V1__EXECUTE_REPLY__INIT;
    Pjrtd__V1__FetchedTensor fetched[16];
    Pjrtd__V1__FetchedTensor *list[16];
    uint8_t *bulk = malloc(size_bytes * request->n_fetch + 1);
    for (size_t i = 0; i < request->n_fetch; i++) {
      pjrtd__v1__fetched_tensor__init(&fetched[i]);
      fetched[i].position = request->fetch[i];
      fetched[i].type = type;
      fetched[i].data_bytes = size_bytes;
      list[i] = &fetched[i];
      memcpy(bulk + i * size_bytes, data, size_bytes);
    }
    reply.n_fetched = request->n_fetch;
    reply.fetched = list;
    reply.execute_ns = 2000;
    succeed(s, &frame->header, &reply.base, bulk, size_bytes * request->n_fetch);
    free(bulk);
  }
  pjrtd__v1__execute_request__free_unpacked(request, NULL);
}

/* Each output is the first argument given by value. */
static void run_steps(server *s, const fake_frame *frame) {
  Pjrtd__V1__RunRequest *request = pjrtd__v1__run_request__unpack(NULL, frame->header.payload_bytes, frame->payload);
  const Pjrtd__V1__ExecuteRequest *step = request->step;
  Pjrtd__V1__RunReply reply = PJRTD__V1__RUN_REPLY__INIT;
  Pjrtd__V1__FetchedTensor fetched = PJRTD__V1__FETCHED_TENSOR__INIT, *list[] = {&fetched};
  if (step->n_fetch == 1 && step->n_inline_args) {
    fetched.position = step->fetch[0];
    fetched.type = step->inline_args[0]->type;
    fetched.data_bytes = step->inline_args[0]->data_bytes;
    reply.n_fetched = 1;
    reply.fetched = list;
  }
  uint64_t bytes = reply.n_fetched ? fetched.data_bytes : 0;
  for (reply.steps = 1; reply.steps < request->steps; reply.steps++)
    if (request->every && reply.steps % request->every == 0)
      peer_item(s->peer, &frame->header, &reply.base, frame->bulk, bytes);
  succeed(s, &frame->header, &reply.base, frame->bulk, bytes);
  pjrtd__v1__run_request__free_unpacked(request, NULL);
}

static void compile(server *s, const fake_frame *frame) {
  Pjrtd__V1__CompileRequest *request =
      pjrtd__v1__compile_request__unpack(NULL, frame->header.payload_bytes, frame->payload);
  s->last_program = request->program;
  if (request->code_bytes > frame->header.bulk_bytes) {
    s->code_left = request->code_bytes;
    s->code_call = frame->header.call;
    s->code_quiet = frame->header.quiet;
  } else {
    Pjrtd__V1__ProgramDescription description = PJRTD__V1__PROGRAM_DESCRIPTION__INIT;
    description.name = "toy";
    Pjrtd__V1__CompileReply reply = PJRTD__V1__COMPILE_REPLY__INIT;
    reply.description = &description;
    reply.compile_ns = 5;
    succeed(s, &frame->header, &reply.base, NULL, 0);
  }
  pjrtd__v1__compile_request__free_unpacked(request, NULL);
}

static void delete_buffers(server *s, const fake_frame *frame) {
  Pjrtd__V1__DeleteRequest *request =
      pjrtd__v1__delete_request__unpack(NULL, frame->header.payload_bytes, frame->payload);
  bool found = true;
  for (size_t i = 0; i < request->n_buffers; i++) {
    found &= find(s, request->buffers[i]) != NULL;
    drop(s, request->buffers[i]);
  }
  if (found)
    succeed(s, &frame->header, NULL, NULL, 0);
  else
    fail(s, &frame->header, 5, "no such buffer");
  pjrtd__v1__delete_request__free_unpacked(request, NULL);
}

static void stat(server *s, const fake_frame *frame) {
  Pjrtd__V1__BufferRequest *request =
      pjrtd__v1__buffer_request__unpack(NULL, frame->header.payload_bytes, frame->payload);
  stored *b = find(s, request->buffer);
  pjrtd__v1__buffer_request__free_unpacked(request, NULL);
  if (!b) {
    fail(s, &frame->header, 5, "no such buffer");
    return;
  }
  Pjrtd__V1__StatReply reply = PJRTD__V1__STAT_REPLY__INIT;
  reply.type = b->type;
  reply.host_bytes = reply.device_bytes = b->size_bytes;
  reply.memory_kind = "device";
  peer_reply(s->peer, &frame->header, &reply.base, NULL, 0);
}

static void sync_session(server *s, const fake_frame *frame) {
  Pjrtd__V1__SyncReply reply = PJRTD__V1__SYNC_REPLY__INIT;
  Pjrtd__V1__Error error = PJRTD__V1__ERROR__INIT;
  error.code = 5;
  error.message = "no such buffer";
  reply.last_call = frame->header.call - 1;
  reply.failed_call = s->failed_call;
  if (s->failed_call) reply.error = &error;
  s->failed_call = 0;
  peer_reply(s->peer, &frame->header, &reply.base, NULL, 0);
}

static void tell_published(server *s, const fake_frame *frame) {
  Pjrtd__V1__PublicationInfo info = PJRTD__V1__PUBLICATION_INFO__INIT, *list[] = {&info};
  Pjrtd__V1__PublishedReply reply = PJRTD__V1__PUBLISHED_REPLY__INIT;
  info.name = "model";
  reply.n_publications = 1;
  reply.publications = list;
  peer_reply(s->peer, &frame->header, &reply.base, NULL, 0);
}

static void answer(server *s, const fake_frame *frame) {
  switch (frame->header.method) {
    case PJRTC_METHOD_buffer_upload: upload(s, frame); return;
    case PJRTC_METHOD_buffer_download: download(s, frame); return;
    case PJRTC_METHOD_buffer_stat: stat(s, frame); return;
    case PJRTC_METHOD_buffer_delete: delete_buffers(s, frame); return;
    case PJRTC_METHOD_program_compile: compile(s, frame); return;
    case PJRTC_METHOD_execute: execute(s, frame); return;
    case PJRTC_METHOD_execute_run: run_steps(s, frame); return;
    case PJRTC_METHOD_session_sync: sync_session(s, frame); return;
    case PJRTC_METHOD_session_published: tell_published(s, frame); return;
    default: succeed(s, &frame->header, NULL, NULL, 0); return;
  }
}

void peer_serve(fake_peer *peer) {
  peer_hello(peer);
  server s = {.peer = peer};
  fake_frame frame;
  while (peer_read(peer, &frame)) {
    if (frame.header.kind == PJRTD_FRAME_REQUEST) answer(&s, &frame);
    if (frame.header.kind == PJRTD_FRAME_ITEM) item(&s, &frame);
    peer_frame_free(&frame);
  }
  while (s.buffers) drop(&s, s.buffers->id);
}
