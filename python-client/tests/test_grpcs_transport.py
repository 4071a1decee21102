"""TLS: who is believed, what the errors say, and OpenSSL's own way with signals."""

from __future__ import annotations

import os
import ssl
import tempfile
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from conftest import run_python
from fake_daemon import FakeDaemon
from grpc_gateway import Gateway
from test_grpc_transport import use
from tls_terminator import Certificates, TlsTerminator

import pjrtd
from pjrtd import errors
from pjrtd.grpcs_transport import GrpcsTransport

over_tls = pytest.mark.parametrize("fake", ["grpcs"], indirect=True)


@pytest.fixture(scope="module")
def gateway() -> Iterator[Gateway]:
    with tempfile.TemporaryDirectory(prefix="pjrtd-") as folder:
        daemon = FakeDaemon(Path(folder))
        made = Gateway(daemon.path)
        yield made
        daemon.stop()
        made.stop()


def refused(target: str, kind: type[errors.PjrtError], why: str, **options: Any) -> errors.PjrtError:
    with pytest.raises(kind, match=why) as caught:
        pjrtd.Client.create(target, **{"timeout": 10, **options})
    assert target in str(caught.value)
    return caught.value


@over_tls
def test_data_of_all_sizes(fake: FakeDaemon) -> None:
    with pjrtd.Client.create(fake.target) as client:
        assert repr(client) == f"<pjrtd.Client of {fake.target}>"
        for size in (1, 16_384, 16_385, 65_536, 1_000_003):
            use(client, size, 2)
        use(client, 8 << 20, 1)


@over_tls
def test_many_threads(fake: FakeDaemon) -> None:
    """OpenSSL's object is used by who reads and by who writes."""
    failures: list[BaseException] = []

    def work(number: int) -> None:
        try:
            for turn in range(30):
                data = bytes([number]) * (70_000 if turn % 5 == 0 else 10)
                with client.buffer_from_host(data, "u8") as buffer:
                    assert buffer.to_host() == data
        except BaseException as error:
            failures.append(error)

    with pjrtd.Client.create(fake.target) as client:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
            assert not thread.is_alive()
    assert failures == []


# ---- who is believed ----


