/* Who a client is and what it may do: decided here, for every front end. Any thread; no allocation. */
#pragma once

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/status.h"

/* Rights, as the method table names them. */
typedef enum {
  PJRTD_RIGHT_USE = 1,     /* compile, upload, execute in sessions of one's own */
  PJRTD_RIGHT_TRUSTED = 2, /* load native code */
  PJRTD_RIGHT_ADMIN = 4,   /* see and change what belongs to others */
} pjrtd_right;

typedef struct {
  bool local; /* the kernel vouches for uid, gid and pid */
  uid_t uid;
  gid_t gid;
  pid_t pid;
  uint32_t rights; /* of pjrtd_right */
} pjrtd_identity;

/* The peer of a connected AF_UNIX socket, from SO_PEERCRED: the daemon's own uid and root have every right, others
 * `use`. */
PJRTD_MUST_USE pjrtd_status *pjrtd_identity_of_socket(int descriptor, pjrtd_identity *out_identity);
/* PERMISSION_DENIED that names the right and the identity. */
PJRTD_MUST_USE pjrtd_status *pjrtd_identity_check(const pjrtd_identity *identity, pjrtd_right right);
/* Whether `a` may do to what belongs to `b` whatever `b` may. */
bool pjrtd_identity_same(const pjrtd_identity *a, const pjrtd_identity *b);
/* Whether `a` may see and end what belongs to `b`: its own, and everybody's with the right `admin`. */
bool pjrtd_identity_oversees(const pjrtd_identity *a, const pjrtd_identity *b);
