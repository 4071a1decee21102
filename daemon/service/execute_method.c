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
  pjrtd_share *share;      /* retained */
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

/* ---- at once ---- */

static bool can_run_now(const pjrtd_execute_work *work) {
  if (work->num_inline_args > PJRTD_EXECUTE_SMALL) return false;
  if (!pjrtd_resource_readable_now(&work->program->resource) || !pjrtd_program_is_quick(work->program)) return false;
  const pjrtd_program_info *info = work->program->info;
  if (info->num_outputs > PJRTD_EXECUTE_SMALL) return false;
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
    pjrtd_answer_error(request->peer, request->header, pjrtd_execute_explain(work, status));
  else
    pjrtd_execute_answer(request->peer, request->header, work, copies, execute_ns);
}

/* Programs that the loop may run are straight-line, on one device, of a platform that runs them in the call. */
static pjrtd_status *run_now(pjrtd_request *request, pjrtd_execute_work *work) {
  pjrtd_runtime *runtime = request->peer->runtime;
  PJRTD_TRY(pjrtd_execute_check(work));
  PJRTD_TRY(pjrtd_execute_prepare(work));
  const pjrtd_execute_call call = pjrtd_execute_call_of(work);
  bool pending;
  uint64_t started_ns = pjrtd_clock_now_ns();
  pjrtd_status *status = pjrtd_executable_execute(work->program->executable, &call, work->device_outputs, &pending);
  uint64_t execute_ns = pjrtd_clock_now_ns() - started_ns;
  work->program->measured_ns = execute_ns;
  pjrtd_share_charge(request->peer->session->share, work->program->info->devices[0]->index, execute_ns);
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
  pjrtd_execute_release(&execute->work);
  pjrtd_staging_destroy(execute->copies);
  pjrtd_status_destroy(execute->error);
  pjrtd_status_destroy(execute->event_error);
  pjrtd_share_release(execute->share);
  pjrtd_call_end(&execute->call);
}

static void execute_fail(execute_call *execute, pjrtd_status *status) {
  status = pjrtd_status_with_origin(pjrtd_execute_explain(&execute->work, status), execute->call.header.call);
  pjrtd_execute_poison(&execute->work, status);
  pjrtd_call_fail(&execute->call, status);
  execute_free(execute);
}

static void execute_abandon(pjrtd_call *call, pjrtd_status *why) {
  execute_call *execute = (execute_call *)call;
  pjrtd_execute_give_up(&execute->work, &call->operation, NULL, why);
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
  execute->error = pjrtd_execute_prepare(&execute->work);
  if (execute->error) return;
  pjrtd_execute_call call = pjrtd_execute_call_of(&execute->work);
  call.done = on_event;
  call.user = execute;
  execute->started_ns = pjrtd_clock_now_ns();
  execute->error = pjrtd_executable_execute(execute->work.program->executable, &call, execute->work.device_outputs,
                                            &execute->pending);
  execute->execute_ns = pjrtd_clock_now_ns() - execute->started_ns;
  job->outstanding = execute->pending && !execute->error;
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
    pjrtd_call_fail(&execute->call, pjrtd_execute_explain(&execute->work, PJRTD_TAKE(execute->error)));
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
  uint64_t device_ns = execute->execute_ns;
  if (execute->job.lane) {
    if (execute->job.outstanding)
      pjrtd_runtime_execution_ended(execute->call.runtime, &execute->job, execute->event_ns);
    device_ns = execute->job.measured_ns;
  } else {
    pjrtd_share_charge(execute->share, work->program->info->devices[0]->index, device_ns);
  }
  if (execute->error) work->num_device_outputs = 0; /* nothing was made */
  pjrtd_status *error = execute->error ? PJRTD_TAKE(execute->error) : PJRTD_TAKE(execute->event_error);
  if (!error) work->program->measured_ns = device_ns;
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
  pjrtd_call_fail(&execute->call, pjrtd_execute_explain(work, status));
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
  pjrtd_status *status = pjrtd_execute_check(work);
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
  if (is_cpu(runtime) && pjrtd_program_is_quick(work->program) && work->num_inline_args <= PJRTD_EXECUTE_SMALL) {
    /* It had to wait for something, but need not change threads for that. */
    runtime->stats.executes_on_loop++;
    execute->submitted = true;
    execute_run(&execute->job);
    execute_returned(execute);
    return;
  }
  runtime->stats.executes_on_lane++;
  const pjrtd_program_info *info = work->program->info;
  status = pjrtd_runtime_submit_execution(runtime, execute->share, info->devices[0]->index, !info->straight_line,
                                          work->program->measured_ns, &execute->job);
  if (status) {
    execute_fail(execute, status);
    return;
  }
  execute->submitted = true;
}

/* What must outlive the request goes behind the call. */
static pjrtd_status *wait_for_it(pjrtd_request *request, const pjrtd_execute_work *now) {
  size_t call_bytes = pjrtd_call_aligned(sizeof(execute_call));
  execute_call *execute;
  PJRTD_TRY(pjrtd_call_create(request, call_bytes + pjrtd_execute_kept_bytes(now), pjrtd_execute_num_holds(now),
                              execute_ready, execute_abandon, &execute));
  pjrtd_status *status = pjrtd_execute_keep(request, now, (char *)execute + call_bytes, &execute->work);
  if (status) {
    pjrtd_call_end(&execute->call);
    return status;
  }
  execute->share = pjrtd_share_retain(request->peer->session->share);
  pjrtd_execute_hold(&execute->work, &execute->call.operation);
  pjrtd_operation_start(&execute->call.operation);
  return PJRTD_OK;
}

pjrtd_status *pjrtd_handle_execute(pjrtd_request *request) {
  pjrtd_execute_arrays arrays;
  pjrtd_execute_work work;
  pjrtd_status *status = pjrtd_execute_resolve(request, request->message, false, &arrays, &work);
  if (!status) {
    bool now = is_cpu(request->peer->runtime) && can_run_now(&work);
    status = now ? run_now(request, &work) : wait_for_it(request, &work);
    if (status)
      status = pjrtd_execute_refuse(request, &work, status);
    else if (now)
      pjrtd_execute_release(&work); /* otherwise the call has the references */
  }
  pjrtd_free(arrays.block);
  return status;
}
