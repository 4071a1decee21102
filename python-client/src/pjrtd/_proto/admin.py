"""What an operator asks."""
# Written by tools/gen_proto.py from proto/pjrtd/v1/admin.proto.

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

from .wire import (
    get_int32,
    get_size,
    get_tag,
    get_uint32,
    get_uint64,
    Message,
    put_bytes,
    put_int32,
    put_uint32,
    put_uint64,
    skip,
)


class LaneStats(Message):
    __slots__ = ("device", "jobs", "queued", "busy_ns", "stuck", "waited_ns", "longest_wait_ns", "outstanding")

    def __init__(
        self,
        device: int = 0,
        jobs: int = 0,
        queued: int = 0,
        busy_ns: int = 0,
        stuck: int = 0,
        waited_ns: int = 0,
        longest_wait_ns: int = 0,
        outstanding: int = 0,
    ) -> None:
        self.device: int = device
        self.jobs: int = jobs
        self.queued: int = queued
        self.busy_ns: int = busy_ns
        self.stuck: int = stuck
        self.waited_ns: int = waited_ns
        self.longest_wait_ns: int = longest_wait_ns
        self.outstanding: int = outstanding

    def encode(self) -> bytes:
        out = bytearray()
        if self.device:
            out += b"\x08"
            put_int32(out, self.device)
        if self.jobs:
            out += b"\x10"
            put_uint64(out, self.jobs)
        if self.queued:
            out += b"\x18"
            put_uint64(out, self.queued)
        if self.busy_ns:
            out += b"\x20"
            put_uint64(out, self.busy_ns)
        if self.stuck:
            out += b"\x28"
            put_uint32(out, self.stuck)
        if self.waited_ns:
            out += b"\x30"
            put_uint64(out, self.waited_ns)
        if self.longest_wait_ns:
            out += b"\x38"
            put_uint64(out, self.longest_wait_ns)
        if self.outstanding:
            out += b"\x40"
            put_uint32(out, self.outstanding)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.device, pos = get_int32(data, pos, end)
            elif tag == 16:
                self.jobs, pos = get_uint64(data, pos, end)
            elif tag == 24:
                self.queued, pos = get_uint64(data, pos, end)
            elif tag == 32:
                self.busy_ns, pos = get_uint64(data, pos, end)
            elif tag == 40:
                self.stuck, pos = get_uint32(data, pos, end)
            elif tag == 48:
                self.waited_ns, pos = get_uint64(data, pos, end)
            elif tag == 56:
                self.longest_wait_ns, pos = get_uint64(data, pos, end)
            elif tag == 64:
                self.outstanding, pos = get_uint32(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)


