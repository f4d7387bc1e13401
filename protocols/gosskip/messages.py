"""What participants of GosSkip say to each other.

A participant has one place in the list, or two while it moves. So every message names the place that it is meant for:
`at` is the version of the box that stands there, `ANY` is whichever stands.
"""

from collections.abc import Sequence
from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from protocols.model.bounds import INT_MAX, Count
from protocols.model.descriptor import Descriptor
from protocols.model.event import Copy
from protocols.model.ids import Address, EventId

ANY: Final = -1
SUCCESSORS_MAX: Final = 64
"""Places told beyond the right neighbour: enough for a few peers with 16 participants side by side."""
RANGES_MAX: Final = 1_024
"""Descriptors in one message; what is more goes in several, so that none outgrows a frame (`chunks`)."""
CHUNK_BYTES: Final = 64 * 1024
"""What descriptors in one message may take up: a quarter of a frame."""
LISTS_MAX: Final = 1_024
FORWARDED_MAX: Final = 16
"""Entries of others in a message of gossip: k - 1 (paper, section 3.1), and k is at most 16."""

At: TypeAlias = Annotated[int, Meta(ge=ANY, le=INT_MAX)]
ListNumber: TypeAlias = Annotated[int, Meta(ge=0, le=1 << 31)]
Level: TypeAlias = Annotated[int, Meta(ge=0, le=63)]
Digest: TypeAlias = Count
Descriptors: TypeAlias = Annotated[tuple[Descriptor, ...], Meta(max_length=RANGES_MAX)]
Successors: TypeAlias = Annotated[tuple[Descriptor, ...], Meta(max_length=SUCCESSORS_MAX)]
Ages: TypeAlias = Annotated[tuple[tuple[ListNumber, Count], ...], Meta(max_length=LISTS_MAX)]
"""Lists that are active, and how long ago (in ms) their first place was heard of."""


def chunks(descriptors: Sequence[Descriptor]) -> list[tuple[Descriptor, ...]]:
    """The descriptors in portions that fit into a message; one empty portion for none."""
    result: list[tuple[Descriptor, ...]] = []
    portion: list[Descriptor] = []
    size = 0
    for descriptor in descriptors:
        box = descriptor.box
        size += 120 + 20 * len(box.lo) + 4 * sum(map(len, box.lo_text + box.hi_text))
        if portion and (size > CHUNK_BYTES or len(portion) == RANGES_MAX):
            result.append(tuple(portion))
            portion, size = [], 0
        portion.append(descriptor)
    return [*result, tuple(portion)]


def is_sound(message: msgspec.Struct) -> bool:
    """Whether all places that a message names are places of participants."""
    for name in message.__struct_fields__:
        value = getattr(message, name)
        if type(value) is Descriptor:
            if value.address.slot < 0 or not value.address.peer:
                return False
        elif type(value) is tuple and value and type(value[0]) in (Descriptor, Forwarded, Kept):
            for each in value:
                descriptor = each if type(each) is Descriptor else each.place
                if descriptor.address.slot < 0 or not descriptor.address.peer:
                    return False
    return True


# --- The chain --------------------------------------------------------------------------------------------------------


class Insert(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="insert"):
    """Routed to the place before the joiner's: let it stand behind you."""

    at: At
    joiner: Descriptor
    req: Count
    hops: Count = 0


class Inserted(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="inserted"):
    """You stand between these two, once you know the ranges that reach to you: these and, if they are not the whole of
    them, those that follow (`Ranges`).

    `established`: your list is known to everyone already. `wait_ms`, `holders`: see `Held`.
    """

    at: At
    req: Count
    left: Descriptor | None
    right: Descriptor | None
    successors: Successors
    ranges: Descriptors
    whole: bool
    lists: Ages
    established: bool
    wait_ms: Count = 0
    holders: Count = 0


class LeftIs(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="left-is"):
    """Your left neighbour is this one now (instead of that one, which has left)."""

    at: At
    left: Descriptor | None
    instead: Descriptor | None = None


class Claim(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="claim"):
    """I would be your left neighbour."""

    at: At
    place: Descriptor


class Claimed(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="claimed"):
    """You are; and I am your right one."""

    at: At
    place: Descriptor
    successors: Successors


class Hint(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="hint"):
    """You should know this place; it may stand between us."""

    at: At
    place: Descriptor


class Seek(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="seek"):
    """Routed to where that place should stand: whoever does not find it there claims it."""

    at: At
    place: Descriptor
    hops: Count = 0


class Beyond(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="beyond"):
    """From a right neighbour to its left one: these stand right of me.

    `leased_ms`: for so long publishers may hold proxy filters of mine."""

    at: At
    place: Descriptor
    successors: Successors
    leased_ms: Count = 0


class Leaving(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="leaving"):
    """From a right neighbour to its left one: let that one be your right neighbour instead of me.

    `leased_ms`: for so long publishers may still hold proxy filters of mine."""

    at: At
    place: Descriptor
    right: Descriptor | None
    leased_ms: Count = 0


class Released(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="released"):
    """You do not stand in the list any more."""

    at: At


