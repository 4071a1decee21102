/* libpjrtc against a running pjrtd on the real CPU plugin: every operation of the public header, and what the two must
 * agree on. The target is PJRTD_TARGET's. A plain program: prints what failed, and ends with 1. */
#include <math.h>
#include <pjrtc/pjrtc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static pjrtc_client *client;
static pjrtc_error error = PJRTC_ERROR_INIT;
static int checks;

#define CHECK(condition)                                                                              \
  do {                                                                                                \
    checks++;                                                                                         \
    if (!(condition)) {                                                                               \
      fprintf(stderr, "%s:%d: %s does not hold; last error %s: %s\n", __FILE__, __LINE__, #condition, \
              pjrtc_code_name(error.code), error.message);                                            \
      exit(1);                                                                                        \
    }                                                                                                 \
  } while (0)
#define OK(call) CHECK((call) == PJRTC_OK)

static const char add_text[] =
    "func.func @main(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<f32>) {\n"
    "  %sum = stablehlo.add %x, %y : tensor<4xf32>\n"
    "  %zero = stablehlo.constant dense<0.0> : tensor<f32>\n"
    "  %all = stablehlo.reduce(%sum init: %zero) applies stablehlo.add across dimensions = [0]\n"
    "      : (tensor<4xf32>, tensor<f32>) -> tensor<f32>\n"
    "  return %sum, %all : tensor<4xf32>, tensor<f32>\n"
    "}\n";
static const char donate_text[] =
    "func.func @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}) -> tensor<4xf32> {\n"
    "  %y = stablehlo.add %x, %x : tensor<4xf32>\n"
    "  return %y : tensor<4xf32>\n"
    "}\n";
/* Ends for what is negative only. */
static const char endless_text[] =
    "func.func @main(%x: tensor<i32>) -> tensor<i32> {\n"
    "  %zero = stablehlo.constant dense<0> : tensor<i32>\n"
    "  %one = stablehlo.constant dense<1> : tensor<i32>\n"
    "  %end = stablehlo.while(%i = %x) : tensor<i32>\n"
    "  cond {\n"
    "    %go = stablehlo.compare GE, %i, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>\n"
    "    stablehlo.return %go : tensor<i1>\n"
    "  } do {\n"
    "    %next = stablehlo.xor %i, %one : tensor<i32>\n"
    "    stablehlo.return %next : tensor<i32>\n"
    "  }\n"
    "  return %end : tensor<i32>\n"
    "}\n";

static const int64_t four[] = {4};
static float ones[4] = {1, 2, 3, 4}, tens[4] = {10, 20, 30, 40};

static uint64_t compile(const char *text) {
  pjrtc_compile_options options = {.struct_size = sizeof options, .code = text, .code_bytes = strlen(text)};
  uint64_t program;
  OK(pjrtc_compile(client, &options, &program, NULL, &error));
  return program;
}

static uint64_t upload(const float *data) {
  pjrtc_upload_options options = {.struct_size = sizeof options, .type = {PJRTC_F32, 1, four}, .data = data};
  uint64_t buffer;
  OK(pjrtc_upload(client, &options, &buffer, &error));
  return buffer;
}

static void what_is_served(void) {
  pjrtc_info *info;
  pjrtc_devices *devices;
  pjrtc_memories *memories;
  pjrtc_stats *stats;
  OK(pjrtc_get_info(client, &info, &error));
  CHECK(strcmp(info->platform_name, "cpu") == 0);
  CHECK(strcmp(info->server_version, pjrtc_get_hello(client)->server_version) == 0);
  CHECK(info->server_epoch == pjrtc_get_hello(client)->server_epoch);
  OK(pjrtc_get_devices(client, &devices, &error));
  CHECK(devices->num_devices == info->num_devices && devices->num_devices >= 2);
  OK(pjrtc_get_memories(client, &memories, &error));
  CHECK(memories->num_memories >= devices->num_devices);
  int32_t assignment[2] = {-1, -1};
  OK(pjrtc_default_assignment(client, 2, 1, assignment, &error));
  CHECK(assignment[0] != assignment[1] && assignment[0] >= 0 && assignment[1] >= 0);
  CHECK(pjrtc_default_assignment(client, 0, 1, assignment, &error) != PJRTC_OK);
  OK(pjrtc_get_stats(client, &stats, &error));
  CHECK(stats->connections >= 1 && stats->threads > 1);
  pjrtc_info_destroy(info);
  pjrtc_devices_destroy(devices);
  pjrtc_memories_destroy(memories);
  pjrtc_stats_destroy(stats);
}

