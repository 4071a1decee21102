/* base/settings_table.c, and deploy/pjrtd.conf, which documents it. */
#include "settings_fixture.h"

TestSuite(settings_table, .init = fixture_init, .fini = fixture_deinit);

Test(settings_table, finds_each_name_and_no_other) {
  for (size_t i = 0; i < PJRTD_NUM_SETTINGS; i++) {
    const char *name = pjrtd_settings_table[i].name;
    cr_assert_eq(pjrtd_setting_find(name, strlen(name)), &pjrtd_settings_table[i], "two rows are named %s", name);
    cr_assert_null(pjrtd_setting_find(name, strlen(name) - 1));
  }
  cr_assert_null(pjrtd_setting_find("", 0));
}

Test(settings_table, has_defaults_within_its_bounds) {
  for (size_t i = 0; i < PJRTD_NUM_SETTINGS; i++) {
    const pjrtd_setting *setting = &pjrtd_settings_table[i];
    cr_assert(setting->help && *setting->help && setting->value_name);
    if (setting->default_text) CHECK_OK(pjrtd_setting_parse(setting, setting->default_text, "the default", &settings));
  }
}

Test(settings_table, names_the_nearest_setting) {
  cr_assert_str_eq(pjrtd_setting_nearest("max_stuk", 8), "max_stuck");
  cr_assert_str_eq(pjrtd_setting_nearest("listens", 7), "listen");
  cr_assert_str_eq(pjrtd_setting_nearest("socketmode", 10), "socket_mode");
  cr_assert_null(pjrtd_setting_nearest("qqqqqqqqqqqqqqq", 15));
  char name[4096];
  memset(name, 'm', sizeof name);
  cr_assert_null(pjrtd_setting_nearest(name, sizeof name));
}

/* ---- the manual ---- */

static FILE *open_manual(void) {
  char path[4096];
  snprintf(path, sizeof path, "%s", __FILE__);
  char *tests = strstr(path, "/tests/unit/");
  cr_assert_not_null(tests);
  strcpy(tests, "/deploy/pjrtd.conf");
  FILE *file = fopen(path, "r");
  cr_assert_not_null(file, "%s", path);
  return file;
}

/* "#name = value": the row's name and value behind the "#". */
static bool is_setting_line(const char *line) {
  return line[0] == '#' && line[1] >= 'a' && line[1] <= 'z';
}

Test(settings_table, is_what_the_manual_documents_in_its_order_with_defaults_and_ranges) {
  FILE *file = open_manual();
  char line[512], before[512] = "", expected[512], range[PJRTD_SETTING_RANGE_TEXT];
  size_t row = 0, prose = 0;
  while (fgets(line, sizeof line, file)) {
    line[strcspn(line, "\n")] = 0;
    cr_assert(line[0] == '#' || !line[0], "only comments and blank lines: %s", line);
    if (is_setting_line(line)) {
      cr_assert(row < PJRTD_NUM_SETTINGS, "more settings than the table has: %s", line);
      const pjrtd_setting *setting = &pjrtd_settings_table[row++];
      const char *value = setting->default_text ? setting->default_text : "";
      snprintf(expected, sizeof expected, "#%s =%s%s", setting->name, *value ? " " : "", value);
      cr_assert_str_eq(line, expected);
      pjrtd_setting_format_range(setting, range);
      snprintf(expected, sizeof expected, "# %s%s%sTakes effect: %s.", *range ? "Range: " : "", range,
               *range ? ". " : "", setting->reloadable ? "on reload" : "at restart");
      cr_assert_str_eq(before, expected, "%s", setting->name);
      cr_assert(prose >= 2, "%s has no words", setting->name);
    }
    prose = line[0] ? prose + 1 : 0;
    strcpy(before, line);
  }
  cr_assert_eq(row, PJRTD_NUM_SETTINGS, "the manual ends before %s",
               row < PJRTD_NUM_SETTINGS ? pjrtd_settings_table[row].name : "");
  fclose(file);
}

Test(settings_table, loads_the_manual_with_every_line_made_active) {
  FILE *file = open_manual();
  char line[512], text[16384] = "";
  while (fgets(line, sizeof line, file)) {
    bool has_value = is_setting_line(line) && line[strcspn(line, "=") + 1] == ' ';
    strcat(text, has_value ? line + 1 : line);
  }
  fclose(file);
  CHECK_OK(LOAD());
  pjrtd_settings defaults = settings;
  settings = (pjrtd_settings){0};
  fixture_file(text);
  CHECK_OK(LOAD());
  for (size_t i = 0; i < PJRTD_NUM_SETTINGS; i++) {
    const pjrtd_setting *setting = &pjrtd_settings_table[i];
    cr_assert(pjrtd_setting_equal(setting, &settings, &defaults), "%s", setting->name);
    cr_assert_eq(settings.origins[i].source, setting->default_text ? PJRTD_ORIGIN_FILE : PJRTD_ORIGIN_DEFAULT);
  }
  pjrtd_settings_deinit(&defaults);
}
