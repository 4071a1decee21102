/* The hand-written messages of the hot path, held against protobuf-c's. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "execute_codec.h"
#include "pjrtd/v1/execute.pb-c.h"

static uint64_t next_random(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return *state >> 11;
}

static Pjrtd__V1__ExecuteRequest *through_the_wire(const pjrtc_execute_options *request) {
  size_t size = pjrtc_execute_request_size(request);
  uint8_t *bytes = malloc(size + 1);
  cr_assert_eq((size_t)(pjrtc_execute_request_write(request, bytes) - bytes), size);
  Pjrtd__V1__ExecuteRequest *message = pjrtd__v1__execute_request__unpack(NULL, size, bytes);
  cr_assert_not_null(message);
  /* protobuf-c writes the same bytes: nothing is redundant. */
  cr_assert_eq(pjrtd__v1__execute_request__get_packed_size(message), size);
  free(bytes);
  return message;
}

static char long_name[256];

Test(execute_codec, writes_what_protobuf_reads) {
  uint64_t random = 1;
  memset(long_name, 'n', sizeof long_name - 1);
  for (int round = 0; round < 500; round++) {
    int64_t dims[4];
    uint64_t outputs[40];
    pjrtc_argument args[40];
    pjrtc_value fetch[8];
    pjrtc_feed_back feed_back[8];
    uint32_t fixed[8];
    static const char *const names[] = {"", "x", "a slot with a longer name", long_name};
    memset(args, 0, sizeof args);
    for (int i = 0; i < 4; i++) dims[i] = (int64_t)(next_random(&random) % 300);
    pjrtc_execute_options request = {
        .program = next_random(&random) + 1,
        .args = args,
        .num_args = next_random(&random) % 40,
        .outputs = outputs,
        .num_outputs = next_random(&random) % 40,
        .fetch = fetch,
        .num_fetch = next_random(&random) % 8,
        .feed_back = feed_back,
        .num_feed_back = next_random(&random) % 8,
        .non_donatable = fixed,
        .num_non_donatable = next_random(&random) % 8,
    };
    for (size_t i = 0; i < request.num_args; i++) {
      if (next_random(&random) % 3)
        args[i].buffer = next_random(&random) >> next_random(&random) % 50 | 1;
      else if (next_random(&random) % 2)
        args[i].slot = names[next_random(&random) % 4];
      else
        args[i].type = (pjrtc_type){PJRTC_F32, (uint32_t)(next_random(&random) % 5), dims};
    }
    for (size_t i = 0; i < request.num_outputs; i++) outputs[i] = next_random(&random) >> next_random(&random) % 52;
    for (size_t i = 0; i < request.num_fetch; i++) fetch[i].position = (uint32_t)(i * 100);
    for (size_t i = 0; i < request.num_feed_back; i++)
      feed_back[i] =
          (pjrtc_feed_back){.output = (uint32_t)next_random(&random) % 300, .slot = names[next_random(&random) % 4]};
    for (size_t i = 0; i < request.num_non_donatable; i++) fixed[i] = (uint32_t)(i * 90);

    Pjrtd__V1__ExecuteRequest *message = through_the_wire(&request);
    cr_assert_eq(message->program, request.program);
    cr_assert_eq(message->n_args, request.num_args);
    size_t inline_args = 0, slot_args = 0;
    for (size_t i = 0; i < request.num_args; i++) {
      cr_assert_eq(message->args[i], args[i].buffer);
      if (args[i].buffer) continue;
      if (args[i].slot) {
        const Pjrtd__V1__SlotArgument *slot = message->slot_args[slot_args++];
        cr_assert_eq(slot->position, i);
        cr_assert_str_eq(slot->slot, args[i].slot);
        continue;
      }
      const Pjrtd__V1__InlineArgument *arg = message->inline_args[inline_args++];
      uint64_t size_bytes;
      cr_assert_eq(pjrtc_type_size(&args[i].type, &size_bytes, NULL), PJRTC_OK);
      cr_assert_eq(arg->position, i);
      cr_assert_eq(arg->data_bytes, size_bytes);
      cr_assert_eq(arg->type->dtype, PJRTD__V1__DTYPE__DTYPE_F32);
      cr_assert_eq(arg->type->n_dims, args[i].type.rank);
      for (uint32_t d = 0; d < args[i].type.rank; d++) cr_assert_eq(arg->type->dims[d], dims[d]);
    }
    cr_assert_eq(message->n_inline_args, inline_args);
    cr_assert_eq(message->n_slot_args, slot_args);
    cr_assert_eq(message->n_feed_back, request.num_feed_back);
    for (size_t i = 0; i < request.num_feed_back; i++) {
      cr_assert_eq(message->feed_back[i]->output, feed_back[i].output);
      cr_assert_str_eq(message->feed_back[i]->slot, feed_back[i].slot);
    }
    cr_assert_eq(message->n_non_donatable, request.num_non_donatable);
    for (size_t i = 0; i < request.num_non_donatable; i++) cr_assert_eq(message->non_donatable[i], fixed[i]);
    cr_assert_eq(message->n_outputs, request.num_outputs);
    for (size_t i = 0; i < request.num_outputs; i++) cr_assert_eq(message->outputs[i], outputs[i]);
    cr_assert_eq(message->n_fetch, request.num_fetch);
    for (size_t i = 0; i < request.num_fetch; i++) cr_assert_eq(message->fetch[i], fetch[i].position);
    pjrtd__v1__execute_request__free_unpacked(message, NULL);
  }
}

