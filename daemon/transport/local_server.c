/* See local_server.h: polling, the end of a turn, and clients that are stuck. */
#include "transport/local_server.h"

#include "base/clock.h"

#define WATCH_PERIOD_MS 1000
/* Attempts on the hot connections before the others get a look. */
#define SPIN_ROUNDS 4

void local_server_mark_dirty(local_server *server, local_connection *connection) {
  if (connection->dirty || connection->closed) return;
  connection->dirty = true;
  connection->next_dirty = server->dirty;
  server->dirty = connection;
}

void local_server_flush(void *user) {
  local_server *server = user;
  while (server->dirty) {
    local_connection *connection = server->dirty;
    server->dirty = connection->next_dirty;
    connection->dirty = false;
    local_connection_flush(connection);
  }
}

static void on_resume(uv_idle_t *resume) {
  local_server *server = resume->data;
  local_connection *at = server->resuming;
  server->resuming = NULL;
  server->last_resuming = &server->resuming;
  pjrtd_runtime_enter(server->runtime);
  while (at) {
    local_connection *next = at->next_resuming;
    at->resuming = false;
    if (pjrtd_runtime_time_is_up(server->runtime)) {
      local_server_resume_later(server, at);
      at = next;
      continue;
    }
    local_connection_read(at);
    local_connection_flush(at); /* puts it back into the poll, too */
    at = next;
  }
  if (!server->resuming) uv_idle_stop(resume);
}

void local_server_resume_later(local_server *server, local_connection *connection) {
  if (connection->resuming || connection->closed) return;
  connection->resuming = true;
  connection->next_resuming = NULL;
  *server->last_resuming = connection;
  server->last_resuming = &connection->next_resuming;
  if (!uv_is_active((uv_handle_t *)&server->resume)) uv_idle_start(&server->resume, on_resume);
}

void local_server_forget(local_server *server, local_connection *connection) {
  for (local_connection **at = &server->resuming; *at && connection->resuming; at = &(*at)->next_resuming) {
    if (*at != connection) continue;
    *at = connection->next_resuming;
    if (server->last_resuming == &connection->next_resuming) server->last_resuming = at;
    connection->resuming = false;
    break;
  }
  size_t kept = 0;
  for (size_t i = 0; i < LOCAL_HOT; i++)
    if (server->hot[i] && server->hot[i] != connection) server->hot[kept++] = server->hot[i];
  while (kept < LOCAL_HOT) server->hot[kept++] = NULL;
  if (!connection->dirty) return;
  for (local_connection **at = &server->dirty; *at; at = &(*at)->next_dirty) {
    if (*at != connection) continue;
    *at = connection->next_dirty;
    break;
  }
  connection->dirty = false;
}

/* ---- polling ---- */

/* Each connection that is tried for nothing costs those behind it. */
static void drop_cold(local_server *server) {
  uint64_t now_ns = pjrtd_clock_now_ns();
  size_t kept = 0;
  while (kept < LOCAL_HOT && server->hot[kept] && server->hot[kept]->hot_until_ns > now_ns) kept++;
  while (kept < LOCAL_HOT) server->hot[kept++] = NULL;
}

/* Sends what this turn has answered so far. */
static void answer(local_server *server) {
  pjrtd_runtime_settle(server->runtime);
  local_server_flush(server);
}

static void on_spin(uv_idle_t *spin) {
  local_server *server = spin->data;
  drop_cold(server);
  if (!server->hot[0] || !pjrtd_may_poll(&server->crowding, server->runtime, pjrtd_clock_now_ns())) {
    uv_idle_stop(spin);
    return;
  }
  for (int round = 0; round < SPIN_ROUNDS; round++) {
    bool any = false;
    for (size_t i = 0; i < LOCAL_HOT && server->hot[i]; i++)
      if (local_connection_read(server->hot[i])) any = true;
    /* All answers at once: clients that share a core are woken by one interrupt instead of one each. */
    if (any) answer(server);
    /* A single client that asked is answered on its own core. */
    if ((!any || server->hot[1]) && !pjrtd_give_way(&server->crowding)) {
      uv_idle_stop(spin);
      return;
    }
    if (any) return;
  }
}

