/* Listening on the local socket: binding with care, and who may connect. Loop thread.
 *
 * A socket file that nobody answers behind is stale and replaced; a live one, or a file of another kind, is refused and
 * left alone. The folder is locked meanwhile, so that two daemons that start together do not both find it stale. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "transport/acceptor.h"
#include "transport/local_server.h"

/* Another daemon that starts holds the folder's lock for milliseconds. */
#define LOCK_TRIES 40
#define LOCK_WAIT_US 50000

struct local_listener {
  pjrtd_acceptor acceptor; /* first */
  local_listener *next;
  local_server *server;
  char *path;   /* owned */
  dev_t device; /* of the socket file that was made */
  ino_t inode;
};

static pjrtd_status *make_address(const char *path, struct sockaddr_un *out_address) {
  memset(out_address, 0, sizeof *out_address);
  out_address->sun_family = AF_UNIX;
  size_t length = strlen(path);
  if (!length) return PJRTD_INVALID("the socket's path is empty");
  for (size_t i = 0; i < length; i++)
    if ((unsigned char)path[i] < ' ' || path[i] == 0x7f)
      return PJRTD_INVALID("the socket's path has a control character at byte %zu", i);
  if (length >= sizeof out_address->sun_path)
    return pjrtd_status_with_hint(PJRTD_INVALID("the socket's path '%s' has %zu bytes, the kernel takes %zu", path,
                                                length, sizeof out_address->sun_path - 1),
                                  "choose a shorter path");
  memcpy(out_address->sun_path, path, length + 1);
  return PJRTD_OK;
}

/* The folder of the socket, made where only it is missing; locked. -1 in `*out_lock` where it cannot be locked. */
static pjrtd_status *lock_folder(const char *path, int *out_lock) {
  *out_lock = -1;
  PJRTD_AUTO_FREE char *copy = pjrtd_strdup(path);
  if (!copy) return pjrtd_status_oom();
  const char *folder = dirname(copy);
  if (mkdir(folder, 0755) != 0 && errno != EEXIST)
    return pjrtd_status_from_errno(errno, "making the folder %s of the socket", folder);
  int lock = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock < 0) return PJRTD_OK; /* a folder that cannot be read may still be written to */
  for (int tries = 0; flock(lock, LOCK_EX | LOCK_NB) != 0; tries++) {
    if (tries == LOCK_TRIES) {
      close(lock);
      return pjrtd_status_with_hint(
          pjrtd_status_make(PJRTD_CODE_UNAVAILABLE, "another process holds a lock on the folder %s of the socket",
                            folder),
          "let the socket have a folder of its own");
    }
    usleep(LOCK_WAIT_US);
  }
  *out_lock = lock;
  return PJRTD_OK;
}

static pjrtd_status *remove_stale(const char *path, const struct sockaddr_un *address) {
  struct stat found;
  if (lstat(path, &found) != 0)
    return errno == ENOENT ? PJRTD_OK : pjrtd_status_from_errno(errno, "looking at %s", path);
  if (!S_ISSOCK(found.st_mode))
    return pjrtd_status_with_hint(
        pjrtd_status_make(PJRTD_CODE_ALREADY_EXISTS, "%s exists and is not a socket; it is left alone", path),
        "remove it, or listen elsewhere");
  int probe = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (probe < 0) return pjrtd_status_from_errno(errno, "making a socket");
  int connected = connect(probe, (const struct sockaddr *)address, sizeof *address);
  int error = connected == 0 ? 0 : errno;
  struct ucred owner = {0};
  socklen_t size = sizeof owner;
  if (!error) getsockopt(probe, SOL_SOCKET, SO_PEERCRED, &owner, &size);
  close(probe);
  if (error == ECONNREFUSED) {
    if (unlink(path) != 0) return pjrtd_status_from_errno(errno, "removing the stale socket %s", path);
    pjrtd_log(PJRTD_LOG_INFO, "replaced a stale socket", PJRTD_LOG_TEXT("path", path));
    return PJRTD_OK;
  }
  if (error == EACCES || error == EPERM)
    return pjrtd_status_make(PJRTD_CODE_PERMISSION_DENIED, "%s is a socket of somebody else; it is left alone", path);
  return pjrtd_status_with_hint(
      pjrtd_status_make(PJRTD_CODE_ALREADY_EXISTS, "another process (pid %d) serves %s already", (int)owner.pid, path),
      "stop it, or listen elsewhere");
}

