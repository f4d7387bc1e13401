"""When the structure of living peers is as it should be."""

from peerd.testbed.lines import Looked
from peerd.testbed.structure import faults

PEERS = {0: "a", 1: "b", 2: "c", 3: "d"}


def looked(*links: str, ready: bool = True) -> Looked:
    return Looked(1, ready, 1_000, links, 0, 0)


def test_whole() -> None:
    assert faults(PEERS, {0: looked("b"), 1: looked("a", "c"), 2: looked(), 3: looked("c")}) == []
    assert faults({0: "a"}, {0: looked()}) == []
    assert faults({}, {}) == []


def test_somebody_does_not_answer() -> None:
    assert faults({0: "a", 1: "b"}, {0: looked("b")}) == ["peer 1 does not answer"]


def test_somebody_does_not_stand() -> None:
    assert faults({0: "a", 1: "b"}, {0: looked("b"), 1: looked("a", ready=False)}) == ["peer 1 does not stand"]


def test_a_link_to_a_peer_that_was_killed() -> None:
    assert faults({0: "a", 1: "b"}, {0: looked("b", "x"), 1: looked("a")}) == [
        "peer 0 has a link to x, which does not live"
    ]


def test_two_halves() -> None:
    halves = {0: looked("b"), 1: looked("a"), 2: looked("d"), 3: looked("c")}
    assert faults(PEERS, halves) == ["the links do not connect all peers"]
