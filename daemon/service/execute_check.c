/* pjrtd_execute_check: the plugin compares byte sizes only, so everything is compared here (device layouts by the
 * plugin layer, which knows them). Loop thread. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "service/execute_work.h"

static pjrtd_status *check_counts(const pjrtd_execute_work *work, const pjrtd_program_info *info) {
  size_t devices = info->num_devices;
  if (work->num_args != info->num_args * devices) {
    char expected[48], actual[48];
    snprintf(expected, sizeof expected, "%zu arguments", info->num_args * devices);
    snprintf(actual, sizeof actual, "%zu arguments", work->num_args);
    return pjrtd_status_with_argument(
        PJRTD_INVALID("program '%s': supplied %zu arguments, expected %zu%s", info->name, work->num_args,
                      info->num_args * devices, devices > 1 ? " (all devices' together)" : ""),
        (uint32_t)(work->num_args < info->num_args * devices ? work->num_args : info->num_args * devices), expected,
        actual);
  }
  if (work->num_output_ids && work->num_output_ids != info->num_outputs * devices)
    return PJRTD_INVALID("program '%s': %zu output ids, it has %zu outputs%s", info->name, work->num_output_ids,
                         info->num_outputs * devices, devices > 1 ? " (all devices' together)" : "");
  if (work->num_outputs > info->num_outputs * devices)
    return PJRTD_INVALID("program '%s': output %zu is to be fed back, it has %zu", info->name, work->num_outputs - 1,
                         info->num_outputs * devices);
  if (work->num_non_donatable && work->non_donatable[work->num_non_donatable - 1] >= (int64_t)info->num_args)
    return PJRTD_INVALID("program '%s': argument %lld is not to be donated, it has %zu", info->name,
                         (long long)work->non_donatable[work->num_non_donatable - 1], info->num_args);
  uint64_t bytes = 0;
  for (size_t i = 0; i < work->num_fetch; i++) {
    if (work->fetch[i] >= info->num_outputs * devices)
      return PJRTD_INVALID("program '%s': output %u is to be fetched, it has %zu", info->name, work->fetch[i],
                           info->num_outputs * devices);
    bytes += info->outputs[work->fetch[i] % info->num_outputs].host_bytes;
    if (bytes > PJRTD_FRAME_MAX_INLINE_BYTES)
      return pjrtd_status_with_hint(
          PJRTD_INVALID("program '%s': the outputs to be fetched have over %u bytes, which one reply cannot carry",
                        info->name, PJRTD_FRAME_MAX_INLINE_BYTES),
          "give big outputs an id and download them");
  }
  return PJRTD_OK;
}

#define ARGUMENT_TEXT (PJRTD_MAX_SLOT_NAME + 64)

/* "argument 1 (slot 'theta')", "argument 0 of device 3" */
static const char *argument_text(const pjrtd_execute_work *work, size_t position, char out[ARGUMENT_TEXT]) {
  const pjrtd_program_info *info = work->program->info;
  int length = snprintf(out, ARGUMENT_TEXT, "argument %zu", position % info->num_args);
  if (info->num_devices > 1)
    length += snprintf(out + length, ARGUMENT_TEXT - (size_t)length, " of device %d",
                       info->devices[position / info->num_args]->id);
  for (size_t i = 0; i < work->num_slot_args; i++)
    if (work->slot_args[i].position == position)
      snprintf(out + length, ARGUMENT_TEXT - (size_t)length, " (slot '%s')", work->slot_args[i].slot);
  return out;
}

static pjrtd_status *mismatch(const pjrtd_execute_work *work, size_t position, const char *expected,
                              const char *actual) {
  const pjrtd_program_info *info = work->program->info;
  char text[ARGUMENT_TEXT];
  return pjrtd_status_with_argument(PJRTD_INVALID("program '%s': %s must be %s, not %s", info->name,
                                                  argument_text(work, position, text), expected, actual),
                                    (uint32_t)(position % info->num_args), expected, actual);
}

static pjrtd_status *type_mismatch(const pjrtd_execute_work *work, size_t position, const pjrtd_tensor_type *actual) {
  const pjrtd_program_info *info = work->program->info;
  char wanted[PJRTD_TENSOR_TYPE_TEXT], got[PJRTD_TENSOR_TYPE_TEXT], stacked[PJRTD_TENSOR_TYPE_TEXT + 32];
  pjrtd_tensor_type_format(&info->args[position % info->num_args].type, wanted);
  pjrtd_tensor_type_format(actual, got);
  if (!pjrtd_execute_is_stacked(work, position)) return mismatch(work, position, wanted, got);
  snprintf(stacked, sizeof stacked, "one %s for each step, stacked", wanted);
  return mismatch(work, position, stacked, got);
}

static bool fits(const pjrtd_execute_work *work, size_t position, const pjrtd_tensor_type *actual) {
  const pjrtd_tensor_type *wanted = &work->program->info->args[position % work->program->info->num_args].type;
  if (__builtin_expect(!work->num_stacked, 1) || !pjrtd_execute_is_stacked(work, position))
    return pjrtd_tensor_type_equal(actual, wanted);
  if (actual->dtype != wanted->dtype || actual->rank != wanted->rank + 1) return false;
  return !wanted->rank || memcmp(actual->dims + 1, wanted->dims, wanted->rank * sizeof *wanted->dims) == 0;
}

