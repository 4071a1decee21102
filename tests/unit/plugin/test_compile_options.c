/* plugin/compile_options.c: what would end the process is refused by name, and nothing else is. */
#include <math.h>

#include "plugin_fixture.h"

TestSuite(compile_options, .init = open_client, .fini = close_client);

static void refuses(pjrtd_compile_options options, const char *piece) {
  ASSERT_FAILS(pjrtd_compile_options_check(client, &options), PJRTD_CODE_INVALID_ARGUMENT, piece);
}

static void accepts(pjrtd_compile_options options) {
  ASSERT_OK(pjrtd_compile_options_check(client, &options));
}

Test(compile_options, takes_the_defaults) {
  accepts((pjrtd_compile_options){0});
}

Test(compile_options, bounds_counts_by_the_devices) {
  accepts((pjrtd_compile_options){.num_replicas = 4});
  accepts((pjrtd_compile_options){.num_replicas = 2, .num_partitions = 2, .use_spmd_partitioning = true});
  refuses((pjrtd_compile_options){.num_replicas = 5}, "num_replicas 5 times num_partitions 1");
  refuses((pjrtd_compile_options){.num_replicas = UINT32_MAX}, "more than the 4 devices");
  refuses((pjrtd_compile_options){.num_replicas = 1u << 31, .num_partitions = 1u << 31}, "more than the 4 devices");
  refuses((pjrtd_compile_options){.num_partitions = UINT32_MAX, .use_spmd_partitioning = true}, "more than the 4");
  refuses((pjrtd_compile_options){.num_partitions = 2}, "use_spmd_partitioning is not set");
}

Test(compile_options, wants_an_assignment_of_existing_devices_each_once) {
  int ids[4] = {2, 1, 0, 3};
  accepts((pjrtd_compile_options){.num_replicas = 4, .device_assignment = ids, .num_device_assignment = 4});
  accepts((pjrtd_compile_options){.device_assignment = ids, .num_device_assignment = 1});
  refuses((pjrtd_compile_options){.num_replicas = 2, .device_assignment = ids, .num_device_assignment = 1},
          "device_assignment has 1 ids; 2 replicas of 1 partitions need 2");
  refuses((pjrtd_compile_options){.device_assignment = ids, .num_device_assignment = 2}, "has 2 ids");
  static const int wrong[] = {4, -1, 1 << 30};
  for (size_t i = 0; i < 3; i++)
    refuses((pjrtd_compile_options){.device_assignment = &wrong[i], .num_device_assignment = 1},
            "which does not exist");
  int twice[2] = {1, 1};
  refuses((pjrtd_compile_options){.num_replicas = 2, .device_assignment = twice, .num_device_assignment = 2},
          "names device 1 twice");
}

Test(compile_options, wants_a_mesh_of_the_partitions) {
  pjrtd_compile_options options = {
      .num_partitions = 4, .use_spmd_partitioning = true, .use_auto_spmd_partitioning = true};
  options.mesh_shape = (int64_t[]){2, 2};
  options.num_mesh_shape = 2;
  accepts(options);
  options.mesh_ids = (int64_t[]){3, 1, 2, 0};
  options.num_mesh_ids = 4;
  accepts(options);
  options.num_mesh_ids = 3;
  refuses(options, "has 3 ids, the mesh has 4 places");
  options.num_mesh_ids = 4;
  options.mesh_ids = (int64_t[]){0, 1, 2, 2};
  refuses(options, "has 2 twice");
  options.mesh_ids = (int64_t[]){0, 1, 2, 4};
  refuses(options, "has 4, must be from 0 to 3");
  options.num_mesh_ids = 0;
  static const int64_t shapes[][2] = {{0, 4}, {-2, -2}, {2, 3}, {INT64_MAX, INT64_MAX}};
  for (size_t i = 0; i < 4; i++) {
    options.mesh_shape = shapes[i];
    refuses(options, "must multiply to num_partitions, 4");
  }
  options.mesh_shape = (int64_t[]){2, 1};
  refuses(options, "has 2 places, num_partitions is 4");
  refuses((pjrtd_compile_options){.mesh_ids = (int64_t[]){0}, .num_mesh_ids = 1}, "without a mesh shape");
}

