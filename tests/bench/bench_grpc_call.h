/* Calls on gRPC C core as a client that cares for latency makes them: one thread, which plucks. Errors end the process.
 */
#pragma once

#include <grpc/byte_buffer.h>
#include <grpc/grpc.h>

typedef struct {
  grpc_channel *channel;
  grpc_completion_queue *queue;
  const char *session; /* NULL, or what the metadata `pjrtd-session` says; borrowed */
} bench_grpc_client;

/* To "127.0.0.1:PORT". */
void bench_grpc_connect(bench_grpc_client *client, const char *address);
/* One unary call of a method that was registered with grpc_channel_register_call; the answer is owned. */
grpc_slice bench_grpc_unary(const bench_grpc_client *client, void *method, grpc_slice request);
/* A stream, and one message there and back on it. */
grpc_call *bench_grpc_open_stream(const bench_grpc_client *client, void *method);
void bench_grpc_exchange(const bench_grpc_client *client, grpc_call *stream, grpc_slice request);
