/* Opens a plugin and asks it what it is. One thread, never the loop. The library stays mapped:
 * threads of XLA outlive the client, and closing it would pull the code from under them. */
#include <dlfcn.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plugin/pjrt_call.h"

#define MAX_EXTENSIONS 256

static const char *const extension_names[] = {
    [PJRT_Extension_Type_Gpu_Custom_Call] = "gpu_custom_call",
    [PJRT_Extension_Type_Profiler] = "profiler",
    [PJRT_Extension_Type_Custom_Partitioner] = "custom_partitioner",
    [PJRT_Extension_Type_Stream] = "stream",
    [PJRT_Extension_Type_Layouts] = "layouts",
    [PJRT_Extension_Type_FFI] = "ffi",
    [PJRT_Extension_Type_MemoryDescriptions] = "memory_descriptions",
    [PJRT_Extension_Type_Triton] = "triton",
    [PJRT_Extension_Type_RawBuffer] = "raw_buffer",
    [PJRT_Extension_Type_PhaseCompile] = "phase_compile",
    [PJRT_Extension_Type_Example] = "example",
    [PJRT_Extension_Type_CrossHostTransfers] = "cross_host_transfers",
    [PJRT_Extension_Type_ExecutableMetadata] = "executable_metadata",
    [PJRT_Extension_Type_Callback] = "callback",
    [PJRT_Extension_Type_HostAllocator] = "host_allocator",
    [PJRT_Extension_Type_TpuTopology] = "tpu_topology",
    [PJRT_Extension_Type_TpuExecutable] = "tpu_executable",
    [PJRT_Extension_Type_Megascale] = "megascale",
    [PJRT_Extension_Type_Shardings] = "shardings",
    [PJRT_Extension_Type_AbiVersion] = "abi_version",
    [PJRT_Extension_Type_Collectives] = "collectives",
    [PJRT_Extension_Type_MultiSlice] = "multi_slice",
    [PJRT_Extension_Type_HostMemoryAllocator] = "host_memory_allocator",
    [PJRT_Extension_Type_XlaTransform] = "xla_transform",
};

static pjrtd_status *open_library(const char *path, const PJRT_Api **out_api) {
  /* Every error comes back as a status, with its whole text; the plugin need not print it as well. Left alone where the
   * operator set it. */
  setenv("TF_CPP_MIN_LOG_LEVEL", "3", 0);
  pjrtd_start_watch_step("it was opened");
  pjrtd_cuda_libraries_preload(path);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) return pjrtd_library_explain(path, dlerror());
  const PJRT_Api *(*get_api)(void) = (const PJRT_Api *(*)(void))dlsym(library, "GetPjrtApi");
  if (!get_api) {
    pjrtd_status *status = PJRTD_INVALID("%s is a library but not a PJRT plugin: it has no GetPjrtApi", path);
    dlclose(library);
    return pjrtd_status_with_hint(status, "name a PJRT plugin, as XLA's for a CPU, GPU or TPU, with --plugin FILE");
  }
  pjrtd_start_watch_step("it was asked for its function table");
  *out_api = get_api();
  return *out_api ? PJRTD_OK
                  : pjrtd_status_with_hint(
                        PJRTD_INVALID("%s is not usable: its GetPjrtApi returned NULL, not a function table", path),
                        "install the plugin anew, or another release of it");
}

static pjrtd_status *read_extensions(pjrtd_plugin *plugin) {
  size_t count = 0;
  for (const PJRT_Extension_Base *at = plugin->api.extension_start; at; at = at->next)
    if (++count > MAX_EXTENSIONS)
      return pjrtd_status_with_hint(
          PJRTD_INVALID("%s is not usable: its extensions form a chain of more than %d", plugin->path, MAX_EXTENSIONS),
          "install the plugin anew, or another release of it");
  plugin->extension_names = pjrtd_calloc(count, sizeof *plugin->extension_names);
  if (!plugin->extension_names) return pjrtd_status_oom();
  plugin->info.extensions = (const char *const *)plugin->extension_names;
  for (const PJRT_Extension_Base *at = plugin->api.extension_start; at; at = at->next) {
    unsigned type = (unsigned)at->type;
    char unknown[32];
    snprintf(unknown, sizeof unknown, "unknown-%u", type);
    const char *name = type < sizeof extension_names / sizeof *extension_names ? extension_names[type] : NULL;
    char *copy = pjrtd_strdup(name ? name : unknown);
    if (!copy) return pjrtd_status_oom();
    plugin->extension_names[plugin->info.num_extensions++] = copy;
    plugin->is_gpu |= type == PJRT_Extension_Type_Gpu_Custom_Call;
    plugin->is_tpu |= type == PJRT_Extension_Type_TpuTopology || type == PJRT_Extension_Type_TpuExecutable;
  }
  return PJRTD_OK;
}