Test(compile_options, wants_efforts_from_minus_one_to_one) {
  accepts((pjrtd_compile_options){.exec_time_optimization_effort = -1, .memory_fitting_effort = 1});
  refuses((pjrtd_compile_options){.exec_time_optimization_effort = 1.5}, "exec_time_optimization_effort is 1.5");
  refuses((pjrtd_compile_options){.memory_fitting_effort = NAN}, "memory_fitting_effort is nan");
}

Test(compile_options, keeps_portable_programs_to_one_device) {
  int id = 1;
  accepts((pjrtd_compile_options){.compile_portable_executable = true});
  refuses((pjrtd_compile_options){.compile_portable_executable = true, .num_replicas = 2}, "portable");
  refuses(
      (pjrtd_compile_options){
          .compile_portable_executable = true, .device_assignment = &id, .num_device_assignment = 1},
      "portable");
}

static void refuses_override(pjrtd_value value, const char *piece) {
  refuses((pjrtd_compile_options){.overrides = &value, .num_overrides = 1}, piece);
}

Test(compile_options, takes_only_overrides_that_the_compiler_can_bear) {
  pjrtd_value good[] = {{.name = "xla_cpu_enable_fast_math", .kind = PJRTD_VALUE_BOOLEAN, .integer = 1},
                        {.name = "xla_cpu_parallel_codegen_split_count", .kind = PJRTD_VALUE_INTEGER, .integer = 4}};
  accepts((pjrtd_compile_options){.overrides = good, .num_overrides = 2});
  pjrtd_value twice[] = {good[0], good[0]};
  refuses((pjrtd_compile_options){.overrides = twice, .num_overrides = 2}, "is given twice");
  refuses_override((pjrtd_value){.name = "fast_math", .kind = PJRTD_VALUE_BOOLEAN}, "their names begin with xla_");
  refuses_override((pjrtd_value){.name = "", .kind = PJRTD_VALUE_BOOLEAN}, "their names begin with xla_");
  refuses_override((pjrtd_value){.name = "xla_a", .kind = PJRTD_VALUE_INTEGERS}, "cannot be a list");
  refuses_override((pjrtd_value){.name = "xla_a", .kind = PJRTD_VALUE_REAL, .real = INFINITY},
                   "must be a finite number");
  char split[] = "xla_cpu_parallel_codegen_split_count";
  static const int64_t counts[] = {-1, 0, INT32_MAX};
  for (size_t i = 0; i < 3; i++)
    refuses_override((pjrtd_value){.name = split, .kind = PJRTD_VALUE_INTEGER, .integer = counts[i]},
                     "must be from 1 to 1024");
  refuses_override((pjrtd_value){.name = split, .kind = PJRTD_VALUE_TEXT, .text = "-3"}, "must be from 1 to 1024");
  refuses_override(
      (pjrtd_value){.name = "xla_unsupported_crash_on_hlo_pass_noop_change", .kind = PJRTD_VALUE_BOOLEAN, .integer = 1},
      "crash the compiler");
}

Test(compile_options, tells_which_override_touches_files) {
  pjrtd_value values[] = {{.name = "xla_cpu_enable_fast_math", .kind = PJRTD_VALUE_BOOLEAN},
                          {.name = "xla_dump_to", .kind = PJRTD_VALUE_TEXT, .text = "/etc"}};
  cr_assert_null(
      pjrtd_compile_options_find_file_access(&(pjrtd_compile_options){.overrides = values, .num_overrides = 1}));
  cr_assert_str_eq(
      pjrtd_compile_options_find_file_access(&(pjrtd_compile_options){.overrides = values, .num_overrides = 2}),
      "xla_dump_to");
  char *others[] = {
      "xla_gpu_cuda_data_dir",           "xla_gpu_kernel_cache_file", "xla_gpu_load_autotune_results_from",
      "xla_gpu_algorithm_denylist_path", "xla_backend_extra_options", "xla_gpu_ptx_compiler_extra_flags"};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    pjrtd_value value = {.name = others[i], .kind = PJRTD_VALUE_TEXT, .text = "x"};
    cr_assert_not_null(
        pjrtd_compile_options_find_file_access(&(pjrtd_compile_options){.overrides = &value, .num_overrides = 1}));
  }
}
