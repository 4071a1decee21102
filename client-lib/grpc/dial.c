/* See dial.h. */
#include "dial.h"

#include <errno.h>
#include <grpc/grpc_posix.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#define DEFAULT_PORT "7578"
/* The server sends no larger message than what it queues for a client (max_queued_bytes, 4 MiB by default) and one
 * frame. */
#define MAX_MESSAGE_BYTES (64 << 20)
/* A server that is gone without a word is noticed within the sum of these. */
#define KEEPALIVE_MS 30000
#define KEEPALIVE_TIMEOUT_MS 10000

static pjrtc_code fail(pjrtc_grpc_error *out_error, pjrtc_code code, const char *hint, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static pjrtc_code fail(pjrtc_grpc_error *out_error, pjrtc_code code, const char *hint, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(out_error->message, sizeof out_error->message, format, arguments);
  va_end(arguments);
  snprintf(out_error->hint, sizeof out_error->hint, "%s", hint);
  return code;
}

/* ---- names ---- */

typedef struct {
  char host[256], port[6];
  bool is_v6;
} endpoint;

static pjrtc_code parse(const char *target, endpoint *out_endpoint, pjrtc_grpc_error *out_error) {
  static const char hint[] = "write grpc://HOST:PORT or grpcs://HOST:PORT; an IPv6 address goes in brackets";
  const char *host = strstr(target, "://") + 3;
  out_endpoint->is_v6 = *host == '[';
  if (out_endpoint->is_v6) host++;
  size_t host_bytes = out_endpoint->is_v6 ? strcspn(host, "]") : strcspn(host, ":");
  const char *rest = host + host_bytes;
  if (out_endpoint->is_v6 && *rest++ != ']')
    return fail(out_error, PJRTC_INVALID_ARGUMENT, hint, "\"%.200s\" is not a target: a \"]\" is missing", target);
  if (!host_bytes || host_bytes >= sizeof out_endpoint->host)
    return fail(out_error, PJRTC_INVALID_ARGUMENT, hint,
                "\"%.200s\" is not a target: a host of 1 to %zu bytes belongs there", target,
                sizeof out_endpoint->host - 1);
  memcpy(out_endpoint->host, host, host_bytes);
  out_endpoint->host[host_bytes] = '\0';
  if (out_endpoint->host[strcspn(out_endpoint->host, "/@?#\" ")])
    return fail(out_error, PJRTC_INVALID_ARGUMENT, hint, "\"%.200s\" is not a target: \"%.200s\" is no host", target,
                out_endpoint->host);
  const char *port = *rest == ':' ? rest + 1 : DEFAULT_PORT;
  char *end;
  unsigned long number = strtoul(port, &end, 10);
  if ((*rest && *rest != ':') || *port < '0' || *port > '9' || *end || number < 1 || number > 65535)
    return fail(out_error, PJRTC_INVALID_ARGUMENT, hint, "\"%.200s\" is not a target: its port is not 1 to 65535",
                target);
  snprintf(out_endpoint->port, sizeof out_endpoint->port, "%lu", number);
  return PJRTC_OK;
}

/* ---- TCP ---- */

static int64_t now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A descriptor, or -1 and errno. */
static int connect_to(const struct addrinfo *address, int64_t deadline_ms) {
  int fd = socket(address->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  int error = connect(fd, address->ai_addr, address->ai_addrlen) == 0 ? 0 : errno;
  if (error == EINPROGRESS || error == EINTR) {
    struct pollfd ready = {.fd = fd, .events = POLLOUT};
    int count;
    do {
      int64_t left_ms = deadline_ms - now_ms();
      count = poll(&ready, 1, left_ms < 0 ? 0 : left_ms > INT32_MAX ? INT32_MAX : (int)left_ms);
    } while (count < 0 && errno == EINTR);
    socklen_t bytes = sizeof error;
    error = ETIMEDOUT;
    if (count > 0) getsockopt(fd, SOL_SOCKET, SO_ERROR, &error, &bytes);
  }
  if (!error) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return fd;
  }
  close(fd);
  errno = error;
  return -1;
}

static pjrtc_code explain(const char *target, int error, pjrtc_grpc_error *out_error) {
  switch (error) {
    case ETIMEDOUT:
      return fail(out_error, PJRTC_DEADLINE_EXCEEDED, "the host may be down, or a firewall drops the connection",
                  "cannot connect to %s: no answer in time", target);
    case ECONNREFUSED:
      return fail(out_error, PJRTC_UNAVAILABLE,
                  "start pjrtd with --listen grpc://HOST:PORT, or set PJRTD_TARGET to where it listens (its line "
                  "\"pjrtd ready ...\")",
                  "cannot connect to %s: nobody listens there", target);
    case EMFILE:
    case ENFILE:
    case ENOMEM:
      return fail(out_error, PJRTC_RESOURCE_EXHAUSTED, "raise the limit on open descriptors",
                  "cannot connect to %s: %s", target, strerror(error));
    default:
      return fail(out_error, PJRTC_UNAVAILABLE, "is that host right, and can it be reached from here?",
                  "cannot connect to %s: %s", target, strerror(error));
  }
}

/* To the first of the host's addresses that answers. */
static pjrtc_code open_socket(const pjrtc_grpc_options *options, const endpoint *to, int *out_fd,
                              pjrtc_grpc_error *out_error) {
  const struct addrinfo wanted = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICSERV};
  struct addrinfo *found;
  int error = getaddrinfo(to->host, to->port, &wanted, &found);
  if (error)
    return fail(out_error, PJRTC_UNAVAILABLE, "is the host's name right, and does this machine resolve it?",
                "cannot connect to %s: %s: %s", options->target, to->host, gai_strerror(error));
  int64_t deadline_ms = now_ms() + (int64_t)(options->timeout_ns / 1000000);
  *out_fd = -1;
  for (const struct addrinfo *address = found; address && *out_fd < 0; address = address->ai_next) {
    *out_fd = connect_to(address, deadline_ms);
    error = errno;
  }
  freeaddrinfo(found);
  return *out_fd < 0 ? explain(options->target, error, out_error) : PJRTC_OK;
}