static void programs(void) {
  pjrtc_program_info *info;
  uint64_t program;
  pjrtc_attribute override = {.name = "xla_cpu_enable_fast_math", .kind = PJRTC_ATTRIBUTE_BOOLEAN, .boolean = false};
  pjrtc_compile_options options = {.struct_size = sizeof options,
                                   .code = add_text,
                                   .code_bytes = strlen(add_text),
                                   .overrides = &override,
                                   .num_overrides = 1};
  OK(pjrtc_compile(client, &options, &program, &info, &error));
  CHECK(info->num_args == 2 && info->num_outputs == 2 && info->num_devices == 1);
  CHECK(info->args[1]->type.dtype == PJRTC_F32 && info->args[1]->type.rank == 1 && info->args[1]->type.dims[0] == 4);
  CHECK(info->outputs[1]->type.rank == 0);
  CHECK(info->straight_line && info->compile_ns > 0);
  pjrtc_program_info_destroy(info);
  OK(pjrtc_describe(client, program, &info, &error));
  CHECK(info->num_outputs == 2);
  pjrtc_program_info_destroy(info);
  OK(pjrtc_release(client, &program, 1, &error));
  CHECK(pjrtc_describe(client, program, &info, &error) == PJRTC_NOT_FOUND && !info);
  options.code_bytes = 40;
  CHECK(pjrtc_compile(client, &options, &program, &info, &error) == PJRTC_INVALID_ARGUMENT && !info && !program);
  /* Over the inline limit: the text travels in pieces. */
  char *text = malloc(300000);
  memset(text, ' ', 300000);
  memcpy(text, add_text, strlen(add_text));
  memcpy(text + 299990, "// end", 6);
  options.code = text, options.code_bytes = 300000;
  OK(pjrtc_compile(client, &options, &program, NULL, &error));
  OK(pjrtc_compile_start(client, &options, &program, NULL, NULL, &error));
  free(text); /* a quiet call has read it */
  OK(pjrtc_describe(client, program, &info, &error));
  pjrtc_program_info_destroy(info);
}

static void executes(void) {
  uint64_t program = compile(add_text), x = upload(ones), outputs[2];
  float sum[4], all;
  pjrtc_argument args[] = {{.buffer = x}, {.type = {PJRTC_F32, 1, four}, .data = tens}};
  pjrtc_value fetch[] = {{.position = 0, .data = sum, .capacity_bytes = sizeof sum},
                         {.position = 1, .data = &all, .capacity_bytes = sizeof all}};
  pjrtc_execute_result result = {.struct_size = sizeof result};
  bool keep[] = {true, false};
  pjrtc_execute_options run = {.struct_size = sizeof run,
                               .program = program,
                               .args = args,
                               .num_args = 2,
                               .outputs = outputs,
                               .num_outputs = 2,
                               .keep = keep,
                               .fetch = fetch,
                               .num_fetch = 2,
                               .result = &result};
  for (int i = 0; i < 100; i++) OK(pjrtc_execute(client, &run, &error));
  CHECK(sum[0] == 11 && sum[3] == 44 && all == 110 && result.execute_ns > 0);
  CHECK(fetch[0].rank == 1 && fetch[0].dims[0] == 4 && fetch[1].rank == 0);
  CHECK(outputs[0] != 0 && outputs[1] == 0);
  pjrtc_value back = {0};
  OK(pjrtc_download(client, outputs[0], &back, 0, &error));
  CHECK(back.size_bytes == 16 && ((float *)back.data)[2] == 33);
  pjrtc_free(back.data);
  /* Only some of the outputs. */
  run.num_fetch = 1;
  run.fetch = &fetch[1];
  run.num_outputs = 0;
  OK(pjrtc_execute(client, &run, &error));
  /* The wrong type: which argument, and what it should be. */
  args[0] = (pjrtc_argument){.type = {PJRTC_S32, 1, four}, .data = ones};
  CHECK(pjrtc_execute(client, &run, &error) == PJRTC_INVALID_ARGUMENT);
  CHECK(error.has_argument && error.argument_index == 0);
  CHECK(strcmp(error.argument_expected, "f32[4]") == 0 && strcmp(error.argument_actual, "s32[4]") == 0);
  args[0] = (pjrtc_argument){.buffer = x + (1u << 20)};
  CHECK(pjrtc_execute(client, &run, &error) == PJRTC_NOT_FOUND);
  args[0].buffer = x;
  OK(pjrtc_execute(client, &run, &error));
}

