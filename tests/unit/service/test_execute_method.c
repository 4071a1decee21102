/* service/execute_method.c and execute_work.c. */
#include "peer_fixture.h"

TestSuite(execute_method, .init = open_service, .fini = close_service, .timeout = 120);

static uint8_t zeros[1 << 20];

/* Runs a program until the loop may run it itself. */
static void warm_up(uint64_t program, uint64_t argument) {
  settings.loop_execute_us = 1000000; /* whatever a busy machine measures */
  for (int i = 0; i < 3; i++) succeed(execute((execution){program, 1, {argument}}, (how){0}));
  cr_assert_gt(runtime->stats.executes_on_loop, 0);
}

Test(execute_method, runs_the_first_time_on_the_lane_and_then_where_it_is_quick) {
  uint64_t program = make_program(ADD_TEXT("")), id = make_pair(1, 2);
  uint64_t output = ++client->next_buffer;
  succeed(execute((execution){program, 1, {id}, 1, {output}}, (how){0}));
  cr_assert_eq(runtime->stats.executes_on_lane, 1);
  cr_assert_eq(runtime->stats.executes_on_loop, 0);
  check_pair(output, 2, 4);
  settings.loop_execute_us = 1000000;
  output = ++client->next_buffer;
  uint64_t call = post_execute((execution){program, 1, {id}, 1, {output}}, (how){0});
  cr_assert_eq(count_answers(call), 1, "it was answered before the request returned");
  cr_assert_eq(runtime->stats.executes_on_loop, 1);
  check_pair(output, 2, 4);
  settings.loop_execute_us = 0;
  succeed(execute((execution){program, 1, {id}}, (how){0}));
  cr_assert_eq(runtime->stats.executes_on_lane, 2);
}

Test(execute_method, never_runs_on_the_loop_what_could_loop) {
  settings.loop_execute_us = 1000000;
  uint64_t program = make_program(COUNT_DOWN_TEXT), rounds = make_rounds(1);
  for (int i = 0; i < 4; i++) succeed(execute((execution){program, 1, {rounds}}, (how){0}));
  cr_assert_eq(runtime->stats.executes_on_lane, 4);
  cr_assert_eq(runtime->stats.executes_on_loop, 0);
}

Test(execute_method, can_be_sent_with_all_that_it_needs_in_one_go) {
  const float data[] = {1, 2};
  uint64_t program = ++client->next_program, id = ++client->next_buffer;
  post_compile(program, ADD_TEXT(""), (how){.quiet = true});
  post_upload((upload){id, PJRTD_DTYPE_F32, 1, {2}, 8}, (how){.bulk = data, .bulk_bytes = 8, .quiet = true});
  uint64_t last = id;
  for (int i = 0; i < 10; i++) {
    uint64_t next = ++client->next_buffer;
    post_execute((execution){program, 1, {last}, 1, {next}}, (how){.quiet = true});
    last = next;
  }
  check_pair(last, 1024, 2048);
}

static recorded *fetch(uint64_t program, uint64_t argument, how how) {
  recorded *frame = answer(execute((execution){program, 1, {argument}, 0, {0}, 1, {0}}, how));
  cr_assert_eq(frame->header.kind, PJRTD_FRAME_REPLY);
  return frame;
}

Test(execute_method, brings_results_in_the_reply_from_the_lane_and_from_the_loop) {
  uint64_t program = make_program(ADD_TEXT("")), id = make_pair(3, 4);
  settings.loop_execute_us = 1000000;
  for (int i = 0; i < 4; i++) {
    recorded *frame = fetch(program, id, (how){0});
    float values[2];
    cr_assert_eq(frame->header.bulk_bytes, 8);
    memcpy(values, frame->bulk, 8);
    cr_assert_eq(values[0], 6);
    cr_assert_eq(values[1], 8);
    Pjrtd__V1__ExecuteReply *message =
        pjrtd__v1__execute_reply__unpack(NULL, frame->header.payload_bytes, frame->payload);
    cr_assert_eq(message->n_fetched, 1);
    cr_assert_eq(message->fetched[0]->data_bytes, 8);
    cr_assert_eq(message->n_consumed, 0);
    pjrtd__v1__execute_reply__free_unpacked(message, NULL);
  }
  cr_assert_gt(runtime->stats.executes_on_loop, 0);
}