/* ---- channels ---- */

static grpc_arg integer(const char *name, int value) {
  return (grpc_arg){.type = GRPC_ARG_INTEGER, .key = (char *)name, .value.integer = value};
}

static pjrtc_code read_file(const char *path, char **out_text, pjrtc_grpc_error *out_error) {
  static const char hint[] = "a PEM file with the certificates to trust belongs there (ca_file, or PJRTD_CA_FILE)";
  FILE *file = fopen(path, "re");
  if (!file) return fail(out_error, PJRTC_INVALID_ARGUMENT, hint, "cannot read %s: %s", path, strerror(errno));
  size_t capacity = 4 << 20;
  *out_text = malloc(capacity);
  size_t bytes = *out_text ? fread(*out_text, 1, capacity - 1, file) : 0;
  bool whole = bytes && feof(file);
  fclose(file);
  if (whole) {
    (*out_text)[bytes] = '\0';
    if (strstr(*out_text, "-----BEGIN CERTIFICATE-----")) return PJRTC_OK;
  }
  free(*out_text);
  return fail(out_error, PJRTC_INVALID_ARGUMENT, hint, "%s holds no certificates", path);
}

static pjrtc_code make_credentials(const pjrtc_grpc_options *options, grpc_channel_credentials **out_credentials,
                                   pjrtc_grpc_error *out_error) {
  char *roots = NULL;
  pjrtc_code code = options->ca_file ? read_file(options->ca_file, &roots, out_error) : PJRTC_OK;
  if (code) return code;
  *out_credentials = grpc_ssl_credentials_create(roots, NULL, NULL, NULL);
  free(roots);
  return PJRTC_OK;
}

pjrtc_code pjrtc_dial(const pjrtc_grpc_options *options, pjrtc_dialled *out_dialled, pjrtc_grpc_error *out_error) {
  endpoint to;
  pjrtc_code code = parse(options->target, &to, out_error);
  if (code) return code;
  bool secure = strncmp(options->target, "grpcs:", 6) == 0;
  grpc_channel_credentials *credentials = NULL;
  out_dialled->socket = -1;
  snprintf(out_dialled->authority, sizeof out_dialled->authority, to.is_v6 ? "[%s]:%s" : "%s:%s", to.host, to.port);
  code = secure ? make_credentials(options, &credentials, out_error)
                : open_socket(options, &to, &out_dialled->socket, out_error);
  if (code) return code;
  if (!secure) credentials = grpc_insecure_credentials_create();
  grpc_arg args[] = {
      integer(GRPC_ARG_MAX_RECEIVE_MESSAGE_LENGTH, MAX_MESSAGE_BYTES),
      integer(GRPC_ARG_KEEPALIVE_TIME_MS, KEEPALIVE_MS),
      integer(GRPC_ARG_KEEPALIVE_TIMEOUT_MS, KEEPALIVE_TIMEOUT_MS),
      integer(GRPC_ARG_HTTP2_MAX_PINGS_WITHOUT_DATA, 0),
      {.type = GRPC_ARG_STRING, .key = GRPC_ARG_PRIMARY_USER_AGENT_STRING, .value.string = "libpjrtc/" PJRTD_VERSION},
      {.type = GRPC_ARG_STRING, .key = GRPC_ARG_DEFAULT_AUTHORITY, .value.string = out_dialled->authority},
  };
  const grpc_channel_args channel_args = {.num_args = sizeof args / sizeof *args, .args = args};
  char name[sizeof out_dialled->authority + sizeof "dns:///"];
  snprintf(name, sizeof name, "dns:///%s", out_dialled->authority);
  out_dialled->channel =
      secure ? grpc_channel_create(name, credentials, &channel_args)
             : grpc_channel_create_from_fd(out_dialled->authority, out_dialled->socket, credentials, &channel_args);
  grpc_channel_credentials_release(credentials);
  return PJRTC_OK;
}
