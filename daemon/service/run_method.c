/* Execute.Run. Loop thread, but for the job: the steps themselves are run_steps.c's.
 *
 * A run is a call that holds what it names from its first step to its last. Its job makes steps for a slice of time,
 * and has the lane again in its session's turn; it is back on the loop when there is something to be told. Slots that
 * are fed back to hold PENDING buffers until the run has ended, and then what the last whole step gave. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "service/execute_work.h"
#include "service/run_steps.h"
#include "service/staging.h"

#define SLICE_NS UINT64_C(1000000)

typedef struct {
  pjrtd_call call; /* first */
  pjrtd_execute_work work;
  pjrtd_run_steps run;
  pjrtd_job job;
  pjrtd_share *share;         /* retained */
  pjrtd_run_stacked *stacked; /* in the call's block, as are the next four */
  pjrtd_staging **copies;     /* owned: of what is stacked and cannot be read in place; one for each, or NULL */
  uint32_t *fed_by;
  bool *slot_has; /* outputs that a slot holds at the end, however it comes */
  pjrtd_device_buffer **args;
  pjrtd_fetched_part *parts;          /* owned: what is told of the values, the same each time */
  Pjrtd__V1__FetchedTensor **fetched; /* behind them */
  pjrtd_status *error;                /* by the job; owned, as is the next */
  pjrtd_status *abandoned_because;    /* NULL: it was not */
  uint64_t steps_wanted, progress_ns, told_ns;
  bool prepared; /* by the job */
  bool set_up, submitted;
} run_call;

static run_call *run_of(pjrtd_job *job) {
  return (run_call *)((char *)job - offsetof(run_call, job));
}

/* ---- what is fed back to what ---- */

typedef struct {
  const char *slot;
  uint32_t position;
} slot_position;

static int by_slot(const void *left, const void *right) {
  return strcmp(((const slot_position *)left)->slot, ((const slot_position *)right)->slot);
}

static pjrtd_status *feed_position(run_call *run, uint32_t output, uint32_t position) {
  if (run->fed_by[position])
    return PJRTD_INVALID("argument %u is fed by output %u and by output %u", position, run->fed_by[position] - 1,
                         output);
  if (pjrtd_execute_is_stacked(&run->work, position))
    return PJRTD_INVALID("argument %u is stacked, and fed by output %u as well", position, output);
  run->fed_by[position] = output + 1;
  return PJRTD_OK;
}

static pjrtd_status *feed_slot(run_call *run, const slot_position *slots, size_t count,
                               const Pjrtd__V1__FeedBack *feed) {
  run->slot_has[feed->output] = true;
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (strcmp(slots[middle].slot, feed->slot) < 0)
      low = middle + 1;
    else
      high = middle;
  }
  for (; low < count && strcmp(slots[low].slot, feed->slot) == 0; low++)
    PJRTD_TRY(feed_position(run, feed->output, slots[low].position));
  return PJRTD_OK;
}

static pjrtd_status *map_feeds(run_call *run, const Pjrtd__V1__ExecuteRequest *step) {
  const pjrtd_execute_work *work = &run->work;
  size_t count = work->num_slot_args;
  PJRTD_AUTO_FREE slot_position *slots = pjrtd_malloc((count + 1) * sizeof *slots);
  if (!slots) return pjrtd_status_oom();
  for (size_t i = 0; i < count; i++)
    slots[i] = (slot_position){.slot = work->slot_args[i].slot, .position = work->slot_args[i].position};
  qsort(slots, count, sizeof *slots, by_slot);
  for (size_t i = 0; i < step->n_feed_back; i++) {
    const Pjrtd__V1__FeedBack *feed = step->feed_back[i];
    if (*feed->slot) {
      PJRTD_TRY(feed_slot(run, slots, count, feed));
    } else {
      if (feed->argument >= work->num_args)
        return PJRTD_INVALID("output %u is to be fed back to argument %u, there are %zu", feed->output, feed->argument,
                             work->num_args);
      PJRTD_TRY(feed_position(run, feed->output, feed->argument));
    }
  }
  return PJRTD_OK;
}

/* ---- checks, when the program is there ---- */

