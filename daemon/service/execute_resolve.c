/* See execute_work.h: what an ExecuteRequest names, and what of it outlives the request. Loop thread. */
#include <inttypes.h>
#include <string.h>

#include "service/execute_work.h"

/* Names all the outputs that can be, whatever the first failure: they get poisoned by the caller. */
static pjrtd_status *name_outputs(pjrtd_request *request, const Pjrtd__V1__ExecuteRequest *wanted,
                                  pjrtd_execute_work *work) {
  pjrtd_status *first = PJRTD_OK;
  work->num_output_ids = wanted->n_outputs;
  for (size_t i = 0; i < work->num_outputs; i++) work->outputs[i] = NULL;
  for (size_t i = 0; i < wanted->n_outputs; i++) {
    if (!wanted->outputs[i]) continue;
    pjrtd_status *status =
        pjrtd_session_make_buffer(request->peer->session, &request->peer->ids, wanted->outputs[i], &work->outputs[i]);
    if (first)
      pjrtd_status_destroy(status);
    else
      first = status;
  }
  return first;
}

/* The slots have the new values from here on, until those are poisoned. */
static pjrtd_status *feed_back(const pjrtd_request *request, const Pjrtd__V1__ExecuteRequest *wanted, bool repeated,
                               pjrtd_execute_work *work) {
  pjrtd_session *session = request->peer->session;
  uint64_t mark = wanted->n_feed_back ? pjrtd_buffer_new_mark() : 0;
  for (size_t i = 0; i < wanted->n_feed_back; i++) {
    const Pjrtd__V1__FeedBack *feed = wanted->feed_back[i];
    if (repeated && !*feed->slot) continue; /* to an argument of the next step */
    pjrtd_buffer **output = &work->outputs[feed->output];
    if (!*output) PJRTD_TRY(pjrtd_buffer_create(request->peer->runtime, output));
    const pjrtd_buffer *held = pjrtd_slots_find(&session->slots, feed->slot);
    if ((*output)->seen == mark || (held && held->seen == mark))
      return PJRTD_INVALID("output %u is fed back to slot '%s': %s", feed->output, feed->slot,
                           (*output)->seen == mark ? "it is fed back already, bind it to a second slot after the call"
                                                   : "another output is fed back to that slot");
    PJRTD_TRY(pjrtd_slots_feed(&session->slots, feed->slot, *output, session->account,
                               request->peer->runtime->settings->max_session_slots));
    (*output)->seen = mark;
  }
  return PJRTD_OK;
}

static pjrtd_status *resolve_inline(const pjrtd_request *request, const Pjrtd__V1__ExecuteRequest *wanted,
                                    pjrtd_execute_work *work) {
  uint64_t used = 0;
  for (size_t i = 0; i < wanted->n_inline_args; i++) {
    const Pjrtd__V1__InlineArgument *from = wanted->inline_args[i];
    struct pjrtd_inline_argument *to = &work->inline_args[i];
    uint64_t bytes;
    if (from->position >= wanted->n_args || wanted->args[from->position] != 0 || work->args[from->position])
      return PJRTD_INVALID("inline argument %zu is for position %u, where no 0 stands among the arguments, or a slot",
                           i, from->position);
    if (i && from->position <= work->inline_args[i - 1].position)
      return PJRTD_INVALID("inline argument %zu is for position %u: positions must increase", i, from->position);
    if (!from->type) return PJRTD_INVALID("inline argument %zu has no type", i);
    to->position = from->position;
    to->type = pjrtd_type_of_message(from->type);
    pjrtd_status *status = pjrtd_tensor_type_check(&to->type, &bytes);
    if (!status) status = pjrtd_client_check_dtype(request->peer->runtime->client, to->type.dtype);
    if (!status && from->data_bytes != bytes)
      status = PJRTD_INVALID("it takes %" PRIu64 " bytes, data_bytes is %" PRIu64, bytes, from->data_bytes);
    if (status) {
      char text[PJRTD_TENSOR_TYPE_TEXT];
      return pjrtd_status_with_argument(pjrtd_status_context(status, "argument %u (inline)", from->position),
                                        from->position, "a tensor that can be sent",
                                        pjrtd_tensor_type_format(&to->type, text));
    }
    if (bytes > request->header->bulk_bytes - used)
      return PJRTD_INVALID("the inline arguments have more bytes than the %u that came", request->header->bulk_bytes);
    to->data = request->bulk + used;
    used += bytes;
    work->num_inline_args = i + 1;
  }
  if (used != request->header->bulk_bytes)
    return PJRTD_INVALID("%u bulk bytes came, the inline arguments have %" PRIu64, request->header->bulk_bytes, used);
  return PJRTD_OK;
}