/* What is poisoned fails with the first error as it is. */
static pjrtd_status *unusable(const pjrtd_execute_work *work, size_t position, pjrtd_status *status) {
  char text[ARGUMENT_TEXT];
  if (work->args[position]->resource.state != PJRTD_RESOURCE_CONSUMED || !work->num_slot_args) return status;
  return pjrtd_status_context(status, "%s", argument_text(work, position, text));
}

static pjrtd_status *named_twice(const pjrtd_execute_work *work, size_t donated) {
  const pjrtd_program_info *info = work->program->info;
  size_t other = 0;
  while (other == donated || work->args[other] != work->args[donated]) other++;
  char first[ARGUMENT_TEXT], second[ARGUMENT_TEXT];
  return pjrtd_status_with_hint(
      PJRTD_INVALID("program '%s': %s is donated, but the same buffer is %s as well", info->name,
                    argument_text(work, donated, first), argument_text(work, other, second)),
      "a donated buffer can be used once in a call: upload or compute another, or list it as non-donatable");
}

static pjrtd_status *is_published(const pjrtd_execute_work *work, size_t position) {
  char text[ARGUMENT_TEXT];
  return pjrtd_status_with_hint(
      PJRTD_INVALID("program '%s': %s is donated, but the buffer is published, which makes it read-only",
                    work->program->info->name, argument_text(work, position, text)),
      "list the argument as non-donatable, or compile the program without the donation");
}

static pjrtd_status *check_donation(const pjrtd_execute_work *work) {
  uint64_t mark = pjrtd_buffer_new_mark();
  for (size_t i = 0; i < work->num_args; i++)
    if (work->args[i] && !pjrtd_execute_is_donated(work, i)) work->args[i]->seen = mark;
  for (size_t i = 0; i < work->num_args; i++) {
    if (!work->args[i] || !pjrtd_execute_is_donated(work, i)) continue;
    if (work->args[i]->published) return is_published(work, i);
    if (work->args[i]->seen == mark) return named_twice(work, i);
    work->args[i]->seen = mark;
  }
  return PJRTD_OK;
}

/* Outputs take memory; arguments that they take the place of give theirs, and their room on the account that they are
 * on: that of a slot which got the output already is on none. */
static pjrtd_status *reserve(pjrtd_execute_work *work, const pjrtd_program_info *info) {
  uint64_t bytes = work->program->output_bytes, memory_bytes = bytes;
  for (size_t i = 0; info->any_donated && i < work->num_args; i++) {
    const pjrtd_buffer *buffer = work->args[i];
    if (!buffer || !pjrtd_execute_is_donated(work, i)) continue;
    memory_bytes -= buffer->bytes < memory_bytes ? buffer->bytes : memory_bytes;
    if (buffer->account == work->account) bytes -= buffer->bytes < bytes ? buffer->bytes : bytes;
  }
  /* What a run has beside the last step's outputs is as much as it has beside its arguments. */
  uint64_t beside = (work->sets_of_outputs - 1) * memory_bytes;
  if (__builtin_add_overflow(bytes, beside, &bytes)) bytes = UINT64_MAX;
  if (__builtin_add_overflow(memory_bytes, beside, &memory_bytes)) memory_bytes = UINT64_MAX;
  return pjrtd_reservation_make(work->account, bytes, memory_bytes, "the program's output", &work->reservation);
}

pjrtd_status *pjrtd_execute_check(pjrtd_execute_work *work) {
  const pjrtd_resource *program = &work->program->resource;
  if (__builtin_expect(program->state == PJRTD_RESOURCE_FAILED, 0)) return pjrtd_status_retain(program->error);
  const pjrtd_program_info *info = work->program->info;
  PJRTD_TRY(check_counts(work, info));
  size_t next_inline = 0;
  for (size_t i = 0; i < work->num_args; i++) {
    const pjrtd_program_tensor *wanted = &info->args[i % info->num_args];
    if (wanted->unsupported)
      return PJRTD_INVALID("program '%s': argument %zu cannot be passed: %s", info->name, i % info->num_args,
                           wanted->unsupported);
    pjrtd_buffer *buffer = work->args[i];
    if (!buffer) { /* inline arguments are in the order of their positions */
      const pjrtd_tensor_type *type = &work->inline_args[next_inline++].type;
      if (!fits(work, i, type)) return type_mismatch(work, i, type);
      continue;
    }
    pjrtd_status *status = pjrtd_buffer_check_usable(buffer);
    if (status) return unusable(work, i, status);
    const pjrtd_tensor_type *type = pjrtd_device_buffer_type(buffer->device_buffer);
    if (!fits(work, i, type)) return type_mismatch(work, i, type);
    const pjrtd_device *device = pjrtd_device_buffer_device(buffer->device_buffer);
    const pjrtd_device *home = info->devices[i / info->num_args];
    if (device != home) {
      char expected[32], actual[32];
      snprintf(expected, sizeof expected, "on device %d", home->id);
      snprintf(actual, sizeof actual, "on device %d", device->id);
      return mismatch(work, i, expected, actual);
    }
  }
  for (size_t i = 0; i < info->num_outputs; i++)
    if (__builtin_expect(info->outputs[i].unsupported != NULL, 0))
      return pjrtd_status_make(PJRTD_CODE_UNIMPLEMENTED, "program '%s': result %zu cannot be taken: %s", info->name, i,
                               info->outputs[i].unsupported);
  if (info->any_donated) PJRTD_TRY(check_donation(work));
  return reserve(work, info);
}