static pjrtd_status *check_feeds(const run_call *run) {
  const pjrtd_execute_work *work = &run->work;
  const pjrtd_program_info *info = work->program->info;
  for (size_t i = 0; i < work->num_args; i++) {
    const pjrtd_program_tensor *argument = &info->args[i % info->num_args];
    if (!run->fed_by[i]) {
      if (pjrtd_execute_is_donated(work, i) && run->run.limit > 1)
        return pjrtd_status_with_hint(
            PJRTD_INVALID("program '%s': argument %zu is donated and nothing is fed back to it: the second step would "
                          "not have it",
                          info->name, i),
            "feed an output back to it, or list it as non-donatable");
      continue;
    }
    uint32_t output = run->fed_by[i] - 1;
    const pjrtd_program_tensor *from = &info->outputs[output % info->num_outputs];
    if (!pjrtd_tensor_type_equal(&from->type, &argument->type)) {
      char given[PJRTD_TENSOR_TYPE_TEXT], wanted[PJRTD_TENSOR_TYPE_TEXT];
      return PJRTD_INVALID("program '%s': output %u is %s and is fed back to argument %zu, which is %s", info->name,
                           output, pjrtd_tensor_type_format(&from->type, given), i,
                           pjrtd_tensor_type_format(&argument->type, wanted));
    }
    if (output / info->num_outputs != i / info->num_args)
      return PJRTD_INVALID("program '%s': output %u of device %d is fed back to argument %zu of device %d", info->name,
                           output, info->devices[output / info->num_outputs]->id, i,
                           info->devices[i / info->num_args]->id);
  }
  return PJRTD_OK;
}

/* A donated argument has its buffer for itself, in the second step too. */
static pjrtd_status *check_shared(run_call *run) {
  const pjrtd_execute_work *work = &run->work;
  PJRTD_AUTO_FREE uint32_t *users = pjrtd_calloc(run->run.num_outputs + 1, sizeof *users);
  if (!users) return pjrtd_status_oom();
  for (size_t i = 0; i < work->num_args; i++)
    if (run->fed_by[i]) users[run->fed_by[i] - 1]++;
  for (size_t i = 0; i < work->num_args; i++)
    if (run->fed_by[i] && users[run->fed_by[i] - 1] > 1 && pjrtd_execute_is_donated(work, i))
      return pjrtd_status_with_hint(
          PJRTD_INVALID("program '%s': argument %zu is donated, but output %u, which is fed back to it, is fed back to "
                        "others as well",
                        work->program->info->name, i, run->fed_by[i] - 1),
          "a donated buffer can be used once in a step: list the argument as non-donatable");
  return PJRTD_OK;
}

static pjrtd_status *check_until(const run_call *run) {
  const pjrtd_program_info *info = run->work.program->info;
  if (!run->run.has_until) return PJRTD_OK;
  if (run->run.until >= run->run.num_outputs)
    return PJRTD_INVALID("program '%s': output %u is to end the run, it has %zu", info->name, run->run.until,
                         run->run.num_outputs);
  const pjrtd_tensor_type *type = &info->outputs[run->run.until % info->num_outputs].type;
  char text[PJRTD_TENSOR_TYPE_TEXT];
  if (type->dtype != PJRTD_DTYPE_PRED || type->rank)
    return PJRTD_INVALID("program '%s': output %u is to end the run: it must be pred[], not %s", info->name,
                         run->run.until, pjrtd_tensor_type_format(type, text));
  return PJRTD_OK;
}

/* ---- setting up ---- */

static const struct pjrtd_inline_argument *find_inline(const pjrtd_execute_work *work, int64_t position) {
  size_t at = 0;
  while (work->inline_args[at].position != position) at++;
  return &work->inline_args[at];
}

