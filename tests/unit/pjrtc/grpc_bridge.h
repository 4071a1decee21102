/* A gRPC server in the process of a test that hands one `Channel` on to a Unix socket, so that a fake_peer behind it
 * can be spoken to over gRPC. */
#pragma once

typedef struct grpc_bridge grpc_bridge;

/* For one client of the socket at `path`, which is borrowed. `*out_port` is where it listens on 127.0.0.1. */
grpc_bridge *grpc_bridge_start(const char *path, int *out_port);
/* Ends it, also where no client came. */
void grpc_bridge_stop(grpc_bridge *bridge);
