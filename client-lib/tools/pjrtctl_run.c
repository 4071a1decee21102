/* pjrtctl run: compiles a file, runs it once, prints or saves its results. */
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ctl_argument.h"
#include "ctl_json.h"
#include "ctl_program.h"
#include "ctl_values.h"

/* On a terminal, unless --full: how many elements of a result are shown. */
enum { SHOWN = 64 };

typedef struct {
  ctl_compile_options compile; /* first */
  const char **arguments;      /* owned; their texts */
  size_t num_arguments;
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
    pjrtc_upload_options options = {
        .struct_size = sizeof options,
        .type = {argument->dtype, argument->rank, argument->dims},
        .data = argument->data,
        .byte_strides = argument->strided ? argument->strides : NULL,
        .placement = PJRTC_PLACE_DEVICE,
        .place = r->info->devices[i / r->info->num_args],
        .timeout_ns = r->options->compile.deadline_ns,
    };
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

static int execute(run *r) {
  pjrtc_argument *args = ctl_alloc(r->num_args * sizeof *args);
  for (size_t i = 0; i < r->num_args; i++) args[i].buffer = r->inputs[i];
  r->outputs = ctl_alloc(r->num_outputs * sizeof *r->outputs);
  r->result.struct_size = sizeof r->result;
  pjrtc_execute_options options = {
      .struct_size = sizeof options,
      .program = r->program,
      .args = args,
      .num_args = r->num_args,
      .outputs = r->outputs,
      .num_outputs = r->num_outputs,
      .result = &r->result,
      .timeout_ns = r->options->compile.deadline_ns,
  };
  int status = CTL_OK;
  if (pjrtc_execute(r->client, &options, &r->error)) status = ctl_fail(r->common, &r->error);
  free(args);
  return status;
}

static int download(run *r) {
  r->values = ctl_alloc(r->num_outputs * sizeof *r->values);
  pjrtc_future **futures = ctl_alloc(r->num_outputs * sizeof *futures);
  int status = CTL_OK;
  for (size_t i = 0; !status && i < r->num_outputs; i++)
    if (pjrtc_download_start(r->client, r->outputs[i], &r->values[i], r->options->compile.deadline_ns, &futures[i],
                             &r->error))
      status = ctl_fail(r->common, &r->error);
  for (size_t i = 0; i < r->num_outputs; i++) {
    if (!status && pjrtc_future_wait(futures[i], PJRTC_FOREVER, &r->error)) status = ctl_fail(r->common, &r->error);
    pjrtc_future_destroy(futures[i]);
  }
  free(futures);
  return status;
}

/* ---- Results ---- */

static uint64_t count_of(const pjrtc_value *value) {
  return value->size_bytes / pjrtc_dtype_host_bytes(value->dtype);
}

static const void *element(const pjrtc_value *value, uint64_t i) {
  return (const char *)value->data + i * pjrtc_dtype_host_bytes(value->dtype);
}

static void print_value(const pjrtc_value *value, bool whole) {
  char text[CTL_VALUE_TEXT];
  char type[1600];
  uint64_t count = count_of(value), shown = whole || count <= SHOWN ? count : SHOWN;
  printf("%s=", pjrtc_type_format(&(pjrtc_type){value->dtype, value->rank, value->dims}, type, sizeof type));
  for (uint64_t i = 0; i < shown; i++)
    printf("%s%s", i ? "," : "", ctl_value_write(value->dtype, element(value, i), text));
  if (shown < count) printf(",... (%" PRIu64 " elements; --full shows all)", count);
  putchar('\n');
}

static json_t *real_json(pjrtc_dtype dtype, double value, const char *text) {
  if (!isfinite(value)) return json_string(isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
  return json_real(text ? strtod(text, NULL) : value);
}

/* Numbers where JSON has them; "nan", "inf" and "-inf" are strings, complex numbers pairs. */
static json_t *element_json(pjrtc_dtype dtype, const void *at) {
  char text[CTL_VALUE_TEXT];
  double real, imaginary;
  if (dtype == PJRTC_PRED) return json_boolean(*(const uint8_t *)at);
  if (ctl_dtype_is_signed(dtype)) return json_integer(ctl_value_signed(dtype, at));
  if (!ctl_value_real(dtype, at, &real, &imaginary)) return ctl_json_unsigned(ctl_value_unsigned(dtype, at));
  if (!ctl_dtype_is_complex(dtype)) return real_json(dtype, real, ctl_value_write(dtype, at, text));
  json_t *pair = json_array();
  json_array_append_new(pair, real_json(dtype, real, NULL));
  json_array_append_new(pair, real_json(dtype, imaginary, NULL));
  return pair;
}

static json_t *value_json(const pjrtc_value *value, int32_t device) {
  char type[1600];
  json_t *dims = json_array(), *values = json_array(), *object = json_object();
  for (uint32_t i = 0; i < value->rank; i++) json_array_append_new(dims, json_integer(value->dims[i]));
  for (uint64_t i = 0; i < count_of(value); i++)
    json_array_append_new(values, element_json(value->dtype, element(value, i)));
  pjrtc_type_format(&(pjrtc_type){value->dtype, value->rank, value->dims}, type, sizeof type);
  json_object_set_new(object, "device", json_integer(device));
  json_object_set_new(object, "type", json_string(type));
  json_object_set_new(object, "dtype", json_string(pjrtc_dtype_name(value->dtype)));
  json_object_set_new(object, "dims", dims);
  json_object_set_new(object, "values", values);
  return object;
}

static void print_results(const run *r) {
  const pjrtc_program_info *info = r->info;
  if (r->common->json) {
    json_t *results = json_array(), *root = json_object();
    for (size_t i = 0; i < r->num_outputs; i++)
      json_array_append_new(results, value_json(&r->values[i], info->devices[i / info->num_outputs]));
    json_object_set_new(root, "results", results);
    json_object_set_new(root, "compile_ns", ctl_json_unsigned(info->compile_ns));
    json_object_set_new(root, "execute_ns", ctl_json_unsigned(r->result.execute_ns));
    ctl_json_print(root);
    return;
  }
  bool whole = r->options->full || !isatty(STDOUT_FILENO);
  for (size_t i = 0; i < r->num_outputs; i++) {
    if (info->num_devices > 1 && i % info->num_outputs == 0)
      printf("# device %" PRId32 "\n", info->devices[i / info->num_outputs]);
    print_value(&r->values[i], whole);
  }
}

static int save_results(const run *r) {
  char *complaint;
  ctl_archive *archive = ctl_archive_create(r->options->save, &complaint);
  bool has_raw = false;
  for (size_t i = 0; archive && i < r->num_outputs; i++) {
    const pjrtc_value *value = &r->values[i];
    size_t output = i % r->info->num_outputs;
    char name[48];
    bool raw;
    if (r->info->num_devices > 1)
      snprintf(name, sizeof name, "output_%zu_device_%" PRId32, output, r->info->devices[i / r->info->num_outputs]);
    else
      snprintf(name, sizeof name, "output_%zu", output);
    const char *descr = ctl_numpy_descr(value->dtype, &raw);
    if (raw && !has_raw)
      fprintf(stderr, "note: numpy has no %s; %s holds its bytes as %s: in Python, array.view(ml_dtypes...)\n",
              pjrtc_dtype_name(value->dtype), name, descr);
    has_raw |= raw;
    ctl_archive_add(archive, name, &(pjrtc_type){value->dtype, value->rank, value->dims}, value->data);
  }
  if (archive) complaint = ctl_archive_finish(archive);
  if (!complaint) return CTL_OK;
  int status = ctl_complain(r->common, CTL_FILE, NULL, "%s", complaint);
  free(complaint);
  return status;
}

static void deinit(run *r) {
  for (size_t i = 0; r->arguments && i < r->options->num_arguments; i++) ctl_argument_deinit(&r->arguments[i]);
  for (size_t i = 0; r->values && i < r->num_outputs; i++) pjrtc_free(r->values[i].data);
  free(r->arguments);
  free(r->inputs);
  free(r->outputs);
  free(r->values);
  free(r->error.detail);
  pjrtc_program_info_destroy(r->info);
  pjrtc_close(r->client);
}

int ctl_run(int argc, char **argv, ctl_common *common) {
  static const ctl_option known[] = {{"--arg", "ARGUMENT", set_argument},
                                     {"--save", "FILE", set_save},
                                     {"--full", NULL, set_full},
                                     CTL_COMPILE_OPTIONS};
  static run_options options;
  const char *path;
  size_t num_words;
  int status = ctl_parse(argc, argv, known, sizeof known / sizeof *known, &options, common, &path, 1, &num_words);
  run r = {.common = common, .options = &options};
  ctl_error_init(&r.error);
  if (!status && !num_words) status = ctl_complain(common, CTL_USAGE, "\"-\" is standard input", "run needs a FILE");
  if (!status) status = read_arguments(&r);
  if (!status) r.client = ctl_connect(common, &status);
  if (!status) status = ctl_compile_file(common, r.client, &options.compile, path, &r.program, &r.info);
  if (!status) status = count_arguments(&r);
  if (!status) status = upload(&r);
  if (!status) status = execute(&r);
  if (!status) status = download(&r);
  if (!status) print_results(&r);
  if (!status && options.save) status = save_results(&r);
  deinit(&r);
  free(options.arguments);
  return status;
}
