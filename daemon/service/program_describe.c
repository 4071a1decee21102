/* See program_describe.h. */
#include "service/program_describe.h"

#include "service/convert.h"

typedef struct {
  Pjrtd__V1__ProgramTensor message;
  Pjrtd__V1__TensorType type;
  pjrtd_layout_message layout;
} tensor_part;

static void fill_tensor(tensor_part *part, const pjrtd_program_tensor *tensor) {
  pjrtd__v1__program_tensor__init(&part->message);
  pjrtd_type_message_fill(&part->type, &tensor->type);
  part->message.type = &part->type;
  if (tensor->has_layout) {
    pjrtd_layout_message_fill(&part->layout, &tensor->layout);
    part->message.layout = &part->layout.message;
  }
  part->message.memory_kind = (char *)tensor->memory_kind;
  part->message.donated = tensor->donated;
  if (tensor->unsupported) part->message.unsupported = (char *)tensor->unsupported;
}

/* Packs the description, alone or inside a CompileReply. */
static pjrtd_status *answer(pjrtd_peer *peer, const pjrtd_frame_header *header, const pjrtd_program_info *info,
                            const uint64_t *compile_ns) {
  size_t count = info->num_args + info->num_outputs;
  PJRTD_AUTO_FREE tensor_part *parts = pjrtd_calloc(count, sizeof *parts);
  PJRTD_AUTO_FREE Pjrtd__V1__ProgramTensor **list = pjrtd_calloc(count, sizeof *list);
  PJRTD_AUTO_FREE int32_t *devices = pjrtd_calloc(info->num_devices, sizeof *devices);
  if (!parts || !list || !devices) return pjrtd_status_oom();
  for (size_t i = 0; i < count; i++) {
    fill_tensor(&parts[i], i < info->num_args ? &info->args[i] : &info->outputs[i - info->num_args]);
    list[i] = &parts[i].message;
  }
  for (size_t i = 0; i < info->num_devices; i++) devices[i] = info->devices[i]->id;

  Pjrtd__V1__ProgramDescription description = PJRTD__V1__PROGRAM_DESCRIPTION__INIT;
  PJRTD_AUTO_FREE char *mended = NULL;
  description.name = (char *)pjrtd_valid_text(info->name, &mended);
  description.num_replicas = info->num_replicas;
  description.num_partitions = info->num_partitions;
  description.devices = devices;
  description.n_devices = info->num_devices;
  description.args = list;
  description.n_args = info->num_args;
  description.outputs = list + info->num_args;
  description.n_outputs = info->num_outputs;
  description.straight_line = info->straight_line;
  description.fingerprint = (char *)info->fingerprint;
  description.generated_code_bytes = info->generated_code_bytes;

  Pjrtd__V1__CompileReply reply = PJRTD__V1__COMPILE_REPLY__INIT;
  reply.description = &description;
  if (compile_ns) reply.compile_ns = *compile_ns;
  pjrtd_answer(peer, header, compile_ns ? &reply.base : &description.base, NULL, 0);
  return PJRTD_OK;
}

pjrtd_status *pjrtd_answer_compile(pjrtd_peer *peer, const pjrtd_frame_header *header, const pjrtd_program_info *info,
                                   uint64_t compile_ns) {
  return answer(peer, header, info, &compile_ns);
}

pjrtd_status *pjrtd_answer_describe(pjrtd_peer *peer, const pjrtd_frame_header *header,
                                    const pjrtd_program_info *info) {
  return answer(peer, header, info, NULL);
}
