/* Buffer.Upload: host data becomes a device buffer. Loop thread, but for the lane job.
 *
 * Data inside the request is small: the plugin copies it at once, here. Otherwise ITEM frames fill staging memory, the
 * socket writing right into it, and then a transfer lane hands those pages to the plugin, which adopts them where it
 * can (CPU: no copy) or copies them. The pages are freed when the plugin lets go of them. */
#include <inttypes.h>

#include "service/call.h"
#include "service/convert.h"
#include "service/staging.h"
#include "state/home.h"
#include "state/memory_report.h"

typedef struct {
  pjrtd_call call;      /* first */
  pjrtd_buffer *buffer; /* retained */
  const pjrtd_device *device;
  const pjrtd_memory *memory;
  pjrtd_tensor_type type;
  int64_t dims[PJRTD_MAX_RANK];
  pjrtd_reservation reservation;
  pjrtd_staging *pages; /* owned until the plugin has them */
  pjrtd_staging *lent;  /* what it was given, as long as that is there */
  pjrtd_job job;
  pjrtd_device_buffer *made; /* by the job */
  pjrtd_status *error;       /* by the job */
  bool submitted, abandoned;
} upload_call;

/* Any thread. */
static void on_pages_released(void *user, pjrtd_status *error) {
  pjrtd_status_destroy(error);
  pjrtd_staging_release(user);
}

static void upload_free(upload_call *upload) {
  if (upload->lent) upload->lent->watcher = NULL;
  pjrtd_staging_destroy(upload->pages);
  pjrtd_reservation_end(&upload->reservation);
  pjrtd_resource_release(&upload->buffer->resource);
  pjrtd_call_end(&upload->call);
}

static void upload_abandon(pjrtd_call *call, pjrtd_status *why) {
  upload_call *upload = (upload_call *)call;
  pjrtd_resource_set_failed(&upload->buffer->resource, why);
  pjrtd_operation_give_back_failed(&call->operation);
  upload->abandoned = true;
  if (!upload->submitted) upload_free(upload);
}

static void upload_run(pjrtd_job *job) {
  upload_call *upload = (upload_call *)((char *)job - offsetof(upload_call, job));
  /* From here on the pages may be released by another thread at any time. */
  pjrtd_staging *pages = PJRTD_TAKE(upload->pages);
  upload->error =
      pjrtd_device_buffer_adopt_host(upload->call.runtime->client, pages->data, &upload->type, upload->device,
                                     upload->memory, on_pages_released, pages, &upload->made);
  if (upload->error) {
    upload->pages = upload->lent = pages;
    pages->watcher = &upload->lent;
    return;
  }
  upload->error = pjrtd_device_buffer_await(upload->made);
  if (upload->error) {
    pjrtd_device_buffer_destroy(upload->made);
    upload->made = NULL;
  }
}

static void answer(pjrtd_peer *peer, const pjrtd_frame_header *header, const pjrtd_buffer *buffer) {
  Pjrtd__V1__UploadReply reply = PJRTD__V1__UPLOAD_REPLY__INIT;
  reply.device_bytes = buffer->bytes;
  reply.device = pjrtd_device_buffer_device(buffer->device_buffer)->id;
  pjrtd_answer(peer, header, &reply.base, NULL, 0);
}

static void upload_fail(upload_call *upload, pjrtd_status *status) {
  status = pjrtd_memory_report(upload->call.account, upload->device, status);
  status = pjrtd_status_with_origin(status, upload->call.header.call);
  pjrtd_resource_set_failed(&upload->buffer->resource, pjrtd_status_retain(status));
  pjrtd_call_fail(&upload->call, status);
  upload_free(upload);
}

static void upload_done(pjrtd_job *job) {
  upload_call *upload = (upload_call *)((char *)job - offsetof(upload_call, job));
  pjrtd_runtime_job_ended(upload->call.runtime);
  if (job->refusal) upload->error = PJRTD_TAKE(job->refusal);
  if (upload->abandoned) {
    pjrtd_status_destroy(upload->error);
    pjrtd_device_buffer_discard(upload->call.runtime, upload->made);
    upload_free(upload);
  } else if (upload->error) {
    upload_fail(upload, PJRTD_TAKE(upload->error));
  } else {
    pjrtd_buffer_set(upload->buffer, upload->made);
    /* Pages that are not back are adopted: the buffer counts them. */
    if (upload->lent) pjrtd_staging_uncount(upload->lent);
    answer(upload->call.peer, &upload->call.header, upload->buffer);
    upload_free(upload);
  }
}

static void upload_received(pjrtd_call *call) {
  upload_call *upload = (upload_call *)call;
  upload->job = (pjrtd_job){.run = upload_run, .done = upload_done};
  pjrtd_lane *lane = call->runtime->transfer_lanes[upload->device->index];
  pjrtd_status *status = pjrtd_runtime_submit(call->runtime, lane, &upload->job);
  if (status)
    upload_fail(upload, status);
  else
    upload->submitted = true;
}

