/* See sources.h. */
#include "state/sources.h"

#include <string.h>

#include "base/alloc.h"
#include "base/hash.h"

uint64_t pjrtd_source_key(const char *bytes, size_t size_bytes) {
  uint64_t key = pjrtd_hash_bytes(bytes, size_bytes);
  return key ? key : 1;
}

static void unlink_idle(pjrtd_sources *sources, pjrtd_source *source) {
  *(source->older ? &source->older->newer : &sources->oldest) = source->newer;
  *(source->newer ? &source->newer->older : &sources->newest) = source->older;
  source->older = source->newer = NULL;
  sources->idle--;
}

/* Of an idle one. */
static pjrtd_executable *forget(pjrtd_sources *sources, pjrtd_source *source) {
  pjrtd_executable *executable = source->executable;
  unlink_idle(sources, source);
  pjrtd_id_map_remove(&sources->by_key, source->key);
  sources->size_bytes -= source->size_bytes;
  pjrtd_free(source);
  return executable;
}

void pjrtd_sources_deinit(pjrtd_sources *sources) {
  while (sources->oldest) pjrtd_executable_destroy(forget(sources, sources->oldest));
  pjrtd_id_map_deinit(&sources->by_key);
}

pjrtd_source *pjrtd_sources_join(pjrtd_sources *sources, uint64_t key, const char *bytes, size_t size_bytes) {
  if (size_bytes > PJRTD_MAX_SOURCE_BYTES) return NULL;
  pjrtd_source *source = pjrtd_id_map_find(&sources->by_key, key);
  if (!source || source->size_bytes != size_bytes || memcmp(source->bytes, bytes, size_bytes) != 0) return NULL;
  if (!source->programs++) unlink_idle(sources, source);
  return source;
}

pjrtd_source *pjrtd_sources_add(pjrtd_sources *sources, uint64_t key, const char *bytes, size_t size_bytes,
                                pjrtd_executable *executable) {
  if (size_bytes > PJRTD_MAX_SOURCE_BYTES || sources->size_bytes + size_bytes > PJRTD_MAX_SOURCES_BYTES) return NULL;
  if (pjrtd_id_map_find(&sources->by_key, key)) return NULL;
  pjrtd_source *source = pjrtd_malloc(sizeof *source + size_bytes);
  if (!source) return NULL;
  *source = (pjrtd_source){.key = key, .programs = 1, .executable = executable, .size_bytes = size_bytes};
  memcpy(source->bytes, bytes, size_bytes);
  pjrtd_status *status = pjrtd_id_map_insert(&sources->by_key, key, source);
  if (status) {
    pjrtd_status_destroy(status);
    pjrtd_free(source);
    return NULL;
  }
  sources->size_bytes += size_bytes;
  return source;
}

pjrtd_executable *pjrtd_sources_leave(pjrtd_sources *sources, pjrtd_source *source, uint64_t max_idle) {
  if (--source->programs) return NULL;
  source->older = sources->newest;
  *(source->older ? &source->older->newer : &sources->oldest) = source;
  sources->newest = source;
  return ++sources->idle > max_idle ? forget(sources, sources->oldest) : NULL;
}
