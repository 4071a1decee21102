/* pjrtc: sessions. Part of pjrtc.h. */
#ifndef PJRTC_SESSION_H_
#define PJRTC_SESSION_H_

#include "client.h"

#ifdef __cplusplus
extern "C" {
#endif

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

/* While a session of a higher priority has something for a device, those of lower ones wait; sessions of one priority
 * share the device's time evenly. */
typedef enum pjrtc_priority {
  PJRTC_PRIORITY_UNSPECIFIED = 0, /* told by a server that knows none */
  PJRTC_PRIORITY_LOW = 1,
  PJRTC_PRIORITY_NORMAL = 2, /* of a new session */
  PJRTC_PRIORITY_HIGH = 3,
} pjrtc_priority;

/* Changes the priority of the connection's session, for what waits already, too. PERMISSION_DENIED: a high one is for
 * those who run the server. UNIMPLEMENTED: the server is too old. */
PJRTC_API pjrtc_code pjrtc_session_set_priority(pjrtc_client *client, pjrtc_priority priority, pjrtc_error *error);

/* Changes the session's home: the device of uploads that name none, and of programs for one device that come without an
 * assignment. What there is stays where it is. */
PJRTC_API pjrtc_code pjrtc_session_set_home(pjrtc_client *client, int32_t device, pjrtc_error *error);

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
  uint64_t buffer; /* 0: it has no id any more, a slot holds it */
  uint64_t bytes;  /* on the device */
  pjrtc_type type;
  int32_t device;
  const char *slot; /* one that holds it, where it has no id; else "" */
} pjrtc_session_buffer;

typedef struct pjrtc_quota_use {
  size_t struct_size;
  const char *setting; /* the server's: "max_session_device_bytes", "max_identity_buffers" */
  uint64_t used;
  uint64_t allowed; /* 0: no limit of its own */
} pjrtc_quota_use;

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
  uint64_t slots;
  pjrtc_priority priority;
  int32_t home_device;
  uint64_t device_ns;                   /* device time that its executions took */
  const pjrtc_quota_use *const *quotas; /* the session's own, and all of its owner's sessions' */
  size_t num_quotas;
  uint64_t reserved_bytes; /* device memory that calls under way will take; among what is used */
  uint64_t idle_left_ns;   /* once its connections were warned: until it ends, unless it is used; else 0 */
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

/* ---- Slots ----------------------------------------------------------------------------------------------------- */

/* A slot is a name of the session's, of 1 to 255 bytes, for a buffer that persists: weights, optimiser state, a cache.
 * It holds the buffer whatever becomes of the buffer's id. pjrtc_execute takes slots as arguments and feeds outputs
 * back into them, so that a step is the same request each time, names no new id, and leaves nothing to be deleted.
 *
 * Slots are looked up when the server gets a call, in the order in which calls were started. Where a step fails, its
 * slots have what they had before; unless the step consumed that: then they fail with its error, until something is
 * bound to them. */

typedef struct pjrtc_slot_binding {
  const char *slot;
  uint64_t buffer;
} pjrtc_slot_binding;

/* The slots, which are made where there are none, hold these buffers from now on; the ids can be deleted. All of them,
 * or none where one cannot be. RESOURCE_EXHAUSTED: the server's max_session_slots. */
