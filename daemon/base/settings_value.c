/* Values of settings: from text, to text, compared, moved. Any thread that owns the settings. Knows no source. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/settings_table.h"

/* The longest text and the longest list that a setting may have. */
#define MAX_TEXT_BYTES 4096
#define MAX_LIST_ITEMS 256

static void *field_of(const pjrtd_setting *setting, pjrtd_settings *settings) {
  return (char *)settings + setting->offset;
}

static const void *const_field_of(const pjrtd_setting *setting, const pjrtd_settings *settings) {
  return (const char *)settings + setting->offset;
}

void pjrtd_text_list_deinit(pjrtd_text_list *list) {
  for (size_t i = 0; i < list->count; i++) pjrtd_free(list->items[i]);
  pjrtd_free(list->items);
  *list = (pjrtd_text_list){0};
}

pjrtd_status *pjrtd_text_list_append(pjrtd_text_list *list, const char *text, size_t length) {
  char *copy = pjrtd_strndup(text, length);
  char **items = copy ? pjrtd_realloc(list->items, (list->count + 1) * sizeof *items) : NULL;
  if (!items) {
    pjrtd_free(copy);
    return pjrtd_status_oom();
  }
  items[list->count++] = copy;
  list->items = items;
  return PJRTD_OK;
}

void pjrtd_setting_clear(const pjrtd_setting *setting, pjrtd_settings *settings) {
  void *field = field_of(setting, settings);
  if (setting->kind == PJRTD_SETTING_TEXT) {
    pjrtd_free(*(char **)field);
    *(char **)field = NULL;
  } else if (setting->kind == PJRTD_SETTING_LIST) {
    pjrtd_text_list_deinit(field);
  }
}

/* ---- numbers ---- */

static const struct {
  const char *suffix;
  uint64_t bytes;
} units[] = {{"TiB", (uint64_t)1 << 40}, {"GiB", (uint64_t)1 << 30}, {"MiB", (uint64_t)1 << 20}, {"KiB", 1 << 10}};
#define NUM_UNITS (sizeof units / sizeof *units)

uint64_t pjrtd_setting_number(const pjrtd_setting *setting, const pjrtd_settings *settings) {
  const void *field = const_field_of(setting, settings);
  return setting->kind == PJRTD_SETTING_CHOICE ? (uint64_t) * (const int *)field : *(const uint64_t *)field;
}

const char *pjrtd_setting_format_number(const pjrtd_setting *setting, uint64_t value,
                                        char buffer[PJRTD_SETTING_NUMBER_TEXT]) {
  if (setting->kind == PJRTD_SETTING_CHOICE) return value <= setting->most ? setting->choices[value] : "";
  if (setting->kind == PJRTD_SETTING_OCTAL) {
    snprintf(buffer, PJRTD_SETTING_NUMBER_TEXT, value ? "0%" PRIo64 : "%" PRIo64, value);
    return buffer;
  }
  for (size_t i = 0; setting->kind == PJRTD_SETTING_SIZE && value && i < NUM_UNITS; i++) {
    if (value % units[i].bytes) continue;
    snprintf(buffer, PJRTD_SETTING_NUMBER_TEXT, "%" PRIu64 " %s", value / units[i].bytes, units[i].suffix);
    return buffer;
  }
  snprintf(buffer, PJRTD_SETTING_NUMBER_TEXT, "%" PRIu64, value);
  return buffer;
}

const char *pjrtd_setting_format_range(const pjrtd_setting *setting, char buffer[PJRTD_SETTING_RANGE_TEXT]) {
  buffer[0] = 0;
  if (setting->kind == PJRTD_SETTING_CHOICE) {
    size_t used = 0;
    for (size_t i = 0; setting->choices[i]; i++)
      used +=
          (size_t)snprintf(buffer + used, PJRTD_SETTING_RANGE_TEXT - used, "%s%s", i ? " | " : "", setting->choices[i]);
  } else if (setting->kind != PJRTD_SETTING_TEXT && setting->kind != PJRTD_SETTING_LIST) {
    char least[PJRTD_SETTING_NUMBER_TEXT], most[PJRTD_SETTING_NUMBER_TEXT];
    snprintf(buffer, PJRTD_SETTING_RANGE_TEXT, "%s to %s", pjrtd_setting_format_number(setting, setting->least, least),
             pjrtd_setting_format_number(setting, setting->most, most));
  }
  return buffer;
}

/* Digits of `base` at `*text`, which moves behind them; false where there are none or they overflow. */
static bool parse_digits(const char **text, unsigned base, uint64_t *out_value) {
  const char *at = *text;
  uint64_t value = 0;
  for (; *at >= '0' && *at < (char)('0' + base); at++)
    if (__builtin_mul_overflow(value, base, &value) || __builtin_add_overflow(value, (uint64_t)(*at - '0'), &value))
      return false;
  if (at == *text) return false;
  *text = at;
  *out_value = value;
  return true;
}

static bool parse_unit(const char *text, uint64_t *value) {
  while (*text == ' ') text++;
  if (!*text || strcmp(text, "B") == 0) return true;
  for (size_t i = 0; i < NUM_UNITS; i++)
    if (strcmp(text, units[i].suffix) == 0) return !__builtin_mul_overflow(*value, units[i].bytes, value);
  return false;
}

