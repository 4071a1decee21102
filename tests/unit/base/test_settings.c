/* base/settings.c: sources and their order, flags, actions, reload. */
#include "settings_fixture.h"

TestSuite(settings, .init = fixture_init, .fini = fixture_deinit);

static void check_list(const pjrtd_text_list *list, const char *joined) {
  char text[1024] = "";
  for (size_t i = 0; i < list->count; i++) {
    strcat(text, i ? " | " : "");
    strcat(text, list->items[i]);
  }
  cr_assert_str_eq(text, joined);
}

/* ---- sources ---- */

Test(settings, have_the_defaults_of_the_table) {
  CHECK_OK(LOAD());
  cr_assert_eq(action, PJRTD_SETTINGS_RUN);
  cr_assert_str_eq(settings.plugin, "");
  cr_assert_eq(settings.option.count, 0);
  cr_assert_eq(settings.busy_poll_us, 200);
  cr_assert_eq(settings.loop_execute_us, 100);
  cr_assert_eq(settings.lane_stall_ms, 1000);
  cr_assert_eq(settings.max_stuck, 4);
  cr_assert_eq(settings.on_stuck, PJRTD_ON_STUCK_REPORT);
  cr_assert_eq(settings.max_device_executions, 24);
  cr_assert_eq(settings.session_home, PJRTD_SESSION_HOME_FIRST);
  cr_assert_eq(settings.compile_stack_mib, 256);
  cr_assert_eq(settings.max_connections, 4096);
  cr_assert_eq(settings.max_calls_in_flight, 4096);
  cr_assert_eq(settings.max_program_bytes, 256u << 20);
  cr_assert_eq(settings.max_session_buffers, 1000000);
  cr_assert_eq(settings.max_session_programs, 10000);
  cr_assert_eq(settings.max_session_slots, 65536);
  cr_assert_eq(settings.max_queued_bytes, 16u << 20);
  cr_assert_eq(settings.client_stall_seconds, 30);
  cr_assert_eq(settings.handshake_seconds, 10);
  cr_assert_eq(settings.session_lease_seconds, 600);
  cr_assert_eq(settings.upload_credit_bytes, 4u << 20);
  cr_assert_eq(settings.drain_seconds, 10);
  cr_assert_eq(settings.socket_mode, 0600);
  cr_assert_eq(settings.log_level, PJRTD_LOG_INFO);
  cr_assert_eq(settings.log_format, PJRTD_LOG_FORMAT_TEXT);
  for (size_t i = 0; i < PJRTD_NUM_SETTINGS; i++) cr_assert_eq(settings.origins[i].source, PJRTD_ORIGIN_DEFAULT);
}

Test(settings, take_flags_over_environment_over_file_over_default) {
  fixture_file("max_stuck = 5\nbusy_poll_us = 5\nlane_stall_ms = 50\n");
  setenv("PJRTD_MAX_STUCK", "6", 1);
  setenv("PJRTD_BUSY_POLL_US", "6", 1);
  CHECK_OK(LOAD("--max-stuck", "7"));
  cr_assert_eq(settings.max_stuck, 7);
  cr_assert_eq(settings.busy_poll_us, 6);
  cr_assert_eq(settings.lane_stall_ms, 50);
  cr_assert_eq(settings.loop_execute_us, 100);
}

Test(settings, remember_where_each_value_comes_from) {
  fixture_file("# one\n\nlane_stall_ms = 50\n");
  setenv("PJRTD_BUSY_POLL_US", "6", 1);
  CHECK_OK(LOAD("--set", "max_stuck=7"));
  const pjrtd_setting_origin *origins = settings.origins;
  cr_assert_eq(origins[pjrtd_setting_find("max_stuck", 9) - pjrtd_settings_table].source, PJRTD_ORIGIN_FLAG);
  cr_assert_eq(origins[pjrtd_setting_find("busy_poll_us", 12) - pjrtd_settings_table].source, PJRTD_ORIGIN_ENVIRONMENT);
  pjrtd_setting_origin file = origins[pjrtd_setting_find("lane_stall_ms", 13) - pjrtd_settings_table];
  cr_assert_eq(file.source, PJRTD_ORIGIN_FILE);
  cr_assert_eq(file.line, 3);
  cr_assert_eq(origins[pjrtd_setting_find("max_connections", 15) - pjrtd_settings_table].source, PJRTD_ORIGIN_DEFAULT);
  cr_assert_str_eq(settings.config_path, settings_file);
}

