/* Files of numpy: reading .npy (versions 1 to 3), writing .npz. One thread. */
#pragma once

#include <pjrtc/pjrtc.h>

/* An array as it lies in a file. */
typedef struct {
  void *block; /* owned: the file */
  const void *data;
  pjrtc_dtype dtype; /* PJRTC_DTYPE_INVALID for raw elements ("V2"), which another type gives meaning */
  size_t item_bytes;
  bool raw; /* raw bytes or unsigned integers, as types that numpy has not are saved */
  uint32_t rank;
  int64_t dims[PJRTC_MAX_RANK];
  bool fortran_order;
} ctl_array;

/* Reads a file; big-endian data is swapped. NULL is success; else a complaint to be freed. */
char *ctl_array_read(const char *path, ctl_array *out_array);
void ctl_array_deinit(ctl_array *array);
/* Its data may be taken for `dtype`: the same type, or raw elements of its width. */
bool ctl_array_fits(const ctl_array *array, pjrtc_dtype dtype);

/* The type string under which numpy.load finds it: "<f4"; "|V2" for bf16, which numpy has not (`*out_raw`). */
const char *ctl_numpy_descr(pjrtc_dtype dtype, bool *out_raw);

typedef struct ctl_archive ctl_archive;

/* Begins an .npz file; NULL with a complaint to be freed. */
ctl_archive *ctl_archive_create(const char *path, char **out_complaint);
/* Adds an array as NAME.npy. */
void ctl_archive_add(ctl_archive *archive, const char *name, const pjrtc_type *type, const void *data);
/* Ends the file, which takes its name only now. NULL is success; else a complaint to be freed. */
char *ctl_archive_finish(ctl_archive *archive);
/* Gives it up; nothing is left of it. NULL is fine. */
void ctl_archive_abandon(ctl_archive *archive);