/* Results that the host cannot read in place. */
Test(execute_method, brings_packed_results_in_the_reply_too) {
  uint64_t program = make_program(
      "module @m { func.func public @main(%a: tensor<2xf32>) -> tensor<2xi4> {\n"
      "  %0 = stablehlo.convert %a : (tensor<2xf32>) -> tensor<2xi4>\n  return %0 : tensor<2xi4> } }\n");
  uint64_t id = make_pair(1, -2);
  settings.loop_execute_us = 1000000;
  for (int i = 0; i < 5; i++) {
    recorded *frame = fetch(program, id, (how){0});
    cr_assert_eq(frame->header.bulk_bytes, 2);
    cr_assert_eq((int8_t)frame->bulk[0], 1);
    cr_assert_eq((int8_t)frame->bulk[1], -2);
  }
  wait_until_idle();
  cr_assert_eq(runtime->stats.buffers, 1);
}

Test(execute_method, refuses_what_one_reply_cannot_carry_or_is_not_there) {
  uint64_t program = make_program(
      "module @m { func.func public @main(%a: tensor<2xf32>) -> tensor<20000x2xf32> {\n"
      "  %0 = stablehlo.broadcast_in_dim %a, dims = [1] : (tensor<2xf32>) -> tensor<20000x2xf32>\n"
      "  return %0 : tensor<20000x2xf32> } }\n");
  uint64_t id = make_pair(1, 2);
  fails(execute((execution){program, 1, {id}, 0, {0}, 1, {0}}, (how){0}), PJRTD_CODE_INVALID_ARGUMENT, "cannot carry",
        0);
  fails(execute((execution){program, 1, {id}, 0, {0}, 1, {1}}, (how){0}), PJRTD_CODE_INVALID_ARGUMENT,
        "output 1 is to be fetched", 0);
  succeed(execute((execution){program, 1, {id}}, (how){0}));
}

/* ---- donation ---- */

Test(execute_method, waits_for_earlier_readers_before_it_consumes) {
  uint64_t program = make_program(ADD_TEXT(DONATED)), big = ++client->next_buffer;
  uint64_t big_program = make_program(
      "module @m { func.func public @main(%a: tensor<100000xf32> {tf.aliasing_output = 0 : i32}) -> "
      "tensor<100000xf32> {\n  %0 = stablehlo.add %a, %a : tensor<100000xf32>\n  return %0 : tensor<100000xf32> } }\n");
  uint64_t uploading = begin_upload(big, 100000, (how){0});
  cr_assert(send_item(uploading, zeros, 400000, 400000));
  succeed(uploading);
  uint64_t reading = download(big);
  cr_assert_eq(client->num_streams, 1);
  uint64_t output = ++client->next_buffer;
  uint64_t consuming = execute((execution){big_program, 1, {big}, 1, {output}}, (how){0});
  uint64_t after = stat_buffer(big);
  for (int i = 0; i < 20; i++) {
    turn();
    usleep(1000);
  }
  is_silent(consuming);
  is_silent(after);
  pjrtd_stream *stream = client->streams[--client->num_streams];
  stream->remaining_bytes = 0;
  stream->ended(stream);
  succeed(consuming);
  Pjrtd__V1__StatReply *stat = reply(after, &pjrtd__v1__stat_reply__descriptor);
  cr_assert(stat->is_deleted);
  free_reply(stat);
  succeed(reading);
  (void)program;
}

Test(execute_method, says_what_it_consumed_on_the_lane_and_on_the_loop) {
  uint64_t program = make_program(ADD_TEXT(DONATED));
  settings.loop_execute_us = 1000000;
  for (int i = 0; i < 4; i++) {
    uint64_t id = make_pair(1, 2), output = ++client->next_buffer;
    Pjrtd__V1__ExecuteReply *message =
        reply(execute((execution){program, 1, {id}, 1, {output}}, (how){0}), &pjrtd__v1__execute_reply__descriptor);
    cr_assert_eq(message->n_consumed, 1);
    cr_assert_eq(message->consumed[0], 0);
    free_reply(message);
    fails(execute((execution){program, 1, {id}}, (how){0}), PJRTD_CODE_INVALID_ARGUMENT, "was donated", 0);
    check_pair(output, 2, 4);
  }
  cr_assert_gt(runtime->stats.executes_on_loop, 0);
}