class Farewell(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="farewell"):
    """This place of mine does not gossip with you any more at that level (`ANY`: it is gone)."""

    at: At
    version: Count
    level: Annotated[int, Meta(ge=ANY, le=63)] = ANY


class Ask(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="ask"):
    """I have not heard of you for long: does this place of mine still get your gossip of that level?"""

    at: At
    version: Count
    level: Level


class Vacant(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="vacant"):
    """I have no place of that version (any more)."""

    version: Count


# --- Levels -----------------------------------------------------------------------------------------------------------


class Forwarded(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """An entry of gossip that came from another place: so many times it was passed on."""

    place: Descriptor
    counter: Annotated[int, Meta(ge=0, le=FORWARDED_MAX)]


class Gossip(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="gossip"):
    """Level gossip (paper, Figure 2). The sender's own entry is `place`, with the counter 0.

    Piggybacked: which lists are active; how long ago broad ranges were recalled (`ANY`: not lately); at level 0, a
    digest of the ranges that the receiver should know.
    """

    at: At
    level: Level
    place: Descriptor
    entries: Annotated[tuple[Forwarded, ...], Meta(max_length=FORWARDED_MAX)]
    lists: Ages = ()
    digest: Digest = 0
    recall_age_ms: Annotated[int, Meta(ge=ANY, le=INT_MAX)] = ANY


# --- Ranges -----------------------------------------------------------------------------------------------------------


class Ranges(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="ranges"):
    """From a left neighbour to its right one: these ranges reach to you (or do so no more).

    From `begin` to `end` all are told: what is not named then is to be forgotten."""

    at: At
    place: Descriptor
    add: Descriptors
    drop: Descriptors = ()
    begin: bool = False
    end: bool = False


class Pull(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="pull"):
    """Tell me all ranges that reach to me."""

    at: At


class Probe(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="probe"):
    """Follows a range along level 0 to its end; who knows the range takes it (`Taken`) and passes it on until the next
    one does, the last one answers `Held`."""

    at: At
    owner: Descriptor
    req: Count
    sender_at: Count
    wait_ms: Count = 0
    holders: Count = 0


class Taken(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="taken"):
    """I have the probe of that range, and see to it from here on."""

    at: At
    owner: Descriptor
    req: Count


class Held(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="held"):
    """Your range is known all over. So many publishers were told to give up proxy filters that it crosses, and will
    say so (`Revoked`); after that time they have none in any case."""

    at: At
    req: Count
    wait_ms: Count = 0
    holders: Count = 0


# --- Cells ------------------------------------------------------------------------------------------------------------


class Store(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="store"):
    """Routed to the start of that cell: keep (or drop) this broad range there, and see to its cells behind it."""

    at: At
    owner: Descriptor
    cell: Count
    req: Count
    drop: bool = False
    hops: Count = 0


class Kept(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A broad range that is kept for so long, unless it is stored again; 0: no more."""

    place: Descriptor
    left_ms: Count


class Keep(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="keep"):
    """From neighbour to neighbour: keep these."""

    at: At
    entries: Annotated[tuple[Kept, ...], Meta(max_length=RANGES_MAX)]


# --- Lists ------------------------------------------------------------------------------------------------------------


class Announce(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="announce"):
    """Routed to the head of the chain: let everyone know that this list is active."""

    at: At
    list: ListNumber
    origin: Descriptor
    req: Count
    hops: Count = 0


class Spread(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="spread"):
    """That list is active. Tell all right of you up to `bound`, and echo when they know."""

    at: At
    list: ListNumber
    origin: Descriptor
    req: Count
    sender_at: Count
    bound: Descriptor | None


class Echo(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="echo"):
    """All of my part know. To the origin, from `ANY`: everyone knows."""

    at: At
    sender_at: At
    origin: Descriptor
    req: Count


# --- Events -----------------------------------------------------------------------------------------------------------


class Hop(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="hop"):
    """An event on its way to its home in a list; `origin` has published it."""

    at: At
    list: ListNumber
    origin: Address
    copy: Copy


class Serve(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="serve"):
    """An event for one whose range holds it, from its home."""

    copy: Copy


# --- Proxy filters ----------------------------------------------------------------------------------------------------


class Proxy(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="proxy"):
    """To a publisher: nobody wanted that event of yours, nor what falls behind it in this list up to the next place
    (None: up to the end of the list)."""

    event_id: EventId
    list: ListNumber
    next: Descriptor | None


class Revoke(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="revoke"):
    """Somebody will want it: drop what I have given you, and tell this place that you did (request 0: no need to)."""

    owner: Descriptor
    req: Count


class Revoked(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="revoked"):
    at: At
    req: Count


MESSAGES: Final = (
    Insert,
    Inserted,
    LeftIs,
    Claim,
    Claimed,
    Hint,
    Seek,
    Beyond,
    Leaving,
    Released,
    Farewell,
    Ask,
    Vacant,
    Gossip,
    Ranges,
    Pull,
    Probe,
    Taken,
    Held,
    Store,
    Keep,
    Announce,
    Spread,
    Echo,
    Hop,
    Serve,
    Proxy,
    Revoke,
    Revoked,
)
