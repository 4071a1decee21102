"""The C client and what else may answer at a gRPC target: other servers, TLS, nobody, a daemon that dies."""

from __future__ import annotations

import contextlib
import pathlib
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from concurrent import futures

import grpc
import pytest
from grpc_health.v1 import health, health_pb2_grpc

from daemon import PATIENCE, Daemon, binary_path
from test_pjrtctl import ADD, FOREVER, ctl, environment
from tls_terminator import Certificates, TlsTerminator

UNAVAILABLE = 3  # pjrtctl's exit status where there is no server


@pytest.fixture(scope="module")
def certificates() -> Iterator[Certificates]:
    with Certificates() as made:
        yield made


def port_of(daemon: Daemon) -> str:
    return daemon.grpc_target.rsplit(":", 1)[1]


@contextlib.contextmanager
def server(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """Accepts connections, and does that with each; gives the target."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection = listener.accept()[0]
                    with connection, contextlib.suppress(OSError):
                        answer(connection)

        threading.Thread(target=serve, daemon=True).start()
        yield f"grpc://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)


def info(target: str, **env: str) -> subprocess.CompletedProcess[str]:
    return ctl(None, "info", env=environment(target, **env))


def assert_unavailable(done: subprocess.CompletedProcess[str], target: str, *words: str) -> None:
    assert done.returncode == UNAVAILABLE, done
    first, hint = done.stderr.splitlines()[:2]
    assert first.startswith(f"pjrtctl: UNAVAILABLE: cannot connect to {target}: "), done.stderr
    assert hint.startswith("hint: ")
    for word in words:
        assert word in done.stderr


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1"])
def test_a_host_by_name_or_address(daemon: Daemon, host: str) -> None:
    done = info(f"grpc://{host}:{port_of(daemon)}")
    assert done.returncode == 0, done.stderr
    assert f"grpc://{host}:{port_of(daemon)}" in done.stdout


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        target = f"grpc://127.0.0.1:{listener.getsockname()[1]}"
    assert_unavailable(info(target), target, "nobody listens there", "pjrtd with --listen grpc://HOST:PORT")


@pytest.mark.parametrize("sent", [b"", b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", b"\x15\x03\x01\x00\x02\x02\x46",
                                  b"220 mail.example ESMTP\r\n", b"PJRT" + bytes(28), bytes(9)],
                         ids=["closes", "HTTP/1", "TLS alert", "SMTP", "frames of the local socket", "zeros"])
def test_a_server_of_something_else(sent: bytes) -> None:
    def answer(connection: socket.socket) -> None:
        connection.recv(4096)
        connection.sendall(sent)
        time.sleep(0.1)

    with server(answer) as target:
        assert_unavailable(info(target), target, "does pjrtd listen there")


def test_a_gRPC_server_that_is_no_pjrtd() -> None:
    other = grpc.server(futures.ThreadPoolExecutor(2))
    health_pb2_grpc.add_HealthServicer_to_server(health.HealthServicer(), other)
    port = other.add_insecure_port("127.0.0.1:0")
    other.start()
    done = info(f"grpc://127.0.0.1:{port}")
    other.stop(None)
    assert done.returncode == UNAVAILABLE
    assert done.stderr.startswith(f"pjrtctl: UNIMPLEMENTED: grpc://127.0.0.1:{port} is a gRPC server, but no pjrtd: ")
    assert "hint: set PJRTD_TARGET to where pjrtd listens" in done.stderr


def test_tls(daemon: Daemon, certificates: Certificates) -> None:
    with TlsTerminator(daemon.grpc_target, certificates.certificate()) as front:
        done = ctl(None, "run", ADD, "--arg", "f32[4]=1,2,3,4", "--arg", "f32[4]=10,20,30,40",
                   env=environment(front.target, PJRTD_CA_FILE=certificates.ca_file))
        assert done.returncode == 0, done.stderr
        assert done.stdout == "f32[4]=11,22,33,44\n"


def test_tls_with_a_certificate_that_nobody_vouches_for(daemon: Daemon, certificates: Certificates) -> None:
    with TlsTerminator(daemon.grpc_target, certificates.certificate()) as front:
        assert_unavailable(info(front.target), front.target)
        with Certificates() as others:
            assert_unavailable(info(front.target, PJRTD_CA_FILE=others.ca_file), front.target, others.ca_file)


@pytest.mark.parametrize("names, days", [("DNS:elsewhere.example", 30), ("DNS:localhost", -1)], ids=["wrong host", "expired"])
def test_tls_with_a_certificate_that_does_not_fit(daemon: Daemon, certificates: Certificates, names: str, days: int) -> None:
    with TlsTerminator(daemon.grpc_target, certificates.certificate(names, days)) as front:
        assert_unavailable(info(front.target, PJRTD_CA_FILE=certificates.ca_file), front.target, certificates.ca_file)


def test_tls_to_plaintext_and_the_reverse(daemon: Daemon, certificates: Certificates) -> None:
    secure = daemon.grpc_target.replace("grpc://", "grpcs://")
    assert_unavailable(info(secure, PJRTD_CA_FILE=certificates.ca_file), secure, "with or without TLS as the target says")
    with TlsTerminator(daemon.grpc_target, certificates.certificate()) as front:
        plain = front.target.replace("grpcs://", "grpc://")
        assert_unavailable(info(plain), plain, "with or without TLS as the target says")


def test_a_daemon_that_dies(tmp_path: pathlib.Path) -> None:
    with Daemon(listen=[f"unix:{tmp_path}/s.sock", "grpc://127.0.0.1:0"]) as daemon:
        waiting = subprocess.Popen([str(binary_path().parent / "pjrtctl"), "run", str(FOREVER)], stderr=subprocess.PIPE,
                                   stdin=subprocess.DEVNULL, text=True, env=environment(daemon.grpc_target))
        deadline = time.monotonic() + 30 * PATIENCE
        while not daemon.stats().calls_in_flight and time.monotonic() < deadline:
            time.sleep(0.01)
        target = daemon.grpc_target
        daemon.kill()
        _, said = waiting.communicate(timeout=30 * PATIENCE)
        assert waiting.returncode == UNAVAILABLE
        assert said.startswith(f"pjrtctl: UNAVAILABLE: the connection to {target} is lost: ")
        assert "hint: connect again" in said
