/* What a compiled program takes and gives, read from the plugin and from the optimised HLO. Compile threads.
 *
 * The plugin compares byte sizes only when it runs a program, so everything that an argument is checked against comes
 * from here: element type, dimensions, layout. Donation is what XLA's runtime consumes: the parameters in the module's
 * input_output_alias. A donor that found no output to go to stays alive, and so does not count. */
#include <string.h>

#include "plugin/executable_internal.h"
#include "plugin/hlo_module.h"

/* Constants may make it big, but not this big. */
#define MAX_MODULE_BYTES ((size_t)1 << 40)
#define MAX_FINGERPRINT_BYTES 4096

/* ---- texts and counts ---- */

static pjrtd_status *read_fingerprint(pjrtd_executable *executable, PJRT_Executable *described) {
  PJRTD_ARGS(Executable_Fingerprint, args, .executable = described);
  pjrtd_status *none = PJRTD_CALL(executable->client->plugin, Executable_Fingerprint, args);
  size_t size = none || !args.executable_fingerprint ? 0 : args.executable_fingerprint_size;
  pjrtd_status_ignore(none);
  if (size > MAX_FINGERPRINT_BYTES) size = MAX_FINGERPRINT_BYTES;
  executable->fingerprint = pjrtd_malloc(2 * size + 1);
  if (!executable->fingerprint) return pjrtd_status_oom();
  for (size_t i = 0; i < size; i++) {
    unsigned char byte = (unsigned char)args.executable_fingerprint[i];
    executable->fingerprint[2 * i] = "0123456789abcdef"[byte >> 4];
    executable->fingerprint[2 * i + 1] = "0123456789abcdef"[byte & 15];
  }
  executable->fingerprint[2 * size] = 0;
  executable->info.fingerprint = executable->fingerprint;
  return PJRTD_OK;
}

/* One process of several has some of a program's devices; one alone has them all. */
static pjrtd_status *check_counts(const pjrtd_executable *executable, size_t replicas, size_t partitions) {
  const pjrtd_client_info *client = &executable->client->info;
  size_t devices = executable->info.num_devices, product;
  bool alone = client->num_addressable_devices == client->num_devices;
  if (!__builtin_mul_overflow(replicas, partitions, &product) && product && replicas <= UINT32_MAX &&
      partitions <= UINT32_MAX && (alone ? product == devices : product >= devices))
    return PJRTD_OK;
  return PJRTD_INTERNAL("the plugin says that the program has %zu replicas of %zu partitions, on %zu devices", replicas,
                        partitions, devices);
}

static pjrtd_status *read_facts(pjrtd_executable *executable, PJRT_Executable *described) {
  const pjrtd_plugin *plugin = executable->client->plugin;
  PJRTD_ARGS(Executable_Name, name, .executable = described);
  if (PJRTD_HAS(plugin, Executable_Name)) PJRTD_TRY(PJRTD_CALL(plugin, Executable_Name, name));
  PJRTD_TRY(pjrtd_plugin_copy_text(name.executable_name, name.executable_name_size, &executable->name));
  executable->info.name = executable->name;
  PJRTD_ARGS(Executable_NumReplicas, replicas, .executable = described);
  PJRTD_TRY(PJRTD_CALL(plugin, Executable_NumReplicas, replicas));
  PJRTD_ARGS(Executable_NumPartitions, partitions, .executable = described);
  PJRTD_TRY(PJRTD_CALL(plugin, Executable_NumPartitions, partitions));
  PJRTD_TRY(check_counts(executable, replicas.num_replicas, partitions.num_partitions));
  executable->info.num_replicas = (uint32_t)replicas.num_replicas;
  executable->info.num_partitions = (uint32_t)partitions.num_partitions;
  PJRTD_ARGS(Executable_SizeOfGeneratedCodeInBytes, code, .executable = described);
  pjrtd_status_ignore(PJRTD_CALL(plugin, Executable_SizeOfGeneratedCodeInBytes, code));
  executable->info.generated_code_bytes = code.size_in_bytes > 0 ? (uint64_t)code.size_in_bytes : 0;
  return read_fingerprint(executable, described);
}

