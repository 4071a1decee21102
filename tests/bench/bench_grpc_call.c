/* See bench_grpc_call.h. */
#include "bench_grpc_call.h"

#include <grpc/byte_buffer_reader.h>
#include <grpc/grpc_security.h>
#include <grpc/support/alloc.h>
#include <grpc/support/time.h>

#include "bench_slice.h"

static void *const tag = (void *)1;

void bench_grpc_connect(bench_grpc_client *client, const char *address) {
  grpc_init();
  client->queue = grpc_completion_queue_create_for_pluck(NULL);
  grpc_channel_credentials *plaintext = grpc_insecure_credentials_create();
  client->channel = grpc_channel_create(address, plaintext, NULL);
  grpc_channel_credentials_release(plaintext);
}

static void perform(const bench_grpc_client *client, grpc_call *call, const grpc_op *ops, size_t count) {
  if (grpc_call_start_batch(call, ops, count, tag, NULL) != GRPC_CALL_OK) bench_fail("gRPC refused a batch");
  grpc_event event = grpc_completion_queue_pluck(client->queue, tag, gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
  if (event.type != GRPC_OP_COMPLETE || !event.success) bench_fail("a gRPC operation failed");
}

static grpc_slice bytes_of(grpc_byte_buffer *message) {
  grpc_byte_buffer_reader reader;
  if (!message || !grpc_byte_buffer_reader_init(&reader, message)) bench_fail("no answer came");
  grpc_slice bytes = grpc_byte_buffer_reader_readall(&reader);
  grpc_byte_buffer_reader_destroy(&reader);
  grpc_byte_buffer_destroy(message);
  return bytes;
}

static grpc_call *new_call(const bench_grpc_client *client, void *method) {
  return grpc_channel_create_registered_call(client->channel, NULL, GRPC_PROPAGATE_DEFAULTS, client->queue, method,
                                             gpr_inf_future(GPR_CLOCK_REALTIME), NULL);
}

grpc_slice bench_grpc_unary(const bench_grpc_client *client, void *method, grpc_slice request) {
  grpc_call *call = new_call(client, method);
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&request, 1), *answer = NULL;
  grpc_metadata_array initial, trailing;
  grpc_metadata_array_init(&initial);
  grpc_metadata_array_init(&trailing);
  grpc_status_code status;
  grpc_slice details;
  grpc_metadata session;
  grpc_op ops[6] = {
      {.op = GRPC_OP_SEND_INITIAL_METADATA},
      {.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message},
      {.op = GRPC_OP_SEND_CLOSE_FROM_CLIENT},
      {.op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &initial},
      {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &answer},
      {.op = GRPC_OP_RECV_STATUS_ON_CLIENT,
       .data.recv_status_on_client = {.trailing_metadata = &trailing, .status = &status, .status_details = &details}}};
  if (client->session) {
    session = (grpc_metadata){.key = grpc_slice_from_static_string("pjrtd-session"),
                              .value = grpc_slice_from_static_string(client->session)};
    ops[0].data.send_initial_metadata.count = 1;
    ops[0].data.send_initial_metadata.metadata = &session;
  }
  perform(client, call, ops, 6);
  if (status != GRPC_STATUS_OK) bench_fail("status %d: %s", (int)status, grpc_slice_to_c_string(details));
  grpc_byte_buffer_destroy(message);
  grpc_metadata_array_destroy(&initial);
  grpc_metadata_array_destroy(&trailing);
  grpc_slice_unref(details);
  grpc_call_unref(call);
  return bytes_of(answer);
}

grpc_call *bench_grpc_open_stream(const bench_grpc_client *client, void *method) {
  grpc_call *call = new_call(client, method);
  static grpc_metadata_array initial;
  grpc_metadata_array_init(&initial);
  const grpc_op ops[] = {
      {.op = GRPC_OP_SEND_INITIAL_METADATA},
      {.op = GRPC_OP_RECV_INITIAL_METADATA, .data.recv_initial_metadata.recv_initial_metadata = &initial}};
  perform(client, call, ops, 2);
  return call;
}

void bench_grpc_exchange(const bench_grpc_client *client, grpc_call *stream, grpc_slice request) {
  grpc_byte_buffer *message = grpc_raw_byte_buffer_create(&request, 1), *answer = NULL;
  const grpc_op ops[] = {{.op = GRPC_OP_SEND_MESSAGE, .data.send_message.send_message = message},
                         {.op = GRPC_OP_RECV_MESSAGE, .data.recv_message.recv_message = &answer}};
  perform(client, stream, ops, 2);
  grpc_byte_buffer_destroy(message);
  grpc_slice_unref(bytes_of(answer));
}