Test(settings, take_a_list_whole_from_the_highest_source) {
  fixture_file("option = a=1\noption = b=2\nlisten = unix:/f\n");
  CHECK_OK(LOAD());
  check_list(&settings.option, "a=1 | b=2");
  setenv("PJRTD_OPTION", "c=3,d=4", 1);
  CHECK_OK(LOAD());
  check_list(&settings.option, "c=3 | d=4");
  check_list(&settings.listen, "unix:/f");
  CHECK_OK(LOAD("--option", "e=5", "--option=f=6", "--set", "option=g=7"));
  check_list(&settings.option, "e=5 | f=6 | g=7");
}

Test(settings, keep_commas_inside_an_option_of_the_environment) {
  setenv("PJRTD_OPTION", "ids=0,1,2,name=x,flags=a", 1);
  setenv("PJRTD_LISTEN", "unix:/a,unix:/b", 1);
  CHECK_OK(LOAD());
  check_list(&settings.option, "ids=0,1,2 | name=x | flags=a");
  check_list(&settings.listen, "unix:/a | unix:/b");
}

Test(settings, read_an_empty_variable_as_none) {
  setenv("PJRTD_MAX_STUCK", "", 1);
  setenv("PJRTD_OPTION", "", 1);
  CHECK_OK(LOAD());
  cr_assert_eq(settings.max_stuck, 4);
}

Test(settings, leave_variables_of_others_alone) {
  setenv("PJRTD_TARGET", "unix:/x", 1);
  setenv("PJRTD_SERVICE_HOST", "10.0.0.1", 1);
  CHECK_OK(LOAD());
}

/* ---- flags ---- */

Test(settings, accept_both_forms_of_a_flag) {
  CHECK_OK(LOAD("--plugin", "/p.so", "--cache-dir=/c", "--state-dir", "/s", "--listen=unix:/l"));
  cr_assert_str_eq(settings.plugin, "/p.so");
  cr_assert_str_eq(settings.cache_dir, "/c");
  cr_assert_str_eq(settings.state_dir, "/s");
  check_list(&settings.listen, "unix:/l");
}

Test(settings, have_a_flag_for_each_row_of_the_table) {
  for (size_t i = 0; i < PJRTD_NUM_SETTINGS; i++) {
    const pjrtd_setting *setting = &pjrtd_settings_table[i];
    const char *value = setting->default_text              ? setting->default_text
                        : !strcmp(setting->name, "listen") ? "unix:/x"
                                                           : "a=b";
    char flag[128];
    snprintf(flag, sizeof flag, "--%s=%s", setting->name, value);
    for (char *at = flag + 2; *at != '='; at++)
      if (*at == '_') *at = '-';
    CHECK_OK(LOAD(flag));
    cr_assert_eq(settings.origins[i].source, PJRTD_ORIGIN_FLAG, "%s", flag);
  }
}

Test(settings, take_the_last_of_a_repeated_flag) {
  CHECK_OK(LOAD("--max-stuck", "7", "--set", "max_stuck=8"));
  cr_assert_eq(settings.max_stuck, 8);
}

Test(settings, accept_an_empty_value_for_a_text) {
  fixture_file("plugin = /p.so\n");
  CHECK_OK(LOAD("--plugin="));
  cr_assert_str_eq(settings.plugin, "");
}

Test(settings, name_the_nearest_flag_for_an_unknown_one) {
  CHECK_INVALID(LOAD("--max-stuk", "3"), "there is no flag --max-stuk", "did you mean --max-stuck?");
  CHECK_INVALID(LOAD("--zzzzzzzzzzzzzzzz", "3"), "there is no flag --zzzzzzzzzzzzzzzz",
                "pjrtd --help lists the settings");
  CHECK_INVALID(LOAD("--set", "busy_pol=3"), "--set: there is no setting \"busy_pol\"", "did you mean busy_poll_us?");
}

