/* service/runtime_methods.c and admin_methods.c; hello is in test_peer.c. */
#include "peer_fixture.h"

TestSuite(runtime_methods, .init = open_service, .fini = close_service, .timeout = 120);

Test(runtime_methods, say_what_is_served) {
  const pjrtd_plugin_info *plugin = pjrtd_plugin_get_info(runtime->plugin);
  Pjrtd__V1__InfoReply *info =
      reply(request(PJRTD_METHOD_Runtime_Info, EMPTY_MESSAGE, (how){0}), &pjrtd__v1__info_reply__descriptor);
  cr_assert_str_eq(info->server_version, PJRTD_VERSION);
  cr_assert_eq(info->server_epoch, runtime->epoch);
  cr_assert_eq(info->pid, (uint32_t)getpid());
  cr_assert_str_eq(info->platform_name, "cpu");
  cr_assert_eq(info->num_devices, 2);
  cr_assert_eq(info->num_addressable_devices, 2);
  cr_assert_eq(info->pjrt_minor, (uint32_t)plugin->api_minor);
  cr_assert_eq(info->n_extensions, plugin->num_extensions);
  bool found = false;
  for (size_t i = 0; i < info->n_create_options; i++)
    if (!strcmp(info->create_options[i]->name, "cpu_device_count")) found = info->create_options[i]->integer == 2;
  cr_assert(found, "the options in force are told");
  free_reply(info);
}

Test(runtime_methods, list_devices_and_the_memory_spaces_that_they_reach) {
  Pjrtd__V1__DevicesReply *devices =
      reply(request(PJRTD_METHOD_Runtime_Devices, EMPTY_MESSAGE, (how){0}), &pjrtd__v1__devices_reply__descriptor);
  Pjrtd__V1__MemoriesReply *memories =
      reply(request(PJRTD_METHOD_Runtime_Memories, EMPTY_MESSAGE, (how){0}), &pjrtd__v1__memories_reply__descriptor);
  cr_assert_eq(devices->n_devices, 2);
  cr_assert_geq(memories->n_memories, 2);
  for (size_t i = 0; i < 2; i++) {
    const Pjrtd__V1__DeviceInfo *device = devices->devices[i];
    cr_assert(device->addressable);
    cr_assert_str_eq(device->kind, "cpu");
    bool has_default = false;
    for (size_t j = 0; j < device->n_memories; j++) {
      has_default |= device->memories[j] == device->default_memory;
      bool back = false;
      for (size_t k = 0; k < memories->n_memories; k++)
        for (size_t l = 0; memories->memories[k]->id == device->memories[j] && l < memories->memories[k]->n_devices;
             l++)
          back |= memories->memories[k]->devices[l] == device->id;
      cr_assert(back, "a memory space names the devices that reach it");
    }
    cr_assert(has_default);
  }
  free_reply(devices);
  free_reply(memories);
}

static uint64_t assignment(uint32_t replicas, uint32_t partitions) {
  Pjrtd__V1__DefaultAssignmentRequest message = PJRTD__V1__DEFAULT_ASSIGNMENT_REQUEST__INIT;
  message.num_replicas = replicas;
  message.num_partitions = partitions;
  return request(PJRTD_METHOD_Runtime_DefaultAssignment, &message.base, (how){0});
}

Test(runtime_methods, give_the_plugins_assignment_and_refuse_what_it_would_abort_on) {
  Pjrtd__V1__DefaultAssignmentReply *two = reply(assignment(2, 1), &pjrtd__v1__default_assignment_reply__descriptor);
  cr_assert_eq(two->n_devices, 2);
  cr_assert_neq(two->devices[0], two->devices[1]);
  free_reply(two);
  static const uint32_t bad[][2] = {{0, 1}, {1, 0}, {0, 0}, {65536, 65536}, {UINT32_MAX, UINT32_MAX}, {3, 1}, {1, 5}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
    fails(assignment(bad[i][0], bad[i][1]), PJRTD_CODE_INVALID_ARGUMENT, "", 0);
}

static Pjrtd__V1__StatsReply *ask_stats(void) {
  return reply(request(PJRTD_METHOD_Admin_Stats, EMPTY_MESSAGE, (how){0}), &pjrtd__v1__stats_reply__descriptor);
}

Test(runtime_methods, count_what_happened) {
  uint64_t program = make_program(ADD_TEXT("")), id = make_pair(1, 2);
  succeed(execute((execution){program, 1, {id}}, (how){0}));
  fails(execute((execution){99}, (how){0}), PJRTD_CODE_NOT_FOUND, "", 0);
  wait_until_idle();
  Pjrtd__V1__StatsReply *stats = ask_stats();
  cr_assert_eq(stats->sessions, 1);
  cr_assert_eq(stats->buffers, 1);
  cr_assert_eq(stats->buffer_bytes, 8);
  cr_assert_eq(stats->programs, 1);
  cr_assert_eq(stats->compiles, 1);
  cr_assert_gt(stats->compile_ns, 0);
  cr_assert_eq(stats->executes_on_lane, 1);
  cr_assert_eq(stats->calls_total, client->next_call);
  cr_assert_eq(stats->calls_failed, 1);
  cr_assert_eq(stats->calls_in_flight, 0);
  cr_assert_eq(stats->n_lanes, 2);
  cr_assert_eq(stats->lanes[0]->jobs + stats->lanes[1]->jobs, 1);
  cr_assert_gt(stats->resident_bytes, 1 << 20);
  cr_assert_gt(stats->threads, 1);
  cr_assert_gt(stats->open_descriptors, 3);
  uint64_t descriptors = stats->open_descriptors;
  free_reply(stats);
  int pipes[2];
  cr_assert_eq(pipe(pipes), 0);
  stats = ask_stats();
  cr_assert_eq(stats->open_descriptors, descriptors + 2);
  free_reply(stats);
  close(pipes[0]);
  close(pipes[1]);
}