#define TWO_TEXT                                                                                              \
  "module @two { func.func public @main(%a: tensor<2xf32> {tf.aliasing_output = 0 : i32}, %b: tensor<2xf32>)" \
  " -> tensor<2xf32> {\n  %0 = stablehlo.add %a, %b : tensor<2xf32>\n  return %0 : tensor<2xf32> } }\n"

Test(execute_method, refuses_a_donated_buffer_that_is_named_twice_and_leaves_it_alive) {
  uint64_t program = make_program(TWO_TEXT), id = make_pair(1, 2), other = make_pair(10, 20);
  settings.loop_execute_us = 1000000;
  for (int i = 0; i < 3; i++) {
    fails(execute((execution){program, 2, {id, id}}, (how){0}), PJRTD_CODE_INVALID_ARGUMENT, "argument 0 is donated",
          0);
    check_pair(id, 1, 2);
    uint64_t output = ++client->next_buffer, argument = make_pair(1, 2);
    output = ++client->next_buffer;
    succeed(execute((execution){program, 2, {argument, other}, 1, {output}}, (how){0}));
    check_pair(output, 11, 22);
  }
}

/* ---- refusals leave the arguments alive and poison the outputs ---- */

static void refused(execution what, pjrtd_code code, const char *piece) {
  what.n_outputs = 1;
  what.outputs[0] = ++client->next_buffer;
  uint64_t call = execute(what, (how){0});
  fails(call, code, piece, call);
  fails(download(what.outputs[0]), code, piece, call);
}

static void refuses_all(uint64_t program, uint64_t id) {
  uint64_t other_type = ++client->next_buffer;
  const int32_t integers[] = {1, 2};
  succeed(post_upload((upload){other_type, PJRTD_DTYPE_S32, 1, {2}, 8}, (how){.bulk = integers, .bulk_bytes = 8}));
  uint64_t other_shape = ++client->next_buffer;
  succeed(post_upload((upload){other_shape, PJRTD_DTYPE_F32, 2, {1, 2}, 8}, (how){.bulk = integers, .bulk_bytes = 8}));
  refused((execution){program}, PJRTD_CODE_INVALID_ARGUMENT, "supplied 0 arguments, expected 1");
  refused((execution){program, 2, {id, id}}, PJRTD_CODE_INVALID_ARGUMENT, "supplied 2 arguments");
  refused((execution){program, 1, {other_type}}, PJRTD_CODE_INVALID_ARGUMENT, "must be f32[2], not s32[2]");
  refused((execution){program, 1, {other_shape}}, PJRTD_CODE_INVALID_ARGUMENT, "must be f32[2], not f32[1,2]");
  refused((execution){program, 1, {4000}}, PJRTD_CODE_NOT_FOUND, "argument 0: this session has no buffer 4000");
  refused((execution){program + 50, 1, {id}}, PJRTD_CODE_NOT_FOUND, "no program");
  refused((execution){program, 1, {0}}, PJRTD_CODE_INVALID_ARGUMENT, "inline");
  uint64_t outputs[] = {client->next_buffer + 1, client->next_buffer + 2};
  client->next_buffer += 2;
  uint64_t call = execute((execution){program, 1, {id}, 2, {outputs[0], outputs[1]}}, (how){0});
  fails(call, PJRTD_CODE_INVALID_ARGUMENT, "2 output ids, it has 1 outputs", call);
  for (int i = 0; i < 2; i++) fails(download(outputs[i]), PJRTD_CODE_INVALID_ARGUMENT, "2 output ids", call);
  check_pair(id, 1, 2);
}

Test(execute_method, refuses_what_does_not_fit_the_program_on_the_lane_and_on_the_loop) {
  uint64_t program = make_program(ADD_TEXT("")), id = make_pair(1, 2);
  refuses_all(program, id);
  warm_up(program, id);
  refuses_all(program, id);
}

