"""What participants of the containment tree say to each other."""

from typing import Annotated, Final, Literal, TypeAlias

import msgspec
from msgspec import Meta

from protocols.model.bounds import Count, Slot
from protocols.model.event import Copy
from protocols.model.ids import Address, PeerId
from protocols.model.interest import Interest

ANCESTORS_MAX: Final = 4
"""The parent and three more (specification, section 3a)."""
HOPS_MAX: Final = 200
"""How far a request is passed on: several times the height of any sound tree."""

DEPTH_MAX: Final = 1_000_000
MEMBERS_MAX: Final = 2**53
SEQ_MAX: Final = 2**53
"""Far beyond what is ever reached, and far from where adding one ends: a liar must not make us send nonsense."""

Depth: TypeAlias = Annotated[int, Meta(ge=0, le=DEPTH_MAX)]
Members: TypeAlias = Annotated[int, Meta(ge=0, le=MEMBERS_MAX)]
Seq: TypeAlias = Annotated[int, Meta(ge=0, le=SEQ_MAX)]
Hops: TypeAlias = Annotated[int, Meta(ge=0, le=HOPS_MAX)]
Ancestors: TypeAlias = Annotated[tuple[Address, ...], Meta(max_length=ANCESTORS_MAX)]

LinkKind: TypeAlias = Literal["root", "interest", "equal", "idle"]
"""Why a child hangs there: both are top-level; the parent contains it; they are equivalent; it wants nothing."""

Mode: TypeAlias = Literal["climb", "here", "below", "slot"]
"""How a participant asks for a parent.

- climb: take me if you contain me, else pass me up; at the top I become a top-level peer;
- here: take me as whatever fits, or pass me down;
- below: take me only if you contain me or are equivalent;
- slot: on the way down an equivalence tree, or the virtual root.
"""


class Rank(msgspec.Struct, frozen=True, array_like=True, order=True, gc=False):
    """The name of a tree: since when there is one, and who was its root then. Of two trees the lower rank stays."""

    since_ms: Count
    peer: PeerId
    slot: Slot


class Attach(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="attach"):
    """Be my parent. `rank` is the joiner's tree, if it has children; it does not want to be passed to `avoid`. `over`:
    somebody who contains it has no room, so it goes up past all who do, unless they have."""

    joiner: Address
    req_id: Count
    interest: Interest
    mode: Mode
    rank: Rank | None = None
    avoid: Address | None = None
    hops: Hops = 0
    over: bool = False


class Pulse(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="pulse"):
    """The origin lives, this is its `seq`-th pulse, and this is where you are; `left`, `right`: siblings in a chain.

    `req_id` is the child's request that was granted, `known` the digest of its interest as the parent knows it."""

    rank: Rank
    seq: Seq
    req_id: Count
    kind: LinkKind
    known: Count
    depth: Depth
    equal_root: Address
    ancestors: Ancestors
    left: Address | None = None
    right: Address | None = None


class Attached(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="attached"):
    """I am your parent, in this way."""

    req_id: Count
    pulse: Pulse


class Refused(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="refused"):
    req_id: Count


class Detach(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="detach"):
    """I am not your child (any more), as far as my requests up to this one made me so. What this says of the other
    direction is nothing: two that change places say it of the link before, while the one after it stands."""

    req_id: Count


class Dismiss(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="dismiss"):
    """You are not my child any more."""


class Below(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="below"):
    """To the parent: how many equivalents and how many top-level peers there are from me downwards, whether I contain
    anybody, whether I leave, and whether I still serve somebody beyond my interest, which was another before."""

    equals: Members
    tops: Members
    contains: bool
    leaving: bool
    beyond: bool = False


class Probe(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="probe"):
    """Who contains this interest?"""

    joiner: Address
    req_id: Count
    interest: Interest
    hops: Hops = 0


class Found(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="found"):
    """I contain it (or am equivalent), and none of my children does."""

    req_id: Count
    depth: Depth
    children: Count
    equal: bool


class Reorganise(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="reorganise"):
    """Whoever is contained in this interest, and has a parent that is less deep: I would be a better one."""

    newcomer: Address
    req_id: Count
    interest: Interest
    depth: Depth
    hops: Hops = 0


class Leaving(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="leaving"):
    """To a child: I cannot be your parent for long; attach there."""

    to: Address


class Promote(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="promote"):
    """Passed down an equivalence tree to a leaf: take my place, at this parent."""

    leaver: Address
    parent: Address
    hops: Hops = 0


class Promoted(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="promoted"):
    """I have taken your place."""


class Crown(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="crown"):
    """From the root of the tree: be the root instead of me, or, with `climb`, whoever is top-level above you."""

    root: Address
    req_id: Count
    interest: Interest
    rank: Rank
    climb: bool
    hops: Hops = 0


class Foreign(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="foreign"):
    """Passed up to the root: there is another tree, and somebody of it is there."""

    contact: Address
    hops: Hops = 0


class Routed(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="routed"):
    """An event; `along`: to be passed on along the chain of siblings."""

    copy: Copy
    along: bool = False


MESSAGES: Final = (
    Attach,
    Attached,
    Refused,
    Detach,
    Dismiss,
    Pulse,
    Below,
    Probe,
    Found,
    Reorganise,
    Leaving,
    Promote,
    Promoted,
    Crown,
    Foreign,
    Routed,
)
