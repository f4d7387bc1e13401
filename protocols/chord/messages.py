"""What nodes of the ring say to each other.

Messages that are addressed to a key rather than to a node are *routed*: a node that is not responsible passes them on
towards the key, and counts the hop. Their answers go straight to the node that asked.
"""

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from protocols.chord.ids import Key
from protocols.chord.keys import HOME, LIST_MAX
from protocols.model.bounds import ATTRIBUTES_MAX, Count
from protocols.model.box import Box, Point
from protocols.model.event import Copy
from protocols.model.ids import Address, EventId

SUCCESSORS_MAX: Final = 64
KEYS_MAX: Final = 1_024
"""Keys in one message. Beyond any event: 32 attributes with a key and 16 prefixes each."""
ROWS_MAX: Final = 64
FOUND_MAX: Final = 512
ITEMS_MAX: Final = 1_024
MARKS_MAX: Final = 65_536
"""A bit for each of the rows that a node stores at the most (`rows_max`)."""
HOPS_MAX: Final = 512
"""A routed message goes no further: the ring is not in order, and whoever asked will ask again."""

Addresses: TypeAlias = Annotated[tuple[Address, ...], Meta(max_length=SUCCESSORS_MAX)]
RoutedKeys: TypeAlias = Annotated[tuple[Key, ...], Meta(max_length=KEYS_MAX)]
List: TypeAlias = Annotated[int, Meta(ge=HOME, le=LIST_MAX)]
Lists: TypeAlias = Annotated[tuple[List, ...], Meta(max_length=2 * ATTRIBUTES_MAX)]
Hops: TypeAlias = Annotated[int, Meta(ge=0, le=HOPS_MAX)]
Numbers: TypeAlias = Annotated[tuple[Count, ...], Meta(max_length=FOUND_MAX)]

# --- The ring ---------------------------------------------------------------------------------------------------------


class Enter(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="enter"):
    """Routed: a newcomer looks for its successor."""

    newcomer: Address
    hops: Hops = 0


class Accepted(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="accepted"):
    """You stand before me now. Your predecessor, your successors, and others to route by."""

    predecessor: Address | None
    successors: Addresses
    known: Addresses


class Stabilise(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="stabilise"):
    """You are my successor, or may be: I am your predecessor, and who are your neighbours? `known`: the list I have."""

    known: Count = 0


class Neighbours(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="neighbours"):
    """`low`: where the arc begins that I answer for, empty for none. `successors` are left out if `list` is known."""

    predecessor: Address | None
    low: Key
    list: Count
    successors: Addresses


class Meet(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="meet"):
    """Routed: somebody stands there; if your ring does not know it, there are two rings."""

    other: Address
    hops: Hops = 0


class Leaving(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="leaving"):
    """I am gone; these were my neighbours. My successor answers for my arc from now on."""

    predecessor: Address | None
    successors: Addresses


# --- Lookups ----------------------------------------------------------------------------------------------------------


class Find(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="find"):
    """Routed, recursive: who answers for these keys?"""

    req_id: Count
    keys: RoutedKeys
    origin: Address
    hops: Hops = 0


class Owner(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="owner"):
    """I answer for these keys, from `low` up to myself."""

    req_id: Count
    keys: RoutedKeys
    low: Key
    hops: Hops = 0


class Step(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="step"):
    """Iterative: who is nearer to this key than you?"""

    req_id: Count
    key: Key
    hops: Hops = 0


class Nearer(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="nearer"):
    req_id: Count
    nodes: Addresses


# --- Rows -------------------------------------------------------------------------------------------------------------


