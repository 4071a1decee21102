/* See ctl_steps.h. */
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "ctl_program.h"
#include "ctl_steps.h"
#include "ctl_table.h"

enum { BAR_WIDTH = 30, MAX_SHOWN_OUTPUTS = 64 };
#define TURN_NS INT64_C(100000000)

/* ---- options ---- */

static char *read_number(const char *value, uint64_t *out) {
  long number;
  char *complaint = ctl_read_count(value, 1, LONG_MAX, &number);
  *out = (uint64_t)number;
  return complaint;
}

char *ctl_set_steps(ctl_steps_options *options, const char *value) {
  return read_number(value, &options->steps);
}

char *ctl_set_every(ctl_steps_options *options, const char *value) {
  return read_number(value, &options->every);
}

char *ctl_set_until(ctl_steps_options *options, const char *value) {
  options->has_until = true;
  return ctl_read_position(value, &options->until);
}

char *ctl_set_stack(ctl_steps_options *options, const char *value) {
  uint32_t position;
  char *complaint = ctl_read_position(value, &position);
  if (complaint) return complaint;
  size_t at = 0;
  while (at < options->num_stacked && options->stacked[at] < position) at++;
  if (at < options->num_stacked && options->stacked[at] == position)
    return ctl_text("argument %" PRIu32 " is stacked already", position);
  uint32_t *longer = realloc(options->stacked, (options->num_stacked + 1) * sizeof *longer);
  if (!longer) return ctl_text("no memory");
  memmove(longer + at + 1, longer + at, (options->num_stacked++ - at) * sizeof *longer);
  longer[at] = position;
  options->stacked = longer;
  return NULL;
}

bool ctl_steps_asked(const ctl_steps_options *options) {
  return options->steps || options->num_stacked;
}

/* ---- what is shown ---- */

typedef struct {
  const ctl_steps *run;
  pjrtc_value values[MAX_SHOWN_OUTPUTS]; /* what `every` brings back */
  size_t num_values;
  bool has_header;
  bool bar; /* on a terminal */
  bool bar_is_there;
  uint64_t started_ns;
  json_t *history; /* owned */
} view;

static uint64_t now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void clear_bar(view *v) {
  if (!v->bar_is_there) return;
  fputs("\r\033[K", stderr);
  v->bar_is_there = false;
}

static void draw_bar(view *v, uint64_t steps) {
  if (!v->bar) return;
  uint64_t expected = v->run->expected, elapsed_ns = now_ns() - v->started_ns;
  char text[32];
  clear_bar(v);
  if (expected && steps <= expected) {
    int full = (int)((double)steps / (double)expected * BAR_WIDTH);
    double left_ns = steps ? (double)elapsed_ns * ((double)(expected - steps) / (double)steps) : 0;
    fprintf(stderr, "[%.*s%*s] %" PRIu64 "/%" PRIu64 " steps, %s left", full, "##############################",
            BAR_WIDTH - full, "", steps, expected, ctl_duration((uint64_t)left_ns, text));
  } else {
    fprintf(stderr, "%" PRIu64 " steps, %s", steps, ctl_duration(elapsed_ns, text));
  }
  fflush(stderr);
  v->bar_is_there = true;
}

/* A row: the step, and each value; the last column is as long as it is. */
static void print_row(view *v, uint64_t steps) {
  char type[1600];
  if (!v->has_header) {
    printf("%10s", "STEP");
    for (size_t i = 0; i < v->num_values; i++) {
      const pjrtc_value *value = &v->values[i];
      char *title =
          ctl_text("%" PRIu32 ":%s", value->position,
                   pjrtc_type_format(&(pjrtc_type){value->dtype, value->rank, value->dims}, type, sizeof type));
      printf("  %*s", i + 1 < v->num_values ? -14 : 0, title);
      free(title);
    }
    putchar('\n');
    v->has_header = true;
  }
  printf("%10" PRIu64, steps);
  for (size_t i = 0; i < v->num_values; i++) {
    char *text = ctl_result_values(&v->values[i], v->run->whole);
    printf("  %*s", i + 1 < v->num_values ? -14 : 0, text);
    free(text);
  }
  putchar('\n');
  fflush(stdout);
}

static void add_history(view *v, uint64_t steps) {
  json_t *results = json_array(), *object = json_object();
  for (size_t i = 0; i < v->num_values; i++) {
    json_t *result = ctl_result_json(&v->values[i]);
    json_object_set_new(result, "output", json_integer(v->values[i].position));
    json_array_append_new(results, result);
  }
  json_object_set_new(object, "step", ctl_json_unsigned(steps));
  json_object_set_new(object, "results", results);
  json_array_append_new(v->history, object);
}

