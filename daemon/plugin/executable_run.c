/* Running a program: the hot path. The loop for quick programs, a lane for the rest; no state beside its arguments.
 *
 * On the CPU with asynchronous=false the run ends before PJRT's Execute returns, so the usual way is: gather the
 * handles on the stack, one call, look at the event, hand the outputs over. */
#include <string.h>

#include "plugin/executable_internal.h"

/* So many handles lie on the stack; more go to the heap. */
#define STACK_HANDLES 16

static pjrtd_status *layout_mismatch(const pjrtd_executable *executable, size_t position, const pjrtd_layout *actual) {
  size_t index = position % executable->info.num_args;
  const pjrtd_program_tensor *wanted = &executable->info.args[index];
  char expected[PJRTD_LAYOUT_TEXT], got[PJRTD_LAYOUT_TEXT] = "row-major";
  pjrtd_layout_format(&wanted->layout, expected);
  if (actual) pjrtd_layout_format(actual, got);
  return pjrtd_status_with_argument(PJRTD_INVALID("argument %zu has the device layout %s, the program wants %s", index,
                                                  got, wanted->dense ? "row-major" : expected),
                                    (uint32_t)index, wanted->dense ? "row-major" : expected, got);
}

/* The plugin does not compare layouts: it would read the values in the wrong order. */
static pjrtd_status *gather_args(const pjrtd_executable *executable, const pjrtd_execute_call *call,
                                 PJRT_Buffer **out_handles) {
  const pjrtd_program_tensor *wanted = executable->info.args;
  size_t num_args = executable->info.num_args;
  for (size_t i = 0, index = 0; i < call->num_args; i++) {
    const pjrtd_device_buffer *buffer = call->args[i];
    const pjrtd_program_tensor *tensor = &wanted[index];
    if (__builtin_expect(buffer->layout || !tensor->dense, 0) &&
        (!buffer->layout || !pjrtd_layout_equal(buffer->layout, &tensor->layout)))
      return layout_mismatch(executable, i, buffer->layout);
    out_handles[i] = buffer->handle;
    if (++index == num_args) index = 0;
  }
  return PJRTD_OK;
}

static void destroy_outputs(pjrtd_device_buffer **outputs, size_t count) {
  for (size_t i = 0; i < count; i++) {
    pjrtd_device_buffer_destroy(outputs[i]);
    outputs[i] = NULL;
  }
}

/* Made before the run, so that nothing can fail once there are outputs. */
static pjrtd_status *make_outputs(const pjrtd_executable *executable, pjrtd_device_buffer **out_outputs, size_t total) {
  const pjrtd_program_info *info = &executable->info;
  size_t made = 0;
  for (size_t d = 0; d < info->num_devices; d++) {
    for (size_t o = 0; o < info->num_outputs; o++, made++) {
      const pjrtd_program_tensor *tensor = &info->outputs[o];
      out_outputs[made] =
          pjrtd_device_buffer_alloc(executable->client, &tensor->type, tensor->host_bytes, info->devices[d],
                                    executable->output_memories[made], tensor->dense ? NULL : &tensor->layout);
      if (__builtin_expect(!out_outputs[made], 0)) {
        destroy_outputs(out_outputs, made);
        return pjrtd_status_oom();
      }
    }
  }
  return PJRTD_OK;
}

typedef struct {
  PJRT_Buffer **args, **outputs; /* device-major */
  PJRT_Event **events;           /* one a device */
  PJRT_Buffer *const **arg_lists;
  PJRT_Buffer ***output_lists;
} handles;

static pjrtd_status *call_execute(const pjrtd_executable *executable, const pjrtd_execute_call *call,
                                  const handles *lists) {
  const pjrtd_program_info *info = &executable->info;
  PJRT_ExecuteOptions options = {.struct_size = PJRT_ExecuteOptions_STRUCT_SIZE,
                                 .non_donatable_input_indices = call->non_donatable,
                                 .num_non_donatable_input_indices = call->num_non_donatable};
  PJRTD_ARGS(LoadedExecutable_Execute, args, .executable = executable->handle, .options = &options,
             .argument_lists = lists->arg_lists, .num_devices = info->num_devices, .num_args = info->num_args,
             .output_lists = lists->output_lists, .device_complete_events = lists->events,
             .execute_device = executable->run_device);
  if (__builtin_expect(info->num_devices <= 1, 1))
    return PJRTD_CALL(executable->client->plugin, LoadedExecutable_Execute, args);
  /* One at a time. A program of several devices takes a thread of the plugin's for each, and these wait for each other:
   * where two such programs begin at once, each may get some of the threads and none all that it needs. The CPU plugin
   * ends the process then, after 40 s. */
  pthread_mutex_lock(&executable->client->several);
  pjrtd_status *status = PJRTD_CALL(executable->client->plugin, LoadedExecutable_Execute, args);
  pthread_mutex_unlock(&executable->client->several);
  return status;
}

/* Looks at the events. What has not ended goes to the front of `events`; returns how many those are. */
static size_t sweep_events(const pjrtd_plugin *plugin, PJRT_Event **events, size_t count, pjrtd_status **out_first) {
  size_t pending = 0;
  *out_first = PJRTD_OK;
  for (size_t i = 0; i < count; i++) {
    pjrtd_status *status;
    if (!pjrtd_event_poll(plugin, events[i], &status)) {
      events[pending++] = events[i];
    } else if (status && *out_first) {
      pjrtd_status_destroy(status);
    } else if (status) {
      *out_first = status;
    }
  }
  return pending;
}

