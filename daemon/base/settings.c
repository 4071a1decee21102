/* See settings.h. The order of the sources, flags, and reload. */
#include "base/settings.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/settings_table.h"

#define DEFAULT_CONFIG "/etc/pjrtd/pjrtd.conf"
#define MAX_NAME_BYTES 64

/* ---- one value from one source ---- */

/* Applies `text`; a list of a lower source goes first. */
static pjrtd_status *apply(pjrtd_settings *settings, const pjrtd_setting *setting, const char *text,
                           const char *origin_text, int source) {
  pjrtd_setting_origin *origin = &settings->origins[setting - pjrtd_settings_table];
  if ((int)origin->source != source && setting->kind == PJRTD_SETTING_LIST) pjrtd_setting_clear(setting, settings);
  PJRTD_TRY(pjrtd_setting_parse(setting, text, origin_text, settings));
  origin->source = source;
  origin->line = 0;
  return PJRTD_OK;
}

static pjrtd_status *apply_table_defaults(pjrtd_settings *settings) {
  for (size_t i = 0; i < PJRTD_NUM_SETTINGS; i++) {
    const pjrtd_setting *setting = &pjrtd_settings_table[i];
    if (setting->default_text) PJRTD_TRY(pjrtd_setting_parse(setting, setting->default_text, "the default", settings));
  }
  return PJRTD_OK;
}

/* ---- environment ---- */

static void environment_name(const pjrtd_setting *setting, char out[MAX_NAME_BYTES]) {
  snprintf(out, MAX_NAME_BYTES, "PJRTD_%s", setting->name);
  for (char *at = out; *at; at++) *at = (char)toupper((unsigned char)*at);
}

/* Where the item at `text` of a comma-separated list ends. An option's value may hold commas ("ids=0,1,2"), so a piece
 * without "=" belongs to the option before it. */
static size_t item_length(const pjrtd_setting *setting, const char *text) {
  size_t length = strcspn(text, ",");
  while (text[length] && strcmp(setting->name, "option") == 0) {
    size_t piece = strcspn(text + length + 1, ",");
    if (memchr(text + length + 1, '=', piece)) break;
    length += 1 + piece;
  }
  return length;
}

static pjrtd_status *apply_environment_list(pjrtd_settings *settings, const pjrtd_setting *setting, const char *text,
                                            const char *origin_text) {
  while (*text) {
    size_t length = item_length(setting, text);
    char *item = pjrtd_strndup(text, length);
    if (!item) return pjrtd_status_oom();
    pjrtd_status *status = apply(settings, setting, item, origin_text, PJRTD_ORIGIN_ENVIRONMENT);
    pjrtd_free(item);
    if (status) return status;
    text += length;
    if (*text == ',') text++;
  }
  return PJRTD_OK;
}

/* An empty variable is as good as none. */
static pjrtd_status *apply_environment(pjrtd_settings *settings) {
  for (size_t i = 0; i < PJRTD_NUM_SETTINGS; i++) {
    const pjrtd_setting *setting = &pjrtd_settings_table[i];
    char name[MAX_NAME_BYTES];
    environment_name(setting, name);
    const char *text = getenv(name);
    if (!text || !*text) continue;
    if (setting->kind == PJRTD_SETTING_LIST)
      PJRTD_TRY(apply_environment_list(settings, setting, text, name));
    else
      PJRTD_TRY(apply(settings, setting, text, name, PJRTD_ORIGIN_ENVIRONMENT));
  }
  return PJRTD_OK;
}

/* ---- flags ---- */

/* One argument taken apart. */
typedef struct {
  const char *name; /* behind "--"; borrowed from argv, as the rest */
  size_t name_length;
  const char *value;
} flag;

static bool is_flag(const flag *self, const char *name) {
  return self->name_length == strlen(name) && memcmp(self->name, name, self->name_length) == 0;
}

static bool takes_no_value(const flag *self) {
  return is_flag(self, "help") || is_flag(self, "version") || is_flag(self, "check-config");
}