/* How many steps there are values for. */
static pjrtd_status *limit_steps(run_call *run) {
  const pjrtd_execute_work *work = &run->work;
  uint64_t least = UINT64_MAX;
  for (size_t i = 0; i < work->num_stacked; i++) {
    const pjrtd_buffer *buffer = work->args[work->stacked[i]];
    const pjrtd_tensor_type *type =
        buffer ? pjrtd_device_buffer_type(buffer->device_buffer) : &find_inline(work, work->stacked[i])->type;
    uint64_t steps = (uint64_t)type->dims[0];
    if (run->steps_wanted > steps)
      return PJRTD_INVALID("argument %" PRId64 " is stacked for %" PRIu64 " steps, the run is to make %" PRIu64,
                           work->stacked[i], steps, run->steps_wanted);
    if (steps < least) least = steps;
  }
  run->run.limit = run->steps_wanted ? run->steps_wanted : least;
  if (!run->run.limit) return PJRTD_INVALID("the stacked arguments have no values: a run makes one step at least");
  return PJRTD_OK;
}

static pjrtd_status *set_up_stacked(run_call *run) {
  pjrtd_execute_work *work = &run->work;
  const pjrtd_program_info *info = work->program->info;
  for (size_t i = 0; i < work->num_stacked; i++) {
    uint32_t position = (uint32_t)work->stacked[i];
    const pjrtd_program_tensor *wanted = &info->args[position % info->num_args];
    run->stacked[i] = (pjrtd_run_stacked){.position = position, .type = wanted->type, .bytes = wanted->host_bytes};
    pjrtd_buffer *buffer = work->args[position];
    if (!buffer) {
      run->stacked[i].data = find_inline(work, position)->data;
      continue;
    }
    const uint8_t *view =
        pjrtd_device_buffer_is_ready(buffer->device_buffer) ? pjrtd_device_buffer_view(buffer->device_buffer) : NULL;
    if (!view) {
      uint64_t bytes;
      PJRTD_TRY(pjrtd_tensor_type_check(pjrtd_device_buffer_type(buffer->device_buffer), &bytes));
      PJRTD_TRY(pjrtd_staging_create(run->call.runtime, bytes, "the stacked argument", &run->copies[i]));
      view = run->copies[i]->data;
    }
    run->stacked[i].data = view;
  }
  return PJRTD_OK;
}

static pjrtd_status *set_up(run_call *run) {
  pjrtd_execute_work *work = &run->work;
  PJRTD_TRY(pjrtd_execute_check(work));
  const pjrtd_program *program = work->program;
  const pjrtd_program_info *info = program->info;
  pjrtd_run_steps *steps = &run->run;
  steps->executable = program->executable;
  steps->client = run->call.runtime->client;
  steps->num_outputs = info->num_outputs * info->num_devices;
  PJRTD_TRY(limit_steps(run));
  PJRTD_TRY(check_feeds(run));
  PJRTD_TRY(check_shared(run));
  PJRTD_TRY(check_until(run));
  PJRTD_TRY(set_up_stacked(run));
  run->parts = pjrtd_malloc(work->num_fetch * (sizeof *run->parts + sizeof *run->fetched) + 1);
  if (!run->parts) return pjrtd_status_oom();
  run->fetched = (Pjrtd__V1__FetchedTensor **)(run->parts + work->num_fetch);
  steps->fetch_bytes = pjrtd_execute_describe_fetched(work, run->parts, run->fetched);
  steps->max_items = steps->every ? PJRTD_RUN_MAX_ITEMS : 1;
  if (steps->fetch_bytes * steps->max_items > PJRTD_RUN_VALUES_BYTES)
    steps->max_items = (size_t)(PJRTD_RUN_VALUES_BYTES / steps->fetch_bytes);
  steps->values = pjrtd_malloc(steps->max_items * steps->fetch_bytes + 1);
  work->device_outputs = pjrtd_calloc(2 * steps->num_outputs + 1, sizeof *work->device_outputs);
  if (!steps->values || !work->device_outputs) return pjrtd_status_oom();
  steps->last = work->device_outputs;
  steps->next = work->device_outputs + steps->num_outputs;
  return PJRTD_OK;
}

/* ---- the end ---- */

