/* pjrtctl compile: compiles a file and describes the program. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl_json.h"
#include "ctl_program.h"
#include "ctl_table.h"

static json_t *tensor_json(const pjrtc_program_tensor *tensor, bool is_argument) {
  char text[160];
  json_t *dims = json_array(), *object = json_object();
  for (uint32_t i = 0; i < tensor->type.rank; i++) json_array_append_new(dims, json_integer(tensor->type.dims[i]));
  json_object_set_new(object, "type", ctl_json_text(pjrtc_type_format(&tensor->type, text, sizeof text)));
  json_object_set_new(object, "dtype", ctl_json_text(pjrtc_dtype_name(tensor->type.dtype)));
  json_object_set_new(object, "dims", dims);
  if (tensor->minor_to_major) {
    json_t *layout = json_array();
    for (uint32_t i = 0; i < tensor->type.rank; i++)
      json_array_append_new(layout, json_integer(tensor->minor_to_major[i]));
    json_object_set_new(object, "minor_to_major", layout);
  }
  json_object_set_new(object, "memory_kind", ctl_json_text(tensor->memory_kind));
  if (is_argument) json_object_set_new(object, "donated", json_boolean(tensor->donated));
  if (tensor->unsupported[0]) json_object_set_new(object, "unsupported", ctl_json_text(tensor->unsupported));
  return object;
}

static json_t *tensors_json(const pjrtc_program_tensor *const *tensors, size_t count, bool are_arguments) {
  json_t *array = json_array();
  for (size_t i = 0; i < count; i++) json_array_append_new(array, tensor_json(tensors[i], are_arguments));
  return array;
}

static void print_json(const pjrtc_program_info *info) {
  json_t *root = json_object();
  json_object_set_new(root, "name", ctl_json_text(info->name));
  json_object_set_new(root, "fingerprint", ctl_json_text(info->fingerprint));
  json_object_set_new(root, "num_replicas", json_integer(info->num_replicas));
  json_object_set_new(root, "num_partitions", json_integer(info->num_partitions));
  json_object_set_new(root, "devices", ctl_json_integers(info->devices, info->num_devices));
  json_object_set_new(root, "args", tensors_json(info->args, info->num_args, true));
  json_object_set_new(root, "outputs", tensors_json(info->outputs, info->num_outputs, false));
  json_object_set_new(root, "straight_line", json_boolean(info->straight_line));
  json_object_set_new(root, "generated_code_bytes", ctl_json_unsigned(info->generated_code_bytes));
  json_object_set_new(root, "compile_ns", ctl_json_unsigned(info->compile_ns));
  ctl_json_print(root);
}

static void add_tensors(ctl_table *table, const char *noun, const pjrtc_program_tensor *const *tensors, size_t count) {
  for (size_t i = 0; i < count; i++) {
    char text[160];
    ctl_table_add(table, "%s %zu", noun, i);
    ctl_table_add(table, "%s%s%s%s", pjrtc_type_format(&tensors[i]->type, text, sizeof text),
                  tensors[i]->donated ? ", donated" : "", tensors[i]->unsupported[0] ? ", cannot be passed: " : "",
                  tensors[i]->unsupported);
  }
}

static void print_text(const pjrtc_program_info *info) {
  static const char *const columns[] = {"name", "value", NULL};
  ctl_table *table = ctl_table_create(columns, false);
  char text[32];
  ctl_table_add(table, "program");
  ctl_table_add(table, "%s", info->name);
  ctl_table_add(table, "compiled in");
  ctl_table_add(table, "%s", ctl_duration(info->compile_ns, text));
  add_tensors(table, "argument", info->args, info->num_args);
  add_tensors(table, "result", info->outputs, info->num_outputs);
  char *devices = ctl_text("%s", "");
  for (size_t i = 0; i < info->num_devices; i++) {
    char *longer = ctl_text("%s%s%" PRId32, devices, i ? ", " : "", info->devices[i]);
    free(devices);
    devices = longer;
  }
  ctl_table_add(table, "devices");
  ctl_table_add(table, "%s", devices);
  free(devices);
  ctl_table_add(table, "code");
  ctl_table_add(table, "%s, %s",
                info->generated_code_bytes ? ctl_bytes(info->generated_code_bytes, text) : "size unknown",
                info->straight_line ? "straight-line" : "with loops, host or collective calls");
  ctl_table_print(table);
}

int ctl_compile(int argc, char **argv, ctl_common *common) {
  static const ctl_option known[] = {CTL_COMPILE_OPTIONS};
  static ctl_compile_options options;
  const char *path;
  size_t num_words;
  int status = ctl_parse(argc, argv, known, sizeof known / sizeof *known, &options, common, &path, 1, &num_words);
  if (status) return status;
  if (!num_words) return ctl_complain(common, CTL_USAGE, "\"-\" is standard input", "compile needs a FILE");
  pjrtc_client *client = ctl_connect(common, &status);
  if (!client) return status;
  pjrtc_program_info *info;
  uint64_t program;
  status = ctl_compile_file(common, client, &options, path, &program, &info);
  if (!status && common->json) print_json(info);
  if (!status && !common->json) print_text(info);
  pjrtc_program_info_destroy(info);
  pjrtc_close(client);
  return status;
}
