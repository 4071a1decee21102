/* A namespace of buffers and programs that belongs to an identity. Loop thread only. */
#pragma once

#include "base/id_map.h"
#include "state/buffer.h"
#include "state/identity.h"
#include "state/program.h"
#include "state/quota.h"
#include "state/slots.h"

#define PJRTD_TOKEN_CHARS 43 /* 256 bits in base64url */
#define PJRTD_MAX_SESSION_NAME 64
/* Conversations that a session may have had; their ids tell them apart by 16 bits. */
#define PJRTD_MAX_ID_SPACES 65536

typedef enum { PJRTD_ID_BUFFER, PJRTD_ID_PROGRAM, PJRTD_ID_KINDS } pjrtd_id_kind;

/* The ids that one connection may choose: their top 16 bits are `prefix`, each kind strictly increasing. */
typedef struct {
  uint16_t prefix;
  bool used; /* by a connection now */
  uint64_t highest[PJRTD_ID_KINDS];
} pjrtd_id_space;

typedef struct pjrtd_peer pjrtd_peer;

struct pjrtd_session {
  pjrtd_runtime *runtime;
  pjrtd_session *next, **link; /* in the runtime's list */
  uint64_t id;
  pjrtd_identity identity;
  char token[PJRTD_TOKEN_CHARS + 1];     /* a secret: never logged */
  char name[PJRTD_MAX_SESSION_NAME + 1]; /* "": none */
  uint64_t ttl_ns;                       /* how long it outlives its last connection */
  uint64_t created_ns, last_used_ns;
  uint64_t idle_warned_ns; /* the last time; 0: never */
  pjrtd_peer *peers;       /* that take part; the service's list */
  pjrtd_id_space *spaces;  /* owned; by prefix, so that a later connection goes on above an earlier one's ids */
  size_t num_spaces;
  pjrtd_id_map resources[PJRTD_ID_KINDS];
  pjrtd_slots slots;
  pjrtd_account *account;   /* retained */
  bool counted;             /* among the sessions that its owner may have */
  pjrtd_share *share;       /* retained */
  const pjrtd_device *home; /* borrowed; NULL without a client */
  /* Closing: what is left to drop. */
  pjrtd_job closing;
  uint64_t closing_at[PJRTD_ID_KINDS], closing_slot;
};

PJRTD_MUST_USE pjrtd_status *pjrtd_session_create(pjrtd_runtime *runtime, const pjrtd_identity *identity,
                                                  pjrtd_session **out_session);
/* Holds something from now on, or is kept: then it counts. */
PJRTD_MUST_USE pjrtd_status *pjrtd_session_check_counted(const pjrtd_session *session);
void pjrtd_session_count(pjrtd_session *session);
/* Names it, NULL or "": not; and says how long it outlives its connections. ALREADY_EXISTS where another session of its
 * owner has the name. */
PJRTD_MUST_USE pjrtd_status *pjrtd_session_keep(pjrtd_session *session, const char *name, uint64_t ttl_ns);
/* Also what is published has such names. "" is fine. */
PJRTD_MUST_USE pjrtd_status *pjrtd_session_check_name(const char *name);
/* Its executions go before those of sessions of a lower one. PERMISSION_DENIED where `identity` may not give it that.
 */
PJRTD_MUST_USE pjrtd_status *pjrtd_session_set_priority(pjrtd_session *session, const pjrtd_identity *identity,
                                                        pjrtd_priority priority);
/* The device of that id is its home from now on. */
PJRTD_MUST_USE pjrtd_status *pjrtd_session_set_home(pjrtd_session *session, int device_id);
/* Its home's id; 0 without a client. */
int pjrtd_session_home_id(const pjrtd_session *session);
/* The session of that token; or that of the name which belongs to `identity`. NULL: there is none. All tokens take as
 * long. */
pjrtd_session *pjrtd_session_find_token(const pjrtd_runtime *runtime, const char *token);
pjrtd_session *pjrtd_session_find_name(const pjrtd_runtime *runtime, const pjrtd_identity *identity, const char *name);
/* A set of ids that no connection uses now: those of an earlier one, or new ones. */
PJRTD_MUST_USE pjrtd_status *pjrtd_session_take_space(pjrtd_session *session, pjrtd_id_space *out_space);
/* The connection is done with it: nobody's, until somebody takes it. */
void pjrtd_session_leave_space(pjrtd_session *session, const pjrtd_id_space *space);
/* Whether it holds nothing and never did. */
bool pjrtd_session_is_new(const pjrtd_session *session, const pjrtd_id_space *space);
/* Takes the session: its names are gone at once, what they named goes over the next turns, a few at a time, as soon as
 * nothing uses it any more. The counts may be NULL. */
void pjrtd_session_close(pjrtd_session *session, uint64_t *out_buffers, uint64_t *out_programs);

/* Whether the connection may name a new buffer or program so, and the session has room for it. */
PJRTD_MUST_USE pjrtd_status *pjrtd_session_check_new(const pjrtd_session *session, const pjrtd_id_space *space,
                                                     pjrtd_id_kind kind, uint64_t id);
/* Names it; the session takes a reference of its own. Checked ids only. */
PJRTD_MUST_USE pjrtd_status *pjrtd_session_name_buffer(pjrtd_session *session, pjrtd_id_space *space, uint64_t id,
                                                       pjrtd_buffer *buffer);
/* Checks the id, and names a new buffer so, PENDING; with a reference of the caller's. */
PJRTD_MUST_USE pjrtd_status *pjrtd_session_make_buffer(pjrtd_session *session, pjrtd_id_space *space, uint64_t id,
                                                       pjrtd_buffer **out_buffer);
PJRTD_MUST_USE pjrtd_status *pjrtd_session_name_program(pjrtd_session *session, pjrtd_id_space *space, uint64_t id,
                                                        pjrtd_program *program);
/* NULL where this session has no such id: whether it never was, was deleted, or is another's looks the same. */
static inline pjrtd_buffer *pjrtd_session_find_buffer(const pjrtd_session *session, uint64_t id) {
  return pjrtd_id_map_find(&session->resources[PJRTD_ID_BUFFER], id);
}
static inline pjrtd_program *pjrtd_session_find_program(const pjrtd_session *session, uint64_t id) {
  return pjrtd_id_map_find(&session->resources[PJRTD_ID_PROGRAM], id);
}
PJRTD_MUST_USE pjrtd_status *pjrtd_session_not_found(pjrtd_id_kind kind, uint64_t id);
PJRTD_MUST_USE pjrtd_status *pjrtd_session_no_slot(const char *slot);
/* Takes names away and the session's references. All that exist go; the error names the first that does not. */
PJRTD_MUST_USE pjrtd_status *pjrtd_session_forget(pjrtd_session *session, pjrtd_id_kind kind, const uint64_t *ids,
                                                  size_t count);
