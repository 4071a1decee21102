/* Every method of the service with each of its allocations failing: one answer all the same, and nothing is left. */
#include "peer_fixture.h"

TestSuite(failing_allocations, .init = open_service, .fini = close_service, .timeout = 300);

static uint8_t zeros[200000];
static uint64_t calls[64];
static size_t num_calls;

static void note(uint64_t call) {
  calls[num_calls++] = call;
}

/* Until all that was asked is answered. */
static void finish_calls(void) {
  for (size_t i = 0; i < num_calls; i++) {
    uint64_t until_ns = pjrtd_clock_now_ns() + UINT64_C(60000000000);
    while (!count_answers(calls[i]) || client->num_streams) {
      while (client->num_streams) {
        pjrtd_stream *stream = client->streams[--client->num_streams];
        stream->remaining_bytes = 0;
        stream->ended(stream);
      }
      if (count_answers(calls[i])) break;
      turn();
      cr_assert_lt(pjrtd_clock_now_ns(), until_ns, "call %d was not answered", (int)calls[i]);
    }
    cr_assert_eq(count_answers(calls[i]), 1, "call %d has %zu answers", (int)calls[i], count_answers(calls[i]));
  }
  num_calls = 0;
}

static void upload_big(uint64_t id) {
  uint64_t call = begin_upload(id, 50000, (how){0});
  note(call);
  send_item(call, zeros, 100000, 33333);
  send_item(call, zeros, 100000, 33333);
}

/* Arguments by value, with and without an output. */
static void execute_by_value(uint64_t program, uint64_t output) {
  const float data[] = {1, 2};
  Pjrtd__V1__TensorType type = PJRTD__V1__TENSOR_TYPE__INIT;
  type.dtype = PJRTD__V1__DTYPE__DTYPE_F32;
  type.n_dims = 1;
  type.dims = (int64_t[]){2};
  Pjrtd__V1__InlineArgument parts[2] = {PJRTD__V1__INLINE_ARGUMENT__INIT, PJRTD__V1__INLINE_ARGUMENT__INIT};
  parts[1].position = 1;
  parts[0].type = parts[1].type = &type;
  parts[0].data_bytes = 8;
  Pjrtd__V1__InlineArgument *list[] = {&parts[0], &parts[1]};
  parts[1].data_bytes = 8;
  const float both[] = {data[0], data[1], 3, 4};
  Pjrtd__V1__ExecuteRequest message = PJRTD__V1__EXECUTE_REQUEST__INIT;
  message.program = program;
  message.n_args = 2;
  message.args = (uint64_t[]){0, 0};
  message.n_inline_args = 2;
  message.inline_args = list;
  message.n_fetch = 1;
  message.fetch = (uint32_t[]){0};
  message.n_outputs = output ? 1 : 0;
  message.outputs = &output;
  note(request(PJRTD_METHOD_Execute_Execute, &message.base, (how){.bulk = both, .bulk_bytes = sizeof both}));
}

#define TWO_TEXT                                                                                    \
  "module @two { func.func public @main(%a: tensor<2xf32>, %b: tensor<2xf32>) -> tensor<2xf32> {\n" \
  "  %0 = stablehlo.add %a, %b : tensor<2xf32>\n  return %0 : tensor<2xf32> } }\n"

/* The session of an ordinary client, most of it not waiting for the answers. */
static void use_everything(void) {
  note(hello_as(1, 1));
  finish_calls();
  if (!client->peer.greeted) return;
  uint64_t program = ++client->next_program, pair = ++client->next_buffer, big = ++client->next_buffer;
  uint64_t one = ++client->next_program, outputs[8];
  for (int i = 0; i < 8; i++) outputs[i] = ++client->next_buffer;
  const float data[] = {1, 2};
  note(post_upload((upload){pair, PJRTD_DTYPE_F32, 1, {2}, 8}, (how){.bulk = data, .bulk_bytes = 8}));
  note(post_compile(program, TWO_TEXT, (how){.deadline_ns = 60000000000}));
  note(post_compile(one, ADD_TEXT(""), (how){0}));
  note(execute((execution){program, 2, {pair, pair}, 1, {outputs[0]}}, (how){0}));
  note(describe(program));
  finish_calls();
  upload_big(big);
  note(download(big));
  note(stat_buffer(big));
  note(post_sync());
  finish_calls();
  for (int i = 1; i < 4; i++) {
    note(execute((execution){program, 2, {outputs[i - 1], pair}, 1, {outputs[i]}, 1, {0}}, (how){0}));
    finish_calls();
  }
  execute_by_value(program, outputs[4]);
  execute_by_value(program, 0);
  finish_calls();
  note(bind_slot("a", pair, (how){0}));
  note(step_slots((slot_step){one, 0, 0, outputs[5], "a", "a"}, (how){0}));
  note(step_slots((slot_step){one, 5, 2, outputs[6], "a", "a"}, (how){0}));
  note(request(PJRTD_METHOD_Session_Slots, EMPTY_MESSAGE, (how){0}));
  finish_calls();
  note(step_slots((slot_step){one, 0, 0, 0, "a", "b"}, (how){0}));
  note(step_slots((slot_step){one, 3, 0, 0, "b", "b"}, (how){0}));
  note(download(outputs[3]));
  note(execute((execution){99, 1, {pair}, 1, {outputs[7]}}, (how){0}));
  note(download(outputs[7]));
  note(request(PJRTD_METHOD_Runtime_Info, EMPTY_MESSAGE, (how){0}));
  note(request(PJRTD_METHOD_Runtime_Devices, EMPTY_MESSAGE, (how){0}));
  note(request(PJRTD_METHOD_Runtime_Memories, EMPTY_MESSAGE, (how){0}));
  note(request(PJRTD_METHOD_Admin_Stats, EMPTY_MESSAGE, (how){0}));
  note(delete_buffer(big));
  note(request(PJRTD_METHOD_Session_Close, EMPTY_MESSAGE, (how){0}));
  finish_calls();
}

/* A connection from hello to its end; how many allocations that took. */
static int64_t try_with(int64_t successes) {
  clients[1] = (fake_peer){0};
  client = &clients[1];
  pjrtd_peer_init(&client->peer, &fake_transport, runtime, &owner);
  pjrtd_alloc_fail_after(successes);
  use_everything();
  int64_t asked = pjrtd_alloc_fail_after(-1);
  drop_client(client);
  wait_until_idle();
  cr_assert_eq(runtime->stats.calls_in_flight, 0);
  cr_assert_eq(runtime->stats.buffers, 0, "%d buffers are left after failure %d", (int)runtime->stats.buffers,
               (int)successes);
  cr_assert_eq(runtime->stats.programs, 0);
  cr_assert_eq(runtime->stats.staging_bytes, 0);
  cr_assert_eq(runtime->stats.sessions, 1);
  return asked;
}

Test(failing_allocations, leave_one_answer_for_each_request_and_nothing_behind) {
  settings.loop_execute_us = 1000000;
  int64_t all = try_with(INT32_MAX);
  cr_assert_gt(all, 80);
  /* How many there are depends on threads a little. */
  for (int64_t successes = 0; successes < all + 5; successes++) try_with(successes);
  client = &clients[0];
  check_pair(make_pair(1, 2), 1, 2);
}
