"""What the daemon says about sessions."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ._proto.session import SessionInfo as WireInfo
    from .client import Client


PRIORITIES = ("low", "normal", "high")


class SessionInfo:
    """A session as Client.sessions() tells of it. Seconds end in _s, bytes in _bytes.

    number: for end(); it gives no right. name: or "". own: whether it is the client's own.
    uid: its owner, where `local`; else it was opened over gRPC.
    buffers, programs, buffer_bytes, calls_in_flight: what it holds and does.
    age_s, idle_s: since it was opened, since its last call. ttl_s: how long it outlives its last connection; 0: not at all.
    lease_left_s: until it ends, where nobody takes part; else 0.
    priority: "low", "normal" or "high". home_device: the id of the device of what it places nowhere in particular.
    slots: how many it has. device_s: how long devices worked for it.
    connections: who takes part: a list of dicts with pid, command, client_name, transport.
    """

    __slots__ = (
        *("number", "name", "own", "uid", "local", "buffers", "programs", "buffer_bytes", "calls_in_flight"),
        *("age_s", "idle_s", "ttl_s", "lease_left_s", "priority", "home_device", "slots", "device_s", "connections"),
        "_client",
    )

    def __init__(self, client: Client, wire: WireInfo) -> None:
        self._client = client
        self.number = wire.session
        self.name = wire.name
        self.own = wire.own
        self.uid = wire.uid
        self.local = wire.local
        self.buffers = wire.buffers
        self.programs = wire.programs
        self.buffer_bytes = wire.buffer_bytes
        self.calls_in_flight = wire.calls_in_flight
        self.age_s = wire.age_ns / 1e9
        self.idle_s = wire.idle_ns / 1e9
        self.ttl_s = wire.ttl_ns / 1e9
        self.lease_left_s = wire.lease_left_ns / 1e9
        self.priority = PRIORITIES[wire.priority - 1] if 0 < wire.priority <= len(PRIORITIES) else ""
        self.home_device = wire.home_device
        self.slots = wire.slots
        self.device_s = wire.device_ns / 1e9
        self.connections: list[dict[str, Any]] = [
            {"pid": each.pid, "command": each.command, "client_name": each.client_name, "transport": each.transport}
            for each in wire.connections
        ]

    def end(self) -> None:
        """Ends the session, with all that it holds. Its clients' calls fail from then on."""
        self._client._end_other_session(self.number)  # pyright: ignore[reportPrivateUsage]

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        state = f"{len(self.connections)} attached" if self.connections else f"ends in {self.lease_left_s:.0f} s"
        return f"<pjrtd.SessionInfo {self.number}{name}: {state}, {self.buffers} buffer(s), {self.buffer_bytes} bytes>"
