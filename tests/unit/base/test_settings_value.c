/* base/settings_value.c: texts to values and back. */
#include "settings_fixture.h"

TestSuite(settings_value, .init = fixture_init, .fini = fixture_deinit);

static const pjrtd_setting *find(const char *name) {
  return pjrtd_setting_find(name, strlen(name));
}

static pjrtd_status *parse(const char *name, const char *text) {
  return pjrtd_setting_parse(find(name), text, "the test", &settings);
}

static void check_size(const char *text, uint64_t bytes) {
  CHECK_OK(parse("max_buffer_bytes", text));
  cr_assert_eq(settings.max_buffer_bytes, bytes, "%s gave %llu", text, (unsigned long long)settings.max_buffer_bytes);
}

Test(settings_value, reads_sizes_with_and_without_units) {
  check_size("0", 0);
  check_size("123", 123);
  check_size("123 B", 123);
  check_size("4KiB", 4096);
  check_size("16 MiB", 16u << 20);
  check_size("3 GiB", (uint64_t)3 << 30);
  check_size("1 TiB", (uint64_t)1 << 40);
}

Test(settings_value, refuses_sizes_that_could_mean_two_things) {
  static const char *const bad[] = {"4M",      "4MB", "4 mib", "4k",   "-1",      "+1",
                                    "1.5 GiB", "",    "MiB",   "0x10", "4 MiB x", " 4"};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char expected[256];
    snprintf(
        expected, sizeof expected,
        "max_queued_bytes: \"%s\" is not a size (bytes, or a number with KiB, MiB, GiB or TiB); allowed: 4 MiB to 4 "
        "GiB (set by the test)",
        bad[i]);
    CHECK_INVALID(parse("max_queued_bytes", bad[i]), expected, "");
  }
}

Test(settings_value, refuses_numbers_that_overflow) {
  CHECK_INVALID(parse("max_stuck", "18446744073709551616"),
                "max_stuck: \"18446744073709551616\" is not a whole number; allowed: 1 to 64 (set by the test)", "");
  CHECK_INVALID(parse("max_buffer_bytes", "99999999999 TiB"),
                "max_buffer_bytes: \"99999999999 TiB\" is not a size (bytes, or a number with KiB, MiB, GiB or TiB); "
                "allowed: 0 to 1024 TiB (set by the test)",
                "");
}

Test(settings_value, accepts_both_bounds_and_nothing_beyond) {
  for (size_t i = 0; i < PJRTD_NUM_SETTINGS; i++) {
    const pjrtd_setting *setting = &pjrtd_settings_table[i];
    if (setting->kind != PJRTD_SETTING_INTEGER && setting->kind != PJRTD_SETTING_SIZE) continue;
    char text[32];
    snprintf(text, sizeof text, "%llu", (unsigned long long)setting->least);
    CHECK_OK(parse(setting->name, text));
    cr_assert_eq(pjrtd_setting_number(setting, &settings), setting->least);
    snprintf(text, sizeof text, "%llu", (unsigned long long)setting->most);
    CHECK_OK(parse(setting->name, text));
    snprintf(text, sizeof text, "%llu", (unsigned long long)setting->most + 1);
    PJRTD_AUTO(pjrtd_status) above = parse(setting->name, text);
    cr_assert_not_null(above, "%s = %s", setting->name, text);
    cr_assert_eq(pjrtd_setting_number(setting, &settings), setting->most, "a refused value changes nothing");
    if (!setting->least) continue;
    snprintf(text, sizeof text, "%llu", (unsigned long long)setting->least - 1);
    PJRTD_AUTO(pjrtd_status) below = parse(setting->name, text);
    cr_assert_not_null(below, "%s = %s", setting->name, text);
  }
}

Test(settings_value, says_what_is_allowed_when_out_of_range) {
  CHECK_INVALID(parse("max_stuck", "65"), "max_stuck: 65 is out of range; allowed: 1 to 64 (set by the test)", "");
  CHECK_INVALID(parse("upload_credit_bytes", "1 KiB"),
                "upload_credit_bytes: 1 KiB is out of range; allowed: 1 MiB to 1 GiB (set by the test)", "");
  CHECK_INVALID(parse("socket_mode", "1000"), "socket_mode: 1000 is out of range; allowed: 0 to 0777 (set by the test)",
                "");
}

Test(settings_value, reads_modes_as_octal) {
  CHECK_OK(parse("socket_mode", "0660"));
  cr_assert_eq(settings.socket_mode, 0660);
  CHECK_OK(parse("socket_mode", "666"));
  cr_assert_eq(settings.socket_mode, 0666);
  CHECK_OK(parse("socket_mode", "0o640"));
  cr_assert_eq(settings.socket_mode, 0640);
  CHECK_INVALID(parse("socket_mode", "0680"),
                "socket_mode: \"0680\" is not an octal number; allowed: 0 to 0777 (set by the test)", "");
}

