/* See target.h. */
#include "target.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "grpc_library.h"
#include "heap.h"
#include "socket_link.h"

#define SYSTEM_SOCKET "/run/pjrtd/pjrtd.sock"

static const char targets_hint[] =
    "a target is unix:PATH, grpc://HOST:PORT or grpcs://HOST:PORT, where pjrtd listens (its line \"pjrtd ready ...\"); "
    "set PJRTD_TARGET or pass it";

static char *default_target(void) {
  const char *runtime_dir = getenv("XDG_RUNTIME_DIR");
  char path[PJRTC_MAX_SOCKET_PATH + 1];
  bool found = runtime_dir && *runtime_dir &&
               (size_t)snprintf(path, sizeof path, "%s/pjrtd.sock", runtime_dir) < sizeof path &&
               access(path, F_OK) == 0;
  char *target = pjrtc_heap_alloc(sizeof path + sizeof "unix:");
  if (target) sprintf(target, "unix:%s", found ? path : SYSTEM_SOCKET);
  return target;
}

static bool ends_with(const char *text, const char *end) {
  size_t length = strlen(text), end_length = strlen(end);
  return length >= end_length && strcmp(text + length - end_length, end) == 0;
}

static bool is_grpc(const char *target) {
  return strncmp(target, "grpc://", 7) == 0 || strncmp(target, "grpcs://", 8) == 0;
}

static pjrtc_failure *check(const char *target) {
  if (is_grpc(target)) return NULL;
  if (strncmp(target, "unix:", 5) != 0) {
    if (ends_with(target, ".so") || strstr(target, ".so."))
      return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT,
                                "start pjrtd --plugin FILE, and connect to the socket that it listens on",
                                "\"%.200s\" is a plugin's file, not a target: pjrtd loads the plugin, clients connect "
                                "to pjrtd",
                                target);
    return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, targets_hint, "\"%.200s\" is not a target", target);
  }
  size_t length = strlen(target + 5);
  if (length == 0) return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, targets_hint, "the target has no path");
  if (length > PJRTC_MAX_SOCKET_PATH)
    return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, "choose a shorter path for the socket",
                              "the socket's path has %zu bytes, at most %d are possible", length,
                              PJRTC_MAX_SOCKET_PATH);
  return NULL;
}

pjrtc_failure *pjrtc_target_resolve(const char *target, char **out_target) {
  *out_target = NULL;
  if (!target) target = getenv("PJRTD_TARGET");
  if (!target || !*target) {
    *out_target = default_target();
    return *out_target ? NULL : pjrtc_failure_oom();
  }
  pjrtc_failure *failure = check(target);
  if (failure) return failure;
  *out_target = pjrtc_heap_alloc(strlen(target) + 1);
  if (!*out_target) return pjrtc_failure_oom();
  strcpy(*out_target, target);
  return NULL;
}

static pjrtc_failure *explain(const char *target, int error) {
  switch (error) {
    case ENOENT:
    case ENOTDIR:
      return pjrtc_failure_make(PJRTC_UNAVAILABLE,
                                "start pjrtd, or set PJRTD_TARGET to where it listens (its line \"pjrtd ready ...\")",
                                "cannot connect to %s: there is no such socket", target);
    case ECONNREFUSED:
      return pjrtc_failure_make(PJRTC_UNAVAILABLE, "pjrtd has ended without removing its socket, start it again",
                                "cannot connect to %s: nobody listens there", target);
    case EACCES:
    case EPERM:
      return pjrtc_failure_make(PJRTC_PERMISSION_DENIED, "the socket's owner, group and mode decide who may connect",
                                "cannot connect to %s: %s", target, strerror(error));
    case EAGAIN:
    case EINPROGRESS:
    case ETIMEDOUT:
      return pjrtc_failure_make(PJRTC_DEADLINE_EXCEEDED, "pjrtd is busy or stopped",
                                "cannot connect to %s: it did not accept the connection in time", target);
    case ENOTSOCK:
    case EPROTOTYPE:
      return pjrtc_failure_make(PJRTC_UNAVAILABLE, targets_hint, "cannot connect to %s: %s", target, strerror(error));
    default:
      return pjrtc_failure_make(
          error == ENOMEM || error == EMFILE || error == ENFILE ? PJRTC_RESOURCE_EXHAUSTED : PJRTC_UNAVAILABLE, NULL,
          "cannot connect to %s: %s", target, strerror(error));
  }
}

static pjrtc_failure *open_socket(const char *target, uint64_t timeout_ns, pjrtc_link **out_link) {
  struct sockaddr_un address = {.sun_family = AF_UNIX};
  strcpy(address.sun_path, target + 5);
  int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return explain(target, errno);
  /* A full backlog makes connect wait; the send timeout bounds that. */
  struct timeval timeout = {(time_t)(timeout_ns / 1000000000u), (suseconds_t)(timeout_ns % 1000000000u / 1000u)};
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout);
  int result;
  do result = connect(fd, (struct sockaddr *)&address, sizeof address);
  while (result != 0 && errno == EINTR);
  if (result != 0 && errno != EISCONN) {
    int error = errno;
    close(fd);
    return explain(target, error);
  }
  setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &(struct timeval){0}, sizeof(struct timeval));
  return pjrtc_socket_link_create(fd, target, out_link);
}

pjrtc_failure *pjrtc_target_open(const char *target, const char *ca_file, uint64_t timeout_ns, pjrtc_link **out_link) {
  *out_link = NULL;
  return is_grpc(target) ? pjrtc_grpc_library_open(target, ca_file, timeout_ns, out_link)
                         : open_socket(target, timeout_ns, out_link);
}
