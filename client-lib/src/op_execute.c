/* Execute: the hot path. One call of it allocates nothing once the connection is warm. Any thread. */
#include "execute_codec.h"
#include "method_ids.h"
#include "op_step.h"
#include "operation.h"

static pjrtc_failure *decode(pjrtc_future *call, const uint8_t *payload, size_t payload_bytes, const uint8_t *bulk,
                             size_t bulk_bytes) {
  if (!call->held) return NULL;
  return pjrtc_execute_reply_read(payload, payload_bytes, bulk, bulk_bytes, call->to.execute.fetch,
                                  call->to.execute.num_fetch, call->to.execute.result);
}

/* With the lock. */
static pjrtc_failure *start(pjrtc_client *client, const pjrtc_execute_options *options, bool quiet,
                            pjrtc_future **out_call) {
  pjrtc_request request = {.method = PJRTC_METHOD_execute, .timeout_ns = options->timeout_ns, .quiet = quiet};
  pjrtc_failure *failure = pjrtc_step_begin(client, options, NULL, &request, out_call);
  if (failure) return failure;
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
