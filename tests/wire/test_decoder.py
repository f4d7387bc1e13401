"""Frames out of a stream that comes in pieces."""

from itertools import pairwise

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerd.wire import BadFrame, Codec, Decoder, Frame, FrameTooLarge, Invalid, Limits, Malformed
from tests.wire.samples import CODEC, EXAMPLES, MESSAGES, Ping

GOOD = [CODEC.frame(slot, 0, CODEC.encode(message)) for slot, message in enumerate(EXAMPLES)]
BAD = CODEC.frame(0, 0, b"\x91\xa7unknown")
STREAM = b"".join([*GOOD, BAD, b"\0\0\0\0", *GOOD])
TOO_LARGE = (CODEC.limits.frame_bytes + 1).to_bytes(4, "big")


def shown(items: list[Frame | BadFrame]) -> list[object]:
    """Items so that they can be compared: errors by type and text."""
    return [(type(i.error), str(i.error), i.size) if isinstance(i, BadFrame) else i for i in items]


def fed(*pieces: bytes | memoryview) -> list[object]:
    decoder = Decoder(CODEC)
    return shown([item for piece in pieces for item in decoder.feed(piece)])


def slow_twin(stream: bytes) -> list[object]:
    """What the stream holds, the obvious way: one frame after the other, each copied out and decoded by itself."""
    items: list[object] = []
    while len(stream) >= 4:
        size = int.from_bytes(stream[:4], "big")
        if size > CODEC.limits.frame_bytes:
            return [*items, FrameTooLarge]
        if len(stream) < 4 + size:
            break
        content, stream = stream[4 : 4 + size], stream[4 + size :]
        try:
            src, dst, message = msgpack.unpackb(content, strict_map_key=False)
            items.append(Frame(src, dst, CODEC.decode(msgpack.packb(message)), 4 + size))
        except Exception:
            items.append(BadFrame)
    return items


def test_stream_as_a_whole() -> None:
    items = Decoder(CODEC).feed(STREAM)
    good = [Frame(slot, 0, message, len(GOOD[slot])) for slot, message in enumerate(EXAMPLES)]
    assert items[:4] == items[6:] == good
    unknown, empty = items[4:6]
    assert isinstance(unknown, BadFrame)
    assert isinstance(unknown.error, Invalid)
    assert unknown.size == len(BAD)
    assert isinstance(empty, BadFrame)
    assert isinstance(empty.error, Malformed)
    assert empty.size == 4
    assert sum(item.size for item in items) == len(STREAM)


def test_split_at_every_boundary() -> None:
    whole = fed(STREAM)
    for cut in range(len(STREAM) + 1):
        assert fed(STREAM[:cut], STREAM[cut:]) == whole


def test_byte_by_byte() -> None:
    decoder = Decoder(CODEC)
    items = [item for byte in STREAM for item in decoder.feed(bytes([byte]))]
    assert shown(items) == fed(STREAM)
    assert decoder.pending_bytes == 0


@given(st.lists(st.integers(0, len(STREAM))))
def test_split_anywhere(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    assert fed(*(STREAM[a:b] for a, b in pairwise(edges))) == fed(STREAM)


@given(st.lists(st.sampled_from([*GOOD, BAD, b"\0\0\0\0", b"\0\0\0\x01\xc1", TOO_LARGE]) | st.binary(max_size=12)))
def test_agrees_with_slow_twin(parts: list[bytes]) -> None:
    stream = b"".join(parts)
    items = Decoder(CODEC).feed(stream)
    found = [
        i if isinstance(i, Frame) else FrameTooLarge if isinstance(i.error, FrameTooLarge) else BadFrame for i in items
    ]
    assert found == slow_twin(stream)


def test_what_is_pending_is_counted() -> None:
    decoder = Decoder(CODEC)
    assert decoder.feed(GOOD[0] + GOOD[1][:7]) != []
    assert decoder.pending_bytes == 7
    assert decoder.feed(GOOD[1][7:]) != []
    assert decoder.pending_bytes == 0


def test_reader_may_write_over_its_buffer() -> None:
    buffer = bytearray(STREAM)
    decoder = Decoder(CODEC)
    items = decoder.feed(memoryview(buffer)[:100])
    buffer[:] = STREAM[100:] + bytes(100)
    items += decoder.feed(memoryview(buffer)[: len(STREAM) - 100])
    buffer.clear()  # raises BufferError if somebody still looks at it
    assert shown(items) == fed(STREAM)


def test_too_large_a_frame_closes_the_decoder() -> None:
    decoder = Decoder(CODEC)
    *before, last = decoder.feed(GOOD[0] + TOO_LARGE + GOOD[1])
    assert before == [Frame(0, 0, EXAMPLES[0], len(GOOD[0]))]
    assert isinstance(last, BadFrame)
    assert isinstance(last.error, FrameTooLarge)
    assert decoder.closed
    assert decoder.pending_bytes == 0
    assert decoder.feed(GOOD[0]) == []
    assert decoder.pending_bytes == 0


def test_too_large_is_known_before_the_content_comes() -> None:
    decoder = Decoder(CODEC)
    assert decoder.feed(TOO_LARGE[:3]) == []
    assert not decoder.closed
    assert len(decoder.feed(TOO_LARGE[3:])) == 1
    assert decoder.closed


def test_largest_frame_passes() -> None:
    frame = GOOD[0]
    just_enough = Codec(MESSAGES, Limits(frame_bytes=len(frame) - 4))
    one_short = Codec(MESSAGES, Limits(frame_bytes=len(frame) - 5))
    assert Decoder(just_enough).feed(frame) == [Frame(0, 0, EXAMPLES[0], len(frame))]
    [item] = Decoder(one_short).feed(frame)
    assert isinstance(item, BadFrame)


@pytest.mark.timeout(60)
def test_dripping_costs_no_more_than_linear_time() -> None:
    """A frame of 1 MiB byte by byte: copying what came before each time would move half a terabyte."""
    decoder = Decoder(Codec(MESSAGES, Limits(frame_bytes=1 << 20)))
    frame = (1 << 20).to_bytes(4, "big") + bytes(1 << 20)
    items = [item for index in range(len(frame)) for item in decoder.feed(frame[index : index + 1])]
    assert [item.size for item in items] == [len(frame)]
    assert decoder.feed(GOOD[3]) == [Frame(3, 0, Ping(), len(GOOD[3]))]
