/* pjrtctl session: which sessions there are, what one holds, and its end. */
#include <ctype.h>
#include <inttypes.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "ctl_json.h"
#include "ctl_table.h"

#define LARGEST 20

/* ---- one session's texts; to be freed ---- */

char *ctl_owner_text(bool local, uint32_t uid) {
  if (!local) return ctl_text("%s", "remote");
  const struct passwd *user = getpwuid(uid);
  return user ? ctl_text("%s", user->pw_name) : ctl_text("uid %" PRIu32, uid);
}

static char *state_text(const pjrtc_session_info *session) {
  char text[32];
  if (session->lease_left_ns) return ctl_text("ends in %s", ctl_duration(session->lease_left_ns, text));
  if (session->idle_left_ns) return ctl_text("idle, ends in %s", ctl_duration(session->idle_left_ns, text));
  return ctl_text("%zu attached", session->num_connections);
}

static const char *priority_text(const pjrtc_session_info *session) {
  switch (session->priority) {
    case PJRTC_PRIORITY_LOW: return "low";
    case PJRTC_PRIORITY_NORMAL: return "normal";
    case PJRTC_PRIORITY_HIGH: return "high";
    case PJRTC_PRIORITY_UNSPECIFIED: break;
  }
  return "unknown";
}

/* "python3 (1234), grpc" */
static char *connections_text(const pjrtc_session_info *session) {
  char *text = ctl_text("%s", session->num_connections ? "" : "-");
  for (size_t i = 0; i < session->num_connections; i++) {
    const pjrtc_session_connection *connection = session->connections[i];
    const char *comma = i ? ", " : "";
    char *longer = connection->pid
                       ? ctl_text("%s%s%s (%" PRIu32 ")", text, comma, connection->command, connection->pid)
                       : ctl_text("%s%s%s over %s", text, comma, connection->client_name, connection->transport);
    free(text);
    text = longer;
  }
  return text;
}

/* ---- JSON ---- */

static json_t *connections_json(const pjrtc_session_info *session) {
  json_t *list = json_array();
  for (size_t i = 0; i < session->num_connections; i++) {
    const pjrtc_session_connection *connection = session->connections[i];
    json_t *object = json_object();
    json_object_set_new(object, "pid", connection->pid ? json_integer(connection->pid) : json_null());
    json_object_set_new(object, "command", ctl_json_text(connection->command));
    json_object_set_new(object, "client_name", ctl_json_text(connection->client_name));
    json_object_set_new(object, "transport", ctl_json_text(connection->transport));
    json_object_set_new(object, "id_prefix", json_integer(connection->id_prefix));
    json_array_append_new(list, object);
  }
  return list;
}

static json_t *largest_json(const pjrtc_session_info *session) {
  json_t *list = json_array();
  char text[256];
  for (size_t i = 0; i < session->num_largest; i++) {
    const pjrtc_session_buffer *buffer = session->largest[i];
    json_t *object = json_object();
    json_object_set_new(object, "buffer", buffer->buffer ? ctl_json_unsigned(buffer->buffer) : json_null());
    json_object_set_new(object, "slot", *buffer->slot ? ctl_json_text(buffer->slot) : json_null());
    json_object_set_new(object, "bytes", ctl_json_unsigned(buffer->bytes));
    json_object_set_new(object, "type", ctl_json_text(pjrtc_type_format(&buffer->type, text, sizeof text)));
    json_object_set_new(object, "device", json_integer(buffer->device));
    json_array_append_new(list, object);
  }
  return list;
}

static json_t *quotas_json(const pjrtc_session_info *session) {
  json_t *object = json_object();
  for (size_t i = 0; i < session->num_quotas; i++) {
    const pjrtc_quota_use *quota = session->quotas[i];
    json_t *use = json_object();
    json_object_set_new(use, "used", ctl_json_unsigned(quota->used));
    json_object_set_new(use, "allowed", quota->allowed ? ctl_json_unsigned(quota->allowed) : json_null());
    json_object_set_new(object, quota->setting, use);
  }
  return object;
}

static json_t *session_json(const pjrtc_session_info *session, bool whole) {
  json_t *object = json_object();
  json_object_set_new(object, "session", ctl_json_unsigned(session->session));
  json_object_set_new(object, "name", ctl_json_text(session->name));
  json_object_set_new(object, "uid", session->local ? json_integer(session->uid) : json_null());
  json_object_set_new(object, "buffers", ctl_json_unsigned(session->buffers));
  json_object_set_new(object, "slots", ctl_json_unsigned(session->slots));
  json_object_set_new(object, "programs", ctl_json_unsigned(session->programs));
  json_object_set_new(object, "buffer_bytes", ctl_json_unsigned(session->buffer_bytes));
  json_object_set_new(object, "calls_in_flight", ctl_json_unsigned(session->calls_in_flight));
  json_object_set_new(object, "age_ns", ctl_json_unsigned(session->age_ns));
  json_object_set_new(object, "idle_ns", ctl_json_unsigned(session->idle_ns));
  json_object_set_new(object, "ttl_ns", ctl_json_unsigned(session->ttl_ns));
  json_object_set_new(object, "lease_left_ns",
                      session->lease_left_ns ? ctl_json_unsigned(session->lease_left_ns) : json_null());
  json_object_set_new(object, "priority", ctl_json_text(priority_text(session)));
  json_object_set_new(object, "home_device", json_integer(session->home_device));
  json_object_set_new(object, "device_ns", ctl_json_unsigned(session->device_ns));
  json_object_set_new(object, "idle_left_ns",
                      session->idle_left_ns ? ctl_json_unsigned(session->idle_left_ns) : json_null());
  json_object_set_new(object, "connections", connections_json(session));
  if (whole) json_object_set_new(object, "reserved_bytes", ctl_json_unsigned(session->reserved_bytes));
  if (whole) json_object_set_new(object, "quotas", quotas_json(session));
  if (whole) json_object_set_new(object, "largest", largest_json(session));
  return object;
}

