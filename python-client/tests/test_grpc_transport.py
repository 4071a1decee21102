"""Calls over gRPC: peers with odd manners, what is sent together, what ends a connection, keepalive."""

from __future__ import annotations

import random
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from fake_daemon import FakeDaemon, Frame, Peer
from grpc_gateway import ANSWER, Gateway, Manners
from h2.settings import SettingCodes

import pjrtd
from pjrtd import errors, grpc_transport
from pjrtd._proto import methods

Start = Callable[..., Gateway]


@pytest.fixture
def start() -> Iterator[Start]:
    """Starts a gateway with these manners before a scripted daemon."""
    gateways: list[Gateway] = []
    with tempfile.TemporaryDirectory(prefix="pjrtd-") as folder:
        daemon = FakeDaemon(Path(folder))

        def run(manners: Manners | None = None) -> Gateway:
            gateways.append(Gateway(daemon.path, manners))
            gateways[-1].daemon = daemon
            return gateways[-1]

        yield run
        daemon.stop()
        for gateway in gateways:
            gateway.stop()


def use(client: pjrtd.Client, size: int = 200_000, turns: int = 3) -> None:
    rng = random.Random(size)
    exe = client.compile("f32[2]->f32[2]")
    for _ in range(turns):
        (out,) = exe([1.5, 2.5])
        assert out.tolist() == [1.5, 2.5]
        data = rng.randbytes(size)
        with client.buffer_from_host(data, "u8") as buffer:
            assert buffer.to_host() == data
            into = bytearray(size)
            assert buffer.to_host(into) == data
        out.close()
    exe.close()
    client.sync()


def window(size: int) -> dict[SettingCodes, int]:
    return {SettingCodes.INITIAL_WINDOW_SIZE: size}


MANNERS = {
    "as it comes": (Manners(), 3_000_000),
    "a window of one byte": (Manners(settings=window(1)), 0),
    "a window of 100 bytes": (Manners(settings=window(100)), 70_000),
    "frames of one byte": (Manners(cut=lambda rng: 1), 0),
    "tiny frames": (Manners(cut=lambda rng: rng.randrange(1, 200)), 100_000),
    "padding": (Manners(cut=lambda rng: 5000, pad=lambda rng: rng.choice((None, 0, 9, 255))), 300_000),
    "huge frames": (Manners(settings={SettingCodes.MAX_FRAME_SIZE: (1 << 24) - 1, **window(1 << 30)}, cut=lambda rng: 1 << 24), 3_000_000),
    "a frame a message": (Manners(join=1), 1_000_000),
    "many frames a message": (Manners(join=1000), 1_000_000),
    "PINGs": (Manners(ping_every=1, cut=lambda rng: 10_000), 500_000),
    "settings in the middle of bulk": (
        Manners(
            cut=lambda rng: 9000,
            later=[
                {SettingCodes.MAX_FRAME_SIZE: 1 << 20, **window(1 << 20)},
                {SettingCodes.MAX_FRAME_SIZE: 1 << 14, **window(1 << 16)},
                {SettingCodes.HEADER_TABLE_SIZE: 0},
                window(70_000),
            ],
        ),
        1_000_000,
    ),
    "a head of 103 first": (Manners(answer=[([(b":status", b"103")], False), (ANSWER, False)]), 1000),
}


@pytest.mark.parametrize("name", MANNERS)
def test_peers_of_all_manners(start: Start, name: str) -> None:
    manners, size = MANNERS[name]
    gateway = start(manners)
    with pjrtd.Client.create(gateway.target, timeout=60) as client, pjrtd.deadline(60):
        if size:
            use(client, size)
        else:
            client.sync()
            with client.buffer_from_host([1.0, 2.0]) as buffer:
                assert buffer.tolist() == [1.0, 2.0]
    assert not gateway.errors
    assert not gateway.latest.settings  # it came to them


def test_the_request_is_what_grpc_wants(start: Start) -> None:
    gateway = start()
    with pjrtd.Client.create(gateway.target) as client:
        assert client.target == gateway.target and gateway.target in repr(client)
    headers = dict(gateway.latest.headers)
    assert headers[b":method"] == b"POST" and headers[b":path"] == b"/pjrtd.v1.Runtime/Channel"
    assert headers[b":authority"].decode() == gateway.target.removeprefix("grpc://") and headers[b":scheme"] == b"http"
    assert headers[b"te"] == b"trailers" and headers[b"content-type"] == b"application/grpc"


# ---- quiet calls that travel together ----


def executes(daemon: FakeDaemon) -> int:
    return sum(frame.method == methods.EXECUTE for frame in daemon.peer.frames)


