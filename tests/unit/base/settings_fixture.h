/* What the tests of settings share: an environment without surprises, a file, and one call that loads. Each Criterion
 * test is a process of its own, so what it does to the environment stays there. */
#pragma once

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings.h"
#include "base/settings_table.h"

extern char **environ;

static char settings_file[] = "/tmp/pjrtd-settings-XXXXXX";
static pjrtd_settings settings;
static pjrtd_settings_action action;

/* A user's environment: nothing of pjrtd's, a home, a folder for sockets. */
static inline void fixture_init(void) {
  clearenv();
  setenv("HOME", "/home/someone", 1);
  setenv("XDG_RUNTIME_DIR", "/run/user/1", 1);
  setenv("PJRTD_CONFIG", "/dev/null", 1);
}

/* Writes the configuration file and makes it the one that is read. */
static inline void fixture_file(const char *text) {
  static bool made;
  int descriptor = made ? -1 : mkstemp(settings_file);
  if (descriptor >= 0) close(descriptor);
  made = true;
  FILE *file = fopen(settings_file, "w");
  fputs(text, file);
  fclose(file);
  setenv("PJRTD_CONFIG", settings_file, 1);
}

static inline void fixture_deinit(void) {
  pjrtd_settings_deinit(&settings);
  unlink(settings_file);
}

#define FIXTURE_MAX_ARGS 512

/* Loads with these flags, blank-separated words of a NULL-terminated list. */
static inline pjrtd_status *fixture_load(const char *const *flags) {
  static char *argv[FIXTURE_MAX_ARGS];
  int argc = 1;
  argv[0] = "pjrtd";
  while (*flags) argv[argc++] = (char *)*flags++;
  argv[argc] = NULL;
  pjrtd_settings_deinit(&settings);
  return pjrtd_settings_load(argc, argv, &settings, &action);
}
#define LOAD(...) fixture_load((const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

#define CHECK_OK(call)                                                    \
  do {                                                                    \
    PJRTD_AUTO(pjrtd_status) status_ = (call);                            \
    cr_assert_null(status_, "failed: %s", pjrtd_status_message(status_)); \
  } while (0)

/* `{file}` in the expected text stands for the configuration file's name. */
static inline void fixture_expect_error(pjrtd_status *status, pjrtd_code code, const char *message, const char *hint) {
  cr_assert_not_null(status, "succeeded where \"%s\" was expected", message);
  char expected[8192];
  const char *mark = strstr(message, "{file}");
  snprintf(expected, sizeof expected, "%.*s%s%s", mark ? (int)(mark - message) : (int)strlen(message), message,
           mark ? settings_file : "", mark ? mark + strlen("{file}") : "");
  cr_assert_str_eq(pjrtd_status_message(status), expected);
  cr_assert_str_eq(pjrtd_status_hint(status), hint);
  cr_assert_eq(pjrtd_status_code(status), code);
  pjrtd_status_destroy(status);
}
#define CHECK_INVALID(call, message, hint) fixture_expect_error((call), PJRTD_CODE_INVALID_ARGUMENT, (message), (hint))
