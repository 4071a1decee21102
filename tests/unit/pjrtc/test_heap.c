/* Every allocation fails in turn; and the hot path makes none. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "fake_peer.h"
#include "heap.h"

static bool may_be(pjrtc_code code) {
  return code == PJRTC_OK || code == PJRTC_RESOURCE_EXHAUSTED || code == PJRTC_NOT_FOUND;
}

/* Everything once. Any step may fail for want of memory, or for want of what an earlier step was to make. */
static void everything(const char *target) {
  pjrtc_client *client;
  pjrtc_error error = PJRTC_ERROR_INIT;
  pjrtc_code code = pjrtc_connect(target, NULL, &client, &error);
  cr_assert(may_be(code), "connect: %s", error.message);
  if (code) return;
  static uint8_t data[300000];
  int64_t dims[] = {300000}, sides[] = {500, 600}, strides[] = {1, 500}, small[] = {8};
  uint64_t program, buffers[3] = {0}, output;
  pjrtc_program_info *info;
  pjrtc_attribute override = {.name = "xla_x", .kind = PJRTC_ATTRIBUTE_INTEGER, .integer = 1};
  bool flag = true;
  pjrtc_compile_options compile = {.struct_size = sizeof compile,
                                   .code = data,
                                   .code_bytes = 100,
                                   .overrides = &override,
                                   .num_overrides = 1,
                                   .allow_spmd_sharding_propagation_to_output = &flag,
                                   .num_allow_spmd_sharding_propagation_to_output = 1};
  cr_assert(may_be(code = pjrtc_compile(client, &compile, &program, &info, &error)), "compile: %s", error.message);
  cr_assert_eq(code == PJRTC_OK, info != NULL);
  pjrtc_program_info_destroy(info);
  pjrtc_upload_options up = {.struct_size = sizeof up, .type = {PJRTC_U8, 1, dims}, .data = data};
  cr_assert(may_be(pjrtc_upload(client, &up, &buffers[0], &error)), "upload: %s", error.message);
  up.type = (pjrtc_type){PJRTC_U8, 2, sides}, up.byte_strides = strides;
  cr_assert(may_be(pjrtc_upload(client, &up, &buffers[1], &error)), "strided upload: %s", error.message);
  cr_assert(may_be(pjrtc_upload_start(client, &up, &buffers[2], NULL, &error)), "quiet upload: %s", error.message);
  pjrtc_value value = {0};
  cr_assert(may_be(pjrtc_download(client, buffers[0], &value, 0, &error)), "download: %s", error.message);
  pjrtc_free(value.data);
  pjrtc_value fetch = {0};
  pjrtc_argument arg = {.type = {PJRTC_F32, 1, small}, .data = data};
  pjrtc_execute_options run = {.struct_size = sizeof run,
                               .program = program,
                               .args = &arg,
                               .num_args = 1,
                               .outputs = &output,
                               .num_outputs = 1,
                               .fetch = &fetch,
                               .num_fetch = 1};
  cr_assert(may_be(pjrtc_execute(client, &run, &error)), "execute: %s", error.message);
  pjrtc_free(fetch.data);
  pjrtc_value brought = {0};
  pjrtc_execute_options step = {
      .struct_size = sizeof step, .program = program, .args = &arg, .num_args = 1, .fetch = &brought, .num_fetch = 1};
  pjrtc_run_options steps = {.struct_size = sizeof steps, .step = &step, .steps = 3, .every = 1};
  cr_assert(may_be(code = pjrtc_run(client, &steps, &error)), "run: %s", error.message);
  cr_assert_eq(code == PJRTC_OK, brought.data != NULL);
  pjrtc_free(brought.data);
  pjrtc_info *runtime;
  pjrtc_devices *devices;
  pjrtc_stats *stats;
  cr_assert(may_be(pjrtc_get_info(client, &runtime, &error)), "info: %s", error.message);
  cr_assert(may_be(pjrtc_get_devices(client, &devices, &error)), "devices: %s", error.message);
  cr_assert(may_be(pjrtc_get_stats(client, &stats, &error)), "stats: %s", error.message);
  pjrtc_info_destroy(runtime);
  pjrtc_devices_destroy(devices);
  pjrtc_stats_destroy(stats);
  pjrtc_slot_binding bindings[] = {{"x", buffers[0]}, {"y", buffers[1]}};
  const char *names[] = {"x", "y"};
  uint64_t found[2];
  pjrtc_slots *slots;
  cr_assert(may_be(pjrtc_bind(client, bindings, 2, &error)), "bind: %s", error.message);
  cr_assert(may_be(pjrtc_lookup(client, names, 2, found, &error)), "lookup: %s", error.message);
  cr_assert(may_be(code = pjrtc_get_slots(client, names, 2, &slots, &error)), "slots: %s", error.message);
  cr_assert_eq(code == PJRTC_OK, slots != NULL);
  pjrtc_slots_destroy(slots);
  pjrtc_publish_options publish = {.struct_size = sizeof publish, .name = "model", .slots = names, .num_slots = 2};
  pjrtc_borrowed_slot borrowed[] = {{"x", "mine"}, {"y", NULL}};
  pjrtc_published *published;
  cr_assert(may_be(pjrtc_publish(client, &publish, &error)), "publish: %s", error.message);
  cr_assert(may_be(pjrtc_borrow(client, "model", borrowed, 2, &error)), "borrow: %s", error.message);
  cr_assert(may_be(code = pjrtc_get_published(client, &published, &error)), "published: %s", error.message);
  cr_assert_eq(code == PJRTC_OK, published != NULL);
  if (published) cr_assert_str_eq(published->publications[0]->name, "model");
  pjrtc_published_destroy(published);
  cr_assert(may_be(pjrtc_withdraw(client, "model", &error)), "withdraw: %s", error.message);
  cr_assert(may_be(pjrtc_unbind(client, names, 2, &error)), "unbind: %s", error.message);
  uint64_t missing = 1;
  pjrtc_delete_start(client, &missing, 1, NULL, NULL);
  cr_assert(may_be(pjrtc_sync(client, 0, &error)), "sync: %s", error.message);
  pjrtc_close(client);
}

