/* The daemon's settings: one table (settings_table.c) drives flags, environment, configuration file, --help and
 * --check-config. Flags win over environment, environment over file, file over default; a source that names a list
 * replaces the list of the sources below it. Loaded by main before threads start, then read and reloaded by the loop
 * thread only. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/log.h"
#include "base/status.h"

typedef struct {
  char **items; /* owned, as are the texts */
  size_t count;
} pjrtd_text_list;

void pjrtd_text_list_deinit(pjrtd_text_list *list);

/* Where a value comes from. */
typedef struct {
  enum {
    PJRTD_ORIGIN_DEFAULT,
    PJRTD_ORIGIN_FILE,
    PJRTD_ORIGIN_ENVIRONMENT,
    PJRTD_ORIGIN_FLAG,
  } source;
  unsigned line; /* of the file */
} pjrtd_setting_origin;

/* What a device whose stuck calls do not come back is to the daemon. */
typedef enum { PJRTD_ON_STUCK_REPORT, PJRTD_ON_STUCK_EXIT } pjrtd_on_stuck;

typedef enum { PJRTD_SESSION_HOME_FIRST, PJRTD_SESSION_HOME_LEAST_LOADED } pjrtd_session_home;

/* settings_table.c asserts it. */
#define PJRTD_NUM_SETTINGS 39

/* Fields are named as the settings are; deploy/pjrtd.conf says what each does. Texts are owned and never NULL. */
typedef struct pjrtd_settings {
  char *plugin; /* "": discover */
  pjrtd_text_list listen;
  char *cache_dir; /* "": none */
  char *state_dir; /* "": none */
  pjrtd_text_list option;
  uint64_t busy_poll_us;
  uint64_t loop_execute_us;
  uint64_t max_idle_programs;
  uint64_t lane_stall_ms;
  uint64_t max_stuck;
  pjrtd_on_stuck on_stuck;
  uint64_t max_device_executions;
  uint64_t compile_stack_mib;
  uint64_t max_connections;
  uint64_t max_calls_in_flight;
  uint64_t max_buffer_bytes; /* never 0: the default was worked out */
  uint64_t max_program_bytes;
  uint64_t max_session_buffers;
  uint64_t max_sessions;
  uint64_t max_session_programs;
  uint64_t max_session_slots;
  uint64_t max_session_device_bytes; /* 0, as in the next six: no limit of its own */
  uint64_t max_identity_device_bytes;
  uint64_t max_identity_buffers;
  uint64_t max_identity_programs;
  uint64_t max_identity_sessions;
  uint64_t max_identity_calls_in_flight;
  uint64_t max_identity_queued_bytes;
  uint64_t max_queued_bytes;
  uint64_t client_stall_seconds;
  uint64_t handshake_seconds;
  uint64_t session_lease_seconds;
  pjrtd_session_home session_home;
  uint64_t session_idle_seconds; /* 0: never */
  uint64_t upload_credit_bytes;
  uint64_t drain_seconds;
  uint64_t socket_mode;
  pjrtd_log_level log_level;
  pjrtd_log_format log_format;

  char *config_path;                                /* the file that was read; NULL: none */
  pjrtd_setting_origin origins[PJRTD_NUM_SETTINGS]; /* in the table's order */
  int argc;                                         /* what reload reads again */
  char **argv;                                      /* borrowed */
} pjrtd_settings;

typedef enum {
  PJRTD_SETTINGS_RUN,
  PJRTD_SETTINGS_HELP,    /* --help: was printed to standard output */
  PJRTD_SETTINGS_VERSION, /* --version: the same */
  PJRTD_SETTINGS_CHECK,   /* --check-config: all is well, and the settings in force were printed */
} pjrtd_settings_action;

/* `argv` is borrowed for as long as the settings live. Errors name the setting, its value, what is allowed and where it
 * was set: INVALID_ARGUMENT, or NOT_FOUND for a missing configuration file. On failure `out_settings` is empty, and
 * deinit does nothing. */
PJRTD_MUST_USE pjrtd_status *pjrtd_settings_load(int argc, char **argv, pjrtd_settings *out_settings,
                                                 pjrtd_settings_action *out_action);
void pjrtd_settings_deinit(pjrtd_settings *settings);

/* What a reload did: names of settings. */
typedef struct {
  pjrtd_text_list applied;
  pjrtd_text_list need_restart; /* changed in the sources; the old value stays in force */
} pjrtd_settings_changes;

/* Reads all sources again and takes over the values that may change while the daemon runs. On failure nothing changes.
 * The log's level and format are the caller's to pass on. */
PJRTD_MUST_USE pjrtd_status *pjrtd_settings_reload(pjrtd_settings *settings, pjrtd_settings_changes *out_changes);
void pjrtd_settings_changes_deinit(pjrtd_settings_changes *changes);

/* Every setting as the configuration file has it, with where its value comes from. */
void pjrtd_settings_print(const pjrtd_settings *settings, FILE *out);
void pjrtd_settings_print_help(FILE *out);
