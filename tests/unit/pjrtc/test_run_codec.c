/* The messages of a run, held against protobuf-c's. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "fetched_codec.h"
#include "pjrtd/v1/execute.pb-c.h"
#include "run_codec.h"

static Pjrtd__V1__RunRequest *through_the_wire(const pjrtc_run_options *request) {
  size_t size = pjrtc_run_request_size(request);
  uint8_t *bytes = malloc(size + 1);
  cr_assert_eq((size_t)(pjrtc_run_request_write(request, bytes) - bytes), size);
  Pjrtd__V1__RunRequest *message = pjrtd__v1__run_request__unpack(NULL, size, bytes);
  cr_assert_not_null(message);
  cr_assert_eq(pjrtd__v1__run_request__get_packed_size(message), size, "nothing is redundant");
  free(bytes);
  return message;
}

Test(run_codec, writes_what_protobuf_reads) {
  pjrtc_argument args[] = {{.slot = "x"}, {.buffer = 300}};
  pjrtc_feed_back feed_back[] = {{.output = 0, .slot = "x"},
                                 {.output = 3, .argument = 1},
                                 {.output = 0, .argument = 200},
                                 {.output = 0, .argument = 0}};
  pjrtc_execute_options step = {.program = 7, .args = args, .num_args = 2, .feed_back = feed_back, .num_feed_back = 4};
  uint32_t stacked[] = {0, 1, 900};
  pjrtc_run_options options = {.step = &step,
                               .steps = UINT64_MAX,
                               .stacked = stacked,
                               .num_stacked = 3,
                               .has_until = true,
                               .every = 100,
                               .progress_ns = 1000000000};
  Pjrtd__V1__RunRequest *message = through_the_wire(&options);
  cr_assert_eq(message->steps, UINT64_MAX);
  cr_assert_eq(message->n_stacked, 3);
  cr_assert_eq(message->stacked[2], 900);
  cr_assert_eq(message->stop_case, PJRTD__V1__RUN_REQUEST__STOP_UNTIL, "output 0 is one, too");
  cr_assert_eq(message->until, 0);
  cr_assert_eq(message->every, 100);
  cr_assert_eq(message->progress_ns, 1000000000);
  cr_assert_eq(message->step->program, 7);
  cr_assert_str_eq(message->step->slot_args[0]->slot, "x");
  cr_assert_eq(message->step->n_feed_back, 4);
  cr_assert_str_eq(message->step->feed_back[0]->slot, "x");
  cr_assert_eq(message->step->feed_back[1]->output, 3);
  cr_assert_eq(message->step->feed_back[1]->argument, 1);
  cr_assert_str_eq(message->step->feed_back[1]->slot, "");
  cr_assert_eq(message->step->feed_back[2]->argument, 200);
  pjrtd__v1__run_request__free_unpacked(message, NULL);

  options = (pjrtc_run_options){.step = &step, .has_until = true, .until = 130};
  message = through_the_wire(&options);
  cr_assert_eq(message->until, 130);
  cr_assert_eq(message->steps, 0);
  pjrtd__v1__run_request__free_unpacked(message, NULL);
  options = (pjrtc_run_options){.step = &step, .steps = 1};
  message = through_the_wire(&options);
  cr_assert_eq(message->stop_case, PJRTD__V1__RUN_REQUEST__STOP__NOT_SET);
  pjrtd__v1__run_request__free_unpacked(message, NULL);
}

/* A reply with one value, of 8 bytes, of output 2. */
static size_t pack_reply(uint8_t *out) {
  static int64_t dims[] = {2};
  Pjrtd__V1__TensorType type = PJRTD__V1__TENSOR_TYPE__INIT;
  type.dtype = PJRTD__V1__DTYPE__DTYPE_F32, type.n_dims = 1, type.dims = dims;
  Pjrtd__V1__FetchedTensor fetched = PJRTD__V1__FETCHED_TENSOR__INIT, *list[] = {&fetched};
  fetched.position = 2, fetched.type = &type, fetched.data_bytes = 8;
  Pjrtd__V1__RunReply reply = PJRTD__V1__RUN_REPLY__INIT;
  reply.steps = 300, reply.n_fetched = 1, reply.fetched = list, reply.stopped = true, reply.execute_ns = 123456;
  return pjrtd__v1__run_reply__pack(&reply, out);
}

static const uint8_t bulk[8] = {0, 0, 0x80, 0x3f, 0, 0, 0, 0x40};

Test(run_codec, reads_what_protobuf_writes_again_and_again_into_the_same_memory) {
  uint8_t payload[128];
  size_t size = pack_reply(payload);
  pjrtc_value fetch[] = {{.position = 2}};
  pjrtc_run_reply reply;
  cr_assert_null(pjrtc_run_reply_read(payload, size, bulk, 8, fetch, 1, &reply));
  cr_assert_eq(reply.steps, 300);
  cr_assert_eq(reply.execute_ns, 123456);
  cr_assert(reply.stopped);
  cr_assert_eq(reply.num_fetched, 1);
  void *memory = fetch[0].data;
  cr_assert_eq(((float *)memory)[1], 2.0f);
  cr_assert_null(pjrtc_run_reply_read(payload, size, bulk, 8, fetch, 1, &reply));
  cr_assert_eq(fetch[0].data, memory);
  pjrtc_fetched_drop(fetch, 1);
  cr_assert_null(fetch[0].data);
  /* Progress only. */
  cr_assert_null(pjrtc_run_reply_read((const uint8_t *)"\x08\x05", 2, NULL, 0, fetch, 1, &reply));
  cr_assert_eq(reply.steps, 5);
  cr_assert_eq(reply.num_fetched, 0);
  cr_assert_not(reply.stopped);
}

static pjrtc_code read_code(const uint8_t *payload, size_t size, size_t bulk_bytes, uint32_t position,
                            size_t num_fetch) {
  float room[2];
  pjrtc_value fetch[] = {{.position = position, .data = room, .capacity_bytes = sizeof room},
                         {.position = position + 1}};
  pjrtc_run_reply reply;
  return pjrtc_failure_finish(pjrtc_run_reply_read(payload, size, bulk, bulk_bytes, fetch, num_fetch, &reply), NULL);
}

Test(run_codec, refuses_a_reply_that_contradicts_itself_or_the_request) {
  uint8_t payload[128];
  size_t size = pack_reply(payload);
  cr_assert_eq(read_code(payload, size, 8, 2, 1), PJRTC_OK);
  cr_assert_eq(read_code(payload, size, 7, 2, 1), PJRTC_INTERNAL, "too little data");
  cr_assert_eq(read_code(payload, size, 8, 3, 1), PJRTC_INTERNAL, "another output");
  cr_assert_eq(read_code(payload, size, 8, 2, 2), PJRTC_INTERNAL, "an output is missing");
  cr_assert_eq(read_code(payload, size, 8, 2, 0), PJRTC_INTERNAL, "none was asked for");
  cr_assert_eq(read_code((const uint8_t *)"\x08\x05", 2, 8, 2, 1), PJRTC_INTERNAL, "data without a value");
  for (size_t cut = 1; cut < size; cut++) read_code(payload, cut, 8, 2, 1);
}
