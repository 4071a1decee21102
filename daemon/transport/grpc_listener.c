/* Listening for gRPC over TCP: see grpc_front.h. Loop thread. */
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "transport/acceptor.h"
#include "transport/grpc_front.h"

struct grpc_listener {
  pjrtd_acceptor acceptor; /* first */
  grpc_listener *next;
  grpc_front *front;
};

static void on_accepted(pjrtd_acceptor *acceptor, int descriptor) {
  grpc_listener *listener = (grpc_listener *)acceptor;
  grpc_front *front = listener->front;
  if (front->runtime->stats.connections >= front->settings->max_connections) {
    pjrtd_log(PJRTD_LOG_WARNING, "too many connections; one was refused",
              PJRTD_LOG_UINT("max_connections", front->settings->max_connections));
    close(descriptor);
    return;
  }
  pjrtd_status *failure = grpc_connection_create(front, descriptor);
  if (!failure) return;
  pjrtd_log_status(PJRTD_LOG_WARNING, "a connection could not be accepted", failure);
  pjrtd_status_destroy(failure);
}

static void on_closed(pjrtd_acceptor *acceptor) {
  pjrtd_free(acceptor);
}

/* "host", "host:port", "[v6]:port" into two texts. */
static pjrtd_status *split(const char *address, char *out_host, size_t host_size, char *out_port, size_t port_size) {
  const char *host = address, *end, *port = GRPC_DEFAULT_PORT;
  if (*address == '[') {
    host++;
    end = strchr(host, ']');
    if (!end || (end[1] && end[1] != ':')) return PJRTD_INVALID("\"%s\": an IPv6 address is [ADDRESS]:PORT", address);
    if (end[1]) port = end + 2;
  } else {
    end = strchrnul(address, ':');
    if (*end && strchr(end + 1, ':')) return PJRTD_INVALID("\"%s\": an IPv6 address is [ADDRESS]:PORT", address);
    if (*end) port = end + 1;
  }
  if (end == host) return PJRTD_INVALID("\"%s\" names no host; an address is HOST:PORT", address);
  int host_bytes = snprintf(out_host, host_size, "%.*s", (int)(end - host), host);
  int port_bytes = snprintf(out_port, port_size, "%s", port);
  if ((size_t)host_bytes >= host_size || (size_t)port_bytes >= port_size || !*port ||
      strspn(port, "0123456789") != strlen(port) || strtoul(port, NULL, 10) > 65535)
    return PJRTD_INVALID("\"%s\": an address is HOST:PORT with a port from 0 to 65535", address);
  return PJRTD_OK;
}

static bool is_loopback(const struct sockaddr *address) {
  if (address->sa_family == AF_INET) return ntohl(((const struct sockaddr_in *)address)->sin_addr.s_addr) >> 24 == 127;
  return address->sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&((const struct sockaddr_in6 *)address)->sin6_addr);
}

static pjrtd_status *bind_and_listen(const struct addrinfo *found, const char *address, int *out_descriptor) {
  int descriptor = socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  *out_descriptor = descriptor;
  if (descriptor < 0) return pjrtd_status_from_errno(errno, "making a socket");
  int yes = 1;
  setsockopt(descriptor, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (bind(descriptor, found->ai_addr, found->ai_addrlen) != 0 || listen(descriptor, SOMAXCONN) != 0)
    return pjrtd_status_from_errno(errno, "listening on grpc://%s", address);
  return PJRTD_OK;
}

static pjrtd_status *target_of(int descriptor, char **out_target) {
  struct sockaddr_storage bound;
  socklen_t size = sizeof bound;
  char host[64], port[16], text[128];
  if (getsockname(descriptor, (struct sockaddr *)&bound, &size) != 0)
    return pjrtd_status_from_errno(errno, "asking for a socket's address");
  if (getnameinfo((struct sockaddr *)&bound, size, host, sizeof host, port, sizeof port,
                  NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return PJRTD_INTERNAL("a socket's address cannot be written down");
  snprintf(text, sizeof text, bound.ss_family == AF_INET6 ? "grpc://[%s]:%s" : "grpc://%s:%s", host, port);
  *out_target = pjrtd_strdup(text);
  return *out_target ? PJRTD_OK : pjrtd_status_oom();
}

static pjrtd_status *watch(grpc_front *front, int descriptor) {
  grpc_listener *listener = pjrtd_calloc(1, sizeof *listener);
  if (!listener) return pjrtd_status_oom();
  listener->front = front;
  listener->acceptor = (pjrtd_acceptor){.descriptor = descriptor, .accepted = on_accepted, .closed = on_closed};
  pjrtd_status *status = pjrtd_acceptor_start(&listener->acceptor, front->runtime);
  if (status) {
    pjrtd_free(listener);
    return status;
  }
  listener->next = front->listeners;
  front->listeners = listener;
  return PJRTD_OK;
}

pjrtd_status *grpc_front_listen(grpc_front *front, const char *address, char **out_target) {
  char host[256], port[16];
  *out_target = NULL;
  PJRTD_TRY(split(address, host, sizeof host, port, sizeof port));
  const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE | AI_NUMERICSERV};
  struct addrinfo *found;
  int error = getaddrinfo(host, port, &hints, &found);
  if (error) return PJRTD_INVALID("listen 'grpc://%s': %s", address, gai_strerror(error));
  int descriptor = -1;
  pjrtd_status *status =
      is_loopback(found->ai_addr)
          ? bind_and_listen(found, address, &descriptor)
          : pjrtd_status_with_hint(
                pjrtd_status_make(PJRTD_CODE_UNIMPLEMENTED,
                                  "listen 'grpc://%s': without TLS pjrtd serves the loopback address only", address),
                "listen on 127.0.0.1 or [::1], and reach it through a tunnel; pjrtd " PJRTD_VERSION " has no TLS yet");
  freeaddrinfo(found);
  if (!status) status = target_of(descriptor, out_target);
  if (!status) status = watch(front, descriptor);
  if (!status) return PJRTD_OK;
  if (descriptor >= 0) close(descriptor);
  pjrtd_free(PJRTD_TAKE(*out_target));
  return status;
}

void grpc_front_stop_listening(grpc_front *front) {
  while (front->listeners) {
    grpc_listener *listener = front->listeners;
    front->listeners = listener->next;
    pjrtd_acceptor_close(&listener->acceptor);
  }
}
