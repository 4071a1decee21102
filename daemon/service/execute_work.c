/* See execute_work.h. */
#include "service/execute_work.h"

#include <string.h>

static bool contains(const int64_t *increasing, size_t count, int64_t wanted) {
  size_t low = 0, high = count;
  while (low < high) {
    size_t middle = (low + high) / 2;
    if (increasing[middle] < wanted)
      low = middle + 1;
    else
      high = middle;
  }
  return low < count && increasing[low] == wanted;
}

bool pjrtd_execute_is_stacked(const pjrtd_execute_work *work, size_t position) {
  return contains(work->stacked, work->num_stacked, (int64_t)position);
}

bool pjrtd_execute_is_donated(const pjrtd_execute_work *work, size_t position) {
  const pjrtd_program_info *info = work->program->info;
  if (!info->any_donated || !info->num_args) return false;
  size_t index = position % info->num_args;
  /* Of what is stacked, a step gets a copy of its own. */
  return info->args[index].donated && !pjrtd_execute_is_stacked(work, position) &&
         !contains(work->non_donatable, work->num_non_donatable, (int64_t)index);
}

pjrtd_status *pjrtd_execute_prepare(pjrtd_execute_work *work) {
  const pjrtd_program_info *info = work->program->info;
  work->num_device_outputs = info->num_outputs * info->num_devices;
  size_t next_inline = 0;
  for (size_t i = 0; i < work->num_inline_args; i++) work->device_args[work->inline_args[i].position] = NULL;
  for (size_t i = 0; i < work->num_args; i++) {
    if (work->args[i]) {
      work->device_args[i] = work->args[i]->device_buffer;
      continue;
    }
    const struct pjrtd_inline_argument *argument = &work->inline_args[next_inline++];
    pjrtd_status *status =
        pjrtd_device_buffer_from_host(work->program->runtime->client, argument->data, &argument->type,
                                      info->devices[i / info->num_args], NULL, &work->device_args[i]);
    if (status) {
      work->device_args[i] = NULL;
      pjrtd_execute_unprepare(work);
      return status;
    }
  }
  return PJRTD_OK;
}

pjrtd_execute_call pjrtd_execute_call_of(const pjrtd_execute_work *work) {
  return (pjrtd_execute_call){.args = work->device_args,
                              .num_args = work->num_args,
                              .non_donatable = work->non_donatable,
                              .num_non_donatable = work->num_non_donatable};
}

void pjrtd_execute_unprepare(pjrtd_execute_work *work) {
  for (size_t i = 0; i < work->num_inline_args; i++) {
    pjrtd_device_buffer **slot = &work->device_args[work->inline_args[i].position];
    pjrtd_device_buffer_destroy(*slot);
    *slot = NULL;
  }
}

pjrtd_status *pjrtd_execute_explain(const pjrtd_execute_work *work, pjrtd_status *error) {
  const pjrtd_program_info *info = work->program ? work->program->info : NULL;
  return pjrtd_memory_report(work->account, info && info->num_devices ? info->devices[0] : NULL, error);
}

pjrtd_status *pjrtd_execute_settle(pjrtd_execute_work *work, pjrtd_status *error) {
  const pjrtd_program_info *info = work->program->info;
  size_t consumed = 0;
  for (size_t i = 0; info->any_donated && i < work->num_args; i++)
    if (work->args[i] && pjrtd_execute_is_donated(work, i)) consumed += pjrtd_buffer_update_consumed(work->args[i]);
  error = pjrtd_execute_explain(work, error);
  if (error && consumed)
    error = pjrtd_status_add_hint(error, "it had consumed %zu of its donated arguments: upload or compute them again",
                                  consumed);
  for (size_t i = 0; i < work->num_outputs; i++) {
    pjrtd_buffer *buffer = work->outputs[i];
    if (!buffer) continue;
    if (error) {
      pjrtd_resource_set_failed(&buffer->resource, pjrtd_status_retain(error));
    } else {
      pjrtd_buffer_set(buffer, work->device_outputs[i]);
      work->device_outputs[i] = NULL;
    }
  }
  pjrtd_reservation_end(&work->reservation);
  pjrtd_execute_unprepare(work);
  return error;
}

