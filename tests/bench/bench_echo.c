/* The floor of a local round trip: a child that echoes messages over a bare AF_UNIX stream socket.
 *
 * usage: bench_echo REQUEST_BYTES REPLY_BYTES
 *
 * The sizes are those of pjrtd's own frames, so that what remains between the two is the work of the daemon and of the
 * client. Modes: `spin` (both sides poll), `sleep` (both sides sleep in recv), `server-spins` (bimodal: the client
 * sleeps and is woken). One process a side, one thread in each. */
#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench_slice.h"

enum { MAX_MESSAGE_BYTES = 64 << 10 };
/* The first byte of a request says what the server does after it has answered: it must not spin between slices. */
enum { THEN_SLEEP = 1, THEN_SPIN = 2 };

static int peer_fd;
static size_t request_bytes, reply_bytes;
static char request[MAX_MESSAGE_BYTES], reply[MAX_MESSAGE_BYTES];
static bool client_spins;

static void send_whole(int fd, const char *message, size_t size_bytes) {
  ssize_t sent = send(fd, message, size_bytes, MSG_NOSIGNAL);
  if (sent != (ssize_t)size_bytes) bench_fail("send: %s", sent < 0 ? strerror(errno) : "short");
}

/* False at the end of the stream. */
static bool receive_whole(int fd, char *out_message, size_t size_bytes, bool spin) {
  for (size_t have = 0; have < size_bytes;) {
    ssize_t got = recv(fd, out_message + have, size_bytes - have, spin ? MSG_DONTWAIT : 0);
    if (got == 0) return false;
    if (got > 0)
      have += (size_t)got;
    else if (errno != EAGAIN && errno != EINTR)
      bench_fail("recv: %s", strerror(errno));
  }
  return true;
}

static void serve_echo(int fd) {
  bool spin = false;
  while (receive_whole(fd, request, request_bytes, spin)) {
    spin = request[0] == THEN_SPIN;
    send_whole(fd, reply, reply_bytes);
  }
}

static void round_trip(void *user) {
  send_whole(peer_fd, request, request_bytes);
  if (!receive_whole(peer_fd, reply, reply_bytes, client_spins)) bench_fail("the echo server is gone");
}

static void begin_spin(void *user) {
  request[0] = THEN_SPIN;
  client_spins = true;
  round_trip(NULL);
}

static void begin_server_spins(void *user) {
  request[0] = THEN_SPIN;
  client_spins = false;
  round_trip(NULL);
}

static void end_spin(void *user) {
  request[0] = THEN_SLEEP;
  client_spins = false;
  round_trip(NULL);
}

static size_t parse_size(const char *text) {
  size_t size = strtoul(text, NULL, 10);
  if (size == 0 || size > MAX_MESSAGE_BYTES) bench_fail("a message of \"%s\" bytes", text);
  return size;
}

int main(int argc, char **argv) {
  if (argc != 3) bench_fail("usage: bench_echo REQUEST_BYTES REPLY_BYTES");
  request_bytes = parse_size(argv[1]);
  reply_bytes = parse_size(argv[2]);
  request[0] = THEN_SLEEP;
  int pair[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pair) != 0) bench_fail("socketpair: %s", strerror(errno));
  pid_t parent = getpid(), child = fork();
  if (child < 0) bench_fail("fork: %s", strerror(errno));
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) return 1;
    close(pair[0]);
    serve_echo(pair[1]);
    return 0;
  }
  close(pair[1]);
  peer_fd = pair[0];
  const bench_mode modes[] = {
      {.name = "sleep", .op = round_trip},
      {.name = "spin", .op = round_trip, .begin = begin_spin, .end = end_spin},
      {.name = "server-spins", .op = round_trip, .begin = begin_server_spins, .end = end_spin},
  };
  char facts[64];
  snprintf(facts, sizeof facts, "{\"server_pid\": %d}", (int)child);
  bench_serve(modes, sizeof modes / sizeof *modes, facts);
  return 0;
}
