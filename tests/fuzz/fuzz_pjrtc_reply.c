/* What libpjrtc reads from a server. The first byte chooses: the whole connection, to which the rest is what the server
 * sends while calls of every kind wait; or one decoder, to which the rest is a payload. Links pjrtc_static. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "calls.h"
#include "error_reply.h"
#include "execute_codec.h"
#include "fetched_codec.h"
#include "method_ids.h"
#include "reply_object.h"
#include "run_codec.h"

/* Frames of a HelloReply {version 1, max_payload 1 MiB, max_inline 64 KiB, max_item 1 MiB, credit 1 MiB, 64 calls}. */
static void send_hello(int fd) {
  static const uint8_t reply[] = {0x08, 1,    0x28, 0x80, 0x80, 0x40, 0x30, 0x80, 0x80, 0x04,
                                  0x38, 0x80, 0x80, 0x40, 0x40, 0x80, 0x80, 0x40, 0x48, 64};
  uint8_t frame[PJRTD_FRAME_HEADER_BYTES + sizeof reply];
  pjrtd_frame_encode(
      &(pjrtd_frame_header){
          .payload_bytes = sizeof reply, .method = PJRTC_METHOD_hello, .kind = PJRTD_FRAME_REPLY, .call = 1},
      frame);
  memcpy(frame + PJRTD_FRAME_HEADER_BYTES, reply, sizeof reply);
  if (send(fd, frame, sizeof frame, MSG_NOSIGNAL) < 0) abort();
}

enum { CALLS = 10, ROOM = 1 << 17 };

/* What a run tells lies in memory of the caller's and of the library's; both are read. */
static bool on_step(void *user, uint64_t steps, const pjrtc_value *values, size_t num_values) {
  uint64_t sum = steps;
  for (size_t i = 0; i < num_values; i++)
    for (uint64_t b = 0; b < values[i].size_bytes; b++) sum += ((const uint8_t *)values[i].data)[b];
  *(uint64_t *)user += sum;
  return steps != 13;
}

