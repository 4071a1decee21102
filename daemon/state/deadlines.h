/* Deadlines of many calls on one libuv timer: a binary heap of embedded nodes. Loop thread. */
#pragma once

#include <uv.h>

#include "base/status.h"

typedef struct pjrtd_deadline pjrtd_deadline;
struct pjrtd_deadline {
  uint64_t at_ns;                       /* on pjrtd_clock_now_ns */
  void (*passed)(pjrtd_deadline *self); /* out of the heap by then */
  size_t place;                         /* 1-based; 0: not in the heap */
};

typedef struct {
  uv_timer_t timer;
  pjrtd_deadline **heap; /* owned; places 1 to count */
  size_t count, capacity;
} pjrtd_deadlines;

PJRTD_MUST_USE pjrtd_status *pjrtd_deadlines_init(pjrtd_deadlines *deadlines, uv_loop_t *loop);
/* Closes the timer; `deadlines` must stay until the loop has run the close callback. */
void pjrtd_deadlines_close(pjrtd_deadlines *deadlines);
PJRTD_MUST_USE pjrtd_status *pjrtd_deadlines_add(pjrtd_deadlines *deadlines, pjrtd_deadline *deadline);
/* Fine where it is not in the heap. */
void pjrtd_deadlines_remove(pjrtd_deadlines *deadlines, pjrtd_deadline *deadline);
