/* The gRPC front end: connections over TCP, served by gRPC C core.
 *
 * Threads: gRPC completes operations on a queue that one pump thread waits at; each completion becomes a message to the
 * loop, where everything else happens. While the loop polls it looks at the queue itself (grpc_pump.c). The loop starts
 * operations, and gRPC writes to the socket in that call.
 * gRPC's own threads never run code of ours, but for freeing what was sent.
 *
 * Plaintext connections are accepted here and handed over by descriptor: gRPC 1.51's own listener stays dead once a
 * process has run out of descriptors. Loop thread, but for the pump. */
#pragma once

#include <grpc/byte_buffer.h>
#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc.h>
#include <stdatomic.h>
#include <uv.h>

#include "service/peer.h"
#include "transport/give_way.h"

/* What one message may take. A frame has at most 1 MiB of payload; a client puts many small frames into a message. */
#define GRPC_MAX_MESSAGE_BYTES (4u << 20)
#define GRPC_DEFAULT_PORT "7578"

typedef struct grpc_front grpc_front;
typedef struct grpc_rpc grpc_rpc;
typedef struct grpc_listener grpc_listener;
typedef struct grpc_connection grpc_connection;
typedef struct grpc_channel_rpc grpc_channel_rpc;
typedef struct grpc_unary grpc_unary;
typedef struct grpc_guest grpc_guest;
typedef struct grpc_health_rpc grpc_health_rpc;

/* An operation that gRPC has under way. */
typedef struct grpc_tag grpc_tag;
struct grpc_tag {
  pjrtd_message message; /* first */
  void (*done)(grpc_tag *tag, bool ok);
  bool ok;
  /* Set with release where an operation starts, read with acquire where it completes: what was written before is seen
   * there. gRPC orders the two as well, but says so nowhere. */
  _Atomic bool started;
};

/* `done` is called on the loop, as often as the tag is started. */
grpc_tag grpc_tag_make(void (*done)(grpc_tag *tag, bool ok));

static inline void grpc_tag_start(grpc_tag *tag) {
  atomic_store_explicit(&tag->started, true, memory_order_release);
}

/* Who waits at the completion queue (grpc_pump.c). Loop thread, where nothing else is said. */
typedef struct {
  pjrtd_runtime *runtime;
  grpc_completion_queue *queue;
  uv_thread_t thread;
  bool running, closing;
  _Atomic bool ended;      /* any thread */
  _Atomic bool loop_polls; /* any thread: the pump is to hand its place over */
  pjrtd_message handed_over;
  uv_sem_t handed_back;
  bool loop_has_place;
  uv_idle_t spin; /* active as long as it has */
  uint64_t hot_until_ns;
  pjrtd_crowding crowding;
} grpc_pump;

/* On failure, too, grpc_pump_join is to follow. */
PJRTD_MUST_USE pjrtd_status *grpc_pump_start(grpc_pump *own, pjrtd_runtime *runtime, grpc_completion_queue *queue);
/* Before the loop may sleep. */
void grpc_pump_end_turn(grpc_pump *own);
/* The place is the pump's from now on. */
void grpc_pump_close(grpc_pump *own);
/* Waits for the end of the queue, which was shut down; handles everything that completes before. */
void grpc_pump_join(grpc_pump *own);

struct grpc_front {
  pjrtd_runtime *runtime;
  const pjrtd_settings *settings;
  grpc_server *server;
  grpc_completion_queue *queue;
  grpc_server_credentials *plaintext;
  grpc_pump pump;
  bool closing;
  grpc_listener *listeners;
  grpc_connection *connections;
  grpc_rpc *rpcs; /* all that are under way */
  uint64_t num_rpcs;
  grpc_channel_rpc *dirty;         /* have something to send at the end of the turn */
  grpc_channel_rpc *waiting;       /* have frames that wait for a later turn */
  grpc_channel_rpc **last_waiting; /* where the next goes */
  grpc_unary *dirty_unary;
  uv_idle_t resume;     /* active while there are any */
  uv_prepare_t prepare; /* before the loop may sleep */
  grpc_guest *guests;   /* sessions of unary calls */
  uint64_t num_guests;
  grpc_health_rpc *watchers;      /* of health */
  uv_timer_t watch;               /* ends those that nobody uses */
  uint64_t num_accepting;         /* grpc_server_request_call under way */
  uint64_t queued_bytes;          /* of all RPCs */
  void (*next_flush)(void *user); /* the front end that was there before */
  void *next_flush_user;
};

PJRTD_MUST_USE pjrtd_status *grpc_front_create(pjrtd_runtime *runtime, grpc_front **out_front);
/* `address` is HOST:PORT or HOST; port 0 is any. `*out_target` (owned) is where it really listens, "grpc://HOST:PORT".
 */
PJRTD_MUST_USE pjrtd_status *grpc_front_listen(grpc_front *front, const char *address, char **out_target);
void grpc_front_stop_listening(grpc_front *front);
/* Whether an answer is on its way out. */
bool grpc_front_is_writing(const grpc_front *front);
/* Ends every call and waits for gRPC to let go; then run the loop, and destroy. */
void grpc_front_close(grpc_front *front);
void grpc_front_destroy(grpc_front *front);

