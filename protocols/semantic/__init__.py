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
        "paper": {"peek": False, "depth_max": 0, "root_degree": 16},
        "paper-similarity": {"organisation": "similarity", "rho": 0.5, "peek": False, "alike_max": 0},
        "tuned": {"repair": "rejoin"},
        "tuned-similarity": {"organisation": "similarity", "neighbours": 7, "random_links": 2, "exchange_ms": 2_000},
    },
)
