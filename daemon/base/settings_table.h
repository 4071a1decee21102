/* What the files of settings share: a row of the table, and values as text. Seen only by base/settings*.c and tests. */
#pragma once

#include <stdbool.h>

#include "base/settings.h"

typedef enum {
  PJRTD_SETTING_TEXT,    /* char * */
  PJRTD_SETTING_LIST,    /* pjrtd_text_list */
  PJRTD_SETTING_INTEGER, /* uint64_t, as the next two */
  PJRTD_SETTING_SIZE,    /* bytes; KiB, MiB, GiB, TiB are understood */
  PJRTD_SETTING_OCTAL,
  PJRTD_SETTING_CHOICE, /* an enum */
} pjrtd_setting_kind;

typedef struct {
  const char *name;
  pjrtd_setting_kind kind;
  size_t offset; /* in pjrtd_settings */
  uint64_t least, most;
  const char *default_text;   /* as it would stand in the file; NULL: no line there (an empty list or a text that
                                 the environment decides) */
  const char *const *choices; /* NULL-terminated, in the enum's order */
  bool reloadable;
  const char *value_name;                   /* "FILE" in --help */
  const char *help;                         /* one line */
  pjrtd_status *(*check)(const char *text); /* of a text or one item of a list; NULL: anything goes */
} pjrtd_setting;

/* All PJRTD_NUM_SETTINGS rows, in the order of the manual. */
extern const pjrtd_setting pjrtd_settings_table[PJRTD_NUM_SETTINGS];

/* NULL where there is none. */
const pjrtd_setting *pjrtd_setting_find(const char *name, size_t length);
/* The name of the table that is most like `name`; NULL when none is near. */
const char *pjrtd_setting_nearest(const char *name, size_t length);

/* ---- settings_value.c ---- */

/* Parses `text` into the setting's field: a list gets one more item. `origin` ends error messages: "set by --listen".
 */
PJRTD_MUST_USE pjrtd_status *pjrtd_setting_parse(const pjrtd_setting *setting, const char *text, const char *origin,
                                                 pjrtd_settings *settings);
/* Empties the field. */
void pjrtd_setting_clear(const pjrtd_setting *setting, pjrtd_settings *settings);
bool pjrtd_setting_equal(const pjrtd_setting *setting, const pjrtd_settings *a, const pjrtd_settings *b);
/* Moves the field's value from one to the other; `from` gets the old value, to be freed with it. */
void pjrtd_setting_swap(const pjrtd_setting *setting, pjrtd_settings *from, pjrtd_settings *to);

/* A number as the file has it: "256 MiB", "0600", "12"; a choice's word. */
#define PJRTD_SETTING_NUMBER_TEXT 32
const char *pjrtd_setting_format_number(const pjrtd_setting *setting, uint64_t value,
                                        char buffer[PJRTD_SETTING_NUMBER_TEXT]);
/* "1 to 64", "debug | info | warning | error", or "" for texts and lists. */
#define PJRTD_SETTING_RANGE_TEXT 96
const char *pjrtd_setting_format_range(const pjrtd_setting *setting, char buffer[PJRTD_SETTING_RANGE_TEXT]);
uint64_t pjrtd_setting_number(const pjrtd_setting *setting, const pjrtd_settings *settings);

PJRTD_MUST_USE pjrtd_status *pjrtd_text_list_append(pjrtd_text_list *list, const char *text, size_t length);

/* ---- settings_file.c ---- */

/* Applies the file at `path`. */
PJRTD_MUST_USE pjrtd_status *pjrtd_settings_read_file(const char *path, pjrtd_settings *settings);

/* ---- settings_default.c ---- */

/* Fills what the sources left open and this machine decides: addresses, folders, the memory limit. */
PJRTD_MUST_USE pjrtd_status *pjrtd_settings_fill_defaults(pjrtd_settings *settings);
