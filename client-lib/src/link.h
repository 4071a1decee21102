/* What carries a connection's bytes: the local socket (socket_link.c), or gRPC (libpjrtc-grpc.so, ../grpc). Either way
 * they are frames with the header of proto/frame.h, one after the other.
 *
 * Threads: one at a time sends, one at a time receives or waits, and these two do not wait for each other. Anybody may
 * wake. Nothing of it is called once the link is closed. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#include "pjrtc/pjrtc.h"

typedef struct pjrtc_link pjrtc_link;

/* Why a link is over. The texts are the link's, until it is closed. */
typedef struct {
  pjrtc_code code;
  const char *message, *hint;
} pjrtc_link_end;

typedef struct {
  /* Takes as many of these bytes as it has room for, without waiting: how many, or -1 and errno: EAGAIN where there is
   * no room now, else nothing can be sent any more. */
  ssize_t (*send)(pjrtc_link *link, const struct iovec *parts, size_t num_parts);
  /* Fills the parts with what has come: how many bytes, or 0 where the link is over, or -1 and EAGAIN where nothing is
   * there. May sleep for up to `sleep_ms` before it says so; nobody can wake it. */
  ssize_t (*receive)(pjrtc_link *link, const struct iovec *parts, size_t num_parts, uint32_t sleep_ms);
  /* Sleeps until there is something to receive, or, where `out`, room to send, or somebody calls `wake`, or for
   * `timeout_ms` (negative: for ever). True where there may be something to receive. */
  bool (*wait)(pjrtc_link *link, bool out, int timeout_ms);
  /* Ends a `wait`; at latest the next one. */
  void (*wake)(pjrtc_link *link);
  /* For a caller's event loop: what to poll, and for what. -1 where that is not possible. */
  int (*get_fd)(pjrtc_link *link);
  short (*get_events)(const pjrtc_link *link, bool wants_write);
  /* Once `receive` has said 0. */
  void (*explain)(pjrtc_link *link, pjrtc_link_end *out_end);
  /* Ends the connection and frees everything. In a forked child: gives up its copies of descriptors, and touches
   * nothing else. */
  void (*close)(pjrtc_link *link);
  void (*close_in_child)(pjrtc_link *link);
} pjrtc_link_ops;

struct pjrtc_link {
  const pjrtc_link_ops *ops;
};

/* ---- How libpjrtc opens one over gRPC ---- */

typedef struct {
  const char *target;  /* "grpc://HOST:PORT" or "grpcs://HOST:PORT", borrowed */
  const char *ca_file; /* certificates to trust, PEM; NULL: the system's */
  uint64_t timeout_ns;
} pjrtc_grpc_options;

typedef struct {
  char message[1024], hint[512];
} pjrtc_grpc_error;

/* PJRTC_OK, or why there is no link. Its name in libpjrtc-grpc.so ends with the version of this header. */
#define PJRTC_GRPC_LIBRARY "libpjrtc-grpc.so.0"
#define PJRTC_GRPC_OPEN pjrtc_grpc_open_1
typedef pjrtc_code pjrtc_grpc_open(const pjrtc_grpc_options *options, pjrtc_link **out_link,
                                   pjrtc_grpc_error *out_error);
