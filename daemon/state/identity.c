/* See identity.h. */
#include "state/identity.h"

#include <errno.h>
#include <sys/socket.h>
#include <unistd.h>

pjrtd_status *pjrtd_identity_of_socket(int descriptor, pjrtd_identity *out_identity) {
  *out_identity = (pjrtd_identity){0};
  struct ucred peer;
  socklen_t size = sizeof peer;
  if (getsockopt(descriptor, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
    return pjrtd_status_from_errno(errno, "asking who the client is");
  out_identity->local = true;
  out_identity->uid = peer.uid;
  out_identity->gid = peer.gid;
  out_identity->pid = peer.pid;
  out_identity->rights = PJRTD_RIGHT_USE;
  if (peer.uid == 0 || peer.uid == geteuid()) out_identity->rights |= PJRTD_RIGHT_TRUSTED | PJRTD_RIGHT_ADMIN;
  return PJRTD_OK;
}

static const char *right_name(pjrtd_right right) {
  switch (right) {
    case PJRTD_RIGHT_USE: return "use";
    case PJRTD_RIGHT_TRUSTED: return "trusted";
    case PJRTD_RIGHT_ADMIN: return "admin";
  }
  return "unknown";
}

pjrtd_status *pjrtd_identity_check(const pjrtd_identity *identity, pjrtd_right right) {
  if (identity->rights & right) return PJRTD_OK;
  return pjrtd_status_with_hint(
      pjrtd_status_make(PJRTD_CODE_PERMISSION_DENIED, "this needs the right '%s', which uid %u does not have",
                        right_name(right), (unsigned)identity->uid),
      "the user that runs pjrtd, and root, have every right");
}

bool pjrtd_identity_same(const pjrtd_identity *a, const pjrtd_identity *b) {
  return a->local && b->local && a->uid == b->uid;
}

bool pjrtd_identity_oversees(const pjrtd_identity *a, const pjrtd_identity *b) {
  return (a->rights & PJRTD_RIGHT_ADMIN) || pjrtd_identity_same(a, b);
}