class Row(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A subscription id in a list (paper, section 3): `access` is c1, `number` c2 and `lists` c3.

    `box` is the subscription's box, or, where lists are counted, its side in this list's attribute.
    """

    access: Address
    number: Count
    lists: Annotated[int, Meta(ge=0, le=LIST_MAX)]
    list: List
    version: Count
    box: Box
    removed: bool = False


Rows: TypeAlias = Annotated[tuple[Row, ...], Meta(max_length=ROWS_MAX)]


class Store(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="store"):
    """Routed to the key of the value `first`, and on to that of `last`: this is the newest version of the row.

    `direct`: you were chosen as a node of the range, whether or not `first` is yours. `until`: a node that others see
    to, with all beyond it (`range_store = "multicast"`).
    """

    row: Row
    first: Count
    last: Count
    rotation: Annotated[int, Meta(ge=0, le=63)] = 0
    direct: bool = False
    until: Key = b""
    hops: Hops = 0


class Stored(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="stored"):
    """I have this version of the row, for the arc from `low` up to myself, and so have those who hold my copies."""

    number: Count
    list: List
    version: Count
    low: Key
    hops: Hops = 0


class Replicate(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="replicate"):
    """Hold this row for me. `outdated`: it has no key of mine any more, so let go what you had for me instead of it."""

    token: Count
    row: Row
    outdated: bool = False


class Held(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="held"):
    token: Count


class Transfer(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="transfer"):
    """All rows of the arc (low, high], a part at a time; `leases`: how long each of them lives on, in ms.

    `handoff`: answer for it from now on. `bequest`: from when I say that I leave. `copy`: hold it for me.
    """

    token: Count
    part: Count
    purpose: Literal["handoff", "bequest", "copy"]
    low: Key
    high: Key
    rows: Rows
    leases: Annotated[tuple[Count, ...], Meta(max_length=ROWS_MAX)]
    last: bool


class Taken(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="taken"):
    token: Count
    part: Count


class Digest(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="digest"):
    """What I have in the arc from `low` up to myself, and you a copy of.

    `renewed`: a bit for each of the rows, in the order of their digests: its access node has renewed it here lately.
    """

    low: Key
    count: Count
    sum: Count
    renewed: Annotated[bytes, Meta(max_length=MARKS_MAX)]


class Differs(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="differs"):
    """My copy is not the same: send it again."""


class Lease(msgspec.Struct, frozen=True, array_like=True, gc=False):
    number: Count
    list: List
    version: Count


Leases: TypeAlias = Annotated[tuple[Lease, ...], Meta(max_length=ITEMS_MAX)]


class Refresh(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="refresh"):
    """My rows at your node: let them live on, and say which are missing."""

    token: Count
    leases: Leases


class Refreshed(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="refreshed"):
    token: Count
    low: Key
    missing: Annotated[tuple[Count, ...], Meta(max_length=ITEMS_MAX)]


# --- Events -----------------------------------------------------------------------------------------------------------


class Found(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A subscription id, and the lists in which it was found."""

    access: Address
    number: Count
    lists: Annotated[int, Meta(ge=0, le=LIST_MAX)]
    seen: Lists


FoundList: TypeAlias = Annotated[tuple[Found, ...], Meta(max_length=FOUND_MAX)]


class Match(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="match"):
    """Routed: which subscriptions under these keys does an event at this point satisfy?"""

    event_id: EventId
    point: Point
    keys: RoutedKeys
    origin: Address
    hops: Hops = 0


class Matched(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="matched"):
    """These, as far as the keys are concerned that I answer for. (A long answer comes in parts; the last has the keys.)

    `overflow`: a chain has found more than it can carry along; ask for the keys one by one.
    """

    event_id: EventId
    keys: RoutedKeys
    low: Key
    found: FoundList
    hops: Hops = 0
    overflow: bool = False


class Chain(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="chain"):
    """Routed to one key after the other, with what was found so far and can still be a match."""

    event_id: EventId
    point: Point
    keys: RoutedKeys
    found: FoundList
    origin: Address
    hops: Hops = 0


class Notify(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="notify"):
    """An event for these subscriptions of the access node."""

    copy: Copy
    access: Address
    numbers: Numbers
    home: bool = False


MESSAGES: Final = (
    Enter,
    Accepted,
    Stabilise,
    Neighbours,
    Meet,
    Leaving,
    Find,
    Owner,
    Step,
    Nearer,
    Store,
    Stored,
    Replicate,
    Held,
    Transfer,
    Taken,
    Digest,
    Differs,
    Refresh,
    Refreshed,
    Match,
    Matched,
    Chain,
    Notify,
)
