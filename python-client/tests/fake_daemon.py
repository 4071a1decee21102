"""A scripted peer: enough of a daemon to test the client against, and to misbehave on demand. Not a model of pjrtd.

A program's text says what it takes and gives, as in "f32[8],f32[]->f32[8] donate0": it gives its first argument back.
"fail" in it makes every run fail.
"""

from __future__ import annotations

import re
import socket
import struct
import threading
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from pjrtd._proto import methods
from pjrtd._proto.admin import StatsReply
from pjrtd._proto.buffer import BufferRequest, DeleteRequest, DownloadReply, DownloadRequest, StatReply, UploadRequest
from pjrtd._proto.common import Attribute, Error, TensorType
from pjrtd._proto.execute import ExecuteRequest
from pjrtd._proto.frame import Credit
from pjrtd._proto.program import CompileReply, CompileRequest, ProgramDescription, ProgramTensor, ReleaseRequest
from pjrtd._proto.runtime import (
    DefaultAssignmentReply,
    DefaultAssignmentRequest,
    DeviceInfo,
    DevicesReply,
    HelloReply,
    InfoReply,
    MemoriesReply,
    MemoryInfo,
)
from pjrtd._proto.session import SyncReply
from pjrtd._proto.wire import decode
from pjrtd.dtype import DType

REQUEST, REPLY, ERROR, ITEM, END, CANCEL, CREDIT = range(1, 8)
HEADER = struct.Struct("<4sIIHBBQQ")


class Frame(NamedTuple):
    kind: int
    method: int
    call: int
    flags: int
    deadline_ns: int
    payload: bytes
    bulk: bytes


class Poison(NamedTuple):
    error: Error


def pack(kind: int, method: int, call: int, payload: bytes = b"", bulk: bytes = b"") -> bytes:
    return HEADER.pack(b"PJRT", len(payload), len(bulk), method, kind, 0, call, 0) + payload + bulk


def parse_type(text: str) -> TensorType:
    name, dims = re.fullmatch(r"(\w+)\[([\d,]*)\]", text.strip()).groups()  # type: ignore[union-attr]
    return TensorType(DType(name), [int(dim) for dim in dims.split(",") if dim])


def size_of(type: TensorType) -> int:
    size = DType(type.dtype).itemsize
    for dim in type.dims:
        size *= dim
    return size


