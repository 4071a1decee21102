/* service/program_compile.c, program_describe.c and program_methods.c. */
#include <zstd.h>

#include "peer_fixture.h"

TestSuite(program_compile, .init = open_service, .fini = close_service, .timeout = 120);

static void described(Pjrtd__V1__ProgramDescription *description) {
  cr_assert_str_eq(description->name, "add");
  cr_assert_eq(description->num_replicas, 1);
  cr_assert_eq(description->n_devices, 1);
  cr_assert_eq(description->n_args, 1);
  cr_assert_eq(description->n_outputs, 1);
  cr_assert_eq(description->args[0]->type->dtype, PJRTD__V1__DTYPE__DTYPE_F32);
  cr_assert_eq(description->args[0]->type->n_dims, 1);
  cr_assert_eq(description->args[0]->type->dims[0], 2);
  cr_assert(description->args[0]->donated);
  cr_assert_not(description->outputs[0]->donated);
  cr_assert_str_eq(description->args[0]->unsupported, "");
  cr_assert(description->straight_line);
}

Test(program_compile, says_what_the_program_is_and_describe_says_it_again) {
  uint64_t id = ++client->next_program;
  Pjrtd__V1__CompileReply *compiled =
      reply(post_compile(id, ADD_TEXT(DONATED), (how){0}), &pjrtd__v1__compile_reply__descriptor);
  described(compiled->description);
  cr_assert_gt(compiled->compile_ns, 0);
  free_reply(compiled);
  Pjrtd__V1__ProgramDescription *again = reply(describe(id), &pjrtd__v1__program_description__descriptor);
  described(again);
  free_reply(again);
  cr_assert_eq(runtime->stats.compiles, 1);
}

static Pjrtd__V1__CompileRequest wanted(const char *text) {
  Pjrtd__V1__CompileRequest message = PJRTD__V1__COMPILE_REQUEST__INIT;
  message.program = ++client->next_program;
  message.code_bytes = strlen(text);
  return message;
}

static uint64_t compile_message(const Pjrtd__V1__CompileRequest *message, const void *code, size_t bytes) {
  return request(PJRTD_METHOD_Program_Compile, &message->base, (how){.bulk = code, .bulk_bytes = (uint32_t)bytes});
}

Test(program_compile, takes_text_in_items) {
  static const char text[] = ADD_TEXT("");
  Pjrtd__V1__CompileRequest message = wanted(text);
  uint64_t call = compile_message(&message, NULL, 0);
  for (size_t at = 0; at < strlen(text); at += 10)
    cr_assert(
        send_item(call, (const uint8_t *)text + at, (uint32_t)(strlen(text) - at < 10 ? strlen(text) - at : 10), 3));
  succeed(call);
  uint64_t id = make_pair(1, 2), output = ++client->next_buffer;
  succeed(execute((execution){message.program, 1, {id}, 1, {output}}, (how){0}));
  check_pair(output, 2, 4);
}

Test(program_compile, takes_compressed_text_inline_and_in_items) {
  static const char text[] = ADD_TEXT("");
  char packed[2000];
  size_t size = ZSTD_compress(packed, sizeof packed, text, strlen(text), 3);
  for (int items = 0; items < 2; items++) {
    Pjrtd__V1__CompileRequest message = wanted(text);
    message.code_bytes = size;
    message.compression = PJRTD__V1__COMPRESSION__COMPRESSION_ZSTD;
    message.uncompressed_bytes = strlen(text);
    uint64_t call = compile_message(&message, packed, items ? 0 : size);
    if (items) cr_assert(send_item(call, (const uint8_t *)packed, (uint32_t)size, 100));
    succeed(call);
  }
}

/* A refusal poisons the id with the same words. */
static void refused(const Pjrtd__V1__CompileRequest *message, const void *code, size_t bytes, pjrtd_code error,
                    const char *piece) {
  uint64_t call = compile_message(message, code, bytes);
  fails(call, error, piece, call);
  fails(describe(message->program), error, piece, call);
}

