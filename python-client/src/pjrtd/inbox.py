"""What a connection receives: frames of the daemon, brought to the calls that they belong to.

Only who reads the connection calls this (waiting.py). A signal may make it see a frame twice; each step is then
repeated or recognised by the frame's serial number.
"""

from __future__ import annotations

from . import frame
from .frame import DOWNLOAD_CREDIT_BYTES
from ._proto.common import Error
from ._proto.wire import decode
from .call import Call, CallTable, RunCall
from .errors import DataLoss, Internal, PjrtError, from_wire
from .transport import BulkTarget, FrameSink

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .outbox import Outbox

_REPLY = frame.REPLY
_ERROR = frame.ERROR
_CREDIT = frame.CREDIT
_ITEM = frame.ITEM
_NOTICE = frame.NOTICE


class Inbox(FrameSink):
    __slots__ = ("_table", "_calls", "_outbox", "_last")

    def __init__(self, table: CallTable, outbox: Outbox) -> None:
        self._table = table
        self._calls = table.calls
        self._outbox = outbox
        self._last = -1  # the serial number of the last frame that was dealt with

    def begin_anew(self) -> None:
        """What comes from here on comes over another link, which counts its frames from 0."""
        self._last = -1

    def on_frame(
        self, kind: int, serial: int, call: int, data: bytearray, body: int, after: int, bulk: int, end: int
    ) -> None:
        if serial == self._last:
            return
        found = self._calls.get(call)
        if call > self._table.acked:
            self._table.acked = call
        if kind == _REPLY:
            if found is None or found.done:
                pass
            elif found.expected == end - bulk:
                if found.destination is not None:
                    found.destination[:] = data[bulk:end]
                else:
                    found.bulk = data[bulk:end]
                self._end(found, serial)
            else:
                found.payload = bytes(data[body:after])
                if found.expected < 0:
                    found.bulk = data[bulk:end]
                    self._end(found, serial)
                else:
                    self._expect_items(found, serial, end - bulk)
        elif kind == _ERROR:
            error = from_wire(decode(Error, data[body:after]))
            if not call:
                self._table.fail(error)
            elif found is not None:
                found.error = error
                self._end(found, serial)
            else:
                if self._table.resumes:
                    self._table.heard.add(call)
                if self._table.quiet_failure is None:
                    self._table.quiet_failure = (call, error)
        elif kind == _CREDIT:
            if found is not None:
                from ._proto.frame import Credit

                credit = found.credit + decode(Credit, data[body:after]).bytes
                found.credit = credit
                self._last = serial  # no signal comes between these two assignments
                found.notify()
        elif kind == _ITEM and (found is None or isinstance(found, RunCall)):
            if found is not None and not found.done:
                found.add(bytes(data[body:after]), bytes(data[bulk:end]))
        elif kind == _NOTICE:
            from ._proto.frame import Notice

            self._table.notice = decode(Notice, data[body:after]).message
        else:
            self._table.fail(Internal(f"the daemon sent a frame of kind {kind}, which call {call} cannot get"))
        self._last = serial

    def _expect_items(self, call: Call, serial: int, inline_bytes: int) -> None:
        from ._proto.buffer import DownloadReply

        announced = decode(DownloadReply, call.payload).data_bytes
        if inline_bytes or announced != call.expected:
            call.error = DataLoss(f"the buffer has {call.expected} bytes, and the daemon sends {announced}")
            self._end(call, serial)

    def _end(self, call: Call, serial: int) -> None:
        call.done = True
        self._last = serial  # before the call is forgotten: a repeated frame would be taken for a quiet failure
        self._calls.pop(call.id, None)
        if call.gate is not None:
            call.notify()
        if call.on_done is not None:
            call.on_done(call)

    def find_bulk_target(self, call: int) -> BulkTarget:
        found = self._calls.get(call)
        if found is None or found.done:
            return BulkTarget()
        if found.expected < 0 or not found.payload:
            raise Internal(f"the daemon sent data for call {call}, which waits for none")
        return found

    def on_item(self, target: BulkTarget, filled: int) -> None:
        target.filled = filled
        if not isinstance(target, Call):
            return
        if filled >= target.expected:
            self._end(target, self._last)
        elif self._table.failure is None and target.granted < target.expected and filled + DOWNLOAD_CREDIT_BYTES // 2 >= target.granted:
            from ._proto.frame import Credit

            grant = filled + DOWNLOAD_CREDIT_BYTES - target.granted
            self._outbox.grant(target, Credit(grant).encode())
            target.granted += grant

    def reported(self, error: PjrtError) -> PjrtError:
        """Notes that somebody hears of a quiet call's failure by this error, so that sync need not repeat it."""
        failure = self._table.quiet_failure
        if failure is not None and error.origin_call == failure[0]:
            self._table.quiet_failure = None
        return error
