/* Execute.Execute. Loop thread, but for the jobs.
 *
 * A request is resolved when it arrives: outputs get their names (PENDING), arguments are looked up. If nothing has to
 * be waited for and the program is known to be quick, it runs right here and the answer is written: no allocation of a
 * call, no thread hop. Everything else becomes a call that holds what it names, and runs on the device's lane. */
#include <inttypes.h>
#include <string.h>

#include "base/clock.h"
#include "service/execute_work.h"
#include "service/staging.h"

typedef struct {
  pjrtd_call call;         /* first */
  pjrtd_execute_work work; /* its arrays lie behind; the program and the buffers are held and retained */
  uint8_t *inline_data;    /* owned copy of the request's bulk */
  pjrtd_job job;           /* the execution, then the fetch where it needs a lane */
  pjrtd_message ended;     /* from the plugin's thread */
  pjrtd_status *error;     /* by the job */
  pjrtd_status *event_error;
  pjrtd_staging *copies;           /* owned; NULL where outputs are read in place */
  uint64_t started_ns, execute_ns; /* by the job */
  uint64_t event_ns;
  bool pending, job_back, event_back; /* pending: an event tells when the devices are done */
  bool submitted, abandoned;
} execute_call;

/* ---- resolving ---- */

/* Where the arrays of a work lie: on the stack for the usual small call. */
#define SMALL 16
typedef struct {
  pjrtd_buffer *args[SMALL], *outputs[SMALL];
  pjrtd_device_buffer *device_args[SMALL], *device_outputs[SMALL];
  struct pjrtd_inline_argument inline_args[SMALL];
  struct pjrtd_slot_argument slot_args[SMALL];
  int64_t non_donatable[SMALL];
} small_arrays;

static pjrtd_status *name_output(pjrtd_peer *peer, uint64_t id, pjrtd_buffer **out_buffer) {
  *out_buffer = NULL;
  PJRTD_TRY(pjrtd_session_check_new(peer->session, &peer->ids, PJRTD_ID_BUFFER, id));
  pjrtd_buffer *buffer;
  PJRTD_TRY(pjrtd_buffer_create(peer->runtime, &buffer));
  pjrtd_status *status = pjrtd_session_name_buffer(peer->session, &peer->ids, id, buffer);
  if (status)
    pjrtd_resource_release(&buffer->resource);
  else
    *out_buffer = buffer; /* with this function's reference */
  return status;
}

/* Names all the outputs that can be, whatever the first failure: they get poisoned by the caller. */
static pjrtd_status *name_outputs(pjrtd_request *request, const Pjrtd__V1__ExecuteRequest *wanted,
                                  pjrtd_execute_work *work) {
  pjrtd_status *first = PJRTD_OK;
  work->num_output_ids = wanted->n_outputs;
  for (size_t i = 0; i < work->num_outputs; i++) work->outputs[i] = NULL;
  for (size_t i = 0; i < wanted->n_outputs; i++) {
    if (!wanted->outputs[i]) continue;
    pjrtd_status *status = name_output(request->peer, wanted->outputs[i], &work->outputs[i]);
    if (first)
      pjrtd_status_destroy(status);
    else
      first = status;
  }
  return first;
}

/* The slots have the new values from here on, until those are poisoned. */
static pjrtd_status *feed_back(const pjrtd_request *request, const Pjrtd__V1__ExecuteRequest *wanted,
                               pjrtd_execute_work *work) {
  pjrtd_session *session = request->peer->session;
  uint64_t mark = wanted->n_feed_back ? pjrtd_buffer_new_mark() : 0;
  for (size_t i = 0; i < wanted->n_feed_back; i++) {
    const Pjrtd__V1__FeedBack *feed = wanted->feed_back[i];
    pjrtd_buffer **output = &work->outputs[feed->output];
    if (!*output) PJRTD_TRY(pjrtd_buffer_create(request->peer->runtime, output));
    const pjrtd_buffer *held = pjrtd_slots_find(&session->slots, feed->slot);
    if ((*output)->seen == mark || (held && held->seen == mark))
      return PJRTD_INVALID("output %u is fed back to slot '%s': %s", feed->output, feed->slot,
                           (*output)->seen == mark ? "it is fed back already, bind it to a second slot after the call"
                                                   : "another output is fed back to that slot");
    PJRTD_TRY(pjrtd_slots_feed(&session->slots, feed->slot, *output, session,
                               request->peer->runtime->settings->max_session_slots));
    (*output)->seen = mark;
  }
  return PJRTD_OK;
}