class StatsReply(Message):
    __slots__ = ("uptime_ns", "connections", "connections_total", "sessions", "buffers", "buffer_bytes", "programs", "calls_total", "calls_failed", "calls_in_flight", "executes_on_loop", "executes_on_lane", "compiles", "compile_ns", "bytes_received", "bytes_sent", "loop_stalls", "loop_longest_turn_ns", "wire_errors", "clients_cut_off", "resident_bytes", "open_descriptors", "threads", "lanes", "loop_turns", "staging_bytes")

    def __init__(
        self,
        uptime_ns: int = 0,
        connections: int = 0,
        connections_total: int = 0,
        sessions: int = 0,
        buffers: int = 0,
        buffer_bytes: int = 0,
        programs: int = 0,
        calls_total: int = 0,
        calls_failed: int = 0,
        calls_in_flight: int = 0,
        executes_on_loop: int = 0,
        executes_on_lane: int = 0,
        compiles: int = 0,
        compile_ns: int = 0,
        bytes_received: int = 0,
        bytes_sent: int = 0,
        loop_stalls: int = 0,
        loop_longest_turn_ns: int = 0,
        wire_errors: int = 0,
        clients_cut_off: int = 0,
        resident_bytes: int = 0,
        open_descriptors: int = 0,
        threads: int = 0,
        lanes: Iterable[LaneStats] = (),
        loop_turns: int = 0,
        staging_bytes: int = 0,
    ) -> None:
        self.uptime_ns: int = uptime_ns
        self.connections: int = connections
        self.connections_total: int = connections_total
        self.sessions: int = sessions
        self.buffers: int = buffers
        self.buffer_bytes: int = buffer_bytes
        self.programs: int = programs
        self.calls_total: int = calls_total
        self.calls_failed: int = calls_failed
        self.calls_in_flight: int = calls_in_flight
        self.executes_on_loop: int = executes_on_loop
        self.executes_on_lane: int = executes_on_lane
        self.compiles: int = compiles
        self.compile_ns: int = compile_ns
        self.bytes_received: int = bytes_received
        self.bytes_sent: int = bytes_sent
        self.loop_stalls: int = loop_stalls
        self.loop_longest_turn_ns: int = loop_longest_turn_ns
        self.wire_errors: int = wire_errors
        self.clients_cut_off: int = clients_cut_off
        self.resident_bytes: int = resident_bytes
        self.open_descriptors: int = open_descriptors
        self.threads: int = threads
        self.lanes: list[LaneStats] = list(lanes)
        self.loop_turns: int = loop_turns
        self.staging_bytes: int = staging_bytes

    def encode(self) -> bytes:
        out = bytearray()
        if self.uptime_ns:
            out += b"\x08"
            put_uint64(out, self.uptime_ns)
        if self.connections:
            out += b"\x10"
            put_uint64(out, self.connections)
        if self.connections_total:
            out += b"\x18"
            put_uint64(out, self.connections_total)
        if self.sessions:
            out += b"\x20"
            put_uint64(out, self.sessions)
        if self.buffers:
            out += b"\x28"
            put_uint64(out, self.buffers)
        if self.buffer_bytes:
            out += b"\x30"
            put_uint64(out, self.buffer_bytes)
        if self.programs:
            out += b"\x38"
            put_uint64(out, self.programs)
        if self.calls_total:
            out += b"\x40"
            put_uint64(out, self.calls_total)
        if self.calls_failed:
            out += b"\x48"
            put_uint64(out, self.calls_failed)
        if self.calls_in_flight:
            out += b"\x50"
            put_uint64(out, self.calls_in_flight)
        if self.executes_on_loop:
            out += b"\x58"
            put_uint64(out, self.executes_on_loop)
        if self.executes_on_lane:
            out += b"\x60"
            put_uint64(out, self.executes_on_lane)
        if self.compiles:
            out += b"\x68"
            put_uint64(out, self.compiles)
        if self.compile_ns:
            out += b"\x70"
            put_uint64(out, self.compile_ns)
        if self.bytes_received:
            out += b"\x78"
            put_uint64(out, self.bytes_received)
        if self.bytes_sent:
            out += b"\x80\x01"
            put_uint64(out, self.bytes_sent)
        if self.loop_stalls:
            out += b"\x88\x01"
            put_uint64(out, self.loop_stalls)
        if self.loop_longest_turn_ns:
            out += b"\x90\x01"
            put_uint64(out, self.loop_longest_turn_ns)
        if self.wire_errors:
            out += b"\x98\x01"
            put_uint64(out, self.wire_errors)
        if self.clients_cut_off:
            out += b"\xa0\x01"
            put_uint64(out, self.clients_cut_off)
        if self.resident_bytes:
            out += b"\xa8\x01"
            put_uint64(out, self.resident_bytes)
        if self.open_descriptors:
            out += b"\xb0\x01"
            put_uint64(out, self.open_descriptors)
        if self.threads:
            out += b"\xb8\x01"
            put_uint64(out, self.threads)
        for value in self.lanes:
            out += b"\xc2\x01"
            put_bytes(out, value.encode())
        if self.loop_turns:
            out += b"\xc8\x01"
            put_uint64(out, self.loop_turns)
        if self.staging_bytes:
            out += b"\xd0\x01"
            put_uint64(out, self.staging_bytes)
        return bytes(out)

    def merge(self, data: bytes, pos: int, end: int) -> None:
        while pos < end:
            tag, pos = get_tag(data, pos, end)
            if tag == 8:
                self.uptime_ns, pos = get_uint64(data, pos, end)
            elif tag == 16:
                self.connections, pos = get_uint64(data, pos, end)
            elif tag == 24:
                self.connections_total, pos = get_uint64(data, pos, end)
            elif tag == 32:
                self.sessions, pos = get_uint64(data, pos, end)
            elif tag == 40:
                self.buffers, pos = get_uint64(data, pos, end)
            elif tag == 48:
                self.buffer_bytes, pos = get_uint64(data, pos, end)
            elif tag == 56:
                self.programs, pos = get_uint64(data, pos, end)
            elif tag == 64:
                self.calls_total, pos = get_uint64(data, pos, end)
            elif tag == 72:
                self.calls_failed, pos = get_uint64(data, pos, end)
            elif tag == 80:
                self.calls_in_flight, pos = get_uint64(data, pos, end)
            elif tag == 88:
                self.executes_on_loop, pos = get_uint64(data, pos, end)
            elif tag == 96:
                self.executes_on_lane, pos = get_uint64(data, pos, end)
            elif tag == 104:
                self.compiles, pos = get_uint64(data, pos, end)
            elif tag == 112:
                self.compile_ns, pos = get_uint64(data, pos, end)
            elif tag == 120:
                self.bytes_received, pos = get_uint64(data, pos, end)
            elif tag == 128:
                self.bytes_sent, pos = get_uint64(data, pos, end)
            elif tag == 136:
                self.loop_stalls, pos = get_uint64(data, pos, end)
            elif tag == 144:
                self.loop_longest_turn_ns, pos = get_uint64(data, pos, end)
            elif tag == 152:
                self.wire_errors, pos = get_uint64(data, pos, end)
            elif tag == 160:
                self.clients_cut_off, pos = get_uint64(data, pos, end)
            elif tag == 168:
                self.resident_bytes, pos = get_uint64(data, pos, end)
            elif tag == 176:
                self.open_descriptors, pos = get_uint64(data, pos, end)
            elif tag == 184:
                self.threads, pos = get_uint64(data, pos, end)
            elif tag == 194:
                size, pos = get_size(data, pos, end)
                item = LaneStats()
                item.merge(data, pos, pos + size)
                self.lanes.append(item)
                pos += size
            elif tag == 200:
                self.loop_turns, pos = get_uint64(data, pos, end)
            elif tag == 208:
                self.staging_bytes, pos = get_uint64(data, pos, end)
            else:
                pos = skip(data, pos, end, tag)