/* False where the text is no number of this kind, or none that 64 bits hold. */
static bool parse_number(const pjrtd_setting *setting, const char *text, uint64_t *out_value) {
  if (setting->kind == PJRTD_SETTING_CHOICE) {
    for (uint64_t i = 0; setting->choices[i]; i++) {
      if (strcmp(text, setting->choices[i]) != 0) continue;
      *out_value = i;
      return true;
    }
    return false;
  }
  bool is_octal = setting->kind == PJRTD_SETTING_OCTAL;
  if (is_octal && strncmp(text, "0o", 2) == 0) text += 2;
  if (!parse_digits(&text, is_octal ? 8 : 10, out_value)) return false;
  return setting->kind == PJRTD_SETTING_SIZE ? parse_unit(text, out_value) : !*text;
}

static const char *kind_words(const pjrtd_setting *setting) {
  switch (setting->kind) {
    case PJRTD_SETTING_SIZE: return "a size (bytes, or a number with KiB, MiB, GiB or TiB)";
    case PJRTD_SETTING_OCTAL: return "an octal number";
    case PJRTD_SETTING_CHOICE: return "a value of it";
    default: return "a whole number";
  }
}

static pjrtd_status *parse_number_field(const pjrtd_setting *setting, const char *text, const char *origin,
                                        pjrtd_settings *settings) {
  char range[PJRTD_SETTING_RANGE_TEXT];
  uint64_t value;
  pjrtd_setting_format_range(setting, range);
  if (!parse_number(setting, text, &value))
    return PJRTD_INVALID("%s: \"%.64s\" is not %s; allowed: %s (set by %s)", setting->name, text, kind_words(setting),
                         range, origin);
  if (value < setting->least || value > setting->most)
    return PJRTD_INVALID("%s: %.64s is out of range; allowed: %s (set by %s)", setting->name, text, range, origin);
  if (setting->kind == PJRTD_SETTING_CHOICE)
    *(int *)field_of(setting, settings) = (int)value;
  else
    *(uint64_t *)field_of(setting, settings) = value;
  return PJRTD_OK;
}

/* ---- all kinds ---- */

static pjrtd_status *check_text(const pjrtd_setting *setting, const char *text, const char *origin) {
  size_t length = strlen(text);
  if (length > MAX_TEXT_BYTES)
    return PJRTD_INVALID("%s: a text of %zu bytes; allowed: at most %d (set by %s)", setting->name, length,
                         MAX_TEXT_BYTES, origin);
  /* One would break the line that a text is printed in. */
  for (const char *at = text; *at; at++)
    if ((unsigned char)*at < 0x20 || *at == 0x7f)
      return PJRTD_INVALID("%s: the text has a control character, 0x%02x (set by %s)", setting->name,
                           (unsigned char)*at, origin);
  pjrtd_status *status = setting->check ? setting->check(text) : PJRTD_OK;
  if (!status) return PJRTD_OK;
  pjrtd_status *named = pjrtd_status_make(pjrtd_status_code(status), "%s: %s (set by %s)", setting->name,
                                          pjrtd_status_message(status), origin);
  if (*pjrtd_status_hint(status)) named = pjrtd_status_with_hint(named, "%s", pjrtd_status_hint(status));
  pjrtd_status_destroy(status);
  return named;
}

pjrtd_status *pjrtd_setting_parse(const pjrtd_setting *setting, const char *text, const char *origin,
                                  pjrtd_settings *settings) {
  if (setting->kind != PJRTD_SETTING_TEXT && setting->kind != PJRTD_SETTING_LIST)
    return parse_number_field(setting, text, origin, settings);
  PJRTD_TRY(check_text(setting, text, origin));
  if (setting->kind == PJRTD_SETTING_LIST) {
    pjrtd_text_list *list = field_of(setting, settings);
    if (list->count >= MAX_LIST_ITEMS)
      return PJRTD_INVALID("%s: more than %d values (the last set by %s)", setting->name, MAX_LIST_ITEMS, origin);
    return pjrtd_text_list_append(list, text, strlen(text));
  }
  char *copy = pjrtd_strdup(text);
  if (!copy) return pjrtd_status_oom();
  pjrtd_setting_clear(setting, settings);
  *(char **)field_of(setting, settings) = copy;
  return PJRTD_OK;
}

bool pjrtd_setting_equal(const pjrtd_setting *setting, const pjrtd_settings *a, const pjrtd_settings *b) {
  const void *x = const_field_of(setting, a), *y = const_field_of(setting, b);
  if (setting->kind == PJRTD_SETTING_TEXT) return strcmp(*(char *const *)x, *(char *const *)y) == 0;
  if (setting->kind != PJRTD_SETTING_LIST) return pjrtd_setting_number(setting, a) == pjrtd_setting_number(setting, b);
  const pjrtd_text_list *first = x, *second = y;
  if (first->count != second->count) return false;
  for (size_t i = 0; i < first->count; i++)
    if (strcmp(first->items[i], second->items[i]) != 0) return false;
  return true;
}

static size_t field_size(const pjrtd_setting *setting) {
  switch (setting->kind) {
    case PJRTD_SETTING_TEXT: return sizeof(char *);
    case PJRTD_SETTING_LIST: return sizeof(pjrtd_text_list);
    case PJRTD_SETTING_CHOICE: return sizeof(int);
    default: return sizeof(uint64_t);
  }
}

void pjrtd_setting_swap(const pjrtd_setting *setting, pjrtd_settings *from, pjrtd_settings *to) {
  char kept[sizeof(pjrtd_text_list)];
  size_t size = field_size(setting);
  memcpy(kept, field_of(setting, to), size);
  memcpy(field_of(setting, to), field_of(setting, from), size);
  memcpy(field_of(setting, from), kept, size);
  pjrtd_setting_origin origin = to->origins[setting - pjrtd_settings_table];
  to->origins[setting - pjrtd_settings_table] = from->origins[setting - pjrtd_settings_table];
  from->origins[setting - pjrtd_settings_table] = origin;
}