/* A reply with two values, 8 and 3 bytes, and two donated arguments, as protobuf-c writes it. */
static size_t pack_reply(uint8_t *out) {
  static int64_t dims_a[] = {2}, dims_b[] = {3, 1};
  Pjrtd__V1__TensorType a = PJRTD__V1__TENSOR_TYPE__INIT, b = PJRTD__V1__TENSOR_TYPE__INIT;
  a.dtype = PJRTD__V1__DTYPE__DTYPE_F32, a.n_dims = 1, a.dims = dims_a;
  b.dtype = PJRTD__V1__DTYPE__DTYPE_U8, b.n_dims = 2, b.dims = dims_b;
  Pjrtd__V1__FetchedTensor first = PJRTD__V1__FETCHED_TENSOR__INIT, second = PJRTD__V1__FETCHED_TENSOR__INIT;
  first.position = 0, first.type = &a, first.data_bytes = 8;
  second.position = 300, second.type = &b, second.data_bytes = 3;
  Pjrtd__V1__FetchedTensor *list[] = {&first, &second};
  uint32_t consumed[] = {1, 1000};
  Pjrtd__V1__ExecuteReply reply = PJRTD__V1__EXECUTE_REPLY__INIT;
  reply.n_fetched = 2, reply.fetched = list;
  reply.n_consumed = 2, reply.consumed = consumed;
  reply.execute_ns = 123456789;
  return pjrtd__v1__execute_reply__pack(&reply, out);
}

static const uint8_t reply_bulk[11] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0x40, 7, 8, 9};

Test(execute_codec, reads_what_protobuf_writes) {
  uint8_t payload[256], bytes[3];
  float floats[2];
  uint32_t consumed[4];
  pjrtc_value fetch[] = {{.position = 0, .data = floats, .capacity_bytes = sizeof floats},
                         {.position = 300, .data = bytes, .capacity_bytes = sizeof bytes}};
  pjrtc_execute_result result = {.struct_size = sizeof result, .consumed = consumed, .max_consumed = 4};
  size_t size = pack_reply(payload);
  cr_assert_null(pjrtc_execute_reply_read(payload, size, reply_bulk, sizeof reply_bulk, fetch, 2, &result));
  cr_assert_eq(floats[0], 1.0f);
  cr_assert_eq(floats[1], 2.0f);
  cr_assert_eq(memcmp(bytes, "\7\10\11", 3), 0);
  cr_assert_eq(fetch[1].dtype, PJRTC_U8);
  cr_assert_eq(fetch[1].rank, 2);
  cr_assert_eq(fetch[1].dims[0], 3);
  cr_assert_eq(fetch[1].dims[1], 1);
  cr_assert_eq(fetch[1].size_bytes, 3);
  cr_assert_eq(result.execute_ns, 123456789);
  cr_assert_eq(result.num_consumed, 2);
  cr_assert_eq(consumed[1], 1000);
}

static pjrtc_code read_code(const uint8_t *payload, size_t size, size_t bulk_bytes, pjrtc_value *fetch,
                            size_t num_fetch) {
  pjrtc_failure *failure = pjrtc_execute_reply_read(payload, size, reply_bulk, bulk_bytes, fetch, num_fetch, NULL);
  return pjrtc_failure_finish(failure, NULL);
}

