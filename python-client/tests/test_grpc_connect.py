"""grpc://HOST:PORT: what is a target, which addresses are tried, and what else may listen there."""

from __future__ import annotations

import _socket
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from fake_daemon import FakeDaemon

import pjrtd
from pjrtd import errors
from pjrtd.grpc_connect import connect, parse_target

over_grpc = pytest.mark.parametrize("fake", ["grpc"], indirect=True)


@pytest.mark.parametrize(
    "target,expected",
    [
        ("grpc://localhost", ("localhost", 7578, "localhost:7578")),
        ("grpcs://a.example:1", ("a.example", 1, "a.example:1")),
        ("grpc://127.0.0.1:07578", ("127.0.0.1", 7578, "127.0.0.1:7578")),
        ("grpc://[::1]:65535", ("::1", 65535, "[::1]:65535")),
        ("grpc://[fe80::1]", ("fe80::1", 7578, "[fe80::1]:7578")),
    ],
)
def test_targets(target: str, expected: tuple[str, int, str]) -> None:
    assert parse_target(target) == expected


@pytest.mark.parametrize(
    "target,why",
    [
        ("grpc://", "no host"),
        ("grpc://:7578", "no host"),
        ("grpc://[]:7578", "no host"),
        ("grpc://a/b", "no host"),
        ("grpc://a:7578/", "no port"),
        ("grpc://user@a:1", "no host"),
        ("grpc://a b", "no host"),
        ("grpc://a\nb", "no host"),
        ("grpc://a:", "no port"),
        ("grpc://a:0", "no port"),
        ("grpc://a:65536", "no port"),
        ("grpc://a:99999999999999999999", "no port"),
        ("grpc://a:-1", "no port"),
        ("grpc://a:\u0663", "no port"),
        ("grpc://::1", "in brackets"),
        ("grpc://::1:7578", "in brackets"),
        ("grpc://[::1", "not closed"),
        ("grpc://[::1]x:5", "not closed"),
    ],
)
def test_what_is_no_target(target: str, why: str) -> None:
    with pytest.raises(errors.InvalidArgument, match=why) as caught:
        pjrtd.Client.create(target)
    assert "grpc://127.0.0.1:7578" in caught.value.hint and repr(target) in caught.value.message


def test_nobody_listens() -> None:
    free = socket.create_server(("127.0.0.1", 0))
    port = free.getsockname()[1]
    free.close()
    with pytest.raises(errors.Unavailable, match=f"127.0.0.1 port {port}: Connection refused") as caught:
        pjrtd.Client.create(f"grpc://127.0.0.1:{port}")
    assert f"--listen grpc://127.0.0.1:{port}" in caught.value.hint


def test_a_name_that_is_none() -> None:
    with pytest.raises(errors.Unavailable, match="'nobody.invalid' cannot be resolved"):
        pjrtd.Client.create("grpc://nobody.invalid:1")
    with pytest.raises(errors.Unavailable, match="cannot be resolved"):
        pjrtd.Client.create("grpc://" + "x" * 300)
    with pytest.raises(errors.Unavailable, match="cannot be resolved"):
        pjrtd.Client.create("grpc://\u00e4\u00f6.invalid")


@over_grpc
def test_every_address_of_a_name_is_tried(fake: FakeDaemon, monkeypatch: pytest.MonkeyPatch) -> None:
    port = int(fake.target.rpartition(":")[2])
    stream = (_socket.SOCK_STREAM, 6, "")
    addresses: list[Any] = [
        (_socket.AF_INET6, *stream, ("::1", 1, 0, 0)),
        (_socket.AF_INET, *stream, ("127.0.0.1", 1)),
        (_socket.AF_INET, *stream, ("127.0.0.1", port)),
    ]
    monkeypatch.setattr(_socket, "getaddrinfo", lambda *arguments: addresses)
    with pjrtd.Client.create("grpc://somewhere:7") as client:
        assert client.target == "grpc://somewhere:7" and client.platform_name == "cpu"
    del addresses[2]
    with pytest.raises(errors.Unavailable) as caught:
        pjrtd.Client.create("grpc://somewhere:7")
    assert "::1 port 7" in caught.value.message and "127.0.0.1 port 7" in caught.value.message


