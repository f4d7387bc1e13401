"""Identifiers: a circle of 2^m numbers (paper, section 2.2), and who stands where on it.

A node's identifier is the SHA-1 of its address's peer, boot and slot; it is computed wherever an address is known and
never sent. Differs from the paper, where a node keeps its identifier for ever: a restarted peer is another participant,
with nothing of what the former one stored, and two nodes with one identifier would have to be told apart.

Keys travel as bytes, since 160 bits fit no integer of MessagePack.
"""

from functools import lru_cache
from hashlib import sha1
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

from protocols.model.ids import Address

KEY_BYTES: Final = 20
"""160 bits."""

Key: TypeAlias = Annotated[bytes, Meta(max_length=KEY_BYTES)]


def digest(text: str) -> int:
    return int.from_bytes(sha1(text.encode("utf-8", "surrogatepass")).digest(), "big")


@lru_cache(maxsize=1 << 16)
def node_id(address: Address, bits: int) -> int:
    """The first bits of a participant's SHA-1; asked for at every hop, and for the same few."""
    return digest(f"{address.peer}/{address.boot}/{address.slot}") >> (8 * KEY_BYTES - bits)


class Circle:
    """Arithmetic modulo 2^m. An arc (lo, hi] goes clockwise; (x, x] is the whole circle."""

    __slots__ = ("_shift", "bits", "mask", "size", "width")

    def __init__(self, bits: int) -> None:
        self.bits = bits
        self.size = 1 << bits
        self.mask = self.size - 1
        self.width = (bits + 7) // 8
        self._shift = 8 * KEY_BYTES - bits

    def hash(self, text: str) -> int:
        """The first m bits of the text's SHA-1."""
        return digest(text) >> self._shift

    def node(self, address: Address) -> int:
        """Where a participant stands."""
        return node_id(address, self.bits)

    def distance(self, a: int, b: int) -> int:
        """How far it is clockwise from a to b."""
        return (b - a) & self.mask

    def within(self, key: int, lo: int, hi: int) -> bool:
        """Whether the key lies on the arc (lo, hi]."""
        length = (hi - lo) & self.mask
        return not length or 0 < ((key - lo) & self.mask) <= length

    def between(self, key: int, lo: int, hi: int) -> bool:
        """Whether the key lies strictly between; between x and x lies everything but x."""
        length = (hi - lo) & self.mask or self.size
        return 0 < ((key - lo) & self.mask) < length

    def length(self, lo: int, hi: int) -> int:
        """How many keys the arc (lo, hi] has."""
        return (hi - lo) & self.mask or self.size

    def encode(self, key: int) -> bytes:
        return key.to_bytes(self.width, "big")

    def decode(self, key: bytes) -> int:
        return int.from_bytes(key, "big") & self.mask
