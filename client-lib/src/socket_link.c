/* See socket_link.h. */
#include "socket_link.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "heap.h"

typedef struct {
  pjrtc_link link; /* first */
  int fd;
  int wake_fd;        /* eventfd: interrupts poll(2) */
  int error;          /* errno that ended it; 0: the server closed it */
  const char *target; /* borrowed */
  char message[512];
} socket_link;

static ssize_t link_send(pjrtc_link *link, const struct iovec *parts, size_t num_parts) {
  int fd = ((socket_link *)link)->fd;
  const struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = num_parts};
  ssize_t result;
  do {
    result = num_parts == 1 ? send(fd, parts->iov_base, parts->iov_len, MSG_DONTWAIT | MSG_NOSIGNAL)
                            : sendmsg(fd, &message, MSG_DONTWAIT | MSG_NOSIGNAL);
  } while (result < 0 && errno == EINTR);
  return result;
}

static ssize_t link_receive(pjrtc_link *link, const struct iovec *parts, size_t num_parts, uint32_t sleep_ms) {
  socket_link *own = (socket_link *)link;
  int flags = sleep_ms ? 0 : MSG_DONTWAIT;
  ssize_t result;
  for (;;) {
    struct msghdr message = {.msg_iov = (struct iovec *)parts, .msg_iovlen = num_parts};
    result = num_parts == 1 ? recv(own->fd, parts->iov_base, parts->iov_len, flags)
                            : recvmsg(own->fd, &message, flags | MSG_CMSG_CLOEXEC);
    if (result >= 0) return result;
    if (errno == EINTR && !sleep_ms) continue;
    if (errno == EAGAIN || errno == EINTR) {
      errno = EAGAIN;
      return -1;
    }
    own->error = errno;
    return 0;
  }
}

static bool link_wait(pjrtc_link *link, bool out, int timeout_ms) {
  socket_link *own = (socket_link *)link;
  struct pollfd fds[2] = {{.fd = own->fd, .events = (short)(POLLIN | (out ? POLLOUT : 0))},
                          {.fd = own->wake_fd, .events = POLLIN}};
  int ready = poll(fds, 2, timeout_ms);
  if (ready <= 0) return false;
  uint64_t count;
  while (fds[1].revents && read(own->wake_fd, &count, sizeof count) < 0 && errno == EINTR) {
  }
  return fds[0].revents & ~POLLOUT;
}

static void link_wake(pjrtc_link *link) {
  uint64_t one = 1;
  ssize_t result;
  do result = write(((socket_link *)link)->wake_fd, &one, sizeof one);
  while (result < 0 && errno == EINTR);
}

static int link_get_fd(pjrtc_link *link) {
  return ((socket_link *)link)->fd;
}

static short link_get_events(const pjrtc_link *link, bool wants_write) {
  return (short)(POLLIN | (wants_write ? POLLOUT : 0));
}

static void link_explain(pjrtc_link *link, pjrtc_link_end *out_end) {
  socket_link *own = (socket_link *)link;
  snprintf(own->message, sizeof own->message, "the connection to %s is lost: %s", own->target,
           own->error ? strerror(own->error) : "the server closed it");
  *out_end = (pjrtc_link_end){PJRTC_UNAVAILABLE, own->message, "connect again; what the session held is gone"};
}

static void close_descriptors(pjrtc_link *link) {
  close(((socket_link *)link)->fd);
  close(((socket_link *)link)->wake_fd);
}

static void link_close(pjrtc_link *link) {
  close_descriptors(link);
  free(link);
}

static const pjrtc_link_ops ops = {.send = link_send,
                                   .receive = link_receive,
                                   .wait = link_wait,
                                   .wake = link_wake,
                                   .get_fd = link_get_fd,
                                   .get_events = link_get_events,
                                   .explain = link_explain,
                                   .close = link_close,
                                   .close_in_child = close_descriptors};

pjrtc_failure *pjrtc_socket_link_create(int fd, const char *target, pjrtc_link **out_link) {
  *out_link = NULL;
  socket_link *own = pjrtc_heap_zalloc(sizeof *own);
  int wake_fd = own ? eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC) : -1;
  if (wake_fd < 0) {
    close(fd);
    if (!own) return pjrtc_failure_oom();
    free(own);
    return pjrtc_failure_make(PJRTC_RESOURCE_EXHAUSTED, "raise the limit on open descriptors",
                              "an event descriptor cannot be made");
  }
  const struct timeval sleep = {.tv_usec = PJRTC_RECEIVE_MS * 1000};
  setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &sleep, sizeof sleep);
  *own = (socket_link){.link = {&ops}, .fd = fd, .wake_fd = wake_fd, .target = target};
  *out_link = &own->link;
  return NULL;
}