class Peer:
    """One connection of the fake daemon, served by a thread of its own."""

    def __init__(self, daemon: FakeDaemon, link: socket.socket) -> None:
        self.daemon = daemon
        self.link = link
        self.frames: list[Frame] = []
        self.buffers: dict[int, tuple[TensorType, bytes, int] | Poison] = {}
        self.donated: set[int] = set()
        self.programs: dict[int, tuple[str, ProgramDescription]] = {}
        self.uploads: dict[int, tuple[Frame, bytearray, int]] = {}
        self.credit: dict[int, int] = {}
        self.cancelled: set[int] = set()
        self.failure = (0, None)
        self.errors: list[str] = []
        self.last_call = 0
        self.thread = threading.Thread(target=self.run, daemon=True)

    def run(self) -> None:
        try:
            while True:
                frame = self.read()
                if frame is None:
                    return
                self.serve(frame)
        except OSError:
            pass
        except Exception:  # shown by the test's fixture
            self.errors.append(traceback.format_exc())
        finally:
            self.link.close()

    def read_exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            piece = self.link.recv(count - len(data))
            if not piece:
                raise OSError("closed")
            data += piece
        return bytes(data)

    def read(self) -> Frame | None:
        magic, payload_bytes, bulk_bytes, method, kind, flags, call, deadline_ns = HEADER.unpack(
            self.read_exactly(HEADER.size)
        )
        assert magic == b"PJRT", magic
        payload = self.read_exactly(payload_bytes)
        bulk = self.read_exactly(bulk_bytes)
        frame = Frame(kind, method, call, flags, deadline_ns, payload, bulk)
        if kind == REQUEST:
            assert call > self.last_call, f"call {call} after {self.last_call}"
            self.last_call = call
        self.frames.append(frame._replace(bulk=bulk if len(bulk) < 1000 else b"%d bytes" % len(bulk)))
        return frame

    def send(self, data: bytes) -> None:
        self.link.sendall(data)

    def reply(self, frame: Frame, message: Any = None, bulk: bytes = b"") -> None:
        if not frame.flags & 1:
            self.send(pack(REPLY, frame.method, frame.call, message.encode() if message is not None else b"", bulk))

    def fail(self, frame: Frame, code: int, message: str, **details: Any) -> None:
        self.fail_with(frame, Error(code, message, **details))

    def fail_with(self, frame: Frame, error: Error) -> None:
        if frame.flags & 1 and not self.failure[0]:
            self.failure = (frame.call, error)
        self.send(pack(ERROR, frame.method, frame.call, error.encode()))

    def serve(self, frame: Frame) -> None:
        hook = self.daemon.hooks.get(frame.method if frame.kind == REQUEST else -frame.kind)
        if hook is not None and hook(self, frame):
            return
        if frame.kind == CREDIT:
            self.credit[frame.call] = self.credit.get(frame.call, 0) + decode(Credit, frame.payload).bytes
        elif frame.kind == CANCEL:
            self.cancelled.add(frame.call)
            upload = self.uploads.pop(frame.call, None)
            if upload is not None:
                if frame.method == methods.BUFFER_UPLOAD:
                    made = decode(UploadRequest, upload[0].payload).buffer
                    self.buffers[made] = Poison(Error(1, "cancelled", origin_call=frame.call))
                else:
                    made = decode(CompileRequest, upload[0].payload).program
                    self.programs[made] = ("", ProgramDescription())
                self.fail(frame, 1, "cancelled")
        elif frame.kind == ITEM:
            self.item(frame)
        else:
            name = methods.METHODS[frame.method][0].replace(".", "_").lower()
            getattr(self, name)(frame)

    # ---- methods ----

    def runtime_hello(self, frame: Frame) -> None:
        self.reply(frame, self.daemon.hello)

    def runtime_info(self, frame: Frame) -> None:
        self.reply(frame, self.daemon.info)

    def runtime_devices(self, frame: Frame) -> None:
        self.reply(frame, self.daemon.devices)

    def runtime_memories(self, frame: Frame) -> None:
        self.reply(frame, self.daemon.memories)

    def runtime_defaultassignment(self, frame: Frame) -> None:
        request = decode(DefaultAssignmentRequest, frame.payload)
        self.reply(frame, DefaultAssignmentReply(range(request.num_replicas * request.num_partitions)))

    def session_close(self, frame: Frame) -> None:
        self.buffers.clear()
        self.reply(frame)

    def session_sync(self, frame: Frame) -> None:
        self.reply(frame, SyncReply(frame.call, *self.failure))
        self.failure = (0, None)

    def admin_stats(self, frame: Frame) -> None:
        self.reply(frame, StatsReply(buffers=len(self.buffers), programs=len(self.programs)))

    def needs_items(self, frame: Frame, size: int) -> bool:
        if not size or frame.bulk:
            assert len(frame.bulk) == size, (len(frame.bulk), size)
            return False
        self.uploads[frame.call] = (frame, bytearray(), size)
        self.credit[frame.call] = self.daemon.hello.upload_credit_bytes
        return True

    def item(self, frame: Frame) -> None:
        upload = self.uploads.get(frame.call)
        if upload is None:
            return
        request, data, size = upload
        data += frame.bulk
        assert len(data) <= self.credit[frame.call], "sent beyond the window"
        if len(data) < size:
            self.credit[frame.call] += len(frame.bulk)
            self.send(pack(CREDIT, frame.method, frame.call, Credit(len(frame.bulk)).encode()))
            return
        del self.uploads[frame.call]
        self.serve(request._replace(bulk=bytes(data), kind=REQUEST))

    def buffer_upload(self, frame: Frame) -> None:
        request = decode(UploadRequest, frame.payload)
        assert request.type is not None
        assert request.data_bytes == size_of(request.type)
        if not self.needs_items(frame, request.data_bytes):
            self.buffers[request.buffer] = (request.type, frame.bulk, request.device or 0)
            self.reply(frame)

    def find(self, frame: Frame, buffer: int) -> tuple[TensorType, bytes, int] | None:
        found = self.buffers.get(buffer)
        if isinstance(found, Poison):
            self.fail_with(frame, found.error)
            return None
        if found is None:
            self.fail(frame, 5, f"no buffer {buffer}")
        elif buffer in self.donated:
            self.fail(frame, 3, "was donated")
            return None
        return found

    def buffer_download(self, frame: Frame) -> None:
        found = self.find(frame, decode(DownloadRequest, frame.payload).buffer)
        if found is None:
            return
        type, data, _ = found
        if len(data) <= self.daemon.hello.max_inline_bytes:
            self.reply(frame, DownloadReply(type, len(data)), data)
            return
        self.reply(frame, DownloadReply(type, len(data)))
        self.credit[frame.call] = self.daemon.download_credit
        at = 0
        step = self.daemon.hello.max_item_bytes
        while at < len(data):
            while at + step > self.credit[frame.call] and at + step < len(data) + step and self.credit[frame.call] < len(data):
                waiting = self.read()
                assert waiting is not None
                self.serve(waiting)
            if frame.call in self.cancelled:
                self.fail(frame, 1, "cancelled")
                return
            self.send(pack(ITEM, frame.method, frame.call, b"", data[at : at + step]))
            at += step

    def buffer_stat(self, frame: Frame) -> None:
        buffer = decode(BufferRequest, frame.payload).buffer
        found = self.buffers.get(buffer)
        if isinstance(found, tuple) and not isinstance(found, Poison):
            self.reply(frame, StatReply(found[0], len(found[1]), len(found[1]), found[2], 0, is_deleted=buffer in self.donated))
        else:
            self.find(frame, buffer)

    def buffer_delete(self, frame: Frame) -> None:
        for buffer in decode(DeleteRequest, frame.payload).buffers:
            if buffer not in self.buffers:
                self.errors.append(f"buffer {buffer} deleted, which is not there")
            self.buffers.pop(buffer, None)

    def program_compile(self, frame: Frame) -> None:
        request = decode(CompileRequest, frame.payload)
        if self.needs_items(frame, request.code_bytes):
            return
        text = frame.bulk.decode()
        if "->" not in text:
            self.programs[request.program] = (text, ProgramDescription())
            self.fail(frame, 3, f"does not parse: {text}", hint="write it right")
            return
        takes, gives = text.partition(" ")[0].split("->")
        options = request.options
        count = max(1, options.num_replicas * options.num_partitions) if options is not None else 1
        description = ProgramDescription(
            "main",
            count,
            1,
            range(count),
            [ProgramTensor(parse_type(t), donated=f"donate{i}" in text) for i, t in enumerate(split_types(takes))],
            [ProgramTensor(parse_type(t)) for t in split_types(gives)],
            fingerprint="abcd",
        )
        self.programs[request.program] = (text, description)
        self.reply(frame, CompileReply(description, 5))

    def program_release(self, frame: Frame) -> None:
        for program in decode(ReleaseRequest, frame.payload).programs:
            del self.programs[program]

    def execute_execute(self, frame: Frame) -> None:
        request = decode(ExecuteRequest, frame.payload)
        text, description = self.programs[request.program]
        inline: dict[int, bytes] = {}
        at = 0
        for argument in request.inline_args:
            assert request.args[argument.position] == 0
            inline[argument.position] = frame.bulk[at : at + argument.data_bytes]
            at += argument.data_bytes
        assert at == len(frame.bulk)
        error = Error(13, "it was to fail", origin_call=frame.call) if "fail" in text else None
        values: list[bytes] = []
        for position, buffer in enumerate(request.args):
            if position in inline:
                values.append(inline[position])
                continue
            found = self.buffers.get(buffer)
            if isinstance(found, Poison):
                error = error or found.error
            elif found is None:
                error = error or Error(5, f"no buffer {buffer}", origin_call=frame.call)
            elif buffer in self.donated:
                error = error or Error(3, "was donated", origin_call=frame.call)
            else:
                values.append(found[1])
        for position, buffer in enumerate(request.outputs):
            result = description.outputs[position % len(description.outputs)].type
            assert result is not None
            if error is None:
                data = (values[0] if values else b"")[: size_of(result)].ljust(size_of(result), b"\0")
                self.buffers[buffer] = (result, data, 0)
            else:
                self.buffers[buffer] = Poison(error)
        if error is not None:
            self.fail_with(frame, error)
            return
        for position, argument in enumerate(description.args):
            if argument.donated and request.args[position] and position not in request.non_donatable:
                self.donated.add(request.args[position])
        self.reply(frame)


