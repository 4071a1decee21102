"""What sessions publish for others, and what a session borrows of it."""

from __future__ import annotations

from .errors import InvalidArgument
from .slot import wire_name

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Any, Union

    from ._proto.session import PublicationInfo
    from .client import Client

    #: Which slots to borrow: names, or {their name: what it is called here}.
    Wanted = Union[Sequence[str], Mapping[str, str]]


class Publication:
    """Slots that a session has published, as Client.published() tells of them.

    name: for Session.borrow(). session, session_name: whose they are. uid: its owner, where `local`; else it was opened over
    gRPC. own: whether it may be withdrawn. everybody: whether every session may borrow them.
    slots: how many. device_bytes: what they take on devices, once. borrowed: how often they were.
    """

    __slots__ = (
        *("name", "session", "session_name", "uid", "local", "own", "everybody", "slots", "device_bytes", "borrowed"),
        "_client",
    )

    def __init__(self, client: Client, wire: PublicationInfo) -> None:
        self._client = client
        self.name = wire.name
        self.session = wire.session
        self.session_name = wire.session_name
        self.uid = wire.uid
        self.local = wire.local
        self.own = wire.own
        self.everybody = wire.everybody
        self.slots = wire.slots
        self.device_bytes = wire.bytes
        self.borrowed = wire.borrowed

    def withdraw(self) -> None:
        """Ends it: nobody can borrow it from then on. Who has borrowed it keeps it."""
        self._client._withdraw(self.name)  # pyright: ignore[reportPrivateUsage]

    def __repr__(self) -> str:
        whose = f" of session {self.session_name!r}" if self.session_name else ""
        return f"<pjrtd.Publication {self.name!r}{whose}: {self.slots} slot(s), {self.device_bytes} bytes>"


class Borrowed:
    """A slot's loader that borrows what another session has published: its name, and the slot's name there."""

    __slots__ = ("publication", "slot")

    def __init__(self, publication: str, slot: str) -> None:
        self.publication = publication
        self.slot = slot


def own_names(wanted: Wanted) -> dict[str, str]:
    """{name here: name there}. Raises InvalidArgument for none, and where two would have one name here."""
    if isinstance(wanted, str):
        raise TypeError("slots are a list of names, or a dict {published: own}")
    mapping: Any = wanted if hasattr(wanted, "items") else {name: name for name in wanted}
    pairs: Iterable[tuple[str, str]] = mapping.items()
    names: dict[str, str] = {}
    for theirs, own in pairs:
        for name in (theirs, own):
            wire_name(name)
        if own in names:
            raise InvalidArgument(f"two slots would be called {own!r} here")
        names[own] = theirs
    if not names:
        raise InvalidArgument("no slot is named", hint="leave `slots` out for all of them")
    return names
