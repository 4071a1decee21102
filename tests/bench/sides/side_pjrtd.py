"""The pjrtd Python client: `side_pjrtd.py TARGET [--sleep]`. The same calls as side_pypjrt.py makes.

Without --sleep a waiting call polls as the client does by default; with it, it sleeps at once."""

from __future__ import annotations

import sys

import pjrtd
from slice_runner import ADD_PROGRAM, Mode, serve
from small_calls import F32, FLOATS, Transfer, check_doubled


BATCH = 64
STEPS = 1000


def main() -> None:
    busy_poll_us = 0 if "--sleep" in sys.argv[2:] else None
    client = pjrtd.Client.create(sys.argv[1], busy_poll_us=busy_poll_us).__enter__()
    device = client.devices()[0]
    exe = client.compile(ADD_PROGRAM)
    a = client.buffer_from_host(FLOATS, F32, [8], device)

    def execute_fetch() -> object:
        (out,) = exe(a)
        return out.to_host()

    def upload(data: bytearray, size_bytes: int) -> pjrtd.Buffer:
        return client.buffer_from_host(data, F32, [size_bytes // 4], device)

    def execute_batch() -> None:
        for _ in range(BATCH):
            exe(a)
        client.sync()

    session = client.session()
    step = session.program(ADD_PROGRAM, ["x"], outputs=["x"])
    session.bind("x", FLOATS)

    def advance_batch() -> None:
        for _ in range(STEPS):
            step.advance()
        client.sync()

    def feed_back_batch() -> None:
        for _ in range(STEPS):
            session.feed_back(step())
        client.sync()

    check_doubled(execute_fetch())
    modes = {
        "execute": Mode(lambda: exe(a)),
        "execute-fetch": Mode(execute_fetch),
        "execute-batch": Mode(execute_batch, inner=BATCH),
        "advance-batch": Mode(advance_batch, inner=STEPS),
        "feed-back": Mode(feed_back_batch, inner=STEPS),
    }
    for mb in (1, 16, 256):
        transfer = Transfer(mb << 20, upload)
        modes[f"upload-{mb}"] = Mode(transfer.upload, transfer.begin, transfer.end)
        modes[f"download-{mb}"] = Mode(transfer.download, transfer.begin_download, transfer.end)
    serve(modes, {"version": pjrtd.__version__})


if __name__ == "__main__":
    main()
