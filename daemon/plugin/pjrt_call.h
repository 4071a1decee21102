/* Inside the plugin layer: the loaded function table, and how a PJRT call is made. The only header that brings PJRT's
 * types in; nothing outside this folder includes it. Any thread.
 *
 *   PJRTD_ARGS(Buffer_IsDeleted, args, .buffer = handle);
 *   PJRTD_TRY(PJRTD_CALL(plugin, Buffer_IsDeleted, args));
 *   if (args.is_deleted) ...
 */
#pragma once

#include <stdatomic.h>

#include "plugin/plugin.h"
#include "xla/pjrt/c/pjrt_c_api.h"

/* PJRT rearranged its function table at 0.57; since then it only grew. */
#define PJRTD_PJRT_MINIMUM_MINOR 57

struct pjrtd_plugin {
  /* A copy of the plugin's table, as long as ours. Slots beyond the plugin's own struct_size are NULL, so that one test
   * covers "too old for it" and "does not have it". */
  PJRT_Api api;
  size_t plugin_struct_size;
  pjrtd_plugin_info info;
  char *path;             /* owned; as info.path */
  char **extension_names; /* owned, as its texts; as info.extensions */
  pjrtd_value *attributes;
  atomic_size_t callbacks_owed; /* `done` of event groups that is still to come */
  bool is_gpu, is_tpu;          /* by attributes, extensions and file name, before there is a client */
};

/* Declares `variable` as the arguments of PJRT_<name>, zero but for the fields given. */
#define PJRTD_ARGS(name, variable, ...) \
  PJRT_##name##_Args variable = {.struct_size = PJRT_##name##_Args_STRUCT_SIZE, ##__VA_ARGS__}

#define PJRTD_HAS(plugin, name) ((plugin)->api.PJRT_##name != NULL)

/* A status: NULL, the plugin's error, or UNIMPLEMENTED where the plugin lacks the function. */
#define PJRTD_CALL(plugin, name, arguments)                                     \
  (__builtin_expect(PJRTD_HAS(plugin, name), 1)                                 \
       ? pjrtd_plugin_result((plugin), (plugin)->api.PJRT_##name(&(arguments))) \
       : pjrtd_plugin_lacks((plugin), "PJRT_" #name))

/* Takes `error`, which may be NULL, and makes it a status with the plugin's code and whole message. */
PJRTD_MUST_USE pjrtd_status *pjrtd_plugin_take_error(const pjrtd_plugin *plugin, PJRT_Error *error);
PJRTD_MUST_USE pjrtd_status *pjrtd_plugin_lacks(const pjrtd_plugin *plugin, const char *function);

PJRTD_MUST_USE static inline pjrtd_status *pjrtd_plugin_result(const pjrtd_plugin *plugin, PJRT_Error *error) {
  return __builtin_expect(error == NULL, 1) ? PJRTD_OK : pjrtd_plugin_take_error(plugin, error);
}

/* A copy of a plugin's text, which need not end in a 0, as UTF-8; NULL is "". The caller frees it. */
PJRTD_MUST_USE pjrtd_status *pjrtd_plugin_copy_text(const char *text, size_t size, char **out);

/* For calls whose failure changes nothing, such as those that free. */
static inline void pjrtd_status_ignore(pjrtd_status *status) {
  pjrtd_status_destroy(status);
}

/* ---- loading (api_check.c, library_file.c) ---- */

/* Copies the plugin's function table as far as it has one, checked. Every error names the file. */
PJRTD_MUST_USE pjrtd_status *pjrtd_plugin_take_api(pjrtd_plugin *plugin, const PJRT_Api *api);
/* Why `path` cannot be opened; `reason` is the dynamic linker's. */
PJRTD_MUST_USE pjrtd_status *pjrtd_library_explain(const char *path, const char *reason);

/* ---- named values (named_value.c) ---- */

/* Copies PJRT's array; the texts in it are not NUL-terminated. */
PJRTD_MUST_USE pjrtd_status *pjrtd_values_from_pjrt(const PJRT_NamedValue *values, size_t count,
                                                    pjrtd_value **out_values);
void pjrtd_values_destroy(pjrtd_value *values, size_t count);
PJRTD_MUST_USE pjrtd_status *pjrtd_value_copy(const pjrtd_value *value, pjrtd_value *out_value);
/* A view, valid while `value` is. */
PJRT_NamedValue pjrtd_value_to_pjrt(const pjrtd_value *value);

/* ---- events (plugin_event.c) ---- */

/* Each takes `event`; NULL is an event that has ended. */
PJRTD_MUST_USE pjrtd_status *pjrtd_event_await(const pjrtd_plugin *plugin, PJRT_Event *event);
void pjrtd_event_drop(const pjrtd_plugin *plugin, PJRT_Event *event);
/* Without waiting: true when the event has ended; then it is destroyed and `out_status` says how. */
bool pjrtd_event_poll(const pjrtd_plugin *plugin, PJRT_Event *event, pjrtd_status **out_status);

/* Several events that end as one: `done` is called once, when the last has ended, with the first error. */
typedef struct pjrtd_event_group pjrtd_event_group;
/* For up to `count` events. */
pjrtd_event_group *pjrtd_event_group_create(pjrtd_plugin *plugin, size_t count, pjrtd_event_fn done, void *user);
/* Takes the group and the events. `done` may be called before this returns. */
void pjrtd_event_group_start(pjrtd_event_group *group, PJRT_Event *const *events, size_t count);
/* For one event of a group of one. On an error nobody will call back, and both are still the caller's. */
PJRTD_MUST_USE pjrtd_status *pjrtd_event_group_start_one(pjrtd_event_group *group, PJRT_Event *event);
/* Of a group that was not started. */
void pjrtd_event_group_destroy(pjrtd_event_group *group);

/* ---- CUDA (cuda_libraries.c) ---- */

/* Opens the libraries of NVIDIA's wheels that lie beside a CUDA plugin at `plugin_path`. Returns how many. */
size_t pjrtd_cuda_libraries_preload(const char *plugin_path);
