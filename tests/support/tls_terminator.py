"""TLS in front of a plaintext gRPC port: what a proxy does that ends TLS. For the tests of clients.

    with Certificates() as ca, TlsTerminator("grpc://127.0.0.1:7578", ca.certificate()) as front:
        connect(front.target, ca.ca_file)  # grpcs://localhost:PORT

Certificates are made by the `openssl` command, and go with the context.
"""

from __future__ import annotations

import contextlib
import pathlib
import select
import socket
import ssl
import subprocess
import tempfile
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import NamedTuple

SECONDS_TO_CONNECT = 10.0


class Certificate(NamedTuple):
    """Files in PEM form."""

    chain: str
    key: str


class Certificates:
    """An authority, and what it signs. `ca_file` is what a client has to believe."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="pjrtd-tls-")
        self.folder = pathlib.Path(self._folder.name)
        self.ca_file = str(self.folder / "ca.pem")
        self._count = 0
        # A configuration of its own: the system's has other extensions.
        (self.folder / "ca.cnf").write_text(
            "[req]\ndistinguished_name=name\nx509_extensions=ca\nprompt=no\n[name]\nCN=pjrtd tests\n"
            "[ca]\nbasicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign\nsubjectKeyIdentifier=hash\n"
        )
        self._openssl("req", "-x509", *self._new_key("ca.key"), "-days", "30", "-config", "ca.cnf", "-out", "ca.pem")

    def _openssl(self, *words: str) -> None:
        run = subprocess.run(["openssl", *words], cwd=self.folder, capture_output=True, text=True, check=False)
        assert run.returncode == 0, f"openssl {' '.join(words)}: {run.stderr}"

    @staticmethod
    def _new_key(name: str) -> Sequence[str]:
        return ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", name)

    def certificate(self, names: str = "DNS:localhost,IP:127.0.0.1,IP:::1", days: int = 30) -> Certificate:
        """One for a server of these names. `days`: how long it is valid, from now on; -1: it was until yesterday."""
        self._count += 1
        name = f"server{self._count}"
        (self.folder / f"{name}.ext").write_text(
            f"subjectAltName={names}\nbasicConstraints=CA:FALSE\nextendedKeyUsage=serverAuth\nauthorityKeyIdentifier=keyid\n"
        )
        self._openssl("req", "-new", *self._new_key(f"{name}.key"), "-subj", f"/CN={name}", "-out", f"{name}.csr")
        self._openssl("x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-set_serial",
                      str(self._count), "-days", str(days), "-extfile", f"{name}.ext", "-out", f"{name}.pem")
        return Certificate(str(self.folder / f"{name}.pem"), str(self.folder / f"{name}.key"))

    def __enter__(self) -> Certificates:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self._folder.cleanup()


class TlsTerminator:
    """Listens on a port of its own and passes what is in TLS on to `backend`, grpc://HOST:PORT. `alpn`: what it offers."""

    def __init__(self, backend: str, certificate: Certificate, alpn: Sequence[str] = ("h2",)) -> None:
        host, _, port = backend.removeprefix("grpc://").rpartition(":")
        self._backend = (host.strip("[]"), int(port))
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self._context.load_cert_chain(certificate.chain, certificate.key)
        if alpn:
            self._context.set_alpn_protocols(list(alpn))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.target = f"grpcs://localhost:{self.port}"
        self.failures: list[str] = []  # of handshakes
        self._links: list[socket.socket] = []
        self._closing = False
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def _accept(self) -> None:
        while not self._closing:
            try:
                link, _ = self._listener.accept()
            except OSError:
                return
            thread = threading.Thread(target=self._serve, args=(link,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, link: socket.socket) -> None:
        self._links.append(link)
        try:
            with link:
                link.settimeout(SECONDS_TO_CONNECT)
                with self._context.wrap_socket(link, server_side=True) as front:
                    with socket.create_connection(self._backend, SECONDS_TO_CONNECT) as back:
                        for each in (front, back):
                            each.setblocking(False)
                            each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                        self._links += [front, back]
                        _relay(front, back)
        except ssl.SSLError as error:
            self.failures.append(str(error))
        except OSError as error:
            if not self._closing:
                self.failures.append(str(error))

    def close(self) -> None:
        """Ends all connections."""
        self._closing = True
        for link in (self._listener, *self._links):
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()

    def __enter__(self) -> TlsTerminator:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None) -> None:
        self.close()


def _relay(front: ssl.SSLSocket, back: socket.socket) -> None:
    """Carries bytes both ways until one side ends. What waits to be sent is bounded: a side is read only when nothing
    waits for the other."""
    to_back = to_front = b""
    while True:
        wanted = {front: 0, back: 0}
        if not to_back:
            try:
                to_back = front.recv(256 << 10)
                if not to_back:
                    return
            except ssl.SSLWantReadError:
                wanted[front] |= select.POLLIN
            except ssl.SSLEOFError:
                return  # it did not say that it would end
        if to_back:
            with contextlib.suppress(BlockingIOError):
                to_back = to_back[back.send(to_back):]
            if to_back:
                wanted[back] |= select.POLLOUT
        if not to_front:
            try:
                to_front = back.recv(256 << 10)
                if not to_front:
                    return
            except BlockingIOError:
                wanted[back] |= select.POLLIN
        if to_front:
            with contextlib.suppress(ssl.SSLWantWriteError):
                to_front = to_front[front.send(to_front):]
            if to_front:
                wanted[front] |= select.POLLOUT
        # Whoever moved something may have more to move at once.
        moving = not to_back and not wanted[front] & select.POLLIN or not to_front and not wanted[back] & select.POLLIN
        if not moving:
            poller = select.poll()
            for link, events in wanted.items():
                poller.register(link, events)
            poller.poll(1000)