/* NULL: it was whole. What slots are to hold they hold as far as it goes. */
static void settle(run_call *run, const pjrtd_status *error) {
  pjrtd_execute_work *work = &run->work;
  for (size_t i = 0; run->prepared && i < work->num_args; i++)
    if (work->args[i] && pjrtd_execute_is_donated(work, i)) pjrtd_buffer_update_consumed(work->args[i]);
  for (size_t i = 0; i < work->num_outputs; i++) {
    pjrtd_buffer *buffer = work->outputs[i];
    if (!buffer || buffer->resource.state != PJRTD_RESOURCE_PENDING) continue;
    bool made = run->run.steps && run->run.last[i] && !pjrtd_device_buffer_is_deleted(run->run.last[i]);
    if (made && (!error || run->slot_has[i]))
      pjrtd_buffer_set(buffer, PJRTD_TAKE(run->run.last[i]));
    else if (error)
      pjrtd_resource_set_failed(&buffer->resource, pjrtd_status_retain((pjrtd_status *)error));
    else
      pjrtd_resource_set_failed(&buffer->resource, PJRTD_INTERNAL("the last step consumed its own output"));
  }
  if (run->prepared) pjrtd_execute_unprepare(work);
  pjrtd_reservation_end(&work->reservation);
}

static void run_free(run_call *run) {
  pjrtd_run_deinit(&run->run);
  for (size_t i = 0; i < run->work.num_stacked; i++) pjrtd_staging_destroy(run->copies[i]);
  pjrtd_free(run->work.device_outputs);
  pjrtd_free(run->parts);
  pjrtd_execute_release(&run->work);
  pjrtd_status_destroy(run->error);
  pjrtd_status_destroy(run->abandoned_because);
  pjrtd_share_release(run->share);
  pjrtd_call_end(&run->call);
}

/* Arguments that the step which failed had taken for its outputs by then. */
static size_t count_lost(const run_call *run) {
  size_t lost = 0;
  for (size_t i = 0; run->prepared && i < run->work.num_args; i++)
    lost += run->args[i] && pjrtd_execute_is_donated(&run->work, i) && pjrtd_device_buffer_is_deleted(run->args[i]);
  return lost;
}

static void fail(run_call *run, pjrtd_status *status) {
  status = pjrtd_execute_explain(&run->work, status);
  size_t lost = count_lost(run);
  if (lost)
    status = pjrtd_status_add_hint(status,
                                   "it had consumed %zu of its donated arguments: upload or compute them again; other "
                                   "slots hold what the %" PRIu64 " whole steps before it gave",
                                   lost, run->run.steps);
  else if (run->run.steps)
    status = pjrtd_status_add_hint(status, "%" PRIu64 " whole steps were made before it; the slots hold what they gave",
                                   run->run.steps);
  status = pjrtd_status_with_origin(status, run->call.header.call);
  settle(run, status);
  pjrtd_call_fail(&run->call, status);
  run_free(run);
}

/* ---- telling ---- */

static void fill_reply(const run_call *run, Pjrtd__V1__RunReply *reply, uint64_t steps, bool with_values) {
  pjrtd__v1__run_reply__init(reply);
  reply->steps = steps;
  reply->execute_ns = run->run.execute_ns;
  if (!with_values) return;
  reply->fetched = run->fetched;
  reply->n_fetched = run->work.num_fetch;
}

/* The items that the job left. */
static void tell(run_call *run, size_t num_items) {
  pjrtd_run_steps *steps = &run->run;
  pjrtd_call *call = &run->call;
  if (!call->peer) return;
  uint64_t now_ns = run->progress_ns ? pjrtd_clock_now_ns() : 0;
  Pjrtd__V1__RunReply item;
  for (size_t i = 0; i < num_items; i++) {
    fill_reply(run, &item, steps->items[i], true);
    pjrtd_answer_item(call->peer, &call->header, &item.base, steps->values + i * steps->fetch_bytes,
                      (uint32_t)steps->fetch_bytes);
    run->told_ns = now_ns;
  }
  if (!run->progress_ns || now_ns - run->told_ns < run->progress_ns) return;
  fill_reply(run, &item, steps->steps, false);
  pjrtd_answer_item(call->peer, &call->header, &item.base, NULL, 0);
  run->told_ns = now_ns;
}