static void release_outputs(pjrtd_execute_work *work) {
  for (size_t i = 0; i < work->num_outputs; i++)
    if (work->outputs[i]) pjrtd_resource_release(&work->outputs[i]->resource);
}

static void poison_outputs(pjrtd_execute_work *work, pjrtd_status *error) {
  for (size_t i = 0; i < work->num_outputs; i++)
    if (work->outputs[i]) pjrtd_resource_set_failed(&work->outputs[i]->resource, pjrtd_status_retain(error));
}

static pjrtd_status *resolve_inline(const pjrtd_request *request, const Pjrtd__V1__ExecuteRequest *wanted,
                                    pjrtd_execute_work *work) {
  uint64_t used = 0;
  for (size_t i = 0; i < wanted->n_inline_args; i++) {
    const Pjrtd__V1__InlineArgument *from = wanted->inline_args[i];
    struct pjrtd_inline_argument *to = &work->inline_args[i];
    uint64_t bytes;
    if (from->position >= wanted->n_args || wanted->args[from->position] != 0 || work->args[from->position])
      return PJRTD_INVALID("inline argument %zu is for position %u, where no 0 stands among the arguments, or a slot",
                           i, from->position);
    if (i && from->position <= work->inline_args[i - 1].position)
      return PJRTD_INVALID("inline argument %zu is for position %u: positions must increase", i, from->position);
    if (!from->type) return PJRTD_INVALID("inline argument %zu has no type", i);
    to->position = from->position;
    to->type = pjrtd_type_of_message(from->type);
    pjrtd_status *status = pjrtd_tensor_type_check(&to->type, &bytes);
    if (!status) status = pjrtd_client_check_dtype(request->peer->runtime->client, to->type.dtype);
    if (!status && from->data_bytes != bytes)
      status = PJRTD_INVALID("it takes %" PRIu64 " bytes, data_bytes is %" PRIu64, bytes, from->data_bytes);
    if (status) {
      char text[PJRTD_TENSOR_TYPE_TEXT];
      return pjrtd_status_with_argument(pjrtd_status_context(status, "argument %u (inline)", from->position),
                                        from->position, "a tensor that can be sent",
                                        pjrtd_tensor_type_format(&to->type, text));
    }
    if (bytes > request->header->bulk_bytes - used)
      return PJRTD_INVALID("the inline arguments have more bytes than the %u that came", request->header->bulk_bytes);
    to->data = request->bulk + used;
    used += bytes;
    work->num_inline_args = i + 1;
  }
  if (used != request->header->bulk_bytes)
    return PJRTD_INVALID("%u bulk bytes came, the inline arguments have %" PRIu64, request->header->bulk_bytes, used);
  return PJRTD_OK;
}

static pjrtd_status *resolve_slots(const pjrtd_request *request, const Pjrtd__V1__ExecuteRequest *wanted,
                                   pjrtd_execute_work *work) {
  for (size_t i = 0; i < wanted->n_slot_args; i++) {
    const Pjrtd__V1__SlotArgument *from = wanted->slot_args[i];
    if (from->position >= wanted->n_args || wanted->args[from->position] != 0)
      return PJRTD_INVALID("slot '%.255s' is for position %u, where no 0 stands among the arguments", from->slot,
                           from->position);
    if (i && from->position <= work->slot_args[i - 1].position)
      return PJRTD_INVALID("slot '%.255s' is for position %u: positions must increase", from->slot, from->position);
    pjrtd_buffer *buffer = pjrtd_slots_find(&request->peer->session->slots, from->slot);
    if (!buffer) return pjrtd_status_context(pjrtd_session_no_slot(from->slot), "argument %u", from->position);
    work->args[from->position] = buffer;
    work->slot_args[i] = (struct pjrtd_slot_argument){.position = from->position, .slot = from->slot};
    work->num_slot_args = i + 1;
  }
  return PJRTD_OK;
}

