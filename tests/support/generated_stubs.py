"""Stubs as a user makes them: grpcio-tools generates them from the .proto files when a test wants them.

They land in a package `pjrtd`, as this project's Python client is one, so their folder is appended to `pjrtd.__path__`
(proto/README.md says so to users). Nothing of them is committed.
"""

from __future__ import annotations

import collections
import functools
import importlib
import pathlib
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable
from typing import Any

import grpc
import pytest

import pjrtd
from wire_messages import PROTO_FOLDER

SESSION_KEY = "pjrtd-session"
ERROR_KEY = "pjrtd-error-bin"


def generate(folder: str, pattern: str, root: pathlib.Path = PROTO_FOLDER) -> None:
    """Modules *_pb2 and *_pb2_grpc of the .proto files under `root` that match."""
    sources = sorted(str(path) for path in root.glob(pattern))
    assert sources, pattern
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", "-I", str(root), "--python_out", folder,
                    "--grpc_python_out", folder, *sources], check=True)


@functools.cache
def stubs() -> types.SimpleNamespace:
    """All that the generated modules of pjrtd.v1 define: messages, enum values, and `<Family>Stub`; `services` are
    their descriptions."""
    folder = tempfile.TemporaryDirectory(prefix="pjrtd-stubs-")
    generate(folder.name, "pjrtd/v1/*.proto")
    pjrtd.__path__.append(f"{folder.name}/pjrtd")
    found = types.SimpleNamespace(folder=folder, services={})
    for path in sorted((PROTO_FOLDER / "pjrtd" / "v1").glob("*.proto")):
        messages = importlib.import_module(f"pjrtd.v1.{path.stem}_pb2")
        calls = importlib.import_module(f"pjrtd.v1.{path.stem}_pb2_grpc")
        for name, value in [*vars(messages).items(), *vars(calls).items()]:
            if not name.startswith("_"):
                setattr(found, name, value)
        found.services |= messages.DESCRIPTOR.services_by_name
    return found


def f32(*dims: int) -> Any:
    return stubs().TensorType(dtype=stubs().DTYPE_F32, dims=dims)


def u8(*dims: int) -> Any:
    return stubs().TensorType(dtype=stubs().DTYPE_U8, dims=dims)


class _Details(collections.namedtuple("_Details", "method timeout metadata credentials wait_for_ready compression"),
               grpc.ClientCallDetails):
    pass


class Recorder(grpc.UnaryUnaryClientInterceptor, grpc.UnaryStreamClientInterceptor, grpc.StreamUnaryClientInterceptor,
               grpc.StreamStreamClientInterceptor):
    """Notes with which codes each method ended, and sends `metadata` with every call."""

    def __init__(self) -> None:
        self.codes: dict[str, set[grpc.StatusCode]] = collections.defaultdict(set)
        self.metadata: tuple[tuple[str, str], ...] = ()

    def _note(self, continuation: Callable[..., Any], details: Any, request: Any) -> Any:
        metadata = [*(details.metadata or ()), *self.metadata]
        call = continuation(_Details(details.method, details.timeout, metadata, details.credentials,
                                     details.wait_for_ready, details.compression), request)
        family, _, name = details.method.removeprefix("/pjrtd.v1.").partition("/")
        call.add_done_callback(lambda ended: self.codes[f"{family}.{name}"].add(ended.code()))
        return call

    intercept_unary_unary = intercept_unary_stream = intercept_stream_unary = intercept_stream_stream = _note


class StubUser:
    """A user of the generated stubs: one for each family (`user.Buffer.Stat(...)`), and a session once it opened one."""

    def __init__(self, target: str) -> None:
        self.recorder = Recorder()
        self._channel = grpc.insecure_channel(target.removeprefix("grpc://"), options=[("grpc.use_local_subchannel_pool", 1)])
        channel = grpc.intercept_channel(self._channel, self.recorder)
        for family in stubs().services:
            setattr(self, family, getattr(stubs(), f"{family}Stub")(channel))

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)  # for type checkers: families are attributes

    def __enter__(self) -> StubUser:
        return self

    def __exit__(self, *_: object) -> None:
        self._channel.close()

    def open_session(self) -> None:
        token = self.Session.Open(stubs().SessionOpenRequest()).token
        self.recorder.metadata = ((SESSION_KEY, token),)

    def leave_session(self) -> None:
        self.recorder.metadata = ()


def refused(code: grpc.StatusCode, call: Callable[..., Any], *request: Any) -> Any:
    """The call has to fail with that code; its typed error, which says the same as the status."""
    with pytest.raises(grpc.RpcError) as caught:
        answer = call(*request)
        if not hasattr(answer, "DESCRIPTOR"):
            list(answer)
    failed: Any = caught.value
    assert failed.code() == code, (failed.code(), failed.details())
    packed = [value for key, value in failed.trailing_metadata() if key == ERROR_KEY]
    assert len(packed) == 1, failed.trailing_metadata()
    error = stubs().Error.FromString(packed[0])
    assert error.code == code.value[0]
    assert failed.details() == error.message + (f"\nhint: {error.hint}" if error.hint else "")
    return error
