/* From a target to a gRPC channel: names, TCP, TLS. Any thread. */
#pragma once

#include <grpc/grpc.h>

#include "link.h"

typedef struct {
  grpc_channel *channel; /* owned */
  int socket;            /* the channel's; -1 where gRPC made its own */
  char authority[300];   /* "host:7578" */
} pjrtc_dialled;

/* Connects in plaintext (grpc://); for grpcs:// gRPC connects with the first call. */
pjrtc_code pjrtc_dial(const pjrtc_grpc_options *options, pjrtc_dialled *out_dialled, pjrtc_grpc_error *out_error);