static pjrtd_status *resolve_args(const pjrtd_request *request, const Pjrtd__V1__ExecuteRequest *wanted,
                                  pjrtd_execute_work *work) {
  pjrtd_session *session = request->peer->session;
  work->program = pjrtd_session_find_program(session, wanted->program);
  if (!work->program) return pjrtd_session_not_found(PJRTD_ID_PROGRAM, wanted->program);
  size_t without_id = 0;
  for (size_t i = 0; i < wanted->n_args; i++) {
    work->args[i] = NULL;
    if (!wanted->args[i]) {
      without_id++;
      continue;
    }
    work->args[i] = pjrtd_session_find_buffer(session, wanted->args[i]);
    if (!work->args[i])
      return pjrtd_status_context(pjrtd_session_not_found(PJRTD_ID_BUFFER, wanted->args[i]), "argument %zu", i);
  }
  work->num_args = wanted->n_args;
  if (wanted->n_slot_args) PJRTD_TRY(resolve_slots(request, wanted, work));
  PJRTD_TRY(resolve_inline(request, wanted, work));
  if (without_id != work->num_inline_args + work->num_slot_args)
    return PJRTD_INVALID("%zu arguments are 0, but there are %zu inline arguments and %zu slots", without_id,
                         work->num_inline_args, work->num_slot_args);
  for (size_t i = 0; i < wanted->n_non_donatable; i++) {
    if (i && wanted->non_donatable[i] <= wanted->non_donatable[i - 1])
      return PJRTD_INVALID("non_donatable has %u after %u: it must increase", wanted->non_donatable[i],
                           wanted->non_donatable[i - 1]);
    work->non_donatable[i] = wanted->non_donatable[i];
  }
  work->num_non_donatable = wanted->n_non_donatable;
  work->fetch = wanted->fetch;
  work->num_fetch = wanted->n_fetch;
  return PJRTD_OK;
}

/* ---- at once ---- */

static bool can_run_now(const pjrtd_execute_work *work) {
  if (work->num_inline_args > SMALL) return false;
  if (!pjrtd_resource_readable_now(&work->program->resource) || !pjrtd_program_is_quick(work->program)) return false;
  const pjrtd_program_info *info = work->program->info;
  if (info->num_outputs > SMALL) return false;
  /* What the host cannot read in place needs a lane. */
  for (size_t i = 0; i < work->num_fetch; i++)
    if (work->fetch[i] < info->num_outputs &&
        (!info->outputs[work->fetch[i]].dense || pjrtd_dtype_bits(info->outputs[work->fetch[i]].type.dtype) < 8))
      return false;
  for (size_t i = 0; i < work->num_args; i++) {
    const pjrtd_buffer *buffer = work->args[i];
    if (!buffer) continue;
    if (!(pjrtd_execute_is_donated(work, i) ? pjrtd_resource_writable_now(&buffer->resource)
                                            : pjrtd_resource_readable_now(&buffer->resource)))
      return false;
  }
  return true;
}

static bool fetch_has_views(const pjrtd_execute_work *work) {
  const pjrtd_program_info *info = work->program->info;
  for (size_t i = 0; i < work->num_fetch; i++)
    if (info->outputs[work->fetch[i] % info->num_outputs].host_bytes &&
        !pjrtd_device_buffer_view(pjrtd_execute_output(work, work->fetch[i])))
      return false;
  return true;
}