Test(program_compile, refuses_bad_compression) {
  static const char text[] = ADD_TEXT("");
  char packed[2000];
  size_t size = ZSTD_compress(packed, sizeof packed, text, strlen(text), 3);
  Pjrtd__V1__CompileRequest message = wanted(text);
  message.compression = PJRTD__V1__COMPRESSION__COMPRESSION_ZSTD;
  message.uncompressed_bytes = strlen(text);
  refused(&message, text, strlen(text), PJRTD_CODE_INVALID_ARGUMENT, "zstd data is bad");
  message.program = ++client->next_program;
  message.code_bytes = size;
  message.uncompressed_bytes = strlen(text) + 1;
  refused(&message, packed, size, PJRTD_CODE_INVALID_ARGUMENT, "uncompressed_bytes is");
  message.program = ++client->next_program;
  message.uncompressed_bytes = strlen(text) - 1;
  refused(&message, packed, size, PJRTD_CODE_INVALID_ARGUMENT, "zstd data is bad");
  message.program = ++client->next_program;
  message.uncompressed_bytes = 0;
  refused(&message, packed, size, PJRTD_CODE_INVALID_ARGUMENT, "needs uncompressed_bytes");
  message.program = ++client->next_program;
  message.compression = (Pjrtd__V1__Compression)9;
  message.uncompressed_bytes = 10;
  refused(&message, packed, size, PJRTD_CODE_INVALID_ARGUMENT, "compression 9");
}

Test(program_compile, refuses_sizes_by_the_rules) {
  Pjrtd__V1__CompileRequest message = wanted("");
  refused(&message, NULL, 0, PJRTD_CODE_INVALID_ARGUMENT, "empty");
  message = wanted("abc");
  refused(&message, "ab", 2, PJRTD_CODE_INVALID_ARGUMENT, "2 bytes came with the request");
  message = wanted("abc");
  message.code_bytes = settings.max_program_bytes + 1;
  refused(&message, NULL, 0, PJRTD_CODE_RESOURCE_EXHAUSTED, "");
  message.program = ++client->next_program;
  message.code_bytes = UINT64_MAX;
  refused(&message, NULL, 0, PJRTD_CODE_RESOURCE_EXHAUSTED, "");
  message.program = ++client->next_program;
  message.code_bytes = 3;
  message.compression = PJRTD__V1__COMPRESSION__COMPRESSION_ZSTD;
  message.uncompressed_bytes = UINT64_MAX;
  refused(&message, "abc", 3, PJRTD_CODE_RESOURCE_EXHAUSTED, "");
}

Test(program_compile, refuses_options_that_the_plugin_would_abort_on) {
  static const char text[] = ADD_TEXT("");
  Pjrtd__V1__CompileOptions options = PJRTD__V1__COMPILE_OPTIONS__INIT;
  Pjrtd__V1__CompileRequest message = wanted(text);
  message.options = &options;
  options.num_replicas = UINT32_MAX;
  options.num_partitions = UINT32_MAX;
  refused(&message, text, strlen(text), PJRTD_CODE_INVALID_ARGUMENT, "");
  options.num_replicas = options.num_partitions = 1;
  options.device_assignment = (int32_t[]){99};
  options.n_device_assignment = 1;
  message.program = ++client->next_program;
  refused(&message, text, strlen(text), PJRTD_CODE_INVALID_ARGUMENT, "99");
}