static void donation(void) {
  uint64_t program = compile(donate_text), x = upload(ones), y;
  uint32_t consumed[1] = {9};
  pjrtc_argument arg = {.buffer = x};
  pjrtc_execute_result result = {.struct_size = sizeof result, .consumed = consumed, .max_consumed = 1};
  pjrtc_execute_options run = {.struct_size = sizeof run,
                               .program = program,
                               .args = &arg,
                               .num_args = 1,
                               .outputs = &y,
                               .num_outputs = 1,
                               .result = &result};
  OK(pjrtc_execute(client, &run, &error));
  CHECK(result.num_consumed == 1 && consumed[0] == 0);
  pjrtc_value value = {0};
  CHECK(pjrtc_download(client, x, &value, 0, &error) == PJRTC_INVALID_ARGUMENT);
  CHECK(strstr(error.message, "donated"));
  uint64_t both[] = {x, y};
  OK(pjrtc_delete(client, both, 2, &error));
}

static void data(void) {
  static const int64_t sizes[] = {0, 1, 65536, 65537, 9000001};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    uint8_t *bytes = malloc((size_t)sizes[i] + 1);
    for (int64_t k = 0; k < sizes[i]; k++) bytes[k] = (uint8_t)(k * 31 >> 2);
    pjrtc_upload_options up = {.struct_size = sizeof up,
                               .type = {PJRTC_U8, 1, &sizes[i]},
                               .data = bytes,
                               .placement = PJRTC_PLACE_DEVICE,
                               .place = 1};
    uint64_t buffer;
    OK(pjrtc_upload(client, &up, &buffer, &error));
    pjrtc_buffer_info info = {.struct_size = sizeof info};
    OK(pjrtc_stat(client, buffer, &info, &error));
    CHECK(info.host_bytes == (uint64_t)sizes[i] && info.device == 1 && info.dtype == PJRTC_U8 && !info.is_deleted);
    pjrtc_value back = {0};
    OK(pjrtc_download(client, buffer, &back, 0, &error));
    CHECK(back.size_bytes == (uint64_t)sizes[i]);
    CHECK(!sizes[i] || memcmp(back.data, bytes, (size_t)sizes[i]) == 0);
    pjrtc_free(back.data);
    if (sizes[i]) {
      uint8_t small;
      pjrtc_value room = {.data = &small, .capacity_bytes = sizes[i] > 1};
      CHECK(pjrtc_download(client, buffer, &room, 0, &error) == PJRTC_OUT_OF_RANGE);
      CHECK(room.size_bytes == info.host_bytes);
    }
    free(bytes);
    OK(pjrtc_delete(client, &buffer, 1, &error));
    CHECK(pjrtc_stat(client, buffer, &info, &error) == PJRTC_NOT_FOUND);
  }
  /* A transposed matrix over the inline limit. */
  enum { SIDE = 300 };
  float *matrix = malloc(SIDE * SIDE * sizeof *matrix);
  for (int i = 0; i < SIDE * SIDE; i++) matrix[i] = (float)i;
  int64_t dims[] = {SIDE, SIDE}, strides[] = {4, SIDE * 4};
  pjrtc_upload_options up = {
      .struct_size = sizeof up, .type = {PJRTC_F32, 2, dims}, .data = matrix, .byte_strides = strides};
  uint64_t buffer;
  pjrtc_value back = {0};
  OK(pjrtc_upload(client, &up, &buffer, &error));
  OK(pjrtc_download(client, buffer, &back, 0, &error));
  for (int r = 0; r < SIDE; r++)
    for (int c = 0; c < SIDE; c++) CHECK(((float *)back.data)[r * SIDE + c] == matrix[c * SIDE + r]);
  pjrtc_free(back.data);
  up.placement = PJRTC_PLACE_DEVICE, up.place = 77;
  CHECK(pjrtc_upload(client, &up, &buffer, &error) != PJRTC_OK);
  free(matrix);
}