static bool is_cpu(const pjrtd_runtime *runtime) {
  return pjrtd_client_get_info(runtime->client)->is_cpu;
}

static uint64_t fetch_bytes(const pjrtd_execute_work *work) {
  const pjrtd_program_info *info = work->program->info;
  uint64_t bytes = 0;
  for (size_t i = 0; i < work->num_fetch; i++) bytes += info->outputs[work->fetch[i] % info->num_outputs].host_bytes;
  return bytes;
}

static pjrtd_status *read_fetched(const pjrtd_execute_work *work, uint8_t *place) {
  const pjrtd_program_info *info = work->program->info;
  for (size_t i = 0; i < work->num_fetch; i++) {
    uint64_t bytes = info->outputs[work->fetch[i] % info->num_outputs].host_bytes;
    PJRTD_TRY(pjrtd_device_buffer_read(pjrtd_execute_output(work, work->fetch[i]), place, bytes));
    place += bytes;
  }
  return PJRTD_OK;
}

/* The outputs are there, but not in the host's sight, though this is a CPU: the plugin copies them, at most 64 KiB. */
static void answer_with_copies(pjrtd_request *request, pjrtd_execute_work *work, uint64_t execute_ns) {
  PJRTD_AUTO_FREE uint8_t *copies = pjrtd_malloc(fetch_bytes(work));
  pjrtd_status *status = copies ? read_fetched(work, copies) : pjrtd_status_oom();
  if (status)
    pjrtd_answer_error(request->peer, request->header, status);
  else
    pjrtd_execute_answer(request->peer, request->header, work, copies, execute_ns);
}

/* Programs that the loop may run are straight-line, on one device, of a platform that runs them in the call. */
static pjrtd_status *run_now(pjrtd_request *request, pjrtd_execute_work *work) {
  pjrtd_runtime *runtime = request->peer->runtime;
  PJRTD_TRY(pjrtd_execute_check(work));
  PJRTD_TRY(pjrtd_execute_prepare(work));
  pjrtd_execute_call call = {.args = work->device_args,
                             .num_args = work->num_args,
                             .non_donatable = work->non_donatable,
                             .num_non_donatable = work->num_non_donatable};
  bool pending;
  uint64_t started_ns = pjrtd_clock_now_ns();
  pjrtd_status *status = pjrtd_executable_execute(work->program->executable, &call, work->device_outputs, &pending);
  uint64_t execute_ns = pjrtd_clock_now_ns() - started_ns;
  work->program->measured_ns = execute_ns;
  runtime->stats.executes_on_loop++;
  if (status) {
    work->num_device_outputs = 0;
    status = pjrtd_status_with_origin(status, request->header->call);
  }
  status = pjrtd_execute_settle(work, status);
  if (status) return status;
  if (__builtin_expect(request->header->quiet || fetch_has_views(work), 1))
    pjrtd_execute_answer(request->peer, request->header, work, NULL, execute_ns);
  else
    answer_with_copies(request, work, execute_ns);
  pjrtd_execute_discard(work);
  return PJRTD_OK;
}

/* ---- on the lane ---- */

static void execute_free(execute_call *execute) {
  pjrtd_execute_discard(&execute->work);
  pjrtd_free(execute->work.device_outputs);
  release_outputs(&execute->work);
  pjrtd_staging_destroy(execute->copies);
  pjrtd_status_destroy(execute->error);
  pjrtd_status_destroy(execute->event_error);
  pjrtd_free(execute->inline_data);
  pjrtd_call_end(&execute->call);
}

static void execute_fail(execute_call *execute, pjrtd_status *status) {
  status = pjrtd_status_with_origin(status, execute->call.header.call);
  poison_outputs(&execute->work, status);
  pjrtd_call_fail(&execute->call, status);
  execute_free(execute);
}