/* The upload's device is where its memory is; its memory may be left to the plugin. */
static pjrtd_status *find_place(const pjrtd_session *session, const Pjrtd__V1__UploadRequest *upload,
                                const pjrtd_device **out_device, const pjrtd_memory **out_memory) {
  const pjrtd_runtime *runtime = session->runtime;
  *out_device = NULL;
  *out_memory = NULL;
  if (upload->placement_case == PJRTD__V1__UPLOAD_REQUEST__PLACEMENT_DEVICE)
    return pjrtd_home_find(runtime, upload->device, out_device);
  if (upload->placement_case == PJRTD__V1__UPLOAD_REQUEST__PLACEMENT_MEMORY) {
    *out_memory = pjrtd_client_find_memory(runtime->client, upload->memory);
    if (!*out_memory)
      return pjrtd_status_with_hint(PJRTD_INVALID("there is no memory space %d", upload->memory),
                                    "Runtime.Memories lists the memory spaces");
    for (size_t i = 0; i < (*out_memory)->num_devices && !*out_device; i++) {
      const pjrtd_device *device = pjrtd_client_find_device(runtime->client, (*out_memory)->device_ids[i]);
      if (device && device->addressable) *out_device = device;
    }
    return *out_device ? PJRTD_OK
                       : PJRTD_INVALID("memory space %d is reached by no device of this process", upload->memory);
  }
  *out_device = session->home;
  return PJRTD_OK;
}

/* The data came with the request. */
static pjrtd_status *upload_inline(pjrtd_request *request, const pjrtd_tensor_type *type, const pjrtd_device *device,
                                   const pjrtd_memory *memory, pjrtd_buffer *buffer) {
  pjrtd_device_buffer *made;
  PJRTD_TRY(pjrtd_device_buffer_from_host(request->peer->runtime->client, request->bulk, type, device, memory, &made));
  pjrtd_buffer_set(buffer, made);
  answer(request->peer, request->header, buffer);
  return PJRTD_OK;
}

static pjrtd_status *upload_items(pjrtd_request *request, const pjrtd_tensor_type *type, uint64_t bytes,
                                  const pjrtd_device *device, const pjrtd_memory *memory, pjrtd_buffer *buffer) {
  pjrtd_runtime *runtime = request->peer->runtime;
  char text[PJRTD_TENSOR_TYPE_TEXT];
  pjrtd_staging *pages = NULL;
  upload_call *upload = NULL;
  pjrtd_reservation reservation;
  PJRTD_TRY(pjrtd_reservation_make(request->peer->session->account, bytes, 0, "the upload", &reservation));
  pjrtd_status *status = pjrtd_staging_create(runtime, bytes, pjrtd_tensor_type_format(type, text), &pages);
  if (!status) status = pjrtd_call_create(request, sizeof *upload, 1, NULL, upload_abandon, &upload);
  if (status) {
    pjrtd_reservation_end(&reservation);
    pjrtd_staging_destroy(pages);
    return status;
  }
  upload->reservation = reservation;
  upload->pages = upload->lent = pages;
  pages->watcher = &upload->lent;
  upload->buffer = buffer;
  pjrtd_resource_retain(&buffer->resource);
  upload->device = device;
  upload->memory = memory;
  upload->type = *type;
  for (uint32_t i = 0; i < type->rank; i++) upload->dims[i] = type->dims[i];
  upload->type.dims = upload->dims;
  pjrtd_operation_hold(&upload->call.operation, &buffer->resource, PJRTD_HOLD_WRITE);
  pjrtd_operation_grant_new(&upload->call.operation);
  pjrtd_call_receive(&upload->call, pages, bytes, upload_received);
  return PJRTD_OK;
}

pjrtd_status *pjrtd_handle_buffer_upload(pjrtd_request *request) {
  const Pjrtd__V1__UploadRequest *upload = request->message;
  pjrtd_peer *peer = request->peer;
  pjrtd_buffer *buffer;
  PJRTD_TRY(pjrtd_session_make_buffer(peer->session, &peer->ids, upload->buffer, &buffer));
  /* From here on a failure poisons the id. */
  const pjrtd_tensor_type type = pjrtd_type_of_message(upload->type);
  const pjrtd_device *device = NULL;
  const pjrtd_memory *memory = NULL;
  uint64_t bytes = 0;
  pjrtd_status *status =
      upload->type ? pjrtd_tensor_type_check(&type, &bytes) : PJRTD_INVALID("the upload has no type");
  if (!status) status = pjrtd_client_check_dtype(peer->runtime->client, type.dtype);
  if (!status && upload->data_bytes != bytes) {
    char text[PJRTD_TENSOR_TYPE_TEXT];
    status = pjrtd_status_with_hint(PJRTD_INVALID("%s takes %" PRIu64 " bytes on the host, data_bytes is %" PRIu64,
                                                  pjrtd_tensor_type_format(&type, text), bytes, upload->data_bytes),
                                    "data is dense; types under 8 bits take one byte an element");
  }
  uint32_t came = request->header->bulk_bytes;
  if (!status && came && came != bytes)
    status = PJRTD_INVALID("data_bytes is %" PRIu64 ", but %u bytes came with the request: all or none", bytes, came);
  if (!status) status = find_place(peer->session, upload, &device, &memory);
  if (!status && came == bytes) {
    status = pjrtd_account_check(peer->session->account, PJRTD_QUOTA_DEVICE_BYTES, bytes, "the upload");
    if (!status) status = pjrtd_runtime_check_memory(peer->runtime, bytes, "the upload");
    if (!status) status = upload_inline(request, &type, device, memory, buffer);
  } else if (!status) {
    status = upload_items(request, &type, bytes, device, memory, buffer);
  }
  if (status) {
    status = pjrtd_memory_report(peer->session->account, device, status);
    status = pjrtd_status_with_origin(status, request->header->call);
    pjrtd_resource_set_failed(&buffer->resource, pjrtd_status_retain(status));
  }
  pjrtd_resource_release(&buffer->resource);
  return status;
}