Test(execute_codec, refuses_a_reply_that_contradicts_itself_or_the_request) {
  uint8_t payload[256], space[16];
  size_t size = pack_reply(payload);
  pjrtc_value good[] = {{.position = 0, .data = space, .capacity_bytes = 8},
                        {.position = 300, .data = space + 8, .capacity_bytes = 3}};
  cr_assert_eq(read_code(payload, size, 11, good, 2), PJRTC_OK);
  cr_assert_eq(read_code(payload, size, 10, good, 2), PJRTC_INTERNAL, "too little data");
  cr_assert_eq(read_code(payload, size, 0, good, 2), PJRTC_INTERNAL, "no data");
  cr_assert_eq(read_code(payload, size, 11, good, 1), PJRTC_INTERNAL, "an output that was not asked for");
  pjrtc_value other[] = {good[0], good[1], {.position = 301}};
  cr_assert_eq(read_code(payload, size, 11, other, 3), PJRTC_INTERNAL, "an output is missing");
  for (size_t cut = 1; cut < size; cut++) read_code(payload, cut, 11, good, 2);
}

Test(execute_codec, says_how_large_a_value_is_that_does_not_fit) {
  uint8_t payload[256], space[16] = {0};
  size_t size = pack_reply(payload);
  pjrtc_value fetch[] = {{.position = 0, .data = space, .capacity_bytes = 7},
                         {.position = 300, .data = space + 8, .capacity_bytes = 3}};
  pjrtc_error error = PJRTC_ERROR_INIT;
  pjrtc_failure *failure = pjrtc_execute_reply_read(payload, size, reply_bulk, 11, fetch, 2, NULL);
  cr_assert_eq(pjrtc_failure_finish(failure, &error), PJRTC_OUT_OF_RANGE);
  cr_assert_str_eq(error.message, "output 0 is f32[2], 8 bytes, and there is room for 7");
  cr_assert_eq(fetch[0].size_bytes, 8);
  cr_assert_eq(space[0], 0, "nothing was written");
}

Test(execute_codec, allocates_values_and_takes_them_back_on_failure) {
  uint8_t payload[256];
  size_t size = pack_reply(payload);
  pjrtc_value fetch[] = {{.position = 0}, {.position = 300}};
  cr_assert_eq(read_code(payload, size, 11, fetch, 2), PJRTC_OK);
  cr_assert_eq(((float *)fetch[0].data)[1], 2.0f);
  pjrtc_free(fetch[0].data);
  pjrtc_free(fetch[1].data);
  pjrtc_value again[] = {{.position = 0}, {.position = 300}};
  cr_assert_eq(read_code(payload, size, 10, again, 2), PJRTC_INTERNAL);
  cr_assert_null(again[0].data);
  cr_assert_null(again[1].data);
}

Test(execute_codec, refuses_arguments_that_are_not_there_or_too_large) {
  int64_t many[] = {100000}, negative[] = {-1};
  pjrtc_value fetch[] = {{.position = 1}, {.position = 1}};
  uint64_t bytes;
  pjrtc_error error = PJRTC_ERROR_INIT;
  pjrtc_argument args[2] = {{.buffer = 1}, {.type = {PJRTC_U8, 1, many}, .data = many}};
  pjrtc_execute_options request = {.args = args, .num_args = 2};
  pjrtc_failure_finish(pjrtc_execute_request_check(&request, false, 65536, &bytes), &error);
  cr_assert_eq(error.code, PJRTC_INVALID_ARGUMENT);
  cr_assert_str_eq(error.message, "the arguments given by value are over the limit of 65536 bytes");
  args[1].data = NULL;
  pjrtc_failure_finish(pjrtc_execute_request_check(&request, false, 65536, &bytes), &error);
  cr_assert_str_eq(error.message, "argument 1: there is neither a buffer nor a slot nor data");
  args[1] = (pjrtc_argument){.type = {PJRTC_U8, 1, negative}, .data = many};
  pjrtc_failure_finish(pjrtc_execute_request_check(&request, false, 65536, &bytes), &error);
  cr_assert_str_eq(error.message, "argument 1: dimension 0 is -1, must be 0 or more");
  args[1] = (pjrtc_argument){.buffer = 2, .slot = "theta"};
  pjrtc_failure_finish(pjrtc_execute_request_check(&request, false, 65536, &bytes), &error);
  cr_assert_str_eq(error.message, "argument 1 is both a buffer and slot 'theta'");
  pjrtc_feed_back feed_back[] = {{.slot = "theta"}, {.output = 1}};
  request = (pjrtc_execute_options){.feed_back = feed_back, .num_feed_back = 2};
  pjrtc_failure_finish(pjrtc_execute_request_check(&request, false, 65536, &bytes), &error);
  cr_assert_str_eq(error.message, "feed_back[1] names no slot");
  request = (pjrtc_execute_options){.fetch = fetch, .num_fetch = 2};
  pjrtc_failure_finish(pjrtc_execute_request_check(&request, false, 65536, &bytes), &error);
  cr_assert_str_eq(error.message, "the positions to fetch must increase: 1 follows 1");
}
