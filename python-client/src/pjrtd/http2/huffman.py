"""HPACK's Huffman code (RFC 7541, section 5.2 and appendix B).

The code is canonical: codes of one length are consecutive, in the order of their symbols, so the lengths say all of it.
The tables that decode and encode are made from them when they are first needed.
"""

from __future__ import annotations

from .http2_errors import HpackError

TYPE_CHECKING = False
if TYPE_CHECKING:
    # for each state and half byte: the next state, and what is decoded by then
    Steps = list[tuple[int, bytes]]

# Code lengths in bits of the bytes 0 to 255 and of the end-of-string symbol.
_LENGTHS = bytes.fromhex(
    "0d171c1c1c1c1c1c1c181e1c1c1e1c1c1c1c1c1c1c1c1e1c1c1c1c1c1c1c1c1c060a0a0c0d06080b0a0a080b08060606"
    "0505050606060606060607080f060c0a0d06070707070707070707070707070707070707070707070807080d130d0e06"
    "0f05060506050606060507070606060506070605050607070707070f0b0e0d1c14161414161616171617171717171817"
    "181816171817171717151617161717181615141616171715171616181516171715151615171617171416161617161617"
    "1a1a1413161716191a1a1a1b1b1a181913151a1b1b1a1b1815151a1a1c1b1b1b14181415161515171616191918181a17"
    "1a1b1a1a1b1b1b1b1b1c1b1b1b1b1b1a1e"
)
_END = 256

_codes: list[tuple[int, int]] = []  # of each symbol: its code and the code's length
_steps: Steps = []  # at 16 * state + half byte
_accepting: frozenset[int] = frozenset()  # states where a string may end: at most 7 bits of padding, all ones


def _make_codes() -> list[tuple[int, int]]:
    codes = [(0, 0)] * 257
    code = length = 0
    for symbol in sorted(range(257), key=_LENGTHS.__getitem__):
        code <<= _LENGTHS[symbol] - length
        length = _LENGTHS[symbol]
        codes[symbol] = (code, length)
        code += 1
    return codes


def _make_steps() -> tuple[Steps, frozenset[int]]:
    # Inner nodes of the code's tree are numbered as they are met; a leaf is the complement of its symbol.
    nodes: list[list[int]] = [[0, 0]]
    for symbol, (code, length) in enumerate(_make_codes()):
        node = 0
        for place in range(length - 1, 0, -1):
            bit = code >> place & 1
            if not nodes[node][bit]:
                nodes[node][bit] = len(nodes)
                nodes.append([0, 0])
            node = nodes[node][bit]
        nodes[node][code & 1] = ~symbol
    dead = len(nodes)  # after an end-of-string symbol, which a string must not contain
    steps: Steps = []
    for first in range(dead):
        for half in range(16):
            node, decoded = first, b""
            for place in (3, 2, 1, 0):
                node = nodes[node][half >> place & 1]
                if node == ~_END:
                    node = dead
                    break
                if node < 0:
                    decoded += bytes((~node,))
                    node = 0
            steps.append((node, decoded))
    steps += [(dead, b"")] * 16
    accepting, node = {0}, 0
    for _ in range(7):
        node = nodes[node][1]
        accepting.add(node)
    return steps, frozenset(accepting)


def decode(data: bytes | memoryview) -> bytes:
    """The string that `data` is the code of. Raises HpackError."""
    global _steps, _accepting
    if not _steps:
        made = _make_steps()
        _steps, _accepting = made
    steps = _steps
    state = 0
    out: list[bytes] = []
    for byte in data:
        state, first = steps[state << 4 | byte >> 4]
        state, second = steps[state << 4 | byte & 15]
        out.append(first)
        out.append(second)
    if state not in _accepting:
        raise HpackError("a Huffman-coded string has an end-of-string symbol in it, or wrong padding after it")
    return b"".join(out)


def encode(text: bytes) -> bytes:
    global _codes
    if not _codes:
        _codes = _make_codes()
    codes = _codes
    value = bits = 0
    for byte in text:
        code, length = codes[byte]
        value = value << length | code
        bits += length
    padding = -bits & 7
    return (value << padding | (1 << padding) - 1).to_bytes((bits + padding) >> 3, "big")