def split_types(text: str) -> list[str]:
    return re.findall(r"\w+\[[\d,]*\]", text)


Hook = Callable[[Peer, Frame], bool]


class FakeDaemon:
    """Listens on a socket of its own. `hooks`: method id, or minus the kind of another frame, -> a function that is
    called first and says whether it dealt with the frame."""

    def __init__(self, folder: Path) -> None:
        self.path = str(folder / "fake.sock")
        self.target = f"unix:{self.path}"
        self.hooks: dict[int, Hook] = {}
        self.download_credit = 8 << 20
        self.hello = HelloReply(
            version=1,
            server_epoch=7,
            server_version="0",
            id_prefix=3,
            max_payload_bytes=1 << 20,
            max_inline_bytes=64 << 10,
            max_item_bytes=1 << 20,
            upload_credit_bytes=4 << 20,
            max_calls_in_flight=64,
        )
        self.info = InfoReply(
            server_version="0.0.1",
            server_epoch=7,
            pid=1,
            plugin_path="/lib/fake.so",
            pjrt_major=0,
            pjrt_minor=115,
            platform_name="cpu",
            platform_version="fake 1",
            stablehlo_current="1.20.0",
            stablehlo_minimum="0.9.0",
            extensions=["layouts", "ffi", "unknown-77"],
            attributes=[Attribute("xla_version", integer=2)],
            create_options=[Attribute("cpu_device_count", integer=2)],
        )
        self.devices = DevicesReply(
            [
                DeviceInfo(0, "cpu", 0, 0, True, "d0", "Cpu0", [0, 1], 0, [Attribute("speed", real=1.5)]),
                DeviceInfo(1, "cpu", 1, 0, True, "d1", "Cpu1", [2], 2, memory_stats=[Attribute("bytes_in_use", integer=5)]),
            ]
        )
        self.memories = MemoriesReply(
            [
                MemoryInfo(0, "device", 1, "m0", "memory 0", [0]),
                MemoryInfo(1, "pinned_host", 2, "m1", "memory 1", [0]),
                MemoryInfo(2, "device", 1, "m2", "memory 2", [1]),
            ]
        )
        self.peers: list[Peer] = []
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(self.path)
        self.listener.listen()
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self) -> None:
        while True:
            try:
                link, _ = self.listener.accept()
            except OSError:
                return
            self.peers.append(Peer(self, link))
            self.peer.thread.start()

    @property
    def peer(self) -> Peer:
        """The latest connection."""
        return self.peers[-1]

    def stop(self) -> None:
        try:
            self.listener.shutdown(socket.SHUT_RDWR)
        except OSError:
            return  # it was stopped already
        self.listener.close()
        for peer in self.peers:
            try:
                peer.link.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass
            if peer.thread.ident is not None:  # it may just have come
                peer.thread.join(5)
