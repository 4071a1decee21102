"""A session that lives for as long as its test, through connections that come, go, are cut, and stand beside each other."""

from __future__ import annotations

import random
from collections.abc import Callable

from raw_frames import RawClient
from session_work import SessionWork, floats, STEP

KEPT_NS = 120 * 10**9


class LongSession(SessionWork):
    """`connect(**options)` makes a connection. `named`: it is attached to by its name, else by its token."""

    def __init__(self, connect: Callable[..., RawClient], name: str, named: bool, chance: random.Random) -> None:
        self.connect = connect
        client = connect()
        self.token = client.call("Session.Open", name=name if named else "", ttl_ns=KEPT_NS).token
        self.by = dict(name=name) if named else dict(token=self.token)
        super().__init__(client, chance)

    def kinds(self) -> dict[Callable[[], None], int]:
        return super().kinds() | {self.attach: 1, self.take_over: 1, self.resume: 1, self.join: 1}

    def attach(self) -> None:
        """After a good end."""
        self.client.call("Session.Sync")
        self.client.close()
        self.client = self.connect()
        self.client.attach(**self.by)
        self.finish_steps()

    def take_over(self) -> None:
        """From a connection that is still there."""
        fresh = self.connect()
        fresh.attach(**self.by)
        self.client.close()
        self.client = fresh
        self.finish_steps()

    def resume(self) -> None:
        """The connection goes with steps on their way: what did not arrive is sent again, none is lost or made twice."""
        lost = self.client
        self.start_steps(self.chance.randrange(1, 300))
        lost.close()
        self.client = self.connect(last_call=lost.last_call)
        reply = self.client.attach(**self.by, resume=True, id_prefix=lost.hello.id_prefix)
        request = self.step(self.donate, ["x", "b"], {0: "x"})
        for _ in range(lost.last_call - reply.last_call):
            self.client.start("Execute.Execute", quiet=True, **request)
        self.finish_steps()

    def join(self) -> None:
        """Another connection works in the session beside this one, with slots of its own, and sees this one's."""
        with self.connect() as other:
            other.attach(**self.by, join=True)
            beside = SessionWork(other, self.chance, "beside/")
            for _ in range(self.chance.randrange(1, 4)):
                beside.do_something()
            beside.prefix = ""
            assert beside.value("x") == floats(*(self.steps * each for each in STEP))
            other.call("Program.Release", programs=[beside.add, beside.donate, beside.count])

    def close(self) -> None:
        """Nothing is in it that it did not keep on purpose."""
        (own,) = [each for each in self.client.call("Session.List").sessions if each.own]
        assert own.programs == 3 and own.buffers == 0, own
        self.client.call("Session.Close")
        self.client.close()
