/* What executables were compiled from, so that a program that somebody has, or had a while ago, is not compiled again:
 * a process that comes back to its session, or many that run the same model, begin at once. Loop thread only.
 *
 * A source is whatever its maker puts into it (text, options), and is compared byte by byte. Its executable is shared
 * by programs; when the last one goes it stays, as one of the few that were used last. */
#pragma once

#include "base/id_map.h"
#include "plugin/plugin.h"

#define PJRTD_MAX_SOURCE_BYTES (UINT64_C(256) << 10) /* of one; a larger one is compiled for each who asks */
#define PJRTD_MAX_SOURCES_BYTES (UINT64_C(64) << 20) /* of all */

typedef struct pjrtd_source {
  uint64_t key;                       /* a hash of it */
  uint64_t programs;                  /* that have the executable */
  struct pjrtd_source *older, *newer; /* among the idle ones, where no program has it */
  pjrtd_executable *executable;       /* owned */
  size_t size_bytes;
  char bytes[];
} pjrtd_source;

/* A zeroed one is empty. */
typedef struct {
  pjrtd_id_map by_key;
  uint64_t size_bytes;
  pjrtd_source *oldest, *newest; /* idle ones, by when they became so */
  uint64_t idle;
} pjrtd_sources;

/* Forgets all, and destroys the executables of the idle ones; no program may have one. It blocks. */
void pjrtd_sources_deinit(pjrtd_sources *sources);
/* Of the bytes of a source, which takes as long as there are bytes. Two sources with one key are told apart, and only
 * one of them is known. */
uint64_t pjrtd_source_key(const char *bytes, size_t size_bytes);
/* What the same bytes, of that key, were compiled to, for one more program; NULL where there is nothing. */
pjrtd_source *pjrtd_sources_join(pjrtd_sources *sources, uint64_t key, const char *bytes, size_t size_bytes);
/* Takes `executable` for its first program. NULL, and nothing is taken, where it cannot be shared: the source is too
 * large or there is no room for it, or it is known already. */
pjrtd_source *pjrtd_sources_add(pjrtd_sources *sources, uint64_t key, const char *bytes, size_t size_bytes,
                                pjrtd_executable *executable);
/* A program goes. At most `max_idle` executables stay that no program has: the caller destroys the one that is
 * returned, if any. */
PJRTD_MUST_USE pjrtd_executable *pjrtd_sources_leave(pjrtd_sources *sources, pjrtd_source *source, uint64_t max_idle);
