/* Eight threads log at once into one pipe while the level changes: every line arrives whole, with the fields of its own
 * thread. */
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "support/require.h"

enum { THREADS = 8, LINES = 2000 };

static void *work(void *argument) {
  long thread = (long)argument;
  char text[64];
  for (int i = 0; i < LINES; i++) {
    snprintf(text, sizeof text, "line\n%d of \x1b[31m %ld", i, thread);
    pjrtd_log(PJRTD_LOG_WARNING, "stress", PJRTD_LOG_INT("thread", thread), PJRTD_LOG_INT("line", i),
              PJRTD_LOG_TEXT("text", text), PJRTD_LOG_INT("check", thread * 1000003 + i));
    pjrtd_log(PJRTD_LOG_DEBUG, "never", PJRTD_LOG_INT("line", i));
  }
  return NULL;
}

static void *change_level(void *argument) {
  atomic_bool *stop = argument;
  while (!atomic_load(stop)) {
    pjrtd_log_set_level(PJRTD_LOG_INFO);
    pjrtd_log_set_level(PJRTD_LOG_WARNING);
    usleep(100);
  }
  return NULL;
}

typedef struct {
  int descriptor;
  int next[THREADS];
  int lines;
} reader;

static void check_line(reader *self, const char *line) {
  long thread, number, check;
  const char *fields = strstr(line, "thread=");
  REQUIRE(fields && strstr(line, "msg=\"stress\"") && !strstr(line, "never"));
  REQUIRE(sscanf(fields, "thread=%ld line=%ld", &thread, &number) == 2);
  REQUIRE(sscanf(strstr(line, "check="), "check=%ld", &check) == 1);
  REQUIRE(thread >= 0 && thread < THREADS && number == self->next[thread]);
  REQUIRE(check == thread * 1000003 + number);
  REQUIRE(!strchr(line, 0x1b));
  self->next[thread]++;
  self->lines++;
}

static void *read_lines(void *argument) {
  reader *self = argument;
  FILE *stream = fdopen(self->descriptor, "r");
  REQUIRE(stream);
  char line[PJRTD_LOG_MAX_LINE + 1];
  while (fgets(line, sizeof line, stream)) {
    REQUIRE(strchr(line, '\n'));
    check_line(self, line);
  }
  fclose(stream);
  return NULL;
}

int main(void) {
  int ends[2], saved = dup(2);
  REQUIRE(saved >= 0 && pipe(ends) == 0);
  reader self = {.descriptor = ends[0]};
  pthread_t reading, changing, threads[THREADS];
  REQUIRE(pthread_create(&reading, NULL, read_lines, &self) == 0);
  pjrtd_log_set_level(PJRTD_LOG_WARNING);
  REQUIRE(dup2(ends[1], 2) == 2);
  close(ends[1]);
  atomic_bool stop = false;
  REQUIRE(pthread_create(&changing, NULL, change_level, &stop) == 0);
  for (long i = 0; i < THREADS; i++) REQUIRE(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  atomic_store(&stop, true);
  pthread_join(changing, NULL);
  REQUIRE(dup2(saved, 2) == 2); /* closes the pipe's last writing end */
  pthread_join(reading, NULL);
  REQUIRE(self.lines == THREADS * LINES);
  printf("%d lines\n", self.lines);
  return 0;
}