def test_the_argument_wins_over_the_environment(
    gateway: Gateway, certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    with TlsTerminator(gateway.target, certificates.certificate()) as front, Certificates() as others:
        for target in (front.target, f"grpcs://127.0.0.1:{front.port}"):
            pjrtd.Client.create(target, ca_file=certificates.ca_file).close()
        monkeypatch.setenv("PJRTD_CA_FILE", certificates.ca_file)
        pjrtd.Client.create(front.target).close()
        refused(front.target, errors.Unavailable, "certificate", ca_file=others.ca_file)
        monkeypatch.setenv("PJRTD_CA_FILE", others.ca_file)
        pjrtd.Client.create(front.target, ca_file=Path(certificates.ca_file)).close()
        error = refused(front.target, errors.Unavailable, "not to be trusted")
        assert others.ca_file in error.message and "PJRTD_CA_FILE" in error.hint
        monkeypatch.delenv("PJRTD_CA_FILE")
        error = refused(front.target, errors.Unavailable, "system's roots.*unable to get local issuer")
        assert "ca_file" in error.hint


@pytest.mark.parametrize(
    "names,days,why",
    [
        ("DNS:elsewhere.example", 30, "not valid for 'localhost'"),
        ("IP:127.0.0.2", 30, "not valid for 'localhost'"),
        ("DNS:localhost", -1, "expired"),
    ],
)
def test_a_certificate_for_somebody_else_or_another_time(
    gateway: Gateway, certificates: Certificates, names: str, days: int, why: str
) -> None:
    with TlsTerminator(gateway.target, certificates.certificate(names, days)) as front:
        error = refused(front.target, errors.Unavailable, why, ca_file=certificates.ca_file)
        assert certificates.ca_file in error.message


@pytest.mark.parametrize("alpn", [[], ["http/1.1"]])
def test_a_peer_that_does_not_offer_http2(gateway: Gateway, certificates: Certificates, alpn: list[str]) -> None:
    with TlsTerminator(gateway.target, certificates.certificate(), alpn) as front:
        refused(front.target, errors.Unavailable, "ALPN", ca_file=certificates.ca_file)


def test_ca_files_that_are_none(certificates: Certificates, tmp_path: Path) -> None:
    for path, why in ((tmp_path / "missing", "cannot be read: No such file"), (tmp_path, "cannot be read|no certificate")):
        with pytest.raises(errors.InvalidArgument, match=why) as caught:
            pjrtd.Client.create("grpcs://localhost", ca_file=path)
        assert str(path) in caught.value.message and "PJRTD_CA_FILE" in caught.value.hint
    (tmp_path / "text").write_text("no certificate")
    with pytest.raises(errors.InvalidArgument, match="no certificate that can be read"):
        pjrtd.Client.create("grpcs://localhost", ca_file=tmp_path / "text")
    for target in ("grpc://localhost", "unix:/nowhere"):
        with pytest.raises(errors.InvalidArgument, match="ca_file is for grpcs"):
            pjrtd.Client.create(target, ca_file=certificates.ca_file)


def test_plain_text_where_tls_was_meant(gateway: Gateway) -> None:
    target = gateway.target.replace("grpc://", "grpcs://")
    assert refused(target, errors.Unavailable, "plain text where TLS was expected").hint == f"use {gateway.target}"


def test_tls_where_plain_text_was_meant(gateway: Gateway, certificates: Certificates) -> None:
    with TlsTerminator(gateway.target, certificates.certificate()) as front:
        error = refused(f"grpc://localhost:{front.port}", errors.Unavailable, "HTTP/2")
        assert "grpcs://" in error.hint


# ---- signals ----


class Interrupted(Exception):
    pass


class Interrupting:
    """A C function of OpenSSL's, out of which an exception of a signal handler comes now and then, after its work."""

    def __init__(self, function: Callable[..., int], every: int) -> None:
        self.function = function
        self.every = every
        self.calls = self.interrupted = 0

    def __call__(self, *arguments: Any) -> int:
        result = self.function(*arguments)
        self.calls += 1
        if self.calls % self.every == 0:
            self.interrupted += 1
            raise Interrupted
        return result


@over_tls
@pytest.mark.parametrize("every", [1, 2, 3, 7, 50])
@pytest.mark.parametrize("name", ["_tls_read", "_tls_write"])
def test_an_exception_that_comes_out_of_openssl_loses_nothing(fake: FakeDaemon, name: str, every: int) -> None:
    """OpenSSL's functions run signal handlers after their work, and do not tell of it then."""
    rng = os.urandom(150_000)
    with pjrtd.Client.create(fake.target, busy_poll_us=0) as client:
        transport = client._connection._transport  # pyright: ignore[reportPrivateUsage]
        assert isinstance(transport, GrpcsTransport)
        interrupting = Interrupting(getattr(transport, name), every)
        setattr(transport, name, interrupting)
        buffer = None
        for _ in range(200):
            try:
                if buffer is None:
                    buffer = client.buffer_from_host(rng, "u8")
                with pjrtd.deadline(20):
                    assert buffer.to_host() == rng
                    client.sync()
            except Interrupted:
                continue
            if interrupting.interrupted > 10:
                break
        assert interrupting.interrupted > 1
        setattr(transport, name, interrupting.function)
        with pjrtd.deadline(20), client.buffer_from_host(rng, "u8") as another:
            assert another.to_host() == rng
        if buffer is not None:
            buffer.close()
        client.sync()
        assert not client._connection._table.calls  # pyright: ignore[reportPrivateUsage]


# ---- forks, imports ----

FORK = """
import faulthandler, os, sys, threading, time
import pjrtd
client = pjrtd.Client.create(sys.argv[1])  # over the local socket: nothing of TLS is imported
assert "ssl" not in sys.modules

class Slow:
    def find_spec(self, name, path=None, target=None):
        if name == "ssl":
            importing.set()
            time.sleep(1)

importing = threading.Event()
sys.meta_path.insert(0, Slow())

def connect():
    with pjrtd.Client.create(sys.argv[2], ca_file=sys.argv[3]) as own:
        return own.buffer_from_host([2.0]).tolist() == [2.0]

thread = threading.Thread(target=connect)
thread.start()
importing.wait()
child = os.fork()
if not child:
    faulthandler.dump_traceback_later(15, exit=True)
    os._exit(0 if connect() else 1)
thread.join()
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) and 1)
"""


@pytest.mark.parametrize("fake", ["unix"], indirect=True)
def test_a_fork_while_another_thread_imports_ssl(fake: FakeDaemon, gateway: Gateway, certificates: Certificates) -> None:
    with TlsTerminator(gateway.target, certificates.certificate()) as front:
        run = run_python(FORK, fake.target, front.target, certificates.ca_file, timeout_s=90)
    assert run.returncode == 0, run.stderr


def test_ssl_is_imported_for_tls_alone(gateway: Gateway) -> None:
    code = """
import sys, pjrtd
pjrtd.Client.create(sys.argv[1]).close()
print("ssl" in sys.modules, "socket" in sys.modules, "_ssl" in sys.modules)
"""
    run = run_python(code, gateway.target)
    assert run.stdout == "False False False\n", run.stderr


def test_what_is_used_of_ssl_is_there() -> None:
    """`_sslobj` is private, and its methods have to be C functions."""
    wrapped: Any = ssl.create_default_context().wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="localhost")
    for name in ("read", "write", "pending"):
        assert type(getattr(wrapped._sslobj, name)) is type([].append)
