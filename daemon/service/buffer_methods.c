/* Buffer.Stat and Buffer.Delete. Loop thread. */
#include <string.h>

#include "service/call.h"
#include "service/convert.h"

typedef struct {
  pjrtd_call call;      /* first */
  pjrtd_buffer *buffer; /* held for reading */
} stat_call;

static pjrtd_status *answer_stat(pjrtd_peer *peer, const pjrtd_frame_header *header, const pjrtd_buffer *buffer) {
  Pjrtd__V1__StatReply reply = PJRTD__V1__STAT_REPLY__INIT;
  if (buffer->resource.state == PJRTD_RESOURCE_CONSUMED) {
    reply.is_deleted = true;
    reply.memory = -1;
  } else {
    PJRTD_TRY(pjrtd_buffer_check_usable(buffer));
  }
  Pjrtd__V1__TensorType type;
  pjrtd_layout_message layout_message;
  pjrtd_layout layout;
  if (!reply.is_deleted) {
    const pjrtd_tensor_type *own = pjrtd_device_buffer_type(buffer->device_buffer);
    const pjrtd_memory *memory = pjrtd_device_buffer_memory(buffer->device_buffer);
    PJRTD_TRY(pjrtd_tensor_type_check(own, &reply.host_bytes));
    pjrtd_type_message_fill(&type, own);
    reply.type = &type;
    reply.device_bytes = buffer->bytes;
    reply.device = pjrtd_device_buffer_device(buffer->device_buffer)->id;
    reply.memory = memory ? memory->id : -1;
    if (memory) reply.memory_kind = (char *)memory->kind;
    pjrtd_status *status = pjrtd_device_buffer_layout(buffer->device_buffer, &layout);
    if (!status) {
      pjrtd_layout_message_fill(&layout_message, &layout);
      reply.layout = &layout_message.message;
    }
    pjrtd_status_destroy(status); /* not every plugin says */
  }
  pjrtd_answer(peer, header, &reply.base, NULL, 0);
  return PJRTD_OK;
}

static void stat_ready(pjrtd_operation *operation) {
  stat_call *stat = (stat_call *)operation;
  if (pjrtd_call_park(&stat->call)) return;
  pjrtd_status *status = answer_stat(stat->call.peer, &stat->call.header, stat->buffer);
  if (status) pjrtd_call_fail(&stat->call, status);
  pjrtd_call_end(&stat->call);
}

static void stat_abandon(pjrtd_call *call, pjrtd_status *why) {
  pjrtd_status_destroy(why);
  pjrtd_call_end(call);
}

pjrtd_status *pjrtd_handle_buffer_stat(pjrtd_request *request) {
  const Pjrtd__V1__BufferRequest *wanted = request->message;
  pjrtd_buffer *buffer = pjrtd_session_find_buffer(request->peer->session, wanted->buffer);
  if (!buffer) return pjrtd_session_not_found(PJRTD_ID_BUFFER, wanted->buffer);
  stat_call *stat;
  PJRTD_TRY(pjrtd_call_create(request, sizeof *stat, 1, stat_ready, stat_abandon, &stat));
  stat->buffer = buffer;
  pjrtd_operation_hold(&stat->call.operation, &buffer->resource, PJRTD_HOLD_READ);
  pjrtd_operation_start(&stat->call.operation);
  return PJRTD_OK;
}

pjrtd_status *pjrtd_handle_buffer_delete(pjrtd_request *request) {
  const Pjrtd__V1__DeleteRequest *wanted = request->message;
  PJRTD_TRY(pjrtd_session_forget(request->peer->session, PJRTD_ID_BUFFER, wanted->buffers, wanted->n_buffers));
  return pjrtd_request_done(request);
}
