"""A Chord ring: subscription ids stored under (order-preserving) hashes of attribute values (paper 1)."""

from protocols.chord.config import ChordConfig
from protocols.chord.messages import MESSAGES
from protocols.chord.overlay import Chord
from protocols.overlay import Kind

PAPER = {
    "matching": "parallel",
    "delivery": "home",
    "range_store": "walk",
    "ophf": "paper",
    "cache": 0,
}
"""As far as the paper goes. It does not say what becomes of a ring whose nodes fail, so that is ours throughout."""

KIND = Kind(
    name="chord",
    summary="a Chord ring; subscriptions are stored under order-preserving hashes of values (paper 1)",
    config=ChordConfig,
    messages=MESSAGES,
    create=Chord,
    participants_max=1,
    grouped=False,
    profiles={"paper": PAPER, "paper-chord": {**PAPER, "hash": "chord"}},
    converges_within_s=60,
)
