/* See buffer.h. */
#include "state/buffer.h"

#include <inttypes.h>

#include "state/quota.h"

/* Freeing more than this can take long (unmapping pages), so another thread does it. */
#define REAP_BYTES (1u << 20)

static void reap_run(pjrtd_job *job) {
  pjrtd_buffer *buffer = (pjrtd_buffer *)((char *)job - offsetof(pjrtd_buffer, reap));
  pjrtd_device_buffer_destroy(buffer->device_buffer);
}

static void reaped(pjrtd_job *job) {
  pjrtd_buffer *buffer = (pjrtd_buffer *)((char *)job - offsetof(pjrtd_buffer, reap));
  buffer->runtime->stats.buffers--;
  buffer->runtime->stats.buffer_bytes -= buffer->bytes;
  buffer->runtime->device_loads[buffer->device_index].buffer_bytes -= buffer->bytes;
  pjrtd_free(buffer);
}

static void reap_done(pjrtd_job *job) {
  pjrtd_runtime_job_ended(((pjrtd_buffer *)((char *)job - offsetof(pjrtd_buffer, reap)))->runtime);
  reaped(job);
}

/* A chain of steps that failed has a fallback for each: no recursion. */
static void release_fallback(pjrtd_buffer *buffer) {
  pjrtd_buffer *at = PJRTD_TAKE(buffer->fallback);
  while (at) {
    pjrtd_buffer *next = at->resource.references == 1 ? PJRTD_TAKE(at->fallback) : NULL;
    pjrtd_resource_release(&at->resource);
    at = next;
  }
}

static void buffer_destroy(pjrtd_resource *resource) {
  pjrtd_buffer *buffer = pjrtd_buffer_of(resource);
  release_fallback(buffer);
  if (!buffer->device_buffer) {
    pjrtd_free(buffer);
    return;
  }
  buffer->reap = (pjrtd_job){.run = reap_run, .done = reap_done};
  if (buffer->bytes > REAP_BYTES) {
    pjrtd_status *status = pjrtd_runtime_submit(buffer->runtime, buffer->runtime->reaper, &buffer->reap);
    if (!status) return;
    pjrtd_status_destroy(status); /* no thread: it is freed here */
  }
  buffer->reap.done = reaped;
  pjrtd_runtime_free_later(buffer->runtime, &buffer->reap);
}

pjrtd_status *pjrtd_buffer_create(pjrtd_runtime *runtime, pjrtd_buffer **out_buffer) {
  *out_buffer = NULL;
  pjrtd_buffer *buffer = pjrtd_calloc(1, sizeof *buffer);
  if (!buffer) return pjrtd_status_oom();
  pjrtd_resource_init(&buffer->resource, buffer_destroy);
  buffer->runtime = runtime;
  *out_buffer = buffer;
  return PJRTD_OK;
}

void pjrtd_buffer_set(pjrtd_buffer *buffer, pjrtd_device_buffer *device_buffer) {
  buffer->device_buffer = device_buffer;
  buffer->bytes = pjrtd_device_buffer_device_bytes(device_buffer);
  buffer->runtime->stats.buffers++;
  buffer->runtime->stats.buffer_bytes += buffer->bytes;
  buffer->device_index = pjrtd_device_buffer_device(device_buffer)->index;
  buffer->runtime->device_loads[buffer->device_index].buffer_bytes += buffer->bytes;
  pjrtd_account_charge(buffer->account, PJRTD_QUOTA_DEVICE_BYTES, buffer->bytes);
  pjrtd_resource_set_ready(&buffer->resource);
  if (buffer->fallback) release_fallback(buffer);
}

void pjrtd_buffer_add_name(pjrtd_buffer *buffer, pjrtd_account *account) {
  pjrtd_resource_retain(&buffer->resource);
  if (buffer->names++) return;
  if (!account) return;
  buffer->account = pjrtd_account_retain(account);
  pjrtd_account_charge(account, PJRTD_QUOTA_DEVICE_BYTES, buffer->bytes);
}

void pjrtd_buffer_drop_name(pjrtd_buffer *buffer) {
  if (!--buffer->names) {
    pjrtd_account_give_back(buffer->account, PJRTD_QUOTA_DEVICE_BYTES, buffer->bytes);
    pjrtd_account_release(PJRTD_TAKE(buffer->account));
  }
  pjrtd_resource_release(&buffer->resource);
}

uint64_t pjrtd_buffer_new_mark(void) {
  static uint64_t last;
  return ++last;
}

void pjrtd_device_buffer_discard(pjrtd_runtime *runtime, pjrtd_device_buffer *device_buffer) {
  if (!device_buffer) return;
  pjrtd_buffer *orphan = NULL;
  if (pjrtd_device_buffer_device_bytes(device_buffer) > REAP_BYTES) {
    pjrtd_status *status = pjrtd_buffer_create(runtime, &orphan);
    pjrtd_status_destroy(status); /* no memory: it is freed here */
  }
  if (!orphan) {
    pjrtd_device_buffer_destroy(device_buffer);
    return;
  }
  pjrtd_buffer_set(orphan, device_buffer);
  pjrtd_resource_release(&orphan->resource);
}

bool pjrtd_buffer_update_consumed(pjrtd_buffer *buffer) {
  if (!buffer->device_buffer || !pjrtd_device_buffer_is_deleted(buffer->device_buffer)) return false;
  /* What is left is the plugin's empty wrapper: quick to free. */
  pjrtd_device_buffer_destroy(buffer->device_buffer);
  buffer->device_buffer = NULL;
  buffer->runtime->stats.buffers--;
  buffer->runtime->stats.buffer_bytes -= buffer->bytes;
  buffer->runtime->device_loads[buffer->device_index].buffer_bytes -= buffer->bytes;
  pjrtd_account_give_back(buffer->account, PJRTD_QUOTA_DEVICE_BYTES, buffer->bytes);
  buffer->bytes = 0;
  buffer->resource.state = PJRTD_RESOURCE_CONSUMED;
  return true;
}

pjrtd_status *pjrtd_buffer_check_usable(const pjrtd_buffer *buffer) {
  switch (buffer->resource.state) {
    case PJRTD_RESOURCE_READY: return PJRTD_OK;
    case PJRTD_RESOURCE_FAILED: return pjrtd_status_retain(buffer->resource.error);
    case PJRTD_RESOURCE_CONSUMED:
      return pjrtd_status_with_hint(buffer->id
                                        ? PJRTD_INVALID("buffer %" PRIu64 " was donated to an execution", buffer->id)
                                        : PJRTD_INVALID("the buffer was donated to an execution"),
                                    "use the execution's output instead, or upload the data again");
    case PJRTD_RESOURCE_PENDING: break;
  }
  return PJRTD_INTERNAL("buffer %" PRIu64 " is used before it is made", buffer->id);
}