static void take_version(const pjrtd_value *value, int64_t out_version[3]) {
  if (value->kind != PJRTD_VALUE_INTEGERS || value->num_integers != 3) return;
  memcpy(out_version, value->integers, 3 * sizeof *out_version);
}

static pjrtd_status *read_attributes(pjrtd_plugin *plugin) {
  for (int i = 0; i < 3; i++) plugin->info.stablehlo_current[i] = plugin->info.stablehlo_minimum[i] = -1;
  PJRTD_ARGS(Plugin_Attributes, args);
  if (PJRTD_HAS(plugin, Plugin_Attributes)) {
    pjrtd_status *failed = PJRTD_CALL(plugin, Plugin_Attributes, args);
    if (failed) {
      pjrtd_status_ignore(failed); /* a plugin without attributes serves all the same */
      args.num_attributes = 0;
    }
  }
  PJRTD_TRY(pjrtd_values_from_pjrt(args.attributes, args.num_attributes, &plugin->attributes));
  plugin->info.attributes = plugin->attributes;
  plugin->info.num_attributes = args.attributes ? args.num_attributes : 0;
  for (size_t i = 0; i < plugin->info.num_attributes; i++) {
    const pjrtd_value *value = &plugin->attributes[i];
    if (strcmp(value->name, "stablehlo_current_version") == 0) take_version(value, plugin->info.stablehlo_current);
    if (strcmp(value->name, "stablehlo_minimum_version") == 0) take_version(value, plugin->info.stablehlo_minimum);
    plugin->is_gpu |= strcmp(value->name, "cuda_version") == 0 || strcmp(value->name, "rocm_version") == 0;
  }
  const char *slash = strrchr(plugin->path, '/');
  const char *file = slash ? slash + 1 : plugin->path;
  plugin->is_gpu |= strstr(file, "cuda") || strstr(file, "rocm");
  plugin->is_tpu |= strstr(file, "libtpu") != NULL;
  return PJRTD_OK;
}

static pjrtd_status *load(pjrtd_plugin *plugin) {
  const PJRT_Api *api = NULL;
  PJRTD_TRY(open_library(plugin->path, &api));
  PJRTD_TRY(pjrtd_plugin_take_api(plugin, api));
  PJRTD_TRY(read_extensions(plugin));
  if (PJRTD_HAS(plugin, Plugin_Initialize)) {
    PJRTD_ARGS(Plugin_Initialize, initialize);
    pjrtd_start_watch_step("it was initialised");
    pjrtd_status *status = PJRTD_CALL(plugin, Plugin_Initialize, initialize);
    if (status)
      return pjrtd_status_with_hint(
          pjrtd_status_context(status, "initialising the plugin %s", plugin->path),
          "see whether its device and driver are there, or name another plugin with --plugin");
  }
  return read_attributes(plugin);
}

pjrtd_status *pjrtd_plugin_load(const char *path, pjrtd_plugin **out_plugin) {
  *out_plugin = NULL;
  PJRTD_AUTO(pjrtd_plugin) plugin = pjrtd_calloc(1, sizeof *plugin);
  if (!plugin) return pjrtd_status_oom();
  char *resolved = realpath(path, NULL); /* also keeps dlopen from searching its own path for a bare name */
  if (!resolved) return pjrtd_status_from_errno(errno, "cannot open the plugin %s", path);
  plugin->path = pjrtd_strdup(resolved);
  free(resolved);
  if (!plugin->path) return pjrtd_status_oom();
  plugin->info.path = plugin->path;
  PJRTD_TRY(load(plugin));
  *out_plugin = PJRTD_TAKE(plugin);
  return PJRTD_OK;
}

void pjrtd_plugin_destroy(pjrtd_plugin *plugin) {
  if (!plugin) return;
  for (size_t i = 0; i < plugin->info.num_extensions; i++) pjrtd_free(plugin->extension_names[i]);
  pjrtd_free(plugin->extension_names);
  pjrtd_values_destroy(plugin->attributes, plugin->info.num_attributes);
  pjrtd_free(plugin->path);
  pjrtd_free(plugin);
}

const pjrtd_plugin_info *pjrtd_plugin_get_info(const pjrtd_plugin *plugin) {
  return &plugin->info;
}
