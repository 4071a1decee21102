/* base/log.c. Lines go through pjrtd_log_line with a fixed time; the writer's tests read standard error from a pipe. */
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <limits.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"

/* 2025-01-31T12:00:00.123Z */
static const struct timespec noon = {.tv_sec = 1738324800, .tv_nsec = 123999999};
#define PREFIX "time=2025-01-31T12:00:00.123Z level=info msg=\"m\""

static char buffer[PJRTD_LOG_MAX_LINE + 1];

static const char *line_of(pjrtd_log_format format, const pjrtd_log_field *fields, size_t count) {
  size_t length = pjrtd_log_line(buffer, format, noon, PJRTD_LOG_INFO, "m", fields, count);
  cr_assert(length <= PJRTD_LOG_MAX_LINE);
  buffer[length] = 0;
  cr_assert(buffer[length - 1] == '\n', "a line ends with a newline");
  cr_assert(strchr(buffer, '\n') == buffer + length - 1, "and has no other");
  return buffer;
}

#define FIELDS(...) \
  (const pjrtd_log_field[]){__VA_ARGS__}, sizeof((pjrtd_log_field[]){__VA_ARGS__}) / sizeof(pjrtd_log_field)
#define TEXT_LINE(...) line_of(PJRTD_LOG_FORMAT_TEXT, FIELDS(__VA_ARGS__))
#define JSON_LINE(...) line_of(PJRTD_LOG_FORMAT_JSON, FIELDS(__VA_ARGS__))

static json_t *parse(const char *line) {
  json_error_t error;
  json_t *root = json_loads(line, 0, &error);
  cr_assert(root, "not JSON: %s in %s", error.text, line);
  return root;
}

Test(log, writes_every_kind_of_field_as_key_and_value) {
  cr_assert_str_eq(TEXT_LINE(PJRTD_LOG_INT("least", INT64_MIN), PJRTD_LOG_UINT("most", UINT64_MAX),
                             PJRTD_LOG_REAL("ms", 1.5), PJRTD_LOG_BOOL("yes", 7), PJRTD_LOG_BOOL("no", 0),
                             PJRTD_LOG_TEXT("name", "x y"), PJRTD_LOG_TEXT_N("part", "abcdef", 3)),
                   PREFIX
                   " least=-9223372036854775808 most=18446744073709551615 ms=1.5 yes=true no=false name=\"x y\""
                   " part=\"abc\"\n");
}

Test(log, writes_time_in_utc_whatever_the_zone) {
  setenv("TZ", "Asia/Tokyo", 1);
  tzset();
  cr_assert(strncmp(TEXT_LINE(PJRTD_LOG_INT("n", 1)), "time=2025-01-31T12:00:00.123Z ", 30) == 0);
}

Test(log, keeps_a_text_with_control_characters_on_one_line) {
  cr_assert_str_eq(TEXT_LINE(PJRTD_LOG_TEXT("t", "a\nb\r\tc\x1b[31m\x7f \"q\" \\")),
                   PREFIX " t=\"a\\nb\\r\\tc\\u001b[31m\\u007f \\\"q\\\" \\\\\"\n");
}

Test(log, escapes_zero_bytes_of_a_text_with_a_length) {
  cr_assert_str_eq(TEXT_LINE(PJRTD_LOG_TEXT_N("t", "a\0b", 3)), PREFIX " t=\"a\\u0000b\"\n");
}

Test(log, passes_well_formed_utf8_through) {
  cr_assert_str_eq(TEXT_LINE(PJRTD_LOG_TEXT("t", "\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80")),
                   PREFIX " t=\"\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80\"\n");
}

Test(log, escapes_malformed_utf8_byte_by_byte) {
  /* A lone continuation, an overlong slash, a surrogate, a code point too large, and a character cut short. */
  cr_assert_str_eq(TEXT_LINE(PJRTD_LOG_TEXT("t", "\x80|\xc0\xaf|\xed\xa0\x80|\xf4\x90\x80\x80|\xe2\x82")),
                   PREFIX " t=\"\\x80|\\xc0\\xaf|\\xed\\xa0\\x80|\\xf4\\x90\\x80\\x80|\\xe2\\x82\"\n");
}

Test(log, escapes_characters_that_turn_the_direction_or_end_a_line) {
  cr_assert_str_eq(TEXT_LINE(PJRTD_LOG_TEXT("t", "\xe2\x80\xae \xe2\x80\xa8 \xc2\x85 \xe2\x81\xa6")),
                   PREFIX " t=\"\\u202e \\u2028 \\u0085 \\u2066\"\n");
}

Test(log, reads_a_null_text_as_empty) {
  cr_assert_str_eq(TEXT_LINE(PJRTD_LOG_TEXT("a", NULL), PJRTD_LOG_TEXT_N("b", NULL, 5)), PREFIX " a=\"\" b=\"\"\n");
}

