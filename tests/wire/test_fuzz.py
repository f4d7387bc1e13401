"""Whatever comes from the wire: only frames and typed errors come out, and a good frame after it is still read."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerd.wire import BadFrame, BadMessage, Codec, Decoder, Frame, FrameTooLarge
from tests.wire.examples import codecs, instances
from tests.wire.samples import CODEC, EXAMPLES, Ping

CONTENTS = [CODEC.frame(slot, 0, CODEC.encode(message))[4:] for slot, message in enumerate(EXAMPLES)]
GOOD = CODEC.frame(0, 0, CODEC.encode(Ping()))
AFTER = [Frame(0, 0, Ping(), len(GOOD))]
HEADERS = bytes([0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, *range(0xC0, 0xE0), 0xFF, 0x00, 0x7F])
"""Bytes that mean something to MessagePack: the ends of ranges, and every byte with a meaning of its own."""

edits = st.lists(
    st.tuples(st.sampled_from(["set", "insert", "delete", "repeat"]), st.integers(0, 999), st.integers(0, 255)),
    min_size=1,
    max_size=6,
)


def framed(content: bytes | bytearray) -> bytes:
    return len(content).to_bytes(4, "big") + content


def edited(content: bytes, changes: list[tuple[str, int, int]]) -> bytes:
    result = bytearray(content)
    for change, where, byte in changes:
        at = where % (len(result) + 1)
        match change:
            case "set":
                result[at : at + 1] = bytes([byte])
            case "insert":
                result[at:at] = bytes([HEADERS[byte % len(HEADERS)]])
            case "delete":
                del result[at : at + 1 + byte % 4]
            case _:
                result[at:at] = result[at : at + 16] * (byte % 8)
    return bytes(result)


@given(content=st.sampled_from(CONTENTS), changes=edits)
def test_mutated_frame(content: bytes, changes: list[tuple[str, int, int]]) -> None:
    decoder = Decoder(CODEC)
    [item] = decoder.feed(framed(edited(content, changes)))
    if isinstance(item, BadFrame):
        assert isinstance(item.error, BadMessage)
    assert decoder.feed(GOOD) == AFTER


@pytest.mark.parametrize("name", codecs())
@given(data=st.data())
def test_mutated_frame_of_an_overlay(name: str, data: st.DataObject) -> None:
    codec = Codec(codecs()[name])
    message = data.draw(st.sampled_from(codec.message_types).flatmap(instances))
    content = codec.frame(0, 0, codec.encode(message))[4:]
    decoder = Decoder(codec)
    [item] = decoder.feed(framed(edited(content, data.draw(edits))))
    if isinstance(item, BadFrame):
        assert isinstance(item.error, BadMessage)
    else:
        assert codec.decode(codec.encode(item.message)) == item.message


@given(st.binary(max_size=200))
def test_random_content(content: bytes) -> None:
    decoder = Decoder(CODEC)
    [item] = decoder.feed(framed(content))
    if isinstance(item, BadFrame):
        assert isinstance(item.error, BadMessage)
    assert decoder.feed(GOOD) == AFTER


@given(st.lists(st.binary(max_size=60)))
def test_random_stream(pieces: list[bytes]) -> None:
    decoder = Decoder(CODEC)
    items = [item for piece in pieces for item in decoder.feed(piece)]
    errors = [item.error for item in items if isinstance(item, BadFrame)]
    assert decoder.closed == any(isinstance(error, FrameTooLarge) for error in errors)
    assert not any(isinstance(error, FrameTooLarge) for error in errors[:-1])
    assert decoder.pending_bytes <= CODEC.limits.frame_bytes + 4 + 60


def mutant(random: Random, content: bytes) -> bytes:
    """A content with one to four bytes changed, and at times some put in, taken out or cut off."""
    result = bytearray(content)
    for _ in range(random.getrandbits(2) + 1):
        at = int(random.random() * len(result))
        result[at] = HEADERS[random.getrandbits(8) % len(HEADERS)] if random.getrandbits(1) else random.getrandbits(8)
    match random.getrandbits(3):
        case 0:
            at = int(random.random() * len(result))
            result[at:at] = random.randbytes(random.getrandbits(4))
        case 1:
            at = int(random.random() * len(result))
            del result[at : at + random.getrandbits(3)]
        case 2:
            del result[int(random.random() * len(result)) :]
        case _:
            pass
    return bytes(result)


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_million_mutated_frames() -> None:
    random = Random(20_080_401)
    decoder = Decoder(CODEC)
    batch, refused, read = 1_000, 0, 0
    for _ in range(1_000):
        stream = b"".join(framed(mutant(random, CONTENTS[random.getrandbits(2)])) for _ in range(batch))
        items = decoder.feed(stream)
        assert len(items) == batch
        for item in items:
            if isinstance(item, BadFrame):
                assert isinstance(item.error, BadMessage)
                refused += 1
            else:
                assert CODEC.decode(CODEC.encode(item.message)) == item.message
                read += 1
        assert decoder.feed(GOOD) == AFTER
    assert refused + read == 1_000_000
    assert min(refused, read) > 50_000  # mutations reach past the outermost header, and some are harmless