Test(settings, refuse_flags_that_are_malformed) {
  CHECK_INVALID(LOAD("--max-stuck"), "the flag --max-stuck needs a value", "");
  CHECK_INVALID(LOAD("--set", "max_stuck"), "--set \"max_stuck\" is not NAME=VALUE", "");
  CHECK_INVALID(LOAD("--version=1"), "the flag --version takes no value", "");
  CHECK_INVALID(LOAD("plugin.so"), "unexpected argument \"plugin.so\"", "pjrtd --help lists the flags");
  CHECK_INVALID(LOAD("-x"), "unexpected argument \"-x\"", "pjrtd --help lists the flags");
  CHECK_INVALID(LOAD("--"), "unexpected argument \"--\"", "pjrtd --help lists the flags");
}

Test(settings, are_empty_after_an_error) {
  PJRTD_AUTO(pjrtd_status) status = LOAD("--plugin", "/p.so", "--max-stuck", "0");
  cr_assert_not_null(status);
  cr_assert_null(settings.plugin);
  cr_assert_eq(settings.listen.count, 0);
}

/* ---- the file ---- */

Test(settings, read_the_file_that_the_flag_names_before_the_variable) {
  fixture_file("max_stuck = 9\n");
  setenv("PJRTD_CONFIG", "/nowhere", 1);
  CHECK_OK(LOAD("--config", settings_file));
  cr_assert_eq(settings.max_stuck, 9);
}

Test(settings, read_no_file_where_the_path_is_empty) {
  setenv("PJRTD_CONFIG", "/nowhere", 1);
  CHECK_OK(LOAD("--config="));
  cr_assert_null(settings.config_path);
}

Test(settings, refuse_a_file_that_is_named_and_missing) {
  fixture_expect_error(LOAD("--config", "/nowhere/x.conf"), PJRTD_CODE_NOT_FOUND,
                       "opening the configuration file /nowhere/x.conf: No such file or directory", "");
}

/* ---- actions ---- */

static char printed[65536];

/* Loads with this flag; what goes to standard output lands in `printed`. */
static pjrtd_status *load_and_catch(const char *flag) {
  char path[] = "/tmp/pjrtd-stdout-XXXXXX";
  int descriptor = mkstemp(path);
  unlink(path);
  fflush(stdout);
  dup2(descriptor, STDOUT_FILENO);
  pjrtd_status *status = LOAD(flag, "--max-stuck", "7");
  fflush(stdout);
  printed[pread(descriptor, printed, sizeof printed - 1, 0)] = 0;
  return status;
}

Test(settings, print_help_with_every_setting_and_its_range) {
  CHECK_OK(load_and_catch("--help"));
  cr_assert_eq(action, PJRTD_SETTINGS_HELP);
  for (size_t i = 0; i < PJRTD_NUM_SETTINGS; i++) cr_assert(strstr(printed, pjrtd_settings_table[i].help));
  cr_assert(strstr(printed, "--max-stuck N"));
  cr_assert(strstr(printed, "[1 to 64; default 4]"));
  cr_assert(strstr(printed, "[64 KiB to 2 GiB; default 256 MiB]"));
  cr_assert(strstr(printed, "--check-config"));
}

Test(settings, print_the_version) {
  CHECK_OK(load_and_catch("-V"));
  cr_assert_eq(action, PJRTD_SETTINGS_VERSION);
  cr_assert_str_eq(printed, "pjrtd " PJRTD_VERSION "\n");
}

Test(settings, help_even_where_other_flags_are_wrong) {
  CHECK_OK(LOAD("--help", "--nonsense"));
  cr_assert_eq(action, PJRTD_SETTINGS_HELP);
}

Test(settings, print_what_is_in_force_when_only_checked) {
  fixture_file("\nlane_stall_ms = 50\noption = a=1\noption = b=2\nmax_program_bytes = 1048576\n");
  setenv("PJRTD_LOG_LEVEL", "debug", 1);
  CHECK_OK(load_and_catch("--check-config"));
  cr_assert_eq(action, PJRTD_SETTINGS_CHECK);
  char expected[256];
  snprintf(expected, sizeof expected, "\nlane_stall_ms = 50  # %s:2\n", settings_file);
  cr_assert(strstr(printed, expected), "%s", printed);
  cr_assert(strstr(printed, "\nmax_stuck = 7  # flag\n"), "%s", printed);
  cr_assert(strstr(printed, "\nlog_level = debug  # environment\n"), "%s", printed);
  cr_assert(strstr(printed, "\nsocket_mode = 0600\n"), "%s", printed);
  cr_assert(strstr(printed, "\nmax_program_bytes = 1 MiB  # "), "%s", printed);
  cr_assert(strstr(printed, "\noption = a=1  # ") && strstr(printed, "\noption = b=2  # "), "%s", printed);
}

