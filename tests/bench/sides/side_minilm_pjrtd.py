"""MiniLM-L6 through pjrtd: `side_minilm_pjrtd.py TARGET [--sleep] [--shared]`. One call: ids of the host in, vectors on the host out.

The weights are uploaded once; with --shared the first side publishes them, and all others borrow them. Without --sleep a waiting call polls as the client does by default; with it, it sleeps at once."""

from __future__ import annotations

import sys

import pjrtd
from minilm_inputs import EXAMPLE, SHAPES, check_vectors, inputs
from pjrtd.errors import NotFound
from pjrtd.session import Session
from slice_runner import Mode, serve


def main() -> None:
    from minilm_weights import NAMES, model_folder
    from safetensors import SafetensorsFile

    client = pjrtd.Client.create(sys.argv[1], busy_poll_us=0 if "--sleep" in sys.argv[2:] else None).__enter__()
    shared = "--shared" in sys.argv[2:]
    session = Session(client)
    file = SafetensorsFile(model_folder() / "model.safetensors")

    def load(name: str) -> pjrtd.Buffer:
        dtype, shape, data = file[name]
        return client.buffer_from_host(data, dtype, shape)

    if shared:
        try:
            session.borrow("minilm")
        except NotFound:
            session.bind_many({name: lambda device, name=name: load(name) for name in NAMES})
            session.publish("minilm", NAMES)
    weights = [] if shared else [load(name) for name in NAMES]

    def mode(rows: int, tokens: int) -> Mode:
        text = (EXAMPLE / f"embed_{rows}x{tokens}.mlir").read_text()
        ids, lengths = inputs(rows, tokens)
        if shared:
            program = session.program(text, ["ids", "lengths", *NAMES], outputs=["vectors"])
        else:
            exe = client.compile(text)

        def embed() -> bytearray:
            if shared:
                return program(ids=ids, lengths=lengths)["vectors"].to_host()
            (vectors,) = exe(ids, lengths, *weights)
            return vectors.to_host()

        check_vectors(embed(), rows)
        return Mode(embed)

    modes = {f"{rows}x{tokens}": mode(rows, tokens) for rows, tokens in SHAPES}
    client.sync()
    serve(modes, {"version": pjrtd.__version__, "buffer_bytes": client.stats()["buffer_bytes"]})


if __name__ == "__main__":
    main()