static void show(view *v, uint64_t steps) {
  if (v->run->common->json) {
    add_history(v, steps);
    return;
  }
  clear_bar(v);
  print_row(v, steps);
}

static bool on_step(void *user, uint64_t steps, const pjrtc_value *values, size_t num_values) {
  view *v = user;
  if (num_values) show(v, steps);
  draw_bar(v, steps);
  return true;
}

/* ---- the call ---- */

/* What is not fed back, as far as it fits in an answer. */
static void choose_values(view *v, const pjrtc_execute_options *step) {
  const pjrtc_program_info *info = v->run->info;
  uint64_t room = pjrtc_get_hello(v->run->client)->max_inline_bytes;
  if (!v->run->options->every) return;
  for (size_t i = 0; i < info->num_outputs * info->num_devices && v->num_values < MAX_SHOWN_OUTPUTS; i++) {
    bool fed_back = false;
    for (size_t k = 0; k < step->num_feed_back; k++) fed_back |= step->feed_back[k].output == i;
    uint64_t size_bytes;
    if (fed_back || pjrtc_type_size(&info->outputs[i % info->num_outputs]->type, &size_bytes, NULL) ||
        size_bytes > room)
      continue;
    room -= size_bytes;
    v->values[v->num_values++].position = (uint32_t)i;
  }
}

static volatile sig_atomic_t interrupted;

static void on_interrupt(int signal) {
  interrupted = 1;
}

static pjrtc_code wait_for_run(pjrtc_future *future, pjrtc_error *error) {
  pjrtc_code code;
  bool cancelled = false;
  while ((code = pjrtc_future_wait(future, TURN_NS, error)) == PJRTC_PENDING) {
    if (!interrupted || cancelled) continue;
    pjrtc_future_cancel(future);
    cancelled = true;
  }
  return code;
}

/* Where the session is kept a run would go on without its client. The first Ctrl-C cancels it, also while it is being
 * started; a second one ends pjrtctl. */
static pjrtc_code start_and_wait(const ctl_steps *run, const pjrtc_run_options *options, pjrtc_future **out_future,
                                 pjrtc_error *error) {
  struct sigaction action = {.sa_handler = on_interrupt, .sa_flags = (int)SA_RESETHAND}, before;
  sigaction(SIGINT, NULL, &before);
  if (before.sa_handler != SIG_IGN) sigaction(SIGINT, &action, NULL);
  pjrtc_code code = pjrtc_run_start(run->client, options, out_future, error);
  if (!code) code = wait_for_run(*out_future, error);
  sigaction(SIGINT, &before, NULL);
  return code;
}

int ctl_steps_run(const ctl_steps *run, const pjrtc_execute_options *step, json_t **out_history,
                  pjrtc_run_result *out_result) {
  view v = {.run = run, .bar = isatty(STDERR_FILENO), .started_ns = now_ns(), .history = json_array()};
  *out_history = NULL;
  choose_values(&v, step);
  pjrtc_execute_options own = *step;
  own.fetch = v.values;
  own.num_fetch = v.num_values;
  *out_result = (pjrtc_run_result){.struct_size = sizeof *out_result};
  pjrtc_run_options options = {
      .struct_size = sizeof options,
      .step = &own,
      .steps = run->options->steps,
      .stacked = run->options->stacked,
      .num_stacked = run->options->num_stacked,
      .has_until = run->options->has_until,
      .until = run->options->until,
      .every = run->options->every,
      .progress_ns = v.bar ? TURN_NS : 0,
      .on_step = on_step,
      .user = &v,
      .result = out_result,
      .timeout_ns = run->timeout_ns,
  };
  pjrtc_error error;
  ctl_error_init(&error);
  pjrtc_future *future;
  pjrtc_code code = start_and_wait(run, &options, &future, &error);
  clear_bar(&v);
  int status = code ? ctl_fail(run->common, &error) : CTL_OK;
  /* The last step's values came with the answer. */
  if (!status && v.num_values && out_result->steps) show(&v, out_result->steps);
  pjrtc_future_destroy(future);
  for (size_t i = 0; i < v.num_values; i++) pjrtc_free(v.values[i].data);
  *out_history = v.history;
  free(error.detail);
  return status;
}