static pjrtd_status *bind_and_listen(local_listener *listener, const struct sockaddr_un *address) {
  listener->acceptor.descriptor = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener->acceptor.descriptor < 0) return pjrtd_status_from_errno(errno, "making a socket");
  mode_t before = umask(0777 & ~(mode_t)listener->server->settings->socket_mode);
  int bound = bind(listener->acceptor.descriptor, (const struct sockaddr *)address, sizeof *address);
  int error = errno;
  umask(before);
  if (bound != 0) return pjrtd_status_from_errno(error, "binding %s", listener->path);
  struct stat made;
  if (stat(listener->path, &made) == 0) {
    listener->device = made.st_dev;
    listener->inode = made.st_ino;
  }
  if (listen(listener->acceptor.descriptor, SOMAXCONN) != 0)
    return pjrtd_status_from_errno(errno, "listening on %s", listener->path);
  return PJRTD_OK;
}

/* Says why on a connection that is not to be, as far as one write goes. */
static void refuse(local_server *server, int descriptor, const pjrtd_identity *identity) {
  pjrtd_log(PJRTD_LOG_WARNING, "too many connections; one was refused", PJRTD_LOG_INT("pid", identity->pid),
            PJRTD_LOG_UINT("max_connections", server->settings->max_connections));
  pjrtd_status *status = local_connection_create(server, descriptor, identity);
  if (status) {
    pjrtd_status_destroy(status);
    return;
  }
  pjrtd_peer_fail(&server->connections->peer, 0, 0,
                  pjrtd_status_with_retry(
                      pjrtd_status_with_hint(pjrtd_status_make(PJRTD_CODE_RESOURCE_EXHAUSTED,
                                                               "pjrtd has %llu connections, the most it may have",
                                                               (unsigned long long)server->settings->max_connections),
                                             "close idle clients, or raise max_connections"),
                      UINT64_C(1000000000)));
}

static void on_accepted(pjrtd_acceptor *acceptor, int descriptor) {
  local_server *server = ((local_listener *)acceptor)->server;
  pjrtd_identity identity;
  pjrtd_status *failure = pjrtd_identity_of_socket(descriptor, &identity);
  if (failure) {
    close(descriptor);
  } else if (server->runtime->stats.connections >= server->settings->max_connections) {
    refuse(server, descriptor, &identity);
  } else {
    failure = local_connection_create(server, descriptor, &identity);
  }
  if (failure) pjrtd_log_status(PJRTD_LOG_WARNING, "a connection could not be accepted", failure);
  pjrtd_status_destroy(failure);
}

static void listener_free(local_listener *listener) {
  if (listener->acceptor.descriptor >= 0) close(listener->acceptor.descriptor);
  pjrtd_free(listener->path);
  pjrtd_free(listener);
}

static void on_closed(pjrtd_acceptor *acceptor) {
  listener_free((local_listener *)acceptor);
}

pjrtd_status *local_server_listen(local_server *server, const char *path) {
  struct sockaddr_un address;
  PJRTD_TRY(make_address(path, &address));
  local_listener *listener = pjrtd_calloc(1, sizeof *listener);
  if (!listener) return pjrtd_status_oom();
  listener->server = server;
  listener->acceptor = (pjrtd_acceptor){.descriptor = -1, .accepted = on_accepted, .closed = on_closed};
  listener->path = pjrtd_strdup(path);
  int lock = -1;
  pjrtd_status *status = listener->path ? lock_folder(path, &lock) : pjrtd_status_oom();
  if (!status) status = remove_stale(path, &address);
  if (!status) status = bind_and_listen(listener, &address);
  if (lock >= 0) close(lock);
  if (!status) status = pjrtd_acceptor_start(&listener->acceptor, server->runtime);
  if (status) {
    if (listener->inode) unlink(path);
    listener_free(listener);
    return status;
  }
  listener->next = server->listeners;
  server->listeners = listener;
  return PJRTD_OK;
}

void local_server_stop_listening(local_server *server) {
  while (server->listeners) {
    local_listener *listener = server->listeners;
    server->listeners = listener->next;
    struct stat found;
    /* Only the file that was made here: another daemon may have replaced it. */
    if (lstat(listener->path, &found) == 0 && found.st_dev == listener->device && found.st_ino == listener->inode)
      unlink(listener->path);
    pjrtd_acceptor_close(&listener->acceptor);
  }
}