static void execute_abandon(pjrtd_call *call, pjrtd_status *why) {
  execute_call *execute = (execute_call *)call;
  /* What has not been made fails now: nobody has to wait for the plugin to find out. */
  for (size_t i = 0; i < execute->work.num_outputs; i++) {
    pjrtd_buffer *buffer = execute->work.outputs[i];
    if (buffer && buffer->resource.state == PJRTD_RESOURCE_PENDING)
      pjrtd_resource_set_failed(&buffer->resource, pjrtd_status_retain(why));
  }
  pjrtd_operation_give_back_failed(&call->operation);
  pjrtd_status_destroy(why);
  execute->abandoned = true;
  if (execute->submitted && execute->job.lane && pjrtd_lane_withdraw(execute->job.lane, &execute->job)) {
    pjrtd_runtime_job_ended(call->runtime);
    execute->submitted = false;
  }
  if (!execute->submitted) execute_free(execute);
}

static void on_event(void *user, pjrtd_status *error);

/* On a lane, or, for a quick program that had to wait for something, on the loop: `submitted` either way, since with an
 * event outstanding nothing may be freed. */
static void execute_run(pjrtd_job *job) {
  execute_call *execute = (execute_call *)((char *)job - offsetof(execute_call, job));
  pjrtd_execute_call call = {.args = execute->work.device_args,
                             .num_args = execute->work.num_args,
                             .non_donatable = execute->work.non_donatable,
                             .num_non_donatable = execute->work.num_non_donatable,
                             .done = on_event,
                             .user = execute};
  execute->error = pjrtd_execute_prepare(&execute->work);
  if (execute->error) return;
  execute->started_ns = pjrtd_clock_now_ns();
  execute->error = pjrtd_executable_execute(execute->work.program->executable, &call, execute->work.device_outputs,
                                            &execute->pending);
  execute->execute_ns = pjrtd_clock_now_ns() - execute->started_ns;
}

static void fetch_run(pjrtd_job *job) {
  execute_call *execute = (execute_call *)((char *)job - offsetof(execute_call, job));
  execute->error = read_fetched(&execute->work, execute->copies->data);
}

static void answer_and_free(execute_call *execute) {
  pjrtd_call *call = &execute->call;
  pjrtd_execute_answer(call->peer, &call->header, &execute->work, execute->copies ? execute->copies->data : NULL,
                       execute->execute_ns);
  execute_free(execute);
}

static void fetch_done(pjrtd_job *job) {
  execute_call *execute = (execute_call *)((char *)job - offsetof(execute_call, job));
  pjrtd_runtime_job_ended(execute->call.runtime);
  if (job->refusal) execute->error = PJRTD_TAKE(job->refusal);
  execute->submitted = false;
  if (execute->error) {
    pjrtd_call_fail(&execute->call, PJRTD_TAKE(execute->error));
    execute_free(execute);
  } else {
    answer_and_free(execute);
  }
}

/* The host cannot read device memory: a lane copies what is to be fetched. */
static pjrtd_status *fetch(execute_call *execute) {
  const pjrtd_program_info *info = execute->work.program->info;
  PJRTD_TRY(pjrtd_staging_create(execute->call.runtime, fetch_bytes(&execute->work), "the outputs to be fetched",
                                 &execute->copies));
  execute->job = (pjrtd_job){.run = fetch_run, .done = fetch_done};
  PJRTD_TRY(pjrtd_runtime_submit(execute->call.runtime, execute->call.runtime->transfer_lanes[info->devices[0]->index],
                                 &execute->job));
  execute->submitted = true;
  return PJRTD_OK;
}