static void quiet_and_poison(void) {
  uint64_t program = compile(add_text), poisoned, more;
  OK(pjrtc_sync(client, 0, &error));
  pjrtc_argument args[] = {{.buffer = (1ull << 40)}, {.type = {PJRTC_F32, 1, four}, .data = ones}};
  pjrtc_execute_options run = {.struct_size = sizeof run,
                               .program = program,
                               .args = args,
                               .num_args = 2,
                               .outputs = &poisoned,
                               .num_outputs = 1};
  uint64_t outputs[2];
  run.outputs = outputs, run.num_outputs = 2;
  OK(pjrtc_execute_start(client, &run, NULL, &error));
  poisoned = outputs[0];
  args[0].buffer = poisoned;
  OK(pjrtc_execute_start(client, &run, NULL, &error));
  more = outputs[0];
  CHECK(pjrtc_sync(client, 0, &error) != PJRTC_OK);
  pjrtc_code first = error.code;
  uint64_t first_call = error.call;
  CHECK(first_call > 0);
  OK(pjrtc_sync(client, 0, &error));
  pjrtc_value value = {0};
  CHECK(pjrtc_download(client, more, &value, 0, &error) == first);
  CHECK(error.origin_call == first_call);
  /* Thousands of quiet calls, well beyond what may be in flight. */
  uint64_t x = upload(ones);
  for (int i = 0; i < 5000; i++) {
    args[0].buffer = x;
    OK(pjrtc_execute_start(client, &run, NULL, &error));
    OK(pjrtc_delete_start(client, outputs, 2, NULL, &error));
  }
  OK(pjrtc_sync(client, 0, &error));
}

static void futures(void) {
  uint64_t program = compile(add_text), x = upload(ones);
  pjrtc_argument args[] = {{.buffer = x}, {.type = {PJRTC_F32, 1, four}, .data = tens}};
  enum { COUNT = 3000 };
  static pjrtc_future *started[COUNT];
  static float sums[COUNT][4];
  static pjrtc_value values[COUNT];
  for (int i = 0; i < COUNT; i++) {
    values[i] = (pjrtc_value){.position = 0, .data = sums[i], .capacity_bytes = sizeof sums[i]};
    pjrtc_execute_options run = {.struct_size = sizeof run,
                                 .program = program,
                                 .args = args,
                                 .num_args = 2,
                                 .fetch = &values[i],
                                 .num_fetch = 1};
    OK(pjrtc_execute_start(client, &run, &started[i], &error));
  }
  for (int i = COUNT - 1; i >= 0; i--) {
    OK(pjrtc_future_wait(started[i], PJRTC_FOREVER, &error));
    CHECK(sums[i][3] == 44);
    pjrtc_future_destroy(started[i]);
  }
}

static void deadlines_and_cancels(void) {
  uint64_t program = compile(endless_text);
  int32_t number = -5, back = 0;
  pjrtc_argument arg = {.type = {PJRTC_S32, 0, NULL}, .data = &number};
  pjrtc_value value = {.data = &back, .capacity_bytes = sizeof back};
  pjrtc_execute_options run = {
      .struct_size = sizeof run, .program = program, .args = &arg, .num_args = 1, .fetch = &value, .num_fetch = 1};
  OK(pjrtc_execute(client, &run, &error));
  CHECK(back == -5);
  number = 5;
  run.timeout_ns = 300000000;
  struct timespec before, after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  CHECK(pjrtc_execute(client, &run, &error) == PJRTC_DEADLINE_EXCEEDED);
  clock_gettime(CLOCK_MONOTONIC, &after);
  CHECK((double)(after.tv_sec - before.tv_sec) + (double)(after.tv_nsec - before.tv_nsec) / 1e9 < 10);
  pjrtc_future *future;
  run.timeout_ns = 0;
  OK(pjrtc_execute_start(client, &run, &future, &error));
  CHECK(pjrtc_future_wait(future, 50000000, &error) == PJRTC_PENDING);
  pjrtc_future_cancel(future);
  CHECK(pjrtc_future_wait(future, PJRTC_FOREVER, &error) == PJRTC_CANCELLED);
  pjrtc_future_destroy(future);
}

