"""pypjrt in process: `side_pypjrt.py PLUGIN`. The same calls as side_pjrtd.py makes."""

from __future__ import annotations

import sys

import pypjrt
from pypjrt.session import Session, Slot
from slice_runner import ADD_PROGRAM, Mode, serve
from small_calls import F32, FLOATS, Transfer, check_doubled


def main() -> None:
    client = pypjrt.Client.create(sys.argv[1]).__enter__()
    devices = client.devices()  # its devices end with it
    device = devices.__enter__()[0]
    exe = client.compile(ADD_PROGRAM)
    a = client.buffer_from_host(FLOATS, F32, [8], device)

    def execute_fetch() -> bytearray:
        (out,) = exe(a)
        return out.to_host()

    def upload(data: bytearray, size_bytes: int) -> pypjrt.Buffer:
        return client.buffer_from_host(data, F32, [size_bytes // 4], device)

    session = Session(client).__enter__()
    step = session.program(ADD_PROGRAM, [Slot("x")], outputs=["x"])
    session.bind("x", lambda device: client.buffer_from_host(FLOATS, F32, [8], device))

    check_doubled(execute_fetch())
    modes = {
        "execute": Mode(lambda: exe(a)),
        "execute-fetch": Mode(execute_fetch),
        "feed-back": Mode(lambda: session.feed_back(step())),
    }
    for mb in (1, 16, 256):
        transfer = Transfer(mb << 20, upload)
        modes[f"upload-{mb}"] = Mode(transfer.upload, transfer.begin, transfer.end)
        modes[f"download-{mb}"] = Mode(transfer.download, transfer.begin_download, transfer.end)
    serve(modes, {"version": pypjrt.__version__})


if __name__ == "__main__":
    main()
