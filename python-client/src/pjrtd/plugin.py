"""The PJRT plugin that a daemon serves: what it is and what it can."""

from __future__ import annotations

from .attribute import attribute_values
from .errors import UnsupportedByPlugin

TYPE_CHECKING = False
if TYPE_CHECKING:
    import os
    from pathlib import Path

    from ._proto.runtime import InfoReply
    from .attribute import Value

_GPU_MARKERS = ("cuda_version", "rocm_version", "sycl_version", "hip_version")


class Extension:
    """A capability beyond the core of PJRT that the plugin advertises, by the name that PJRT's headers give it."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def known(self) -> bool:
        """Whether the daemon was built with headers that name it."""
        return not self.name.startswith("unknown-")

    def __repr__(self) -> str:
        return f"<pjrtd.Extension {self.name}>"

    def __eq__(self, other: object) -> bool:
        return self.name == other.name if isinstance(other, Extension) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.name)


class Plugin:
    """What the daemon at a target says about its plugin. `client.plugin` is one; Plugin(target) asks on its own."""

    __slots__ = ("target", "_info")

    def __init__(self, target: str | os.PathLike[str] | None = None, *, info: InfoReply | None = None) -> None:
        """info: the daemon's answer, where it is known already."""
        from .target import resolve

        self.target = resolve(target)
        self._info = _ask(self.target) if info is None else info

    @property
    def path(self) -> Path:
        """The plugin's file, on the daemon's side."""
        from pathlib import Path

        return Path(self._info.plugin_path)

    @property
    def api_version(self) -> tuple[int, int]:
        """PJRT's major and minor version, as the plugin reports it."""
        return self._info.pjrt_major, self._info.pjrt_minor

    @property
    def headers_version(self) -> tuple[int, int]:
        """The PJRT version that the daemon was built with."""
        return self._info.headers_major, self._info.headers_minor

    @property
    def extensions(self) -> tuple[Extension, ...]:
        return tuple(Extension(name) for name in self._info.extensions)

    def extension(self, name: str) -> Extension | None:
        """The extension of that name, in any case; None where the plugin has none."""
        wanted = name.lower()
        return next((found for found in self.extensions if found.name.lower() == wanted), None)

    def require_extension(self, name: str) -> Extension:
        """The same, but raises UnsupportedByPlugin where the plugin has none."""
        found = self.extension(name)
        if found is None:
            have = ", ".join(self._info.extensions) or "none"
            raise UnsupportedByPlugin(f"{self.path.name} has no extension {name!r} (it has: {have})")
        return found

    @property
    def attributes(self) -> dict[str, Value]:
        """What the plugin says about itself, by name."""
        return attribute_values(self._info.attributes)

    @property
    def create_options(self) -> dict[str, Value]:
        """The options that the daemon created its PJRT client with."""
        return attribute_values(self._info.create_options)

    @property
    def stablehlo_version_range(self) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
        """The oldest and the newest StableHLO version that the plugin takes; None where it does not say."""
        low, high = self._info.stablehlo_minimum, self._info.stablehlo_current
        if not low or not high:
            return None
        return tuple(map(int, low.split("."))), tuple(map(int, high.split(".")))

    def stablehlo_target(self, prefer: str = "min") -> str:
        """The StableHLO version, such as "0.9.0", to serialize a portable artifact for: with "min" the oldest that the
        plugin takes, with "max" the newest. Raises UnsupportedByPlugin where it does not say."""
        if prefer not in ("min", "max"):
            raise ValueError(f"prefer is 'min' or 'max', not {prefer!r}")
        version = self._info.stablehlo_minimum if prefer == "min" else self._info.stablehlo_current
        if not version:
            raise UnsupportedByPlugin(f"{self.path.name} does not say which StableHLO versions it takes")
        return version

    @property
    def xla_version(self) -> int | None:
        value = self.attributes.get("xla_version")
        return value if isinstance(value, int) else None

    @property
    def platform_hint(self) -> str:
        """The kind of platform: "cpu", "gpu", "tpu", or what the plugin calls itself."""
        name = self._info.platform_name.lower()
        if name in ("cuda", "rocm", "sycl", "gpu") or any(marker in self.attributes for marker in _GPU_MARKERS):
            return "gpu"
        return name or "unknown"

    @property
    def is_accelerator(self) -> bool:
        return self.platform_hint not in ("cpu", "unknown")

    @property
    def is_gpu(self) -> bool:
        return self.platform_hint == "gpu"

    def __repr__(self) -> str:
        major, minor = self.api_version
        return f"<pjrtd.Plugin {self.path.name} PJRT {major}.{minor} at {self.target}>"


def _ask(target: str) -> InfoReply:
    from .client import Client

    with Client.create(target) as client:
        return client.info()