Test(execute_method, refuses_a_buffer_of_another_device) {
  const pjrtd_client_info *info = pjrtd_client_get_info(runtime->client);
  uint64_t program = make_program(ADD_TEXT(""));
  Pjrtd__V1__TensorType type = PJRTD__V1__TENSOR_TYPE__INIT;
  type.dtype = PJRTD__V1__DTYPE__DTYPE_F32;
  type.n_dims = 1;
  type.dims = (int64_t[]){2};
  Pjrtd__V1__UploadRequest message = PJRTD__V1__UPLOAD_REQUEST__INIT;
  message.buffer = ++client->next_buffer;
  message.type = &type;
  message.data_bytes = 8;
  message.placement_case = PJRTD__V1__UPLOAD_REQUEST__PLACEMENT_DEVICE;
  message.device = info->devices[1].id;
  succeed(request(PJRTD_METHOD_Buffer_Upload, &message.base, (how){.bulk = zeros, .bulk_bytes = 8}));
  refused((execution){program, 1, {message.buffer}}, PJRTD_CODE_INVALID_ARGUMENT,
          "must be on device 0, not on device 1");
}

Test(execute_method, names_every_output_that_can_be_named_before_it_fails) {
  uint64_t program = make_program(ADD_TEXT("")), id = make_pair(1, 2);
  uint64_t good = client->next_buffer + 5, taken = client->next_buffer, later = good + 1;
  client->next_buffer = later;
  uint64_t call = execute((execution){program, 1, {id}, 3, {good, taken, later}}, (how){0});
  fails(call, PJRTD_CODE_INVALID_ARGUMENT, "is not above", call);
  fails(download(good), PJRTD_CODE_INVALID_ARGUMENT, "is not above", call);
  fails(download(later), PJRTD_CODE_INVALID_ARGUMENT, "is not above", call);
  check_pair(id, 1, 2);
}

Test(execute_method, hands_the_first_error_down_a_chain_with_the_call_that_made_it) {
  uint64_t program = make_program(ADD_TEXT("")), first = ++client->next_buffer;
  uint64_t uploading = begin_upload(first, 25000, (how){0});
  uint64_t calls[5], last = first;
  for (int i = 0; i < 5; i++) {
    uint64_t next = ++client->next_buffer;
    calls[i] = execute((execution){program, 1, {last}, 1, {next}}, (how){0});
    last = next;
  }
  cancel(uploading);
  for (int i = 0; i < 5; i++) fails(calls[i], PJRTD_CODE_CANCELLED, "the client cancelled", uploading);
  fails(download(last), PJRTD_CODE_CANCELLED, "the client cancelled", uploading);
}

Test(execute_method, fails_with_the_error_of_its_program) {
  uint64_t program = ++client->next_program, id = make_pair(1, 2), output = ++client->next_buffer;
  uint64_t compiling = post_compile(program, "this is no program", (how){0});
  uint64_t running = execute((execution){program, 1, {id}, 1, {output}}, (how){0});
  fails(compiling, PJRTD_CODE_INVALID_ARGUMENT, "", compiling);
  fails(running, PJRTD_CODE_INVALID_ARGUMENT, "", compiling);
  fails(download(output), PJRTD_CODE_INVALID_ARGUMENT, "", compiling);
  fails(describe(program), PJRTD_CODE_INVALID_ARGUMENT, "", compiling);
  check_pair(id, 1, 2);
}

Test(execute_method, refuses_a_program_whose_results_have_no_room) {
  uint64_t program = make_program(ADD_TEXT("")), id = make_pair(1, 2);
  runtime->memory_limit_bytes = 12;
  refused((execution){program, 1, {id}}, PJRTD_CODE_RESOURCE_EXHAUSTED, "the program's output needs 8 bytes");
}

/* ---- inline arguments ---- */

typedef struct {
  uint32_t position;
  int64_t elements;
  uint64_t data_bytes;
} inline_part;

