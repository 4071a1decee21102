/* What sessions share: slots that one has published, read-only, under a name of the host's, for others to borrow
 * without a copy. Loop thread only.
 *
 * A published buffer stays read-only for as long as it lives: no execution may consume it, whoever asks for that. It
 * lives as long as somebody has a name for it, and stays on the account of the session that made it. */
#pragma once

#include "state/session.h"

#define PJRTD_MAX_PUBLICATIONS 4096
#define PJRTD_MAX_PUBLICATION_USERS 64

typedef struct pjrtd_publication pjrtd_publication;
struct pjrtd_publication {
  pjrtd_publication *next, **link; /* in the runtime's list */
  pjrtd_session *session;          /* that published it, and ends it when it is closed */
  char name[PJRTD_MAX_SESSION_NAME + 1];
  pjrtd_slots slots; /* what is published, by the names that it had in the session then */
  uint64_t bytes;    /* of what was there when it was published */
  uint64_t borrowed; /* times, so far */
  bool everybody;    /* may borrow it; otherwise the session's own user, and these */
  size_t num_uids;
  uint32_t uids[PJRTD_MAX_PUBLICATION_USERS];
};

/* Publishes these slots of the session (0: all). ALREADY_EXISTS where the name is taken; NOT_FOUND names a slot. */
PJRTD_MUST_USE pjrtd_status *pjrtd_publication_create(pjrtd_session *session, const char *name, char *const *slots,
                                                      size_t num_slots, pjrtd_publication **out_publication);
/* Nobody borrows it any more; what was borrowed stays. */
void pjrtd_publication_destroy(pjrtd_publication *publication);
/* That of the name; NULL: there is none. */
pjrtd_publication *pjrtd_publication_find(const pjrtd_runtime *runtime, const char *name);
/* Whether the session's identity may borrow it. Where it may not, it is as if there were none. */
bool pjrtd_publication_permits(const pjrtd_publication *publication, const pjrtd_session *session);
/* What is published under that name, borrowed. NOT_FOUND: nothing. */
PJRTD_MUST_USE pjrtd_status *pjrtd_publication_get(pjrtd_publication *publication, const char *slot,
                                                   pjrtd_buffer **out_buffer);
/* Puts what is published into slots of the session: the one called `from` into the slot `to`. */
PJRTD_MUST_USE pjrtd_status *pjrtd_publication_borrow(pjrtd_publication *publication, pjrtd_session *session,
                                                      const char *from, const char *to);
