/* libpjrtc-grpc.so, which is loaded when the first gRPC target is connected to, so that nobody else needs gRPC. Any
 * thread. */
#pragma once

#include "failure.h"
#include "link.h"

/* See pjrtc_target_open. */
pjrtc_failure *pjrtc_grpc_library_open(const char *target, const char *ca_file, uint64_t timeout_ns,
                                       pjrtc_link **out_link);