/* The job and, where there is one, the event are back. */
static void execute_finish(execute_call *execute) {
  pjrtd_execute_work *work = &execute->work;
  execute->submitted = false;
  if (execute->event_back) execute->execute_ns = execute->event_ns - execute->started_ns;
  if (execute->error) work->num_device_outputs = 0; /* nothing was made */
  pjrtd_status *error = execute->error ? PJRTD_TAKE(execute->error) : PJRTD_TAKE(execute->event_error);
  work->program->measured_ns = execute->execute_ns;
  if (error) error = pjrtd_status_with_origin(error, execute->call.header.call);
  if (execute->abandoned) {
    /* The outputs were poisoned when it was: only the donated arguments are left to settle. */
    size_t outputs = work->num_outputs;
    work->num_outputs = 0;
    pjrtd_status_destroy(pjrtd_execute_settle(work, error));
    work->num_outputs = outputs;
    execute_free(execute);
    return;
  }
  error = pjrtd_execute_settle(work, error);
  if (error) {
    pjrtd_call_fail(&execute->call, error);
    execute_free(execute);
    return;
  }
  if (execute->call.header.quiet || fetch_has_views(work)) {
    answer_and_free(execute);
    return;
  }
  pjrtd_status *status = fetch(execute);
  if (!status) return;
  pjrtd_call_fail(&execute->call, status);
  execute_free(execute);
}

/* The plugin's call is back. */
static void execute_returned(execute_call *execute) {
  execute->job_back = true;
  execute->work.program->ran_in_call = !execute->error && !execute->pending;
  if (execute->error || !execute->pending || execute->event_back) execute_finish(execute);
}

static void execute_done(pjrtd_job *job) {
  execute_call *execute = (execute_call *)((char *)job - offsetof(execute_call, job));
  pjrtd_runtime_job_ended(execute->call.runtime);
  if (job->refusal) execute->error = PJRTD_TAKE(job->refusal);
  execute_returned(execute);
}

static void deliver_event(pjrtd_message *message) {
  execute_call *execute = (execute_call *)((char *)message - offsetof(execute_call, ended));
  pjrtd_runtime_enter(execute->call.runtime);
  execute->event_back = true;
  execute->event_ns = pjrtd_clock_now_ns();
  if (execute->job_back) execute_finish(execute);
}

/* A plugin's thread, or the lane's. */
static void on_event(void *user, pjrtd_status *error) {
  execute_call *execute = user;
  execute->event_error = error;
  execute->ended.deliver = deliver_event;
  pjrtd_mailbox_post(execute->call.runtime->mailbox, &execute->ended);
}

static void execute_ready(pjrtd_operation *operation) {
  execute_call *execute = (execute_call *)operation;
  if (pjrtd_call_park(&execute->call)) return;
  pjrtd_execute_work *work = &execute->work;
  pjrtd_runtime *runtime = execute->call.runtime;
  const pjrtd_resource *program = &work->program->resource;
  pjrtd_status *status =
      program->state == PJRTD_RESOURCE_FAILED ? pjrtd_status_retain(program->error) : pjrtd_execute_check(work);
  if (!status) {
    const pjrtd_program_info *info = work->program->info;
    work->device_outputs = pjrtd_calloc(info->num_outputs * info->num_devices, sizeof *work->device_outputs);
    if (!work->device_outputs) status = pjrtd_status_oom();
  }
  if (status) {
    execute_fail(execute, status);
    return;
  }
  execute->job = (pjrtd_job){.run = execute_run, .done = execute_done};
  if (is_cpu(runtime) && pjrtd_program_is_quick(work->program) && work->num_inline_args <= SMALL) {
    /* It had to wait for something, but need not change threads for that. */
    runtime->stats.executes_on_loop++;
    execute->submitted = true;
    execute_run(&execute->job);
    execute_returned(execute);
    return;
  }
  runtime->stats.executes_on_lane++;
  const pjrtd_program_info *info = work->program->info;
  pjrtd_lane **lanes = info->straight_line ? runtime->device_lanes : runtime->open_lanes;
  status = pjrtd_runtime_submit(runtime, lanes[info->devices[0]->index], &execute->job);
  if (status) {
    execute_fail(execute, status);
    return;
  }
  execute->submitted = true;
}

