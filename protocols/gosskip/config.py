"""Parameters of GosSkip, each with where it comes from."""

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from protocols.overlay import parameter


class GosSkipConfig(msgspec.Struct, frozen=True, kw_only=True):
    k: Annotated[
        int, parameter("level l+1 links k places of level l further", "the paper's experiments, section 4", ge=2, le=16)
    ] = 2
    t_ms: Annotated[
        int, parameter("period of level 0; level l gossips every t·(l+1)", "specification, section 6", ge=10)
    ] = 1_000
    eager_ms: Annotated[
        int,
        parameter(
            "news at a level are passed on at once, but no more often than this; 0: by the period alone (paper)",
            "half of t: 500 places find their perfect links again in 9 s instead of 90 s",
            ge=0,
        ),
    ] = 500
    calm_turns: Annotated[
        int,
        parameter(
            "gossip above level 0 that says nothing new is sent at every so many turns only; 1: at every turn (paper)",
            "measured, docs/gosskip.md: news go out at once, and what is repeated is for what was lost or forged",
            ge=1,
            le=16,
        ),
    ] = 3
    routing: Annotated[
        Literal["monotone", "overshoot"],
        parameter(
            "monotone never passes the event's place; overshoot takes the link that seems to end closer to it",
            "measured, docs/gosskip.md",
        ),
    ] = "overshoot"
    cells: Annotated[
        int,
        parameter(
            "a broad range is kept in so many cells and one more, not at each place under it; 0: at each (paper)",
            "measured, docs/gosskip.md",
            ge=0,
            le=256,
        ),
    ] = 0
    broad: Annotated[
        int,
        parameter(
            "a range is broad that holds more than one in so many values of its attribute",
            "a guess: at a thousand places such a range has more places under it than cells",
            ge=1,
        ),
    ] = 32
    attribute_order: Annotated[
        str,
        Meta(max_length=4096),
        parameter(
            "names of attributes, separated by commas, that come first in the dictionary; the others that the swarm "
            "began with follow by name",
            "paper, section 2: by name unless agreed otherwise",
        ),
    ] = ""
    backups: Annotated[
        int,
        parameter("peers known beyond the right neighbour, for when it dies", "specification, section 6", ge=1, le=8),
    ] = 3
    expire_periods: Annotated[
        int,
        parameter("periods without news after which a link of a level is dropped", "specification, section 6", ge=1),
    ] = 3
    seek_ms: Annotated[
        int,
        parameter(
            "how often a place has itself looked for through a stranger, to find another half of the list; while its "
            "neighbours stay the same, up to four times as seldom",
            "a guess: half of what bootstrap takes to knock at a lost peer again",
            ge=100,
        ),
    ] = 5_000
    rpc_ms: Annotated[int, parameter("wait for an answer", "specification, section 1", ge=10)] = 2_000
    overlap_ms: Annotated[
        int,
        parameter(
            "how long a place stays after a better one is active, for events that are under way to it",
            "specification, section 1: 5 s of replay",
            ge=0,
        ),
    ] = 5_000
    linger_ms: Annotated[
        int, parameter("how long a place still forwards after it has left the list", "twenty times a latency", ge=0)
    ] = 1_000
    entries_max: Annotated[
        int, parameter("ranges of others known at one place", "a guess: far beyond what a place should serve", ge=1)
    ] = 65_536
    lists_keep_ms: Annotated[
        int,
        parameter(
            "how long a list is taken for active after its first place was last heard of",
            "the word of it goes left over odd levels, in calm at every third turn: at the worst 145 s at 1,000 "
            "places, 247 s at 10,000, 427 s at 100,000 (tests/gosskip/test_lists.py)",
            ge=1_000,
        ),
    ] = 600_000
    proxy_after: Annotated[
        int,
        parameter(
            "unwanted events of one publisher within `proxy_ms` that earn it a proxy filter; 0: never",
            "a guess: a publisher that misses so often will miss again",
            ge=0,
        ),
    ] = 4
    proxy_ms: Annotated[
        int,
        parameter(
            "how long a proxy filter holds",
            "a third of the specification's 30 s: who subscribes inside may have to wait that long after a crash",
            ge=0,
            le=60_000,
        ),
    ] = 10_000
    hops_max: Annotated[
        int, parameter("hops after which an event is given up", "twice the specification's 64", ge=1)
    ] = 128
    seen_max: Annotated[
        int, parameter("event ids remembered", "two generations of 120 s at 2,000 events a second", ge=1)
    ] = 500_000

    @property
    def first_names(self) -> list[str]:
        """The attributes that come first in the dictionary."""
        return [name.strip() for name in self.attribute_order.split(",") if name.strip()]


PAPER: Final[dict[str, Any]] = {
    "k": 2,
    "eager_ms": 0,
    "calm_turns": 1,
    "routing": "monotone",
    "cells": 0,
}
"""As the paper has it: gossip by the period alone, and hops that only approach the event's place."""
