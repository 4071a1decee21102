/* Compile options: checked before the plugin sees them. Any thread, no plugin call. The encoding is
 * compile_options_proto.c.
 *
 * The plugin checks little of this itself. It aborts the process on counts of 0 or below, allocates for ever on large
 * ones, truncates device ids to 32 bits, lets an assignment override the counts or name a device twice, and throws on
 * some values of XLA's own flags. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/device_internal.h"

#define MAX_MESH_DIMS 16
#define MAX_PROPAGATE 65536
#define MAX_OVERRIDES 256
#define MAX_OVERRIDE_NAME 128
#define MAX_OVERRIDE_TEXT 65536

static uint64_t or_one(uint32_t count) {
  return count ? count : 1;
}

static pjrtd_status *check_counts(const pjrtd_client *client, const pjrtd_compile_options *options) {
  uint64_t devices = or_one(options->num_replicas) * or_one(options->num_partitions);
  if (devices > client->info.num_devices)
    return PJRTD_INVALID("num_replicas %llu times num_partitions %llu is more than the %zu devices that there are",
                         (unsigned long long)or_one(options->num_replicas),
                         (unsigned long long)or_one(options->num_partitions), client->info.num_devices);
  if (options->num_partitions > 1 && !options->use_spmd_partitioning)
    return pjrtd_status_with_hint(
        PJRTD_INVALID("num_partitions is %u, but use_spmd_partitioning is not set", options->num_partitions),
        "set use_spmd_partitioning");
  if (options->compile_portable_executable && (devices > 1 || options->num_device_assignment))
    return PJRTD_INVALID("compile_portable_executable does not go with several devices or a device_assignment");
  return PJRTD_OK;
}

static pjrtd_status *check_assignment(const pjrtd_client *client, const pjrtd_compile_options *options) {
  if (options->num_device_assignment == 0) return PJRTD_OK;
  uint64_t devices = or_one(options->num_replicas) * or_one(options->num_partitions);
  if (options->num_device_assignment != devices)
    return PJRTD_INVALID("device_assignment has %zu ids; %llu replicas of %llu partitions need %llu",
                         options->num_device_assignment, (unsigned long long)or_one(options->num_replicas),
                         (unsigned long long)or_one(options->num_partitions), (unsigned long long)devices);
  for (size_t i = 0; i < options->num_device_assignment; i++) {
    int id = options->device_assignment[i];
    if (!pjrtd_client_find_device(client, id))
      return PJRTD_INVALID("device_assignment names device %d, which does not exist", id);
    for (size_t j = 0; j < i; j++)
      if (options->device_assignment[j] == id) return PJRTD_INVALID("device_assignment names device %d twice", id);
  }
  return PJRTD_OK;
}

static pjrtd_status *check_mesh(const pjrtd_compile_options *options) {
  if (options->num_mesh_shape == 0) {
    if (options->num_mesh_ids) return PJRTD_INVALID("auto_spmd_partitioning_mesh_ids are given without a mesh shape");
    return PJRTD_OK;
  }
  if (options->num_mesh_shape > MAX_MESH_DIMS)
    return PJRTD_INVALID("auto_spmd_partitioning_mesh_shape has %zu dimensions, at most %d are allowed",
                         options->num_mesh_shape, MAX_MESH_DIMS);
  int64_t partitions = (int64_t)or_one(options->num_partitions), product = 1;
  for (size_t i = 0; i < options->num_mesh_shape; i++) {
    int64_t size = options->mesh_shape[i];
    if (size < 1 || __builtin_mul_overflow(product, size, &product) || product > partitions)
      return PJRTD_INVALID("the sizes in auto_spmd_partitioning_mesh_shape must multiply to num_partitions, %lld",
                           (long long)partitions);
  }
  if (product != partitions)
    return PJRTD_INVALID("auto_spmd_partitioning_mesh_shape has %lld places, num_partitions is %lld",
                         (long long)product, (long long)partitions);
  if (options->num_mesh_ids && options->num_mesh_ids != (uint64_t)product)
    return PJRTD_INVALID("auto_spmd_partitioning_mesh_ids has %zu ids, the mesh has %lld places", options->num_mesh_ids,
                         (long long)product);
  for (size_t i = 0; i < options->num_mesh_ids; i++) {
    if (options->mesh_ids[i] < 0 || options->mesh_ids[i] >= product)
      return PJRTD_INVALID("auto_spmd_partitioning_mesh_ids has %lld, must be from 0 to %lld",
                           (long long)options->mesh_ids[i], (long long)product - 1);
    for (size_t j = 0; j < i; j++)
      if (options->mesh_ids[j] == options->mesh_ids[i])
        return PJRTD_INVALID("auto_spmd_partitioning_mesh_ids has %lld twice", (long long)options->mesh_ids[i]);
  }
  return PJRTD_OK;
}

static pjrtd_status *check_effort(const char *field, double value) {
  return value >= -1 && value <= 1 ? PJRTD_OK : PJRTD_INVALID("%s is %g, must be from -1 to 1", field, value);
}

/* XLA's flags whose values crash the compiler, and what it can bear (found by trying every flag). */
static const struct {
  const char *name;
  int64_t minimum, maximum;
} bounded_overrides[] = {
    {"xla_cpu_parallel_codegen_split_count", 1, 1024},
    {"xla_unsupported_crash_on_hlo_pass_noop_change", 0, 0},
    {"xla_unsupported_crash_on_hlo_pass_fix_max_iterations", 0, 0},
    {"xla_unsupported_crash_on_hlo_pass_silent_hlo_change", 0, 0},
};

