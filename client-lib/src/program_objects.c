/* Program descriptions as public objects. Any thread. */
#include "pjrtd/v1/program.pb-c.h"
#include "reply_object.h"

static pjrtc_program_tensor *read_tensor(pjrtc_reply_arena *arena, const Pjrtd__V1__ProgramTensor *m) {
  pjrtc_program_tensor *tensor = pjrtc_reply_arena_zalloc(arena, sizeof *tensor);
  if (!tensor) return NULL;
  *tensor = (pjrtc_program_tensor){
      .struct_size = sizeof *tensor,
      .memory_kind = m->memory_kind,
      .unsupported = m->unsupported,
      .donated = m->donated,
  };
  if (m->type) {
    if (m->type->n_dims > PJRTC_MAX_RANK) return NULL;
    tensor->type = (pjrtc_type){(pjrtc_dtype)m->type->dtype, (uint32_t)m->type->n_dims, m->type->dims};
  }
  if (m->layout && m->layout->n_minor_to_major == tensor->type.rank) tensor->minor_to_major = m->layout->minor_to_major;
  return tensor;
}

static const pjrtc_program_tensor *const *read_tensors(pjrtc_reply_arena *arena, size_t count,
                                                       Pjrtd__V1__ProgramTensor *const *messages) {
  pjrtc_program_tensor **tensors = pjrtc_reply_arena_zalloc(arena, count * sizeof *tensors);
  for (size_t i = 0; tensors && i < count; i++)
    if (!(tensors[i] = read_tensor(arena, messages[i]))) return NULL;
  return (const pjrtc_program_tensor *const *)tensors;
}

static void *convert(pjrtc_reply_arena *arena, const Pjrtd__V1__ProgramDescription *m, uint64_t compile_ns) {
  pjrtc_program_info *info = pjrtc_reply_object_create(arena, sizeof *info);
  if (!info) return NULL;
  *info = (pjrtc_program_info){
      .struct_size = sizeof *info,
      .name = m->name,
      .fingerprint = m->fingerprint,
      .num_replicas = m->num_replicas,
      .num_partitions = m->num_partitions,
      .devices = m->devices,
      .num_devices = m->n_devices,
      .args = read_tensors(arena, m->n_args, m->args),
      .num_args = m->n_args,
      .outputs = read_tensors(arena, m->n_outputs, m->outputs),
      .num_outputs = m->n_outputs,
      .generated_code_bytes = m->generated_code_bytes,
      .compile_ns = compile_ns,
      .straight_line = m->straight_line,
  };
  return info->args && info->outputs ? info : NULL;
}

void *pjrtc_read_compile(pjrtc_reply_arena *arena, const uint8_t *payload, size_t payload_bytes) {
  Pjrtd__V1__CompileReply *reply =
      pjrtd__v1__compile_reply__unpack(pjrtc_reply_arena_allocator(arena), payload_bytes, payload);
  return reply && reply->description ? convert(arena, reply->description, reply->compile_ns) : NULL;
}

void *pjrtc_read_description(pjrtc_reply_arena *arena, const uint8_t *payload, size_t payload_bytes) {
  Pjrtd__V1__ProgramDescription *message =
      pjrtd__v1__program_description__unpack(pjrtc_reply_arena_allocator(arena), payload_bytes, payload);
  return message ? convert(arena, message, 0) : NULL;
}

void pjrtc_program_info_destroy(pjrtc_program_info *info) {
  pjrtc_reply_object_destroy(info);
}
