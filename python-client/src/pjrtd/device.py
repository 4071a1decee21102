"""Devices of a daemon."""

from __future__ import annotations

from _weakref import ref  # the weakref module is this and much that takes time to import

from .attribute import attribute_values
from .errors import HandleClosed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from ._proto.runtime import DeviceInfo
    from .attribute import Value
    from .client import Client
    from .memory import Memory


class Device:
    """A device, as it was when the client connected. It stays valid as long as its client.

    id: what requests call it. kind: the plugin's name for what it is. local_hardware_id: its number in this host.
    process_index: the process that owns it in a multi-process run. addressable: whether programs can run on it here.
    debug_string: for people.
    """

    __slots__ = ("_client", "_info", "id", "kind", "local_hardware_id", "process_index", "addressable", "debug_string")

    def __init__(self, client: Client, info: DeviceInfo) -> None:
        self._client = ref(client)
        self._info = info
        self.id = info.id
        self.kind = info.kind
        self.local_hardware_id = info.local_hardware_id
        self.process_index = info.process_index
        self.addressable = info.addressable
        self.debug_string = info.debug_string

    @property
    def client(self) -> Client:
        """The client that it belongs to. Raises HandleClosed once that is gone."""
        client = self._client()
        if client is None:
            raise HandleClosed(f"the client of {self!r} is gone")
        return client

    @property
    def attributes(self) -> dict[str, Value]:
        """What the vendor says about it, by name."""
        return attribute_values(self._info.attributes)

    @property
    def coords(self) -> tuple[int, ...] | None:
        """Its place in a slice of chips, where the plugin says."""
        value = self.attributes.get("coords")
        return value if isinstance(value, tuple) else None

    def to_string(self) -> str:
        return self._info.to_string

    def memories(self) -> list[Memory]:
        """The memory spaces that it can address."""
        return [self.client.lookup_memory(number) for number in self._info.memories]

    def default_memory(self) -> Memory:
        """Where buffers go unless told otherwise. Raises Unimplemented where the plugin names none."""
        number = self.default_memory_id
        if number is None:
            from .errors import Unimplemented

            raise Unimplemented(f"the plugin names no default memory for device {self.id}")
        return self.client.lookup_memory(number)

    @property
    def default_memory_id(self) -> int | None:
        return None if self._info.default_memory < 0 else self._info.default_memory

    def memory_stats(self) -> dict[str, Value]:
        """Its allocator's statistics now, in bytes and counts. Raises Unimplemented where the plugin keeps none."""
        info = self.client._device_info(self.id)  # pyright: ignore[reportPrivateUsage]
        if not info.memory_stats:
            from .errors import Unimplemented

            raise Unimplemented(f"the plugin keeps no memory statistics for device {self.id}")
        return attribute_values(info.memory_stats)

    def __enter__(self) -> Device:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        pass

    def __repr__(self) -> str:
        return f"<pjrtd.Device id={self.id} kind={self.kind!r}>"


if TYPE_CHECKING:
    _Tuple = tuple[Device, ...]
else:
    _Tuple = tuple


class Devices(_Tuple):
    """Devices in order; `with client.devices() as devices:` gives the same."""

    __slots__ = ()

    def __enter__(self) -> Devices:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        pass
