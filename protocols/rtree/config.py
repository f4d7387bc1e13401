"""Parameters of the distributed R-tree, each with where it comes from."""

from typing import Annotated, Any, Final, Literal, TypeAlias

import msgspec

from protocols.overlay import parameter
from protocols.rtree.choose import Choice
from protocols.rtree.messages import CHILDREN_MAX
from protocols.rtree.split import Method

Climb: TypeAlias = Literal["parents", "straight", "needed"]
Weights: TypeAlias = Literal["volume", "events"]


class RtreeConfig(msgspec.Struct, frozen=True, kw_only=True):
    children_min: Annotated[
        int, parameter("m: children that a node has at least, the root excepted", "measured: docs/rtree.md", ge=2)
    ] = 20
    children_max: Annotated[
        int, parameter("M: children that a node has at most", "measured: docs/rtree.md", ge=4, le=CHILDREN_MAX)
    ] = 40
    split: Annotated[Method, parameter("how a node that is too full is divided", "measured: docs/rtree.md")] = "rstar"
    choose: Annotated[
        Choice,
        parameter("how a newcomer chooses its branch", "Beckmann et al. 1990, section 4.1; measured: docs/rtree.md"),
    ] = "R*-smallest"
    reinsert_share: Annotated[
        float,
        parameter("share of M that the R* split reinserts first", "Beckmann et al. 1990, section 4.3", ge=0.0, le=0.5),
    ] = 0.3
    lookahead: Annotated[
        bool, parameter("children tell the boxes of their children, too", "measured: docs/rtree.md")
    ] = True
    cells: Annotated[
        bool, parameter("hosts tell which cells of a grid their subtrees want", "measured: docs/rtree.md")
    ] = True
    climb: Annotated[
        Climb,
        parameter(
            "how an event gets to the root: from parent to parent, straight, or straight if anybody may want it",
            "measured: docs/rtree.md",
        ),
    ] = "needed"
    weights: Annotated[
        Weights, parameter("what makes a box large: its volume, or the events that fall into it", "as the paper")
    ] = "volume"
    hysteresis: Annotated[
        float,
        parameter("by how much a better host must be better", "specification, section 4", ge=0.0, le=10.0),
    ] = 0.05
    check_ms: Annotated[int, parameter("period of the checks", "specification, section 1", ge=100)] = 2_000
    rpc_ms: Annotated[int, parameter("wait for an answer", "specification, section 1", ge=10)] = 2_000
    patience_ms: Annotated[
        int, parameter("how long something may be under way", "liveness' 10 s until death", ge=100)
    ] = 10_000
    replay_ms: Annotated[
        int, parameter("events replayed over a new edge", "as long as a change may take: `patience_ms`", ge=0)
    ] = 10_000
    recent_max: Annotated[int, parameter("events kept for replay", "as `parts/recent`", ge=2, le=65_536)] = 4096
    seen_max: Annotated[
        int, parameter("event ids remembered", "two generations of 120 s at 2,000 events a second", ge=1)
    ] = 500_000

    def __post_init__(self) -> None:
        if 2 * self.children_min > self.children_max + 1:
            raise ValueError(
                f"children_min={self.children_min} is too much for children_max={self.children_max}: "
                "a node with one child too many must give two"
            )
        if self.climb == "needed" and not self.cells:
            raise ValueError("climb=needed needs cells=true: a chart is made of the cells that are wanted")


PROFILES: Final[dict[str, dict[str, Any]]] = {
    "paper": {
        "children_min": 5,
        "children_max": 10,
        "split": "quadratic",
        "choose": "R",
        "lookahead": False,
        "cells": False,
        "climb": "parents",
    },
}
"""`paper`: the values in brackets of the paper's Table 1."""
