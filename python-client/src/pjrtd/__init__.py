"""pjrtd: a client of the pjrtd daemon, which runs compiled StableHLO on the host's accelerator through PJRT.

    import pjrtd

    with pjrtd.Client.create() as client:
        exe = client.compile(stablehlo_text)
        (out,) = exe([1.0, 2.0, 3.0])
        print(out.tolist())

Standard library only. The modules that few programs need are imported when they are first used.
"""

from __future__ import annotations

from . import errors
from ._version import __version__
from .buffer import Buffer
from .client import Client
from .device import Device, Devices
from .dtype import DType
from .errors import SessionIdleWarning, SessionLost
from .executable import Executable
from .tensor_type import TensorType
from .timeouts import deadline

TYPE_CHECKING = False
if TYPE_CHECKING:
    from . import typing as typing
    from .compile_options import CompileOptions
    from .future import Future
    from .memory import Memory
    from .plugin import Extension, Plugin
    from .publication import Publication
    from .session import Session
    from .session_info import SessionInfo
    from .slot import Slot
    from .value import Value

_LAZY = {
    "CompileOptions": "compile_options",
    "Memory": "memory",
    "Extension": "plugin",
    "Future": "future",
    "Plugin": "plugin",
    "Publication": "publication",
    "Session": "session",
    "SessionInfo": "session_info",
    "Slot": "slot",
    "Value": "value",
}
_LAZY_MODULES = ("typing", "compile_options", "plugin", "memory", "session", "aio")


def __getattr__(name: str) -> object:
    from importlib import import_module

    if name in _LAZY:
        value = getattr(import_module(f"{__name__}.{_LAZY[name]}"), name)
    elif name in _LAZY_MODULES:
        value = import_module(f"{__name__}.{name}")
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_LAZY_MODULES})


__all__ = [
    "Buffer",
    "Client",
    "CompileOptions",
    "DType",
    "Device",
    "Devices",
    "Executable",
    "Extension",
    "Future",
    "Memory",
    "Plugin",
    "Publication",
    "Session",
    "SessionIdleWarning",
    "SessionInfo",
    "SessionLost",
    "Slot",
    "TensorType",
    "Value",
    "__version__",
    "deadline",
    "errors",
    "typing",
]
