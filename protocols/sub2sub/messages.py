"""What participants of Sub-2-Sub say to each other. Interests travel in VICINITY's own messages (`parts/vicinity`)."""

from typing import Annotated, Final, TypeAlias

import msgspec
from msgspec import Meta

from protocols.model.bounds import ENTRIES_MAX, Count
from protocols.model.descriptor import Descriptor
from protocols.model.event import Copy
from protocols.model.ids import Address
from protocols.parts import vicinity
from protocols.sub2sub.compound import PLACE_MAX

CLAIMS_MAX: Final = 64
CLAIMS_PARTS: Final = 60
"""Claims are compared in so many parts. A guess: in a swarm that gathers a few of them differ at a time."""
DIGESTS_MAX: Final = 4096
HOPS_MAX: Final = 64
"""Steps of anything that is passed from participant to participant without being an event."""

ANYWHERE: Final = PLACE_MAX
"""Instead of a place, for an event that is flooded for all of them."""

Place: TypeAlias = Annotated[int, Meta(ge=0, le=PLACE_MAX)]
Entries: TypeAlias = Annotated[tuple[Descriptor, ...], Meta(max_length=ENTRIES_MAX)]
Digests: TypeAlias = Annotated[tuple[int, ...], Meta(max_length=DIGESTS_MAX)]

# --- Joining ----------------------------------------------------------------------------------------------------------


class JoinRequest(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="s2s-join"):
    """Tell me whom and what you know."""

    own: Descriptor


class JoinReply(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="s2s-joined"):
    """You stand; here are some others. Claims follow."""

    own: Descriptor
    entries: Entries


# --- Rings ------------------------------------------------------------------------------------------------------------


class RingHello(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="ring-hello"):
    """This is me, and those are best for you in the ring of `place`. `leaving`: without me, for I am about to go."""

    place: Place
    own: Descriptor
    entries: Entries
    leaving: bool = False


class RingReply(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="ring-reply"):
    """`version`: that of the hello that this answers."""

    place: Place
    own: Descriptor
    entries: Entries
    version: Count


# --- Claims -----------------------------------------------------------------------------------------------------------


class Claim(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """`holder` stands in the ring of `place` with its whole span. A later `turn` replaces an earlier one; `ended`: it
    does not any more. `ending`: it soon will not, so whoever stands there too should claim it now; until then it leads
    into the ring as before. `age_ms`: since the holder said so."""

    place: Place
    holder: Descriptor
    turn: Count
    age_ms: Count = 0
    ended: bool = False
    ending: bool = False


class Claims(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="claims"):
    """`asking`: tell me yours in these parts, one bit each. `news`: tell others of those that you did not know."""

    claims: Annotated[tuple[Claim, ...], Meta(max_length=CLAIMS_MAX)]
    asking: Annotated[int, Meta(ge=0, lt=1 << CLAIMS_PARTS)] = 0
    news: bool = False


class ClaimsDigest(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="claims-digest"):
    """A number for all the claims that I know: if yours is another, let us compare. `parts`: a number for each part of
    them, told to somebody with another digest."""

    digest: Count
    parts: Annotated[tuple[Count, ...], Meta(max_length=CLAIMS_PARTS)] = ()


# --- Events -----------------------------------------------------------------------------------------------------------


class Enter(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="enter"):
    """An event on its way to the ring of `place`, or to everybody (`ANYWHERE`); whoever stands in the ring acknowledges
    to `origin`.

    `ttl`: steps left. `flood`: everybody passes it on to all that it knows, once."""

    place: Place
    copy: Copy
    origin: Address
    req_id: Count
    ttl: Annotated[int, Meta(ge=0, le=HOPS_MAX)]
    flood: bool = False


class Entered(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="entered"):
    """The event of that request is in the ring."""

    req_id: Count


class NotHere(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="not-here"):
    """The event of that request was brought to me, who am not in that ring and know nobody who is."""

    req_id: Count


class Descend(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="descend"):
    """An event on its way down the ring of `place` to the lowest of those that match (paper, section IV.B)."""

    place: Place
    copy: Copy


class Ring(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="ring"):
    """An event along a ring, or over a shortcut. `dropped`: copies are being held back at a feeder below (the paper's
    reserved bit, section IV.D)."""

    copy: Copy
    dropped: bool = False


class RecentIds(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="s2s-recent-ids"):
    """Digests of the events that fall into your span and that I received lately."""

    digests: Digests


class Want(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="s2s-want"):
    """Send me the events with these digests."""

    digests: Digests


# --- Flow control and cell switching ----------------------------------------------------------------------------------

Unit: TypeAlias = Annotated[int, Meta(ge=0, le=100)]
Cell: TypeAlias = Annotated[int, Meta(ge=0, le=64)]
Rate: TypeAlias = Annotated[float, Meta(ge=0.0, le=1e9)]


class FlowEvent(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="flow-event"):
    """Too many events come into this cell in the units `first` to `beyond` (the paper's flow control event)."""

    place: Place
    cell: Cell
    first: Unit
    beyond: Unit
    ttl: Annotated[int, Meta(ge=0, le=HOPS_MAX)]


class FlowQuery(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="flow-query"):
    """Tell the controller your rate: the paper's <Check event rate, Range, Controller ID>, and with `limiting` its
    <Flow control, Range, Controller ID>, which goes to the feeders as well."""

    place: Place
    cell: Cell
    first: Unit
    beyond: Unit
    controller: Address
    seq: Count
    limiting: bool


class FlowRate(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="flow-rate"):
    """<Event rate, Broker ID> or <Event rate, Feeder ID>."""

    seq: Count
    rate: Rate
    feeder: bool


class FlowLimit(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="flow-limit"):
    """<Max event rate limit, Controller ID>: so many events per cycle into the controller's cell, for 75 cycles."""

    place: Place
    cell: Cell
    first: Unit
    beyond: Unit
    rate: Rate
    seq: Count
    lifted: bool = False


class FlowClosed(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="flow-closed"):
    """My cell is being limited: no shortcuts into it for 75 cycles."""

    place: Place
    cell: Cell
    first: Unit
    beyond: Unit


class CellSwitch(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="cell-switch"):
    """<CELL SWITCHING, CELL NUM, ID>: whoever would be next to `own` with that cell, tell it."""

    place: Place
    own: Descriptor
    cell: Cell
    ttl: Annotated[int, Meta(ge=0, le=HOPS_MAX)]


class SwitchOk(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="switch-ok"):
    """I would be your ring link there."""

    place: Place
    own: Descriptor
    cell: Cell


MESSAGES: Final = (
    *vicinity.MESSAGES,
    JoinRequest,
    JoinReply,
    RingHello,
    RingReply,
    Claims,
    ClaimsDigest,
    Enter,
    Entered,
    NotHere,
    Descend,
    Ring,
    RecentIds,
    Want,
    FlowEvent,
    FlowQuery,
    FlowRate,
    FlowLimit,
    FlowClosed,
    CellSwitch,
    SwitchOk,
)
