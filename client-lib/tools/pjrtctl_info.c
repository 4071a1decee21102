/* pjrtctl info: what is served. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "ctl.h"
#include "ctl_json.h"
#include "ctl_table.h"

static void print_json(const char *target, const pjrtc_info *info) {
  json_t *extensions = json_array();
  for (size_t i = 0; i < info->num_extensions; i++)
    json_array_append_new(extensions, ctl_json_text(info->extensions[i]));
  json_t *root = json_object();
  json_object_set_new(root, "target", ctl_json_text(target));
  json_object_set_new(root, "server_version", ctl_json_text(info->server_version));
  /* Any 64 bits: always a string, so that its kind does not depend on its value. */
  char epoch[24];
  snprintf(epoch, sizeof epoch, "%" PRIu64, info->server_epoch);
  json_object_set_new(root, "server_epoch", json_string(epoch));
  json_object_set_new(root, "pid", json_integer(info->pid));
  json_object_set_new(root, "uptime_ns", ctl_json_unsigned(info->uptime_ns));
  json_object_set_new(root, "protocol",
                      json_pack("{s:i, s:i}", "min", (int)info->protocol_min, "max", (int)info->protocol_max));
  json_object_set_new(root, "plugin_path", ctl_json_text(info->plugin_path));
  json_object_set_new(root, "pjrt",
                      json_pack("{s:i, s:i}", "major", (int)info->pjrt_major, "minor", (int)info->pjrt_minor));
  json_object_set_new(root, "headers",
                      json_pack("{s:i, s:i}", "major", (int)info->headers_major, "minor", (int)info->headers_minor));
  json_object_set_new(root, "platform_name", ctl_json_text(info->platform_name));
  json_object_set_new(root, "platform_version", ctl_json_text(info->platform_version));
  json_object_set_new(root, "stablehlo",
                      json_pack("{s:o, s:o}", "current", ctl_json_text(info->stablehlo_current), "minimum",
                                ctl_json_text(info->stablehlo_minimum)));
  json_object_set_new(root, "process_index", json_integer(info->process_index));
  json_object_set_new(root, "num_devices", json_integer(info->num_devices));
  json_object_set_new(root, "num_addressable_devices", json_integer(info->num_addressable_devices));
  json_object_set_new(root, "extensions", extensions);
  json_object_set_new(root, "attributes", ctl_json_attributes(info->attributes, info->num_attributes));
  json_object_set_new(root, "create_options", ctl_json_attributes(info->create_options, info->num_create_options));
  ctl_json_print(root);
}

static void row(ctl_table *table, const char *name, char *value) {
  ctl_table_add(table, "%s", name);
  ctl_table_add(table, "%s", value);
  free(value);
}

static void add_attributes(ctl_table *table, const char *kind, const pjrtc_attribute *attributes, size_t count) {
  for (size_t i = 0; i < count; i++) {
    ctl_table_add(table, "%s %s", kind, attributes[i].name);
    char *value = ctl_attribute_text(&attributes[i]);
    ctl_table_add(table, "%s", value);
    free(value);
  }
}

static void print_text(const char *target, const pjrtc_info *info) {
  static const char *const columns[] = {"name", "value", NULL};
  ctl_table *table = ctl_table_create(columns, false);
  char uptime[32];
  row(table, "target", ctl_text("%s", target));
  row(table, "server",
      ctl_text("pjrtd %s, pid %" PRIu32 ", up %s", info->server_version, info->pid,
               ctl_duration(info->uptime_ns, uptime)));
  row(table, "protocol",
      info->protocol_min == info->protocol_max
          ? ctl_text("%" PRIu32, info->protocol_max)
          : ctl_text("%" PRIu32 " to %" PRIu32, info->protocol_min, info->protocol_max));
  row(table, "plugin", ctl_text("%s", info->plugin_path));
  row(table, "PJRT",
      ctl_text("%" PRIu32 ".%" PRIu32 " (pjrtd was built for %" PRIu32 ".%" PRIu32 ")", info->pjrt_major,
               info->pjrt_minor, info->headers_major, info->headers_minor));
  row(table, "platform", ctl_text("%s, %s", info->platform_name, info->platform_version));
  if (info->stablehlo_current[0])
    row(table, "StableHLO", ctl_text("%s, reads %s and later", info->stablehlo_current, info->stablehlo_minimum));
  row(table, "devices",
      ctl_text("%" PRIu32 ", of which %" PRIu32 " addressable", info->num_devices, info->num_addressable_devices));
  char *extensions = ctl_text("%s", "");
  for (size_t i = 0; i < info->num_extensions; i++) {
    char *longer = ctl_text("%s%s%s", extensions, i ? ", " : "", info->extensions[i]);
    free(extensions);
    extensions = longer;
  }
  row(table, "extensions", extensions);
  add_attributes(table, "option", info->create_options, info->num_create_options);
  add_attributes(table, "attribute", info->attributes, info->num_attributes);
  ctl_table_print(table);
}

int ctl_info(int argc, char **argv, ctl_common *common) {
  size_t num_words;
  int status = ctl_parse(argc, argv, NULL, 0, NULL, common, NULL, 0, &num_words);
  if (status) return status;
  pjrtc_client *client = ctl_connect(common, &status);
  if (!client) return status;
  pjrtc_error error;
  pjrtc_info *info;
  ctl_error_init(&error);
  if (pjrtc_get_info(client, &info, &error))
    status = ctl_fail(common, &error);
  else if (common->json)
    print_json(pjrtc_get_hello(client)->target, info);
  else
    print_text(pjrtc_get_hello(client)->target, info);
  pjrtc_info_destroy(info);
  free(error.detail);
  pjrtc_close(client);
  return status;
}