Test(log, cuts_a_long_text_and_says_by_how_much) {
  char text[5000];
  memset(text, 'x', sizeof text);
  const char *line = TEXT_LINE(PJRTD_LOG_TEXT_N("t", text, sizeof text), PJRTD_LOG_INT("after", 1));
  size_t kept = strspn(strstr(line, "t=\"") + 3, "x");
  cr_assert_eq(kept, PJRTD_LOG_MAX_TEXT);
  char expected[64];
  snprintf(expected, sizeof expected, "x...(+%zu bytes)\" after=1\n", sizeof text - kept);
  cr_assert(strstr(line, expected), "%s", line);
}

Test(log, never_cuts_inside_an_escape_or_a_character) {
  for (size_t pad = 0; pad < 8; pad++) {
    char text[4200];
    memset(text, 'x', pad);
    for (size_t i = pad; i + 2 <= sizeof text; i += 2) memcpy(text + i, "\xc3\xa9", 2);
    json_t *root = parse(JSON_LINE(PJRTD_LOG_TEXT_N("t", text, pad + (sizeof text - pad) / 2 * 2)));
    cr_assert(strstr(json_string_value(json_object_get(root, "t")), "\xc3\xa9...(+"));
    json_decref(root);
  }
}

Test(log, counts_the_fields_that_do_not_fit) {
  char text[3000];
  memset(text, 'x', sizeof text);
  pjrtd_log_field fields[6];
  for (size_t i = 0; i < 6; i++) fields[i] = PJRTD_LOG_TEXT_N("t", text, sizeof text);
  const char *line = line_of(PJRTD_LOG_FORMAT_TEXT, fields, 6);
  /* The first is cut to its own limit, the second to the line's; for the others not even quotes are left. */
  cr_assert(strstr(line, " fields_left_out=4\n"), "%s", line);
}

Test(log, stays_json_and_in_bounds_for_every_length) {
  char text[4200];
  memset(text, '\x01', sizeof text); /* six bytes each when escaped */
  for (size_t length = 0; length < sizeof text; length += 7) {
    json_t *root = parse(JSON_LINE(PJRTD_LOG_TEXT_N("a", text, length), PJRTD_LOG_TEXT_N("b", text, length / 2),
                                   PJRTD_LOG_INT("c", 1), PJRTD_LOG_REAL("d", 0.1)));
    cr_assert_geq(json_object_size(root), 6);
    cr_assert(length > 600 || json_object_size(root) == 7, "all of it fits");
    json_decref(root);
  }
}

Test(log, writes_json_values_with_their_types) {
  json_t *root = parse(JSON_LINE(PJRTD_LOG_INT("i", -5), PJRTD_LOG_REAL("r", 0.25), PJRTD_LOG_REAL("bad", NAN),
                                 PJRTD_LOG_BOOL("b", true), PJRTD_LOG_TEXT("t", "a\n\"\xff\x1b")));
  cr_assert_str_eq(json_string_value(json_object_get(root, "time")), "2025-01-31T12:00:00.123Z");
  cr_assert_str_eq(json_string_value(json_object_get(root, "level")), "info");
  cr_assert_str_eq(json_string_value(json_object_get(root, "msg")), "m");
  cr_assert_eq(json_integer_value(json_object_get(root, "i")), -5);
  cr_assert_eq(json_real_value(json_object_get(root, "r")), 0.25);
  cr_assert_str_eq(json_string_value(json_object_get(root, "bad")), "nan");
  cr_assert(json_is_true(json_object_get(root, "b")));
  cr_assert_str_eq(json_string_value(json_object_get(root, "t")), "a\n\"\xef\xbf\xbd\x1b");
  json_decref(root);
}

Test(log, writes_a_status_with_code_message_and_hint) {
  PJRTD_AUTO(pjrtd_status) status = pjrtd_status_with_hint(PJRTD_INVALID("no \"x\""), "try y");
  cr_assert_str_eq(TEXT_LINE(PJRTD_LOG_STATUS(status)),
                   PREFIX " code=\"INVALID_ARGUMENT\" error=\"no \\\"x\\\"\" hint=\"try y\"\n");
  PJRTD_AUTO(pjrtd_status) bare = PJRTD_INTERNAL("broken");
  cr_assert_str_eq(TEXT_LINE(PJRTD_LOG_STATUS(bare)), PREFIX " code=\"INTERNAL\" error=\"broken\"\n");
  cr_assert_str_eq(TEXT_LINE(PJRTD_LOG_STATUS(NULL)), PREFIX "\n");
}

/* ---- what reaches standard error ---- */

static int reader;

static void capture(int flags) {
  int ends[2];
  cr_assert_eq(pipe2(ends, flags), 0);
  reader = ends[0];
  dup2(ends[1], STDERR_FILENO);
  close(ends[1]);
}

static size_t take(char *out, size_t size) {
  fcntl(reader, F_SETFL, O_NONBLOCK);
  ssize_t got = read(reader, out, size - 1);
  size_t length = got > 0 ? (size_t)got : 0;
  out[length] = 0;
  return length;
}