static pjrtd_status *read_devices(pjrtd_executable *executable) {
  pjrtd_client *client = executable->client;
  PJRTD_ARGS(LoadedExecutable_AddressableDevices, args, .executable = executable->handle);
  PJRTD_TRY(PJRTD_CALL(client->plugin, LoadedExecutable_AddressableDevices, args));
  size_t count = args.num_addressable_devices;
  PJRTD_TRY(pjrtd_plugin_check_list(args.addressable_devices, count, "devices for the program"));
  executable->devices = pjrtd_calloc(count ? count : 1, sizeof *executable->devices);
  if (!executable->devices) return pjrtd_status_oom();
  for (size_t i = 0; i < count; i++) {
    executable->devices[i] = pjrtd_client_device_of(client, args.addressable_devices[i]);
    if (!executable->devices[i] || !executable->devices[i]->addressable)
      return PJRTD_INTERNAL("the program runs on a device that the client does not have");
  }
  if (count == 0) { /* portable: it runs where it is told to, which here is the first device */
    for (size_t i = 0; i < client->info.num_devices; i++)
      if (client->devices[i].index == 0) executable->devices[0] = &client->devices[i];
    executable->run_device = executable->devices[0]->handle;
    count = 1;
  }
  executable->info.devices = executable->devices;
  executable->info.num_devices = count;
  return PJRTD_OK;
}

/* ---- shapes ---- */

static pjrtd_status *read_tensor(const Xla__ShapeProto *shape, pjrtd_program_tensor *tensor) {
  pjrtd_dtype dtype = pjrtd_hlo_dtype(shape->element_type);
  tensor->memory_kind = "";
  tensor->type.dtype = dtype;
  if (pjrtd_hlo_shape_is_tuple(shape)) {
    tensor->unsupported = "it is a tuple; arguments are passed one by one";
    return PJRTD_OK;
  }
  if (dtype == PJRTD_DTYPE_INVALID) {
    tensor->unsupported = "its element type has no PJRT buffer type";
    return PJRTD_OK;
  }
  if (dtype == PJRTD_DTYPE_TOKEN) {
    tensor->unsupported = "it is a token, which has no data";
    return PJRTD_OK;
  }
  if (shape->n_dimensions > PJRTD_MAX_RANK) {
    tensor->unsupported = "it has more than 64 dimensions";
    return PJRTD_OK;
  }
  int64_t *dims = pjrtd_memdup(shape->dimensions, shape->n_dimensions * sizeof *dims);
  if (!dims) return pjrtd_status_oom();
  tensor->type.dims = dims;
  tensor->type.rank = (uint32_t)shape->n_dimensions;
  for (size_t i = 0; i < shape->n_dimensions; i++)
    if (dims[i] < 0) tensor->unsupported = "it has a negative dimension";
  if (tensor->unsupported) return PJRTD_OK;
  for (size_t i = 0; i < shape->n_is_dynamic_dimension; i++)
    if (shape->is_dynamic_dimension[i]) tensor->unsupported = "it has a dimension of dynamic size";
  pjrtd_status *too_big = pjrtd_tensor_type_check(&tensor->type, &tensor->host_bytes);
  if (too_big) {
    pjrtd_status_ignore(too_big);
    tensor->unsupported = "its size overflows 63 bits";
  }
  tensor->has_layout = pjrtd_hlo_layout(shape, &tensor->layout);
  tensor->dense = !tensor->has_layout || pjrtd_layout_is_dense(&tensor->layout);
  return PJRTD_OK;
}

static pjrtd_status *read_tensors(Xla__ShapeProto *const *shapes, size_t count, pjrtd_program_tensor **out_tensors,
                                  size_t *out_count) {
  *out_tensors = pjrtd_calloc(count, sizeof **out_tensors);
  if (!*out_tensors) return pjrtd_status_oom();
  for (size_t i = 0; i < count; i++) {
    PJRTD_TRY(read_tensor(shapes[i], &(*out_tensors)[i]));
    ++*out_count;
  }
  return PJRTD_OK;
}

/* The parts of `shape` where it is a tuple to be taken apart, else `shape` itself. */
static pjrtd_status *read_flattened(Xla__ShapeProto *const *shapes, size_t num_shapes, bool flatten,
                                    pjrtd_program_tensor **out_tensors, size_t *out_count) {
  if (!flatten || num_shapes != 1 || !pjrtd_hlo_shape_is_tuple(shapes[0]))
    return read_tensors(shapes, num_shapes, out_tensors, out_count);
  Xla__ShapeProto **parts;
  size_t count;
  PJRTD_TRY(pjrtd_hlo_shape_parts(shapes[0], &parts, &count));
  pjrtd_status *status = read_tensors(parts, count, out_tensors, out_count);
  pjrtd_hlo_shape_parts_destroy(parts, count);
  return status;
}

