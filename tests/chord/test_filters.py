"""The whole filter language on a ring, against the filter itself: every way of matching, either hash."""

from random import Random
from typing import Any

import pytest

from benchmarks.still_ring import StillRing, addresses
from protocols.model.event import Attributes
from protocols.model.lint import compile_filter
from protocols.model.schema import Attribute, Schema

SCHEMA = Schema(
    (
        Attribute("symbol", "string"),
        Attribute("venue", "string"),
        Attribute("size", "int", 0, 99),
        Attribute("open", "bool"),
    )
)
FILTERS = (
    "symbol = 'OTE'",
    "symbol <> 'OTE'",
    "NOT symbol = 'OTE' AND size > 50",
    "symbol IN ('OTE', 'ALPHA', 'A')",
    "symbol NOT IN ('OTE', 'ALPHA')",
    "symbol LIKE 'A%'",
    "symbol LIKE 'AL%' AND venue LIKE 'x%'",
    "symbol >= 'B'",
    "symbol = ''",
    "symbol IS NULL",
    "symbol IS NOT NULL",
    "size IS NULL AND open = TRUE",
    "size = 7",
    "size <> 7",
    "size > 20 AND size < 60 AND size <> 40",
    "size BETWEEN 10 AND 30 AND symbol = 'OTE' AND open = FALSE",
    "size BETWEEN 0 AND 99",
    "size NOT BETWEEN 5 AND 95",
    "size < 3 OR venue = 'x1' OR symbol = 'ALPHA'",
    "open = TRUE",
    "TRUE",
)
"""Equality, ranges, several constraints on an attribute, `<>`, IN, prefixes, absent attributes, nothing to index."""

VARIANTS: dict[str, dict[str, Any]] = {
    "rendezvous": {},
    "rendezvous, home": {"delivery": "home"},
    "rendezvous, plain Chord": {"hash": "chord"},
    "rendezvous, rotated": {"rotations": 3, "prefix_max": 2},
    "parallel": {"matching": "parallel", "range_store": "walk"},
    "parallel, home, as printed": {"matching": "parallel", "delivery": "home", "ophf": "paper"},
    "parallel, plain Chord": {"matching": "parallel", "hash": "chord"},
    "parallel, iterative": {"matching": "parallel", "lookup": "iterative"},
    "chain": {"matching": "chain"},
    "chain, multicast": {"matching": "chain", "range_store": "multicast"},
}


def drawn(rng: Random) -> Attributes:
    """An event, with attributes left out at times."""
    whole: Attributes = {
        "symbol": rng.choice(("OTE", "ALPHA", "A", "B", "", "OT")),
        "venue": rng.choice(("x1", "x2", "y")),
        "size": rng.randrange(100),
        "open": rng.random() < 0.5,
    }
    return {name: value for name, value in whole.items() if rng.random() < 0.8}


@pytest.mark.parametrize("variant", VARIANTS)
def test_each_filter_gets_what_it_asks_for_and_nothing_else(variant: str) -> None:
    ring = StillRing(addresses(2 * len(FILTERS)), SCHEMA, **VARIANTS[variant])
    compiled = [compile_filter(text, SCHEMA) for text in FILTERS]
    for place, each in enumerate(compiled):
        for number, box in enumerate(each.boxes):
            ring.subscribe(place, f"{place}/{number}", box)
    assert len(ring.active) == sum(len(each.boxes) for each in compiled)
    rng = Random(1)
    publishers = range(len(FILTERS), 2 * len(FILTERS))  # nodes without a subscription of their own
    for number in range(120):
        attributes = drawn(rng)
        ring.delivered.clear()
        ring.publish(rng.choice(publishers), SCHEMA.point(attributes), f"e{number}")
        wanted = [ring.nodes[place].ring.me for place, each in enumerate(compiled) if each.matcher(attributes)]
        assert sorted(ring.delivered) == sorted(wanted), attributes
