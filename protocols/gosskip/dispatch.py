"""Which method of a place a message is for, and which messages are for more than the place that they name."""

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from protocols.gosskip.messages import (
    Announce,
    Ask,
    Beyond,
    Claim,
    Claimed,
    Echo,
    Farewell,
    Gossip,
    Held,
    Hint,
    Insert,
    Inserted,
    Keep,
    Leaving,
    LeftIs,
    Probe,
    Pull,
    Ranges,
    Released,
    Revoked,
    Seek,
    Spread,
    Store,
    Taken,
)
from protocols.gosskip.place import Place
from protocols.model.ids import Address

Handler: TypeAlias = Callable[[Place, int, Address, Any], None]
"""The place, the time, the sender and the message."""

OF_PLACE: Final[dict[type, Handler]] = {
    Insert: lambda place, now_ms, sender, m: place.on_insert(now_ms, m),
    Inserted: lambda place, now_ms, sender, m: place.on_inserted(now_ms, sender, m),
    LeftIs: lambda place, now_ms, sender, m: place.on_left_is(now_ms, sender, m),
    Claim: lambda place, now_ms, sender, m: place.on_claim(m),
    Claimed: lambda place, now_ms, sender, m: place.on_claimed(now_ms, m),
    Hint: lambda place, now_ms, sender, m: place.on_hint(now_ms, sender, m),
    Seek: lambda place, now_ms, sender, m: place.on_seek(m),
    Beyond: lambda place, now_ms, sender, m: place.on_beyond(now_ms, sender, m),
    Leaving: lambda place, now_ms, sender, m: place.on_leaving(now_ms, sender, m),
    Released: lambda place, now_ms, sender, m: place.on_released(now_ms, m),
    Farewell: lambda place, now_ms, sender, m: place.gossip.on_farewell(now_ms, sender, m),
    Ask: lambda place, now_ms, sender, m: place.gossip.on_ask(now_ms, sender, m),
    Gossip: lambda place, now_ms, sender, m: place.on_gossip(now_ms, sender, m),
    Ranges: lambda place, now_ms, sender, m: place.on_ranges(now_ms, sender, m),
    Pull: lambda place, now_ms, sender, m: place.on_pull(sender, m),
    Probe: lambda place, now_ms, sender, m: place.on_probe(now_ms, sender, m),
    Taken: lambda place, now_ms, sender, m: place.known.probes.on_taken(m),
    Held: lambda place, now_ms, sender, m: place.on_held(now_ms, m),
    Store: lambda place, now_ms, sender, m: place.keeper.on_store(now_ms, sender, m),
    Keep: lambda place, now_ms, sender, m: place.keeper.on_keep(now_ms, m),
    Announce: lambda place, now_ms, sender, m: place.announcements.on_announce(now_ms, m),
    Spread: lambda place, now_ms, sender, m: place.announcements.on_spread(now_ms, sender, m),
    Echo: lambda place, now_ms, sender, m: place.on_echo(now_ms, sender, m),
    Revoked: lambda place, now_ms, sender, m: place.on_revoked(now_ms, m.req),
}

ROUTED: Final = frozenset({Insert, Seek, Announce, Store})
"""On their way to somewhere: whichever place there is sends them on."""
STILL_PASSED_ON: Final = frozenset({Insert, Seek, Announce, Store, Spread, Echo})
"""What a place that is gone still passes on."""
LINKED: Final = frozenset({LeftIs, Claim, Beyond, Ask, Gossip, Ranges, Pull, Probe, Leaving, Keep, Spread})
"""Sent by those who take the place for a neighbour, and must know that it is none."""