static void mark_donated(pjrtd_executable *executable, const Xla__HloInputOutputAliasProto *alias) {
  for (size_t i = 0; alias && i < alias->n_entries; i++) {
    const Xla__HloInputOutputAliasProto__AliasEntryProto *entry = alias->entries[i];
    int64_t index = entry->parameter_number;
    if (executable->parameters_in_one_tuple && entry->n_parameter_shape_index) index = entry->parameter_shape_index[0];
    if (index < 0 || (uint64_t)index >= executable->info.num_args) continue;
    executable->args[index].donated = true;
    executable->info.any_donated = true;
  }
}

static pjrtd_status *read_module(pjrtd_executable *executable, const pjrtd_hlo_module *module) {
  pjrtd_program_info *info = &executable->info;
  pjrtd_status *status = read_flattened(module->program_shape->parameters, module->program_shape->n_parameters,
                                        executable->parameters_in_one_tuple, &executable->args, &info->num_args);
  if (!status)
    status = read_flattened(&module->program_shape->result, 1, true, &executable->outputs, &info->num_outputs);
  info->args = executable->args;
  info->outputs = executable->outputs;
  if (status) return status;
  mark_donated(executable, module->alias);
  info->straight_line = module->straight_line;
  return PJRTD_OK;
}

/* Fetches the optimised module: the first call says how long it is, the second fills it in. */
static pjrtd_status *read_program(pjrtd_executable *executable, PJRT_Executable *described) {
  const pjrtd_plugin *plugin = executable->client->plugin;
  PJRT_Program program = {.struct_size = PJRT_Program_STRUCT_SIZE};
  PJRTD_ARGS(Executable_OptimizedProgram, args, .executable = described, .program = &program);
  PJRTD_TRY(PJRTD_CALL(plugin, Executable_OptimizedProgram, args));
  size_t room = program.code_size;
  if (room > MAX_MODULE_BYTES)
    return PJRTD_INTERNAL("the plugin says that the optimised program has %zu bytes, which cannot be", room);
  PJRTD_AUTO_FREE char *code = pjrtd_malloc(room);
  if (!code) return pjrtd_status_oom();
  program.code = code;
  PJRTD_TRY(PJRTD_CALL(plugin, Executable_OptimizedProgram, args));
  if (program.code_size > room)
    return PJRTD_INTERNAL("the plugin's optimised program grew from %zu to %zu bytes between two calls", room,
                          program.code_size);
  if (!program.format) program.format_size = 0;
  bool with_config = program.format_size == 15 && memcmp(program.format, "hlo_with_config", 15) == 0;
  if (!with_config && !(program.format_size == 3 && memcmp(program.format, "hlo", 3) == 0))
    return pjrtd_status_make(PJRTD_CODE_UNIMPLEMENTED,
                             "the plugin gives its optimised program as \"%.*s\"; pjrtd reads hlo and hlo_with_config",
                             (int)(program.format_size < 64 ? program.format_size : 64),
                             program.format ? program.format : "");
  pjrtd_hlo_module module;
  PJRTD_TRY(pjrtd_hlo_module_read((const uint8_t *)code, program.code_size, with_config, &module));
  pjrtd_status *status = read_module(executable, &module);
  pjrtd_hlo_module_deinit(&module);
  return status;
}

/* ---- memory kinds ---- */

static pjrtd_status *set_kinds(pjrtd_program_tensor *tensors, size_t count, const char *const *kinds,
                               const size_t *sizes, size_t num_kinds) {
  if (!kinds || !sizes || num_kinds != count) return PJRTD_OK;
  for (size_t i = 0; i < count; i++) {
    char *kind;
    PJRTD_TRY(pjrtd_plugin_copy_text(kinds[i], sizes[i], &kind));
    if (*kind)
      tensors[i].memory_kind = kind;
    else
      pjrtd_free(kind);
  }
  return PJRTD_OK;
}

