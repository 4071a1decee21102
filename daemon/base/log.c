/* See log.h. */
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/utf8.h"

/* Kept free for what ends a line: how many fields were left out, and "}". */
#define TAIL_BYTES 64
/* The quotes of a text, and the words that say how much of it was cut. */
#define CUT_BYTES 48

static atomic_int level_limit = PJRTD_LOG_INFO;
static atomic_int line_format = PJRTD_LOG_FORMAT_TEXT;
static atomic_bool to_journal;
static atomic_uint_fast64_t dropped;

static const char *const level_names[] = {"debug", "info", "warning", "error"};
/* syslog's priorities. */
static const char level_priorities[] = {'7', '6', '4', '3'};

typedef struct {
  char *bytes;
  size_t used;
  size_t limit;
  bool json;
  unsigned left_out; /* fields that did not fit */
} line;

static bool put(line *out, const char *bytes, size_t length) {
  if (length > out->limit - out->used) return false;
  memcpy(out->bytes + out->used, bytes, length);
  out->used += length;
  return true;
}

static bool put_text(line *out, const char *text) {
  return put(out, text, strlen(text));
}

/* Characters that end a line or change how a terminal shows what follows: controls, line and paragraph separators, and
 * those that turn the direction of writing. */
static bool is_unsafe(uint32_t point) {
  return point < 0x20 || (point >= 0x7f && point < 0xa0) || (point >= 0x200e && point <= 0x200f) ||
         (point >= 0x2028 && point <= 0x202e) || (point >= 0x2066 && point <= 0x2069) || point == 0xfeff;
}

/* Writes one character's escaped form to `escaped`, its length to `*out_escaped`; returns the bytes taken. */
static size_t escape(const line *out, const unsigned char *at, size_t length, char escaped[8], size_t *out_escaped) {
  uint32_t point = 0;
  size_t taken = pjrtd_utf8_decode((const char *)at, length, &point);
  if (!taken) {
    /* JSON has no form for a byte that is not a character. */
    *out_escaped = (size_t)(out->json ? snprintf(escaped, 8, "\\ufffd") : snprintf(escaped, 8, "\\x%02x", at[0]));
    return 1;
  }
  const char *brief = point == '"'    ? "\\\""
                      : point == '\\' ? "\\\\"
                      : point == '\n' ? "\\n"
                      : point == '\t' ? "\\t"
                      : point == '\r' ? "\\r"
                                      : NULL;
  if (brief) {
    memcpy(escaped, brief, 2);
    *out_escaped = 2;
  } else if (is_unsafe(point)) {
    *out_escaped = (size_t)snprintf(escaped, 8, "\\u%04x", (unsigned)point);
  } else {
    memcpy(escaped, at, taken);
    *out_escaped = taken;
  }
  return taken;
}

/* The quoted text, cut where it is too long: "abc...(+1200 bytes)". */
static bool put_quoted(line *out, const char *bytes, size_t length) {
  if (!bytes) length = 0;
  if (length == SIZE_MAX) length = strlen(bytes);
  if (out->limit - out->used < CUT_BYTES) return false;
  put(out, "\"", 1);
  size_t most = out->limit - CUT_BYTES + 1;
  if (most > out->used + PJRTD_LOG_MAX_TEXT) most = out->used + PJRTD_LOG_MAX_TEXT;
  size_t done = 0;
  while (done < length) {
    char escaped[8];
    size_t size;
    size_t taken = escape(out, (const unsigned char *)bytes + done, length - done, escaped, &size);
    if (size > most - out->used) break;
    put(out, escaped, size);
    done += taken;
  }
  if (done < length) {
    char cut[CUT_BYTES];
    snprintf(cut, sizeof cut, "...(+%zu bytes)", length - done);
    put_text(out, cut);
  }
  return put(out, "\"", 1);
}

static bool put_key(line *out, const char *key) {
  char name[64];
  snprintf(name, sizeof name, out->json ? ",\"%s\":" : " %s=", key);
  return put_text(out, name);
}

