/* The floor of a round trip over gRPC: a server on gRPC C core that answers each message and does nothing else. */
#pragma once

#include <stddef.h>

/* Serves 127.0.0.1 until it is killed, in the calling thread. Answers have `reply_bytes`; a method whose path ends with
 * "Stream" is answered message by message, any other once. Writes the port to `port_fd` as a line. */
__attribute__((noreturn)) void bench_grpc_echo_serve(size_t reply_bytes, int port_fd);
