"""What a participant of the containment tree consists of (paper, section 3).

**States.** new -> joining -> standing -> leaving -> left.

**Parts.** `Tree` holds the links; `Placing` decides who may be adopted; `Seek` asks for a parent; `Search` finds the
best one; `Routing` carries events; `Handover` lets children go in good order. What it does with them, section by
section:

    joining.py      joins, and takes up an interest          section 3, join
    attaching.py    asks for a parent, and becomes one       section 3, join
    moving.py       looks for a better parent, and moves     section 3, reorganisation
    leaving.py      leaves, or takes a leaver's place        section 3, leave, leaf promotion
    failing.py      has lost a parent, a child, an answer    section 3, failures
    pulse.py        the pulse that comes down from the origin
    merging.py      there is another tree
    links.py        what all of them do when links change

Each of these modules uses only those below it: pulse, leaving, joining > attaching > merging, failing > moving > links.
"""

from random import Random
from typing import Final

from protocols.model.ids import PEER_SLOT, Address
from protocols.model.interest import NOTHING, Interest, is_sound
from protocols.overlay import OWN_BOX, Outbox, Rejected
from protocols.semantic.config import SemanticConfig
from protocols.semantic.handover import Handover
from protocols.semantic.messages import Attach, Below, Rank
from protocols.semantic.placing import Placing
from protocols.semantic.routing import Routing
from protocols.semantic.search import Search
from protocols.semantic.seek import Seek, Target
from protocols.semantic.tree import Tree, digest

NEW: Final = "new"
JOINING: Final = "joining"
STANDING: Final = "standing"
LEAVING: Final = "leaving"
LEFT: Final = "left"

ASKED_MAX: Final = 4
"""How many of those from peer sampling are asked for a place in a row."""


class Participant:
    __slots__ = (
        "address",
        "beyond",
        "config",
        "contacts",
        "digest",
        "handover",
        "heard_ms",
        "named_ms",
        "out",
        "placing",
        "rng",
        "routing",
        "said",
        "search",
        "seek",
        "state",
        "tree",
        "version",
        "waiting",
        "wish",
    )

    def __init__(self, address: Address, config: SemanticConfig, rng: Random) -> None:
        self.address = address
        self.config = config
        self.rng = rng
        self.out = Outbox(address.slot)
        self.state = NEW
        self.version = 0
        self.tree = Tree(address, config, self.out)
        self.placing = Placing(self.tree, config, rng)
        self.seek = Seek()
        self.routing = Routing(self.tree, config, self.out, rng)
        self.search = Search(self.tree, config, self.out)
        self.handover = Handover(self.tree, config, self.out)
        self.contacts: list[Address] = []
        """From peer sampling."""
        self.digest = digest(NOTHING)
        """Of its interest."""
        self.waiting: dict[Address, Attach] = {}
        """Joiners that wait until it stands itself."""
        self.beyond = False
        """There are still children that do not belong here any more, and have to be served by way of its parent."""
        self.wish: Address | None = None
        """A better parent, to be asked when nothing else is under way."""
        self.heard_ms = 0
        """When the last new pulse came."""
        self.named_ms = 0
        """When another tree was last named to somebody."""
        self.said: Below | None = None
        """What the parent was told last; None: it has to be told."""

    @property
    def stands(self) -> bool:
        """Whether it has a place in the tree, and serves it, perhaps for a little while only."""
        return self.state in (STANDING, LEAVING)

    def activate(self) -> None:
        """The present interest stands in the tree."""
        self.routing.served = self.tree.interest
        self.out.active(OWN_BOX, self.version)

    def reign(self, rank: Rank, seq: int = 0) -> None:
        """Be the origin of a tree with that name. Whoever is given a crown goes on counting pulses: it may have had it
        before."""
        self.tree.rank, self.tree.seq = rank, seq

    def anybody(self) -> list[Target]:
        count = min(ASKED_MAX, len(self.contacts))
        return [(contact, "climb") for contact in self.rng.sample(self.contacts, count)]

    def is_sound(self, sender: Address, about: Address, interest: Interest) -> bool:
        """Whether what a message says about a participant can be true; if not, that is reported."""
        if about.slot <= PEER_SLOT or not about.peer:
            self.out.report(Rejected(sender, "only a participant can be in the tree"))
        elif not is_sound(interest):
            self.out.report(Rejected(sender, "its interest is no XPath pattern that we know"))
        else:
            return True
        return False

    def jittered(self, now_ms: int, period_ms: int) -> int:
        return now_ms + int(period_ms * self.rng.uniform(0.9, 1.1))
