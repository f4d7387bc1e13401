"""What participants of the similarity graph say to each other."""

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from protocols.model.descriptor import Descriptor
from protocols.model.event import Copy, Event
from protocols.model.ids import EventId
from protocols.parts import vicinity

WALK_MAX: Final = 16
"""Steps of an event that looks for somebody who wants it. A guess: at 25 % interested, one in a hundred needs them."""
GAMMA_MAX: Final = 64
SHARED_MAX: Final = 4
IDS_MAX: Final = 64

Ids: TypeAlias = Annotated[tuple[EventId, ...], Meta(max_length=IDS_MAX)]


class Choose(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="choose"):
    """You are one of my neighbours: forward to me too."""

    own: Descriptor


class Chosen(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="chosen"):
    """I will."""

    own: Descriptor


class Unchoose(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="unchoose"):
    """We are not neighbours (any more)."""


class Spread(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="spread"):
    """An event, and how often it may still be forwarded by somebody who does not want it (indulgence)."""

    copy: Copy
    gamma: Annotated[int, Meta(ge=0, le=GAMMA_MAX)] = 0


class Walk(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="walk"):
    """An event that nobody has wanted yet."""

    copy: Copy
    steps: Annotated[int, Meta(ge=0, le=WALK_MAX)]


class Samples(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="samples"):
    """Events to measure similarity on; they are not delivered."""

    events: Annotated[tuple[Event, ...], Meta(max_length=SHARED_MAX)]


class RecentIds(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="recent-ids"):
    """Events that I have received lately and that you may want."""

    ids: Ids


class Want(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="want"):
    ids: Ids


MESSAGES: Final = (Choose, Chosen, Unchoose, Spread, Walk, Samples, RecentIds, Want, *vicinity.MESSAGES)