/* ---- inside ---- */

/* grpc_connection.c. Takes the socket, on failure too. */
PJRTD_MUST_USE pjrtd_status *grpc_connection_create(grpc_front *front, int descriptor);
/* Closes connections of which nothing came for too long, and serves those that waited for a descriptor. */
void grpc_connections_check(grpc_front *front, uint64_t now_ns);
void grpc_front_forget_connections(grpc_front *front);
/* A connected socket becomes gRPC's. */
void grpc_front_adopt(grpc_front *front, int descriptor);
/* Anybody over plaintext TCP. */
extern const pjrtd_identity grpc_remote_identity;

/* One RPC. What embeds it, first, gets to know through these: */
typedef struct {
  /* A message came, borrowed; NULL: the client will send no more. Asked for with grpc_rpc_receive. */
  void (*on_message)(grpc_rpc *rpc, grpc_byte_buffer *message);
  /* What grpc_rpc_send was given is out of our hands; false: the call is over. */
  void (*on_sent)(grpc_rpc *rpc, bool ok);
  /* The call is over, for whatever reason; `cancelled`: before it was finished. Once, and nothing follows but `free`.
   */
  void (*on_ended)(grpc_rpc *rpc, bool cancelled);
  void (*free)(grpc_rpc *rpc);
} grpc_rpc_events;

struct grpc_rpc {
  const grpc_rpc_events *events;
  grpc_front *front;
  grpc_rpc *next, **link;
  grpc_call *call;
  grpc_tag received, sent, closed;
  grpc_byte_buffer *incoming;
  int cancelled;
  unsigned pending;    /* tags that gRPC has */
  size_t queued_bytes; /* of messages that wait for the client to read */
  uint64_t sending_since_ns;
  bool begun; /* initial metadata is out */
  bool sending, receiving, finished, ended;
};

/* Takes the call. */
void grpc_rpc_init(grpc_rpc *rpc, const grpc_rpc_events *events, grpc_front *front, grpc_call *call);
void grpc_rpc_receive(grpc_rpc *rpc);
/* Takes `message`. One at a time: not before on_sent of the last. */
void grpc_rpc_send(grpc_rpc *rpc, grpc_byte_buffer *message);
/* Ends the call well, with a last message (taken; may be NULL). Once; not while sending. */
void grpc_rpc_finish(grpc_rpc *rpc, grpc_byte_buffer *message);
/* Ends it with an error: a packed pjrtd.v1.Error, or a status (taken). The same goes for them. */
void grpc_rpc_fail(grpc_rpc *rpc, const uint8_t *error, size_t bytes);
void grpc_rpc_fail_status(grpc_rpc *rpc, pjrtd_status *status);
/* Ends it at once, whatever is under way. */
void grpc_rpc_cancel(grpc_rpc *rpc);

#define GRPC_NO_MEMORY "no memory for another call"
/* Ends a call that cannot be served with RESOURCE_EXHAUSTED; takes it. */
void grpc_call_refuse(grpc_call *call, const char *why);

/* Bytes (taken, pjrtd_malloc's) as a message. */
grpc_byte_buffer *grpc_message_of(uint8_t *bytes, size_t count);
grpc_slice grpc_slice_of(uint8_t *bytes, size_t count);
/* The bytes of a message, in one piece: to be unreffed. */
grpc_slice grpc_message_bytes(grpc_byte_buffer *message);

/* An RPC by its path; takes the call. grpc_channel.c, grpc_unary.c. */
void grpc_channel_begin(grpc_front *front, grpc_call *call);
void grpc_unary_begin(grpc_front *front, grpc_call *call, const grpc_call_details *details,
                      const grpc_metadata_array *metadata, const char *path);
/* Send what the turn has made. */
void grpc_channel_flush_all(grpc_front *front);
void grpc_unary_flush_all(grpc_front *front);

/* The standard services (grpc_health.c, grpc_reflection.c): false where the path is none of theirs; else the call is
 * taken. */
bool grpc_health_begin(grpc_front *front, grpc_call *call, const char *path);
bool grpc_reflection_begin(grpc_front *front, grpc_call *call, const char *path);
/* Tells those that watch what has changed. */
void grpc_health_update(grpc_front *front);
/* Has grpc_channel_resume_all called in the next turn. */
void grpc_front_start_resuming(grpc_front *front);
/* Goes on with frames that waited. */
void grpc_channel_resume_all(grpc_front *front);
/* Ends a channel that has said no hello for too long; other RPCs it leaves alone. */
void grpc_channel_check_hello(grpc_rpc *rpc, uint64_t now_ns);
/* The same for a unary call whose message does not come. */
void grpc_unary_check_asked(grpc_rpc *rpc, uint64_t now_ns);
/* Ends the sessions of unary calls that were not used for a while; all of them where `now_ns` is UINT64_MAX. */
void grpc_unary_end_idle(grpc_front *front, uint64_t now_ns);