Test(program_compile, passes_options_on) {
  static const char text[] = ADD_TEXT("");
  const pjrtd_client_info *info = pjrtd_client_get_info(runtime->client);
  Pjrtd__V1__CompileOptions options = PJRTD__V1__COMPILE_OPTIONS__INIT;
  options.device_assignment = (int32_t[]){info->devices[1].id};
  options.n_device_assignment = 1;
  options.exec_time_optimization_effort = 0.5;
  Pjrtd__V1__Attribute number = PJRTD__V1__ATTRIBUTE__INIT, flag = PJRTD__V1__ATTRIBUTE__INIT;
  number.name = (char *)"xla_backend_optimization_level";
  number.value_case = PJRTD__V1__ATTRIBUTE__VALUE_INTEGER;
  number.integer = 1;
  flag.name = (char *)"xla_cpu_enable_fast_min_max";
  flag.value_case = PJRTD__V1__ATTRIBUTE__VALUE_BOOLEAN;
  flag.boolean = 1;
  options.overrides = (Pjrtd__V1__Attribute *[]){&number, &flag};
  options.n_overrides = 2;
  Pjrtd__V1__CompileRequest message = wanted(text);
  message.options = &options;
  Pjrtd__V1__CompileReply *compiled =
      reply(compile_message(&message, text, strlen(text)), &pjrtd__v1__compile_reply__descriptor);
  cr_assert_eq(compiled->description->devices[0], info->devices[1].id);
  free_reply(compiled);
}

Test(program_compile, gives_the_compilers_message_whole) {
  uint64_t id = ++client->next_program;
  static const char text[] =
      "module @m { func.func public @main() -> tensor<f32> { %0 = stablehlo.nonsense : tensor<f32> } }";
  uint64_t call = post_compile(id, text, (how){0});
  fails(call, PJRTD_CODE_INVALID_ARGUMENT, "nonsense", call);
  fails(describe(id), PJRTD_CODE_INVALID_ARGUMENT, "nonsense", call);
}

Test(program_compile, mends_a_name_that_is_not_utf_8) {
  Pjrtd__V1__CompileReply *compiled = reply(
      post_compile(
          ++client->next_program,
          "module @\"a\\FFb\" { func.func public @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> } }",
          (how){0}),
      &pjrtd__v1__compile_reply__descriptor);
  for (const unsigned char *at = (const unsigned char *)compiled->description->name; *at; at++)
    cr_assert_lt(*at, 0x80, "%s", compiled->description->name);
  free_reply(compiled);
}

Test(program_compile, poisons_the_id_of_a_program_whose_text_was_cut_short) {
  Pjrtd__V1__CompileRequest message = wanted(ADD_TEXT(""));
  uint64_t call = compile_message(&message, NULL, 0), waiting = describe(message.program);
  cr_assert(send_item(call, (const uint8_t *)"module", 6, 6));
  cancel(call);
  fails(call, PJRTD_CODE_CANCELLED, "", 0);
  fails(waiting, PJRTD_CODE_CANCELLED, "", call);
}

static uint64_t release(uint64_t *ids, size_t count) {
  Pjrtd__V1__ReleaseRequest message = PJRTD__V1__RELEASE_REQUEST__INIT;
  message.programs = ids;
  message.n_programs = count;
  return request(PJRTD_METHOD_Program_Release, &message.base, (how){0});
}

static uint64_t compile_ns(uint64_t id, const char *text) {
  Pjrtd__V1__CompileReply *compiled = reply(post_compile(id, text, (how){0}), &pjrtd__v1__compile_reply__descriptor);
  uint64_t took_ns = compiled->compile_ns;
  free_reply(compiled);
  return took_ns;
}

Test(program_compile, does_not_compile_what_somebody_has) {
  uint64_t first = ++client->next_program, second = ++client->next_program, third = ++client->next_program;
  cr_assert_gt(compile_ns(first, ADD_TEXT("")), 0);
  cr_assert_eq(compile_ns(second, ADD_TEXT("")), 0);
  cr_assert_gt(compile_ns(third, ADD_TEXT(DONATED)), 0);
  cr_assert_eq(runtime->stats.compiles, 2);
  cr_assert_eq(runtime->stats.programs, 3);
  succeed(release(&first, 1));
  uint64_t id = make_pair(1, 2), output = ++client->next_buffer;
  succeed(execute((execution){second, 1, {id}, 1, {output}}, (how){0}));
  check_pair(output, 2, 4);
}

