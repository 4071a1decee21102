"""Memory spaces: where on a device a buffer lives."""

from __future__ import annotations

from _weakref import ref  # the weakref module is this and much that takes time to import

from .errors import HandleClosed

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ._proto.runtime import MemoryInfo
    from .client import Client
    from .device import Device


class Memory:
    """A memory space of one or more devices, such as a GPU's own memory or pinned host memory.

    id: unique in the daemon. kind: the plugin's name for it, "device" or "pinned_host" for example; kind_id is its
    number. debug_string: for people.
    """

    __slots__ = ("_client", "id", "kind", "kind_id", "debug_string", "_to_string", "_devices")

    def __init__(self, client: Client, info: MemoryInfo) -> None:
        self._client = ref(client)
        self.id = info.id
        self.kind = info.kind
        self.kind_id = info.kind_id
        self.debug_string = info.debug_string
        self._to_string = info.to_string
        self._devices = tuple(info.devices)

    def addressable_by(self) -> list[Device]:
        """The devices that can reach it."""
        client = self._client()
        if client is None:
            raise HandleClosed(f"the client of {self!r} is gone")
        return [client.lookup_device(number) for number in self._devices]

    def __str__(self) -> str:
        return self._to_string

    def __repr__(self) -> str:
        return f"<pjrtd.Memory id={self.id} kind={self.kind!r}>"