Test(heap, each_allocation_may_fail, .timeout = 60) {
  int64_t asked, n = 0;
  do {
    fake_peer peer;
    fake_peer_init(&peer, peer_serve, NULL);
    fake_peer_start(&peer);
    pjrtc_heap_fail_after(n);
    everything(peer.target);
    asked = pjrtc_heap_fail_after(-1);
    fake_peer_join(&peer);
  } while (asked > n++);
  cr_assert_gt(n, 20);
  cr_assert_lt(n, 1000);
}

Test(heap, is_not_used_by_a_warm_execute, .timeout = 20) {
  fake_peer peer;
  pjrtc_client *client = fake_peer_connect(&peer, peer_serve, NULL);
  float x[8] = {1, 2, 3}, y[8];
  int64_t dims[] = {8};
  uint64_t output;
  pjrtc_argument arg = {.type = {PJRTC_F32, 1, dims}, .data = x};
  pjrtc_value fetch = {.data = y, .capacity_bytes = sizeof y};
  pjrtc_execute_options run = {.struct_size = sizeof run,
                               .program = 1,
                               .args = &arg,
                               .num_args = 1,
                               .outputs = &output,
                               .num_outputs = 1,
                               .fetch = &fetch,
                               .num_fetch = 1};
  for (int i = 0; i < 10; i++) cr_assert_eq(pjrtc_execute(client, &run, NULL), PJRTC_OK);
  pjrtc_heap_fail_after(1000000);
  for (int i = 0; i < 100; i++) cr_assert_eq(pjrtc_execute(client, &run, NULL), PJRTC_OK);
  cr_assert_eq(pjrtc_heap_fail_after(-1), 0);
  cr_assert_eq(y[2], 3.0f);
  pjrtc_close(client);
  fake_peer_join(&peer);
}