/* The strongest thing that the program may do to an argument; before it is compiled, nobody knows. */
static pjrtd_hold_mode mode_of(const pjrtd_execute_work *work, size_t position) {
  const pjrtd_program *program = work->program;
  if (program->resource.state == PJRTD_RESOURCE_PENDING) return PJRTD_HOLD_WRITE;
  if (program->resource.state != PJRTD_RESOURCE_READY) return PJRTD_HOLD_READ;
  return pjrtd_execute_is_donated(work, position) ? PJRTD_HOLD_WRITE : PJRTD_HOLD_READ;
}

/* Copies what must outlive the request, in one block behind the call. */
static pjrtd_status *wait_for_it(pjrtd_request *request, pjrtd_execute_work *now) {
  size_t dims = 0;
  for (size_t i = 0; i < now->num_inline_args; i++) dims += now->inline_args[i].type.rank;
  size_t name_bytes = 0;
  for (size_t i = 0; i < now->num_slot_args; i++) name_bytes += strlen(now->slot_args[i].slot) + 1;
  size_t call_bytes = (sizeof(execute_call) + 15) & ~(size_t)15;
  size_t bytes = call_bytes + now->num_args * (sizeof *now->args + sizeof *now->device_args) +
                 now->num_outputs * sizeof *now->outputs + now->num_inline_args * sizeof *now->inline_args +
                 now->num_slot_args * sizeof *now->slot_args + now->num_non_donatable * sizeof *now->non_donatable +
                 dims * sizeof(int64_t) + now->num_fetch * sizeof *now->fetch + name_bytes;
  execute_call *execute;
  uint32_t holds = (uint32_t)(1 + now->num_args + now->num_outputs);
  PJRTD_TRY(pjrtd_call_create(request, bytes, holds, execute_ready, execute_abandon, &execute));
  if (request->header->bulk_bytes) {
    execute->inline_data = pjrtd_memdup(request->bulk, request->header->bulk_bytes);
    if (!execute->inline_data) {
      pjrtd_call_end(&execute->call);
      return pjrtd_status_oom();
    }
  }
  pjrtd_execute_work *work = &execute->work;
  *work = *now;
  char *block = (char *)execute + call_bytes;
#define MOVE(field, count)                        \
  do {                                            \
    size_t size_ = (count) * sizeof *work->field; \
    if (size_) memcpy(block, now->field, size_);  \
    work->field = (void *)block;                  \
    block += size_;                               \
  } while (0)
  MOVE(args, now->num_args);
  work->device_args = (pjrtd_device_buffer **)block;
  block += now->num_args * sizeof *work->device_args;
  MOVE(outputs, now->num_outputs);
  MOVE(inline_args, now->num_inline_args);
  MOVE(slot_args, now->num_slot_args);
  MOVE(non_donatable, now->num_non_donatable);
  for (size_t i = 0; i < work->num_inline_args; i++) {
    struct pjrtd_inline_argument *argument = &work->inline_args[i];
    argument->data = execute->inline_data + (argument->data - request->bulk);
    if (!argument->type.rank) continue;
    memcpy(block, argument->type.dims, argument->type.rank * sizeof(int64_t));
    argument->type.dims = (int64_t *)block;
    block += argument->type.rank * sizeof(int64_t);
  }
  MOVE(fetch, now->num_fetch);
#undef MOVE
  for (size_t i = 0; i < work->num_slot_args; i++) {
    size_t size = strlen(work->slot_args[i].slot) + 1;
    work->slot_args[i].slot = memcpy(block, work->slot_args[i].slot, size);
    block += size;
  }
  work->device_outputs = NULL;
  work->num_device_outputs = 0;

  pjrtd_operation *operation = &execute->call.operation;
  pjrtd_operation_hold(operation, &work->program->resource, PJRTD_HOLD_READ);
  for (size_t i = 0; i < work->num_args; i++)
    if (work->args[i]) pjrtd_operation_hold(operation, &work->args[i]->resource, mode_of(work, i));
  for (size_t i = 0; i < work->num_outputs; i++)
    if (work->outputs[i]) pjrtd_operation_hold(operation, &work->outputs[i]->resource, PJRTD_HOLD_WRITE);
  pjrtd_operation_start(operation);
  return PJRTD_OK;
}