/* ---- ls ---- */

static void list(const ctl_common *common, const pjrtc_sessions *sessions) {
  if (common->json) {
    json_t *all = json_array();
    for (size_t i = 0; i < sessions->num_sessions; i++)
      if (!sessions->sessions[i]->own) json_array_append_new(all, session_json(sessions->sessions[i], false));
    ctl_json_print(json_pack("{s:o}", "sessions", all));
    return;
  }
  static const char *const columns[] = {"SESSION#", "NAME",   "OWNER", "STATE",   "BUFFERS#",
                                        "SLOTS#",   "BYTES#", "IDLE#", "USED BY", NULL};
  ctl_table *table = ctl_table_create(columns, true);
  for (size_t i = 0; i < sessions->num_sessions; i++) {
    const pjrtc_session_info *session = sessions->sessions[i];
    if (session->own) continue; /* this command's */
    char text[32], *owner = ctl_owner_text(session->local, session->uid), *state = state_text(session),
                   *users = connections_text(session);
    ctl_table_add(table, "%" PRIu64, session->session);
    ctl_table_add(table, "%s", *session->name ? session->name : "-");
    ctl_table_add(table, "%s", owner);
    ctl_table_add(table, "%s", state);
    ctl_table_add(table, "%" PRIu64, session->buffers);
    ctl_table_add(table, "%" PRIu64, session->slots);
    ctl_table_add(table, "%s", ctl_bytes(session->buffer_bytes, text));
    ctl_table_add(table, "%s", ctl_duration(session->idle_ns, text));
    ctl_table_add(table, "%s", users);
    free(owner);
    free(state);
    free(users);
  }
  ctl_table_print(table);
}

/* ---- show ---- */

static const char *amount(const char *setting, uint64_t value, char text[32]) {
  if (strstr(setting, "_bytes")) return ctl_bytes(value, text);
  snprintf(text, 32, "%" PRIu64, value);
  return text;
}

/* Those that there is a limit for. */
static void show_quotas(const pjrtc_session_info *session) {
  static const char *const columns[] = {"QUOTA", "USED#", "ALLOWED#", NULL};
  ctl_table *table = NULL;
  char text[32];
  for (size_t i = 0; i < session->num_quotas; i++) {
    const pjrtc_quota_use *quota = session->quotas[i];
    if (!quota->allowed) continue;
    if (!table) {
      putchar('\n');
      table = ctl_table_create(columns, true);
    }
    ctl_table_add(table, "%s", quota->setting);
    ctl_table_add(table, "%s", amount(quota->setting, quota->used, text));
    ctl_table_add(table, "%s", amount(quota->setting, quota->allowed, text));
  }
  if (table) ctl_table_print(table);
}

static void show(const ctl_common *common, const pjrtc_session_info *session) {
  if (common->json) {
    ctl_json_print(session_json(session, true));
    return;
  }
  static const char *const columns[] = {"name", "value", NULL};
  static const char *const buffer_columns[] = {"LARGEST BUFFERS#", "BYTES#", "DEVICE#", "TYPE", NULL};
  char text[256], *owner = ctl_owner_text(session->local, session->uid), *state = state_text(session),
                  *users = connections_text(session);
  ctl_table *table = ctl_table_create(columns, false);
#define ROW(label, ...)                \
  do {                                 \
    ctl_table_add(table, "%s", label); \
    ctl_table_add(table, __VA_ARGS__); \
  } while (0)
  ROW("session", "%" PRIu64, session->session);
  ROW("name", "%s", *session->name ? session->name : "-");
  ROW("owner", "%s", owner);
  ROW("state", "%s", state);
  ROW("used by", "%s", users);
  ROW("buffers", "%" PRIu64, session->buffers);
  ROW("slots", "%" PRIu64, session->slots);
  ROW("in buffers", "%s", ctl_bytes(session->buffer_bytes, text));
  ROW("for calls under way", "%s", ctl_bytes(session->reserved_bytes, text));
  ROW("programs", "%" PRIu64, session->programs);
  ROW("calls in flight", "%" PRIu64, session->calls_in_flight);
  ROW("priority", "%s", priority_text(session));
  ROW("home device", "%" PRId32, session->home_device);
  ROW("device time", "%s", ctl_duration(session->device_ns, text));
  ROW("opened before", "%s", ctl_duration(session->age_ns, text));
  ROW("idle for", "%s", ctl_duration(session->idle_ns, text));
  ROW("outlives its connections by", "%s", session->ttl_ns ? ctl_duration(session->ttl_ns, text) : "nothing");
#undef ROW
  ctl_table_print(table);
  free(owner);
  free(state);
  free(users);
  show_quotas(session);
  if (!session->num_largest) return;
  putchar('\n');
  table = ctl_table_create(buffer_columns, true);
  for (size_t i = 0; i < session->num_largest; i++) {
    const pjrtc_session_buffer *buffer = session->largest[i];
    if (buffer->buffer)
      ctl_table_add(table, "%" PRIu64, buffer->buffer);
    else
      ctl_table_add(table, "slot:%s", buffer->slot);
    ctl_table_add(table, "%s", ctl_bytes(buffer->bytes, text));
    ctl_table_add(table, "%" PRId32, buffer->device);
    ctl_table_add(table, "%s", pjrtc_type_format(&buffer->type, text, sizeof text));
  }
  ctl_table_print(table);
}

