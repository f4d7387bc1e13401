"""Descriptors: what participants and peers tell each other about themselves and about third parties.

They are copied from peer to peer, so they age and contradict each other. One rule settles every contradiction: the
higher (boot, version) wins, then the lower age (`newer`). A box never changes under an unchanged version.

A peer's descriptor is split like an event, by who reads it: every peer that hands it around reads the head, and only
one that looks for participants reads what it says of those. So that travels as one opaque string of bytes (`pack`,
`unpack`): an entry in a view is six objects instead of some twenty, and to pass one on costs a third.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Final, TypeAlias, overload

import msgspec

from protocols.model.bounds import (
    ENTRIES_MAX,
    EXTENSION_MAX,
    PARTICIPANTS_MAX,
    TEXT_MAX,
    Count,
    Finite,
    ParticipantSlot,
)
from protocols.model.box import Box
from protocols.model.ids import Address

Extension: TypeAlias = Annotated[
    tuple[int | Finite | Annotated[bytes, msgspec.Meta(max_length=TEXT_MAX)], ...],
    msgspec.Meta(max_length=EXTENSION_MAX),
]
"""What one overlay adds to its descriptors (depth, cell, bandwidth …); empty for most. Text goes as bytes: the decoder
cannot tell strings from bytes in one union."""


REFUTATION_MAX: Final = 1 << 53
"""No peer can be suspected so often; keeps the number within what every decoder reads."""

Refutation: TypeAlias = Annotated[int, msgspec.Meta(ge=0, le=REFUTATION_MAX)]


class Descriptor(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A participant: where it is, and the box it routes by."""

    address: Address
    box: Box
    version: Count = 0
    age: Count = 0
    ext: Extension = ()


class Standing(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A participant as its peer's `PeerDescriptor` names it: the address is the peer's but for the slot."""

    slot: ParticipantSlot
    box: Box
    version: Count = 0
    ext: Extension = ()


PACKED_MAX: Final = 24 * 1024
"""Bytes in which a peer names its participants: nine such descriptors, a welcome's, still fit into a frame."""
REMEMBERED_BYTES_MAX: Final = 512
"""What was read of a descriptor of ordinary size is remembered. (A box of four numbers takes 30 bytes.)"""

REMEMBERED_MAX: Final = 1 << 14
"""That many of them. A guess: more peers than most swarms have, in some ten megabytes."""

Packed: TypeAlias = Annotated[bytes, msgspec.Meta(max_length=PACKED_MAX)]


class PeerDescriptor(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A peer as peer sampling hands it around: its address, some of its participants, and when it last spoke.

    `refutation` is the peer's own counter against rumours of its death: a higher one proves that it lived after the
    rumour was started.
    """

    address: Address
    age: Count = 0
    refutation: Refutation = 0
    participants: Packed = b""


PeerEntries: TypeAlias = Annotated[tuple[PeerDescriptor, ...], msgspec.Meta(max_length=ENTRIES_MAX)]
"""What one message of bootstrap or sampling tells about other peers."""


def newer(a: Descriptor, b: Descriptor) -> Descriptor:
    """Which of two descriptors of the same participant to believe."""
    ahead = (a.address.boot, a.version, -a.age) >= (b.address.boot, b.version, -b.age)
    return a if ahead else b


_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(Annotated[tuple[Standing, ...], msgspec.Meta(max_length=PARTICIPANTS_MAX)])


def pack(participants: Iterable[Standing]) -> bytes:
    """What a peer's descriptor says of these participants: of as many, from the first on, as there is room for."""
    shown = tuple(participants)
    while len(packed := _encoder.encode(shown)) > PACKED_MAX:
        shown = shown[:-1]
    return packed if shown else b""


_remembered: dict[bytes, tuple[Standing, ...]] = {}  # the same descriptors come by again and again


def unpack(packed: bytes) -> tuple[Standing, ...]:
    """The participants that a descriptor names; `msgspec.DecodeError` if a remote peer sent nonsense."""
    known = _remembered.get(packed)
    return _read(packed) if known is None else known


def _read(packed: bytes) -> tuple[Standing, ...]:
    try:
        participants = _decoder.decode(packed) if packed else ()
    except UnicodeDecodeError as error:
        raise msgspec.DecodeError("text is not UTF-8") from error
    except RecursionError as error:
        raise msgspec.DecodeError("nested too deeply") from error
    if len(packed) <= REMEMBERED_BYTES_MAX:
        if len(_remembered) >= REMEMBERED_MAX:
            _remembered.clear()  # to be learned anew costs less than to keep account of who came by last
        _remembered[packed] = participants
    return participants


def readable(peers: Iterable[PeerDescriptor]) -> bool:
    """Whether nothing that these descriptors say of participants is nonsense."""
    for peer in peers:
        if peer.participants not in _remembered:
            try:
                _read(peer.participants)
            except msgspec.DecodeError:
                return False
    return True


def participants_of(peers: Iterable[tuple[PeerDescriptor, int]]) -> list[Descriptor]:
    """The participants that peers' descriptors of these ages name, as descriptors of their own."""
    return [
        Descriptor(Address(own.peer, own.boot, each.slot, own.at), each.box, each.version, age, each.ext)
        for peer, age in peers
        for own in (peer.address,)
        for each in unpack(peer.participants)
    ]


class Samples(Sequence[Descriptor]):
    """The participants that the peers of a view show, read only if somebody looks: many samples come for each that is
    needed. What the view holds then is what counts."""

    __slots__ = ("_addresses", "_peers", "_read")

    def __init__(self, peers: Callable[[], list[tuple[PeerDescriptor, int]]]) -> None:
        self._peers = peers
        self._read: list[Descriptor] | None = None
        self._addresses: list[Address] | None = None

    def addresses(self) -> list[Address]:
        """Where they are, for those who need not know more. All participants of a peer ask."""
        if self._addresses is None:
            self._addresses = [
                Address(own.peer, own.boot, each.slot, own.at)
                for peer, _ in self._peers()
                for own in (peer.address,)
                for each in unpack(peer.participants)
            ]
        return self._addresses

    def _all(self) -> list[Descriptor]:
        if self._read is None:
            self._read = participants_of(self._peers())
        return self._read

    def __len__(self) -> int:
        return len(self._all())

    def __iter__(self) -> Iterator[Descriptor]:
        return iter(self._all())

    @overload
    def __getitem__(self, at: int) -> Descriptor: ...
    @overload
    def __getitem__(self, at: slice) -> list[Descriptor]: ...
    def __getitem__(self, at: int | slice) -> Descriptor | list[Descriptor]:
        return self._all()[at]


def addresses_of(descriptors: Sequence[Descriptor]) -> list[Address]:
    """The addresses of participants that were sampled."""
    if isinstance(descriptors, Samples):
        return descriptors.addresses()
    return [descriptor.address for descriptor in descriptors]
