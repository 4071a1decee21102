/* What --help and --check-config print. Main thread. */
#include <string.h>

#include "base/settings_table.h"

static void print_origin(const pjrtd_settings *settings, pjrtd_setting_origin origin, FILE *out) {
  switch (origin.source) {
    case PJRTD_ORIGIN_FILE: fprintf(out, "  # %s:%u\n", settings->config_path, origin.line); break;
    case PJRTD_ORIGIN_ENVIRONMENT: fprintf(out, "  # environment\n"); break;
    case PJRTD_ORIGIN_FLAG: fprintf(out, "  # flag\n"); break;
    default: fprintf(out, "\n");
  }
}

void pjrtd_settings_print(const pjrtd_settings *settings, FILE *out) {
  for (size_t i = 0; i < PJRTD_NUM_SETTINGS; i++) {
    const pjrtd_setting *setting = &pjrtd_settings_table[i];
    pjrtd_setting_origin origin = settings->origins[i];
    const void *field = (const char *)settings + setting->offset;
    if (setting->kind == PJRTD_SETTING_LIST) {
      const pjrtd_text_list *list = field;
      for (size_t j = 0; j < list->count; j++) {
        fprintf(out, "%s = %s", setting->name, list->items[j]);
        print_origin(settings, origin, out);
      }
      continue;
    }
    char number[PJRTD_SETTING_NUMBER_TEXT];
    fprintf(out, "%s = %s", setting->name,
            setting->kind == PJRTD_SETTING_TEXT
                ? *(char *const *)field
                : pjrtd_setting_format_number(setting, pjrtd_setting_number(setting, settings), number));
    print_origin(settings, origin, out);
  }
}

static void print_flag(FILE *out, const pjrtd_setting *setting) {
  char flag[64], range[PJRTD_SETTING_RANGE_TEXT];
  snprintf(flag, sizeof flag, "--%s %s", setting->name, setting->value_name);
  for (char *at = flag; *at && *at != ' '; at++)
    if (*at == '_') *at = '-';
  fprintf(out, "  %-30s %s", flag, setting->help);
  pjrtd_setting_format_range(setting, range);
  if (*range) fprintf(out, " [%s; default %s]", range, setting->default_text);
  fprintf(out, "\n");
}

void pjrtd_settings_print_help(FILE *out) {
  fprintf(out,
          "Usage: pjrtd [FLAG VALUE]...\n"
          "Loads one PJRT plugin and serves it to the clients of this machine.\n\n"
          "  %-30s %s\n  %-30s %s\n  %-30s %s\n  %-30s %s\n  %-30s %s\n\n",
          "--config FILE", "settings to read [default /etc/pjrtd/pjrtd.conf, where it exists]", "--set NAME=VALUE",
          "one setting, by its name in the file; repeatable", "--check-config",
          "check all settings, print those in force, and exit", "--help", "print this, and exit", "--version",
          "print the version, and exit");
  for (size_t i = 0; i < PJRTD_NUM_SETTINGS; i++) print_flag(out, &pjrtd_settings_table[i]);
  fprintf(
      out,
      "\nEach setting can also be in the environment (PJRTD_BUSY_POLL_US; lists are separated by commas) or in the\n"
      "file (busy_poll_us = 200; lists repeat the name). Flags win over environment, environment over file.\n");
}