static pjrtd_status *resolve_slots(const pjrtd_request *request, const Pjrtd__V1__ExecuteRequest *wanted,
                                   pjrtd_execute_work *work) {
  for (size_t i = 0; i < wanted->n_slot_args; i++) {
    const Pjrtd__V1__SlotArgument *from = wanted->slot_args[i];
    if (from->position >= wanted->n_args || wanted->args[from->position] != 0)
      return PJRTD_INVALID("slot '%.255s' is for position %u, where no 0 stands among the arguments", from->slot,
                           from->position);
    if (i && from->position <= work->slot_args[i - 1].position)
      return PJRTD_INVALID("slot '%.255s' is for position %u: positions must increase", from->slot, from->position);
    pjrtd_buffer *buffer = pjrtd_slots_find(&request->peer->session->slots, from->slot);
    if (!buffer) return pjrtd_status_context(pjrtd_session_no_slot(from->slot), "argument %u", from->position);
    /* The slot may be about to get another. */
    pjrtd_resource_retain(&buffer->resource);
    work->args[from->position] = buffer;
    work->slot_args[i] = (struct pjrtd_slot_argument){.position = from->position, .slot = from->slot};
    work->num_slot_args = i + 1;
  }
  return PJRTD_OK;
}

static pjrtd_status *resolve_args(const pjrtd_request *request, const Pjrtd__V1__ExecuteRequest *wanted,
                                  pjrtd_execute_work *work) {
  pjrtd_session *session = request->peer->session;
  work->program = pjrtd_session_find_program(session, wanted->program);
  if (!work->program) return pjrtd_session_not_found(PJRTD_ID_PROGRAM, wanted->program);
  size_t without_id = 0;
  for (size_t i = 0; i < wanted->n_args; i++) {
    work->args[i] = NULL;
    if (!wanted->args[i]) {
      without_id++;
      continue;
    }
    work->args[i] = pjrtd_session_find_buffer(session, wanted->args[i]);
    if (!work->args[i])
      return pjrtd_status_context(pjrtd_session_not_found(PJRTD_ID_BUFFER, wanted->args[i]), "argument %zu", i);
  }
  work->num_args = wanted->n_args;
  if (wanted->n_slot_args) PJRTD_TRY(resolve_slots(request, wanted, work));
  PJRTD_TRY(resolve_inline(request, wanted, work));
  if (without_id != work->num_inline_args + work->num_slot_args)
    return PJRTD_INVALID("%zu arguments are 0, but there are %zu inline arguments and %zu slots", without_id,
                         work->num_inline_args, work->num_slot_args);
  for (size_t i = 0; i < wanted->n_non_donatable; i++) {
    if (i && wanted->non_donatable[i] <= wanted->non_donatable[i - 1])
      return PJRTD_INVALID("non_donatable has %u after %u: it must increase", wanted->non_donatable[i],
                           wanted->non_donatable[i - 1]);
    work->non_donatable[i] = wanted->non_donatable[i];
  }
  work->num_non_donatable = wanted->n_non_donatable;
  work->fetch = wanted->fetch;
  work->num_fetch = wanted->n_fetch;
  return PJRTD_OK;
}