Test(program_compile, compiles_again_what_nobody_has_any_more) {
  settings.max_idle_programs = 0;
  uint64_t first = ++client->next_program;
  compile_ns(first, ADD_TEXT(""));
  succeed(release(&first, 1));
  cr_assert_gt(compile_ns(++client->next_program, ADD_TEXT("")), 0);
  cr_assert_eq(runtime->stats.compiles, 2);
}

Test(program_compile, does_not_compile_what_somebody_had_a_while_ago) {
  settings.max_idle_programs = 1;
  for (int i = 0; i < 3; i++) {
    uint64_t id = ++client->next_program;
    cr_assert_eq(compile_ns(id, ADD_TEXT("")) == 0, i > 0);
    succeed(release(&id, 1));
    wait_until_idle();
    cr_assert_eq(runtime->stats.programs, 0);
  }
  cr_assert_eq(runtime->stats.compiles, 1);
}

/* The same text under other options is another program. */
Test(program_compile, tells_programs_apart_by_their_options) {
  static const char text[] = ADD_TEXT("");
  Pjrtd__V1__CompileOptions options = PJRTD__V1__COMPILE_OPTIONS__INIT;
  for (int i = 0; i < 3; i++) {
    Pjrtd__V1__CompileRequest message = wanted(text);
    message.options = &options;
    options.deduplicate_hlo = i;
    succeed(compile_message(&message, text, strlen(text)));
  }
  cr_assert_eq(runtime->stats.compiles, 2);
  cr_assert_eq(runtime->stats.programs, 3);
}

static uint64_t move_home(int device) {
  Pjrtd__V1__ConfigureRequest message = PJRTD__V1__CONFIGURE_REQUEST__INIT;
  message.home_case = PJRTD__V1__CONFIGURE_REQUEST__HOME_DEVICE;
  message.device = device;
  return request(PJRTD_METHOD_Session_Configure, &message.base, (how){0});
}

/* The same text without an assignment, but for another device. */
Test(program_compile, tells_programs_apart_by_the_sessions_home) {
  const pjrtd_device *devices = pjrtd_client_get_info(runtime->client)->devices;
  cr_assert_gt(compile_ns(++client->next_program, ADD_TEXT("")), 0);
  succeed(move_home(devices[1].id));
  cr_assert_gt(compile_ns(++client->next_program, ADD_TEXT("")), 0);
  cr_assert_eq(compile_ns(++client->next_program, ADD_TEXT("")), 0);
  succeed(move_home(devices[0].id));
  cr_assert_eq(compile_ns(++client->next_program, ADD_TEXT("")), 0);
  cr_assert_eq(runtime->stats.compiles, 2);
}

Test(program_compile, lets_a_released_program_finish_what_it_runs) {
  uint64_t program = make_program(COUNT_DOWN_TEXT), rounds = make_rounds(50000000), output = ++client->next_buffer;
  uint64_t running = execute((execution){program, 1, {rounds}, 1, {output}}, (how){0});
  succeed(release(&program, 1));
  fails(describe(program), PJRTD_CODE_NOT_FOUND, "no program", 0);
  fails(execute((execution){program, 1, {rounds}}, (how){0}), PJRTD_CODE_NOT_FOUND, "", 0);
  succeed(running);
  wait_until_idle();
  cr_assert_eq(runtime->stats.programs, 0);
}

Test(program_compile, releases_one_that_is_being_compiled) {
  uint64_t id = ++client->next_program, call = post_compile(id, ADD_TEXT(""), (how){0});
  succeed(release(&id, 1));
  succeed(call);
  wait_until_idle();
  cr_assert_eq(runtime->stats.programs, 0);
  uint64_t ids[] = {id, 77};
  fails(release(ids, 2), PJRTD_CODE_NOT_FOUND, "no program 1", 0);
}

Test(program_compile, has_no_more_programs_than_it_may) {
  settings.max_session_programs = 1;
  make_program(ADD_TEXT(""));
  fails(post_compile(++client->next_program, ADD_TEXT(""), (how){0}), PJRTD_CODE_RESOURCE_EXHAUSTED, "1 programs", 0);
}
