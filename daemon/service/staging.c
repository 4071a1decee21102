/* See staging.h. */
#include "service/staging.h"

#include <sys/mman.h>

#define QUICK_DROP_BYTES (1u << 20)
/* Pages are made and freed in pieces of this size: the kernel holds a lock of the address space meanwhile, and who
 * wants to change that waits for it, and everybody's page faults wait for who wants to change it. */
#define SLICE_BYTES (256u << 10)
/* How far pages are touched ahead of what is written, and in which steps. A client that announces much and sends
 * nothing costs no more than this. */
#define AHEAD_BYTES (8u << 20)
#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

pjrtd_status *pjrtd_staging_create(pjrtd_runtime *runtime, uint64_t size_bytes, const char *what,
                                   pjrtd_staging **out_staging) {
  *out_staging = NULL;
  PJRTD_TRY(pjrtd_runtime_check_memory(runtime, size_bytes, what));
  pjrtd_staging *staging = pjrtd_calloc(1, sizeof *staging);
  if (!staging) return pjrtd_status_oom();
  pjrtd_pages *pages;
  pjrtd_status *status = pjrtd_page_pool_take(runtime->pages, size_bytes, what, &pages);
  if (status) {
    pjrtd_free(staging);
    return status;
  }
  *staging = (pjrtd_staging){
      .pages = pages, .data = pages->data, .size_bytes = size_bytes, .runtime = runtime, .counted = true};
  runtime->stats.staging_bytes += size_bytes;
  *out_staging = staging;
  return PJRTD_OK;
}

void pjrtd_staging_uncount(pjrtd_staging *staging) {
  if (staging->counted) staging->runtime->stats.staging_bytes -= staging->size_bytes;
  staging->counted = false;
}

static pjrtd_staging *staging_of(pjrtd_job *job) {
  return (pjrtd_staging *)((char *)job - offsetof(pjrtd_staging, job));
}

static void advise_in_slices(const pjrtd_staging *staging, uint64_t from, uint64_t until, int advice) {
  if (until > staging->size_bytes) until = staging->size_bytes;
  for (uint64_t at = from; at < until; at += SLICE_BYTES)
    madvise((char *)staging->data + at, until - at < SLICE_BYTES ? until - at : SLICE_BYTES, advice);
}

static void drop_run(pjrtd_job *job) {
  const pjrtd_staging *staging = staging_of(job);
  advise_in_slices(staging, 0, staging->size_bytes, MADV_DONTNEED);
}

static void dropped(pjrtd_staging *staging) {
  pjrtd_staging_uncount(staging);
  pjrtd_page_pool_give(staging->runtime->pages, staging->pages);
  pjrtd_free(staging);
}

static void drop_done(pjrtd_job *job) {
  pjrtd_runtime_job_ended(staging_of(job)->runtime);
  dropped(staging_of(job));
}

void pjrtd_staging_destroy(pjrtd_staging *staging) {
  if (!staging) return;
  if (staging->watcher) *staging->watcher = NULL;
  staging->watcher = NULL;
  if (staging->touching) {
    staging->doomed = true;
    return;
  }
  staging->job = (pjrtd_job){.run = drop_run, .done = drop_done};
  if (staging->size_bytes > QUICK_DROP_BYTES) {
    pjrtd_status *status = pjrtd_runtime_submit(staging->runtime, staging->runtime->reaper, &staging->job);
    if (!status) return;
    pjrtd_status_destroy(status); /* no thread: it is done here */
  }
  drop_run(&staging->job);
  dropped(staging);
}

static void touch_run(pjrtd_job *job) {
  pjrtd_staging *staging = staging_of(job);
  /* Where the kernel cannot (before 5.14), the pages are touched by who writes them. */
  advise_in_slices(staging, staging->touched_bytes, staging->touched_bytes + AHEAD_BYTES, MADV_POPULATE_WRITE);
}

static void touch_done(pjrtd_job *job) {
  pjrtd_staging *staging = staging_of(job);
  pjrtd_runtime_job_ended(staging->runtime);
  staging->touching = false;
  staging->touched_bytes += AHEAD_BYTES;
  if (staging->doomed) pjrtd_staging_destroy(staging);
}

void pjrtd_staging_advance(pjrtd_staging *staging, uint64_t written_bytes) {
  if (staging->touching || staging->touched_bytes >= staging->size_bytes ||
      staging->touched_bytes > written_bytes + AHEAD_BYTES / 2)
    return;
  /* Page aligned, as the step is. */
  if (staging->touched_bytes < written_bytes) staging->touched_bytes = written_bytes & ~(uint64_t)(AHEAD_BYTES / 2 - 1);
  staging->job = (pjrtd_job){.run = touch_run, .done = touch_done};
  pjrtd_status *status = pjrtd_runtime_submit(staging->runtime, staging->runtime->reaper, &staging->job);
  if (!status) staging->touching = true;
  pjrtd_status_destroy(status); /* no thread: then not ahead */
}

static void deliver_released(pjrtd_message *message) {
  pjrtd_staging_destroy((pjrtd_staging *)((char *)message - offsetof(pjrtd_staging, released)));
}

void pjrtd_staging_release(pjrtd_staging *staging) {
  staging->released.deliver = deliver_released;
  pjrtd_mailbox_post(staging->runtime->mailbox, &staging->released);
}