Test(settings_value, reads_choices_by_their_words) {
  CHECK_OK(parse("log_level", "error"));
  cr_assert_eq(settings.log_level, PJRTD_LOG_ERROR);
  CHECK_OK(parse("log_format", "json"));
  cr_assert_eq(settings.log_format, PJRTD_LOG_FORMAT_JSON);
  CHECK_INVALID(parse("log_level", "Info"),
                "log_level: \"Info\" is not a value of it; allowed: debug | info | warning | error (set by the test)",
                "");
}

Test(settings_value, checks_addresses) {
  CHECK_INVALID(parse("listen", "/run/x.sock"), "listen: \"/run/x.sock\" is not an address (set by the test)",
                "addresses are unix:PATH and grpc://HOST:PORT");
  CHECK_INVALID(parse("listen", "unix:"), "listen: \"unix:\" is not an address (set by the test)",
                "addresses are unix:PATH and grpc://HOST:PORT");
  char path[200] = "unix:/", expected[400];
  memset(path + 6, 'x', 106);
  CHECK_OK(parse("listen", path));
  strcat(path, "y");
  snprintf(expected, sizeof expected,
           "listen: the socket path \"%s\" has 108 bytes, at most 107 are possible (set by the test)", path + 5);
  CHECK_INVALID(parse("listen", path), expected, "");
}

Test(settings_value, refuses_control_characters_in_texts) {
  CHECK_INVALID(parse("listen", "unix:/a\nb"), "listen: the text has a control character, 0x0a (set by the test)", "");
  CHECK_INVALID(parse("plugin", "/a\x7f"), "plugin: the text has a control character, 0x7f (set by the test)", "");
  CHECK_OK(parse("cache_dir", "/\xc3\xa9 x"));
}

Test(settings_value, checks_the_form_of_options) {
  CHECK_OK(parse("option", "name:s=a=b c"));
  cr_assert_str_eq(settings.option.items[0], "name:s=a=b c");
  CHECK_INVALID(parse("option", "name"), "option: \"name\" is not NAME=VALUE (set by the test)", "");
  CHECK_INVALID(parse("option", "=x"), "option: \"=x\" is not NAME=VALUE (set by the test)", "");
  CHECK_INVALID(parse("option", "na me=x"), "option: the name in \"na me=x\" has a space (set by the test)", "");
}

Test(settings_value, bounds_texts_and_lists) {
  char text[5000];
  memset(text, 'x', sizeof text - 1);
  text[sizeof text - 1] = 0;
  CHECK_INVALID(parse("plugin", text), "plugin: a text of 4999 bytes; allowed: at most 4096 (set by the test)", "");
  for (int i = 0; i < 256; i++) CHECK_OK(parse("option", "a=1"));
  CHECK_INVALID(parse("option", "a=1"), "option: more than 256 values (the last set by the test)", "");
}

Test(settings_value, formats_numbers_so_that_they_read_back) {
  for (size_t i = 0; i < PJRTD_NUM_SETTINGS; i++) {
    const pjrtd_setting *setting = &pjrtd_settings_table[i];
    if (setting->kind == PJRTD_SETTING_TEXT || setting->kind == PJRTD_SETTING_LIST) continue;
    uint64_t values[] = {setting->least, setting->most, setting->least + 1};
    for (size_t j = 0; j < 3; j++) {
      char text[PJRTD_SETTING_NUMBER_TEXT];
      CHECK_OK(parse(setting->name, pjrtd_setting_format_number(setting, values[j], text)));
      cr_assert_eq(pjrtd_setting_number(setting, &settings), values[j], "%s", setting->name);
    }
  }
}

Test(settings_value, compares_lists_by_their_items) {
  pjrtd_settings other = {0};
  const pjrtd_setting *option = find("option");
  CHECK_OK(parse("option", "a=1"));
  cr_assert_not(pjrtd_setting_equal(option, &settings, &other));
  CHECK_OK(pjrtd_setting_parse(option, "a=2", "x", &other));
  cr_assert_not(pjrtd_setting_equal(option, &settings, &other));
  pjrtd_setting_clear(option, &other);
  CHECK_OK(pjrtd_setting_parse(option, "a=1", "x", &other));
  cr_assert(pjrtd_setting_equal(option, &settings, &other));
  pjrtd_setting_clear(option, &other);
}
