/* Executions. The outputs are computed when the execution's event ends: until then they hold rubbish. */
#include <stdlib.h>
#include <string.h>

#include "fake_executable.h"

typedef struct {
  PJRT_LoadedExecutable *loaded;
  PJRT_Buffer *args[FAKE_MAX_TENSORS], *outputs[FAKE_MAX_TENSORS];
  uint8_t *inputs[FAKE_MAX_TENSORS]; /* the arguments' data; a donated one's may be an output's by now */
  fake_storage *dropped[FAKE_MAX_TENSORS];
  fake_pending *pending;
} fake_run;

/* ---- computing ---- */

static void add(PJRT_Buffer_Type type, uint8_t *sum, const uint8_t *more, size_t bytes) {
  for (size_t at = 0; at < bytes; at += fake_element_bytes(type)) {
    float reals[2];
    uint32_t words[2];
    if (type == PJRT_Buffer_Type_F32) {
      memcpy(&reals[0], sum + at, 4);
      memcpy(&reals[1], more + at, 4);
      reals[0] += reals[1];
      memcpy(sum + at, &reals[0], 4);
    } else if (type == PJRT_Buffer_Type_S32) {
      memcpy(&words[0], sum + at, 4);
      memcpy(&words[1], more + at, 4);
      words[0] += words[1];
      memcpy(sum + at, &words[0], 4);
    } else {
      sum[at] += more[at];
    }
  }
}

static void compute(const fake_run *run, size_t output, uint8_t *sum) {
  const fake_module *module = &run->loaded->module;
  const fake_tensor *tensor = &module->outputs[output];
  size_t bytes = fake_tensor_bytes(tensor), terms = 0, last = 0;
  memset(sum, 0, bytes);
  for (size_t i = 0; i < module->num_args; i++) {
    if (!fake_tensor_equal(&module->args[i], tensor)) continue;
    add(tensor->type, sum, run->inputs[i], bytes);
    terms++;
    last = i;
  }
  if (terms == 1) add(tensor->type, sum, run->inputs[last], bytes);
}

/* All sums before any is stored: an output may lie where an argument was. */
static void finish(void *user, const fake_plan *plan) {
  fake_run *run = user;
  const fake_module *module = &run->loaded->module;
  uint8_t *sums[FAKE_MAX_TENSORS];
  for (size_t i = 0; i < module->num_outputs; i++) {
    sums[i] = malloc(fake_tensor_bytes(&module->outputs[i]) + 1);
    compute(run, i, sums[i]);
  }
  for (size_t i = 0; i < module->num_outputs; i++) {
    if (run->outputs[i] && !plan->event_text)
      memcpy(run->outputs[i]->storage->data, sums[i], run->outputs[i]->storage->bytes);
    free(sums[i]);
    if (run->outputs[i]) atomic_fetch_sub(&run->outputs[i]->users, 1);
  }
  for (size_t i = 0; i < module->num_args; i++) {
    atomic_fetch_sub(&run->args[i]->users, 1);
    fake_storage_release(run->dropped[i]);
  }
  atomic_fetch_sub(&run->loaded->users, 1);
  fake_pending_end(run->pending, plan);
  free(run);
}

/* ---- the call ---- */

static bool may_donate(const PJRT_ExecuteOptions *options, size_t index) {
  for (size_t i = 0; i < options->num_non_donatable_input_indices; i++)
    if (options->non_donatable_input_indices[i] == (int64_t)index) return false;
  return true;
}

static void check_arguments(const PJRT_LoadedExecutable_Execute_Args *args, const fake_module *module) {
  static const char function[] = "LoadedExecutable_Execute";
  const PJRT_ExecuteOptions *options = args->options;
  FAKE_RULE(options && options->struct_size == PJRT_ExecuteOptions_STRUCT_SIZE, "%s has options of another size",
            function);
  FAKE_RULE(args->num_devices == 1, "%s was given %zu devices", function, args->num_devices);
  FAKE_RULE(args->num_args == module->num_args, "%s was given %zu arguments, not %zu", function, args->num_args,
            module->num_args);
  FAKE_RULE(args->argument_lists && args->output_lists && args->output_lists[0], "%s was given no lists", function);
  for (size_t i = 0; i < args->num_args; i++) {
    PJRT_Buffer *buffer = args->argument_lists[0][i];
    fake_object_check(buffer ? &buffer->object : NULL, FAKE_BUFFER, function);
    FAKE_RULE(buffer->storage, "argument %zu was donated to an earlier execution", i);
    FAKE_RULE(fake_tensor_equal(&buffer->tensor, &module->args[i]), "argument %zu has another type or shape", i);
    FAKE_RULE(buffer->device->description.id == 0, "argument %zu is on another device", i);
    for (size_t j = 0; j < i; j++)
      FAKE_RULE(args->argument_lists[0][j] != buffer || (module->args[i].alias < 0 && module->args[j].alias < 0),
                "arguments %zu and %zu are one buffer, which is donated", j, i);
  }
}