static bool put_real(line *out, double value) {
  char text[40];
  if (out->json && !isfinite(value))
    snprintf(text, sizeof text, "\"%s\"", isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
  else
    snprintf(text, sizeof text, "%.9g", value);
  return put_text(out, text);
}

static bool put_value(line *out, const pjrtd_log_field *field) {
  char text[32];
  switch (field->kind) {
    case PJRTD_LOG_KIND_INT: snprintf(text, sizeof text, "%" PRId64, field->as.int_value); break;
    case PJRTD_LOG_KIND_UINT: snprintf(text, sizeof text, "%" PRIu64, field->as.uint_value); break;
    case PJRTD_LOG_KIND_BOOL: return put_text(out, field->as.uint_value ? "true" : "false");
    case PJRTD_LOG_KIND_REAL: return put_real(out, field->as.real_value);
    case PJRTD_LOG_KIND_TEXT: return put_quoted(out, field->as.text.bytes, field->as.text.length);
    default: return false;
  }
  return put_text(out, text);
}

/* Writes the field whole, or not at all: then it is counted. */
static void put_field(line *out, const pjrtd_log_field *field) {
  if (field->kind == PJRTD_LOG_KIND_STATUS) {
    const pjrtd_status *status = field->as.status;
    if (!status) return;
    put_field(out, &PJRTD_LOG_TEXT("code", pjrtd_code_name(pjrtd_status_code(status))));
    put_field(out, &PJRTD_LOG_TEXT("error", pjrtd_status_message(status)));
    if (*pjrtd_status_hint(status)) put_field(out, &PJRTD_LOG_TEXT("hint", pjrtd_status_hint(status)));
    return;
  }
  size_t before = out->used;
  if (put_key(out, field->key) && put_value(out, field)) return;
  out->used = before;
  out->left_out++;
}

static void put_time(line *out, struct timespec when) {
  struct tm parts;
  char text[40];
  if (!gmtime_r(&when.tv_sec, &parts)) memset(&parts, 0, sizeof parts);
  size_t length = strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", &parts);
  snprintf(text + length, sizeof text - length, ".%03ldZ", when.tv_nsec / 1000000);
  put_text(out, out->json ? "{\"time\":\"" : "time=");
  put_text(out, text);
  if (out->json) put_text(out, "\"");
}

size_t pjrtd_log_line(char buffer[PJRTD_LOG_MAX_LINE], pjrtd_log_format format, struct timespec when,
                      pjrtd_log_level level, const char *message, const pjrtd_log_field *fields, size_t num_fields) {
  line out = {.bytes = buffer, .limit = PJRTD_LOG_MAX_LINE - TAIL_BYTES, .json = format == PJRTD_LOG_FORMAT_JSON};
  put_time(&out, when);
  put_key(&out, "level");
  if (out.json) put_text(&out, "\"");
  put_text(&out, level_names[level]);
  if (out.json) put_text(&out, "\"");
  put_field(&out, &PJRTD_LOG_TEXT("msg", message));
  for (size_t i = 0; i < num_fields; i++) put_field(&out, &fields[i]);
  out.limit = PJRTD_LOG_MAX_LINE;
  if (out.left_out) put_field(&out, &PJRTD_LOG_UINT("fields_left_out", out.left_out));
  put_text(&out, out.json ? "}\n" : "\n");
  return out.used;
}

static bool write_all(const char *bytes, size_t length) {
  while (length) {
    ssize_t written = write(STDERR_FILENO, bytes, length);
    if (written < 0) {
      if (errno == EINTR) continue;
      return false;
    }
    bytes += written;
    length -= (size_t)written;
  }
  return true;
}

/* One line, with the priority in front of it where the journal reads. */
static bool emit(pjrtd_log_level level, const char *message, const pjrtd_log_field *fields, size_t num_fields) {
  char buffer[3 + PJRTD_LOG_MAX_LINE];
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  memcpy(buffer, "<6>", 3);
  buffer[1] = level_priorities[level];
  size_t length = pjrtd_log_line(buffer + 3, atomic_load_explicit(&line_format, memory_order_relaxed), now, level,
                                 message, fields, num_fields);
  bool prefixed = atomic_load_explicit(&to_journal, memory_order_relaxed);
  return prefixed ? write_all(buffer, length + 3) : write_all(buffer + 3, length);
}

void pjrtd_log_write(pjrtd_log_level level, const char *message, const pjrtd_log_field *fields, size_t num_fields) {
  if ((unsigned)level > PJRTD_LOG_ERROR) level = PJRTD_LOG_ERROR;
  int error = errno;
  uint64_t lost = atomic_exchange_explicit(&dropped, 0, memory_order_relaxed);
  if (lost && !emit(PJRTD_LOG_WARNING, "log lines were dropped", &PJRTD_LOG_UINT("dropped_lines", lost), 1))
    atomic_fetch_add_explicit(&dropped, lost, memory_order_relaxed);
  if (!emit(level, message, fields, num_fields)) atomic_fetch_add_explicit(&dropped, 1, memory_order_relaxed);
  errno = error;
}

void pjrtd_log_status(pjrtd_log_level level, const char *message, const pjrtd_status *status) {
  pjrtd_log(level, message, PJRTD_LOG_STATUS(status));
}

bool pjrtd_log_enabled(pjrtd_log_level level) {
  return (int)level >= atomic_load_explicit(&level_limit, memory_order_relaxed);
}
void pjrtd_log_set_level(pjrtd_log_level level) {
  atomic_store(&level_limit, (int)level);
}
void pjrtd_log_set_format(pjrtd_log_format format) {
  atomic_store(&line_format, (int)format);
}

void pjrtd_log_detect_journal(void) {
  const char *stream = getenv("JOURNAL_STREAM");
  struct stat seen;
  char text[64];
  if (!stream || fstat(STDERR_FILENO, &seen) != 0) return;
  snprintf(text, sizeof text, "%ju:%ju", (uintmax_t)seen.st_dev, (uintmax_t)seen.st_ino);
  atomic_store(&to_journal, strcmp(stream, text) == 0);
}