static uint64_t execute_inline(uint64_t program, size_t n_args, uint64_t *args, size_t count, const inline_part *parts,
                               const void *data, uint32_t bytes) {
  Pjrtd__V1__InlineArgument *messages = calloc(count + 1, sizeof *messages), **list = calloc(count + 1, sizeof *list);
  Pjrtd__V1__TensorType *types = calloc(count + 1, sizeof *types);
  for (size_t i = 0; i < count; i++) {
    pjrtd__v1__inline_argument__init(&messages[i]);
    pjrtd__v1__tensor_type__init(&types[i]);
    types[i].dtype = PJRTD__V1__DTYPE__DTYPE_F32;
    types[i].n_dims = 1;
    types[i].dims = (int64_t *)&parts[i].elements;
    messages[i].position = parts[i].position;
    messages[i].type = &types[i];
    messages[i].data_bytes = parts[i].data_bytes;
    list[i] = &messages[i];
  }
  Pjrtd__V1__ExecuteRequest message = PJRTD__V1__EXECUTE_REQUEST__INIT;
  message.program = program;
  message.n_args = n_args;
  message.args = args;
  message.n_inline_args = count;
  message.inline_args = list;
  uint32_t first = 0;
  message.n_fetch = 1;
  message.fetch = &first;
  uint64_t call = request(PJRTD_METHOD_Execute_Execute, &message.base, (how){.bulk = data, .bulk_bytes = bytes});
  free(messages);
  free(list);
  free(types);
  return call;
}

static void fetched(uint64_t call, float first, float second) {
  recorded *frame = answer(call);
  if (frame->header.kind != PJRTD_FRAME_REPLY) succeed(call);
  float values[2];
  cr_assert_eq(frame->header.bulk_bytes, 8);
  memcpy(values, frame->bulk, 8);
  cr_assert_eq(values[0], first, "%g", (double)values[0]);
  cr_assert_eq(values[1], second, "%g", (double)values[1]);
}

Test(execute_method, takes_arguments_by_value_among_those_by_id) {
  uint64_t program = make_program(TWO_TEXT), id = make_pair(10, 20);
  const float data[] = {1, 2, 3, 4};
  settings.loop_execute_us = 1000000;
  for (int i = 0; i < 4; i++) {
    fetched(execute_inline(program, 2, (uint64_t[]){0, id}, 1, (inline_part[]){{0, 2, 8}}, data, 8), 11, 22);
    fetched(execute_inline(program, 2, (uint64_t[]){0, 0}, 2, (inline_part[]){{0, 2, 8}, {1, 2, 8}}, data, 16), 4, 6);
  }
  cr_assert_gt(runtime->stats.executes_on_loop, 0);
  wait_until_idle();
  cr_assert_eq(runtime->stats.buffers, 1);
}

Test(execute_method, takes_many_arguments_by_value) {
  /* More than lie on the stack. */
  enum { MANY = 100 };
  char *text = malloc(MANY * 100 + 1000);
  char *at = text + sprintf(text, "module @many { func.func public @main(");
  for (int i = 0; i < MANY; i++) at += sprintf(at, "%s%%a%d: tensor<2xf32>", i ? ", " : "", i);
  at += sprintf(at, ") -> tensor<2xf32> {\n");
  for (int i = 1; i < MANY; i++) {
    char before[16];
    sprintf(before, i == 1 ? "%%a0" : "%%s%d", i - 1);
    at += sprintf(at, "  %%s%d = stablehlo.add %s, %%a%d : tensor<2xf32>\n", i, before, i);
  }
  sprintf(at, "  return %%s%d : tensor<2xf32> } }\n", MANY - 1);
  uint64_t program = make_program(text), args[MANY] = {0};
  inline_part parts[MANY];
  float data[MANY * 2];
  for (int i = 0; i < MANY; i++) {
    parts[i] = (inline_part){(uint32_t)i, 2, 8};
    data[2 * i] = 1;
    data[2 * i + 1] = (float)i;
  }
  settings.loop_execute_us = 1000000;
  for (int i = 0; i < 3; i++)
    fetched(execute_inline(program, MANY, args, MANY, parts, data, sizeof data), MANY, MANY * (MANY - 1) / 2);
  free(text);
}

