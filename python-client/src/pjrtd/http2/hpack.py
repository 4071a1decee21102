"""HPACK (RFC 7541): header blocks to header lists and back. Names and values are bytes.

Both directions keep a table that must stay in step with the peer's. So the work is split from its effect: `prepare`
changes nothing and returns the table that the block leads to, and the caller assigns that to `table` at the moment at
which the block counts as received, or as sent.
"""

from __future__ import annotations

from . import huffman
from .hpack_static import STATIC
from .http2_errors import HpackError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    Header = tuple[bytes, bytes]
    # entries, newest first; their size as the standard counts it; the size that they may have
    DecoderTable = tuple[tuple[Header, ...], int, int]
    # entries, newest first; serial number of each; their size; the size that they may have; how many there ever were
    EncoderTable = tuple[tuple[Header, ...], dict[Header, int], int, int, int]

DEFAULT_TABLE_BYTES = 4096
MAX_LIST_BYTES = 64 << 10  # of a decoded header list, with the standard's 32 bytes for each field
ENTRY_OVERHEAD_BYTES = 32
MAX_INTEGER_BYTES = 5  # with the one that has the prefix in it: up to 2**28 or so, far more than anything here can be

# Secrets, which a peer on the way must not learn by trying what compresses well (RFC 7541, section 7.1).
NEVER_INDEXED = frozenset(
    (b"authorization", b"proxy-authorization", b"cookie", b"set-cookie", b"pjrtd-session"),
)
# What differs in every request would only push useful entries out.
NOT_INDEXED = frozenset((b"grpc-timeout", b"content-length"))

_STATIC_COUNT = len(STATIC)
_FIELDS = {field: index for index, field in enumerate(STATIC) if index}
_NAMES = {field[0]: index for index, field in reversed(tuple(enumerate(STATIC))) if index}

_NAME_BYTES = b"!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyz"
_FORBIDDEN_IN_VALUES = b"\x00\r\n"


def is_field_name(name: bytes) -> bool:
    """Whether it can be the name of a field of HTTP/2, pseudo-headers included."""
    bare = name[1:] if name[:1] == b":" else name
    return bare != b"" and not bare.translate(None, _NAME_BYTES)


def is_field_value(value: bytes) -> bool:
    """Whether it can be the value of a field of HTTP/2."""
    return value == value.strip(b" \t") and value == value.translate(None, _FORBIDDEN_IN_VALUES)


def _get_integer(data: bytes, pos: int, mask: int) -> tuple[int, int]:
    """(value, next position) of the integer whose first byte is data[pos], in the bits of `mask`. IndexError at the
    end of the data."""
    value = data[pos] & mask
    pos += 1
    if value < mask:
        return value, pos
    last = pos + MAX_INTEGER_BYTES - 1
    shift = 0
    while pos < last:
        byte = data[pos]
        pos += 1
        value += (byte & 127) << shift
        if byte < 128:
            return value, pos
        shift += 7
    raise HpackError(f"an integer is longer than {MAX_INTEGER_BYTES} bytes")


def _get_string(data: bytes, pos: int) -> tuple[bytes, int]:
    coded = data[pos] & 128
    size, pos = _get_integer(data, pos, 127)
    end = pos + size
    if end > len(data):
        raise HpackError("the header block is cut short in a string")
    text = data[pos:end]
    return (huffman.decode(text) if coded else text), end


def _evict(entries: list[Header], size: int, limit: int) -> int:
    """Drops the oldest entries until they fit; their size then."""
    while size > limit:
        name, value = entries.pop()
        size -= len(name) + len(value) + ENTRY_OVERHEAD_BYTES
    return size


class Decoder:
    """Of the header blocks of one connection, in the order in which they come.

    max_table_bytes: what SETTINGS_HEADER_TABLE_SIZE allows the peer. Once it is less than the table has, the peer's
    next block must begin by saying so.
    max_list_bytes: how large a header list may be.
    table: what the blocks up to now have led to.
    """

    __slots__ = ("max_table_bytes", "max_list_bytes", "table")

    def __init__(self, max_table_bytes: int = DEFAULT_TABLE_BYTES, max_list_bytes: int = MAX_LIST_BYTES) -> None:
        self.max_table_bytes = max_table_bytes
        self.max_list_bytes = max_list_bytes
        self.table: DecoderTable = ((), 0, DEFAULT_TABLE_BYTES)

    def decode(self, block: bytes) -> list[Header] | None:
        """`prepare`, and takes the table over."""
        headers, table = self.prepare(block)
        self.table = table
        return headers

    def prepare(self, block: bytes) -> tuple[list[Header] | None, DecoderTable]:
        """(header list, table) by a whole block. There is no list where it would be over max_list_bytes; the table is
        right all the same. Raises HpackError for every block that is not right."""
        try:
            return self._prepare(block)
        except IndexError:  # of data[pos] alone; all other indexes are checked
            raise HpackError("the header block is cut short") from None

    def _prepare(self, block: bytes) -> tuple[list[Header] | None, DecoderTable]:
        entries, size, limit = old = self.table
        changed: list[Header] | None = None  # the entries, as soon as they differ
        headers: list[Header] = []
        total = 0
        pos, end = 0, len(block)
        while pos < end and block[pos] & 0xE0 == 0x20:
            limit, pos = _get_integer(block, pos, 31)
            if limit > self.max_table_bytes:
                raise HpackError(f"the peer sets a table size of {limit} where {self.max_table_bytes} is allowed")
            if changed is None:
                changed = list(entries)
            size = _evict(changed, size, limit)
        if limit > self.max_table_bytes:
            raise HpackError(f"the peer does not shrink its table from {limit} to {self.max_table_bytes} bytes")
        while pos < end:
            first = block[pos]
            if first & 128:
                index, pos = _get_integer(block, pos, 127)
                field = self._find(index, entries if changed is None else changed)
                total += len(field[0]) + len(field[1]) + ENTRY_OVERHEAD_BYTES
            else:
                if first & 64:
                    index, pos = _get_integer(block, pos, 63)
                elif first & 32:
                    raise HpackError("a table size changes in the middle of a header block")
                else:
                    index, pos = _get_integer(block, pos, 15)
                if index:
                    name = self._find(index, entries if changed is None else changed)[0]
                else:
                    name, pos = _get_string(block, pos)
                value, pos = _get_string(block, pos)
                field = (name, value)
                cost = len(name) + len(value) + ENTRY_OVERHEAD_BYTES
                total += cost
                if first & 64:
                    if changed is None:
                        changed = list(entries)
                    size = _evict(changed, size, max(limit - cost, 0))
                    if cost <= limit:
                        changed.insert(0, field)
                        size += cost
            if total <= self.max_list_bytes:
                headers.append(field)
        table = old if changed is None else (tuple(changed), size, limit)
        return (headers if total <= self.max_list_bytes else None), table

    @staticmethod
    def _find(index: int, entries: Sequence[Header]) -> Header:
        if 0 < index < _STATIC_COUNT:
            return STATIC[index]
        if 0 < index < _STATIC_COUNT + len(entries):
            return entries[index - _STATIC_COUNT]
        raise HpackError(f"the table has no field {index}")


