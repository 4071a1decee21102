/* The local socket: listeners, their connections, and busy polling. Loop thread. */
#pragma once

#include "transport/give_way.h"
#include "transport/local_connection.h"

/* One read takes up to this much; a frame that is not an item always fits. */
#define LOCAL_READ_BYTES (256u << 10)
/* Bulk bytes that one connection may move before others get their turn. */
#define LOCAL_TURN_BYTES (128u << 10)
/* What one system call moves of them: where the kernel is short of pages, 256 KB take it 7 ms. */
#define LOCAL_PIECE_BYTES (64u << 10)
#define LOCAL_HOT 8

typedef struct local_listener local_listener;

struct local_server {
  pjrtd_runtime *runtime;
  const pjrtd_settings *settings;
  local_listener *listeners;
  local_connection *connections;
  local_connection *dirty;
  uint8_t *input; /* shared by all connections */
  uv_prepare_t prepare;
  uv_check_t check;
  uv_idle_t spin;                              /* active while polling: the loop does not sleep */
  uv_idle_t resume;                            /* active while connections have frames that wait for a later turn */
  local_connection *resuming, **last_resuming; /* in order; last_resuming: where the next goes */
  uv_timer_t watch;                            /* looks for clients that are stuck */
  bool closing;
  /* Connections that sent a request within busy_poll_us, the last one first: these are tried while polling. */
  local_connection *hot[LOCAL_HOT];
  pjrtd_crowding crowding;
};

PJRTD_MUST_USE pjrtd_status *local_server_create(pjrtd_runtime *runtime, local_server **out_server);
/* Binds `path`: a stale socket is replaced, a live one refused. */
PJRTD_MUST_USE pjrtd_status *local_server_listen(local_server *server, const char *path);
/* No new connections; the socket files are removed. */
void local_server_stop_listening(local_server *server);
/* Closes everything. */
void local_server_close(local_server *server);
void local_server_destroy(local_server *server);
/* For runtime.flush. */
void local_server_flush(void *server);
void local_server_mark_dirty(local_server *server, local_connection *connection);
/* A request came: poll for a while before sleeping. */
void local_server_was_active(local_server *server, local_connection *connection);
/* Frames of the connection are here but have to wait for the next turn. */
void local_server_resume_later(local_server *server, local_connection *connection);
void local_server_forget(local_server *server, local_connection *connection);