Test(execute_method, refuses_arguments_by_value_that_do_not_fit_together) {
  uint64_t program = make_program(TWO_TEXT), id = make_pair(10, 20), zeros_and_id[] = {0, id}, two_zeros[] = {0, 0};
  static const struct {
    bool both;
    size_t count;
    inline_part parts[2];
    uint32_t bytes;
    const char *piece;
  } cases[] = {
      {false, 0, {{0}}, 0, "1 arguments are 0, but there are 0 inline"},
      {false, 0, {{0}}, 8, "8 bulk bytes came"},
      {false, 1, {{1, 2, 8}}, 8, "is for position 1, where no 0 stands"},
      {false, 1, {{2, 2, 8}}, 8, "is for position 2, where no 0 stands"},
      {false, 1, {{UINT32_MAX, 2, 8}}, 8, "where no 0 stands"},
      {false, 1, {{0, 2, 8}}, 7, "more bytes than the 7"},
      {false, 1, {{0, 2, 8}}, 9, "9 bulk bytes came"},
      {false, 1, {{0, 2, 7}}, 7, "takes 8 bytes, data_bytes is 7"},
      {false, 1, {{0, 3, 12}}, 12, "must be f32[2], not f32[3]"},
      {false, 1, {{0, -1, 12}}, 12, "inline"},
      {false, 1, {{0, INT64_MAX, UINT64_MAX}}, 8, "inline"},
      {true, 2, {{1, 2, 8}, {0, 2, 8}}, 16, "positions must increase"},
      {true, 2, {{0, 2, 8}, {0, 2, 8}}, 16, "positions must increase"},
      {true, 1, {{0, 2, 8}}, 8, "2 arguments are 0, but there are 1 inline"},
      {true, 2, {{0, 2, 8}, {1, 2, 8}}, 8, "more bytes than the 8"},
  };
  const float data[4] = {1, 2, 3, 4};
  settings.loop_execute_us = 1000000;
  for (int round = 0; round < 2; round++) {
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
      fails(execute_inline(program, 2, cases[i].both ? two_zeros : zeros_and_id, cases[i].count, cases[i].parts, data,
                           cases[i].bytes),
            PJRTD_CODE_INVALID_ARGUMENT, cases[i].piece, 0);
    for (int i = 0; i < 3; i++)
      fetched(execute_inline(program, 2, zeros_and_id, 1, (inline_part[]){{0, 2, 8}}, data, 8), 11, 22);
  }
}

Test(execute_method, refuses_more_ids_than_a_request_may_have) {
  uint64_t program = make_program(ADD_TEXT(""));
  enum { MANY = 70000 };
  uint64_t *ids = calloc(MANY, sizeof *ids);
  fails(execute_inline(program, MANY, ids, 0, NULL, NULL, 0), PJRTD_CODE_INVALID_ARGUMENT, "at most", 0);
  free(ids);
}

/* ---- many results ---- */

Test(execute_method, keeps_those_of_hundreds_of_results_that_have_an_id) {
  enum { MANY = 200 };
  char *text = malloc(MANY * 300 + 1000), *at = text;
  at += sprintf(at, "module @m { func.func public @main(%%a: tensor<2xf32>) -> (");
  for (int i = 0; i < MANY; i++) at += sprintf(at, "%stensor<2xf32>", i ? ", " : "");
  at += sprintf(at, ") {\n");
  for (int i = 0; i < MANY; i++)
    at += sprintf(at,
                  "  %%c%d = stablehlo.constant dense<%d.0> : tensor<2xf32>\n"
                  "  %%s%d = stablehlo.add %%a, %%c%d : tensor<2xf32>\n",
                  i, i, i, i);
  at += sprintf(at, "  return ");
  for (int i = 0; i < MANY; i++) at += sprintf(at, "%s%%s%d", i ? ", " : "", i);
  at += sprintf(at, " : ");
  for (int i = 0; i < MANY; i++) at += sprintf(at, "%stensor<2xf32>", i ? ", " : "");
  sprintf(at, " } }\n");
  uint64_t program = make_program(text), id = make_pair(1, 2);
  uint64_t outputs[MANY];
  for (int i = 0; i < MANY; i++) outputs[i] = i % 3 ? ++client->next_buffer : 0;
  Pjrtd__V1__ExecuteRequest message = PJRTD__V1__EXECUTE_REQUEST__INIT;
  message.program = program;
  message.args = &id;
  message.n_args = 1;
  message.outputs = outputs;
  message.n_outputs = MANY;
  message.fetch = (uint32_t[]){199, 0, 150};
  message.n_fetch = 3;
  recorded *frame = answer(request(PJRTD_METHOD_Execute_Execute, &message.base, (how){0}));
  cr_assert_eq(frame->header.kind, PJRTD_FRAME_REPLY);
  float values[6];
  cr_assert_eq(frame->header.bulk_bytes, sizeof values);
  memcpy(values, frame->bulk, sizeof values);
  static const float expected[] = {200, 201, 1, 2, 151, 152};
  for (int i = 0; i < 6; i++) cr_assert_eq(values[i], expected[i]);
  for (int i = 0; i < MANY; i += 50)
    if (outputs[i]) check_pair(outputs[i], (float)i + 1, (float)i + 2);
  wait_until_idle();
  cr_assert_eq(runtime->stats.buffers, 1 + 133);
  free(text);
}

