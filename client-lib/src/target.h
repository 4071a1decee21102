/* What a target names, and the socket behind it. Any thread. */
#pragma once

#include "failure.h"

#define PJRTC_MAX_SOCKET_PATH 107

/* "unix:PATH" from the caller's target, which may be NULL: then the environment's, else the default. The answer is
 * owned, to be freed. NULL is success. */
pjrtc_failure *pjrtc_target_resolve(const char *target, char **out_target);
/* Opens a stream socket to a resolved target, within `timeout_ns`. */
pjrtc_failure *pjrtc_target_open(const char *target, uint64_t timeout_ns, int *out_fd);