static void fuzz_connection(const uint8_t *data, size_t size) {
  int fds[2];
  if (size > 150000 || socketpair(AF_UNIX, SOCK_STREAM, 0, fds) != 0) return;
  send_hello(fds[1]);
  pjrtc_client *client = pjrtc_connect_socket(fds[0]);
  if (!client) abort();
  static uint8_t room[CALLS][ROOM], large[200000];
  static const int64_t dims[] = {200000};
  uint64_t id = 1, outputs[2];
  pjrtc_value first = {.data = room[0], .capacity_bytes = ROOM}, small = {.data = room[1], .capacity_bytes = 8};
  pjrtc_value fetch[] = {{.position = 0, .data = room[2], .capacity_bytes = ROOM}, {.position = 1}};
  uint32_t consumed[2];
  pjrtc_execute_result result = {.struct_size = sizeof result, .consumed = consumed, .max_consumed = 2};
  pjrtc_execute_options execute = {.struct_size = sizeof execute,
                                   .program = 1,
                                   .outputs = outputs,
                                   .num_outputs = 2,
                                   .fetch = fetch,
                                   .num_fetch = 2,
                                   .result = &result};
  pjrtc_buffer_info info = {.struct_size = sizeof info};
  pjrtc_program_info *programs[2] = {NULL, NULL};
  pjrtc_compile_options compile = {.struct_size = sizeof compile, .code = "x", .code_bytes = 1};
  pjrtc_upload_options upload = {.struct_size = sizeof upload, .type = {PJRTC_U8, 1, dims}, .data = large};
  pjrtc_future *calls[CALLS] = {NULL};
  pjrtc_download_start(client, 1, &first, 0, &calls[0], NULL); /* call 2 */
  pjrtc_download_start(client, 2, &small, 0, &calls[1], NULL); /* too little room */
  pjrtc_execute_start(client, &execute, &calls[2], NULL);      /* 4 */
  pjrtc_compile_start(client, &compile, &id, &programs[0], &calls[3], NULL);
  pjrtc_describe_start(client, 1, &programs[1], &calls[4], NULL);
  pjrtc_stat_start(client, 1, &info, &calls[5], NULL);
  pjrtc_sync_start(client, 0, &calls[6], NULL); /* 8 */
  pjrtc_upload_start(client, &upload, &id, &calls[7], NULL);
  pjrtc_download_start(client, 3, &first, 0, &calls[8], NULL); /* 10: nobody wants it any more */
  pjrtc_delete_start(client, &id, 1, NULL, NULL);              /* 11: quiet */
  pjrtc_value steps_fetch[] = {{.position = 0, .data = room[9], .capacity_bytes = ROOM}, {.position = 1}};
  pjrtc_execute_options step = {.struct_size = sizeof step, .program = 1, .fetch = steps_fetch, .num_fetch = 2};
  uint64_t sum = 0;
  pjrtc_run_result run_result = {.struct_size = sizeof run_result};
  pjrtc_run_options run = {.struct_size = sizeof run,
                           .step = &step,
                           .steps = 9,
                           .every = 1,
                           .on_step = on_step,
                           .user = &sum,
                           .result = &run_result};
  pjrtc_run_start(client, &run, &calls[9], NULL); /* 12 */
  pjrtc_future_destroy(calls[8]);
  if (send(fds[1], data, size, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && size) abort();
  shutdown(fds[1], SHUT_WR);
  for (int i = 0; i < CALLS; i++) {
    if (i == 8) continue;
    pjrtc_future_wait(calls[i], PJRTC_FOREVER, NULL);
    bool good = pjrtc_future_poll(calls[i], NULL) == PJRTC_OK;
    if (i == 2 && good) pjrtc_free(fetch[1].data);
    if (i == 9 && good) pjrtc_free(steps_fetch[1].data);
    if (i == 9 && !good && steps_fetch[1].data) abort();
    pjrtc_future_destroy(calls[i]);
  }
  pjrtc_program_info_destroy(programs[0]);
  pjrtc_program_info_destroy(programs[1]);
  pjrtc_close(client);
  close(fds[1]);
}

static void fuzz_object(pjrtc_reply_object_reader *reader, const uint8_t *data, size_t size) {
  void *object;
  pjrtc_failure_release(pjrtc_reply_object_read(reader, data, size, "it", &object));
  pjrtc_reply_object_destroy(object);
}

/* The same bytes twice, as a run has one item after the other. */
static void fuzz_run(const uint8_t *data, size_t size) {
  if (size < 2) return;
  size_t payload = (size_t)(data[0] | data[1] << 8);
  data += 2, size -= 2;
  if (payload > size) payload = size;
  static uint8_t room[ROOM];
  pjrtc_value fetch[] = {{.position = 0, .data = room, .capacity_bytes = ROOM}, {.position = 2}};
  pjrtc_run_reply reply;
  for (int i = 0; i < 2; i++) {
    pjrtc_failure *failure = pjrtc_run_reply_read(data, payload, data + payload, size - payload, fetch, 2, &reply);
    if (!failure && reply.num_fetched && reply.num_fetched != 2) abort();
    pjrtc_failure_release(failure);
  }
  pjrtc_fetched_drop(fetch, 2);
  if (fetch[1].data || fetch[0].data != room) abort();
}

/* Payload and bulk are told apart by the first two bytes. */
static void fuzz_execute(const uint8_t *data, size_t size) {
  if (size < 2) return;
  size_t payload = (size_t)(data[0] | data[1] << 8);
  data += 2, size -= 2;
  if (payload > size) payload = size;
  static uint8_t room[ROOM];
  pjrtc_value fetch[] = {{.position = 0, .data = room, .capacity_bytes = ROOM}, {.position = 2}, {.position = 5}};
  uint32_t consumed[4];
  pjrtc_execute_result result = {.struct_size = sizeof result, .consumed = consumed, .max_consumed = 4};
  pjrtc_failure *failure = pjrtc_execute_reply_read(data, payload, data + payload, size - payload, fetch, 3, &result);
  if (!failure) pjrtc_free(fetch[1].data), pjrtc_free(fetch[2].data);
  if (failure && (fetch[1].data || fetch[2].data)) abort();
  pjrtc_failure_release(failure);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static pjrtc_reply_object_reader *const readers[] = {pjrtc_read_info,  pjrtc_read_devices, pjrtc_read_memories,
                                                       pjrtc_read_stats, pjrtc_read_compile, pjrtc_read_description};
  static pjrtc_reply_object_reader *const more[] = {pjrtc_read_sessions, pjrtc_read_slots};
  if (!size) return 0;
  unsigned choice = *data++;
  size--;
  if (choice == 0)
    fuzz_connection(data, size);
  else if (choice <= 6)
    fuzz_object(readers[choice - 1], data, size);
  else if (choice == 7)
    pjrtc_failure_release(pjrtc_error_reply_read(data, size, 1));
  else if (choice == 8)
    fuzz_execute(data, size);
  else if (choice <= 10)
    fuzz_object(more[choice - 9], data, size);
  else if (choice == 11)
    fuzz_run(data, size);
  else if (choice == 12)
    fuzz_object(pjrtc_read_published, data, size);
  return 0;
}