/* A session that outlives its connection, found again by another one. */
static void kept_sessions(void) {
  pjrtc_client *own = client, *first, *second;
  pjrtc_attached attached = {.struct_size = sizeof attached};
  char token[PJRTC_TOKEN_BYTES];
  OK(pjrtc_connect(NULL, NULL, &first, &error));
  OK(pjrtc_session_open(first, NULL, token, &error));
  OK(pjrtc_session_keep(first, NULL, 60000000000u, &error));
  client = first;
  uint64_t buffer = upload(ones);
  pjrtc_close(first);
  OK(pjrtc_connect(NULL, NULL, &second, &error));
  client = second;
  pjrtc_attach_options options = {.struct_size = sizeof options, .token = token};
  OK(pjrtc_session_attach(second, &options, &attached, &error));
  CHECK(attached.connections == 1 && !attached.created && strcmp(attached.token, token) == 0);
  float back[4];
  pjrtc_value value = {.data = back, .capacity_bytes = sizeof back};
  OK(pjrtc_download(second, buffer, &value, 0, &error));
  CHECK(memcmp(back, ones, sizeof back) == 0);
  CHECK(upload(tens) > buffer);
  CHECK(pjrtc_session_attach(second, &options, NULL, &error) == PJRTC_INVALID_ARGUMENT);
  OK(pjrtc_session_set_priority(second, PJRTC_PRIORITY_LOW, &error));
  CHECK(pjrtc_session_set_priority(second, (pjrtc_priority)9, &error) == PJRTC_INVALID_ARGUMENT);
  CHECK(pjrtc_session_set_home(second, 12345, &error) == PJRTC_INVALID_ARGUMENT);
  OK(pjrtc_session_set_home(second, 1, &error));
  pjrtc_sessions *sessions;
  OK(pjrtc_get_sessions(second, attached.session, NULL, 10, &sessions, &error));
  CHECK(sessions->num_sessions == 1 && sessions->sessions[0]->own && sessions->sessions[0]->buffers == 2);
  CHECK(sessions->sessions[0]->ttl_ns == 60000000000u && sessions->sessions[0]->num_connections == 1);
  CHECK(sessions->sessions[0]->home_device == 1);
  CHECK(sessions->sessions[0]->priority == PJRTC_PRIORITY_LOW && sessions->sessions[0]->device_ns == 0);
  CHECK(sessions->sessions[0]->num_largest == 2 && sessions->sessions[0]->largest[0]->bytes == 16);
  pjrtc_sessions_destroy(sessions);
  OK(pjrtc_session_close_other(second, attached.session, NULL, NULL, NULL, &error));
  CHECK(pjrtc_get_sessions(second, attached.session, NULL, 0, &sessions, &error) == PJRTC_NOT_FOUND && !sessions);
  pjrtc_close(second);
  client = own;
}

static void expect(const char *slot, float first) {
  uint64_t buffer;
  float back[4];
  pjrtc_value value = {.data = back, .capacity_bytes = sizeof back};
  OK(pjrtc_lookup(client, &slot, 1, &buffer, &error));
  OK(pjrtc_download(client, buffer, &value, 0, &error));
  CHECK(back[0] == first);
  OK(pjrtc_delete(client, &buffer, 1, &error));
}

