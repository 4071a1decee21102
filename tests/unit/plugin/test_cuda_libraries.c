/* plugin/cuda_libraries.c, on two stand-ins for CUDA libraries of which one needs the other. */
#include <dlfcn.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "plugin/pjrt_call.h"
#include "plugin_fixture.h"

static char root[] = "/tmp/pjrtd-cuda-XXXXXX";

static void put(const char *stub, const char *folder, const char *name) {
  const char *stubs = getenv("PJRTD_STUB_PLUGINS");
  if (!stubs)
    cr_assert_fail("PJRTD_STUB_PLUGINS is not set: it names the folder of the stub plugins (run through ctest)");
  char from[PATH_MAX], to[PATH_MAX];
  snprintf(to, sizeof to, "%s/nvidia", root);
  mkdir(to, 0755);
  snprintf(to, sizeof to, "%s/nvidia/%s", root, folder);
  mkdir(to, 0755);
  snprintf(to, sizeof to, "%s/nvidia/%s/lib", root, folder);
  mkdir(to, 0755);
  snprintf(from, sizeof from, "%s/%s.so", stubs, stub);
  snprintf(to, sizeof to, "%s/nvidia/%s/lib/%s", root, folder, name);
  cr_assert_eq(symlink(from, to), 0);
}

Test(cuda_libraries, are_opened_in_an_order_that_works_and_for_all_to_see) {
  cr_assert_not_null(mkdtemp(root));
  put("stub_library_needs", "cublas", "libaaa.so.12"); /* comes first, and cannot be opened before the other */
  put("stub_library_gives", "cudnn", "libzzz.so.9");
  char plugin_path[PATH_MAX], command[PATH_MAX];
  snprintf(plugin_path, sizeof plugin_path, "%s/jax_plugins/xla_cuda12/xla_cuda_plugin.so", root);
  cr_assert_null(dlsym(RTLD_DEFAULT, "pjrtd_stub_given"));
  cr_assert_eq(pjrtd_cuda_libraries_preload(plugin_path), 2);
  cr_assert_not_null(dlsym(RTLD_DEFAULT, "pjrtd_stub_given"));
  cr_assert_not_null(dlsym(RTLD_DEFAULT, "pjrtd_stub_needing"));
  snprintf(command, sizeof command, "/bin/rm -rf '%s'", root);
  cr_assert_eq(system(command), 0);
}

Test(cuda_libraries, are_left_alone_for_other_plugins_and_where_there_are_none) {
  cr_assert_eq(pjrtd_cuda_libraries_preload("/nonexistent/site-packages/xla_cpu/plugin.so"), 0);
  cr_assert_eq(pjrtd_cuda_libraries_preload("/nonexistent/site-packages/jax_plugins/xla_cuda12/plugin.so"), 0);
  cr_assert_eq(pjrtd_cuda_libraries_preload("cuda.so"), 0);
}
