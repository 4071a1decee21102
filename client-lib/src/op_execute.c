/* Execute: the hot path. One call of it allocates nothing once the connection is warm. Any thread. */
#include <string.h>

#include "method_ids.h"
#include "op_step.h"
#include "operation.h"

static pjrtc_failure *decode(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes, const uint8_t *bulk,
                             size_t bulk_bytes) {
  if (!call->held) return NULL;
  return pjrtc_execute_reply_read(payload, payload_bytes, bulk, bulk_bytes, call->to.execute.fetch,
                                  call->to.execute.num_fetch, call->to.execute.result);
}

pjrtc_failure *pjrtc_step_check(const pjrtc_execute_options *options) {
  const char *missing = options->num_args && !options->args                     ? "args"
                        : options->num_outputs && !options->outputs             ? "outputs"
                        : options->num_fetch && !options->fetch                 ? "fetch"
                        : options->num_feed_back && !options->feed_back         ? "feed_back"
                        : options->num_non_donatable && !options->non_donatable ? "non_donatable"
                        : options->result && options->result->struct_size < sizeof *options->result
                            ? "result->struct_size"
                            : NULL;
  return missing ? pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, NULL, "pjrtc_execute_options.%s is not set", missing)
                 : NULL;
}

void pjrtc_step_name_outputs(pjrtc_client *client, const pjrtc_execute_options *options) {
  for (size_t i = 0; i < options->num_outputs; i++)
    options->outputs[i] = !options->keep || options->keep[i] ? client->next_buffer++ : 0;
}

pjrtc_execute_request pjrtc_step_request(const pjrtc_execute_options *options) {
  return (pjrtc_execute_request){
      .program = options->program,
      .args = options->args,
      .num_args = options->num_args,
      .outputs = options->outputs,
      .num_outputs = options->num_outputs,
      .fetch = options->fetch,
      .num_fetch = options->num_fetch,
      .feed_back = options->feed_back,
      .num_feed_back = options->num_feed_back,
      .non_donatable = options->non_donatable,
      .num_non_donatable = options->num_non_donatable,
  };
}

/* With the lock. */
static pjrtc_failure *start(pjrtc_client *client, const pjrtc_execute_options *options, bool quiet,
                            pjrtc_future **out_call) {
  pjrtc_execute_request message = pjrtc_step_request(options);
  pjrtc_request request = {.method = PJRTC_METHOD_execute, .timeout_ns = options->timeout_ns, .quiet = quiet};
  *out_call = NULL;
  pjrtc_failure *failure = pjrtc_execute_request_check(&message, client->hello.max_inline_bytes, &request.bulk_bytes);
  if (failure) return failure;
  uint64_t first_buffer = client->next_buffer;
  uint8_t *payload;
  pjrtc_step_name_outputs(client, options);
  request.payload_bytes = pjrtc_execute_request_size(&message);
  failure = pjrtc_call_begin(client, &request, out_call, &payload);
  if (failure) {
    client->next_buffer = first_buffer;
    return failure;
  }
  pjrtc_execute_request_write_data(&message, pjrtc_execute_request_write(&message, payload));
  pjrtc_future *call = *out_call;
  if (call) {
    call->decode = decode;
    call->to.execute.fetch = options->fetch;
    call->to.execute.num_fetch = options->num_fetch;
    call->to.execute.result = options->result;
  }
  pjrtc_call_commit(client, &request, call);
  return NULL;
}

void pjrtc_step_clear_outputs(const pjrtc_execute_options *options) {
  if (options->num_outputs) memset(options->outputs, 0, options->num_outputs * sizeof *options->outputs);
}

pjrtc_code pjrtc_execute_start(pjrtc_client *client, const pjrtc_execute_options *options, pjrtc_future **out_future,
                               pjrtc_error *error) {
  pjrtc_execute_options own;
  if (out_future) *out_future = NULL;
  pjrtc_failure *failure = pjrtc_op_options(&own, sizeof own, options, "pjrtc_execute_options");
  if (!failure) failure = pjrtc_step_check(&own);
  if (!failure && !out_future && (own.num_fetch || own.result))
    failure = pjrtc_failure_make(PJRTC_INVALID_ARGUMENT, "ask for a future",
                                 "a quiet execute has no reply that could bring values back");
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_step_clear_outputs(&own);
  failure = pjrtc_op_enter(client, false);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_future *call;
  failure = start(client, &own, !out_future, &call);
  if (failure) pjrtc_step_clear_outputs(&own);
  return pjrtc_op_give(client, failure, call, out_future, error);
}

void pjrtc_step_forget_outputs(pjrtc_client *client, const pjrtc_execute_options *options) {
  size_t kept = 0;
  for (size_t i = 0; i < options->num_outputs; i++)
    if (options->outputs[i]) options->outputs[kept++] = options->outputs[i];
  pjrtc_op_forget_buffers(client, options->outputs, kept);
}

pjrtc_code pjrtc_execute(pjrtc_client *client, const pjrtc_execute_options *options, pjrtc_error *error) {
  pjrtc_execute_options own;
  pjrtc_failure *failure = pjrtc_op_options(&own, sizeof own, options, "pjrtc_execute_options");
  if (!failure) failure = pjrtc_step_check(&own);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_step_clear_outputs(&own);
  failure = pjrtc_op_enter(client, true);
  if (failure) return pjrtc_failure_finish(failure, error);
  pjrtc_future *call;
  failure = start(client, &own, false, &call);
  if (!failure) {
    failure = pjrtc_op_wait(client, call, own.timeout_ns);
    if (failure) pjrtc_step_forget_outputs(client, &own);
  }
  if (failure) pjrtc_step_clear_outputs(&own);
  return pjrtc_op_leave(client, failure, error);
}