void local_server_was_active(local_server *server, local_connection *connection) {
  uint64_t poll_us = server->settings->busy_poll_us, now_ns = pjrtd_clock_now_ns();
  if (!poll_us || now_ns < server->crowding.crowded_until_ns) return;
  connection->hot_until_ns = now_ns + poll_us * 1000;
  if (!uv_is_active((uv_handle_t *)&server->spin)) uv_idle_start(&server->spin, on_spin);
  if (server->hot[0] == connection) return;
  /* To the front; the one that was longest quiet falls out. */
  size_t at = 1;
  while (at < LOCAL_HOT - 1 && server->hot[at] && server->hot[at] != connection) at++;
  for (; at; at--) server->hot[at] = server->hot[at - 1];
  server->hot[0] = connection;
}

/* Everything that had come was read. Clients come first: memory is given back in the turn's next phase (runtime.c). */
static void on_check(uv_check_t *check) {
  answer(check->data);
}

/* Before the loop may sleep: what timers and idle work have made ready goes out, too. */
static void on_prepare(uv_prepare_t *prepare) {
  local_server *server = prepare->data;
  answer(server);
  pjrtd_runtime_end_turn(server->runtime);
}

/* ---- clients that are stuck ---- */

static void cut_off(local_connection *connection, const char *why) {
  pjrtd_log(PJRTD_LOG_WARNING, "cutting a client off", PJRTD_LOG_TEXT("reason", why),
            PJRTD_LOG_INT("pid", connection->peer.identity.pid),
            PJRTD_LOG_TEXT("client", connection->peer.client_name));
  connection->peer.runtime->stats.clients_cut_off++;
  local_connection_close(connection);
}

static void on_watch(uv_timer_t *watch) {
  local_server *server = watch->data;
  pjrtd_runtime_enter(server->runtime);
  uint64_t now_ns = pjrtd_clock_now_ns();
  local_connection *next;
  for (local_connection *at = server->connections; at; at = next) {
    next = at->next;
    if (!at->peer.greeted && now_ns - at->accepted_ns > server->settings->handshake_seconds * UINT64_C(1000000000))
      cut_off(at, "no hello within handshake_seconds");
    else if (local_connection_is_writing(at) && at->last_progress_ns &&
             now_ns - at->last_progress_ns > server->settings->client_stall_seconds * UINT64_C(1000000000))
      cut_off(at, "it read nothing for client_stall_seconds");
  }
}

/* ---- life ---- */

pjrtd_status *local_server_create(pjrtd_runtime *runtime, local_server **out_server) {
  *out_server = NULL;
  local_server *server = pjrtd_calloc(1, sizeof *server);
  if (!server) return pjrtd_status_oom();
  server->input = pjrtd_malloc(LOCAL_READ_BYTES);
  if (!server->input) {
    pjrtd_free(server);
    return pjrtd_status_oom();
  }
  server->runtime = runtime;
  server->settings = runtime->settings;
  server->last_resuming = &server->resuming;
  uv_prepare_init(runtime->loop, &server->prepare);
  uv_check_init(runtime->loop, &server->check);
  uv_idle_init(runtime->loop, &server->spin);
  uv_idle_init(runtime->loop, &server->resume);
  uv_timer_init(runtime->loop, &server->watch);
  server->prepare.data = server->check.data = server->spin.data = server->resume.data = server->watch.data = server;
  uv_prepare_start(&server->prepare, on_prepare);
  uv_check_start(&server->check, on_check);
  uv_timer_start(&server->watch, on_watch, WATCH_PERIOD_MS, WATCH_PERIOD_MS);
  runtime->flush = local_server_flush;
  runtime->flush_user = server;
  *out_server = server;
  return PJRTD_OK;
}

void local_server_close(local_server *server) {
  server->closing = true;
  local_server_stop_listening(server);
  while (server->connections) local_connection_close(server->connections);
  uv_close((uv_handle_t *)&server->prepare, NULL);
  uv_close((uv_handle_t *)&server->check, NULL);
  uv_close((uv_handle_t *)&server->spin, NULL);
  uv_close((uv_handle_t *)&server->resume, NULL);
  uv_close((uv_handle_t *)&server->watch, NULL);
}

void local_server_destroy(local_server *server) {
  if (!server) return;
  server->runtime->flush = NULL;
  pjrtd_free(server->input);
  pjrtd_free(server);
}
