/* Runs. Any thread. */
#include "fetched_codec.h"
#include "method_ids.h"
#include "op_step.h"
#include "operation.h"
#include "reply_value.h"
#include "run_codec.h"

void pjrtc_call_drop_run(pjrtc_future *call) {
  pjrtc_fetched_drop(call->to.run.fetch, call->to.run.num_fetch);
}

static pjrtc_failure *read(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes, const uint8_t *bulk,
                           size_t bulk_bytes, pjrtc_run_reply *out_reply) {
  pjrtc_failure *failure = pjrtc_run_reply_read(payload, payload_bytes, bulk, bulk_bytes, call->to.run.fetch,
                                                call->to.run.num_fetch, out_reply);
  if (failure) return failure;
  if (out_reply->num_fetched) call->to.run.values_of = out_reply->steps;
  pjrtc_run_result *result = call->to.run.result;
  if (!result) return NULL;
  result->steps = out_reply->steps;
  result->execute_ns = out_reply->execute_ns;
  result->stopped = out_reply->stopped;
  return NULL;
}

static pjrtc_failure *decode_item(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes, const uint8_t *bulk,
                                  size_t bulk_bytes, pjrtc_item *out_item) {
  pjrtc_run_reply reply;
  pjrtc_failure *failure = read(call, payload, payload_bytes, bulk, bulk_bytes, &reply);
  if (!failure)
    *out_item = (pjrtc_item){.callback = call->to.run.on_step,
                             .user = call->to.run.user,
                             .steps = reply.steps,
                             .values = call->to.run.fetch,
                             .num_values = reply.num_fetched};
  return failure;
}

static pjrtc_failure *decode(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes, const uint8_t *bulk,
                             size_t bulk_bytes) {
  if (!call->held || call->failure) return NULL;
  pjrtc_run_reply reply;
  pjrtc_failure *failure = read(call, payload, payload_bytes, bulk, bulk_bytes, &reply);
  if (!failure && call->to.run.num_fetch && call->to.run.values_of != reply.steps)
    failure = pjrtc_fetched_malformed("a run", "it has not the values of the last step");
  return failure;
}

static pjrtc_failure *unset(const char *name) {
  return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, NULL, "pjrtc_run_options.%s is not set", name);
}

/* Copies both structs, which may be of another version, and checks them. */
static pjrtc_failure *read_options(const pjrtc_run_options *options, bool quiet, pjrtc_run_options *out_run,
                                   pjrtc_execute_options *out_step) {
  pjrtc_failure *failure = pjrtc_op_options(out_run, sizeof *out_run, options, "pjrtc_run_options");
  if (failure) return failure;
  if (!out_run->step) return unset("step");
  failure = pjrtc_op_options(out_step, sizeof *out_step, out_run->step, "pjrtc_execute_options");
  if (!failure) failure = pjrtc_step_check(out_step);
  if (failure) return failure;
  out_run->step = out_step;
  if (out_step->result || out_step->timeout_ns)
    return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, "set that of pjrtc_run_options",
                              "the step of a run has no result and no timeout of its own");
  if (out_run->num_stacked && !out_run->stacked) return unset("stacked");
  if (out_run->result && out_run->result->struct_size < sizeof *out_run->result) return unset("result->struct_size");
  if (quiet && (out_step->num_fetch || out_run->result || out_run->on_step))
    return pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, "ask for a future",
                              "a quiet run has no reply that could bring values back");
  return NULL;
}

/* With the lock. */
static pjrtc_failure *start(pjrtc_client *client, const pjrtc_run_options *options, bool quiet,
                            pjrtc_future **out_call) {
  const pjrtc_execute_options *step = options->step;
  pjrtc_request request = {.method = PJRTC_METHOD_execute_run, .timeout_ns = options->timeout_ns, .quiet = quiet};
  pjrtc_failure *failure = pjrtc_step_begin(client, step, options, &request, out_call);
  if (failure) return failure;
  pjrtc_future *call = *out_call;
  if (call) {
    for (size_t i = 0; i < step->num_fetch; i++) step->fetch[i].reserved = PJRTC_VALUE_UNSET;
    if (options->result) *options->result = (pjrtc_run_result){.struct_size = options->result->struct_size};
    call->decode = decode;
    call->decode_item = decode_item;
    call->to.run.fetch = step->fetch;
    call->to.run.num_fetch = step->num_fetch;
    call->to.run.result = options->result;
    call->to.run.on_step = options->on_step;
    call->to.run.user = options->user;
  }
  pjrtc_call_commit(client, &request, call);
  return NULL;
}

pjrtc_code pjrtc_run_start(pjrtc_client *client, const pjrtc_run_options *options, pjrtc_future **out_future,
                           pjrtc_error *error) {
  pjrtc_run_options own;
  pjrtc_execute_options step;
  if (out_future) *out_future = NULL;
  pjrtc_failure *failure = read_options(options, !out_future, &own, &step);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_step_clear_outputs(&step);
  failure = pjrtc_op_enter(client, false);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_future *call;
  failure = start(client, &own, !out_future, &call);
  if (failure) pjrtc_step_clear_outputs(&step);
  return pjrtc_op_give(client, failure, call, out_future, error);
}

pjrtc_code pjrtc_run(pjrtc_client *client, const pjrtc_run_options *options, pjrtc_error *error) {
  pjrtc_run_options own;
  pjrtc_execute_options step;
  pjrtc_failure *failure = read_options(options, false, &own, &step);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_step_clear_outputs(&step);
  failure = pjrtc_op_enter(client, true);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_future *call;
  failure = start(client, &own, false, &call);
  if (!failure) {
    failure = pjrtc_op_wait(client, call, own.timeout_ns);
    if (failure) pjrtc_step_forget_outputs(client, &step);
  }
  if (failure) pjrtc_step_clear_outputs(&step);
  return pjrtc_op_leave(client, failure, error);
}
