"""Ids, events and descriptors: small values with small rules."""

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.model.box import EMPTY, Box, Point
from protocols.model.descriptor import (
    PACKED_MAX,
    REMEMBERED_MAX,
    Descriptor,
    PeerDescriptor,
    Samples,
    Standing,
    _remembered,
    addresses_of,
    newer,
    pack,
    participants_of,
    readable,
    unpack,
)
from protocols.model.event import LIFETIME_MS, Body, Copy, Event, decode_body, encode_body, expired, onward
from protocols.model.ids import PEER_SLOT, Address, endpoint, event_id, in_slot, of_peer, split_event_id

HERE = Address("ab12", 3, 1, "127.0.0.1:6470")


@given(st.text("0123456789abcdef", min_size=1), st.integers(0, 2**62), st.integers(0, 2**62))
def test_event_ids_can_be_taken_apart(publisher: str, boot: int, sequence: int) -> None:
    assert split_event_id(event_id(publisher, boot, sequence)) == (publisher, boot, sequence)


@given(st.sampled_from(["", "a", "a-b", "a-1", "a-1-x", "a-x-1"]))
def test_what_is_no_event_id(text: str) -> None:
    with pytest.raises(ValueError):
        split_event_id(text)


def test_addresses() -> None:
    assert of_peer(HERE) == Address("ab12", 3, PEER_SLOT, "127.0.0.1:6470") == in_slot(HERE, PEER_SLOT)
    assert in_slot(of_peer(HERE), 1) == HERE
    assert str(endpoint("h:1")) == "?/-1@h:1"
    assert HERE < in_slot(HERE, 2) < Address("ab12", 4, 0, "")


SCALARS = st.one_of(
    st.text(max_size=5), st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False), st.booleans()
)


@given(st.dictionaries(st.text(max_size=4), SCALARS), st.one_of(st.none(), st.binary(), st.lists(st.integers(0, 9))))
def test_bodies_survive_the_wire(attributes: dict[str, str | int | float | bool], payload: object) -> None:
    body = Body(attributes, 5, payload, "text/plain", {"a": "b"})
    again = decode_body(encode_body(body))
    assert again == body
    assert [type(value) for value in again.attributes.values()] == [type(value) for value in attributes.values()]


@pytest.mark.parametrize("raw", [b"", b"\xc1", b"\x90", b"\x92\x80\xa1x", msgspec.msgpack.encode([{"a": None}, 1])])
def test_a_nonsense_body_is_a_decode_error(raw: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        decode_body(raw)


@given(st.lists(st.integers(0, 40_000), max_size=6), st.sampled_from((LIFETIME_MS, 1_000)))
def test_an_event_lives_for_the_sum_of_what_it_was_held(holds: list[int], ttl_ms: int) -> None:
    copy = Copy(Event("p-1-1", Point((1,)), b"", ttl_ms))
    for number, held_ms in enumerate(holds):
        assert expired(copy, held_ms) is (sum(holds[: number + 1]) >= ttl_ms)
        copy = onward(copy, held_ms)
    assert (copy.hops, copy.age_ms) == (len(holds), sum(holds))


SMALL = st.integers(0, 2)


@st.composite
def descriptors(draw: st.DrawFn) -> Descriptor:
    return Descriptor(Address("p", draw(SMALL), 0, "h:1"), EMPTY, draw(SMALL), draw(SMALL))


@given(descriptors(), descriptors())
def test_the_newer_descriptor_is_believed(a: Descriptor, b: Descriptor) -> None:
    chosen = newer(a, b)
    assert chosen in (a, b)
    if a.address.boot != b.address.boot:
        assert chosen.address.boot == max(a.address.boot, b.address.boot)
    elif a.version != b.version:
        assert chosen.version == max(a.version, b.version)
    else:
        assert chosen.age == min(a.age, b.age)
    assert newer(b, a) == chosen


def test_peers_name_their_participants() -> None:
    box = Box((1,), (2,))
    descriptor = Descriptor(HERE, box, 4, 7, (b"cell", 2))
    shown = pack([Standing(1, box, 4, (b"cell", 2)), Standing(5, EMPTY)])
    peer = PeerDescriptor(of_peer(HERE), 7, 0, shown)
    assert participants_of([(peer, peer.age)]) == [descriptor, Descriptor(in_slot(HERE, 5), EMPTY, 0, 7)]
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(peer), type=PeerDescriptor) == peer


def test_what_a_descriptor_says_of_participants_fits_into_its_bounds() -> None:
    long = "=" + "x" * 1000
    broad = Box((), (), (long,) * 9, (long,) * 9)
    packed = pack([Standing(slot, broad) for slot in range(4)])
    assert len(packed) <= PACKED_MAX
    assert unpack(packed) == (Standing(0, broad),)
    assert pack([]) == b"" and unpack(b"") == ()


@pytest.mark.parametrize("nonsense", [b"\xc1", b"\x91", b"\x91\x92\xff\xc0", b"\x91\x92\x00\x92\x90\x91\xa1\xff"])
def test_nonsense_about_participants_is_told_apart(nonsense: bytes) -> None:
    sound = PeerDescriptor(of_peer(HERE))
    assert readable([sound, sound])
    for _ in range(2):  # what was once found to be nonsense is so again
        assert not readable([sound, PeerDescriptor(of_peer(HERE), 0, 0, nonsense)])


def test_what_is_remembered_of_descriptors_has_a_bound() -> None:
    for number in range(REMEMBERED_MAX + 10):
        packed = pack([Standing(number, EMPTY)])
        assert unpack(packed) == unpack(packed) == (Standing(number, EMPTY),)
    assert 0 < len(_remembered) <= REMEMBERED_MAX


def test_samples_are_read_when_somebody_looks() -> None:
    peers = [(PeerDescriptor(of_peer(HERE), 0, 0, pack([Standing(3, EMPTY), Standing(4, EMPTY)])), 9)]
    samples = Samples(lambda: peers)
    assert samples.addresses() == addresses_of(samples) == [in_slot(HERE, 3), in_slot(HERE, 4)]
    assert addresses_of([Descriptor(HERE, EMPTY)]) == [HERE]
    assert list(samples) == participants_of(peers) == samples[:] and len(samples) == 2
    assert samples[1] == Descriptor(in_slot(HERE, 4), EMPTY, 0, 9)
