"""Parameters of the ring, each with where it comes from."""

from typing import Annotated, Final, Literal

import msgspec

from protocols.overlay import parameter

QUIET: Final = 3
"""Of the rounds of stabilisation only every third takes place while nothing changes (`ring`)."""


class ChordConfig(msgspec.Struct, frozen=True, kw_only=True):
    bits: Annotated[
        int, parameter("m, the bits of an identifier", "paper, section 2.2: 160, as SHA-1 has", ge=3, le=160)
    ] = 160
    hash: Annotated[
        Literal["opchord", "chord"],
        parameter("how a number is hashed: in order, or every value by SHA-1", "paper, section 4.1: OPChord"),
    ] = "opchord"
    ophf: Annotated[
        Literal["fixed", "paper"],
        parameter("the divisor of the order-preserving hash", "the paper's lets the greatest value meet the least"),
    ] = "fixed"
    matching: Annotated[
        Literal["rendezvous", "parallel", "chain"],
        parameter(
            "index one attribute and match there, or all and count: in parallel, or one after the other",
            "measured (docs/chord.md): the fewest messages and the shortest lists",
        ),
    ] = "rendezvous"
    delivery: Annotated[
        Literal["direct", "home"],
        parameter("send events to the subscriber, or to the node of c1", "a lookup less for each subscriber"),
    ] = "direct"
    range_store: Annotated[
        Literal["walk", "jump", "multicast"],
        parameter("how a range finds its nodes", "measured (docs/chord.md): never more hops than plain Chord"),
    ] = "jump"
    lookup: Annotated[
        Literal["recursive", "iterative"],
        parameter("how a key's owner is found", "half the messages of an iterative lookup"),
    ] = "recursive"
    successors: Annotated[
        int,
        parameter(
            "length of the successor list", "specification: with 16, 40 of 200 crashes cut nobody off", ge=1, le=64
        ),
    ] = 16
    replicas: Annotated[
        int, parameter("successors that hold a copy of a node's rows", "specification: 2", ge=0, le=16)
    ] = 2
    watched: Annotated[
        int,
        parameter(
            "successors that are watched at rest; more of them while some are found dead",
            "the holders of copies; a second ping a second for each (docs/chord.md)",
            ge=1,
            le=64,
        ),
    ] = 2
    prefix_max: Annotated[
        int,
        parameter("characters of a prefix that are hashed", "one more lookup per string for each", ge=1, le=16),
    ] = 1
    range_nodes_max: Annotated[
        int,
        parameter(
            "nodes that a range may take up with `rendezvous`; a wider one goes to the bucket that every event asks",
            "measured (docs/chord.md): between the upkeep of many nodes and the load of one",
            ge=1,
        ),
    ] = 32
    values_max: Annotated[
        int, parameter("values of a range that plain Chord stores one by one", "a guess: beyond that, ask all", ge=1)
    ] = 4_096
    rotations: Annotated[
        int,
        parameter(
            "rotated rings on which every row stands; an event asks one of them (load balance)",
            "off: each multiplies the cost of a subscription",
            ge=1,
            le=64,
        ),
    ] = 1
    cache: Annotated[
        int, parameter("arcs whose owners are remembered", "a guess: all of a ring of 1,000", ge=0, le=65_536)
    ] = 1_024
    stabilise_ms: Annotated[int, parameter("one round of stabilisation", "specification, section 1", ge=10)] = 1_000
    silent_ms: Annotated[
        int,
        parameter(
            "a predecessor that has not stabilised for so long has another successor",
            "liveness' time until death, so that one that is merely slow is not meant",
            ge=10,
        ),
    ] = 10_000
    fix_ms: Annotated[
        int,
        parameter("one finger is looked up; four times as long while none changes", "specification, section 1", ge=10),
    ] = 1_000
    unify_ms: Annotated[
        int, parameter("a sampled participant is looked for in the ring", "a guess: six gossip cycles", ge=10)
    ] = 6_000
    digest_ms: Annotated[int, parameter("copies are compared", "specification, section 2", ge=10)] = 10_000
    refresh_ms: Annotated[
        int,
        parameter("leases are renewed", "a third of the 60 s within which a ring has to be whole again", ge=10),
    ] = 20_000
    lease_ms: Annotated[int, parameter("rows live without a renewal", "specification: three refreshes", ge=10)] = 60_000
    linger_ms: Annotated[
        int, parameter("rows of a former version stay", "as long as an event may be under way (design)", ge=0)
    ] = 10_000
    rpc_ms: Annotated[int, parameter("wait for an answer", "specification, section 1", ge=10)] = 2_000
    rows_max: Annotated[int, parameter("rows that a node stores", "a guess: 50 MB", ge=1, le=524_288)] = 65_536
    publications_max: Annotated[
        int, parameter("own events that are being matched", "a guess: 2 s at 2,000 events a second", ge=1)
    ] = 4_096
    seen_max: Annotated[
        int, parameter("event ids remembered", "two generations of 120 s at 2,000 events a second", ge=1)
    ] = 500_000

    def __post_init__(self) -> None:
        if self.replicas > self.successors:
            raise ValueError(f"replicas={self.replicas} is more than successors={self.successors}")
        if self.silent_ms <= QUIET * self.stabilise_ms:
            raise ValueError(f"silent_ms={self.silent_ms} does not outlast {QUIET} rounds of {self.stabilise_ms} ms")
        if self.lease_ms <= self.refresh_ms + self.digest_ms:
            told = f"refresh_ms={self.refresh_ms} and digest_ms={self.digest_ms}"
            raise ValueError(f"lease_ms={self.lease_ms} does not outlast {told}, after which copies hear of a renewal")