void pjrtd_execute_discard(pjrtd_execute_work *work) {
  for (size_t i = 0; i < work->num_device_outputs; i++)
    if (work->device_outputs[i])
      pjrtd_device_buffer_discard(work->program->runtime, PJRTD_TAKE(work->device_outputs[i]));
}

pjrtd_device_buffer *pjrtd_execute_output(const pjrtd_execute_work *work, uint32_t position) {
  if (position < work->num_outputs && work->outputs[position]) return work->outputs[position]->device_buffer;
  return work->device_outputs[position];
}

uint32_t pjrtd_execute_describe_fetched(const pjrtd_execute_work *work, pjrtd_fetched_part *parts,
                                        Pjrtd__V1__FetchedTensor **list) {
  const pjrtd_program_info *info = work->program->info;
  uint32_t bulk_bytes = 0; /* checked to fit a frame */
  for (size_t i = 0; i < work->num_fetch; i++) {
    const pjrtd_program_tensor *output = &info->outputs[work->fetch[i] % info->num_outputs];
    pjrtd__v1__fetched_tensor__init(&parts[i].message);
    pjrtd_type_message_fill(&parts[i].type, &output->type);
    parts[i].message.position = work->fetch[i];
    parts[i].message.type = &parts[i].type;
    parts[i].message.data_bytes = output->host_bytes;
    list[i] = &parts[i].message;
    bulk_bytes += (uint32_t)output->host_bytes;
  }
  return bulk_bytes;
}

void pjrtd_execute_answer(pjrtd_peer *peer, const pjrtd_frame_header *header, const pjrtd_execute_work *work,
                          const uint8_t *copies, uint64_t execute_ns) {
  if (header->quiet || !peer) return;
  const pjrtd_program_info *info = work->program->info;
  enum { FEW = 8 };
  pjrtd_fetched_part few_parts[FEW], *parts = few_parts;
  Pjrtd__V1__FetchedTensor *few_list[FEW], **list = few_list;
  uint32_t few_consumed[FEW], *consumed = few_consumed;
  PJRTD_AUTO_FREE void *many = NULL;
  if (work->num_fetch > FEW || work->num_args > FEW) {
    many = pjrtd_malloc(work->num_fetch * (sizeof *parts + sizeof *list) + work->num_args * sizeof *consumed);
    if (!many) {
      pjrtd_answer_error(peer, header, pjrtd_status_oom());
      return;
    }
    parts = many;
    list = (Pjrtd__V1__FetchedTensor **)(parts + work->num_fetch);
    consumed = (uint32_t *)(list + work->num_fetch);
  }
  uint32_t bulk_bytes = pjrtd_execute_describe_fetched(work, parts, list);
  Pjrtd__V1__ExecuteReply reply = PJRTD__V1__EXECUTE_REPLY__INIT;
  reply.fetched = list;
  reply.n_fetched = work->num_fetch;
  reply.execute_ns = execute_ns;
  for (size_t i = 0; info->any_donated && i < work->num_args; i++)
    if (work->args[i] && work->args[i]->resource.state == PJRTD_RESOURCE_CONSUMED)
      consumed[reply.n_consumed++] = (uint32_t)i;
  reply.consumed = consumed;
  uint8_t *bulk;
  if (!pjrtd_answer_begin(peer, header, &reply.base, bulk_bytes, &bulk)) return;
  for (size_t i = 0; i < work->num_fetch; i++) {
    size_t bytes = (size_t)parts[i].message.data_bytes;
    if (!bytes) continue;
    const void *view = copies ? NULL : pjrtd_device_buffer_view(pjrtd_execute_output(work, work->fetch[i]));
    memcpy(bulk, view ? view : copies, bytes);
    if (copies) copies += bytes;
    bulk += bytes;
  }
  pjrtd_answer_end(peer);
}
