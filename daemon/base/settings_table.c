/* The table of settings: the one place that says what there is. deploy/pjrtd.conf, the manual, is held against it by a
 * test. To add a setting: a field in settings.h, a row here, an entry there. Any thread; constant. */
#include "base/settings_table.h"

#include <string.h>
#include <sys/un.h>

#define KIB ((uint64_t)1 << 10)
#define MIB ((uint64_t)1 << 20)
#define GIB ((uint64_t)1 << 30)
#define TIB ((uint64_t)1 << 40)

static pjrtd_status *check_listen(const char *text) {
  /* Whether there is a transport for an address is not decided here. */
  if (strncmp(text, "grpc://", 7) == 0 || strncmp(text, "grpcs://", 8) == 0) return PJRTD_OK;
  if (strncmp(text, "unix:", 5) != 0 || !text[5])
    return pjrtd_status_with_hint(PJRTD_INVALID("\"%s\" is not an address", text),
                                  "addresses are unix:PATH and grpc://HOST:PORT");
  size_t most = sizeof((struct sockaddr_un *)NULL)->sun_path - 1;
  if (strlen(text + 5) > most)
    return PJRTD_INVALID("the socket path \"%s\" has %zu bytes, at most %zu are possible", text + 5, strlen(text + 5),
                         most);
  return PJRTD_OK;
}

static pjrtd_status *check_option(const char *text) {
  const char *equals = strchr(text, '=');
  if (!equals || equals == text) return PJRTD_INVALID("\"%s\" is not NAME=VALUE", text);
  size_t name_length = (size_t)(equals - text);
  if (strcspn(text, " \t") < name_length) return PJRTD_INVALID("the name in \"%s\" has a space", text);
  return PJRTD_OK;
}

static const char *const stuck_actions[] = {"report", "exit", NULL};
static const char *const log_levels[] = {"debug", "info", "warning", "error", NULL};
static const char *const session_homes[] = {"first", "least_loaded", NULL};
static const char *const log_formats[] = {"text", "json", NULL};

/* The field's offset, where its type is the one that the kind writes to. */
#define FIELD(field, type)           \
  (offsetof(pjrtd_settings, field) + \
   0 * sizeof(char[__builtin_types_compatible_p(__typeof__(((pjrtd_settings *)0)->field), type) ? 1 : -1]))

#define TEXT(field, value, check_, help_)                                                                             \
  {                                                                                                                   \
    .name = #field, .kind = PJRTD_SETTING_TEXT, .offset = FIELD(field, char *), .value_name = value, .check = check_, \
    .help = help_                                                                                                     \
  }
#define LIST(field, value, check_, help_)                                                                     \
  {                                                                                                           \
    .name = #field, .kind = PJRTD_SETTING_LIST, .offset = FIELD(field, pjrtd_text_list), .value_name = value, \
    .check = check_, .help = help_                                                                            \
  }
#define NUMBER(field, kind_, value, default_, least_, most_, reloadable_, help_)                                    \
  {                                                                                                                 \
    .name = #field, .kind = kind_, .offset = FIELD(field, uint64_t), .value_name = value, .default_text = default_, \
    .least = least_, .most = most_, .reloadable = reloadable_, .help = help_                                        \
  }
#define INTEGER(field, ...) NUMBER(field, PJRTD_SETTING_INTEGER, "N", __VA_ARGS__)
#define SIZE(field, ...) NUMBER(field, PJRTD_SETTING_SIZE, "SIZE", __VA_ARGS__)
#define OCTAL(field, ...) NUMBER(field, PJRTD_SETTING_OCTAL, "MODE", __VA_ARGS__)
#define CHOICE(field, type, choices_, default_, reloadable_, help_)                                   \
  {                                                                                                   \
    .name = #field, .kind = PJRTD_SETTING_CHOICE, .offset = FIELD(field, type), .value_name = "WORD", \
    .default_text = default_, .choices = choices_, .most = sizeof choices_ / sizeof *choices_ - 2,    \
    .reloadable = reloadable_, .help = help_                                                          \
  }

enum { RESTART = false, RELOAD = true };

