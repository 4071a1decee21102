/* base/settings_file.c: the file's form and its errors. */
#include "settings_fixture.h"

TestSuite(settings_file, .init = fixture_init, .fini = fixture_deinit);

static pjrtd_status *load_file(const char *text) {
  fixture_file(text);
  return LOAD();
}

Test(settings_file, allows_comments_blanks_and_a_last_line_without_an_end) {
  CHECK_OK(
      load_file("# c\n; c\n\n  max_stuck=5\n\tbusy_poll_us   =   6   ; more\nplugin = /a b#c\nlane_stall_ms = 70"));
  cr_assert_eq(settings.max_stuck, 5);
  cr_assert_eq(settings.busy_poll_us, 6);
  cr_assert_str_eq(settings.plugin, "/a b#c");
  cr_assert_eq(settings.lane_stall_ms, 70);
}

Test(settings_file, allows_line_ends_of_other_systems_and_a_byte_order_mark) {
  CHECK_OK(load_file("\xef\xbb\xbfmax_stuck = 5\r\nbusy_poll_us = 6\r\n"));
  cr_assert_eq(settings.max_stuck, 5);
  cr_assert_eq(settings.busy_poll_us, 6);
}

Test(settings_file, does_not_take_an_indented_line_for_more_of_the_one_above) {
  CHECK_OK(load_file("option = a=1\n  max_stuck = 5\n"));
  cr_assert_eq(settings.option.count, 1);
  cr_assert_eq(settings.max_stuck, 5);
}

Test(settings_file, names_file_line_and_nearest_setting_for_an_unknown_name) {
  CHECK_INVALID(load_file("\n\nmax_stuk = 5\n"), "{file}:3: there is no setting \"max_stuk\"",
                "did you mean max_stuck?");
  CHECK_INVALID(load_file("qqqqqqqqqqqqqqq = 5\n"), "{file}:1: there is no setting \"qqqqqqqqqqqqqqq\"",
                "pjrtd --help lists the settings");
}

Test(settings_file, names_file_and_line_for_a_bad_value) {
  CHECK_INVALID(load_file("\nmax_stuck = 0\n"), "max_stuck: 0 is out of range; allowed: 1 to 64 (set by {file}:2)", "");
}

Test(settings_file, refuses_a_setting_twice) {
  CHECK_INVALID(load_file("max_stuck = 5\n\nmax_stuck = 6\n"), "{file}:3: max_stuck was set already, in line 1", "");
}

Test(settings_file, refuses_a_line_that_is_no_assignment) {
  CHECK_INVALID(load_file("max_stuck = 5\nnonsense\n"), "{file}:2: the line is not NAME = VALUE", "");
}

Test(settings_file, reports_the_first_of_several_errors) {
  CHECK_INVALID(load_file("max_stuck = 0\nmax_stuk = 5\n"),
                "max_stuck: 0 is out of range; allowed: 1 to 64 (set by {file}:1)", "");
}

Test(settings_file, refuses_sections) {
  CHECK_INVALID(load_file("[daemon]\nmax_stuck = 5\n"), "{file}:1: the file has no sections", "");
}

Test(settings_file, reads_long_lines_and_refuses_endless_ones) {
  char text[20000] = "plugin = /";
  memset(text + 10, 'x', 4000);
  CHECK_OK(load_file(text));
  cr_assert_eq(strlen(settings.plugin), 4001);
  memset(text + 10, 'x', sizeof text - 11);
  CHECK_INVALID(load_file(text), "{file}:1: the line has too many bytes", "");
}

Test(settings_file, refuses_zero_bytes) {
  fixture_file("");
  FILE *file = fopen(settings_file, "w");
  fwrite("max_stuck = 5\nplugin = /a\0b\n", 1, 29, file);
  fclose(file);
  CHECK_INVALID(LOAD(), "{file}:2: the line has a zero byte", "");
}

Test(settings_file, refuses_a_folder) {
  setenv("PJRTD_CONFIG", "/tmp", 1);
  PJRTD_AUTO(pjrtd_status) status = LOAD();
  cr_assert_str_eq(pjrtd_status_message(status), "reading the configuration file /tmp: Is a directory");
}

Test(settings_file, survives_bytes_of_any_kind) {
  char text[2048];
  unsigned state = 1;
  for (int round = 0; round < 300; round++) {
    for (size_t i = 0; i < sizeof text - 1; i++) {
      state = state * 1103515245 + 12345;
      char byte = (char)(state >> 16);
      text[i] = byte ? byte : '\n';
    }
    text[sizeof text - 1] = 0;
    PJRTD_AUTO(pjrtd_status) status = load_file(text);
    cr_assert_not_null(status);
  }
}
