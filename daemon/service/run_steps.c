/* See run_steps.h. */
#include "service/run_steps.h"

#include <string.h>

#include "base/clock.h"

bool pjrtd_run_has_ended(const pjrtd_run_steps *run) {
  return run->stopped || run->steps >= run->limit || atomic_load_explicit(&run->stop, memory_order_relaxed);
}

static void destroy_all(pjrtd_device_buffer **buffers, size_t count) {
  for (size_t i = 0; i < count; i++) {
    pjrtd_device_buffer_destroy(buffers[i]);
    buffers[i] = NULL;
  }
}

static void drop_slices(pjrtd_run_steps *run, size_t count) {
  for (size_t i = 0; i < count; i++) pjrtd_device_buffer_destroy(PJRTD_TAKE(run->args[run->stacked[i].position]));
}

static pjrtd_status *take_slices(pjrtd_run_steps *run) {
  const pjrtd_program_info *info = pjrtd_executable_get_info(run->executable);
  for (size_t i = 0; i < run->num_stacked; i++) {
    const pjrtd_run_stacked *stacked = &run->stacked[i];
    pjrtd_status *status = pjrtd_device_buffer_from_host(
        run->client, stacked->data + run->steps * stacked->bytes, &stacked->type,
        info->devices[stacked->position / info->num_args], NULL, &run->args[stacked->position]);
    if (!status) continue;
    run->args[stacked->position] = NULL;
    drop_slices(run, i);
    return status;
  }
  return PJRTD_OK;
}

/* Where one step gives to the next. */
static void feed(pjrtd_run_steps *run) {
  destroy_all(run->last, run->num_outputs);
  pjrtd_device_buffer **made = run->next;
  run->next = run->last;
  run->last = made;
  for (size_t i = 0; i < run->num_args; i++)
    if (run->fed_by[i]) run->args[i] = made[run->fed_by[i] - 1];
}

static pjrtd_status *read_value(pjrtd_run_steps *run, uint32_t output, uint8_t *place, uint64_t bytes) {
  const void *view = bytes ? pjrtd_device_buffer_view(run->last[output]) : NULL;
  if (!view) return pjrtd_device_buffer_read(run->last[output], place, bytes);
  memcpy(place, view, bytes);
  return PJRTD_OK;
}

static pjrtd_status *look_whether_to_stop(pjrtd_run_steps *run) {
  uint8_t stop = 0;
  PJRTD_TRY(read_value(run, run->until, &stop, 1));
  run->stopped = stop != 0;
  return PJRTD_OK;
}

static pjrtd_status *add_item(pjrtd_run_steps *run) {
  const pjrtd_program_info *info = pjrtd_executable_get_info(run->executable);
  uint8_t *place = run->values + run->num_items * run->fetch_bytes;
  for (size_t i = 0; i < run->num_fetch; i++) {
    uint64_t bytes = info->outputs[run->fetch[i] % info->num_outputs].host_bytes;
    PJRTD_TRY(read_value(run, run->fetch[i], place, bytes));
    place += bytes;
  }
  run->items[run->num_items++] = run->steps;
  return PJRTD_OK;
}

static pjrtd_status *make_step(pjrtd_run_steps *run) {
  if (run->num_stacked) PJRTD_TRY(take_slices(run));
  const pjrtd_execute_call call = {.args = run->args,
                                   .num_args = run->num_args,
                                   .non_donatable = run->non_donatable,
                                   .num_non_donatable = run->num_non_donatable};
  bool pending; /* never: without `done` it is waited for */
  pjrtd_status *status = pjrtd_executable_execute(run->executable, &call, run->next, &pending);
  if (run->num_stacked) drop_slices(run, run->num_stacked);
  if (status) return status;
  run->steps++;
  feed(run);
  if (run->has_until) PJRTD_TRY(look_whether_to_stop(run));
  bool last = run->stopped || run->steps == run->limit;
  if ((run->every && run->steps % run->every == 0) || (last && run->num_fetch)) return add_item(run);
  return PJRTD_OK;
}

pjrtd_status *pjrtd_run_slice(pjrtd_run_steps *run, uint64_t slice_ns) {
  uint64_t began_ns = pjrtd_clock_now_ns(), now_ns = began_ns;
  pjrtd_status *status = PJRTD_OK;
  /* The first step is made all the same: who is to stop it by then may have looked a slot up, which is to have a value.
   */
  bool goes_on = !run->steps || !pjrtd_run_has_ended(run);
  while (goes_on) {
    status = make_step(run);
    now_ns = pjrtd_clock_now_ns();
    goes_on = !status && !pjrtd_run_has_ended(run) && now_ns - began_ns < slice_ns && run->num_items < run->max_items;
  }
  run->execute_ns += now_ns - began_ns;
  return status;
}

void pjrtd_run_deinit(pjrtd_run_steps *run) {
  if (run->last) destroy_all(run->last, run->num_outputs);
  pjrtd_free(PJRTD_TAKE(run->values));
}
