"""Messages become bytes and messages again; what cannot is refused with a typed error."""

from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec import inspect

from peerd.wire import BadMessage, Codec, Decoder, Frame, Invalid, Limits, Malformed, TooDeep, Unencodable
from protocols.model.bounds import SLOT_MAX
from tests.wire.examples import all_message_types, codecs, excesses, instances, least, plain
from tests.wire.samples import CODEC, EXAMPLES, Note, Ping

every_type = pytest.mark.parametrize("type_", all_message_types(), ids=lambda type_: type_.__name__)
few = settings(max_examples=25)  # of each type, and there are many
every_codec = pytest.mark.parametrize("name", codecs())
slots = st.integers(-1, SLOT_MAX) | st.sampled_from([-1, 0, 127, 128, 255, 256, 65_535, 65_536, SLOT_MAX])


@every_codec
def test_codec_takes_all_types_of_an_overlay(name: str) -> None:
    assert Codec(codecs()[name]).message_types == codecs()[name]


@every_type
@few
@given(data=st.data(), src=slots, dst=slots)
def test_round_trip(type_: type[msgspec.Struct], data: st.DataObject, src: int, dst: int) -> None:
    """A message survives the wire, alone and in a frame, and the msgpack package reads and writes the same bytes."""
    codec = Codec([type_])
    message = data.draw(instances(type_))
    encoded = codec.encode(message)
    again = codec.decode(encoded)
    assert again == message
    assert type(again) is type_
    values = plain(message)
    assert msgpack.unpackb(encoded, strict_map_key=False) == values
    assert codec.decode(msgpack.packb(msgpack.unpackb(encoded, strict_map_key=False))) == message
    frame = codec.frame(src, dst, encoded)
    assert len(frame) == codec.frame_size(src, dst, len(encoded))
    assert int.from_bytes(frame[:4], "big") == len(frame) - 4
    assert msgpack.unpackb(frame[4:], strict_map_key=False) == [src, dst, values]
    assert Decoder(codec).feed(frame) == [Frame(src, dst, message, len(frame))]


@every_type
def test_every_bound_is_kept(type_: type[msgspec.Struct]) -> None:
    codec, info = Codec([type_]), inspect.type_info(type_)
    codec.decode(msgpack.packb(least(info)))
    for value in excesses(info):
        with pytest.raises(Invalid):
            codec.decode(msgpack.packb(value))


@pytest.mark.parametrize("message", EXAMPLES, ids=lambda message: type(message).__name__)
def test_every_truncation_is_refused(message: msgspec.Struct) -> None:
    encoded = CODEC.encode(message)
    for length in range(len(encoded)):
        with pytest.raises(BadMessage):
            CODEC.decode(encoded[:length])
    with pytest.raises(Malformed, match="trailing"):
        CODEC.decode(encoded + b"\0")


def test_decode_takes_any_buffer() -> None:
    encoded = CODEC.encode(EXAMPLES[1])
    assert CODEC.decode(bytearray(encoded)) == CODEC.decode(memoryview(encoded)) == EXAMPLES[1]


def test_decoded_message_keeps_nothing_of_the_buffer() -> None:
    encoded = bytearray(CODEC.encode(EXAMPLES[1]))
    message = CODEC.decode(encoded)
    encoded[:] = bytes(len(encoded))
    assert message == EXAMPLES[1]


def test_fields_of_a_later_version_are_skipped() -> None:
    values = [*plain(EXAMPLES[1]), "new", [1, {"x": [2]}]]
    assert CODEC.decode(msgpack.packb(values)) == EXAMPLES[1]


def test_fields_of_an_earlier_version_are_filled_in() -> None:
    assert CODEC.decode(msgpack.packb(["note", "short"])) == Note("short")


def test_types_are_taken_once_each() -> None:
    assert Codec([Note, Ping, Note]).message_types == (Note, Ping)


def test_typed_errors() -> None:
    with pytest.raises(Malformed, match="UTF-8"):
        CODEC.decode(b"\x92\xa4note\xa1\xff")
    with pytest.raises(Invalid, match="Invalid value 'tone'"):
        CODEC.decode(b"\x92\xa4tone\xa1x")
    with pytest.raises(TooDeep):
        CODEC.decode(b"\x92\xa4ping" + b"\x91" * 100_000)


def test_complaint_does_not_quote_at_length() -> None:
    with pytest.raises(Invalid) as caught:
        CODEC.decode(msgpack.packb(["x" * 100_000]))
    assert len(str(caught.value)) <= 200


@pytest.mark.parametrize("bad", ["\ud800", 2**64, -(2**63) - 1, object()], ids=["surrogate", "big", "small", "object"])
def test_what_cannot_be_encoded(bad: Any) -> None:
    with pytest.raises(Unencodable, match="Note"):
        CODEC.encode(Note("x", number=bad))


def test_no_message_is_encoded_that_no_frame_can_hold() -> None:
    codec = Codec([Note], Limits(frame_bytes=64))
    largest = next(size for size in range(64, 0, -1) if _encodes(codec, Note("", blob=bytes(size))))
    message = Note("", blob=bytes(largest))
    frame = codec.frame(SLOT_MAX, SLOT_MAX, codec.encode(message))
    assert len(frame) == 4 + 64
    [item] = Decoder(Codec([Note], Limits(frame_bytes=64))).feed(frame)
    assert item.size == len(frame)


def _encodes(codec: Codec, message: msgspec.Struct) -> bool:
    try:
        codec.encode(message)
    except Unencodable:
        return False
    return True


@pytest.mark.parametrize(("src", "dst"), [(-2, 0), (0, -2), (SLOT_MAX + 1, 0), (0, SLOT_MAX + 1), (-200, -200)])
def test_no_frame_to_a_slot_that_cannot_be(src: int, dst: int) -> None:
    with pytest.raises(Unencodable, match="slot"):
        CODEC.frame(src, dst, CODEC.encode(Ping()))
