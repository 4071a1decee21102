"""An HTTP/2 client (RFC 9113) as far as gRPC needs one, and gRPC's own framing on it. No I/O, standard library only.

`client_connection.py` is a connection, on top of `send_side.py` (what it sends) and `peer_frames.py` (what it does about
received frames), made of `frames.py` (the bytes of frames), `hpack.py` (headers), `flood_guard.py` (what a peer may not do
too often) and `stream.py` (one request). `grpc_status.py` is what gRPC says at a stream's end. All errors are of the family
in `http2_errors.py`.
"""
