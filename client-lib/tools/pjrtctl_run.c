/* pjrtctl run: compiles a file, runs it, prints or saves its results. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl_argument.h"
#include "ctl_program.h"
#include "ctl_result.h"
#include "ctl_steps.h"

typedef struct {
  ctl_compile_options compile; /* first */
  const char **arguments;      /* owned; their texts */
  size_t num_arguments;
  pjrtc_feed_back *feed_back; /* owned */
  size_t num_feed_back;
  ctl_steps_options steps;
  const char *session;
  uint64_t ttl_ns;
  const char *save;
  bool full;
} run_options;

static char *set_argument(void *user, const char *value) {
  run_options *options = user;
  const char **arguments = realloc(options->arguments, (options->num_arguments + 1) * sizeof *arguments);
  if (!arguments) return ctl_text("no memory");
  options->arguments = arguments;
  arguments[options->num_arguments++] = value;
  return NULL;
}

/* "0=theta", or, in a run, "0=arg:1" */
static char *set_feed_back(void *user, const char *value) {
  run_options *options = user;
  const char *equals = strchr(value, '=');
  if (!equals || !equals[1]) return ctl_text("\"%s\" is not OUTPUT=SLOT, as in 0=theta", value);
  char *number = ctl_text("%.*s", (int)(equals - value), value);
  uint32_t output;
  char *complaint = ctl_read_position(number, &output);
  free(number);
  if (complaint) return complaint;
  pjrtc_feed_back *longer = realloc(options->feed_back, (options->num_feed_back + 1) * sizeof *longer);
  if (!longer) return ctl_text("no memory");
  options->feed_back = longer;
  pjrtc_feed_back *feed_back = &longer[options->num_feed_back];
  *feed_back = (pjrtc_feed_back){.output = output, .slot = equals + 1};
  if (strncmp(feed_back->slot, "arg:", 4) == 0) {
    complaint = ctl_read_position(equals + 5, &feed_back->argument);
    feed_back->slot = NULL;
  }
  options->num_feed_back++;
  return complaint;
}

static char *set_steps(void *user, const char *value) {
  return ctl_set_steps(&((run_options *)user)->steps, value);
}

static char *set_every(void *user, const char *value) {
  return ctl_set_every(&((run_options *)user)->steps, value);
}

static char *set_until(void *user, const char *value) {
  return ctl_set_until(&((run_options *)user)->steps, value);
}

static char *set_stack(void *user, const char *value) {
  return ctl_set_stack(&((run_options *)user)->steps, value);
}

static char *set_session(void *user, const char *value) {
  ((run_options *)user)->session = value;
  return *value ? NULL : ctl_text("the session's name is missing");
}

static char *set_ttl(void *user, const char *value) {
  return ctl_read_seconds(value, &((run_options *)user)->ttl_ns);
}

static char *set_save(void *user, const char *value) {
  ((run_options *)user)->save = value;
  return NULL;
}

static char *set_full(void *user, const char *value) {
  ((run_options *)user)->full = true;
  return NULL;
}

/* ---- One run ---- */

typedef struct {
  const ctl_common *common;
  const run_options *options;
  pjrtc_client *client;
  pjrtc_error error;
  ctl_argument *arguments; /* owned */
  uint64_t program;
  pjrtc_program_info *info;     /* owned */
  size_t num_args, num_outputs; /* of all devices */
  uint64_t *inputs, *outputs;   /* owned; ids */
  pjrtc_value *values;          /* owned; the results */
  pjrtc_execute_result result;
  pjrtc_run_result steps;
  json_t *history; /* owned; of a run's steps */
} run;

static int read_arguments(run *r) {
  size_t count = r->options->num_arguments;
  r->arguments = ctl_alloc(count * sizeof *r->arguments);
  for (size_t i = 0; i < count; i++) {
    bool is_file;
    char *complaint = ctl_argument_read(r->options->arguments[i], &r->arguments[i], &is_file);
    if (!complaint) continue;
    int status = ctl_complain(r->common, is_file ? CTL_FILE : CTL_USAGE, NULL, "argument %zu: %s", i, complaint);
    free(complaint);
    return status;
  }
  return CTL_OK;
}

/* Arguments for one device go to all of them. */
static int count_arguments(run *r) {
  size_t given = r->options->num_arguments, wanted = r->info->num_args, devices = r->info->num_devices;
  r->num_args = wanted * devices;
  r->num_outputs = r->info->num_outputs * devices;
  if (given == wanted || given == r->num_args) return CTL_OK;
  static const char hint[] = "pjrtctl compile shows what the program takes";
  if (devices > 1)
    return ctl_complain(r->common, CTL_USAGE, hint,
                        "the program takes %zu arguments on each of %zu devices, and %zu came", wanted, devices, given);
  return ctl_complain(r->common, CTL_USAGE, hint, "the program takes %zu arguments, and %zu came", wanted, given);
}

