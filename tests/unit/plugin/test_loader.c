/* plugin/loader.c: what is refused, and what is known of a plugin before there is a client. */
#include <unistd.h>

#include "plugin/pjrt_call.h"
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
  refuses(path, PJRTD_CODE_INVALID_ARGUMENT, "it is not a shared library (it has no ELF header)");
  remove(path);
}

/* A copy of the stub whose ELF header has one byte changed. */
static void refuses_changed(size_t offset, char value, const char *piece) {
  char path[] = "/tmp/pjrtd-other-library-XXXXXX", block[4096];
  int file = mkstemp(path);
  FILE *stub = fopen(stub_path("null_api"), "rb");
  cr_assert_not_null(stub);
  size_t got;
  while ((got = fread(block, 1, sizeof block, stub)) > 0) cr_assert_eq(write(file, block, got), (ssize_t)got);
  fclose(stub);
  cr_assert_eq(pwrite(file, &value, 1, (off_t)offset), 1);
  close(file);
  refuses(path, PJRTD_CODE_INVALID_ARGUMENT, piece);
  remove(path);
}

Test(loader, names_both_machines_of_a_library_that_is_for_another) {
  refuses_changed(18, (char)183, "it is a library for aarch64, this machine needs one for ");
  refuses_changed(18, (char)99, "it is a library for ELF machine 99, this machine needs one for ");
  refuses_changed(4, 1, "it is a library for ");
}

Test(loader, says_what_the_dynamic_linker_says_of_others) {
  refuses(stub_path("missing_library"), PJRTD_CODE_INVALID_ARGUMENT,
          ": libpjrtd_nowhere_to_be_found.so: cannot open shared object file");
  refuses(stub_path("library_needs"), PJRTD_CODE_INVALID_ARGUMENT, ": undefined symbol: pjrtd_stub_given");
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

Test(loader, refuses_a_table_that_is_shorter_than_its_version_says) {
  refuses(stub_path("short_struct"), PJRTD_CODE_INVALID_ARGUMENT,
          "it says that it speaks PJRT 0.114, whose PJRT_Api has at least 1144 bytes, but its own has 504");
  refuses(stub_path("short_for_its_version"), PJRTD_CODE_INVALID_ARGUMENT, "at least 1144 bytes, but its own has 984");
}

/* The stub traps when one of its functions is called, the ones beyond its table too. */
Test(loader, takes_nothing_from_beyond_the_plugins_own_table) {
  pjrtd_plugin *loaded;
  ASSERT_OK(pjrtd_plugin_load(stub_path("honest_and_old"), &loaded));
  cr_assert_not_null(loaded->api.PJRT_LoadedExecutable_GetDeviceAssignment);
  for (size_t at = offsetof(PJRT_Api, PJRT_Client_CreateErrorBuffer); at < sizeof loaded->api; at += sizeof(void *)) {
    void *slot;
    memcpy(&slot, (char *)&loaded->api + at, sizeof slot);
    cr_assert_null(slot);
  }
  PJRTD_ARGS(Executable_ParameterMemoryKinds, args);
  ASSERT_FAILS(PJRTD_CALL(loaded, Executable_ParameterMemoryKinds, args), PJRTD_CODE_UNIMPLEMENTED,
               "this plugin has no PJRT_Executable_ParameterMemoryKinds (the plugin speaks PJRT 0.81, pjrtd was built "
               "with 0.114)");
  pjrtd_plugin_destroy(loaded);
}

Test(loader, refuses_a_table_that_ends_before_its_size) {
  refuses(stub_path("ends_early"), PJRTD_CODE_INVALID_ARGUMENT,
          "entry 118 of its PJRT_Api is no function; it says that the table has 1144 bytes");
}

Test(loader, refuses_sizes_that_no_table_has) {
  refuses(stub_path("odd_size"), PJRTD_CODE_INVALID_ARGUMENT,
          "its PJRT_Api has 1145 bytes; a table has a multiple of 8");
  refuses(stub_path("huge_size"), PJRTD_CODE_INVALID_ARGUMENT, "its PJRT_Api has 18446744073709551608 bytes");
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
               "stub_initialize_fails.so: the stub does not want to");
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