def test_each_address_has_its_part_of_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that takes nobody must not use up what there is for the next one."""
    full = socket.socket()
    full.bind(("127.0.0.1", 0))
    full.listen(0)
    waiting = []
    for _ in range(3):  # its queue holds one or two
        waiting.append(socket.socket())
        waiting[-1].setblocking(False)
        waiting[-1].connect_ex(full.getsockname())
    time.sleep(0.1)
    good = socket.create_server(("127.0.0.1", 0))
    stream = (_socket.AF_INET, _socket.SOCK_STREAM, 6, "")
    found: list[Any] = [(*stream, full.getsockname()), (*stream, good.getsockname())]
    monkeypatch.setattr(_socket, "getaddrinfo", lambda *arguments: found)
    started = time.monotonic()
    link = connect("grpc://x", "x", 1, started + 1)
    assert link.getpeername() == good.getsockname() and 0.3 < time.monotonic() - started < 0.9
    link.close()
    found.pop()
    with pytest.raises(errors.Unavailable, match="it did not accept in time"):
        connect("grpc://x", "x", 1, time.monotonic() + 0.2)
    with pytest.raises(errors.DeadlineExceeded, match="grpc://x"):
        connect("grpc://x", "x", 1, time.monotonic() - 1)
    for each in (*waiting, full, good):
        each.close()


def test_ipv6() -> None:
    try:
        listener = socket.create_server(("::1", 0), family=socket.AF_INET6)
    except OSError:  # a machine without it: then this is what a user sees
        with pytest.raises(errors.Unavailable, match="::1 port 7578"):
            pjrtd.Client.create("grpc://[::1]")
        return
    link = connect("grpc://[::1]", "::1", listener.getsockname()[1], time.monotonic() + 5)
    assert link.getpeername()[0] == "::1"
    link.close()
    listener.close()


def test_small_frames_are_not_held_back_by_the_kernel() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        link = connect("grpc://x", "127.0.0.1", listener.getsockname()[1], None)
        assert link.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
        assert link.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        link.close()


# ---- something else listens there ----


@contextmanager
def listening(answer: bytes | None) -> Iterator[str]:
    """A peer that says this and hangs up; None: it says nothing and stays."""
    listener = socket.create_server(("127.0.0.1", 0))
    links: list[socket.socket] = []

    def serve() -> None:
        try:
            link, _ = listener.accept()
        except OSError:
            return
        links.append(link)
        if answer is not None:
            link.recv(1 << 16)
            link.sendall(answer)
            link.shutdown(socket.SHUT_WR)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    yield f"grpc://127.0.0.1:{listener.getsockname()[1]}"
    listener.close()
    thread.join(5)
    for link in links:
        link.close()


@pytest.mark.parametrize(
    "answer,why,hint",
    [
        (b"HTTP/1.1 400 Bad Request\r\nServer: nginx\r\n\r\n", "speaks HTTP/1.*HTTP/1.1 400 Bad Request", "grpcs://"),
        (b"\x15\x03\x01\x00\x02\x02\x46", "speaks TLS where HTTP/2 in plain text", "use grpcs://127.0.0.1:"),
        (b"SSH-2.0-OpenSSH_9.2p1 Debian\r\n", "does not begin with SETTINGS.*SSH-2.0", "Client.create"),
        (b"", "without a word", "gRPC port"),
        (b"220 hi\r", "is lost: the daemon closed it", "Client.create"),
    ],
)
def test_another_protocol(answer: bytes, why: str, hint: str) -> None:
    with listening(answer) as target, pytest.raises(errors.Unavailable, match=why) as caught:
        pjrtd.Client.create(target, timeout=10)
    assert target in caught.value.message and hint in caught.value.hint


def test_a_peer_that_says_nothing() -> None:
    with listening(None) as target, pytest.raises(errors.DeadlineExceeded) as caught:
        pjrtd.Client.create(target, timeout=0.3)
    assert target in caught.value.message
    with listening(None) as target, pytest.raises(errors.DeadlineExceeded, match="TLS handshake") as caught:
        pjrtd.Client.create(target.replace("grpc:", "grpcs:"), timeout=0.3)
    assert target.replace("grpc:", "grpcs:") in caught.value.message
