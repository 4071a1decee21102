/* Inside the plugin layer: a loaded executable. Immutable once made, so any thread may run it. */
#pragma once

#include "plugin/buffer_internal.h"

struct pjrtd_executable {
  pjrtd_client *client; /* borrowed */
  PJRT_LoadedExecutable *handle;
  /* The device to name at each run: a portable executable belongs to none. NULL for others. */
  PJRT_Device *run_device;
  bool parameters_in_one_tuple; /* parameter_is_tupled_arguments: the entry's one tuple, given as its parts */
  pjrtd_program_info info;
  char *name, *fingerprint;     /* owned; as in info */
  const pjrtd_device **devices; /* owned list of borrowed devices; as in info */
  pjrtd_program_tensor *args;   /* owned, with their dims and texts; as in info */
  pjrtd_program_tensor *outputs;
  const pjrtd_memory **output_memories; /* owned list, device-major: where each output lies; NULL entries: unknown */
};

/* Fills `executable->info` from the plugin. What was read so far is freed by the deinit, on failure too. */
PJRTD_MUST_USE pjrtd_status *pjrtd_executable_read_info(pjrtd_executable *executable);
void pjrtd_executable_deinit_info(pjrtd_executable *executable);
