/* The CUDA libraries of NVIDIA's Python wheels (nvidia/PART/lib/libNAME.so.N, in the same site-packages as the
 * plugin), opened before the plugin so that it finds them by name. Start-up only.
 *
 * They need each other, in an order that changes between releases. So the known ones go first in an order that works
 * today, and what fails is tried again as long as a pass gets one more open. */
#include <dlfcn.h>
#include <glob.h>
#include <stdio.h>
#include <string.h>

#include "plugin/pjrt_call.h"

#define MAX_PATH_BYTES 4096

static const char *const first_stems[] = {"libcudart.so", "libnvJitLink.so", "libnvrtc.so",       "libcublasLt.so",
                                          "libcublas.so", "libcufft.so",     "libcusparse.so",    "libcusolver.so",
                                          "libcupti.so",  "libnccl.so",      "libnvshmem_host.so"};

static const char *file_name(const char *path) {
  const char *slash = strrchr(path, '/');
  return slash ? slash + 1 : path;
}

/* Opens those that are not open yet and whose file begins with `stem`. Returns how many more are open now. */
static size_t open_matching(char *const *paths, bool *is_open, size_t count, const char *stem) {
  size_t opened = 0;
  for (size_t i = 0; i < count; i++) {
    if (is_open[i] || strncmp(file_name(paths[i]), stem, strlen(stem)) != 0) continue;
    is_open[i] = dlopen(paths[i], RTLD_NOW | RTLD_GLOBAL) != NULL;
    opened += is_open[i];
  }
  return opened;
}

static size_t open_all(char *const *paths, size_t count) {
  PJRTD_AUTO_FREE bool *is_open = pjrtd_calloc(count, sizeof *is_open);
  if (!is_open) return 0;
  size_t opened = 0, more;
  for (size_t i = 0; i < sizeof first_stems / sizeof *first_stems; i++)
    opened += open_matching(paths, is_open, count, first_stems[i]);
  while ((more = open_matching(paths, is_open, count, "")) != 0) opened += more;
  return opened;
}

size_t pjrtd_cuda_libraries_preload(const char *plugin_path) {
  if (!strstr(plugin_path, "cuda")) return 0;
  /* site-packages is one to three folders above the plugin: jax_plugins/xla_cuda12/xla_cuda_plugin.so */
  char folder[MAX_PATH_BYTES];
  if ((size_t)snprintf(folder, sizeof folder, "%s", plugin_path) >= sizeof folder) return 0;
  for (int up = 0; up < 3; up++) {
    char *slash = strrchr(folder, '/');
    if (!slash || slash == folder) return 0;
    *slash = 0;
    char pattern[MAX_PATH_BYTES + 32];
    snprintf(pattern, sizeof pattern, "%s/nvidia/*/lib/*.so.[0-9]*", folder);
    glob_t matches = {0};
    size_t opened = glob(pattern, 0, NULL, &matches) == 0 ? open_all(matches.gl_pathv, matches.gl_pathc) : 0;
    globfree(&matches);
    if (opened) return opened;
  }
  return 0;
}