const pjrtd_setting pjrtd_settings_table[] = {
    TEXT(plugin, "FILE", NULL, "the PJRT plugin to load; found by itself where empty"),
    LIST(option, "NAME=VALUE", check_option, "create option for the plugin's client; repeatable"),
    LIST(listen, "ADDRESS", check_listen, "address to serve, unix:PATH or grpc://HOST:PORT; repeatable"),
    OCTAL(socket_mode, "0600", 0, 0777, RESTART, "permissions of the local socket"),
    TEXT(cache_dir, "DIR", NULL, "folder for compiled programs"),
    TEXT(state_dir, "DIR", NULL, "folder for keys and the server epoch"),
    INTEGER(busy_poll_us, "200", 0, 1000000, RELOAD, "how long the loop polls after a request before it sleeps"),
    INTEGER(loop_execute_us, "100", 0, 2000, RELOAD, "straight-line programs measured quicker may run on the loop"),
    INTEGER(max_idle_programs, "32", 0, 10000, RELOAD, "compiled programs that stay though nobody has them"),
    INTEGER(lane_stall_ms, "1000", 10, 3600000, RELOAD, "a plugin call that takes longer is moved off its lane"),
    INTEGER(max_stuck, "4", 1, 64, RESTART, "stuck plugin calls a device may have before new work is refused"),
    CHOICE(on_stuck, pjrtd_on_stuck, stuck_actions, "report", RELOAD, "what is done about a device that stays stuck"),
    INTEGER(max_device_executions, "24", 1, 1024, RESTART, "executions that a device may have under way by itself"),
    INTEGER(compile_stack_mib, "256", 8, 4096, RESTART, "stack of the compile thread"),
    INTEGER(max_connections, "4096", 1, 1000000, RESTART, "connections at one time"),
    INTEGER(max_calls_in_flight, "4096", 1, 65536, RESTART, "calls that a connection may have open"),
    SIZE(max_buffer_bytes, "0", 0, 1024 * TIB, RESTART, "memory of all buffers; 0: 80 % of what the machine has"),
    SIZE(max_program_bytes, "256 MiB", 64 * KIB, 2 * GIB, RESTART, "the largest program text"),
    INTEGER(max_sessions, "16384", 1, 10000000, RESTART, "sessions at one time, of all clients"),
    INTEGER(max_session_buffers, "1000000", 1, 1000000000, RESTART, "buffers that a session may have"),
    INTEGER(max_session_slots, "65536", 1, 10000000, RESTART, "named slots that a session may have"),
    INTEGER(max_session_programs, "10000", 1, 10000000, RESTART, "programs that a session may have"),
    SIZE(max_session_device_bytes, "0", 0, 1024 * TIB, RELOAD, "device memory of a session's buffers; 0: no limit"),
    SIZE(max_identity_device_bytes, "0", 0, 1024 * TIB, RELOAD, "of all sessions of an identity; 0: no limit"),
    INTEGER(max_identity_buffers, "0", 0, 1000000000, RELOAD, "buffers of all sessions of an identity; 0: no limit"),
    INTEGER(max_identity_programs, "0", 0, 10000000, RELOAD, "programs of all sessions of an identity; 0: no limit"),
    INTEGER(max_identity_sessions, "0", 0, 10000000, RELOAD, "sessions in use of an identity; 0: no limit"),
    INTEGER(max_identity_calls_in_flight, "0", 0, 10000000, RELOAD,
            "calls that an identity may have open; 0: no limit"),
    SIZE(max_identity_queued_bytes, "0", 0, 1 * TIB, RELOAD, "memory of an identity's open calls; 0: no limit"),
    SIZE(max_queued_bytes, "16 MiB", 4 * MIB, 4 * GIB, RESTART, "unread answers of a client before it is throttled"),
    INTEGER(client_stall_seconds, "30", 1, 86400, RESTART, "a throttled client that reads nothing is then cut off"),
    INTEGER(handshake_seconds, "10", 1, 3600, RESTART, "time that a new connection has to say hello"),
    INTEGER(session_lease_seconds, "600", 1, 31536000, RELOAD,
            "a named session outlives its last connection by so long"),
    CHOICE(session_home, pjrtd_session_home, session_homes, "first", RELOAD, "the device that a new session begins on"),
    INTEGER(session_idle_seconds, "0", 0, 31536000, RELOAD, "a session without a call for so long ends; 0: never"),
    SIZE(upload_credit_bytes, "4 MiB", 1 * MIB, 1 * GIB, RESTART, "what a client may send of an upload unasked"),
    INTEGER(drain_seconds, "10", 0, 86400, RESTART, "time that running work gets when the daemon stops"),
    CHOICE(log_level, pjrtd_log_level, log_levels, "info", RELOAD, "the least level that is logged"),
    CHOICE(log_format, pjrtd_log_format, log_formats, "text", RESTART, "key=value lines or JSON lines"),
};
_Static_assert(sizeof pjrtd_settings_table / sizeof *pjrtd_settings_table == PJRTD_NUM_SETTINGS,
               "PJRTD_NUM_SETTINGS in settings.h");
_Static_assert(sizeof(pjrtd_session_home) == sizeof(int) && sizeof(pjrtd_log_level) == sizeof(int) &&
                   sizeof(pjrtd_log_format) == sizeof(int) && sizeof(pjrtd_on_stuck) == sizeof(int),
               "choices are read and written as int");

const pjrtd_setting *pjrtd_setting_find(const char *name, size_t length) {
  for (size_t i = 0; i < PJRTD_NUM_SETTINGS; i++) {
    const pjrtd_setting *setting = &pjrtd_settings_table[i];
    if (strlen(setting->name) == length && memcmp(setting->name, name, length) == 0) return setting;
  }
  return NULL;
}

#define MAX_COMPARED 40

static size_t least_of(size_t a, size_t b, size_t c) {
  size_t least = a < b ? a : b;
  return least < c ? least : c;
}

/* Insertions, deletions and replacements from `a` to `b`; b has at most MAX_COMPARED bytes. */
static size_t edit_distance(const char *a, size_t a_length, const char *b, size_t b_length) {
  size_t row[MAX_COMPARED + 1];
  for (size_t j = 0; j <= b_length; j++) row[j] = j;
  for (size_t i = 0; i < a_length; i++) {
    size_t diagonal = row[0];
    row[0] = i + 1;
    for (size_t j = 0; j < b_length; j++) {
      size_t above = row[j + 1];
      row[j + 1] = least_of(above + 1, row[j] + 1, diagonal + (a[i] != b[j]));
      diagonal = above;
    }
  }
  return row[b_length];
}

const char *pjrtd_setting_nearest(const char *name, size_t length) {
  if (length > MAX_COMPARED) return NULL;
  const char *nearest = NULL;
  size_t least = length / 2 + 1;
  for (size_t i = 0; i < PJRTD_NUM_SETTINGS; i++) {
    const char *candidate = pjrtd_settings_table[i].name;
    size_t distance = edit_distance(name, length, candidate, strlen(candidate));
    if (distance < least) {
      least = distance;
      nearest = candidate;
    }
  }
  return nearest;
}
