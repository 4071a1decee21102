/* The link over the daemon's local socket. Any thread. */
#pragma once

#include "failure.h"
#include "link.h"

/* Takes the descriptor of a connected stream socket, on failure too. `target` names it in errors; borrowed as long as
 * the link lives. NULL is success. */
pjrtc_failure *pjrtc_socket_link_create(int fd, const char *target, pjrtc_link **out_link);
/* How long a `receive` that sleeps may take. */
#define PJRTC_RECEIVE_MS 10