/* ---- reload ---- */

Test(settings, take_over_on_reload_what_may_change_and_name_the_rest) {
  fixture_file("max_stuck = 5\nbusy_poll_us = 5\n");
  CHECK_OK(LOAD());
  fixture_file("max_stuck = 6\nbusy_poll_us = 6\nlog_level = error\noption = a=1\n");
  pjrtd_settings_changes changes;
  CHECK_OK(pjrtd_settings_reload(&settings, &changes));
  check_list(&changes.applied, "busy_poll_us | log_level");
  check_list(&changes.need_restart, "option | max_stuck");
  cr_assert_eq(settings.busy_poll_us, 6);
  cr_assert_eq(settings.log_level, PJRTD_LOG_ERROR);
  cr_assert_eq(settings.max_stuck, 5);
  cr_assert_eq(settings.option.count, 0);
  pjrtd_settings_changes_deinit(&changes);
}

Test(settings, go_back_to_the_default_when_a_line_is_gone_on_reload) {
  fixture_file("busy_poll_us = 5\n");
  CHECK_OK(LOAD());
  fixture_file("");
  pjrtd_settings_changes changes;
  CHECK_OK(pjrtd_settings_reload(&settings, &changes));
  cr_assert_eq(settings.busy_poll_us, 200);
  cr_assert_eq(settings.origins[pjrtd_setting_find("busy_poll_us", 12) - pjrtd_settings_table].source,
               PJRTD_ORIGIN_DEFAULT);
  pjrtd_settings_changes_deinit(&changes);
}

Test(settings, stay_below_flags_on_reload) {
  fixture_file("busy_poll_us = 5\n");
  CHECK_OK(LOAD("--busy-poll-us", "7"));
  fixture_file("busy_poll_us = 6\n");
  pjrtd_settings_changes changes;
  CHECK_OK(pjrtd_settings_reload(&settings, &changes));
  cr_assert_eq(settings.busy_poll_us, 7);
  cr_assert_eq(changes.applied.count + changes.need_restart.count, 0);
  pjrtd_settings_changes_deinit(&changes);
}

Test(settings, change_nothing_when_a_reload_fails) {
  fixture_file("busy_poll_us = 5\n");
  CHECK_OK(LOAD());
  fixture_file("busy_poll_us = 6\nlane_stall_ms = soon\n");
  pjrtd_settings_changes changes;
  CHECK_INVALID(pjrtd_settings_reload(&settings, &changes),
                "lane_stall_ms: \"soon\" is not a whole number; allowed: 10 to 3600000 (set by {file}:2)", "");
  cr_assert_eq(settings.busy_poll_us, 5);
  cr_assert_eq(changes.applied.count, 0);
}

/* ---- memory ---- */

Test(settings, survive_each_allocation_failing) {
  fixture_file("option = a=1\noption = b=2\nplugin = /p.so\nlisten = unix:/f\n");
  setenv("PJRTD_OPTION", "c=3,d=4", 1);
  pjrtd_settings_changes changes = {0};
  int64_t successes = 0;
  for (;; successes++) {
    pjrtd_alloc_fail_after(successes);
    pjrtd_status *status = LOAD("--cache-dir", "/c", "--set", "state_dir=/s");
    if (!status) break;
    cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_RESOURCE_EXHAUSTED, "after %d: %s", (int)successes,
                 pjrtd_status_message(status));
    pjrtd_status_destroy(status);
    cr_assert_null(settings.plugin);
  }
  cr_assert(successes > 10, "each text was an allocation that failed once");
  pjrtd_alloc_fail_after(-1);

  fixture_file("option = a=1\nbusy_poll_us = 6\nplugin = /q.so\n");
  for (successes = 0;; successes++) {
    pjrtd_alloc_fail_after(successes);
    pjrtd_status *status = pjrtd_settings_reload(&settings, &changes);
    if (!status) break;
    cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_RESOURCE_EXHAUSTED);
    pjrtd_status_destroy(status);
    cr_assert_eq(settings.busy_poll_us, 200);
  }
  pjrtd_alloc_fail_after(-1);
  cr_assert_eq(settings.busy_poll_us, 6);
  pjrtd_settings_changes_deinit(&changes);
}
