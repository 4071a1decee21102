/* See ctl_table.h. */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "ctl.h"
#include "ctl_table.h"

enum { GAP = 2, MIN_FOLDED = 20 };

size_t ctl_width(void) {
  struct winsize size;
  if (!isatty(STDOUT_FILENO)) return 0;
  if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col) return size.ws_col;
  return 80;
}

const char *ctl_bytes(uint64_t bytes, char out[32]) {
  static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
  if (bytes < 1024) {
    snprintf(out, 32, "%" PRIu64 " B", bytes);
    return out;
  }
  double value = (double)bytes / 1024;
  size_t unit = 0;
  while (value >= 1023.95 && unit < 5) {
    value /= 1024;
    unit++;
  }
  snprintf(out, 32, "%.1f %s", value, units[unit]);
  return out;
}

const char *ctl_duration(uint64_t ns, char out[32]) {
  uint64_t seconds = ns / 1000000000u;
  if (ns < 1000)
    snprintf(out, 32, "%" PRIu64 " ns", ns);
  else if (ns < 1000000)
    snprintf(out, 32, "%.3g us", (double)ns / 1e3);
  else if (ns < 1000000000)
    snprintf(out, 32, "%.3g ms", (double)ns / 1e6);
  else if (seconds < 60)
    snprintf(out, 32, "%.1f s", (double)ns / 1e9);
  else if (seconds < 3600)
    snprintf(out, 32, "%" PRIu64 " min %" PRIu64 " s", seconds / 60, seconds % 60);
  else if (seconds < 86400)
    snprintf(out, 32, "%" PRIu64 " h %" PRIu64 " min", seconds / 3600, seconds / 60 % 60);
  else
    snprintf(out, 32, "%" PRIu64 " d %" PRIu64 " h", seconds / 86400, seconds / 3600 % 24);
  return out;
}

struct ctl_table {
  const char *const *columns;
  size_t num_columns;
  bool has_header;
  char **cells; /* owned */
  size_t num_cells, capacity;
};

ctl_table *ctl_table_create(const char *const *columns, bool has_header) {
  ctl_table *table = ctl_alloc(sizeof *table);
  table->columns = columns;
  table->has_header = has_header;
  while (columns[table->num_columns]) table->num_columns++;
  return table;
}

void ctl_table_add(ctl_table *table, const char *format, ...) {
  if (table->num_cells == table->capacity) {
    size_t capacity = table->capacity ? table->capacity * 2 : 64;
    char **cells = ctl_alloc(capacity * sizeof *cells);
    if (table->num_cells) memcpy(cells, table->cells, table->num_cells * sizeof *cells);
    free(table->cells);
    table->cells = cells;
    table->capacity = capacity;
  }
  va_list args;
  va_start(args, format);
  va_list again;
  va_copy(again, args);
  size_t size = (size_t)vsnprintf(NULL, 0, format, again) + 1;
  va_end(again);
  char *text = ctl_alloc(size);
  vsnprintf(text, size, format, args);
  va_end(args);
  for (char *c = text; *c; c++)
    if ((unsigned char)*c < ' ' || *c == 0x7f) *c = ' ';
  table->cells[table->num_cells++] = text;
}

static size_t name_length(const char *name) {
  return strlen(name) - (name[strlen(name) - 1] == '#');
}
static bool is_number(const char *name) {
  return name[strlen(name) - 1] == '#';
}

/* Characters, not bytes. */
static size_t text_width(const char *text) {
  size_t width = 0;
  for (; *text; text++) width += ((unsigned char)*text & 0xc0) != 0x80;
  return width;
}

/* Bytes of the part of `text` that fits `room` characters, cut at a space where there is one. */
static size_t fold(const char *text, size_t room) {
  size_t width = 0, at = 0, space = 0;
  for (; text[at] && width <= room; at++) {
    if (text[at] == ' ' && width) space = at;
    width += ((unsigned char)text[at + 1] & 0xc0) != 0x80;
  }
  if (!text[at] && width <= room) return at;
  if (space) return space;
  at = width = 0;
  while (text[at] && (width < room || ((unsigned char)text[at] & 0xc0) == 0x80))
    width += ((unsigned char)text[++at] & 0xc0) != 0x80;
  return at;
}

static void print_cell(const char *text, size_t width, bool right, bool last) {
  size_t length = text_width(text), padding = width > length ? width - length : 0;
  if (right) printf("%*s", (int)padding, "");
  fputs(text, stdout);
  if (!right && !last) printf("%*s", (int)padding, "");
  if (!last) printf("%*s", GAP, "");
}

static void print_folded(const char *text, size_t indent, size_t room) {
  for (bool first = true; *text || first; first = false) {
    size_t take = room ? fold(text, room) : strlen(text);
    if (!first) printf("%*s", (int)indent, "");
    printf("%.*s\n", (int)take, text);
    text += take;
    while (*text == ' ') text++;
  }
}

static void print_header(const ctl_table *table, const size_t *widths) {
  bool bold = isatty(STDOUT_FILENO) && !(getenv("NO_COLOR") && *getenv("NO_COLOR"));
  if (bold) fputs("\033[1m", stdout);
  for (size_t c = 0; c < table->num_columns; c++) {
    const char *name = table->columns[c];
    bool last = c + 1 == table->num_columns;
    char *text = ctl_text("%.*s", (int)name_length(name), name);
    print_cell(text, widths[c], is_number(name), last);
    free(text);
  }
  puts(bold ? "\033[0m" : "");
}

void ctl_table_print(ctl_table *table) {
  size_t *widths = ctl_alloc(table->num_columns * sizeof *widths);
  size_t before_last = 0, columns = ctl_width();
  for (size_t c = 0; c < table->num_columns; c++) {
    if (table->has_header) widths[c] = name_length(table->columns[c]);
    for (size_t i = c; i < table->num_cells; i += table->num_columns)
      if (text_width(table->cells[i]) > widths[c]) widths[c] = text_width(table->cells[i]);
    if (c + 1 < table->num_columns) before_last += widths[c] + GAP;
  }
  size_t room = columns > before_last + MIN_FOLDED ? columns - before_last : columns ? MIN_FOLDED : 0;
  if (table->has_header) print_header(table, widths);
  for (size_t i = 0; i < table->num_cells; i++) {
    size_t c = i % table->num_columns;
    bool last = c + 1 == table->num_columns;
    if (!last)
      print_cell(table->cells[i], widths[c], is_number(table->columns[c]), false);
    else if (is_number(table->columns[c]))
      print_cell(table->cells[i], widths[c], true, true), putchar('\n');
    else
      print_folded(table->cells[i], before_last, room);
    free(table->cells[i]);
  }
  free(table->cells);
  free(table);
  free(widths);
}
