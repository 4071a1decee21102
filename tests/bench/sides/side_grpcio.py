"""grpcio calling pjrtd's unary methods: `side_grpcio.py grpc://HOST:PORT`.

As quick as grpcio goes: the request is packed once, and the answer's floats are cut out of its bytes, which no generated
stub does."""

from __future__ import annotations

import array
import sys
from pathlib import Path

import grpc
from slice_runner import ADD_PROGRAM, Mode, serve
from small_calls import F32, FLOATS, check_doubled

sys.path.append(str(Path(__file__).resolve().parents[2] / "support"))

import wire_messages as wire  # noqa: E402


def main() -> None:
    channel = grpc.insecure_channel(sys.argv[1].removeprefix("grpc://"))
    opened = channel.unary_unary("/pjrtd.v1.Session/Open")(b"")
    metadata = (("pjrtd-session", wire.message_class("SessionOpenReply").FromString(opened).token),)

    def prepare(path: str, name: str, **values: object) -> None:
        pieces = iter([wire.make(name, **values).SerializeToString()])
        channel.stream_unary(f"/pjrtd.v1.{path}")(pieces, metadata=metadata)

    code, floats = ADD_PROGRAM.encode(), FLOATS.tobytes()
    tensor_type = {"dtype": F32, "dims": [8]}
    prepare("Program/Compile", "CompileRequest", program=1, code_bytes=len(code), bulk=code)
    prepare("Buffer/Upload", "UploadRequest", buffer=1, type=tensor_type, data_bytes=len(floats), bulk=floats)
    execute = channel.unary_unary("/pjrtd.v1.Execute/Execute")
    request = wire.make("ExecuteRequest", program=1, args=[1], outputs=[0], fetch=[0]).SerializeToString()

    def unary() -> bytes:
        answer: bytes = execute(request, metadata=metadata)
        return answer[-len(floats) :]  # the bulk is its last field

    check_doubled(array.array("f", unary()))
    serve({"unary": Mode(unary)}, {"version": grpc.__version__})


if __name__ == "__main__":
    main()
