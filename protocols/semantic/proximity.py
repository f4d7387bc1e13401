"""How close two interests are: the metric f_s (paper, section 4), measured on a shared sample of events.

    Sim(p, q) = the probability that an event which matches p matches q
    f_s(p, q) = (Sim(p, q) + Sim(q, p)) / 2

The sample has to be the same for all. It is drawn by hashing: an event is a sample if the hash of its id says so, which
everybody finds out for itself (as in the stream synopses of Chand, Felber and Garofalakis, ICDE 2007). Each participant
marks, in a set of bits, the samples that match its interest; the hash says which bit. The set travels in its
descriptor, and similarity is counting bits.

Differs from the specification, which has a numbered sample that all agree on first: there is nothing to agree on here.
Two samples may fall on one bit, which makes any two interests look a little closer than they are, but not one pair more
than another.

Before there have been enough events, the interests themselves are compared: the volumes of boxes, and whether a
pattern contains the other or asks for the same names.
"""

from collections.abc import Iterator
from functools import lru_cache
from hashlib import blake2b
from typing import Final

from protocols.model.box import Box, Space
from protocols.model.descriptor import Descriptor, Extension
from protocols.model.event import Event
from protocols.model.ids import EventId
from protocols.model.interest import NOTHING, Interest, contains, is_empty, is_sound, matches
from protocols.model.xpath.parse import parse
from protocols.model.xpath.pattern import nodes

BITS: Final = 4_096
"""A guess: with 500 samples of which a quarter matches, 3 % of the bits are set by others too."""
LEAST_BITS: Final = 8
"""Below that many matching samples a share means nothing."""


@lru_cache(maxsize=1 << 14)
def digest_of(id_: EventId) -> int:
    """An event id in eight bytes, the same in every process."""
    return int.from_bytes(blake2b(id_.encode(), digest_size=8).digest(), "big")


class Sample:
    """The samples that one participant knows, which of them match, and the bits for its descriptor."""

    __slots__ = ("_events", "_matching", "_max", "_one_in", "bits")

    def __init__(self, one_in: int, capacity: int) -> None:
        self._one_in = one_in
        self._max = capacity
        self._events: dict[EventId, Event] = {}
        self._matching: dict[EventId, None] = {}
        self.bits = b""

    def __len__(self) -> int:
        return len(self._events)

    def add(self, event: Event, interest: Interest) -> bool:
        """Take an event up if it is a sample and new; the oldest has to go for it."""
        if digest_of(event.id) % self._one_in or event.id in self._events:
            return False
        if len(self._events) >= self._max:
            oldest = next(iter(self._events))
            del self._events[oldest]
            self._matching.pop(oldest, None)
        self._events[event.id] = event
        if matches(interest, event):
            self._matching[event.id] = None
        self.bits = self._marked()
        return True

    def measure(self, interest: Interest) -> None:
        """The interest has changed: see anew which samples match."""
        self._matching = {id_: None for id_, event in self._events.items() if matches(interest, event)}
        self.bits = self._marked()

    def events(self) -> Iterator[Event]:
        return iter(self._events.values())

    def _marked(self) -> bytes:
        bits = 0
        for id_ in self._matching:
            bits |= 1 << (digest_of(id_) // self._one_in % BITS)
        return bits.to_bytes(BITS // 8, "little").rstrip(b"\0")


@lru_cache(maxsize=1 << 14)
def _number(bits: bytes) -> int:
    return int.from_bytes(bits, "little")


def extension(connections: int, bits: bytes, interest: Interest) -> tuple[int, bytes, bytes]:
    """What a participant of the graph adds to its descriptor."""
    return connections, bits, interest.pattern.encode()


def parts_of(descriptor: Descriptor) -> tuple[int, bytes, Interest]:
    """Connections, bits and interest of a participant, as far as its descriptor makes sense."""
    return _parts(descriptor.box, descriptor.ext)


@lru_cache(maxsize=1 << 14)
def _parts(box: Box, ext: Extension) -> tuple[int, bytes, Interest]:
    match ext:
        case (int(connections), bytes(bits), bytes(pattern)):
            interest = Interest(box, pattern.decode("utf-8", "replace"))
            return connections, bits[: BITS // 8], interest if is_sound(interest) else NOTHING
    return 0, b"", Interest(box)


def proximities(space: Space, target: Descriptor, others: list[Descriptor]) -> list[float]:
    """f_s of a participant and each of the others."""
    _, bits, interest = parts_of(target)
    if is_empty(interest):
        return [0.0] * len(others)
    marked = _number(bits)
    found = []
    for other in others:
        _, other_bits, other_interest = parts_of(other)
        wants = not is_empty(other_interest)
        found.append(f_s(marked, _number(other_bits), space, interest, other_interest) if wants else 0.0)
    return found


def f_s(a_bits: int, b_bits: int, space: Space, a: Interest, b: Interest) -> float:
    a_count, b_count = a_bits.bit_count(), b_bits.bit_count()
    if a_count >= LEAST_BITS and b_count >= LEAST_BITS:
        both = (a_bits & b_bits).bit_count()
        return (both / a_count + both / b_count) / 2
    return structural(space, a, b)


@lru_cache(maxsize=1 << 16)
def structural(space: Space, a: Interest, b: Interest) -> float:
    """f_s as far as the interests alone tell, as if events were spread evenly."""
    shared = space.overlap(a.box, b.box)
    if not shared:
        return 0.0
    of_boxes = (shared / space.volume(a.box) + shared / space.volume(b.box)) / 2
    return of_boxes * _of_patterns(a, b)


def _of_patterns(a: Interest, b: Interest) -> float:
    if a.pattern == b.pattern:
        return 1.0
    if not a.pattern or not b.pattern:
        return 0.5
    whole = Interest(a.box, b.pattern)
    if contains(a, whole) or contains(whole, a):
        return 0.75
    mine = {node.label for node in nodes(parse(a.pattern))}
    theirs = {node.label for node in nodes(parse(b.pattern))}
    return 0.5 * len(mine & theirs) / len(mine | theirs)
