"""The protocol's messages. The modules here are written by tools/gen_proto.py; wire.py is written by hand."""
