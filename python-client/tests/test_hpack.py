"""Header blocks: the standard's examples, and the `hpack` package as the other side."""

from __future__ import annotations

import random
import time
import tracemalloc

import hpack as oracle
import pytest
from hpack.exceptions import HPACKError
from hpack.struct import HeaderTuple, NeverIndexedHeaderTuple

from pjrtd.http2 import hpack, huffman
from pjrtd.http2.hpack import Decoder, Encoder
from pjrtd.http2.hpack_static import STATIC
from pjrtd.http2.http2_errors import COMPRESSION_ERROR, HpackError

Headers = list[tuple[bytes, bytes]]

# RFC 7541, appendix C: blocks of one connection, the header list of each, and the table's entries and size after it.
GET_1 = [(b":method", b"GET"), (b":scheme", b"http"), (b":path", b"/"), (b":authority", b"www.example.com")]
GET_2 = [*GET_1, (b"cache-control", b"no-cache")]
GET_3 = [
    *[(b":method", b"GET"), (b":scheme", b"https"), (b":path", b"/index.html"), (b":authority", b"www.example.com")],
    (b"custom-key", b"custom-value"),
]
DATE_1 = (b"date", b"Mon, 21 Oct 2013 20:13:21 GMT")
DATE_2 = (b"date", b"Mon, 21 Oct 2013 20:13:22 GMT")
PLACE = (b"location", b"https://www.example.com")
PRIVATE = (b"cache-control", b"private")
COOKIE = (b"set-cookie", b"foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1")
ANSWER_1 = [(b":status", b"302"), PRIVATE, DATE_1, PLACE]
ANSWER_2 = [(b":status", b"307"), PRIVATE, DATE_1, PLACE]
ANSWER_3 = [(b":status", b"200"), PRIVATE, DATE_2, PLACE, (b"content-encoding", b"gzip"), COOKIE]
EXAMPLES: dict[str, tuple[int, list[tuple[str, Headers, Headers, int]]]] = {
    "C.2.1": (
        4096,
        [
            (
                "400a637573746f6d2d6b65790d637573746f6d2d686561646572",
                [(b"custom-key", b"custom-header")],
                [(b"custom-key", b"custom-header")],
                55,
            )
        ],
    ),
    "C.2.2": (4096, [("040c2f73616d706c652f70617468", [(b":path", b"/sample/path")], [], 0)]),
    "C.2.3": (4096, [("100870617373776f726406736563726574", [(b"password", b"secret")], [], 0)]),
    "C.2.4": (4096, [("82", [(b":method", b"GET")], [], 0)]),
    "C.3": (
        4096,
        [
            ("828684410f7777772e6578616d706c652e636f6d", GET_1, [GET_1[3]], 57),
            ("828684be58086e6f2d6361636865", GET_2, [GET_2[4], GET_1[3]], 110),
            (
                "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
                GET_3,
                [GET_3[4], GET_2[4], GET_1[3]],
                164,
            ),
        ],
    ),
    "C.4": (
        4096,
        [
            ("828684418cf1e3c2e5f23a6ba0ab90f4ff", GET_1, [GET_1[3]], 57),
            ("828684be5886a8eb10649cbf", GET_2, [GET_2[4], GET_1[3]], 110),
            ("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf", GET_3, [GET_3[4], GET_2[4], GET_1[3]], 164),
        ],
    ),
    "C.5": (
        256,
        [
            (
                "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d546e17687474"
                "70733a2f2f7777772e6578616d706c652e636f6d",
                ANSWER_1,
                [PLACE, DATE_1, PRIVATE, (b":status", b"302")],
                222,
            ),
            ("4803333037c1c0bf", ANSWER_2, [(b":status", b"307"), PLACE, DATE_1, PRIVATE], 222),
            (
                "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f3d4153444a"
                "4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076657273696f6e3d31",
                ANSWER_3,
                [COOKIE, (b"content-encoding", b"gzip"), DATE_2],
                215,
            ),
        ],
    ),
    "C.6": (
        256,
        [
            (
                "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae"
                "82ae43d3",
                ANSWER_1,
                [PLACE, DATE_1, PRIVATE, (b":status", b"302")],
                222,
            ),
            ("4883640effc1c0bf", ANSWER_2, [(b":status", b"307"), PLACE, DATE_1, PRIVATE], 222),
            (
                "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335dfdfcd5b3960"
                "d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
                ANSWER_3,
                [COOKIE, (b"content-encoding", b"gzip"), DATE_2],
                215,
            ),
        ],
    ),
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_of_the_standard_are_decoded(name: str) -> None:
    table_bytes, blocks = EXAMPLES[name]
    decoder = Decoder()
    decoder.table = ((), 0, table_bytes)
    for block, headers, entries, size in blocks:
        assert decoder.decode(bytes.fromhex(block)) == headers
        assert decoder.table == (tuple(entries), size, table_bytes)


def test_requests_are_encoded_as_in_the_standard() -> None:
    encoder = Encoder()
    for block, headers, entries, size in EXAMPLES["C.4"][1]:
        assert encoder.encode(headers).hex() == block
        assert encoder.table[0] == tuple(entries) and encoder.table[2] == size


@pytest.mark.parametrize(
    "data,mask,value,end",
    [("0a", 31, 10, 1), ("1f9a0a", 31, 1337, 3), ("2a", 255, 42, 1), ("ff00", 255, 255, 2), ("7f8000", 127, 127, 3)],
)
def test_integers(data: str, mask: int, value: int, end: int) -> None:
    assert hpack._get_integer(bytes.fromhex(data), 0, mask) == (value, end)
    assert hpack._get_integer(hpack._put_integer(value, mask, 0), 0, mask)[0] == value


def test_the_static_table_is_the_standards() -> None:
    assert list(STATIC[1:]) == list(oracle.table.HeaderTable.STATIC_TABLE)


def test_every_byte_has_its_huffman_code() -> None:
    from hpack.huffman_constants import REQUEST_CODES, REQUEST_CODES_LENGTH

    assert huffman._make_codes() == list(zip(REQUEST_CODES, REQUEST_CODES_LENGTH, strict=True))
    every = bytes(range(256))
    assert huffman.decode(huffman.encode(every)) == every
    rng = random.Random(5)
    for size in [*range(40), 1000, 20_000]:
        text = rng.randbytes(size)
        assert huffman.decode(huffman.encode(text)) == text


@pytest.mark.parametrize(
    "data",
    [
        "ffffffff",  # the end-of-string symbol
        "3fffffffff",
        "ff",  # eight bits of padding
        "1fff",
        "18",  # padding that is not ones
        "fe",
    ],
)
def test_bad_huffman_codes_are_refused(data: str) -> None:
    with pytest.raises(HpackError, match="Huffman"):
        huffman.decode(bytes.fromhex(data))
    assert huffman.decode(bytes.fromhex("1f")) == b"a"


@pytest.mark.parametrize(
    "block,why",
    [
        ("80", "no field 0"),
        ("be", "no field 62"),
        ("ff80808001", "no field"),
        ("ff8080808001", "longer than 5 bytes"),
        ("ffffffffffffff7f", "longer than 5 bytes"),
        ("ff", "cut short"),
        ("40", "cut short"),
        ("4001", "cut short in a string"),
        ("400161", "cut short"),
        ("40016105", "cut short in a string"),
        ("4001617f", "cut short"),
        ("4001617f80808001", "cut short in a string"),
        ("7e0161", "no field 62"),
        ("0f2f0161", "no field 62"),
        ("3fe21f", "4097 where 4096 is allowed"),
        ("8220", "in the middle"),
        ("40016181fe", "Huffman"),
    ],
)
def test_blocks_that_are_not_right_are_refused(block: str, why: str) -> None:
    decoder = Decoder()
    before = decoder.table
    with pytest.raises(HpackError, match=why) as caught:
        decoder.decode(bytes.fromhex(block))
    assert caught.value.code == COMPRESSION_ERROR
    assert decoder.table is before


def test_a_table_that_has_to_shrink_must_shrink() -> None:
    decoder = Decoder()
    decoder.decode(Encoder().encode([(b"x-a", b"1")]))
    assert len(decoder.table[0]) == 1
    decoder.max_table_bytes = 100
    with pytest.raises(HpackError, match="does not shrink its table from 4096 to 100"):
        decoder.decode(b"\x82")
    with pytest.raises(HpackError, match="101 where 100"):
        decoder.decode(bytes.fromhex("3f4682"))
    assert decoder.decode(bytes.fromhex("203f4582")) == [(b":method", b"GET")]  # to 0, and then to 100
    assert decoder.table == ((), 0, 100)


def test_a_list_over_the_limit_is_not_kept_and_the_table_stays_in_step() -> None:
    encoder, decoder = oracle.Encoder(), Decoder(max_list_bytes=1000)
    assert decoder.decode(encoder.encode([(b"x-%d" % i, b"v" * 60) for i in range(20)])) is None
    assert decoder.decode(encoder.encode([(b"x-19", b"v" * 60)])) == [(b"x-19", b"v" * 60)]
    exact = [(b"a", b"b" * (500 - 33)), (b"c", b"d" * (500 - 33))]
    assert decoder.decode(encoder.encode(exact)) == exact
    assert decoder.decode(encoder.encode([*exact, (b"e", b"")])) is None


def test_a_bomb_costs_little_time_and_memory() -> None:
    """One field of 4000 bytes, which 60,000 bytes refer to: 240 MB of headers."""
    decoder = Decoder()
    block = b"\x40\x01a" + hpack._put_integer(4000, 127, 0) + b"v" * 4000 + b"\xbe" * 60_000
    started = time.process_time()
    assert decoder.decode(block) is None
    assert time.process_time() - started < 2
    tracemalloc.start()
    try:
        assert decoder.decode(block) is None
        assert tracemalloc.get_traced_memory()[1] < 200_000
    finally:
        tracemalloc.stop()
    assert decoder.table[1] == 4033


def random_headers(rng: random.Random, names: list[bytes]) -> Headers:
    headers: Headers = []
    for _ in range(rng.randrange(12)):
        name = rng.choice(names)
        if rng.random() < 0.6:
            value = b"v%d" % rng.randrange(6)
        else:
            value = bytes(rng.randrange(33, 256) for _ in range(rng.choice((0, 1, 10, 130, 700))))
        headers.append(rng.choice(STATIC[1:]) if rng.random() < 0.2 else (name, value))
    return headers


NAMES = [b"x-%d" % i for i in range(20)] + [b":path", b"grpc-status", b"cookie", b"authorization", b"grpc-timeout", b"te"]


@pytest.mark.parametrize("seed", range(20))
def test_what_the_oracle_encodes_is_decoded(seed: int) -> None:
    rng = random.Random(seed)
    encoder = oracle.Encoder()
    decoder = Decoder(max_table_bytes=20_000, max_list_bytes=1 << 20)
    for _ in range(150):
        if rng.random() < 0.1:
            for _ in range(rng.randrange(1, 3)):  # the oracle forgets to say it if a size is set to what it is
                sizes = {0, 60, 200, 1000, 4096, 20_000} - {encoder.header_table_size}
                encoder.header_table_size = rng.choice(sorted(sizes))
        headers = random_headers(rng, NAMES)
        marked = [(NeverIndexedHeaderTuple if rng.random() < 0.1 else HeaderTuple)(*header) for header in headers]
        assert decoder.decode(encoder.encode(marked, huffman=rng.random() < 0.5)) == headers
        entries, size, limit = decoder.table
        assert list(entries) == list(encoder.header_table.dynamic_entries)
        assert limit == encoder.header_table_size and size <= limit
        assert size == sum(len(name) + len(value) + 32 for name, value in entries)


@pytest.mark.parametrize("seed", range(20))
def test_the_oracle_decodes_what_is_encoded(seed: int) -> None:
    rng = random.Random(seed)
    encoder, decoder = Encoder(), oracle.Decoder(max_header_list_size=1 << 20)
    for _ in range(150):
        if rng.random() < 0.1:
            for _ in range(rng.randrange(1, 3)):
                allowed = rng.choice((0, 60, 200, 1000, 4096, 20_000))
                encoder.limit(allowed)
                decoder.max_allowed_table_size = allowed
        headers = [header for header in random_headers(rng, NAMES) if hpack.is_field_value(header[1])]
        assert [tuple(h) for h in decoder.decode(encoder.encode(headers), raw=True)] == headers
        assert list(encoder.table[0]) == list(decoder.header_table.dynamic_entries)
        assert encoder.table[3] == decoder.header_table_size


def test_the_lowest_table_size_is_said_and_no_more_than_the_default_is_used() -> None:
    encoder = Encoder()
    encoder.encode([(b"x-a", b"1")])
    encoder.limit(20_000)
    assert encoder.encode([(b"x-a", b"1")]).hex() == "be"
    encoder.limit(100)
    encoder.limit(0)
    encoder.limit(8192)
    assert encoder.encode([(b":method", b"GET")]).hex() == "20" + "3fe11f" + "82"
    assert encoder.table == ((), {}, 0, 4096, 1)
    encoder.limit(50)
    assert encoder.encode([(b":method", b"GET")]).hex() == "3f13" + "82"
    assert encoder.limits is None


def test_headers_that_repeat_take_one_byte_each() -> None:
    encoder = Encoder()
    request = [
        *[(b":method", b"POST"), (b":scheme", b"http"), (b":path", b"/pjrtd.v1.Execute/Execute"), (b":authority", b"h:1")],
        *[(b"te", b"trailers"), (b"content-type", b"application/grpc"), (b"user-agent", b"pjrtd")],
    ]
    assert len(encoder.encode(request)) > 40
    assert len(encoder.encode(request)) == len(request)
    timed = [*request, (b"grpc-timeout", b"99u")]
    assert len(encoder.encode(timed)) == len(encoder.encode(timed))
    assert len(encoder.table[0]) == 5


def test_secrets_are_never_indexed() -> None:
    encoder = Encoder()
    headers = [(b"pjrtd-session", b"token"), (b"authorization", b"Bearer x")]
    for _ in range(2):
        decoded = oracle.Decoder().decode(encoder.encode(headers), raw=True)
        assert [type(header) for header in decoded] == [NeverIndexedHeaderTuple, NeverIndexedHeaderTuple]
    assert encoder.table[0] == ()


@pytest.mark.parametrize(
    "header",
    [
        *[(b"Upper", b""), (b"", b""), (b":", b""), (b"a b", b""), (b"a:b", b""), (b"a\n", b""), (b"a\x80", b"")],
        *[(b"a", b"x\r\ny: z"), (b"a", b"\x00"), (b"a", b" x"), (b"a", b"x\t")],
    ],
)
def test_what_cannot_be_a_header_is_not_encoded(header: tuple[bytes, bytes]) -> None:
    encoder = Encoder()
    with pytest.raises(ValueError, match="cannot be a header"):
        encoder.encode([(b"x-a", b"1"), header])
    assert encoder.table[0] == ()


@pytest.mark.parametrize("seed", range(8))
def test_changed_blocks_are_decoded_as_the_oracle_does_or_refused(seed: int) -> None:
    """Some bytes of real blocks are changed. Nothing but HpackError may come of it, and no other headers than the
    oracle's."""
    rng = random.Random(seed)
    both = refused = 0
    for _ in range(400):
        encoder, decoder, peer = oracle.Encoder(), Decoder(), oracle.Decoder()
        for _ in range(4):
            block = bytearray(encoder.encode(random_headers(rng, NAMES), huffman=rng.random() < 0.5))
            if rng.random() < 0.4:
                for _ in range(rng.randrange(1, 4)):
                    if block:
                        block[rng.randrange(len(block))] = rng.randrange(256)
                if rng.random() < 0.3:
                    del block[rng.randrange(len(block) + 1) :]
            try:
                expected = [tuple(header) for header in peer.decode(bytes(block), raw=True)]
            except HPACKError:
                with pytest.raises(HpackError):
                    decoder.decode(bytes(block))
                refused += 1
                break
            assert decoder.decode(bytes(block)) == expected
            assert list(decoder.table[0]) == list(peer.header_table.dynamic_entries)
            both += 1
    assert both > 300 and refused > 50
