/* The configuration file: `name = value` lines, comments with # or ;, no sections, lists by repeating the name. Main
 * thread at start, loop thread on reload. inih reads; this file keeps line numbers for error messages. */
#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <string.h>

#include "base/settings_table.h"

/* The longest line that the library reads, its end included. */
#define MAX_LINE_BYTES 8192

typedef struct {
  FILE *stream;
  const char *path; /* borrowed */
  pjrtd_settings *settings;
  unsigned line;
  pjrtd_status *error; /* owned; the first */
} reader;

static void fail(reader *self, pjrtd_status *status) {
  if (self->error)
    pjrtd_status_destroy(status);
  else
    self->error = status;
}

/* One line into `buffer`, as fgets does it; false at the end, or when it is too long or has a zero byte. */
static bool read_bytes(reader *self, char *buffer, size_t size) {
  size_t length = 0;
  int byte;
  while ((byte = getc(self->stream)) != EOF) {
    if (!length) self->line++;
    if (!byte || length + 1 == size) {
      fail(self,
           PJRTD_INVALID("%s:%u: the line has %s", self->path, self->line, byte ? "too many bytes" : "a zero byte"));
      return false;
    }
    buffer[length++] = (char)byte;
    if (byte == '\n') break;
  }
  buffer[length] = 0;
  return length > 0;
}

/* One line without its leading blanks, which the library would take for the value of the name above going on. */
static char *read_line(char *buffer, int size, void *user) {
  reader *self = user;
  if (self->error || !read_bytes(self, buffer, (size_t)size)) return NULL;
  size_t blanks = strspn(buffer, " \t");
  memmove(buffer, buffer + blanks, strlen(buffer) + 1 - blanks);
  if (buffer[0] == '[') {
    fail(self, PJRTD_INVALID("%s:%u: the file has no sections", self->path, self->line));
    return NULL;
  }
  return buffer;
}

static pjrtd_status *apply(reader *self, const char *name, const char *value) {
  const pjrtd_setting *setting = pjrtd_setting_find(name, strlen(name));
  if (!setting) {
    const char *nearest = pjrtd_setting_nearest(name, strlen(name));
    pjrtd_status *status = PJRTD_INVALID("%s:%u: there is no setting \"%.64s\"", self->path, self->line, name);
    return nearest ? pjrtd_status_with_hint(status, "did you mean %s?", nearest)
                   : pjrtd_status_with_hint(status, "pjrtd --help lists the settings");
  }
  pjrtd_setting_origin *origin = &self->settings->origins[setting - pjrtd_settings_table];
  bool is_list = setting->kind == PJRTD_SETTING_LIST;
  if (origin->source == PJRTD_ORIGIN_FILE && !is_list)
    return PJRTD_INVALID("%s:%u: %s was set already, in line %u", self->path, self->line, name, origin->line);
  char *where = pjrtd_malloc(strlen(self->path) + 16);
  if (!where) return pjrtd_status_oom();
  sprintf(where, "%s:%u", self->path, self->line);
  pjrtd_status *status = pjrtd_setting_parse(setting, value, where, self->settings);
  pjrtd_free(where);
  if (!status) *origin = (pjrtd_setting_origin){.source = PJRTD_ORIGIN_FILE, .line = self->line};
  return status;
}

static int take_entry(void *user, const char *section, const char *name, const char *value) {
  reader *self = user;
  pjrtd_status *status = self->error ? PJRTD_OK : apply(self, name, value);
  if (status) fail(self, status);
  return 1;
}

pjrtd_status *pjrtd_settings_read_file(const char *path, pjrtd_settings *settings) {
  reader self = {.stream = fopen(path, "re"), .path = path, .settings = settings};
  if (!self.stream) return pjrtd_status_from_errno(errno, "opening the configuration file %s", path);
  ini_max_line = MAX_LINE_BYTES;
  int bad_line = ini_parse_stream(read_line, &self, take_entry, &self);
  int error = ferror(self.stream) ? errno : 0;
  fclose(self.stream);
  if (self.error) return self.error;
  if (error) return pjrtd_status_from_errno(error, "reading the configuration file %s", path);
  if (bad_line > 0) return PJRTD_INVALID("%s:%d: the line is not NAME = VALUE", path, bad_line);
  if (bad_line < 0) return pjrtd_status_oom();
  return PJRTD_OK;
}