/* Started one behind the other, awaited together. */
static int upload(run *r) {
  pjrtc_future **futures = ctl_alloc(r->num_args * sizeof *futures);
  r->inputs = ctl_alloc(r->num_args * sizeof *r->inputs);
  int status = CTL_OK;
  for (size_t i = 0; !status && i < r->num_args; i++) {
    const ctl_argument *argument = &r->arguments[i % r->options->num_arguments];
    if (argument->slot) continue;
    pjrtc_upload_options options = ctl_argument_upload(argument);
    options.placement = PJRTC_PLACE_DEVICE;
    options.place = r->info->devices[i / r->info->num_args];
    options.timeout_ns = r->options->compile.deadline_ns;
    if (pjrtc_upload_start(r->client, &options, &r->inputs[i], &futures[i], &r->error))
      status = ctl_fail(r->common, &r->error);
  }
  for (size_t i = 0; i < r->num_args; i++) {
    if (!status && futures[i] && pjrtc_future_wait(futures[i], PJRTC_FOREVER, &r->error))
      status = ctl_fail(r->common, &r->error);
    pjrtc_future_destroy(futures[i]);
  }
  free(futures);
  return status;
}

/* The slot that an output goes to, which then is not brought back; NULL: none. */
static const char *slot_of(const run *r, size_t output) {
  for (size_t i = 0; i < r->options->num_feed_back; i++)
    if (r->options->feed_back[i].output == output) return r->options->feed_back[i].slot;
  return NULL;
}

/* Of a run of how many steps; 0: not known. */
static uint64_t steps_expected(const run *r) {
  const ctl_steps_options *steps = &r->options->steps;
  size_t given = r->options->num_arguments;
  if (steps->steps || !given) return steps->steps;
  const ctl_argument *first = &r->arguments[steps->stacked[0] % given];
  return !first->slot && first->rank ? (uint64_t)first->dims[0] : 0;
}

static int run_steps(run *r, const pjrtc_execute_options *step) {
  ctl_steps steps = {.common = r->common,
                     .client = r->client,
                     .options = &r->options->steps,
                     .info = r->info,
                     .expected = steps_expected(r),
                     .timeout_ns = r->options->compile.deadline_ns,
                     .whole = ctl_result_whole(r->options->full)};
  int status = ctl_steps_run(&steps, step, &r->history, &r->steps);
  r->result.execute_ns = r->steps.execute_ns;
  return status;
}

static int execute(run *r) {
  pjrtc_argument *args = ctl_alloc(r->num_args * sizeof *args);
  bool *keep = ctl_alloc(r->num_outputs * sizeof *keep);
  for (size_t i = 0; i < r->num_args; i++)
    args[i] = (pjrtc_argument){.buffer = r->inputs[i], .slot = r->arguments[i % r->options->num_arguments].slot};
  for (size_t i = 0; i < r->num_outputs; i++) keep[i] = !slot_of(r, i);
  r->outputs = ctl_alloc(r->num_outputs * sizeof *r->outputs);
  r->result.struct_size = sizeof r->result;
  pjrtc_execute_options options = {
      .struct_size = sizeof options,
      .program = r->program,
      .args = args,
      .num_args = r->num_args,
      .outputs = r->outputs,
      .num_outputs = r->num_outputs,
      .keep = keep,
      .feed_back = r->options->feed_back,
      .num_feed_back = r->options->num_feed_back,
  };
  int status = CTL_OK;
  if (ctl_steps_asked(&r->options->steps)) {
    status = run_steps(r, &options);
  } else {
    options.result = &r->result;
    options.timeout_ns = r->options->compile.deadline_ns;
    if (pjrtc_execute(r->client, &options, &r->error)) status = ctl_fail(r->common, &r->error);
  }
  free(args);
  free(keep);
  return status;
}

static int download(run *r) {
  r->values = ctl_alloc(r->num_outputs * sizeof *r->values);
  return ctl_results_download(r->common, r->client, r->outputs, r->num_outputs, r->options->compile.deadline_ns,
                              r->values);
}

/* ---- Results ---- */

static json_t *output_json(const run *r, size_t i) {
  const char *slot = slot_of(r, i);
  json_t *object = slot ? json_object() : ctl_result_json(&r->values[i]);
  if (slot) json_object_set_new(object, "slot", ctl_json_text(slot));
  json_object_set_new(object, "device", json_integer(r->info->devices[i / r->info->num_outputs]));
  return object;
}

