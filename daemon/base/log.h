/* Log lines with typed fields, to standard error: key=value or JSON, one write(2) a line, at most PIPE_BUF bytes, so
 * that lines of several threads and processes do not mix. Any thread. Never allocates, never blocks on a lock.
 *
 *   pjrtd_log(PJRTD_LOG_INFO, "client connected", PJRTD_LOG_INT("pid", pid), PJRTD_LOG_TEXT("name", name));
 *   time=2025-01-31T12:00:00.123Z level=info msg="client connected" pid=12 name="x"
 *
 * Messages and keys are literals of the source; every text value is escaped, whatever a client put into it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "base/status.h"

typedef enum { PJRTD_LOG_DEBUG = 0, PJRTD_LOG_INFO = 1, PJRTD_LOG_WARNING = 2, PJRTD_LOG_ERROR = 3 } pjrtd_log_level;
typedef enum { PJRTD_LOG_FORMAT_TEXT = 0, PJRTD_LOG_FORMAT_JSON = 1 } pjrtd_log_format;

/* The longest line, newline included. */
#define PJRTD_LOG_MAX_LINE 4096
/* What one text may take of it, escapes included; the rest is cut, and the line says how many bytes were. */
#define PJRTD_LOG_MAX_TEXT 2048

typedef struct {
  const char *key;
  enum {
    PJRTD_LOG_KIND_INT,
    PJRTD_LOG_KIND_UINT,
    PJRTD_LOG_KIND_REAL,
    PJRTD_LOG_KIND_BOOL,
    PJRTD_LOG_KIND_TEXT,
    PJRTD_LOG_KIND_STATUS,
  } kind;
  union {
    int64_t int_value;
    uint64_t uint_value;
    double real_value;
    struct {
      const char *bytes; /* NULL with any length reads as "" */
      size_t length;     /* SIZE_MAX: ends at the first 0 */
    } text;
    const pjrtd_status *status;
  } as;
} pjrtd_log_field;

#define PJRTD_LOG_INT(key_, value) \
  ((pjrtd_log_field){.key = (key_), .kind = PJRTD_LOG_KIND_INT, .as = {.int_value = (value)}})
#define PJRTD_LOG_UINT(key_, value) \
  ((pjrtd_log_field){.key = (key_), .kind = PJRTD_LOG_KIND_UINT, .as = {.uint_value = (value)}})
#define PJRTD_LOG_REAL(key_, value) \
  ((pjrtd_log_field){.key = (key_), .kind = PJRTD_LOG_KIND_REAL, .as = {.real_value = (value)}})
#define PJRTD_LOG_BOOL(key_, value) \
  ((pjrtd_log_field){.key = (key_), .kind = PJRTD_LOG_KIND_BOOL, .as = {.uint_value = !!(value)}})
#define PJRTD_LOG_TEXT(key_, value) PJRTD_LOG_TEXT_N(key_, value, SIZE_MAX)
#define PJRTD_LOG_TEXT_N(key_, value, length_) \
  ((pjrtd_log_field){                          \
      .key = (key_), .kind = PJRTD_LOG_KIND_TEXT, .as = {.text = {.bytes = (value), .length = (length_)}}})
/* Three fields: code=NOT_FOUND error="..." hint="..." (where there is one). `value` is borrowed. */
#define PJRTD_LOG_STATUS(value) \
  ((pjrtd_log_field){.key = "error", .kind = PJRTD_LOG_KIND_STATUS, .as = {.status = (value)}})

/* The fields are evaluated only when the level is on. */
#define pjrtd_log(level, message, ...)                                                                    \
  do {                                                                                                    \
    if (pjrtd_log_enabled(level)) {                                                                       \
      const pjrtd_log_field log_fields_[] = {PJRTD_LOG_UINT(NULL, 0), ##__VA_ARGS__};                     \
      pjrtd_log_write((level), (message), log_fields_ + 1, sizeof log_fields_ / sizeof *log_fields_ - 1); \
    }                                                                                                     \
  } while (0)

/* `status` is borrowed; NULL logs the message alone. */
void pjrtd_log_status(pjrtd_log_level level, const char *message, const pjrtd_status *status);

bool pjrtd_log_enabled(pjrtd_log_level level);
void pjrtd_log_set_level(pjrtd_log_level level);
void pjrtd_log_set_format(pjrtd_log_format format);

/* Where standard error is the journal's stream (JOURNAL_STREAM names it), lines get the priority prefix "<6>" that
 * journald takes off again. Call once, before threads start. */
void pjrtd_log_detect_journal(void);

/* What the macro calls. A line that standard error does not take (full pipe that does not block) is dropped; the next
 * one that goes through says how many were, as dropped_lines=N. */
void pjrtd_log_write(pjrtd_log_level level, const char *message, const pjrtd_log_field *fields, size_t num_fields);

/* Writes the line, newline included, without a 0 at the end, and returns its length. `when` is the wall clock. */
size_t pjrtd_log_line(char buffer[PJRTD_LOG_MAX_LINE], pjrtd_log_format format, struct timespec when,
                      pjrtd_log_level level, const char *message, const pjrtd_log_field *fields, size_t num_fields);
