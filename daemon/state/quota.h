/* What sessions use, and identities with all of theirs, against what they may. Loop thread only.
 *
 * Each session has an account, and all sessions of an identity have that one's behind theirs: what is charged to a
 * session is charged to both. All that come over TCP count as one identity, since nobody knows who they are. A buffer
 * or program is charged once, to the session that first named it, from then until its last name is gone.
 *
 * What will take memory when it is done is reserved first: of two that are under way together only one gets what there
 * is room for once. */
#pragma once

#include "state/identity.h"
#include "state/runtime.h"

typedef enum {
  PJRTD_QUOTA_DEVICE_BYTES,
  PJRTD_QUOTA_BUFFERS,
  PJRTD_QUOTA_PROGRAMS,
  PJRTD_QUOTA_CALLS,        /* of an identity only, as are the next two */
  PJRTD_QUOTA_QUEUED_BYTES, /* memory of the calls */
  PJRTD_QUOTA_SESSIONS,     /* that hold something, or are kept */
  PJRTD_QUOTA_KINDS
} pjrtd_quota_kind;

struct pjrtd_account {
  uint32_t references;
  pjrtd_runtime *runtime;
  pjrtd_account *owner;   /* retained: the identity's; NULL: this is one */
  pjrtd_session *session; /* of a session's, as long as that is open */
  /* Others than its owner, or somebody that nobody knows, may hear of errors: nothing about other sessions. */
  bool shared;
  pjrtd_account *next, **link; /* of an identity's: in the runtime's list */
  pjrtd_identity identity;     /* of an identity's; gid and pid are the first session's */
  uint64_t used[PJRTD_QUOTA_KINDS];
  uint64_t reserved_bytes; /* of the device, by calls under way */
};

/* For a session of that identity, whose own account is made where this is the first. */
PJRTD_MUST_USE pjrtd_status *pjrtd_account_create(pjrtd_runtime *runtime, const pjrtd_identity *identity,
                                                  pjrtd_account **out_account);
pjrtd_account *pjrtd_account_retain(pjrtd_account *account);
/* NULL is fine. */
void pjrtd_account_release(pjrtd_account *account);

/* What is used, whatever is allowed: of a session's account, and its owner's. NULL: of none. */
void pjrtd_account_charge(pjrtd_account *account, pjrtd_quota_kind kind, uint64_t amount);
void pjrtd_account_give_back(pjrtd_account *account, pjrtd_quota_kind kind, uint64_t amount);

/* How much this account may have; 0: as much as there is. `out_setting`, which may be NULL, gets the setting's name,
 * NULL where there is none for such an account. */
uint64_t pjrtd_account_allowed(const pjrtd_account *account, pjrtd_quota_kind kind, const char **out_setting);
/* What it uses, with what calls under way have reserved. */
uint64_t pjrtd_account_used(const pjrtd_account *account, pjrtd_quota_kind kind);
/* RESOURCE_EXHAUSTED where the session or its identity would have more than it may: which of both, what it uses and
 * may, and its biggest buffers. `what` needs it: "the upload". */
PJRTD_MUST_USE pjrtd_status *pjrtd_account_check(const pjrtd_account *account, pjrtd_quota_kind kind, uint64_t more,
                                                 const char *what);

/* Device memory that a call under way will take. Zeroed: nothing. */
typedef struct {
  pjrtd_account *account; /* retained; NULL: nothing is reserved */
  uint64_t bytes;
  uint64_t memory_bytes;
} pjrtd_reservation;
/* Checks, and reserves: `bytes` of the account's, `memory_bytes` of what all buffers may have (0: that is seen to
 * otherwise). Nothing is reserved on failure. */
PJRTD_MUST_USE pjrtd_status *pjrtd_reservation_make(pjrtd_account *account, uint64_t bytes, uint64_t memory_bytes,
                                                    const char *what, pjrtd_reservation *out_reservation);
/* The call has ended, or what it made is charged now. Twice is fine. */
void pjrtd_reservation_end(pjrtd_reservation *reservation);

/* ---- the biggest buffers (biggest_buffers.c) ---- */

struct pjrtd_buffer;
typedef struct {
  const struct pjrtd_buffer *buffer;
  const char *slot; /* that holds it, where it has no id; borrowed; else NULL */
} pjrtd_big_buffer;
/* The session's, from the biggest on, among as many places of its maps as `*places_left` says, which goes down. How
 * many were found. `charged`: only those that are on its account, so not what it borrowed. */
uint32_t pjrtd_session_find_biggest(pjrtd_session *session, bool charged, uint32_t most, uint64_t *places_left,
                                    pjrtd_big_buffer *out_found);
/* Those of a session's account, or of all sessions of an identity's that its owner may see. Bounded. */
void pjrtd_account_find_biggest(const pjrtd_account *account, pjrtd_shortage *shortage);
/* "; the biggest: buffer 12 f32[1024,1024] 4.00 MiB on device 0, ..." as long as there is room; "" for none. Sessions
 * are named where there are several to choose from. */
#define PJRTD_BIGGEST_TEXT 768
const char *pjrtd_biggest_format(const pjrtd_account *account, const pjrtd_shortage *shortage,
                                 char text[PJRTD_BIGGEST_TEXT]);