/* Where the work's arrays lie: on the stack, or, where there are more, in a block. */
static pjrtd_status *make_room(pjrtd_execute_work *work, const Pjrtd__V1__ExecuteRequest *wanted,
                               pjrtd_execute_arrays *arrays) {
  size_t args = wanted->n_args, inline_args = wanted->n_inline_args, slot_args = wanted->n_slot_args;
  size_t outputs = wanted->n_outputs, non_donatable = wanted->n_non_donatable;
  for (size_t i = 0; i < wanted->n_feed_back; i++)
    if (wanted->feed_back[i]->output >= outputs) outputs = (size_t)wanted->feed_back[i]->output + 1;
  work->num_outputs = outputs;
  if (args <= PJRTD_EXECUTE_SMALL && outputs <= PJRTD_EXECUTE_SMALL && inline_args <= PJRTD_EXECUTE_SMALL &&
      slot_args <= PJRTD_EXECUTE_SMALL && non_donatable <= PJRTD_EXECUTE_SMALL) {
    work->args = arrays->args;
    work->outputs = arrays->outputs;
    work->device_args = arrays->device_args;
    work->inline_args = arrays->inline_args;
    work->slot_args = arrays->slot_args;
    work->non_donatable = arrays->non_donatable;
    return PJRTD_OK;
  }
  if (args > PJRTD_MAX_EXECUTE_IDS || outputs > PJRTD_MAX_EXECUTE_IDS || wanted->n_fetch > PJRTD_MAX_EXECUTE_IDS ||
      inline_args > args || slot_args > args || non_donatable > args) {
    work->num_outputs = 0; /* none is named */
    return PJRTD_INVALID(
        "%zu arguments, %zu of them inline, %zu slots, %zu non-donatable, %zu outputs, %zu fetched: at most %d each "
        "are allowed",
        args, inline_args, slot_args, non_donatable, outputs, wanted->n_fetch, PJRTD_MAX_EXECUTE_IDS);
  }
  char *block = arrays->block =
      pjrtd_malloc((args * 2 + outputs) * sizeof(void *) + inline_args * sizeof *work->inline_args +
                   slot_args * sizeof *work->slot_args + non_donatable * sizeof(int64_t));
  if (!block) return pjrtd_status_oom();
  work->args = (void *)block;
  work->device_args = (void *)(work->args + args);
  work->outputs = (void *)(work->device_args + args);
  work->inline_args = (void *)(work->outputs + outputs);
  work->slot_args = (void *)(work->inline_args + inline_args);
  work->non_donatable = (void *)(work->slot_args + slot_args);
  return PJRTD_OK;
}

pjrtd_status *pjrtd_execute_resolve(pjrtd_request *request, const Pjrtd__V1__ExecuteRequest *wanted, bool repeated,
                                    pjrtd_execute_arrays *arrays, pjrtd_execute_work *out_work) {
  pjrtd_execute_work *work = out_work;
  memset(work, 0, sizeof *work);
  arrays->block = NULL;
  work->account = request->peer->session->account;
  work->sets_of_outputs = repeated ? 2 : 1;
  work->device_outputs = arrays->device_outputs;
  PJRTD_TRY(make_room(work, wanted, arrays));
  /* Arguments first: an execution cannot use its own output. The outputs get their names whatever comes, to be poisoned
   * if need be. */
  pjrtd_status *status = resolve_args(request, wanted, work);
  pjrtd_status *naming = name_outputs(request, wanted, work);
  if (status)
    pjrtd_status_destroy(naming);
  else
    status = naming;
  if (!status) status = feed_back(request, wanted, repeated, work);
  return status ? pjrtd_execute_refuse(request, work, status) : PJRTD_OK;
}

pjrtd_status *pjrtd_execute_refuse(const pjrtd_request *request, pjrtd_execute_work *work, pjrtd_status *status) {
  status = pjrtd_status_with_origin(pjrtd_execute_explain(work, status), request->header->call);
  pjrtd_execute_poison(work, status);
  pjrtd_execute_release(work);
  return status;
}

void pjrtd_execute_poison(pjrtd_execute_work *work, pjrtd_status *error) {
  for (size_t i = 0; i < work->num_outputs; i++)
    if (work->outputs[i]) pjrtd_resource_set_failed(&work->outputs[i]->resource, pjrtd_status_retain(error));
}

void pjrtd_execute_give_up(pjrtd_execute_work *work, pjrtd_operation *operation, const bool *but, pjrtd_status *why) {
  for (size_t i = 0; i < work->num_outputs; i++) {
    pjrtd_buffer *buffer = work->outputs[i];
    if (buffer && buffer->resource.state == PJRTD_RESOURCE_PENDING && !(but && but[i]))
      pjrtd_resource_set_failed(&buffer->resource, pjrtd_status_retain(why));
  }
  pjrtd_operation_give_back_failed(operation);
}

void pjrtd_execute_release(pjrtd_execute_work *work) {
  for (size_t i = 0; i < work->num_outputs; i++)
    if (work->outputs[i]) pjrtd_resource_release(&work->outputs[i]->resource);
  for (size_t i = 0; i < work->num_slot_args; i++)
    pjrtd_resource_release(&work->args[work->slot_args[i].position]->resource);
  pjrtd_free(PJRTD_TAKE(work->inline_data));
  pjrtd_reservation_end(&work->reservation);
}

