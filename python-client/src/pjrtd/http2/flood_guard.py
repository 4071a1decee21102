"""What a peer may not do too often: frames that cost it nothing and bring nothing."""

from __future__ import annotations

from .http2_errors import ENHANCE_YOUR_CALM, Http2ConnectionError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Of each kind, in so many seconds. A peer that probes the bandwidth sends a few PINGs a second.
MAX_IDLE_FRAMES = 1000
IDLE_FRAMES_SECONDS = 10.0


class FloodGuard:
    """Counts one kind of frame. The clock is asked only once in MAX_IDLE_FRAMES times."""

    __slots__ = ("_what", "_clock", "_count", "_since")

    def __init__(self, what: str, clock: Callable[[], float]) -> None:
        self._what = what
        self._clock = clock
        self._count = 0
        self._since = clock()

    def count(self) -> None:
        """Raises Http2ConnectionError where that was one too many."""
        self._count += 1
        if self._count > MAX_IDLE_FRAMES:
            now = self._clock()
            if now - self._since < IDLE_FRAMES_SECONDS:
                raise Http2ConnectionError(
                    ENHANCE_YOUR_CALM,
                    f"the peer sent {self._count} {self._what} in less than {IDLE_FRAMES_SECONDS:g} seconds",
                )
            self._since = now
            self._count = 0