/* Waits for `count` events, keeping the first error. */
static pjrtd_status *await_events(const pjrtd_plugin *plugin, PJRT_Event **events, size_t count, pjrtd_status *first) {
  for (size_t i = 0; i < count; i++) {
    pjrtd_status *status = pjrtd_event_await(plugin, events[i]);
    if (first)
      pjrtd_status_ignore(status);
    else
      first = status;
  }
  return first;
}

static pjrtd_status *finish(const pjrtd_executable *executable, const pjrtd_execute_call *call, PJRT_Event **events,
                            pjrtd_device_buffer **outputs, size_t num_outputs, bool *out_pending) {
  pjrtd_plugin *plugin = executable->client->plugin;
  pjrtd_status *first;
  size_t pending = sweep_events(plugin, events, executable->info.num_devices, &first);
  if (__builtin_expect(pending != 0, 0)) {
    pjrtd_event_group *group =
        call->done && !first ? pjrtd_event_group_create(plugin, pending, call->done, call->user) : NULL;
    if (group) {
      *out_pending = true; /* before the start: `done` may come at once */
      pjrtd_event_group_start(group, events, pending);
      return PJRTD_OK;
    }
    first = await_events(plugin, events, pending, first);
  }
  if (__builtin_expect(first != NULL, 0)) {
    destroy_outputs(outputs, num_outputs);
    return first;
  }
  for (size_t i = 0; i < num_outputs; i++) atomic_store_explicit(&outputs[i]->ready, true, memory_order_relaxed);
  return PJRTD_OK;
}

/* The plugin gave fewer outputs than it said. Those that there are may be written to until the devices are done. */
static pjrtd_status *incomplete(const pjrtd_executable *executable, const handles *lists, pjrtd_device_buffer **outputs,
                                size_t num_outputs) {
  size_t missing = 0;
  while (outputs[missing]->handle) missing++;
  pjrtd_status *status =
      await_events(executable->client->plugin, lists->events, executable->info.num_devices, PJRTD_OK);
  destroy_outputs(outputs, num_outputs);
  if (status) return status;
  return PJRTD_INTERNAL("the plugin ran the program, but gave no buffer for output %zu, and no error",
                        missing % executable->info.num_outputs);
}

static pjrtd_status *run(const pjrtd_executable *executable, const pjrtd_execute_call *call, const handles *lists,
                         pjrtd_device_buffer **out_outputs, bool *out_pending) {
  const pjrtd_program_info *info = &executable->info;
  size_t num_outputs = info->num_devices * info->num_outputs;
  for (size_t d = 0; d < info->num_devices; d++) {
    lists->arg_lists[d] = lists->args + d * info->num_args;
    lists->output_lists[d] = lists->outputs + d * info->num_outputs;
    lists->events[d] = NULL;
  }
  PJRTD_TRY(gather_args(executable, call, lists->args));
  PJRTD_TRY(make_outputs(executable, out_outputs, num_outputs));
  pjrtd_status *status = call_execute(executable, call, lists);
  if (__builtin_expect(status != NULL, 0)) {
    destroy_outputs(out_outputs, num_outputs); /* none has a handle yet */
    return status;
  }
  bool complete = true;
  for (size_t i = 0; i < num_outputs; i++) complete &= (out_outputs[i]->handle = lists->outputs[i]) != NULL;
  if (__builtin_expect(!complete, 0)) return incomplete(executable, lists, out_outputs, num_outputs);
  return finish(executable, call, lists->events, out_outputs, num_outputs, out_pending);
}

pjrtd_status *pjrtd_executable_execute(pjrtd_executable *executable, const pjrtd_execute_call *call,
                                       pjrtd_device_buffer **out_outputs, bool *out_pending) {
  *out_pending = false;
  const pjrtd_program_info *info = &executable->info;
  size_t devices = info->num_devices, outputs = devices * info->num_outputs;
  if (__builtin_expect(call->num_args != devices * info->num_args, 0))
    return PJRTD_INVALID("%zu arguments, the program takes %zu on %zu devices", call->num_args, info->num_args,
                         devices);
  if (__builtin_expect(devices == 1 && call->num_args + outputs <= STACK_HANDLES, 1)) {
    PJRT_Buffer *buffers[STACK_HANDLES];
    PJRT_Event *event;
    PJRT_Buffer *const *arg_list;
    PJRT_Buffer **output_list;
    handles lists = {buffers, buffers + call->num_args, &event, &arg_list, &output_list};
    return run(executable, call, &lists, out_outputs, out_pending);
  }
  size_t words = call->num_args + outputs + 3 * devices;
  PJRTD_AUTO_FREE void **block = pjrtd_malloc(words * sizeof *block);
  if (!block) return pjrtd_status_oom();
  handles lists = {.args = (PJRT_Buffer **)block,
                   .outputs = (PJRT_Buffer **)block + call->num_args,
                   .events = (PJRT_Event **)block + call->num_args + outputs,
                   .arg_lists = (PJRT_Buffer *const **)block + call->num_args + outputs + devices,
                   .output_lists = (PJRT_Buffer ***)block + call->num_args + outputs + 2 * devices};
  return run(executable, call, &lists, out_outputs, out_pending);
}
