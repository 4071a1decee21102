/* Scripts: see fake_plugin.h. Read into a list of entries that is never freed, since events may still point into it. */
#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "fake_plugin.h"

typedef struct entry entry;
struct entry {
  entry *next;
  char *function, *action;
  char *arguments; /* behind the first ":", or "" */
  long call;       /* 0: each */
  atomic_long calls;
};
struct fake_script {
  entry *entries;
  fake_script *next; /* of all that ever were, for a leak checker */
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static fake_script *all;    /* under the mutex, as what follows */
static fake_script *global; /* of the file; NULL: none */
static struct stat read_from;

/* ---- reading ---- */

static entry *parse_entry(char *text) {
  char *equals = strchr(text, '=');
  FAKE_RULE(equals, "the script's entry \"%s\" has no =", text);
  *equals = 0;
  entry *made = calloc(1, sizeof *made);
  char *at = strchr(text, '@');
  if (at) {
    *at = 0;
    made->call = atol(at + 1);
    FAKE_RULE(made->call > 0, "the script names call \"%s\" of %s", at + 1, text);
  }
  made->function = strdup(text);
  made->action = strdup(equals + 1);
  char *colon = strchr(made->action, ':');
  if (colon) *colon = 0;
  made->arguments = colon ? colon + 1 : made->action + strlen(made->action);
  return made;
}

static fake_script *parse(const char *text, size_t bytes) {
  fake_script *script = calloc(1, sizeof *script);
  char *copy = strndup(text, bytes), *rest = copy;
  for (char *piece; (piece = strsep(&rest, ";\n"));) {
    while (isspace((unsigned char)*piece)) piece++;
    if (!*piece) continue;
    entry *made = parse_entry(piece);
    made->next = script->entries;
    script->entries = made;
  }
  free(copy);
  pthread_mutex_lock(&mutex);
  script->next = all;
  all = script;
  pthread_mutex_unlock(&mutex);
  return script;
}

fake_script *fake_script_of_text(const char *text, size_t bytes) {
  static const char mark[] = "// fake ";
  char *lines = calloc(1, bytes + 1);
  size_t used = 0;
  for (const char *at = text; (at = memmem(at, bytes - (size_t)(at - text), mark, sizeof mark - 1));) {
    at += sizeof mark - 1;
    size_t length = strcspn(at, "\n");
    memcpy(lines + used, at, length);
    used += length;
    lines[used++] = ';';
  }
  fake_script *script = used ? parse(lines, used) : NULL;
  free(lines);
  return script;
}

static bool path_of(const char *name, char path[4096]) {
  const char *folder = getenv("PJRTD_FAKE_DIR");
  if (folder) snprintf(path, 4096, "%s/%s", folder, name);
  return folder;
}

/* The file's script, read again where the file is another one. */
static fake_script *current(void) {
  char path[4096];
  struct stat now;
  if (!path_of("script", path) || stat(path, &now) != 0) return NULL;
  pthread_mutex_lock(&mutex);
  bool same = global && now.st_ino == read_from.st_ino && now.st_mtim.tv_sec == read_from.st_mtim.tv_sec &&
              now.st_mtim.tv_nsec == read_from.st_mtim.tv_nsec;
  fake_script *script = global;
  pthread_mutex_unlock(&mutex);
  if (same) return script;
  char text[65536];
  FILE *file = fopen(path, "re");
  if (!file) return NULL;
  size_t bytes = fread(text, 1, sizeof text, file);
  fclose(file);
  script = parse(text, bytes);
  pthread_mutex_lock(&mutex);
  global = script;
  read_from = now;
  pthread_mutex_unlock(&mutex);
  return script;
}

/* ---- doing ---- */

void fake_sleep_ms(int milliseconds) {
  struct timespec span = {milliseconds / 1000, milliseconds % 1000 * 1000000L};
  nanosleep(&span, NULL);
}

void fake_wait_for_release(void) {
  char path[4096];
  FAKE_RULE(path_of("release", path), "the script holds a call, but PJRTD_FAKE_DIR is not set");
  while (access(path, F_OK) != 0) fake_sleep_ms(2);
}

/* "CODE:TEXT", with %XX for bytes; the text is kept for ever, and does not end in a 0. */
static const char *parse_text(const char *arguments, int *out_code, size_t *out_bytes) {
  *out_code = atoi(arguments);
  const char *from = strchr(arguments, ':');
  from = from ? from + 1 : "";
  char *text = malloc(strlen(from) + 1);
  size_t bytes = 0;
  for (; *from; from++) {
    unsigned byte;
    if (*from == '%' && sscanf(from + 1, "%2x", &byte) == 1) {
      text[bytes++] = (char)byte;
      from += 2;
    } else {
      text[bytes++] = *from;
    }
  }
  *out_bytes = bytes;
  return text;
}

static PJRT_Error *make_error(const char *action, const char *arguments) {
  int code;
  size_t bytes;
  if (strcmp(action, "error_mute") == 0) return fake_error_make(atoi(arguments), NULL, 0);
  if (strcmp(action, "error_big") == 0) {
    const char *count = strchr(arguments, ':');
    FAKE_RULE(count, "error_big needs a code and a number of bytes");
    bytes = (size_t)atol(count + 1);
    char *text = malloc(bytes);
    memset(text, 'x', bytes);
    PJRT_Error *error = fake_error_make(atoi(arguments), text, bytes);
    free(text);
    return error;
  }
  const char *text = parse_text(arguments, &code, &bytes);
  PJRT_Error *error = fake_error_make(code, text, bytes);
  free((char *)text);
  return error;
}

static void apply(const entry *entry, fake_plan *plan) {
  const char *action = entry->action, *arguments = entry->arguments;
  if (strncmp(action, "error", 5) == 0) {
    if (!plan->error) plan->error = make_error(action, arguments);
  } else if (strcmp(action, "delay") == 0) {
    fake_sleep_ms(atoi(arguments));
  } else if (strcmp(action, "hold") == 0) {
    fake_wait_for_release();
  } else if (strcmp(action, "abort") == 0) {
    abort();
  } else if (strcmp(action, "exit") == 0) {
    exit(atoi(arguments));
  } else if (strcmp(action, "event_after") == 0) {
    plan->event_after_ms = atoi(arguments);
  } else if (strcmp(action, "event_hold") == 0) {
    plan->event_hold = true;
  } else if (strcmp(action, "event_null") == 0) {
    plan->event_null = true;
  } else if (strcmp(action, "event_error") == 0) {
    plan->event_text = parse_text(arguments, &plan->event_code, &plan->event_text_bytes);
  } else if (strcmp(action, "consume") == 0) {
    plan->consume = true;
  } else if (strcmp(action, "lie") == 0) {
    plan->lies = true;
    plan->lie = atoll(arguments);
  } else {
    fake_broken("the script has the action \"%s\"", action);
  }
}

static void follow(fake_script *script, const char *function, fake_plan *plan) {
  for (entry *entry = script ? script->entries : NULL; entry; entry = entry->next) {
    if (strcmp(entry->function, function) != 0) continue;
    long call = atomic_fetch_add(&entry->calls, 1) + 1;
    if (!entry->call || entry->call == call) apply(entry, plan);
  }
}

fake_plan fake_plan_for(const char *function, fake_script *own) {
  fake_plan plan = {.event_after_ms = -1};
  follow(own, function, &plan);
  follow(current(), function, &plan);
  return plan;
}
