/* A thread that waits at gRPC's queue for callers with an event loop of their own (grpc_link.h). */
#include <errno.h>
#include <grpc/support/time.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "grpc_link.h"

void pjrtc_grpc_link_tell(pjrtc_grpc_link *own) {
  uint64_t one = 1;
  ssize_t result;
  do result = write(own->event_fd, &one, sizeof one);
  while (result < 0 && errno == EINTR);
}

void pjrtc_grpc_link_forget_events(pjrtc_grpc_link *own) {
  uint64_t count;
  ssize_t result;
  do result = read(own->event_fd, &count, sizeof count);
  while (result < 0 && errno == EINTR);
}

void pjrtc_grpc_link_sleep(pjrtc_grpc_link *own, int timeout_ms) {
  struct pollfd event = {.fd = own->event_fd, .events = POLLIN};
  poll(&event, 1, timeout_ms);
}

static void *watch(void *user) {
  pjrtc_grpc_link *own = user;
  for (bool done = false; !done;) {
    pjrtc_grpc_link_collect(own, gpr_inf_future(GPR_CLOCK_MONOTONIC));
    pjrtc_grpc_link_tell(own);
    pthread_mutex_lock(&own->lock);
    /* Once it is over nothing completes any more but what `close` starts. */
    done = pjrtc_grpc_link_idle(own);
    pthread_mutex_unlock(&own->lock);
  }
  return NULL;
}

int pjrtc_grpc_link_watch(pjrtc_link *link) {
  pjrtc_grpc_link *own = (pjrtc_grpc_link *)link;
  pthread_mutex_lock(&own->lock);
  if (own->event_fd < 0) {
    own->event_fd = eventfd(1, EFD_NONBLOCK | EFD_CLOEXEC);
    bool waiting = !pjrtc_grpc_link_idle(own);
    if (own->event_fd >= 0 && waiting && pthread_create(&own->watcher, NULL, watch, own) != 0) {
      close(own->event_fd);
      own->event_fd = -1;
    } else if (own->event_fd >= 0) {
      own->watching = waiting;
    }
  }
  int fd = own->event_fd;
  pthread_mutex_unlock(&own->lock);
  return fd;
}