/* State that stays on the device: bound, stepped without waiting, looked at. */
static void slots(void) {
  uint64_t add = compile(add_text), donate = compile(donate_text), x = upload(ones), y = upload(tens), none;
  pjrtc_slot_binding bindings[] = {{"live.x", x}, {"live.y", y}};
  OK(pjrtc_bind(client, bindings, 2, &error));
  uint64_t both[] = {x, y};
  OK(pjrtc_delete(client, both, 2, &error));
  pjrtc_argument args[] = {{.slot = "live.x"}, {.slot = "live.y"}};
  pjrtc_feed_back feed_back[] = {{.output = 0, .slot = "live.x"}};
  pjrtc_execute_options step = {.struct_size = sizeof step,
                                .program = add,
                                .args = args,
                                .num_args = 2,
                                .feed_back = feed_back,
                                .num_feed_back = 1};
  pjrtc_cork(client);
  for (int i = 0; i < 1000; i++) OK(pjrtc_execute_start(client, &step, NULL, &error));
  OK(pjrtc_sync(client, 0, &error));
  expect("live.x", 10001);
  /* A step that fails leaves it as it was. */
  args[1].slot = "live.none";
  CHECK(pjrtc_execute(client, &step, &error) == PJRTC_NOT_FOUND);
  expect("live.x", 10001);
  /* Donated and fed back; then kept by the caller although the program donates it. */
  pjrtc_execute_options doubled = {.struct_size = sizeof doubled,
                                   .program = donate,
                                   .args = args,
                                   .num_args = 1,
                                   .feed_back = feed_back,
                                   .num_feed_back = 1};
  OK(pjrtc_execute(client, &doubled, &error));
  expect("live.x", 20002);
  uint32_t stays[] = {0};
  feed_back[0].slot = "live.z";
  doubled.non_donatable = stays, doubled.num_non_donatable = 1;
  OK(pjrtc_execute(client, &doubled, &error));
  expect("live.x", 20002);
  expect("live.z", 40004);
  const char *names[] = {"live.z", "live.x"};
  pjrtc_slots *listed;
  OK(pjrtc_get_slots(client, names, 2, &listed, &error));
  CHECK(listed->num_slots == 2 && strcmp(listed->slots[0]->slot, "live.z") == 0);
  CHECK(listed->slots[0]->state == PJRTC_SLOT_READY && listed->slots[0]->bytes == 16);
  CHECK(listed->slots[1]->type.rank == 1 && listed->slots[1]->type.dims[0] == 4);
  pjrtc_slots_destroy(listed);
  /* Donated, and nothing comes back. */
  args[0].slot = "live.z", doubled.num_non_donatable = 0, doubled.num_feed_back = 0;
  OK(pjrtc_execute(client, &doubled, &error));
  OK(pjrtc_get_slots(client, names, 1, &listed, &error));
  CHECK(listed->slots[0]->state == PJRTC_SLOT_CONSUMED);
  pjrtc_slots_destroy(listed);
  OK(pjrtc_unbind(client, names, 2, &error));
  CHECK(pjrtc_lookup(client, names, 1, &none, &error) == PJRTC_NOT_FOUND && none == 0);
  CHECK(pjrtc_unbind(client, names, 1, &error) == PJRTC_NOT_FOUND);
  pjrtc_sessions *sessions;
  OK(pjrtc_get_sessions(client, 0, NULL, 4, &sessions, &error));
  for (size_t i = 0; i < sessions->num_sessions; i++)
    if (sessions->sessions[i]->own) CHECK(sessions->sessions[i]->slots == 1);
  pjrtc_sessions_destroy(sessions);
}

/* Weights that two sessions share. */
static void published(void) {
  pjrtc_client *own = client, *other;
  uint64_t donate = compile(donate_text), x = upload(ones), y = upload(tens);
  pjrtc_slot_binding bindings[] = {{"shared.x", x}, {"shared.y", y}};
  OK(pjrtc_bind(client, bindings, 2, &error));
  OK(pjrtc_delete(client, (uint64_t[]){x, y}, 2, &error));
  const char *names[] = {"shared.x", "shared.y"};
  pjrtc_publish_options publish = {
      .struct_size = sizeof publish, .name = "live", .slots = names, .num_slots = 2, .everybody = true};
  OK(pjrtc_publish(client, &publish, &error));
  CHECK(pjrtc_publish(client, &publish, &error) == PJRTC_ALREADY_EXISTS);

  OK(pjrtc_connect(NULL, NULL, &other, &error));
  client = other;
  pjrtc_published *listed;
  OK(pjrtc_get_published(client, &listed, &error));
  CHECK(listed->num_publications == 1 && strcmp(listed->publications[0]->name, "live") == 0);
  CHECK(listed->publications[0]->slots == 2 && listed->publications[0]->bytes == 32);
  CHECK(listed->publications[0]->everybody && listed->publications[0]->borrowed == 0);
  pjrtc_published_destroy(listed);
  CHECK(pjrtc_borrow(client, "none", NULL, 0, &error) == PJRTC_NOT_FOUND);
  OK(pjrtc_borrow(client, "live", NULL, 0, &error));
  expect("shared.x", 1);
  pjrtc_borrowed_slot pair = {"shared.y", "mine"};
  OK(pjrtc_borrow_start(client, "live", &pair, 1, NULL, &error));
  expect("mine", 10);
  pjrtc_slots *slots;
  OK(pjrtc_get_slots(client, &pair.as, 1, &slots, &error));
  CHECK(slots->slots[0]->published);
  pjrtc_slots_destroy(slots);

  /* Neither of them can consume it; both can go on from it. */
  for (int i = 0; i < 2; i++) {
    client = i ? own : other;
    pjrtc_argument arg = {.slot = "shared.y"};
    pjrtc_feed_back feed_back = {.output = 0, .slot = "shared.y"};
    uint32_t stays = 0;
    pjrtc_execute_options step = {.struct_size = sizeof step,
                                  .program = i ? donate : compile(donate_text),
                                  .args = &arg,
                                  .num_args = 1,
                                  .feed_back = &feed_back,
                                  .num_feed_back = 1};
    CHECK(pjrtc_execute(client, &step, &error) == PJRTC_INVALID_ARGUMENT && strstr(error.message, "published"));
    step.non_donatable = &stays, step.num_non_donatable = 1;
    OK(pjrtc_execute(client, &step, &error));
    expect("shared.y", 20);
  }
  OK(pjrtc_withdraw(own, "live", &error));
  CHECK(pjrtc_borrow(other, "live", NULL, 0, &error) == PJRTC_NOT_FOUND);
  OK(pjrtc_unbind(own, names, 2, &error));
  client = other;
  expect("mine", 10);
  pjrtc_close(other);
  client = own;
}