/* ---- several devices ---- */

static uint64_t upload_pair_on(int device, float first, float second) {
  const float values[] = {first, second};
  Pjrtd__V1__TensorType type = PJRTD__V1__TENSOR_TYPE__INIT;
  type.dtype = PJRTD__V1__DTYPE__DTYPE_F32;
  type.n_dims = 1;
  type.dims = (int64_t[]){2};
  Pjrtd__V1__UploadRequest message = PJRTD__V1__UPLOAD_REQUEST__INIT;
  message.buffer = ++client->next_buffer;
  message.type = &type;
  message.data_bytes = 8;
  message.placement_case = PJRTD__V1__UPLOAD_REQUEST__PLACEMENT_DEVICE;
  message.device = device;
  succeed(request(PJRTD_METHOD_Buffer_Upload, &message.base, (how){.bulk = values, .bulk_bytes = 8}));
  return message.buffer;
}

Test(execute_method, runs_on_several_devices_with_lists_that_are_device_major) {
  static const char text[] =
      "module @two { func.func public @main(%a: tensor<2xf32>, %b: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {\n"
      "  %0 = stablehlo.add %a, %b : tensor<2xf32>\n  %1 = stablehlo.multiply %a, %b : tensor<2xf32>\n"
      "  return %0, %1 : tensor<2xf32>, tensor<2xf32> } }\n";
  Pjrtd__V1__CompileOptions options = PJRTD__V1__COMPILE_OPTIONS__INIT;
  options.num_replicas = 2;
  Pjrtd__V1__CompileRequest compile_message = PJRTD__V1__COMPILE_REQUEST__INIT;
  compile_message.program = ++client->next_program;
  compile_message.code_bytes = strlen(text);
  compile_message.options = &options;
  Pjrtd__V1__CompileReply *compiled = reply(request(PJRTD_METHOD_Program_Compile, &compile_message.base,
                                                    (how){.bulk = text, .bulk_bytes = (uint32_t)strlen(text)}),
                                            &pjrtd__v1__compile_reply__descriptor);
  cr_assert_eq(compiled->description->n_devices, 2);
  int devices[] = {compiled->description->devices[0], compiled->description->devices[1]};
  free_reply(compiled);
  uint64_t args[4];
  for (int i = 0; i < 4; i++) args[i] = upload_pair_on(devices[i / 2], (float)i + 1, (float)i + 10);
  settings.loop_execute_us = 1000000;
  for (int round = 0; round < 3; round++) {
    uint64_t first = client->next_buffer + 1;
    client->next_buffer += 3;
    /* The second device's sum is not kept, but fetched. */
    uint64_t call = execute((execution){compile_message.program,
                                        4,
                                        {args[0], args[1], args[2], args[3]},
                                        4,
                                        {first, first + 1, 0, first + 2},
                                        1,
                                        {2}},
                            (how){0});
    recorded *frame = answer(call);
    if (frame->header.kind != PJRTD_FRAME_REPLY) succeed(call);
    float values[2];
    memcpy(values, frame->bulk, 8);
    cr_assert_eq(values[0], 7);
    cr_assert_eq(values[1], 25);
    check_pair(first, 3, 21);
    check_pair(first + 1, 2, 110);
    check_pair(first + 2, 12, 156);
  }
  cr_assert_eq(runtime->stats.executes_on_loop, 0);
  uint64_t swapped = execute((execution){compile_message.program, 4, {args[2], args[1], args[0], args[3]}}, (how){0});
  fails(swapped, PJRTD_CODE_INVALID_ARGUMENT, "argument 0 of device", swapped);
  uint64_t few = execute((execution){compile_message.program, 2, {args[0], args[1]}}, (how){0});
  fails(few, PJRTD_CODE_INVALID_ARGUMENT, "supplied 2 arguments, expected 4", few);
}