static void print_results(const run *r) {
  const pjrtc_program_info *info = r->info;
  if (r->common->json) {
    json_t *results = json_array(), *root = json_object();
    for (size_t i = 0; i < r->num_outputs; i++) json_array_append_new(results, output_json(r, i));
    json_object_set_new(root, "results", results);
    if (ctl_steps_asked(&r->options->steps)) {
      json_object_set_new(root, "steps", ctl_json_unsigned(r->steps.steps));
      json_object_set_new(root, "stopped", json_boolean(r->steps.stopped));
      json_object_set(root, "history", r->history);
    }
    json_object_set_new(root, "compile_ns", ctl_json_unsigned(info->compile_ns));
    json_object_set_new(root, "execute_ns", ctl_json_unsigned(r->result.execute_ns));
    ctl_json_print(root);
    return;
  }
  bool whole = ctl_result_whole(r->options->full);
  if (ctl_steps_asked(&r->options->steps))
    printf("# after %" PRIu64 " steps%s\n", r->steps.steps, r->steps.stopped ? ", as --until says" : "");
  for (size_t i = 0; i < r->num_outputs; i++) {
    if (info->num_devices > 1 && i % info->num_outputs == 0)
      printf("# device %" PRId32 "\n", info->devices[i / info->num_outputs]);
    if (slot_of(r, i))
      printf("slot:%s\n", slot_of(r, i));
    else
      ctl_result_print(&r->values[i], whole);
  }
}

static int save_results(const run *r) {
  ctl_results_file *file;
  int status = ctl_results_file_create(r->common, r->options->save, &file);
  if (status) return status;
  for (size_t i = 0; i < r->num_outputs; i++) {
    size_t output = i % r->info->num_outputs;
    char name[48];
    if (r->info->num_devices > 1)
      snprintf(name, sizeof name, "output_%zu_device_%" PRId32, output, r->info->devices[i / r->info->num_outputs]);
    else
      snprintf(name, sizeof name, "output_%zu", output);
    if (r->outputs[i]) ctl_results_file_add(file, name, &r->values[i]);
  }
  return ctl_results_file_finish(file);
}

static void deinit(run *r) {
  if (r->client && r->options->session) {
    ctl_session_tidy(r->client, r->inputs, r->inputs ? r->num_args : 0);
    ctl_session_tidy(r->client, r->outputs, r->outputs ? r->num_outputs : 0);
    if (r->program) pjrtc_release(r->client, &r->program, 1, NULL);
  }
  for (size_t i = 0; r->arguments && i < r->options->num_arguments; i++) ctl_argument_deinit(&r->arguments[i]);
  free(r->arguments);
  free(r->inputs);
  free(r->outputs);
  ctl_results_free(r->values, r->num_outputs);
  json_decref(r->history);
  free(r->error.detail);
  pjrtc_program_info_destroy(r->info);
  pjrtc_close(r->client);
}

int ctl_run(int argc, char **argv, ctl_common *common) {
  static const ctl_option known[] = {{"--arg", "ARGUMENT", set_argument},
                                     {"--session", "NAME", set_session},
                                     {"--ttl", "SECONDS", set_ttl},
                                     {"--feed-back", "OUTPUT=SLOT", set_feed_back},
                                     {"--steps", "N", set_steps},
                                     {"--every", "N", set_every},
                                     {"--until", "OUTPUT", set_until},
                                     {"--stack", "ARGUMENT", set_stack},
                                     {"--save", "FILE", set_save},
                                     {"--full", NULL, set_full},
                                     CTL_COMPILE_OPTIONS};
  static run_options options;
  const char *path;
  size_t num_words;
  int status = ctl_parse(argc, argv, known, sizeof known / sizeof *known, &options, common, &path, 1, &num_words);
  run r = {.common = common, .options = &options};
  ctl_error_init(&r.error);
  if (!status && options.ttl_ns && !options.session)
    status = ctl_complain(common, CTL_USAGE, NULL, "--ttl is for a --session");
  if (!status && (options.steps.every || options.steps.has_until) && !ctl_steps_asked(&options.steps))
    status = ctl_complain(common, CTL_USAGE, NULL, "--every and --until are for a run of --steps");
  if (!status && !num_words) status = ctl_complain(common, CTL_USAGE, "\"-\" is standard input", "run needs a FILE");
  if (!status) status = read_arguments(&r);
  if (!status) r.client = ctl_connect(common, &status);
  if (!status && options.session) status = ctl_session_join(common, r.client, options.session, true, options.ttl_ns);
  if (!status) status = ctl_compile_file(common, r.client, &options.compile, path, &r.program, &r.info);
  if (!status) status = count_arguments(&r);
  if (!status) status = upload(&r);
  if (!status) status = execute(&r);
  if (!status) status = download(&r);
  if (!status) print_results(&r);
  if (!status && options.save) status = save_results(&r);
  deinit(&r);
  free(options.arguments);
  free(options.feed_back);
  free(options.steps.stacked);
  return status;
}