/* With the last step's values, where the job left them. */
static void answer(run_call *run) {
  pjrtd_run_steps *steps = &run->run;
  size_t last = steps->num_items;
  bool with_values = last && steps->items[last - 1] == steps->steps;
  tell(run, with_values ? last - 1 : last);
  Pjrtd__V1__RunReply reply;
  fill_reply(run, &reply, steps->steps, with_values);
  reply.stopped = steps->stopped;
  uint32_t bytes = with_values ? (uint32_t)steps->fetch_bytes : 0;
  const uint8_t *values = bytes ? steps->values + (last - 1) * bytes : NULL;
  pjrtd_answer(run->call.peer, &run->call.header, &reply.base, values, bytes);
}

/* ---- slices ---- */

static void slice_run(pjrtd_job *job) {
  run_call *run = run_of(job);
  pjrtd_execute_work *work = &run->work;
  if (!run->prepared) {
    for (size_t i = 0; i < work->num_stacked && !run->error; i++)
      if (run->copies[i])
        run->error = pjrtd_device_buffer_read(work->args[work->stacked[i]]->device_buffer, run->copies[i]->data,
                                              run->copies[i]->size_bytes);
    if (!run->error) run->error = pjrtd_execute_prepare(work);
    if (run->error) return;
    run->prepared = true;
    memcpy(run->args, work->device_args, work->num_args * sizeof *run->args);
  }
  run->error = pjrtd_run_slice(&run->run, SLICE_NS);
  job->again = !run->error && !run->run.num_items && !run->progress_ns && !pjrtd_run_has_ended(&run->run);
}

static void slice_done(pjrtd_job *job);

static pjrtd_status *submit(run_call *run) {
  pjrtd_runtime *runtime = run->call.runtime;
  const pjrtd_program_info *info = run->work.program->info;
  uint64_t step_ns = run->work.program->measured_ns;
  run->job = (pjrtd_job){.run = slice_run, .done = slice_done};
  PJRTD_TRY(pjrtd_runtime_submit_execution(runtime, run->share, info->devices[0]->index, !info->straight_line,
                                           step_ns > SLICE_NS ? step_ns : SLICE_NS, &run->job));
  runtime->stats.executes_on_lane++;
  run->submitted = true;
  return PJRTD_OK;
}

static void go_on(run_call *run) {
  if (pjrtd_call_park(&run->call)) return;
  pjrtd_status *status = submit(run);
  if (status) fail(run, status);
}

static void slice_done(pjrtd_job *job) {
  run_call *run = run_of(job);
  pjrtd_runtime_job_ended(run->call.runtime);
  run->submitted = false;
  if (job->refusal) {
    pjrtd_status_destroy(run->error);
    run->error = PJRTD_TAKE(job->refusal);
  }
  if (run->run.steps) run->work.program->measured_ns = run->run.execute_ns / run->run.steps;
  if (run->abandoned_because) {
    run->error = pjrtd_execute_explain(&run->work, run->error);
    settle(run, run->error ? run->error : run->abandoned_because);
    run_free(run);
    return;
  }
  if (!run->error && pjrtd_run_has_ended(&run->run)) {
    settle(run, PJRTD_OK);
    answer(run);
    run_free(run);
    return;
  }
  tell(run, run->run.num_items);
  run->run.num_items = 0;
  if (run->error)
    fail(run, PJRTD_TAKE(run->error));
  else
    go_on(run);
}

static void run_ready(pjrtd_operation *operation) {
  run_call *run = (run_call *)operation;
  if (!run->set_up) {
    pjrtd_status *status = set_up(run);
    if (status) {
      fail(run, status);
      return;
    }
    run->set_up = true;
    run->told_ns = pjrtd_clock_now_ns();
  }
  go_on(run);
}

/* It stops after the step that it is at. Slots keep what was reached; other outputs fail at once. */
static void run_abandon(pjrtd_call *call, pjrtd_status *why) {
  run_call *run = (run_call *)call;
  atomic_store_explicit(&run->run.stop, true, memory_order_relaxed);
  pjrtd_execute_give_up(&run->work, &call->operation, run->slot_has, why);
  if (run->submitted && pjrtd_lane_withdraw(run->job.lane, &run->job)) {
    pjrtd_runtime_job_ended(call->runtime);
    run->submitted = false;
  }
  if (!run->submitted) {
    settle(run, why);
    pjrtd_status_destroy(why);
    run_free(run);
    return;
  }
  run->abandoned_because = why;
}