/* Where the work's arrays lie: on the stack, or, where there are more, in `*out_block`. */
static pjrtd_status *make_room(pjrtd_execute_work *work, const Pjrtd__V1__ExecuteRequest *wanted, small_arrays *small,
                               void **out_block) {
  size_t args = wanted->n_args, inline_args = wanted->n_inline_args, slot_args = wanted->n_slot_args;
  size_t outputs = wanted->n_outputs, non_donatable = wanted->n_non_donatable;
  for (size_t i = 0; i < wanted->n_feed_back; i++)
    if (wanted->feed_back[i]->output >= outputs) outputs = (size_t)wanted->feed_back[i]->output + 1;
  work->num_outputs = outputs;
  if (args <= SMALL && outputs <= SMALL && inline_args <= SMALL && slot_args <= SMALL && non_donatable <= SMALL) {
    work->args = small->args;
    work->outputs = small->outputs;
    work->device_args = small->device_args;
    work->inline_args = small->inline_args;
    work->slot_args = small->slot_args;
    work->non_donatable = small->non_donatable;
    return PJRTD_OK;
  }
  if (args > PJRTD_MAX_EXECUTE_IDS || outputs > PJRTD_MAX_EXECUTE_IDS || wanted->n_fetch > PJRTD_MAX_EXECUTE_IDS ||
      inline_args > args || slot_args > args || non_donatable > args) {
    work->num_outputs = 0; /* none is named */
    return PJRTD_INVALID(
        "%zu arguments, %zu of them inline, %zu slots, %zu non-donatable, %zu outputs, %zu fetched: at most %d each "
        "are "
        "allowed",
        args, inline_args, slot_args, non_donatable, outputs, wanted->n_fetch, PJRTD_MAX_EXECUTE_IDS);
  }
  char *block = *out_block =
      pjrtd_malloc((args * 2 + outputs) * sizeof(void *) + inline_args * sizeof *work->inline_args +
                   slot_args * sizeof *work->slot_args + non_donatable * sizeof(int64_t));
  if (!block) return pjrtd_status_oom();
  work->args = (void *)block;
  work->device_args = (void *)(work->args + args);
  work->outputs = (void *)(work->device_args + args);
  work->inline_args = (void *)(work->outputs + outputs);
  work->slot_args = (void *)(work->inline_args + inline_args);
  work->non_donatable = (void *)(work->slot_args + slot_args);
  return PJRTD_OK;
}

pjrtd_status *pjrtd_handle_execute(pjrtd_request *request) {
  const Pjrtd__V1__ExecuteRequest *wanted = request->message;
  small_arrays small;
  pjrtd_execute_work work;
  memset(&work, 0, sizeof work);
  work.device_outputs = small.device_outputs;
  PJRTD_AUTO_FREE void *block = NULL;
  PJRTD_TRY(make_room(&work, wanted, &small, &block));
  /* Arguments first: an execution cannot use its own output. The outputs get their names whatever comes, to be poisoned
   * if need be. */
  pjrtd_status *status = resolve_args(request, wanted, &work);
  pjrtd_status *naming = name_outputs(request, wanted, &work);
  if (status)
    pjrtd_status_destroy(naming);
  else
    status = naming;
  if (!status) status = feed_back(request, wanted, &work);
  if (!status && is_cpu(request->peer->runtime) && can_run_now(&work)) {
    status = run_now(request, &work);
  } else if (!status) {
    status = wait_for_it(request, &work);
    if (!status) return PJRTD_OK; /* the call has the outputs' references */
  }
  if (status) {
    status = pjrtd_status_with_origin(status, request->header->call);
    poison_outputs(&work, status);
  }
  release_outputs(&work);
  return status;
}
