/* Compiling a file, for `compile` and `run`. One thread. */
#pragma once

#include "ctl.h"

enum { CTL_MAX_OVERRIDES = 256 };

/* Options of both commands. */
typedef struct {
  uint32_t num_replicas, num_partitions;
  bool spmd;
  bool has_device;
  int32_t device;
  uint64_t deadline_ns; /* of each request */
  pjrtc_attribute overrides[CTL_MAX_OVERRIDES];
  size_t num_overrides;
} ctl_compile_options;

/* The entries for ctl_parse; `user` must begin with a ctl_compile_options. */
#define CTL_COMPILE_OPTIONS                                                                                            \
  {"--device", "N", ctl_set_device}, {"--replicas", "N", ctl_set_replicas}, {"--partitions", "N", ctl_set_partitions}, \
      {"--spmd", NULL, ctl_set_spmd}, {"--xla", "NAME=VALUE", ctl_set_override}, {                                     \
    "--deadline", "SECONDS", ctl_set_deadline                                                                          \
  }
char *ctl_set_device(void *options, const char *value);
char *ctl_set_replicas(void *options, const char *value);
char *ctl_set_partitions(void *options, const char *value);
char *ctl_set_spmd(void *options, const char *value);
char *ctl_set_override(void *options, const char *value);
char *ctl_set_deadline(void *options, const char *value);

/* Reads the file and compiles it. CTL_OK, or another status after a message. */
int ctl_compile_file(const ctl_common *common, pjrtc_client *client, const ctl_compile_options *options,
                     const char *path, uint64_t *out_program, pjrtc_program_info **out_info);