/* Takes apart argv[*index], and the value behind it; *index moves on. */
static pjrtd_status *next_flag(int argc, char **argv, int *index, flag *out_flag) {
  const char *text = argv[(*index)++];
  *out_flag = (flag){0};
  if (strcmp(text, "-h") == 0) text = "--help";
  if (strcmp(text, "-V") == 0) text = "--version";
  if (strncmp(text, "--", 2) != 0 || !text[2])
    return pjrtd_status_with_hint(PJRTD_INVALID("unexpected argument \"%.64s\"", text), "pjrtd --help lists the flags");
  out_flag->name = text + 2;
  out_flag->name_length = strcspn(text + 2, "=");
  bool has_value = text[2 + out_flag->name_length] == '=';
  if (takes_no_value(out_flag))
    return has_value ? PJRTD_INVALID("the flag --%.*s takes no value", (int)out_flag->name_length, out_flag->name)
                     : PJRTD_OK;
  if (has_value) {
    out_flag->value = text + 2 + out_flag->name_length + 1;
  } else if (*index < argc) {
    out_flag->value = argv[(*index)++];
  }
  return PJRTD_OK;
}

/* Copies a name with each `from` made into `to`, cut where it is too long. */
static void respell(const char *name, size_t length, char from, char to, char out[MAX_NAME_BYTES]) {
  if (length >= MAX_NAME_BYTES) length = MAX_NAME_BYTES - 1;
  for (size_t i = 0; i < length; i++) out[i] = name[i] == from ? to : name[i];
  out[length] = 0;
}

static pjrtd_status *with_nearest(pjrtd_status *status, const char *prefix, const char *nearest) {
  return nearest ? pjrtd_status_with_hint(status, "did you mean %s%s?", prefix, nearest)
                 : pjrtd_status_with_hint(status, "pjrtd --help lists the settings");
}

static pjrtd_status *unknown_flag(const flag *self) {
  char name[MAX_NAME_BYTES], spelled[MAX_NAME_BYTES];
  respell(self->name, self->name_length, '-', '_', name);
  const char *nearest = pjrtd_setting_nearest(name, strlen(name));
  if (nearest) respell(nearest, strlen(nearest), '_', '-', spelled);
  return with_nearest(PJRTD_INVALID("there is no flag --%.*s", (int)strlen(name), self->name), "--",
                      nearest ? spelled : NULL);
}

/* "--busy-poll-us" names busy_poll_us. */
static const pjrtd_setting *setting_of_flag(const flag *self) {
  char name[MAX_NAME_BYTES];
  if (self->name_length >= sizeof name) return NULL;
  respell(self->name, self->name_length, '-', '_', name);
  return pjrtd_setting_find(name, self->name_length);
}

static pjrtd_status *apply_flag(pjrtd_settings *settings, const flag *self) {
  if (takes_no_value(self) || is_flag(self, "config")) return PJRTD_OK;
  char origin_text[MAX_NAME_BYTES + 8];
  snprintf(origin_text, sizeof origin_text, "--%.*s", (int)self->name_length, self->name);
  const pjrtd_setting *setting;
  const char *value = self->value;
  if (is_flag(self, "set")) {
    size_t length = strcspn(value, "=");
    if (!value[length]) return PJRTD_INVALID("--set \"%.64s\" is not NAME=VALUE", value);
    setting = pjrtd_setting_find(value, length);
    if (!setting)
      return with_nearest(PJRTD_INVALID("--set: there is no setting \"%.*s\"", length < 64 ? (int)length : 64, value),
                          "", pjrtd_setting_nearest(value, length));
    value += length + 1;
  } else {
    setting = setting_of_flag(self);
  }
  return apply(settings, setting, value, origin_text, PJRTD_ORIGIN_FLAG);
}

static pjrtd_status *apply_flags(pjrtd_settings *settings) {
  for (int i = 1; i < settings->argc;) {
    flag each;
    PJRTD_TRY(next_flag(settings->argc, settings->argv, &i, &each));
    PJRTD_TRY(apply_flag(settings, &each));
  }
  return PJRTD_OK;
}

/* Looks at all flags before any source is read: what to do, which file, and whether each flag exists. */
static pjrtd_status *scan_flags(int argc, char **argv, pjrtd_settings_action *out_action, const char **out_config) {
  for (int i = 1; i < argc;) {
    flag each;
    PJRTD_TRY(next_flag(argc, argv, &i, &each));
    if (is_flag(&each, "help") || is_flag(&each, "version")) {
      *out_action = is_flag(&each, "help") ? PJRTD_SETTINGS_HELP : PJRTD_SETTINGS_VERSION;
      return PJRTD_OK;
    }
    if (is_flag(&each, "check-config")) {
      *out_action = PJRTD_SETTINGS_CHECK;
      continue;
    }
    bool known = is_flag(&each, "config") || is_flag(&each, "set") || setting_of_flag(&each);
    if (!known) return unknown_flag(&each);
    if (!each.value) return PJRTD_INVALID("the flag --%.*s needs a value", (int)each.name_length, each.name);
    if (is_flag(&each, "config")) *out_config = each.value;
  }
  return PJRTD_OK;
}