PJRTC_API pjrtc_code pjrtc_bind(pjrtc_client *client, const pjrtc_slot_binding *bindings, size_t num_bindings,
                                pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_bind_start(pjrtc_client *client, const pjrtc_slot_binding *bindings, size_t num_bindings,
                                      pjrtc_future **out_future, pjrtc_error *error);

/* Takes slots away. All that exist go; NOT_FOUND names the first that does not. */
PJRTC_API pjrtc_code pjrtc_unbind(pjrtc_client *client, const char *const *slots, size_t num_slots, pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_unbind_start(pjrtc_client *client, const char *const *slots, size_t num_slots,
                                        pjrtc_future **out_future, pjrtc_error *error);

/* Gives what the slots hold now ids, to download it, say: `num_slots` of them, into `out_buffers`. They are to be
 * deleted like all others, and keep what they name although the slots go on. */
PJRTC_API pjrtc_code pjrtc_lookup(pjrtc_client *client, const char *const *slots, size_t num_slots,
                                  uint64_t *out_buffers, pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_lookup_start(pjrtc_client *client, const char *const *slots, size_t num_slots,
                                        uint64_t *out_buffers, pjrtc_future **out_future, pjrtc_error *error);

typedef enum pjrtc_slot_state {
  PJRTC_SLOT_UNKNOWN = 0,
  PJRTC_SLOT_READY = 1,
  PJRTC_SLOT_PENDING = 2,  /* a call that is under way makes it */
  PJRTC_SLOT_FAILED = 3,   /* the step that consumed it failed: `code` and `message` */
  PJRTC_SLOT_CONSUMED = 4, /* donated, and nothing fed back */
} pjrtc_slot_state;

typedef struct pjrtc_slot {
  size_t struct_size;
  const char *slot;
  pjrtc_slot_state state;
  int32_t device; /* where it is READY, as are the next two */
  pjrtc_type type;
  uint64_t bytes;      /* on the device */
  pjrtc_code code;     /* where it is FAILED: how */
  const char *message; /* "" otherwise */
  bool published;      /* other sessions may hold it, too: it is read-only, see below */
} pjrtc_slot;

typedef struct pjrtc_slots {
  size_t struct_size;
  const pjrtc_slot *const *slots;
  size_t num_slots;
} pjrtc_slots;

/* What is in the connection's session's slots: in `num_slots` of them, or in all (0), in no order. OUT_OF_RANGE: there
 * are more than one answer holds, ask for them by name. NOT_FOUND names the first that does not exist. */
PJRTC_API pjrtc_code pjrtc_get_slots(pjrtc_client *client, const char *const *slots, size_t num_slots,
                                     pjrtc_slots **out_slots, pjrtc_error *error);
PJRTC_API void pjrtc_slots_destroy(pjrtc_slots *slots);

/* ---- Published slots ------------------------------------------------------------------------------------------- */

/* Weights that sessions share: one publishes slots under a name of the host's, others borrow what they held then into
 * slots of their own, without a copy. It is read-only from then on: an execution that donates it, whosever it is, fails
 * with INVALID_ARGUMENT, unless it lists the argument in `non_donatable`. To feed another value back into such a slot
 * is fine: the slot has that, and the others keep what was published.
 *
 * It is there once, on the account of the session that made it, until nobody has a name for it any more. */

typedef struct pjrtc_publish_options {
  size_t struct_size;
  const char *name;         /* 1 to 64 letters, digits, '.', '_' or '-' */
  const char *const *slots; /* `num_slots` of them, or all (0) */
  size_t num_slots;
  bool everybody;       /* may borrow it; otherwise sessions of the same user, and of */
  const uint32_t *uids; /* these users of the server's host, at most 64 */
  size_t num_uids;
} pjrtc_publish_options;

/* Publishes what the slots hold now, until it is withdrawn or the session ends. ALREADY_EXISTS: the name is taken,
 * maybe by what you may not see. NOT_FOUND names the first slot that does not exist. RESOURCE_EXHAUSTED: there are 4096
 * publications. */
PJRTC_API pjrtc_code pjrtc_publish(pjrtc_client *client, const pjrtc_publish_options *options, pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_publish_start(pjrtc_client *client, const pjrtc_publish_options *options,
                                         pjrtc_future **out_future, pjrtc_error *error);

/* Nobody borrows it any more; who has borrowed it keeps it. Any connection of the user's may ask for it.
 * PERMISSION_DENIED: another user published it. */
PJRTC_API pjrtc_code pjrtc_withdraw(pjrtc_client *client, const char *name, pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_withdraw_start(pjrtc_client *client, const char *name, pjrtc_future **out_future,
                                          pjrtc_error *error);

typedef struct pjrtc_borrowed_slot {
  const char *slot; /* as its publisher calls it */
  const char *as;   /* the slot that holds it from now on; NULL: of the same name */
} pjrtc_borrowed_slot;

/* The session's slots, which are made where there are none, hold what is published: `num_slots` of it, or all (0). All
 * of them, or none where one cannot be. NOT_FOUND: nothing is published under that name, or not to you; or it names the
 * first slot that is not part of it. RESOURCE_EXHAUSTED: the server's max_session_slots. */
PJRTC_API pjrtc_code pjrtc_borrow(pjrtc_client *client, const char *name, const pjrtc_borrowed_slot *slots,
                                  size_t num_slots, pjrtc_error *error);
PJRTC_API pjrtc_code pjrtc_borrow_start(pjrtc_client *client, const char *name, const pjrtc_borrowed_slot *slots,
                                        size_t num_slots, pjrtc_future **out_future, pjrtc_error *error);

typedef struct pjrtc_publication {
  size_t struct_size;
  const char *name;
  uint64_t session;         /* that published it */
  const char *session_name; /* "": none */
  bool local;               /* its publisher is a user of the server's host: `uid` */
  uint32_t uid;
  bool own;       /* you may withdraw it */
  bool everybody; /* may borrow it */
  uint64_t slots;
  uint64_t bytes;    /* on devices */
  uint64_t borrowed; /* times, so far */
} pjrtc_publication;

typedef struct pjrtc_published {
  size_t struct_size;
  const pjrtc_publication *const *publications;
  size_t num_publications;
} pjrtc_published;

/* What the connection's session may borrow, in no order. */
PJRTC_API pjrtc_code pjrtc_get_published(pjrtc_client *client, pjrtc_published **out_published, pjrtc_error *error);
PJRTC_API void pjrtc_published_destroy(pjrtc_published *published);

#ifdef __cplusplus
}
#endif

#endif /* PJRTC_SESSION_H_ */
