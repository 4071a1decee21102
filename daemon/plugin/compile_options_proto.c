/* Compile options as the bytes of XLA's CompileOptionsProto. Any thread, no plugin call. Takes checked options. */
#include <stdlib.h>
#include <string.h>

#include "plugin/device_internal.h"
#include "xla_compile_options.pb-c.h"

static size_t or_one(uint32_t count) {
  return count ? count : 1;
}

typedef struct {
  Xla__DeviceAssignmentProto proto;
  Xla__DeviceAssignmentProto__ComputationDevice *parts;
  Xla__DeviceAssignmentProto__ComputationDevice **part_list;
  int64_t *ids;
} assignment;

static void assignment_deinit(assignment *assignment) {
  pjrtd_free(assignment->parts);
  pjrtd_free(assignment->part_list);
  pjrtd_free(assignment->ids);
}

/* XLA lists the devices of each partition; ours is replica-major. */
static pjrtd_status *make_assignment(const pjrtd_compile_options *options, assignment *out) {
  xla__device_assignment_proto__init(&out->proto);
  size_t replicas = or_one(options->num_replicas), partitions = or_one(options->num_partitions);
  out->parts = pjrtd_calloc(partitions, sizeof *out->parts);
  out->part_list = pjrtd_calloc(partitions, sizeof *out->part_list);
  out->ids = pjrtd_calloc(replicas * partitions, sizeof *out->ids);
  if (!out->parts || !out->part_list || !out->ids) return pjrtd_status_oom();
  for (size_t p = 0; p < partitions; p++) {
    xla__device_assignment_proto__computation_device__init(&out->parts[p]);
    out->part_list[p] = &out->parts[p];
    out->parts[p].replica_device_ids = out->ids + p * replicas;
    out->parts[p].n_replica_device_ids = replicas;
    for (size_t r = 0; r < replicas; r++) out->ids[p * replicas + r] = options->device_assignment[r * partitions + p];
  }
  out->proto.replica_count = (int32_t)replicas;
  out->proto.computation_count = (int32_t)partitions;
  out->proto.computation_devices = out->part_list;
  out->proto.n_computation_devices = partitions;
  return PJRTD_OK;
}

typedef struct {
  Xla__CompileOptionsProto__EnvOptionOverridesEntry *entries;
  Xla__CompileOptionsProto__EnvOptionOverridesEntry **entry_list;
  Xla__OptionOverrideProto *values;
} override_list;

static void override_list_deinit(override_list *list) {
  pjrtd_free(list->entries);
  pjrtd_free(list->entry_list);
  pjrtd_free(list->values);
}

static int compare_entries(const void *a, const void *b) {
  return strcmp((*(Xla__CompileOptionsProto__EnvOptionOverridesEntry *const *)a)->key,
                (*(Xla__CompileOptionsProto__EnvOptionOverridesEntry *const *)b)->key);
}

static void make_override(const pjrtd_value *value, Xla__OptionOverrideProto *out) {
  xla__option_override_proto__init(out);
  switch (value->kind) {
    case PJRTD_VALUE_TEXT:
      out->value_case = XLA__OPTION_OVERRIDE_PROTO__VALUE_STRING_FIELD;
      out->string_field = value->text;
      break;
    case PJRTD_VALUE_BOOLEAN:
      out->value_case = XLA__OPTION_OVERRIDE_PROTO__VALUE_BOOL_FIELD;
      out->bool_field = value->integer != 0;
      break;
    case PJRTD_VALUE_REAL:
      out->value_case = XLA__OPTION_OVERRIDE_PROTO__VALUE_DOUBLE_FIELD;
      out->double_field = value->real;
      break;
    case PJRTD_VALUE_INTEGER:
    case PJRTD_VALUE_INTEGERS: /* refused by the check */
      out->value_case = XLA__OPTION_OVERRIDE_PROTO__VALUE_INT_FIELD;
      out->int_field = value->integer;
      break;
  }
}