/* ---- close ---- */

static int end(const ctl_common *common, pjrtc_client *client, uint64_t session, const char *name, pjrtc_error *error) {
  uint64_t buffers, programs;
  if (pjrtc_session_close_other(client, session, name, &buffers, &programs, error)) return ctl_fail(common, error);
  if (common->json)
    ctl_json_print(json_pack("{s:o, s:o}", "buffers_freed", ctl_json_unsigned(buffers), "programs_freed",
                             ctl_json_unsigned(programs)));
  else
    printf("freed %" PRIu64 " buffers and %" PRIu64 " programs\n", buffers, programs);
  return CTL_OK;
}

/* ---- taking part ---- */

int ctl_session_join(const ctl_common *common, pjrtc_client *client, const char *name, bool create, uint64_t ttl_ns) {
  pjrtc_attach_options options = {.struct_size = sizeof options,
                                  .name = *name == '=' ? name + 1 : name,
                                  .create = create,
                                  .join = true,
                                  .ttl_ns = ttl_ns};
  pjrtc_error error;
  ctl_error_init(&error);
  int status = CTL_OK;
  if (pjrtc_session_attach(client, &options, NULL, &error)) status = ctl_fail(common, &error);
  free(error.detail);
  return status;
}

void ctl_session_tidy(pjrtc_client *client, uint64_t *buffers, size_t num_buffers) {
  size_t count = 0;
  for (size_t i = 0; buffers && i < num_buffers; i++)
    if (buffers[i]) buffers[count++] = buffers[i];
  if (count) pjrtc_delete(client, buffers, count, NULL);
}

/* Digits are a session's number, as ls shows it: a name of digits only is told apart by a leading '='. */
static bool parse_session(const char *word, uint64_t *out_session, const char **out_name) {
  *out_session = 0;
  *out_name = NULL;
  if (*word == '=') {
    *out_name = word + 1;
    return word[1];
  }
  char *rest;
  *out_session = strtoull(word, &rest, 10);
  if (isdigit((unsigned char)*word) && !*rest) return *out_session;
  *out_session = 0;
  *out_name = word;
  return *word;
}

int ctl_session(int argc, char **argv, ctl_common *common) {
  static const char hint[] = "pjrtctl session ls | show SESSION | close SESSION, by name or number";
  const char *words[2];
  size_t num_words;
  int status = ctl_parse(argc, argv, NULL, 0, NULL, common, words, 2, &num_words);
  if (status) return status;
  const char *verb = num_words ? words[0] : "ls", *name = NULL;
  bool is_list = strcmp(verb, "ls") == 0, is_show = strcmp(verb, "show") == 0, is_close = strcmp(verb, "close") == 0;
  uint64_t session = 0;
  if (!is_list && !is_show && !is_close) return ctl_complain(common, CTL_USAGE, hint, "session knows no \"%s\"", verb);
  if (is_list != (num_words < 2) || (!is_list && !parse_session(words[1], &session, &name)))
    return ctl_complain(common, CTL_USAGE, hint, is_list ? "session ls takes no session" : "session %s of which?",
                        verb);
  pjrtc_client *client = ctl_connect(common, &status);
  if (!client) return status;
  pjrtc_error error;
  pjrtc_sessions *sessions = NULL;
  ctl_error_init(&error);
  if (is_close)
    status = end(common, client, session, name, &error);
  else if (pjrtc_get_sessions(client, session, name, is_show ? LARGEST : 0, &sessions, &error))
    status = ctl_fail(common, &error);
  else if (is_list)
    list(common, sessions);
  else if (sessions->num_sessions)
    show(common, sessions->sessions[0]);
  pjrtc_sessions_destroy(sessions);
  free(error.detail);
  pjrtc_close(client);
  return status;
}
