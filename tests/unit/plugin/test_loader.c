/* plugin/loader.c: what is refused, and what is known of a plugin before there is a client. */
#include <unistd.h>

#include "plugin_fixture.h"

static char *stub_path(const char *name) {
  const char *folder = getenv("PJRTD_STUB_PLUGINS");
  if (!folder)
    cr_assert_fail("PJRTD_STUB_PLUGINS is not set: it names the folder of the stub plugins (run through ctest)");
  static char path[4096];
  snprintf(path, sizeof path, "%s/stub_%s.so", folder, name);
  return path;
}

static void refuses(const char *path, pjrtd_code code, const char *piece) {
  pjrtd_plugin *loaded = (pjrtd_plugin *)1;
  ASSERT_FAILS(pjrtd_plugin_load(path, &loaded), code, piece);
  cr_assert_null(loaded);
  ASSERT_FAILS(pjrtd_plugin_load(path, &loaded), code, path); /* every error names the file */
}

Test(loader, names_the_file_that_does_not_exist) {
  refuses("/nonexistent/plugin.so", PJRTD_CODE_NOT_FOUND, "No such file");
}

Test(loader, refuses_a_file_that_is_no_library) {
  char path[] = "/tmp/pjrtd-not-a-library-XXXXXX";
  int file = mkstemp(path);
  cr_assert_eq(write(file, "text, not code\n", 15), 15);
  close(file);
  refuses(path, PJRTD_CODE_INVALID_ARGUMENT, "cannot open the plugin");
  remove(path);
}

Test(loader, refuses_a_library_without_the_entry_point) {
  refuses(stub_path("no_symbol"), PJRTD_CODE_INVALID_ARGUMENT, "it has no GetPjrtApi");
}

Test(loader, refuses_a_null_api) {
  refuses(stub_path("null_api"), PJRTD_CODE_INVALID_ARGUMENT, "GetPjrtApi returned NULL");
}

Test(loader, names_both_versions_when_the_major_differs) {
  refuses(stub_path("wrong_major"), PJRTD_CODE_UNIMPLEMENTED, "speaks PJRT 1.114, this pjrtd speaks 0.114");
}

Test(loader, refuses_a_table_of_before_the_rearrangement) {
  refuses(stub_path("too_old"), PJRTD_CODE_UNIMPLEMENTED, "speaks PJRT 0.40, this pjrtd speaks 0.114");
}

Test(loader, calls_nothing_beyond_the_plugins_own_table) {
  refuses(stub_path("short_struct"), PJRTD_CODE_UNIMPLEMENTED, "PJRT_Buffer_Destroy lies beyond its struct_size");
}

Test(loader, refuses_a_table_shorter_than_its_header) {
  refuses(stub_path("bare_header"), PJRTD_CODE_INVALID_ARGUMENT, "has 16 bytes");
}

Test(loader, names_the_needed_function_that_is_null) {
  refuses(stub_path("null_slot"), PJRTD_CODE_UNIMPLEMENTED, "PJRT_LoadedExecutable_Execute is NULL");
  refuses(stub_path("missing_slot"), PJRTD_CODE_UNIMPLEMENTED, "PJRT_Event_OnReady is NULL");
}

Test(loader, does_not_follow_an_endless_chain_of_extensions) {
  pjrtd_plugin *loaded;
  ASSERT_FAILS(pjrtd_plugin_load(stub_path("endless_extensions"), &loaded), PJRTD_CODE_INVALID_ARGUMENT, "chain");
}

Test(loader, passes_on_why_a_plugin_does_not_initialise) {
  pjrtd_plugin *loaded;
  ASSERT_FAILS(pjrtd_plugin_load(stub_path("initialize_fails"), &loaded), PJRTD_CODE_FAILED_PRECONDITION,
               "initialising the plugin: the stub does not want to");
}

Test(loader, knows_versions_extensions_and_attributes_of_the_real_plugin) {
  open_plugin();
  const pjrtd_plugin_info *info = pjrtd_plugin_get_info(plugin);
  cr_assert_eq(info->api_major, 0);
  cr_assert_geq(info->api_minor, 57);
  cr_assert_eq(info->headers_major, 0);
  cr_assert_eq(info->headers_minor, 114);
  cr_assert_eq(info->path[0], '/');
  /* A plugin gives both ends of the StableHLO range, and they are in order. */
  cr_assert_geq(info->stablehlo_current[0], 1);
  cr_assert_geq(info->stablehlo_minimum[0], 0);
  cr_assert_leq(info->stablehlo_minimum[0], info->stablehlo_current[0]);
  bool layouts = false;
  for (size_t i = 0; i < info->num_extensions; i++) layouts |= strcmp(info->extensions[i], "layouts") == 0;
  cr_assert(layouts);
  bool xla_version = false;
  for (size_t i = 0; i < info->num_attributes; i++)
    xla_version |=
        strcmp(info->attributes[i].name, "xla_version") == 0 && info->attributes[i].kind == PJRTD_VALUE_INTEGER;
  cr_assert(xla_version);
  close_client();
}

static pjrtd_status *load_and_destroy(void) {
  pjrtd_plugin *loaded;
  pjrtd_status *status = pjrtd_plugin_load(test_plugin_path(), &loaded);
  pjrtd_plugin_destroy(loaded);
  return status;
}

Test(loader, survives_each_failing_allocation) {
  cr_assert_geq(walk_failures(load_and_destroy), 5);
}