/* Sorted by name, so that the order in which a client gave them does not matter. */
static pjrtd_status *make_overrides(const pjrtd_compile_options *options, override_list *out) {
  size_t count = options->num_overrides;
  out->entries = pjrtd_calloc(count, sizeof *out->entries);
  out->entry_list = pjrtd_calloc(count, sizeof *out->entry_list);
  out->values = pjrtd_calloc(count, sizeof *out->values);
  if (!out->entries || !out->entry_list || !out->values) return pjrtd_status_oom();
  for (size_t i = 0; i < count; i++) {
    xla__compile_options_proto__env_option_overrides_entry__init(&out->entries[i]);
    make_override(&options->overrides[i], &out->values[i]);
    out->entries[i].key = options->overrides[i].name;
    out->entries[i].value = &out->values[i];
    out->entry_list[i] = &out->entries[i];
  }
  qsort(out->entry_list, count, sizeof *out->entry_list, compare_entries);
  return PJRTD_OK;
}

static pjrtd_status *make_booleans(const bool *values, size_t count, protobuf_c_boolean **out) {
  *out = pjrtd_calloc(count, sizeof **out);
  if (!*out) return pjrtd_status_oom();
  for (size_t i = 0; i < count; i++) (*out)[i] = values[i];
  return PJRTD_OK;
}

pjrtd_status *pjrtd_compile_options_encode(const pjrtd_client *client, const pjrtd_compile_options *options,
                                           uint8_t **out_bytes, size_t *out_size) {
  *out_bytes = NULL;
  *out_size = 0;
  __attribute__((cleanup(assignment_deinit))) assignment assigned = {0};
  __attribute__((cleanup(override_list_deinit))) override_list overrides = {0};
  PJRTD_AUTO_FREE protobuf_c_boolean *to_parameters = NULL, *to_output = NULL;
  PJRTD_TRY(make_overrides(options, &overrides));
  PJRTD_TRY(make_booleans(options->propagate_to_parameters, options->num_propagate_to_parameters, &to_parameters));
  PJRTD_TRY(make_booleans(options->propagate_to_output, options->num_propagate_to_output, &to_output));

  Xla__ExecutableBuildOptionsProto build = XLA__EXECUTABLE_BUILD_OPTIONS_PROTO__INIT;
  build.num_replicas = (int64_t)or_one(options->num_replicas);
  build.num_partitions = (int64_t)or_one(options->num_partitions);
  build.use_spmd_partitioning = options->use_spmd_partitioning;
  build.use_auto_spmd_partitioning = options->use_auto_spmd_partitioning;
  build.use_shardy_partitioner = options->use_shardy_partitioner;
  build.deduplicate_hlo = options->deduplicate_hlo;
  build.alias_passthrough_params = options->alias_passthrough_params;
  build.auto_spmd_partitioning_mesh_shape = (int64_t *)options->mesh_shape;
  build.n_auto_spmd_partitioning_mesh_shape = options->num_mesh_shape;
  build.auto_spmd_partitioning_mesh_ids = (int64_t *)options->mesh_ids;
  build.n_auto_spmd_partitioning_mesh_ids = options->num_mesh_ids;
  build.allow_spmd_sharding_propagation_to_parameters = to_parameters;
  build.n_allow_spmd_sharding_propagation_to_parameters = options->num_propagate_to_parameters;
  build.allow_spmd_sharding_propagation_to_output = to_output;
  build.n_allow_spmd_sharding_propagation_to_output = options->num_propagate_to_output;
  /* + 0.0 makes -0 the 0 that is not written. */
  build.exec_time_optimization_effort = (float)options->exec_time_optimization_effort + 0.0f;
  build.memory_fitting_effort = (float)options->memory_fitting_effort + 0.0f;
  if (options->num_device_assignment) {
    PJRTD_TRY(make_assignment(options, &assigned));
    build.device_assignment = &assigned.proto;
  }
  Xla__CompileOptionsProto proto = XLA__COMPILE_OPTIONS_PROTO__INIT;
  proto.executable_build_options = &build;
  proto.parameter_is_tupled_arguments = options->parameter_is_tupled_arguments;
  proto.compile_portable_executable = options->compile_portable_executable;
  proto.env_option_overrides = overrides.entry_list;
  proto.n_env_option_overrides = options->num_overrides;

  size_t size = xla__compile_options_proto__get_packed_size(&proto);
  uint8_t *bytes = pjrtd_malloc(size);
  if (!bytes) return pjrtd_status_oom();
  xla__compile_options_proto__pack(&proto, bytes);
  *out_bytes = bytes;
  *out_size = size;
  return PJRTD_OK;
}