/* ---- Runs ---- */

/* %x + %y, the sum of it, and whether that is over 1000. */
static const char step_text[] =
    "func.func @main(%x: tensor<4xf32> {tf.aliasing_output = 0 : i32}, %y: tensor<4xf32>)\n"
    "    -> (tensor<4xf32>, tensor<f32>, tensor<i1>) {\n"
    "  %sum = stablehlo.add %x, %y : tensor<4xf32>\n"
    "  %zero = stablehlo.constant dense<0.0> : tensor<f32>\n"
    "  %most = stablehlo.constant dense<1000.0> : tensor<f32>\n"
    "  %all = stablehlo.reduce(%sum init: %zero) applies stablehlo.add across dimensions = [0]\n"
    "      : (tensor<4xf32>, tensor<f32>) -> tensor<f32>\n"
    "  %end = stablehlo.compare GT, %all, %most : (tensor<f32>, tensor<f32>) -> tensor<i1>\n"
    "  return %sum, %all, %end : tensor<4xf32>, tensor<f32>, tensor<i1>\n"
    "}\n";

typedef struct {
  uint64_t count, last, stop_at;
  float value;
} told;

static bool on_step(void *user, uint64_t steps, const pjrtc_value *values, size_t num_values) {
  told *t = user;
  CHECK(steps > t->last);
  t->last = steps;
  if (!num_values) return true;
  t->count++;
  t->value = *(const float *)values[0].data;
  return steps != t->stop_at;
}

