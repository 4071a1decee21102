/* See deadlines.h. */
#include "state/deadlines.h"

#include "base/clock.h"

static void place(pjrtd_deadlines *deadlines, size_t at, pjrtd_deadline *deadline) {
  deadlines->heap[at] = deadline;
  deadline->place = at;
}

static void rise(pjrtd_deadlines *deadlines, size_t at, pjrtd_deadline *deadline) {
  for (; at > 1 && deadlines->heap[at / 2]->at_ns > deadline->at_ns; at /= 2)
    place(deadlines, at, deadlines->heap[at / 2]);
  place(deadlines, at, deadline);
}

static void sink(pjrtd_deadlines *deadlines, size_t at, pjrtd_deadline *deadline) {
  for (;;) {
    size_t child = at * 2;
    if (child > deadlines->count) break;
    if (child < deadlines->count && deadlines->heap[child + 1]->at_ns < deadlines->heap[child]->at_ns) child++;
    if (deadlines->heap[child]->at_ns >= deadline->at_ns) break;
    place(deadlines, at, deadlines->heap[child]);
    at = child;
  }
  place(deadlines, at, deadline);
}

static void on_timer(uv_timer_t *timer);

static void set_timer(pjrtd_deadlines *deadlines) {
  if (!deadlines->count) {
    uv_timer_stop(&deadlines->timer);
    return;
  }
  uint64_t now_ns = pjrtd_clock_now_ns(), at_ns = deadlines->heap[1]->at_ns;
  /* libuv counts whole milliseconds from the start of the turn: round up, and look again when early. */
  uint64_t wait_ms = at_ns > now_ns ? (at_ns - now_ns + 999999) / 1000000 : 0;
  uv_timer_start(&deadlines->timer, on_timer, wait_ms, 0);
}

static void on_timer(uv_timer_t *timer) {
  pjrtd_deadlines *deadlines = timer->data;
  uint64_t now_ns = pjrtd_clock_now_ns();
  while (deadlines->count && deadlines->heap[1]->at_ns <= now_ns) {
    pjrtd_deadline *first = deadlines->heap[1];
    pjrtd_deadlines_remove(deadlines, first);
    first->passed(first);
  }
  set_timer(deadlines);
}

pjrtd_status *pjrtd_deadlines_init(pjrtd_deadlines *deadlines, uv_loop_t *loop) {
  *deadlines = (pjrtd_deadlines){0};
  int error = uv_timer_init(loop, &deadlines->timer);
  if (error) return pjrtd_status_from_errno(-error, "making the deadline timer");
  deadlines->timer.data = deadlines;
  return PJRTD_OK;
}

void pjrtd_deadlines_close(pjrtd_deadlines *deadlines) {
  pjrtd_free(deadlines->heap);
  deadlines->heap = NULL;
  deadlines->count = 0;
  uv_close((uv_handle_t *)&deadlines->timer, NULL);
}

pjrtd_status *pjrtd_deadlines_add(pjrtd_deadlines *deadlines, pjrtd_deadline *deadline) {
  if (deadlines->count + 1 >= deadlines->capacity) {
    size_t capacity = deadlines->capacity ? deadlines->capacity * 2 : 16;
    pjrtd_deadline **heap = pjrtd_realloc(deadlines->heap, capacity * sizeof *heap);
    if (!heap) return pjrtd_status_oom();
    deadlines->heap = heap;
    deadlines->capacity = capacity;
  }
  rise(deadlines, ++deadlines->count, deadline);
  if (deadline->place == 1) set_timer(deadlines);
  return PJRTD_OK;
}

void pjrtd_deadlines_remove(pjrtd_deadlines *deadlines, pjrtd_deadline *deadline) {
  size_t at = deadline->place;
  if (!at) return;
  deadline->place = 0;
  pjrtd_deadline *last = deadlines->heap[deadlines->count--];
  if (last != deadline) {
    if (at > 1 && deadlines->heap[at / 2]->at_ns > last->at_ns)
      rise(deadlines, at, last);
    else
      sink(deadlines, at, last);
  }
  if (!deadlines->count) uv_timer_stop(&deadlines->timer);
}