static pjrtd_status *read_kinds(pjrtd_executable *executable, PJRT_Executable *described) {
  const pjrtd_plugin *plugin = executable->client->plugin;
  PJRTD_ARGS(Executable_ParameterMemoryKinds, in, .executable = described);
  pjrtd_status *none = PJRTD_CALL(plugin, Executable_ParameterMemoryKinds, in);
  if (!none)
    PJRTD_TRY(set_kinds(executable->args, executable->info.num_args, in.memory_kinds, in.memory_kind_sizes,
                        in.num_parameters));
  pjrtd_status_ignore(none);
  PJRTD_ARGS(Executable_OutputMemoryKinds, out, .executable = described);
  none = PJRTD_CALL(plugin, Executable_OutputMemoryKinds, out);
  if (!none)
    PJRTD_TRY(set_kinds(executable->outputs, executable->info.num_outputs, out.memory_kinds, out.memory_kind_sizes,
                        out.num_outputs));
  pjrtd_status_ignore(none);
  return PJRTD_OK;
}

static const pjrtd_memory *memory_of_kind(const pjrtd_device *device, const char *kind) {
  if (!*kind) return device->default_memory;
  for (size_t i = 0; i < device->num_memories; i++)
    if (strcmp(device->memories[i]->kind, kind) == 0) return device->memories[i];
  return NULL;
}

static pjrtd_status *find_output_memories(pjrtd_executable *executable) {
  const pjrtd_program_info *info = &executable->info;
  executable->output_memories =
      pjrtd_calloc(info->num_devices * info->num_outputs, sizeof *executable->output_memories);
  if (!executable->output_memories) return pjrtd_status_oom();
  for (size_t d = 0; d < info->num_devices; d++)
    for (size_t o = 0; o < info->num_outputs; o++)
      executable->output_memories[d * info->num_outputs + o] =
          memory_of_kind(info->devices[d], info->outputs[o].memory_kind);
  return PJRTD_OK;
}

/* ---- all of it ---- */

static pjrtd_status *read_described(pjrtd_executable *executable, PJRT_Executable *described) {
  PJRTD_TRY(read_facts(executable, described));
  PJRTD_TRY(read_program(executable, described));
  PJRTD_ARGS(Executable_NumOutputs, outputs, .executable = described);
  PJRTD_TRY(PJRTD_CALL(executable->client->plugin, Executable_NumOutputs, outputs));
  if (outputs.num_outputs != executable->info.num_outputs) /* the lists given to Execute would be too short */
    return PJRTD_INTERNAL("the plugin says %zu outputs, its optimised program has %zu", outputs.num_outputs,
                          executable->info.num_outputs);
  return read_kinds(executable, described);
}

pjrtd_status *pjrtd_executable_read_info(pjrtd_executable *executable) {
  executable->info.fingerprint = "";
  executable->info.name = "";
  PJRTD_TRY(read_devices(executable));
  const pjrtd_plugin *plugin = executable->client->plugin;
  PJRTD_ARGS(LoadedExecutable_GetExecutable, get, .loaded_executable = executable->handle);
  PJRTD_TRY(PJRTD_CALL(plugin, LoadedExecutable_GetExecutable, get));
  if (!get.executable) return PJRTD_INTERNAL("the plugin does not describe the program that it compiled");
  pjrtd_status *status = read_described(executable, get.executable);
  PJRTD_ARGS(Executable_Destroy, destroy, .executable = get.executable);
  pjrtd_status_ignore(PJRTD_CALL(plugin, Executable_Destroy, destroy));
  return status ? status : find_output_memories(executable);
}

static void deinit_tensors(pjrtd_program_tensor *tensors, size_t count) {
  for (size_t i = 0; i < count; i++) {
    pjrtd_free((void *)tensors[i].type.dims);
    if (tensors[i].memory_kind && *tensors[i].memory_kind) pjrtd_free((void *)tensors[i].memory_kind);
  }
  pjrtd_free(tensors);
}

void pjrtd_executable_deinit_info(pjrtd_executable *executable) {
  deinit_tensors(executable->args, executable->info.num_args);
  deinit_tensors(executable->outputs, executable->info.num_outputs);
  pjrtd_free(executable->devices);
  pjrtd_free(executable->output_memories);
  pjrtd_free(executable->name);
  pjrtd_free(executable->fingerprint);
}