static void runs(void) {
  uint64_t program = compile(step_text), x = upload(ones), y = upload(ones), output;
  pjrtc_slot_binding binding = {"run.x", x};
  OK(pjrtc_bind(client, &binding, 1, &error));
  OK(pjrtc_delete(client, &x, 1, &error));
  pjrtc_argument args[] = {{.slot = "run.x"}, {.buffer = y}};
  pjrtc_feed_back feed_back[] = {{.output = 0, .slot = "run.x"}};
  float sum;
  pjrtc_value fetch = {.position = 1, .data = &sum, .capacity_bytes = sizeof sum};
  pjrtc_execute_options step = {.struct_size = sizeof step,
                                .program = program,
                                .args = args,
                                .num_args = 2,
                                .feed_back = feed_back,
                                .num_feed_back = 1,
                                .fetch = &fetch,
                                .num_fetch = 1};
  told t = {0};
  pjrtc_run_result result = {.struct_size = sizeof result};
  pjrtc_run_options run = {.struct_size = sizeof run,
                           .step = &step,
                           .steps = 50,
                           .every = 20,
                           .on_step = on_step,
                           .user = &t,
                           .result = &result};
  OK(pjrtc_run(client, &run, &error));
  CHECK(t.count == 2 && t.last == 40 && t.value == 410 && sum == 510);
  CHECK(result.steps == 50 && !result.stopped && result.execute_ns > 0);
  expect("run.x", 51);
  /* Until the sum is over 1000. */
  run.has_until = true, run.until = 2, run.steps = 1000, run.every = 0;
  OK(pjrtc_run(client, &run, &error));
  CHECK(result.steps == 50 && result.stopped && sum == 1010);
  /* Ended by the callback: the slot has what the last whole step gave. */
  run.has_until = false, run.every = 1, run.steps = 1u << 30;
  t = (told){.stop_at = 30};
  CHECK(pjrtc_run(client, &run, &error) == PJRTC_CANCELLED);
  CHECK(t.last == 30 && result.steps >= 30);
  uint64_t found;
  pjrtc_value value = {0};
  OK(pjrtc_lookup(client, &binding.slot, 1, &found, &error));
  OK(pjrtc_download(client, found, &value, 0, &error));
  CHECK(((float *)value.data)[0] >= 131);
  pjrtc_free(value.data);
  OK(pjrtc_delete(client, &found, 1, &error));
  OK(pjrtc_bind(client, &(pjrtc_slot_binding){"run.x", y}, 1, &error));
  /* An argument for each step; the state is fed back to an argument, and kept. */
  static const float batches[3][4] = {{1, 1, 1, 1}, {2, 2, 2, 2}, {3, 3, 3, 3}};
  static const int64_t three_by_four[] = {3, 4};
  pjrtc_argument stacked_args[] = {{.type = {PJRTC_F32, 1, four}, .data = ones},
                                   {.type = {PJRTC_F32, 2, three_by_four}, .data = batches}};
  pjrtc_feed_back to_argument[] = {{.output = 0, .argument = 0}};
  uint32_t stacked[] = {1};
  uint64_t outputs[3];
  bool keep[] = {true, false, false};
  step = (pjrtc_execute_options){.struct_size = sizeof step,
                                 .program = program,
                                 .args = stacked_args,
                                 .num_args = 2,
                                 .feed_back = to_argument,
                                 .num_feed_back = 1,
                                 .outputs = outputs,
                                 .num_outputs = 3,
                                 .keep = keep};
  run = (pjrtc_run_options){
      .struct_size = sizeof run, .step = &step, .stacked = stacked, .num_stacked = 1, .result = &result};
  OK(pjrtc_run(client, &run, &error));
  CHECK(result.steps == 3);
  output = outputs[0];
  float back[4];
  value = (pjrtc_value){.data = back, .capacity_bytes = sizeof back};
  OK(pjrtc_download(client, output, &value, 0, &error));
  CHECK(back[0] == 7 && back[3] == 10);
  OK(pjrtc_delete(client, &output, 1, &error));
  /* Quiet, and refused. */
  run.result = NULL;
  OK(pjrtc_run_start(client, &run, NULL, &error));
  OK(pjrtc_sync(client, 0, &error));
  OK(pjrtc_delete(client, outputs, 1, &error));
  run.steps = 4;
  CHECK(pjrtc_run(client, &run, &error) == PJRTC_INVALID_ARGUMENT && !outputs[0]);
  CHECK(strstr(error.message, "stacked for 3 steps"));
  const char *slot = "run.x";
  OK(pjrtc_unbind(client, &slot, 1, &error));
}

static void sessions(void) {
  uint64_t session = 0, buffers = 0, programs = 0;
  char token[PJRTC_TOKEN_BYTES] = "";
  upload(ones);
  compile(add_text);
  OK(pjrtc_session_open(client, &session, token, &error));
  CHECK(token[0] != '\0');
  OK(pjrtc_session_close(client, &buffers, &programs, &error));
  CHECK(buffers >= 1 && programs >= 1);
  pjrtc_upload_options up = {.struct_size = sizeof up, .type = {PJRTC_F32, 1, four}, .data = ones};
  uint64_t buffer;
  CHECK(pjrtc_upload(client, &up, &buffer, &error) == PJRTC_FAILED_PRECONDITION);
  OK(pjrtc_session_open(client, NULL, NULL, &error));
  upload(ones);
}

int main(void) {
  if (pjrtc_connect(NULL, NULL, &client, &error)) {
    fprintf(stderr, "%s\n", error.message);
    return 1;
  }
  what_is_served();
  programs();
  executes();
  donation();
  data();
  quiet_and_poison();
  futures();
  slots();
  published();
  runs();
  kept_sessions();
  sessions();
  deadlines_and_cancels(); /* last: it leaves a lane busy */
  pjrtc_close(client);
  printf("%d checks\n", checks);
  return 0;
}
