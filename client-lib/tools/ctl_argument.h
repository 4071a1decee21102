/* --arg: TYPE[DIMENSIONS]=VALUES as host data. One thread. */
#pragma once

#include "ctl_numpy.h"

typedef struct {
  pjrtc_dtype dtype;
  uint32_t rank;
  int64_t dims[PJRTC_MAX_RANK];
  int64_t strides[PJRTC_MAX_RANK]; /* in bytes; where `strided` */
  bool strided;
  const void *data;
  void *owned;     /* the memory behind it, or NULL */
  ctl_array array; /* the file behind it, if any */
} ctl_argument;

/* `*out_is_file`: the fault is a file's, not the command line's. NULL is success; else a complaint to be freed. */
char *ctl_argument_read(const char *text, ctl_argument *out_argument, bool *out_is_file);
void ctl_argument_deinit(ctl_argument *argument);
