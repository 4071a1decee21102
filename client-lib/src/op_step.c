/* See op_step.h. */
#include "op_step.h"

#include <string.h>

#include "operation.h"
#include "run_codec.h"

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

static void name_outputs(pjrtc_client *client, const pjrtc_execute_options *options) {
  for (size_t i = 0; i < options->num_outputs; i++)
    options->outputs[i] = !options->keep || options->keep[i] ? client->next_buffer++ : 0;
}

pjrtc_failure *pjrtc_step_begin(pjrtc_client *client, const pjrtc_execute_options *step, const pjrtc_run_options *run,
                                pjrtc_request *request, pjrtc_future **out_call) {
  *out_call = NULL;
  pjrtc_failure *failure = pjrtc_execute_request_check(step, run, client->hello.max_inline_bytes, &request->bulk_bytes);
  if (failure) return failure;
  uint64_t first_buffer = client->next_buffer;
  uint8_t *payload;
  name_outputs(client, step);
  request->payload_bytes = run ? pjrtc_run_request_size(run) : pjrtc_execute_request_size(step);
  failure = pjrtc_call_begin(client, request, out_call, &payload);
  if (failure) {
    client->next_buffer = first_buffer;
    return failure;
  }
  uint8_t *data = run ? pjrtc_run_request_write(run, payload) : pjrtc_execute_request_write(step, payload);
  pjrtc_execute_request_write_data(step, data);
  return NULL;
}

void pjrtc_step_clear_outputs(const pjrtc_execute_options *options) {
  if (options->num_outputs) memset(options->outputs, 0, options->num_outputs * sizeof *options->outputs);
}

void pjrtc_step_forget_outputs(pjrtc_client *client, const pjrtc_execute_options *options) {
  size_t kept = 0;
  for (size_t i = 0; i < options->num_outputs; i++)
    if (options->outputs[i]) options->outputs[kept++] = options->outputs[i];
  pjrtc_op_forget_buffers(client, options->outputs, kept);
}
