/* state/identity.c. */
#include <criterion/criterion.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "state/identity.h"

/* What the kernel says, where a test says it instead: one user cannot be several. */
static bool pretending;
static struct ucred pretended_peer;
static uid_t pretended_daemon;

int getsockopt(int descriptor, int level, int name, void *value, socklen_t *size) {
  if (!pretending) return (int)syscall(SYS_getsockopt, descriptor, level, name, value, size);
  cr_assert(level == SOL_SOCKET && name == SO_PEERCRED && *size == sizeof pretended_peer);
  memcpy(value, &pretended_peer, sizeof pretended_peer);
  return 0;
}

uid_t geteuid(void) {
  return pretending ? pretended_daemon : (uid_t)syscall(SYS_geteuid);
}

static pjrtd_identity identity_as(uid_t peer, uid_t daemon) {
  pjrtd_identity identity;
  pretended_peer = (struct ucred){.pid = 77, .uid = peer, .gid = 88};
  pretended_daemon = daemon;
  pretending = true;
  cr_assert_null(pjrtd_identity_of_socket(0, &identity));
  pretending = false;
  cr_assert(identity.local);
  cr_assert_eq(identity.uid, peer);
  cr_assert_eq(identity.gid, 88);
  cr_assert_eq(identity.pid, 77);
  return identity;
}

Test(identity, has_every_right_for_root_and_the_daemons_user_and_one_for_others) {
  const uint32_t all = PJRTD_RIGHT_USE | PJRTD_RIGHT_TRUSTED | PJRTD_RIGHT_ADMIN;
  cr_assert_eq(identity_as(0, 500).rights, all);
  cr_assert_eq(identity_as(500, 500).rights, all);
  cr_assert_eq(identity_as(0, 0).rights, all);
  cr_assert_eq(identity_as(501, 500).rights, PJRTD_RIGHT_USE);
  cr_assert_eq(identity_as(501, 0).rights, PJRTD_RIGHT_USE);
  cr_assert_eq(identity_as((uid_t)-2, 500).rights, PJRTD_RIGHT_USE);
}

Test(identity, of_a_local_peer_is_what_the_kernel_says) {
  int pair[2];
  cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  pjrtd_identity identity;
  cr_assert_null(pjrtd_identity_of_socket(pair[0], &identity));
  cr_assert(identity.local);
  cr_assert_eq(identity.uid, geteuid());
  cr_assert_eq(identity.gid, getegid());
  cr_assert_eq(identity.pid, getpid());
  close(pair[0]);
  close(pair[1]);
}

Test(identity, of_the_daemons_own_user_has_every_right) {
  int pair[2];
  cr_assert_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
  pjrtd_identity identity;
  cr_assert_null(pjrtd_identity_of_socket(pair[0], &identity));
  cr_assert_eq(identity.rights, PJRTD_RIGHT_USE | PJRTD_RIGHT_TRUSTED | PJRTD_RIGHT_ADMIN);
  cr_assert_null(pjrtd_identity_check(&identity, PJRTD_RIGHT_USE));
  cr_assert_null(pjrtd_identity_check(&identity, PJRTD_RIGHT_TRUSTED));
  cr_assert_null(pjrtd_identity_check(&identity, PJRTD_RIGHT_ADMIN));
  close(pair[0]);
  close(pair[1]);
}

Test(identity, of_no_socket_is_nobody) {
  int pipes[2];
  cr_assert_eq(pipe(pipes), 0);
  pjrtd_identity identity;
  PJRTD_AUTO(pjrtd_status) status = pjrtd_identity_of_socket(pipes[0], &identity);
  cr_assert_not_null(status);
  cr_assert_not(identity.local);
  cr_assert_eq(identity.rights, 0);
  close(pipes[0]);
  close(pipes[1]);
}

Test(identity, without_a_right_is_refused_by_the_names_of_both) {
  const pjrtd_identity user = {.local = true, .uid = 1234, .rights = PJRTD_RIGHT_USE};
  cr_assert_null(pjrtd_identity_check(&user, PJRTD_RIGHT_USE));
  static const struct {
    pjrtd_right right;
    const char *name;
  } refused[] = {{PJRTD_RIGHT_TRUSTED, "'trusted'"}, {PJRTD_RIGHT_ADMIN, "'admin'"}};
  for (int i = 0; i < 2; i++) {
    PJRTD_AUTO(pjrtd_status) status = pjrtd_identity_check(&user, refused[i].right);
    cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_PERMISSION_DENIED);
    cr_assert(strstr(pjrtd_status_message(status), refused[i].name), "%s", pjrtd_status_message(status));
    cr_assert(strstr(pjrtd_status_message(status), "1234"), "%s", pjrtd_status_message(status));
    cr_assert(*pjrtd_status_hint(status));
  }
}

Test(identity, is_the_same_only_for_local_peers_of_one_user) {
  const pjrtd_identity one = {.local = true, .uid = 7, .pid = 1}, other_process = {.local = true, .uid = 7, .pid = 2};
  const pjrtd_identity other_user = {.local = true, .uid = 8}, remote = {.local = false, .uid = 7};
  cr_assert(pjrtd_identity_same(&one, &other_process));
  cr_assert_not(pjrtd_identity_same(&one, &other_user));
  cr_assert_not(pjrtd_identity_same(&one, &remote));
  cr_assert_not(pjrtd_identity_same(&remote, &one));
  cr_assert_not(pjrtd_identity_same(&remote, &remote), "uid 0 of nobody would be root");
}
