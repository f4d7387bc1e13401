"""Semantic overlays: peers are linked by their interests, and forward what matches their own (paper 2)."""

from random import Random

from protocols.model.ids import Address
from protocols.model.schema import Schema
from protocols.overlay import Kind, Overlay
from protocols.semantic.config import SemanticConfig
from protocols.semantic.containment import Containment
from protocols.semantic.gossip import MESSAGES as GRAPH_MESSAGES
from protocols.semantic.messages import MESSAGES as TREE_MESSAGES
from protocols.semantic.similarity import Similarity


def create(me: Address, config: SemanticConfig, schema: Schema, rng: Random) -> Overlay:
    organisation = Containment if config.organisation == "containment" else Similarity
    return organisation(me, config, schema, rng)


def complete(config: SemanticConfig) -> bool:
    """The similarity graph is probabilistic by design."""
    return config.organisation == "containment"


KIND = Kind(
    name="semantic",
    summary="containment tree (no false negatives) or similarity graph; interests in XPath too",
    config=SemanticConfig,
    messages=TREE_MESSAGES + GRAPH_MESSAGES,
    create=create,
    complete=complete,
    patterns=True,
    profiles={
        "paper-similarity": {"organisation": "similarity", "rho": 0.5, "alike_max": 0},
        "tuned-similarity": {
            "organisation": "similarity",
            "neighbours": 7,
            "random_links": 2,
            "peek": True,
            "exchange_ms": 2_000,
        },
        "tuned": {"peek": True, "repair": "rejoin"},
    },
)
