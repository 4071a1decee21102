/* What executables were compiled from, so that a program that somebody has is not compiled again: a process that comes
 * back to its session, or many that run the same model, begin at once. Loop thread only.
 *
 * A source is whatever its maker puts into it (text, options), and is compared byte by byte. It lives as long as a
 * program has the executable; no executable is kept for a program that may come. */
#pragma once

#include "base/id_map.h"
#include "plugin/plugin.h"

#define PJRTD_MAX_SOURCE_BYTES (UINT64_C(256) << 10) /* of one; a larger one is compiled for each who asks */
#define PJRTD_MAX_SOURCES_BYTES (UINT64_C(64) << 20) /* of all */

typedef struct {
  uint64_t key;                 /* a hash of it */
  uint64_t programs;            /* that have the executable */
  pjrtd_executable *executable; /* borrowed: the last of the programs destroys it */
  size_t size_bytes;
  char bytes[];
} pjrtd_source;

/* A zeroed one is empty. */
typedef struct {
  pjrtd_id_map by_key;
  uint64_t size_bytes;
} pjrtd_sources;

void pjrtd_sources_deinit(pjrtd_sources *sources);
/* What the same bytes were compiled to, for one more program; NULL where there is nothing. */
pjrtd_source *pjrtd_sources_join(pjrtd_sources *sources, const char *bytes, size_t size_bytes);
/* Makes `executable` known, for its first program. NULL where it is not: the source is too large or there is no room
 * for it, or it is known already. Then the program does not share. */
pjrtd_source *pjrtd_sources_add(pjrtd_sources *sources, const char *bytes, size_t size_bytes,
                                pjrtd_executable *executable);
/* A program goes. Whether the executable goes with it: `source` was the last one's, or NULL. */
bool pjrtd_sources_leave(pjrtd_sources *sources, pjrtd_source *source);
