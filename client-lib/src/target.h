/* What a target names, and the link to it. Any thread. */
#pragma once

#include "failure.h"
#include "link.h"

#define PJRTC_MAX_SOCKET_PATH 107

/* "unix:PATH", "grpc://HOST:PORT" or "grpcs://HOST:PORT" from the caller's target, which may be NULL: then the
 * environment's, else the default. The answer is owned, to be freed. NULL is success. */
pjrtc_failure *pjrtc_target_resolve(const char *target, char **out_target);
/* Connects to a resolved target, which is borrowed as long as the link lives, within `timeout_ns`. `ca_file` is for
 * grpcs://; NULL: the environment's PJRTD_CA_FILE, else what the system trusts. */
pjrtc_failure *pjrtc_target_open(const char *target, const char *ca_file, uint64_t timeout_ns, pjrtc_link **out_link);
