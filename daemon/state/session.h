/* A namespace of buffers and programs that belongs to an identity. Loop thread only. */
#pragma once

#include "base/id_map.h"
#include "state/buffer.h"
#include "state/identity.h"
#include "state/program.h"

#define PJRTD_TOKEN_CHARS 43 /* 256 bits in base64url */

typedef enum { PJRTD_ID_BUFFER, PJRTD_ID_PROGRAM, PJRTD_ID_KINDS } pjrtd_id_kind;

struct pjrtd_session {
  pjrtd_runtime *runtime;
  pjrtd_session *next, **link; /* in the runtime's list */
  uint64_t id;
  pjrtd_identity identity;
  char token[PJRTD_TOKEN_CHARS + 1]; /* a secret: never logged */
  pjrtd_id_map resources[PJRTD_ID_KINDS];
  uint64_t buffer_bytes;
  /* Closing: what is left to drop. */
  pjrtd_job closing;
  uint64_t closing_at[PJRTD_ID_KINDS];
};

/* The ids that one connection may choose: their top 16 bits are `prefix`, each kind strictly increasing. */
typedef struct {
  uint16_t prefix;
  uint64_t highest[PJRTD_ID_KINDS];
} pjrtd_id_space;

PJRTD_MUST_USE pjrtd_status *pjrtd_session_create(pjrtd_runtime *runtime, const pjrtd_identity *identity,
                                                  pjrtd_session **out_session);
/* Takes the session: its names are gone at once, what they named goes over the next turns, a few at a time, as soon as
 * nothing uses it any more. The counts may be NULL. */
void pjrtd_session_close(pjrtd_session *session, uint64_t *out_buffers, uint64_t *out_programs);

/* Whether the connection may name a new buffer or program so, and the session has room for it. */
PJRTD_MUST_USE pjrtd_status *pjrtd_session_check_new(const pjrtd_session *session, const pjrtd_id_space *space,
                                                     pjrtd_id_kind kind, uint64_t id);
/* Names it; the session takes a reference of its own. Checked ids only. */
PJRTD_MUST_USE pjrtd_status *pjrtd_session_name_buffer(pjrtd_session *session, pjrtd_id_space *space, uint64_t id,
                                                       pjrtd_buffer *buffer);
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
/* Takes names away and the session's references. All that exist go; the error names the first that does not. */
PJRTD_MUST_USE pjrtd_status *pjrtd_session_forget(pjrtd_session *session, pjrtd_id_kind kind, const uint64_t *ids,
                                                  size_t count);