/* ---- all sources ---- */

/* An empty path means no file. */
static pjrtd_status *apply_file(pjrtd_settings *settings, const char *path) {
  const char *variable = getenv("PJRTD_CONFIG");
  if (!path && variable && *variable) path = variable;
  if (!path) path = access(DEFAULT_CONFIG, F_OK) == 0 ? DEFAULT_CONFIG : "";
  if (!*path) return PJRTD_OK;
  settings->config_path = pjrtd_strdup(path);
  if (!settings->config_path) return pjrtd_status_oom();
  return pjrtd_settings_read_file(path, settings);
}

static pjrtd_status *load(pjrtd_settings *settings, const char *config) {
  PJRTD_TRY(apply_table_defaults(settings));
  PJRTD_TRY(apply_file(settings, config));
  PJRTD_TRY(apply_environment(settings));
  PJRTD_TRY(apply_flags(settings));
  return pjrtd_settings_fill_defaults(settings);
}

pjrtd_status *pjrtd_settings_load(int argc, char **argv, pjrtd_settings *out_settings,
                                  pjrtd_settings_action *out_action) {
  *out_settings = (pjrtd_settings){.argc = argc, .argv = argv};
  *out_action = PJRTD_SETTINGS_RUN;
  const char *config = NULL;
  PJRTD_TRY(scan_flags(argc, argv, out_action, &config));
  if (*out_action == PJRTD_SETTINGS_HELP) pjrtd_settings_print_help(stdout);
  if (*out_action == PJRTD_SETTINGS_VERSION) printf("pjrtd %s\n", PJRTD_VERSION);
  if (*out_action == PJRTD_SETTINGS_HELP || *out_action == PJRTD_SETTINGS_VERSION) return PJRTD_OK;
  pjrtd_status *status = load(out_settings, config);
  if (status)
    pjrtd_settings_deinit(out_settings);
  else if (*out_action == PJRTD_SETTINGS_CHECK)
    pjrtd_settings_print(out_settings, stdout);
  return status;
}

void pjrtd_settings_deinit(pjrtd_settings *settings) {
  for (size_t i = 0; i < PJRTD_NUM_SETTINGS; i++) pjrtd_setting_clear(&pjrtd_settings_table[i], settings);
  pjrtd_free(settings->config_path);
  *settings = (pjrtd_settings){0};
}

void pjrtd_settings_changes_deinit(pjrtd_settings_changes *changes) {
  pjrtd_text_list_deinit(&changes->applied);
  pjrtd_text_list_deinit(&changes->need_restart);
}

/* Lists first, then swaps, so that running out of memory changes nothing. */
static pjrtd_status *list_changes(const pjrtd_settings *old, const pjrtd_settings *new,
                                  pjrtd_settings_changes *changes) {
  for (size_t i = 0; i < PJRTD_NUM_SETTINGS; i++) {
    const pjrtd_setting *setting = &pjrtd_settings_table[i];
    if (pjrtd_setting_equal(setting, old, new)) continue;
    pjrtd_text_list *list = setting->reloadable ? &changes->applied : &changes->need_restart;
    PJRTD_TRY(pjrtd_text_list_append(list, setting->name, strlen(setting->name)));
  }
  return PJRTD_OK;
}

pjrtd_status *pjrtd_settings_reload(pjrtd_settings *settings, pjrtd_settings_changes *out_changes) {
  *out_changes = (pjrtd_settings_changes){0};
  pjrtd_settings fresh = {.argc = settings->argc, .argv = settings->argv};
  pjrtd_settings_action action;
  const char *config = NULL;
  PJRTD_TRY(scan_flags(settings->argc, settings->argv, &action, &config));
  pjrtd_status *status = load(&fresh, config);
  if (!status) status = list_changes(settings, &fresh, out_changes);
  for (size_t i = 0; !status && i < PJRTD_NUM_SETTINGS; i++)
    if (pjrtd_settings_table[i].reloadable) pjrtd_setting_swap(&pjrtd_settings_table[i], &fresh, settings);
  pjrtd_settings_deinit(&fresh);
  if (status) pjrtd_settings_changes_deinit(out_changes);
  return status;
}
