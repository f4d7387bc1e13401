"""How much of anything a remote peer may send.

A bound stands in the type of a field (`Annotated[str, Meta(max_length=...)]`), so that the decoder refuses what is too
long while it reads, arrays and bytes by their header alone, and nobody has to remember a check. Measured: 20 ns on an
event that takes 400 ns to decode. The codec takes no message type with a field that has no bound (`peerd/wire.py`).

Integers have 64 bits at most by the nature of MessagePack; what counts, ages or measures should be a `Count`, so that
it is not negative and fits where others store it in 63 bits.
"""

from sys import float_info
from typing import Annotated, Final, TypeAlias

from msgspec import Meta

INT_MAX: Final = 2**63 - 1
SLOT_MAX: Final = 2**31 - 1

TEXT_MAX: Final = 1024
"""Characters in a string value (contract: 1 KiB per string)."""

ATTRIBUTES_MAX: Final = 128
"""Attributes in a schema. A guess: four times the 32 that one event may have (contract)."""

EVENT_ATTRIBUTES_MAX: Final = 32
"""Attributes in an event (contract)."""

BODY_BYTES_MAX: Final = 64 * 1024
"""An event's encoded body (contract: an event has at most 64 KiB)."""

EXTENSION_MAX: Final = 16
"""Values that an overlay adds to a descriptor. A guess."""

ENTRIES_MAX: Final = 64
"""Descriptors in a message of gossip. A guess: several times what the specification exchanges, 8 and 10."""

PARTICIPANTS_MAX: Final = 16
"""Participants of one peer (design)."""

ID_MAX: Final = 64
"""Digits in a peer's id: enough for a SHA-256."""

EVENT_ID_MAX: Final = ID_MAX + 2 * (1 + len(str(INT_MAX)))
"""Publisher, boot and sequence, each of the latter two behind a hyphen."""

ENDPOINT_MAX: Final = 253 + len("[]:65535")
"""A host name has at most 253 characters (RFC 1035, section 2.3.4, less the length bytes)."""

Count: TypeAlias = Annotated[int, Meta(ge=0, le=INT_MAX)]
Slot: TypeAlias = Annotated[int, Meta(ge=-1, le=SLOT_MAX)]
ParticipantSlot: TypeAlias = Annotated[int, Meta(ge=0, le=SLOT_MAX)]
"""Of a participant, never of the peer itself."""
Coordinate: TypeAlias = Annotated[int, Meta(ge=-1, le=INT_MAX)]
Finite: TypeAlias = Annotated[float, Meta(ge=-float_info.max, le=float_info.max)]
"""No NaN, which would make an order depend on who asks, and no infinity."""

Text: TypeAlias = Annotated[str, Meta(max_length=TEXT_MAX)]
TextCoordinate: TypeAlias = Annotated[str, Meta(max_length=TEXT_MAX + 2)]
"""A string value behind its `=`, or the upper bound just after it."""

Coordinates: TypeAlias = Annotated[tuple[Coordinate, ...], Meta(max_length=ATTRIBUTES_MAX)]
TextCoordinates: TypeAlias = Annotated[tuple[TextCoordinate, ...], Meta(max_length=ATTRIBUTES_MAX)]