/* ---- the request ---- */

static pjrtd_status *check_request(const Pjrtd__V1__RunRequest *wanted, const pjrtd_execute_work *work) {
  if (!wanted->steps && !wanted->n_stacked)
    return PJRTD_INVALID("the run has no number of steps, and no stacked argument that says how many there are");
  for (size_t i = 0; i < wanted->n_stacked; i++) {
    if (wanted->stacked[i] >= work->num_args)
      return PJRTD_INVALID("argument %u is to be stacked, there are %zu", wanted->stacked[i], work->num_args);
    if (i && wanted->stacked[i] <= wanted->stacked[i - 1])
      return PJRTD_INVALID("stacked has %u after %u: it must increase", wanted->stacked[i], wanted->stacked[i - 1]);
  }
  return PJRTD_OK;
}

static pjrtd_status *start(pjrtd_request *request, const pjrtd_execute_work *now) {
  const Pjrtd__V1__RunRequest *wanted = request->message;
  PJRTD_TRY(check_request(wanted, now));
  size_t stacked = wanted->n_stacked, work_bytes = pjrtd_call_aligned(pjrtd_execute_kept_bytes(now));
  size_t bytes = pjrtd_call_aligned(sizeof(run_call)) + work_bytes +
                 stacked * (sizeof(pjrtd_run_stacked) + sizeof(pjrtd_staging *) + sizeof(int64_t)) +
                 now->num_args * (sizeof(pjrtd_device_buffer *) + sizeof(uint32_t)) + now->num_outputs + 64;
  run_call *run;
  PJRTD_TRY(pjrtd_call_create(request, bytes, pjrtd_execute_num_holds(now), run_ready, run_abandon, &run));
  char *block = (char *)run + pjrtd_call_aligned(sizeof *run);
  pjrtd_status *status = pjrtd_execute_keep(request, now, block, &run->work);
  block += work_bytes;
  run->stacked = (void *)block;
  run->copies = (void *)(run->stacked + stacked);
  int64_t *positions = (void *)(run->copies + stacked);
  run->args = (void *)(positions + stacked);
  run->fed_by = (void *)(run->args + now->num_args);
  run->slot_has = (void *)(run->fed_by + now->num_args);
  if (!status) {
    for (size_t i = 0; i < stacked; i++) positions[i] = wanted->stacked[i];
    run->work.stacked = positions;
    run->work.num_stacked = stacked;
    status = map_feeds(run, wanted->step);
  }
  if (status) {
    pjrtd_free(run->work.inline_data);
    pjrtd_call_end(&run->call);
    return status;
  }
  run->call.lasting = true;
  run->share = pjrtd_share_retain(request->peer->session->share);
  run->steps_wanted = wanted->steps;
  run->progress_ns = wanted->progress_ns;
  pjrtd_run_steps *steps = &run->run;
  steps->args = run->args;
  steps->num_args = now->num_args;
  steps->fed_by = run->fed_by;
  steps->non_donatable = run->work.non_donatable;
  steps->num_non_donatable = run->work.num_non_donatable;
  steps->stacked = run->stacked;
  steps->num_stacked = stacked;
  steps->every = wanted->every;
  steps->has_until = wanted->stop_case == PJRTD__V1__RUN_REQUEST__STOP_UNTIL;
  steps->until = wanted->until;
  steps->fetch = run->work.fetch;
  steps->num_fetch = run->work.num_fetch;
  pjrtd_execute_hold(&run->work, &run->call.operation);
  pjrtd_operation_start(&run->call.operation);
  return PJRTD_OK;
}

pjrtd_status *pjrtd_handle_execute_run(pjrtd_request *request) {
  const Pjrtd__V1__RunRequest *wanted = request->message;
  if (!wanted->step) return PJRTD_INVALID("the run has no step");
  pjrtd_execute_arrays arrays;
  pjrtd_execute_work work;
  pjrtd_status *status = pjrtd_execute_resolve(request, wanted->step, true, &arrays, &work);
  if (!status) {
    status = start(request, &work);
    if (status) status = pjrtd_execute_refuse(request, &work, status);
  }
  pjrtd_free(arrays.block);
  return status;
}