/* ---- what outlives the request ---- */

size_t pjrtd_execute_kept_bytes(const pjrtd_execute_work *work) {
  size_t dims = 0, name_bytes = 0;
  for (size_t i = 0; i < work->num_inline_args; i++) dims += work->inline_args[i].type.rank;
  for (size_t i = 0; i < work->num_slot_args; i++) name_bytes += strlen(work->slot_args[i].slot) + 1;
  return work->num_args * (sizeof *work->args + sizeof *work->device_args) + work->num_outputs * sizeof *work->outputs +
         work->num_inline_args * sizeof *work->inline_args + work->num_slot_args * sizeof *work->slot_args +
         work->num_non_donatable * sizeof *work->non_donatable + dims * sizeof(int64_t) +
         work->num_fetch * sizeof *work->fetch + name_bytes;
}

pjrtd_status *pjrtd_execute_keep(const pjrtd_request *request, const pjrtd_execute_work *now, void *place,
                                 pjrtd_execute_work *out_work) {
  uint8_t *inline_data = NULL;
  if (request->header->bulk_bytes) {
    inline_data = pjrtd_memdup(request->bulk, request->header->bulk_bytes);
    if (!inline_data) return pjrtd_status_oom();
  }
  pjrtd_execute_work *work = out_work;
  *work = *now;
  work->inline_data = inline_data;
  char *block = place;
#define MOVE(field, count)                        \
  do {                                            \
    size_t size_ = (count) * sizeof *work->field; \
    if (size_) memcpy(block, now->field, size_);  \
    work->field = (void *)block;                  \
    block += size_;                               \
  } while (0)
  MOVE(args, now->num_args);
  work->device_args = (pjrtd_device_buffer **)block;
  block += now->num_args * sizeof *work->device_args;
  MOVE(outputs, now->num_outputs);
  MOVE(inline_args, now->num_inline_args);
  MOVE(slot_args, now->num_slot_args);
  MOVE(non_donatable, now->num_non_donatable);
  for (size_t i = 0; i < work->num_inline_args; i++) {
    struct pjrtd_inline_argument *argument = &work->inline_args[i];
    argument->data = inline_data + (argument->data - request->bulk);
    if (!argument->type.rank) continue;
    memcpy(block, argument->type.dims, argument->type.rank * sizeof(int64_t));
    argument->type.dims = (int64_t *)block;
    block += argument->type.rank * sizeof(int64_t);
  }
  MOVE(fetch, now->num_fetch);
#undef MOVE
  for (size_t i = 0; i < work->num_slot_args; i++) {
    size_t size = strlen(work->slot_args[i].slot) + 1;
    work->slot_args[i].slot = memcpy(block, work->slot_args[i].slot, size);
    block += size;
  }
  work->device_outputs = NULL;
  work->num_device_outputs = 0;
  return PJRTD_OK;
}

/* The strongest thing that the program may do to an argument; before it is compiled, nobody knows. */
static pjrtd_hold_mode mode_of(const pjrtd_execute_work *work, size_t position) {
  const pjrtd_program *program = work->program;
  if (program->resource.state == PJRTD_RESOURCE_PENDING) return PJRTD_HOLD_WRITE;
  if (program->resource.state != PJRTD_RESOURCE_READY) return PJRTD_HOLD_READ;
  return pjrtd_execute_is_donated(work, position) ? PJRTD_HOLD_WRITE : PJRTD_HOLD_READ;
}

uint32_t pjrtd_execute_num_holds(const pjrtd_execute_work *work) {
  return (uint32_t)(1 + work->num_args + work->num_outputs);
}

void pjrtd_execute_hold(const pjrtd_execute_work *work, pjrtd_operation *operation) {
  pjrtd_operation_hold(operation, &work->program->resource, PJRTD_HOLD_READ);
  for (size_t i = 0; i < work->num_args; i++)
    if (work->args[i]) pjrtd_operation_hold(operation, &work->args[i]->resource, mode_of(work, i));
  for (size_t i = 0; i < work->num_outputs; i++)
    if (work->outputs[i]) pjrtd_operation_hold(operation, &work->outputs[i]->resource, PJRTD_HOLD_WRITE);
}