def _put_integer(value: int, mask: int, flags: int) -> bytes:
    if value < mask:
        return bytes((flags | value,))
    out = bytearray((flags | mask,))
    value -= mask
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


def _put_string(text: bytes, small: bool = False) -> bytes:
    if small:
        coded = huffman.encode(text)
        if len(coded) < len(text):
            return _put_integer(len(coded), 127, 128) + coded
    return _put_integer(len(text), 127, 0) + text


def limited(limits: tuple[int, int] | None, table_bytes: int) -> tuple[int, int]:
    """What Encoder.limits becomes by one more SETTINGS_HEADER_TABLE_SIZE."""
    return (table_bytes if limits is None else min(limits[0], table_bytes), table_bytes)


class Encoder:
    """Of the header blocks of one connection, in the order in which they are sent.

    table: what the blocks up to now have led to.
    limits: sizes that the peer's SETTINGS_HEADER_TABLE_SIZE has had since the last block: the lowest, the last one. None
    where it has not changed.
    """

    __slots__ = ("table", "limits")

    def __init__(self) -> None:
        self.table: EncoderTable = ((), {}, 0, DEFAULT_TABLE_BYTES, 0)
        self.limits: tuple[int, int] | None = None

    def limit(self, table_bytes: int) -> None:
        """Notes what the peer allows from now on; the next block says what of it is used."""
        self.limits = limited(self.limits, table_bytes)

    def encode(self, headers: Sequence[Header]) -> bytes:
        """`prepare`, and takes the table over."""
        block, table = self.prepare(headers, self.limits)
        self.table = table
        self.limits = None
        return block

    def prepare(self, headers: Sequence[Header], limits: tuple[int, int] | None) -> tuple[bytes, EncoderTable]:
        """(block, table), where `limits` is what `limits` was when the caller looked. Raises ValueError for what cannot be
        a field."""
        entries, serials, size, limit, count = table = self.table
        block = b""
        if limits is not None:
            lowest, last = limits
            if lowest < limit:
                block += _put_integer(lowest, 31, 32)
                table = entries, serials, size, limit, count = _resized(table, lowest)
            last = min(last, DEFAULT_TABLE_BYTES)
            if last != limit:
                block += _put_integer(last, 31, 32)
                table = entries, serials, size, limit, count = _resized(table, last)
        for field in headers:
            index = _FIELDS.get(field, 0)
            if not index and field in serials:
                index = _STATIC_COUNT + count - serials[field] - 1
            if index:
                block += bytes((128 | index,)) if index < 127 else _put_integer(index, 127, 128)
                continue
            name, value = field
            if not is_field_name(name) or not is_field_value(value):
                raise ValueError(f"{name!r}: {value!r} cannot be a header")
            cost = len(name) + len(value) + ENTRY_OVERHEAD_BYTES
            if name in NEVER_INDEXED or name in NOT_INDEXED or cost > limit >> 1:
                block += _put_name(name, 15, 16 if name in NEVER_INDEXED else 0) + _put_string(value)
                continue
            block += _put_name(name, 63, 64) + _put_string(value, True)
            changed = list(entries)
            size = _evict(changed, size, limit - cost) + cost
            changed.insert(0, field)
            kept = {entry: serials[entry] for entry in changed[1:]}
            kept[field] = count
            table = entries, serials, size, limit, count = tuple(changed), kept, size, limit, count + 1
        return block, table


def _put_name(name: bytes, mask: int, flags: int) -> bytes:
    index = _NAMES.get(name, 0)
    return _put_integer(index, mask, flags) if index else bytes((flags,)) + _put_string(name, flags == 64)


def _resized(table: EncoderTable, limit: int) -> EncoderTable:
    entries, serials, size, _, count = table
    kept = list(entries)
    size = _evict(kept, size, limit)
    return tuple(kept), {entry: serials[entry] for entry in kept}, size, limit, count
