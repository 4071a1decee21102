"""MiniLM-L6 through pjrtd: `side_minilm_pjrtd.py TARGET [--sleep]`. One call: ids of the host in, vectors on the host out.

The weights are bound once. Without --sleep a waiting call polls as the client does by default; with it, it sleeps at once."""

from __future__ import annotations

import sys

import pjrtd
from minilm_inputs import EXAMPLE, SHAPES, check_vectors, inputs
from slice_runner import Mode, serve


def main() -> None:
    from minilm_weights import NAMES, model_folder
    from safetensors import SafetensorsFile

    client = pjrtd.Client.create(sys.argv[1], busy_poll_us=0 if "--sleep" in sys.argv[2:] else None).__enter__()
    file = SafetensorsFile(model_folder() / "model.safetensors")
    weights = [client.buffer_from_host(data, dtype, shape) for dtype, shape, data in map(file.__getitem__, NAMES)]

    def mode(rows: int, tokens: int) -> Mode:
        exe = client.compile((EXAMPLE / f"embed_{rows}x{tokens}.mlir").read_text())
        ids, lengths = inputs(rows, tokens)

        def embed() -> bytearray:
            (vectors,) = exe(ids, lengths, *weights)
            return vectors.to_host()

        check_vectors(embed(), rows)
        return Mode(embed)

    serve({f"{rows}x{tokens}": mode(rows, tokens) for rows, tokens in SHAPES}, {"version": pjrtd.__version__})


if __name__ == "__main__":
    main()
