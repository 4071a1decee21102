/* A listening socket on the loop: clients are accepted as they come, and when there is no descriptor for another one
 * the socket is left alone for a moment. Loop thread. */
#pragma once

#include <uv.h>

#include "state/runtime.h"

typedef struct pjrtd_acceptor pjrtd_acceptor;
struct pjrtd_acceptor {
  int descriptor; /* owned; -1: none yet */
  pjrtd_runtime *runtime;
  /* Takes a descriptor that does not block. */
  void (*accepted)(pjrtd_acceptor *acceptor, int descriptor);
  /* All is closed; the memory may go. */
  void (*closed)(pjrtd_acceptor *acceptor);
  uv_poll_t poll;
  uv_timer_t retry;
  int open_handles;
};

/* On a socket that listens. The callbacks are set already. */
PJRTD_MUST_USE pjrtd_status *pjrtd_acceptor_start(pjrtd_acceptor *acceptor, pjrtd_runtime *runtime);
/* Only what was started. */
void pjrtd_acceptor_close(pjrtd_acceptor *acceptor);