def test_quiet_calls_in_a_row_travel_together(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_transport, "BURST_S", 10.0)
    gateway = start()
    with pjrtd.Client.create(gateway.target) as client:
        exe = client.compile("f32[]->f32[]")
        a = client.buffer_from_host(3.0)
        client.sync()
        before = len(gateway.latest.messages)
        outputs = [exe(a)[0] for _ in range(48)]
        assert [out.item() for out in outputs[-1:]] == [3.0]
        sent = gateway.latest.frames_in_messages[before:]
        # The first at once, so that the device can begin; the rest in full messages; the last ones with the download.
        assert sent[0] == 1 and sum(sent) >= 49 and len(sent) < 10
        assert max(sent) <= grpc_transport.MAX_HELD
        for out in outputs:
            assert out.item() == 3.0
            out.close()
        a.close()
        exe.close()
    assert not gateway.errors


def test_a_quiet_call_travels_with_the_one_that_waits_where_that_is_the_habit(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = 1000.0
    gateway = start()
    with pjrtd.Client.create(gateway.target) as client:
        monkeypatch.setattr(grpc_transport, "monotonic", lambda: now)
        exe = client.compile("f32[]->f32[]")
        a = client.buffer_from_host(3.0)
        now += 1

        def messages(work: Callable[[], object]) -> list[int]:
            """Frames in each message that `work` sends."""
            nonlocal now
            client.sync()
            now += 1
            before = len(gateway.latest.messages)
            work()
            client.sync()
            return gateway.latest.frames_in_messages[before:]

        def fetch() -> None:
            kept.append(exe(a)[0])
            assert kept[-1].item() == 3.0

        kept: list[pjrtd.Buffer] = []
        for _ in range(grpc_transport.FOLLOWED):
            assert messages(fetch) == [1, 1, 1]
        for _ in range(3):
            assert messages(fetch) == [2, 1]

        def alone() -> None:
            """What comes next comes late."""
            nonlocal now
            kept.append(exe(a)[0])
            now += 1

        sent = executes(gateway.daemon)
        assert sum(messages(alone)) == 2  # held the first time; the thread or the sync took it along
        assert executes(gateway.daemon) == sent + 1
        for _ in range(3):
            assert messages(alone) == [1, 1]  # and then no more
            assert messages(fetch) == [1, 1, 1]
        for buffer in kept:
            buffer.close()
        a.close()
        exe.close()
    assert not gateway.errors


def test_a_quiet_call_that_nothing_follows_is_sent_all_the_same(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_transport, "BURST_S", 10.0)
    gateway = start()
    with pjrtd.Client.create(gateway.target) as client:
        exe = client.compile("f32[]->f32[]")
        client.sync()
        for turn in range(1, 4):
            outputs = [exe(1.0) for _ in range(5)]
            until = time.monotonic() + 5
            while executes(gateway.daemon) < 5 * turn:
                assert time.monotonic() < until, "the calls were held for ever"
                time.sleep(0.001)
            time.sleep(0.2)  # the thread that sent them ends meanwhile
            assert threading.active_count() < 20
            outputs.clear()
        # Also while this thread does not let go of the interpreter.
        before = executes(gateway.daemon)
        outputs = [exe(1.0) for _ in range(5)]
        until = time.monotonic() + 5
        while executes(gateway.daemon) < before + 5:
            assert time.monotonic() < until
        late = client._connection._outbox._late  # pyright: ignore[reportPrivateUsage]
        assert late is not None
        until = time.monotonic() + 5
        while late.running:
            assert time.monotonic() < until, "the thread stays"
            time.sleep(0.01)
        exe.close()


def test_what_is_held_goes_at_once_where_there_can_be_no_thread(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    from pjrtd import late_sender

    def none(*arguments: object) -> int:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(grpc_transport, "BURST_S", 10.0)
    monkeypatch.setattr(late_sender, "start_new_thread", none)
    gateway = start()
    with pjrtd.Client.create(gateway.target) as client:
        exe = client.compile("f32[]->f32[]")
        client.sync()
        outputs = [exe(1.0) for _ in range(5)]
        until = time.monotonic() + 5
        while executes(gateway.daemon) < 5:
            assert time.monotonic() < until
            time.sleep(0.001)
        outputs.clear()
        exe.close()


def test_held_calls_survive_signals_at_every_place(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    from test_signals import interrupt_everywhere

    monkeypatch.setattr(grpc_transport, "BURST_S", 10.0)
    monkeypatch.setattr(grpc_transport, "MAX_HELD", 3)
    gateway = start()
    with pjrtd.Client.create(gateway.target, busy_poll_us=0) as client:
        exe = client.compile("f32[2]->f32[2]")
        a = client.buffer_from_host([3.0, 4.0])

        def operation() -> None:
            outputs = [exe(a)[0] for _ in range(5)]
            assert outputs[-1].tolist() == [3.0, 4.0]

        def check() -> None:
            (out,) = exe([1.5, 2.5])
            assert out.tolist() == [1.5, 2.5]
            out.close()

        assert interrupt_everywhere(operation, check, 3) > 50
        a.close()
        exe.close()
    assert not gateway.errors


# ---- what ends a connection ----


def refused(gateway: Gateway, kind: type[errors.PjrtError], why: str) -> errors.PjrtError:
    with pytest.raises(kind, match=why) as caught:
        pjrtd.Client.create(gateway.target, timeout=20)
    assert type(caught.value) is kind
    return caught.value


@pytest.mark.parametrize(
    "code,kind",
    [(3, errors.InvalidArgument), (7, errors.PermissionDenied), (8, errors.ResourceExhausted), (14, errors.Unavailable)],
)
def test_an_answer_of_trailers_alone(start: Start, code: int, kind: type[errors.PjrtError]) -> None:
    trailers = [*ANSWER, (b"grpc-status", b"%d" % code), (b"grpc-message", b"no%20more, %E2%82%AC")]
    gateway = start(Manners(answer=[(trailers, True)]))
    assert gateway.target in str(refused(gateway, kind, "no more, €"))


def test_the_daemons_own_error_in_the_trailers_wins(start: Start) -> None:
    from base64 import b64encode

    from pjrtd._proto.common import Error

    packed = b64encode(Error(8, "too many", hint="wait", retry_after_ns=2_000_000_000).encode()).rstrip(b"=")
    trailers = [*ANSWER, (b"grpc-status", b"8"), (b"grpc-message", b"short"), (b"pjrtd-error-bin", packed)]
    error = refused(start(Manners(answer=[(trailers, True)])), errors.ResourceExhausted, "too many")
    assert (error.hint, error.retry_after_s) == ("wait", 2.0)
    trailers[-1] = (b"pjrtd-error-bin", b"!not base64!")
    refused(start(Manners(answer=[(trailers, True)])), errors.ResourceExhausted, "short")


@pytest.mark.parametrize(
    "status,kind",
    [
        (b"400", errors.Internal),
        (b"401", errors.Unauthenticated),
        (b"403", errors.PermissionDenied),
        (b"404", errors.Unimplemented),
        (b"500", errors.Unknown),
        (b"502", errors.Unavailable),
        (b"503", errors.Unavailable),
        (b"200", errors.Unknown),
    ],
)
def test_a_proxy_that_answers_itself(start: Start, status: bytes, kind: type[errors.PjrtError]) -> None:
    head = [(b":status", status), (b"content-type", b"text/html")]
    error = refused(start(Manners(answer=[(head, False)], page=b"<html>Bad Gateway</html>" * 100)), kind, "text/html")
    assert "answers there" in error.hint


def test_envoy_and_nginx_that_have_no_backend(start: Start) -> None:
    envoy = [*ANSWER, (b"grpc-status", b"14"), (b"grpc-message", b"upstream connect error"), (b"server", b"envoy")]
    refused(start(Manners(answer=[(envoy, True)])), errors.Unavailable, "upstream connect error")
    nginx = [(b":status", b"502"), (b"server", b"nginx/1.22.1"), (b"content-type", b"text/html"), (b"content-length", b"157")]
    refused(start(Manners(answer=[(nginx, False)], page=b"x" * 157)), errors.Unavailable, "HTTP status 502")
    nginx_grpc = [(b":status", b"204"), *ANSWER[1:], (b"grpc-status", b"14"), (b"grpc-message", b"unavailable")]
    refused(start(Manners(answer=[(nginx_grpc, True)])), errors.Unavailable, "unavailable")


def ended_by(gateway: Gateway, work: Callable[[], None], also: bytes = b"") -> errors.PjrtError:
    """What a client that waits gets to hear after the gateway did that."""
    daemon: FakeDaemon = gateway.daemon

    def hook(peer: Peer, frame: Frame) -> bool:
        latest = gateway.latest

        def run() -> None:
            work()
            latest.out += latest.h2.data_to_send() + also

        latest.call(run)
        return True

    daemon.hooks[methods.ADMIN_STATS] = hook
    with pjrtd.Client.create(gateway.target, busy_poll_us=0) as client:
        buffer = client.buffer_from_host(1.0)
        with pytest.raises(errors.PjrtError) as caught, pjrtd.deadline(20):
            client.stats()
        assert client.closed
        with pytest.raises(type(caught.value)):
            buffer.to_host()
        buffer.close()
    return caught.value


@pytest.mark.parametrize(
    "code,kind",
    [(8, errors.Cancelled), (7, errors.Unavailable), (11, errors.ResourceExhausted), (2, errors.Internal), (12, errors.PermissionDenied)],
)
def test_a_stream_that_is_reset(start: Start, code: int, kind: type[errors.PjrtError]) -> None:
    gateway = start()
    error = ended_by(gateway, lambda: gateway.latest.h2.reset_stream(1, code))
    assert type(error) is kind and gateway.target in str(error) and "reset" in error.message


def test_trailers_in_the_middle(start: Start) -> None:
    gateway = start()
    trailers = [(b"grpc-status", b"14"), (b"grpc-message", b"draining")]
    error = ended_by(gateway, lambda: gateway.latest.h2.send_headers(1, trailers, end_stream=True))
    assert type(error) is errors.Unavailable and "draining" in error.message


def test_a_goaway_that_leaves_the_stream_out(start: Start) -> None:
    gateway = start()
    error = ended_by(gateway, lambda: gateway.latest.h2.close_connection(0, b"restarting", last_stream_id=0))
    assert type(error) is errors.Unavailable and "restarting" in error.message


def test_a_goaway_that_lets_the_stream_go_on(start: Start) -> None:
    gateway = start()
    daemon: FakeDaemon = gateway.daemon
    with pjrtd.Client.create(gateway.target) as client:
        use(client, 1000)
        latest = gateway.latest
        goaway = b"\0\0\x08\7\0\0\0\0\0" + (1).to_bytes(4, "big") + bytes(4)  # h2 itself would stop there
        latest.call(lambda: latest.out.extend(goaway))
        use(client, 100_000)
        daemon.stop()
        with pytest.raises(errors.Unavailable, match="is lost"):
            client.sync()


@pytest.mark.parametrize(
    "bytes_,why",
    [
        (b"\0\0\x08\6\0\0\0\0\0" + b"12345678", "PING"),
        (b"\0\0\0\4\0\0\0\0\0", "SETTINGS"),
        (b"\0\0\0\0\0\0\0\0\1", "empty DATA"),
        (b"\0\0\0\x63\0\0\0\0\0", "types that mean nothing"),
    ],
)
def test_floods_end_the_connection(start: Start, bytes_: bytes, why: str) -> None:
    error = ended_by(start(), lambda: None, bytes_ * 3000)
    assert type(error) is errors.Unavailable and why in error.message


def test_a_broken_frame_ends_the_connection(start: Start) -> None:
    error = ended_by(start(), lambda: None, b"\0\0\5\0\x08\0\0\0\1\xffxxxx")
    assert type(error) is errors.Unavailable and "PROTOCOL_ERROR" in error.message


# ---- keepalive ----


def test_a_silent_peer_is_asked_and_then_given_up(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_transport, "SILENCE_S", 0.3)
    monkeypatch.setattr(grpc_transport.GrpcTransport, "keepalive_s", 0.1)
    gateway = start()
    daemon: FakeDaemon = gateway.daemon
    stalled = threading.Event()
    daemon.hooks[methods.ADMIN_STATS] = lambda peer, frame: gateway.latest.call(lambda: stalled.wait(20) and None) or True
    client = pjrtd.Client.create(gateway.target, busy_poll_us=0)
    started = time.monotonic()
    with pytest.raises(errors.Unavailable, match="no sign of life"):
        client.stats()
    assert 0.5 < time.monotonic() - started < 5
    assert client.closed
    stalled.set()
    client.close()


def test_a_peer_that_is_busy_but_alive_is_waited_for(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(grpc_transport, "SILENCE_S", 0.1)
    monkeypatch.setattr(grpc_transport.GrpcTransport, "keepalive_s", 0.03)
    gateway = start()
    daemon: FakeDaemon = gateway.daemon
    daemon.hooks[methods.ADMIN_STATS] = lambda peer, frame: time.sleep(1) or False
    with pjrtd.Client.create(gateway.target, busy_poll_us=0) as client:
        assert client.stats()["buffers"] == 0
        connection = client._connection._transport._connection  # type: ignore[attr-defined]
        assert 2 <= connection.pings_acked == connection.pings_sent < 12


# ---- threads ----


def test_uploads_go_on_while_another_thread_reads(start: Start) -> None:
    """The one that reads hears that the window is open; the one that wants to send waits for it."""
    gateway = start()
    daemon: FakeDaemon = gateway.daemon
    held: list[Frame] = []
    daemon.hooks[methods.ADMIN_STATS] = lambda peer, frame: held.append(frame) or True
    with pjrtd.Client.create(gateway.target, busy_poll_us=0) as client:
        reading = threading.Thread(target=client.stats, daemon=True)
        reading.start()
        while not held:
            time.sleep(0.001)
        data = random.Random(1).randbytes(8 << 20)
        started = time.monotonic()
        with client.buffer_from_host(data, "u8") as buffer:
            assert buffer.to_host() == data
        assert time.monotonic() - started < 10
        assert reading.is_alive()
        daemon.hooks.clear()
        daemon.peer.admin_stats(held[0])
        reading.join(10)
        assert not reading.is_alive()
    assert not gateway.errors
