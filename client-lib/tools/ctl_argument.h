/* --arg: TYPE[DIMENSIONS]=VALUES as host data, or slot:NAME. One thread. */
#pragma once

#include "ctl_numpy.h"

typedef struct {
  const char *slot; /* not NULL: it is what the slot holds, and the rest is empty. Borrowed from the text */
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
/* How to upload it; to be used before it ends. Not for a slot. */
pjrtc_upload_options ctl_argument_upload(const ctl_argument *argument);
void ctl_argument_deinit(ctl_argument *argument);
