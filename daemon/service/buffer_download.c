/* Buffer.Download: a device buffer's data to the client. Loop thread, but for the lane job.
 *
 * Where the host can read device memory in place (CPU), small data is copied into the reply and big data streams right
 * from there, the buffer held for reading meanwhile. Elsewhere a transfer lane copies it to staging memory first. */
#include <string.h>

#include "service/call.h"
#include "service/convert.h"
#include "service/staging.h"
#include "state/memory_report.h"

typedef struct {
  pjrtd_call call;        /* first */
  pjrtd_buffer *buffer;   /* held for reading */
  pjrtd_staging *staging; /* owned; NULL where the data is sent from the device */
  pjrtd_stream stream;
  const pjrtd_peer_transport *transport; /* that has the stream */
  pjrtd_job job;
  pjrtd_status *error; /* by the job */
  bool submitted, abandoned;
} download_call;

static uint64_t host_bytes(const pjrtd_buffer *buffer) {
  uint64_t bytes = 0;
  /* The type is the plugin's own, so it is sound. */
  pjrtd_status_destroy(pjrtd_tensor_type_check(pjrtd_device_buffer_type(buffer->device_buffer), &bytes));
  return bytes;
}

/* Sends the reply, with the data in it where it is small. */
static void answer(pjrtd_peer *peer, const pjrtd_frame_header *header, const pjrtd_buffer *buffer, const void *data,
                   uint64_t bytes) {
  Pjrtd__V1__TensorType type;
  pjrtd_type_message_fill(&type, pjrtd_device_buffer_type(buffer->device_buffer));
  Pjrtd__V1__DownloadReply reply = PJRTD__V1__DOWNLOAD_REPLY__INIT;
  reply.type = &type;
  reply.data_bytes = bytes;
  uint32_t inline_bytes = bytes <= PJRTD_FRAME_MAX_INLINE_BYTES ? (uint32_t)bytes : 0;
  uint8_t *bulk;
  if (!pjrtd_answer_begin(peer, header, &reply.base, inline_bytes, &bulk)) return;
  if (inline_bytes) memcpy(bulk, data, inline_bytes);
  pjrtd_answer_end(peer);
}

static void download_free(download_call *download) {
  pjrtd_staging_destroy(download->staging);
  pjrtd_status_destroy(download->error);
  pjrtd_call_end(&download->call);
}

static void download_abandon(pjrtd_call *call, pjrtd_status *why) {
  download_call *download = (download_call *)call;
  pjrtd_status_destroy(why);
  if (call->outbound) {
    download->transport->stop_stream(call->outbound);
    call->outbound = NULL;
  }
  download->abandoned = true;
  if (!download->submitted) download_free(download);
}

static void stream_ended(pjrtd_stream *stream) {
  download_call *download = (download_call *)((char *)stream - offsetof(download_call, stream));
  pjrtd_runtime *runtime = download->call.runtime;
  download->call.outbound = NULL;
  download_free(download);
  pjrtd_runtime_settle(runtime);
}

static void send_data(download_call *download, const void *data, uint64_t bytes) {
  pjrtd_call *call = &download->call;
  answer(call->peer, &call->header, download->buffer, data, bytes);
  if (bytes <= PJRTD_FRAME_MAX_INLINE_BYTES || call->header.quiet) {
    download_free(download);
    return;
  }
  uint64_t credit_bytes;
  if (__builtin_add_overflow(call->peer->download_credit_bytes, call->granted_bytes, &credit_bytes))
    credit_bytes = UINT64_MAX;
  download->stream = (pjrtd_stream){.call = call->header.call,
                                    .method = call->header.method,
                                    .data = data,
                                    .remaining_bytes = bytes,
                                    .credit_bytes = credit_bytes,
                                    .ended = stream_ended};
  call->outbound = &download->stream;
  download->transport = call->peer->transport;
  call->peer->transport->start_stream(call->peer, &download->stream);
}

static void download_run(pjrtd_job *job) {
  download_call *download = (download_call *)((char *)job - offsetof(download_call, job));
  download->error =
      pjrtd_device_buffer_read(download->buffer->device_buffer, download->staging->data, download->staging->size_bytes);
}

static void download_fail(download_call *download, pjrtd_status *status) {
  const pjrtd_device_buffer *from = download->buffer->device_buffer;
  const pjrtd_device *device = from ? pjrtd_device_buffer_device(from) : NULL;
  pjrtd_call_fail(&download->call, pjrtd_memory_report(download->call.account, device, status));
  download_free(download);
}

static void download_done(pjrtd_job *job) {
  download_call *download = (download_call *)((char *)job - offsetof(download_call, job));
  pjrtd_runtime_job_ended(download->call.runtime);
  if (job->refusal) download->error = PJRTD_TAKE(job->refusal);
  download->submitted = false;
  if (download->abandoned) {
    download_free(download);
  } else if (download->error) {
    download_fail(download, PJRTD_TAKE(download->error));
  } else {
    send_data(download, download->staging->data, download->staging->size_bytes);
  }
}

static void download_ready(pjrtd_operation *operation) {
  download_call *download = (download_call *)operation;
  if (pjrtd_call_park(&download->call)) return;
  pjrtd_call *call = &download->call;
  pjrtd_status *status = pjrtd_buffer_check_usable(download->buffer);
  if (!status) {
    uint64_t bytes = host_bytes(download->buffer);
    const void *view = bytes ? pjrtd_device_buffer_view(download->buffer->device_buffer) : NULL;
    if (view || !bytes) {
      send_data(download, view, bytes);
      return;
    }
    status = pjrtd_staging_create(call->runtime, bytes, "the download", &download->staging);
    if (!status) {
      const pjrtd_device *device = pjrtd_device_buffer_device(download->buffer->device_buffer);
      download->job = (pjrtd_job){.run = download_run, .done = download_done};
      status = pjrtd_runtime_submit(call->runtime, call->runtime->transfer_lanes[device->index], &download->job);
    }
    if (!status) {
      download->submitted = true;
      return;
    }
  }
  download_fail(download, status);
}

pjrtd_status *pjrtd_handle_buffer_download(pjrtd_request *request) {
  const Pjrtd__V1__DownloadRequest *wanted = request->message;
  pjrtd_buffer *buffer = pjrtd_session_find_buffer(request->peer->session, wanted->buffer);
  if (!buffer) return pjrtd_session_not_found(PJRTD_ID_BUFFER, wanted->buffer);
  /* The hot path: there, small, and in the host's reach. */
  if (pjrtd_resource_readable_now(&buffer->resource)) {
    uint64_t bytes = host_bytes(buffer);
    const void *view = bytes <= PJRTD_FRAME_MAX_INLINE_BYTES ? pjrtd_device_buffer_view(buffer->device_buffer) : NULL;
    if (view) {
      answer(request->peer, request->header, buffer, view, bytes);
      return PJRTD_OK;
    }
  }
  download_call *download;
  PJRTD_TRY(pjrtd_call_create(request, sizeof *download, 1, download_ready, download_abandon, &download));
  download->buffer = buffer;
  pjrtd_operation_hold(&download->call.operation, &buffer->resource, PJRTD_HOLD_READ);
  pjrtd_operation_start(&download->call.operation);
  return PJRTD_OK;
}