/* Takes the donated arguments' memory, for an output or to be dropped. */
static void consume(fake_run *run, const PJRT_LoadedExecutable_Execute_Args *args, fake_storage **out_for_output) {
  const fake_module *module = &run->loaded->module;
  for (size_t i = 0; i < module->num_args; i++) {
    int alias = module->args[i].alias;
    if (alias < 0 || !may_donate(args->options, i)) continue;
    fake_storage *storage = run->args[i]->storage;
    run->args[i]->storage = NULL;
    bool fits = out_for_output && (size_t)alias < module->num_outputs && !out_for_output[alias] &&
                fake_tensor_bytes(&module->outputs[alias]) == storage->bytes;
    if (fits)
      out_for_output[alias] = storage;
    else
      run->dropped[i] = storage;
  }
}

/* PJRT: where Execute fails, nothing that it gives is filled in. Rubbish is what an unlucky caller would find there. */
static PJRT_Error *fail(fake_run *run, const PJRT_LoadedExecutable_Execute_Args *args, const fake_plan *plan) {
  if (plan->consume) consume(run, args, NULL);
  for (size_t i = 0; i < run->loaded->module.num_args; i++) {
    fake_storage_release(run->dropped[i]);
    atomic_fetch_sub(&run->args[i]->users, 1);
  }
  atomic_fetch_sub(&run->loaded->users, 1);
  for (size_t i = 0; i < run->loaded->module.num_outputs; i++) memset(&args->output_lists[0][i], 0x5A, sizeof(void *));
  if (args->device_complete_events) memset(args->device_complete_events, 0x5A, sizeof(void *));
  free(run);
  return plan->error;
}

/* `lie`: no buffer for the first output. */
PJRT_Error *fake_LoadedExecutable_Execute(PJRT_LoadedExecutable_Execute_Args *args) {
  static const char function[] = "LoadedExecutable_Execute";
  fake_check_call(function, args->struct_size, PJRT_LoadedExecutable_Execute_Args_STRUCT_SIZE, args->extension_start);
  PJRT_LoadedExecutable *loaded = fake_loaded_check(args->executable, function);
  const fake_module *module = &loaded->module;
  check_arguments(args, module);
  fake_run *run = calloc(1, sizeof *run);
  run->loaded = loaded;
  atomic_fetch_add(&loaded->users, 1);
  for (size_t i = 0; i < module->num_args; i++) {
    run->args[i] = args->argument_lists[0][i];
    run->inputs[i] = run->args[i]->storage->data;
    atomic_fetch_add(&run->args[i]->users, 1);
  }
  fake_plan plan = fake_plan_for("LoadedExecutable_Execute", loaded->own);
  if (plan.error) return fail(run, args, &plan);

  run->pending = fake_pending_make();
  fake_storage *storages[FAKE_MAX_TENSORS] = {NULL};
  consume(run, args, storages);
  for (size_t i = 0; i < module->num_outputs; i++) {
    args->output_lists[0][i] = NULL;
    if (!storages[i]) {
      storages[i] = fake_storage_make(fake_tensor_bytes(&module->outputs[i]));
      memset(storages[i]->data, 0xEE, storages[i]->bytes);
    }
    if (plan.lies && i == 0) {
      fake_storage_release(storages[i]);
      continue;
    }
    PJRT_Buffer *output = run->outputs[i] =
        fake_buffer_make(&module->outputs[i], storages[i], loaded->client->list[0], loaded->own);
    output->making = run->pending;
    atomic_fetch_add(&output->users, 1);
    args->output_lists[0][i] = output;
  }
  PJRT_Event *event = plan.event_null || !args->device_complete_events ? NULL : fake_event_make();
  if (args->device_complete_events) args->device_complete_events[0] = event;
  if (event) fake_pending_tell(run->pending, event);
  fake_when_planned(&plan, finish, run);
  return NULL;
}