static pjrtd_status *check_bounds(const pjrtd_value *value) {
  for (size_t i = 0; i < sizeof bounded_overrides / sizeof *bounded_overrides; i++) {
    if (strcmp(bounded_overrides[i].name, value->name) != 0) continue;
    int64_t number = value->integer;
    if (value->kind == PJRTD_VALUE_TEXT) { /* XLA reads numbers from text too */
      char *end;
      number = strtoll(value->text, &end, 10);
      if (!*value->text || *end) number = INT64_MIN;
    } else if (value->kind == PJRTD_VALUE_REAL) {
      number = INT64_MIN;
    }
    if (number < bounded_overrides[i].minimum || number > bounded_overrides[i].maximum)
      return PJRTD_INVALID("override %s must be from %lld to %lld: other values crash the compiler", value->name,
                           (long long)bounded_overrides[i].minimum, (long long)bounded_overrides[i].maximum);
  }
  return PJRTD_OK;
}

static pjrtd_status *check_override(const pjrtd_compile_options *options, size_t index) {
  const pjrtd_value *value = &options->overrides[index];
  if (strncmp(value->name, "xla_", 4) != 0)
    return PJRTD_INVALID("override \"%.*s\" is not one of XLA's: their names begin with xla_", MAX_OVERRIDE_NAME,
                         value->name);
  if (strlen(value->name) > MAX_OVERRIDE_NAME)
    return PJRTD_INVALID("an override's name has %zu bytes, at most %d are allowed", strlen(value->name),
                         MAX_OVERRIDE_NAME);
  for (size_t i = 0; i < index; i++)
    if (strcmp(options->overrides[i].name, value->name) == 0)
      return PJRTD_INVALID("override %s is given twice", value->name);
  if (value->kind == PJRTD_VALUE_INTEGERS) return PJRTD_INVALID("override %s cannot be a list", value->name);
  if (value->kind == PJRTD_VALUE_REAL && !isfinite(value->real))
    return PJRTD_INVALID("override %s must be a finite number", value->name);
  if (value->kind == PJRTD_VALUE_TEXT && strlen(value->text) > MAX_OVERRIDE_TEXT)
    return PJRTD_INVALID("override %s has %zu bytes, at most %d are allowed", value->name, strlen(value->text),
                         MAX_OVERRIDE_TEXT);
  return check_bounds(value);
}

pjrtd_status *pjrtd_compile_options_check(const pjrtd_client *client, const pjrtd_compile_options *options) {
  PJRTD_TRY(check_counts(client, options));
  PJRTD_TRY(check_assignment(client, options));
  PJRTD_TRY(check_mesh(options));
  if (options->num_propagate_to_parameters > MAX_PROPAGATE || options->num_propagate_to_output > MAX_PROPAGATE)
    return PJRTD_INVALID("the lists allow_spmd_sharding_propagation_to_* may have at most %d entries", MAX_PROPAGATE);
  PJRTD_TRY(check_effort("exec_time_optimization_effort", options->exec_time_optimization_effort));
  PJRTD_TRY(check_effort("memory_fitting_effort", options->memory_fitting_effort));
  if (options->num_overrides > MAX_OVERRIDES)
    return PJRTD_INVALID("%zu overrides, at most %d are allowed", options->num_overrides, MAX_OVERRIDES);
  for (size_t i = 0; i < options->num_overrides; i++) PJRTD_TRY(check_override(options, i));
  return PJRTD_OK;
}

const char *pjrtd_compile_options_find_file_access(const pjrtd_compile_options *options) {
  /* XLA names its flags that hold a path or make it write one like this. The two of extra flags reach LLVM and ptxas,
   * which have such flags of their own. */
  static const char *const marks[] = {"dump",          "_path",        "_dir",          "_file",
                                      "_results_from", "_extra_flags", "_extra_options"};
  for (size_t i = 0; i < options->num_overrides; i++)
    for (size_t j = 0; j < sizeof marks / sizeof *marks; j++)
      if (strstr(options->overrides[i].name, marks[j])) return options->overrides[i].name;
  return NULL;
}
