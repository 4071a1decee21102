/* plugin/discovery.c: in which order a plugin is looked for. Each test has a folder and an environment of its own. */
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin_fixture.h"

static char root[] = "/tmp/pjrtd-discovery-XXXXXX";

static const char *in_root(const char *name) {
  static char paths[8][PATH_MAX];
  static unsigned next;
  char *path = paths[next++ % 8];
  snprintf(path, PATH_MAX, "%s/%s", root, name);
  return path;
}

/* Makes an empty file and the folders above it. */
static const char *make(const char *name) {
  const char *path = in_root(name);
  char folder[PATH_MAX];
  snprintf(folder, sizeof folder, "%s", path);
  for (char *slash = folder + strlen(root) + 1; (slash = strchr(slash, '/')); *slash++ = '/') {
    *slash = 0;
    mkdir(folder, 0755);
  }
  FILE *file = fopen(path, "w");
  cr_assert_not_null(file, "%s", path);
  fclose(file);
  return path;
}

static void empty_environment(void) {
  cr_assert_not_null(mkdtemp(root));
  clearenv();
  setenv("PATH", in_root("bin"), 1);
  setenv("HOME", in_root("home"), 1);
}

static void remove_root(void) {
  char command[PATH_MAX + 16];
  snprintf(command, sizeof command, "/bin/rm -rf '%s'", root);
  cr_assert_eq(system(command), 0);
}

TestSuite(discovery, .init = empty_environment, .fini = remove_root);

static void finds(const char *explicit_path, const char *path, const char *source) {
  pjrtd_plugin_location location;
  ASSERT_OK(pjrtd_plugin_find(explicit_path, &location));
  cr_assert_str_eq(location.path, path);
  cr_assert_str_eq(location.source, source);
  pjrtd_plugin_location_deinit(&location);
}

Test(discovery, takes_the_explicit_path_then_the_variables_in_order) {
  const char *a = make("a.so"), *b = make("b.so"), *c = make("c.so"), *d = make("d.so"), *e = make("e.so");
  setenv("TPU_LIBRARY_PATH", e, 1);
  finds(NULL, e, "TPU_LIBRARY_PATH");
  char pairs[2 * PATH_MAX];
  snprintf(pairs, sizeof pairs, "cpu:%s,other:%s", d, a);
  setenv("PJRT_NAMES_AND_LIBRARY_PATHS", pairs, 1);
  finds(NULL, d, "PJRT_NAMES_AND_LIBRARY_PATHS");
  setenv("PYPJRT_PLUGIN", c, 1);
  finds(NULL, c, "PYPJRT_PLUGIN");
  setenv("PJRTD_PLUGIN", b, 1);
  finds(NULL, b, "PJRTD_PLUGIN");
  finds(a, a, "--plugin");
}

Test(discovery, does_not_replace_what_was_named_but_is_missing) {
  setenv("PYPJRT_PLUGIN", make("there.so"), 1);
  setenv("PJRTD_PLUGIN", in_root("gone.so"), 1);
  pjrtd_plugin_location location;
  ASSERT_FAILS(pjrtd_plugin_find(NULL, &location), PJRTD_CODE_NOT_FOUND, "PJRTD_PLUGIN names the plugin");
  cr_assert_null(location.path);
  ASSERT_FAILS(pjrtd_plugin_find(in_root("gone.so"), &location), PJRTD_CODE_NOT_FOUND, "--plugin names the plugin");
  ASSERT_FAILS(pjrtd_plugin_find(root, &location), PJRTD_CODE_INVALID_ARGUMENT, "Is a directory");
}

Test(discovery, refuses_names_and_paths_of_another_form) {
  pjrtd_plugin_location location;
  const char *wrong[] = {"justaname", "name:", ",name:/x", "a,b:/x"};
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    setenv("PJRT_NAMES_AND_LIBRARY_PATHS", wrong[i], 1);
    ASSERT_FAILS(pjrtd_plugin_find(NULL, &location), PJRTD_CODE_INVALID_ARGUMENT, "must be NAME:PATH");
  }
}

Test(discovery, finds_each_known_wheel_in_the_active_environment) {
  static const char *const files[] = {
      "xla_plugins/xla_cpu_pjrt/xla_cpu_pjrt.so",     "fastatomstruct_xla_cpu/libpjrt_cpu.so",
      "lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so", "libtpu/libtpu.so",
      "jax_plugins/mps/pjrt_plugin_metal.so",         "jax_plugins/xla_cuda12/xla_cuda_plugin.so"};
  setenv("VIRTUAL_ENV", in_root("venv"), 1);
  for (size_t i = 0; i < sizeof files / sizeof *files; i++) { /* from the last choice to the first */
    char name[PATH_MAX];
    snprintf(name, sizeof name, "venv/lib/python3.11/site-packages/%s", files[i]);
    finds(NULL, make(name), "python wheel");
  }
}

Test(discovery, finds_the_site_packages_of_the_python3_on_the_path) {
  make("prefix/bin/python3");
  chmod(in_root("prefix/bin/python3"), 0755);
  const char *wheel = make("prefix/lib/python3.12/site-packages/lammps_jax_pjrt_cpu/pjrt_c_api_cpu_plugin.so");
  setenv("PATH", in_root("prefix/bin"), 1);
  finds(NULL, wheel, "python wheel");
  /* A link elsewhere leads to the same. */
  mkdir(in_root("bin"), 0755);
  cr_assert_eq(symlink(in_root("prefix/bin/python3"), in_root("bin/python3")), 0);
  setenv("PATH", in_root("bin"), 1);
  finds(NULL, wheel, "python wheel");
}

Test(discovery, finds_what_the_user_installed) {
  const char *wheel = make("home/.local/lib/python3.11/site-packages/fastatomstruct_xla_cpu/libpjrt_cpu.so");
  finds(NULL, wheel, "python wheel");
}

Test(discovery, lists_every_place_when_there_is_none) {
  mkdir(in_root("venv"), 0755);
  mkdir(in_root("venv/lib"), 0755);
  mkdir(in_root("venv/lib/python3.11"), 0755);
  mkdir(in_root("venv/lib/python3.11/site-packages"), 0755);
  setenv("VIRTUAL_ENV", in_root("venv"), 1);
  pjrtd_plugin_location location;
  PJRTD_AUTO(pjrtd_status) status = pjrtd_plugin_find(NULL, &location);
  cr_assert_eq(pjrtd_status_code(status), PJRTD_CODE_NOT_FOUND);
  const char *places[] = {"PJRTD_PLUGIN", "PYPJRT_PLUGIN", "PJRT_NAMES_AND_LIBRARY_PATHS", "TPU_LIBRARY_PATH",
                          "venv/lib/python3.11/site-packages"};
  for (size_t i = 0; i < sizeof places / sizeof *places; i++)
    cr_assert(strstr(pjrtd_status_message(status), places[i]), "%s", places[i]);
  cr_assert(strstr(pjrtd_status_hint(status), "--plugin"));
}

static pjrtd_status *find_and_forget(void) {
  pjrtd_plugin_location location;
  pjrtd_status *status = pjrtd_plugin_find(NULL, &location);
  pjrtd_plugin_location_deinit(&location);
  return status;
}

Test(discovery, survives_each_failing_allocation) {
  make("home/.local/lib/python3.11/site-packages/fastatomstruct_xla_cpu/libpjrt_cpu.so");
  cr_assert_geq(walk_failures(find_and_forget), 3);
}