Test(log, filters_by_level_before_evaluating_fields) {
  capture(0);
  char out[8192];
  int evaluated = 0;
  pjrtd_log(PJRTD_LOG_DEBUG, "quiet", PJRTD_LOG_INT("n", ++evaluated));
  cr_assert_eq(evaluated, 0);
  cr_assert_eq(take(out, sizeof out), 0);
  pjrtd_log_set_level(PJRTD_LOG_DEBUG);
  pjrtd_log(PJRTD_LOG_DEBUG, "loud", PJRTD_LOG_INT("n", ++evaluated));
  take(out, sizeof out);
  cr_assert(strstr(out, " level=debug msg=\"loud\" n=1\n"), "%s", out);
  pjrtd_log_set_level(PJRTD_LOG_ERROR);
  pjrtd_log(PJRTD_LOG_WARNING, "below");
  cr_assert_eq(take(out, sizeof out), 0);
  pjrtd_log(PJRTD_LOG_ERROR, "no fields");
  take(out, sizeof out);
  cr_assert(strstr(out, " level=error msg=\"no fields\"\n"), "%s", out);
}

Test(log, writes_json_lines_once_told_to) {
  capture(0);
  char out[8192];
  pjrtd_log_set_format(PJRTD_LOG_FORMAT_JSON);
  pjrtd_log(PJRTD_LOG_WARNING, "w", PJRTD_LOG_TEXT("k", "v"));
  take(out, sizeof out);
  json_t *root = parse(out);
  cr_assert_str_eq(json_string_value(json_object_get(root, "level")), "warning");
  json_decref(root);
}

Test(log, leaves_errno_alone) {
  capture(0);
  close(reader);
  signal(SIGPIPE, SIG_IGN);
  errno = ENOENT;
  pjrtd_log(PJRTD_LOG_INFO, "nobody reads");
  cr_assert_eq(errno, ENOENT);
}

Test(log, counts_lines_that_a_full_pipe_refuses) {
  capture(O_NONBLOCK);
  static char out[1 << 20];
  int written = 0;
  /* A pipe holds 64 KiB by default. */
  for (; written < 3000; written++) pjrtd_log(PJRTD_LOG_INFO, "0123456789", PJRTD_LOG_INT("n", written));
  size_t length = take(out, sizeof out);
  unsigned long long arrived = 0;
  for (size_t i = 0; i < length; i++) arrived += out[i] == '\n';
  cr_assert(arrived > 0 && arrived < 3000);
  pjrtd_log(PJRTD_LOG_INFO, "through");
  take(out, sizeof out);
  char expected[96];
  snprintf(expected, sizeof expected, " level=warning msg=\"log lines were dropped\" dropped_lines=%llu\n",
           3000 - arrived);
  cr_assert(strstr(out, expected), "%s", out);
  cr_assert(strstr(out, "msg=\"through\"\n"));
}

static void *write_lines(void *text) {
  for (int i = 0; i < 200; i++) pjrtd_log(PJRTD_LOG_INFO, "line", PJRTD_LOG_TEXT("t", text));
  return NULL;
}

Test(log, keeps_lines_of_several_threads_apart) {
  char path[] = "/tmp/pjrtd-log-XXXXXX";
  int file = mkstemp(path);
  unlink(path);
  fcntl(file, F_SETFL, O_APPEND);
  dup2(file, STDERR_FILENO);
  pthread_t threads[4];
  char *texts[] = {"aaaa", "bbbb", "cccc", "dddd"};
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, write_lines, texts[i]);
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  FILE *lines = fdopen(file, "r");
  rewind(lines);
  char row[256], time[32], text[8];
  int count = 0;
  while (fgets(row, sizeof row, lines)) {
    cr_assert_eq(sscanf(row, "time=%31s level=info msg=\"line\" t=\"%4s\"\n", time, text), 2, "%s", row);
    count++;
  }
  cr_assert_eq(count, 800);
}

Test(log, puts_the_priority_in_front_where_the_journal_reads) {
  capture(0);
  struct stat seen;
  char stream[64], out[8192];
  fstat(STDERR_FILENO, &seen);
  snprintf(stream, sizeof stream, "%ju:%ju", (uintmax_t)seen.st_dev, (uintmax_t)seen.st_ino);
  setenv("JOURNAL_STREAM", stream, 1);
  pjrtd_log_detect_journal();
  pjrtd_log(PJRTD_LOG_WARNING, "w");
  pjrtd_log(PJRTD_LOG_ERROR, "e");
  take(out, sizeof out);
  cr_assert(strncmp(out, "<4>time=", 8) == 0, "%s", out);
  cr_assert(strstr(out, "\n<3>time="), "%s", out);
  setenv("JOURNAL_STREAM", "1:1", 1);
  pjrtd_log_detect_journal();
  pjrtd_log(PJRTD_LOG_INFO, "i");
  take(out, sizeof out);
  cr_assert(strncmp(out, "time=", 5) == 0, "another stream is not the journal's: %s", out);
}

Test(log, logs_a_status_under_a_message) {
  capture(0);
  char out[8192];
  PJRTD_AUTO(pjrtd_status) status = PJRTD_INTERNAL("broken");
  pjrtd_log_status(PJRTD_LOG_ERROR, "stopping", status);
  take(out, sizeof out);
  cr_assert(strstr(out, " level=error msg=\"stopping\" code=\"INTERNAL\" error=\"broken\"\n"), "%s", out);
}
