"""Sessions: what a daemon keeps for a client, and how a client comes back to it.

    with pjrtd.Client.create() as client:
        s = client.session("exp1", ttl=3600)   # made, or found again with all that it holds
        ...
    # the session lives on for an hour, and so do its slots

A session with a name or a lease (`ttl`) outlives its connection. One that is cut is made anew behind the scenes, and
the calls go on: those that the daemon did not get are sent again, those that it got are not, and an answer that was
lost is asked for again. So no step is lost, and none is done twice.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType

    from .client import Client


class Session:
    """A client's session. client.session() gives it; `Session(client)` is the one that the client has anyway."""

    def __init__(self, client: Client) -> None:
        self._client = client

    # ---- what it is ----

    @property
    def client(self) -> Client:
        return self._client

    @property
    def name(self) -> str:
        """Its name, or ""."""
        kept = self._client._connection.kept  # pyright: ignore[reportPrivateUsage]
        return "" if kept is None else kept.name

    @property
    def token(self) -> str:
        """The secret that another client can attach with: client.session(token=...). "" where it is not kept."""
        kept = self._client._connection.kept  # pyright: ignore[reportPrivateUsage]
        return "" if kept is None else kept.token

    @property
    def times_lost(self) -> int:
        """How often it was lost, with all that it held, and began anew: see pjrtd.SessionLost."""
        kept = self._client._connection.kept  # pyright: ignore[reportPrivateUsage]
        return 0 if kept is None else kept.times_lost

    def end(self) -> None:
        """Ends the session in the daemon, with all that it holds, and closes the client."""
        self._client._end_session()  # pyright: ignore[reportPrivateUsage]

    # ---- its life ----

    def close(self) -> None:
        """Lets go of it; a session that is kept goes on in the daemon. It may be called again."""

    def __enter__(self) -> Session:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def __repr__(self) -> str:
        name = f" {self.name!r}" if self.name else ""
        return f"<pjrtd.Session{name} of {self._client.target}>"
