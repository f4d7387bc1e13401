"""Parameters of Sub-2-Sub and of the bandwidth-aware system on top of it, each with where it comes from."""

from typing import Annotated, Any, Final, Literal

import msgspec

from protocols.overlay import parameter
from protocols.parts.vicinity import GOSSIP_LENGTH, VIEW
from protocols.sub2sub.compound import ATTRIBUTES_IN_RING_MAX


class Sub2SubConfig(msgspec.Struct, frozen=True, kw_only=True):
    variant: Annotated[
        Literal["baseline", "cells"],
        parameter("Sub-2-Sub itself, or with cells, flow control and cell switching", "paper, sections III and IV"),
    ] = "cells"
    dissemination: Annotated[
        Literal["both", "upward"],
        parameter("to both ring neighbours, or upward only, with more shortcuts", "specification, section 5"),
    ] = "upward"
    buffered: Annotated[
        bool,
        parameter("events wait for the end of the cycle", "not on real peers; paper, section V: they do"),
    ] = False
    accounting: Annotated[
        Literal["units", "bytes"], parameter("what a budget counts", "paper, section V, or what a socket sees")
    ] = "bytes"
    gossip_units: Annotated[
        float,
        parameter(
            "charged for all gossip of a cycle, whatever is said in it; 0: every message as it is sent",
            "off: what a socket sees; specification, section 5: 60 units, three requests and three replies",
            ge=0.0,
        ),
    ] = 0.0
    cycle_ms: Annotated[int, parameter("one round of gossip", "specification, section 1", ge=50)] = 1_000
    idle: Annotated[
        int,
        parameter(
            "how many times slower gossip is once nothing changes", "a quarter of the cost; a guess", ge=1, le=16
        ),
    ] = 4
    ring_attributes: Annotated[
        int,
        parameter(
            "attributes that a ring may be made of",
            "paper: one; measured, docs/sub2sub.md",
            ge=1,
            le=ATTRIBUTES_IN_RING_MAX,
        ),
    ] = ATTRIBUTES_IN_RING_MAX
    view: Annotated[int, parameter("VICINITY's v", "specification, section 1", ge=1, le=256)] = VIEW
    gossip_length: Annotated[int, parameter("VICINITY's g", "specification, section 1", ge=1, le=64)] = GOSSIP_LENGTH
    ring_links_max: Annotated[int, parameter("ring links", "specification, section 5", ge=2, le=512)] = 256
    shortcuts: Annotated[int, parameter("random shortcuts of an event", "paper, section III: one", ge=0, le=16)] = 1
    shortcut_probability: Annotated[
        float, parameter("how often there is a shortcut", "paper, section III: always", ge=0.0, le=1.0)
    ] = 1.0
    entry_ttl: Annotated[int, parameter("steps to a ring", "specification, section 5", ge=1, le=64)] = 20
    rpc_ms: Annotated[int, parameter("wait for an answer", "specification, section 1", ge=10)] = 2_000
    quiet_ms: Annotated[
        int, parameter("rings unchanged before a box is active", "several round trips; a guess", ge=0)
    ] = 400
    claim_ms: Annotated[
        int, parameter("from a claim until its holder counts on it", "a flood and one comparison; a guess", ge=0)
    ] = 1_500
    linger_ms: Annotated[
        int, parameter("how long former links and leavers still forward", "two waits for an answer", ge=0)
    ] = 4_000
    repair_ms: Annotated[
        int, parameter("how often recent event ids are compared with the neighbours; 0: never", "two cycles", ge=0)
    ] = 2_000
    recent_ms: Annotated[int, parameter("how far back ids are compared", "five repair periods", ge=100)] = 10_000
    recent_max: Annotated[
        int, parameter("events kept for repair; the older half goes at twice as many", "as the baseline", ge=2, le=4096)
    ] = 4096
    seen_max: Annotated[
        int, parameter("event ids remembered", "two generations of 120 s at 2,000 events a second", ge=1)
    ] = 500_000
    flow_control: Annotated[bool, parameter("whether cells limit their feeders", "paper, section IV.C")] = True
    switching: Annotated[bool, parameter("whether participants change cells", "paper, section IV.D")] = True
    rate_max: Annotated[
        float,
        parameter(
            "M: events per cycle for a length of 2^(C-1)",
            "paper, section IV.C: 20; more, since one copy to each is enough and gossip costs less",
            ge=0.1,
        ),
    ] = 100.0
    threshold: Annotated[
        int, parameter("events in the buffer from which a feeder marks copies", "paper, section IV.D", ge=1)
    ] = 500
    reference: Annotated[
        float,
        parameter(
            "the budget for which a cell follows from the length; twice the budget is one cell lower; 0: never",
            "off: paper, section IV.A",
            ge=0.0,
        ),
    ] = 0.0
    buffer_max: Annotated[
        int, parameter("events that wait for budget", "specification, section 5", ge=1, le=100_000)
    ] = 1_000


PROFILES: Final[dict[str, dict[str, Any]]] = {
    "paper": {
        "dissemination": "both",
        "buffered": True,
        "accounting": "units",
        "gossip_units": 60.0,
        "rate_max": 20.0,
        "ring_attributes": 1,
        "idle": 1,
        "linger_ms": 0,
        "repair_ms": 0,
    },
}
