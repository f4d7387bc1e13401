"""What a peer can be asked from outside, beside the inputs of `overlay.py`.

Filters and schemas come as what they mean to a peer: boxes, a matcher, attributes. Whoever reads a person's text
(`peerd/service`) has worked that out before.
"""

from typing import TypeAlias

import msgspec

from protocols.model.box import Box
from protocols.model.filter import Matcher
from protocols.model.ids import Address
from protocols.model.schema import Schema
from protocols.overlay import Input


def everything(attributes: object) -> bool:
    """The matcher of a subscription whose boxes say it all."""
    return True


class AddSubscription(msgspec.Struct, frozen=True):
    """Subscribe. `matcher` decides exactly, on the attributes as published, about events that fall into a box; and
    `pattern`, the canonical text of an XPath interest, on their documents."""

    id: str
    filter: str
    boxes: tuple[Box, ...]
    matcher: Matcher = everything
    pattern: str = ""


class ChangeSubscription(msgspec.Struct, frozen=True):
    """Give a subscription another filter; the old one is served until the new one is active."""

    id: str
    filter: str
    boxes: tuple[Box, ...]
    matcher: Matcher = everything
    pattern: str = ""


class RemoveSubscription(msgspec.Struct, frozen=True):
    id: str


class AppendAttributes(msgspec.Struct, frozen=True):
    """Know what this schema says too, and tell everybody; `SchemaError` if it is not of this swarm."""

    schema: Schema


class AskLinks(msgspec.Struct, frozen=True):
    """Ask another peer for its links; `LinksShown` is reported when it answers."""

    to: Address
    req_id: int


class Reseed(msgspec.Struct, frozen=True):
    """The names of the contacts stand for these endpoints now."""

    seeds: tuple[str, ...]


PeerInput: TypeAlias = (
    Input | AddSubscription | ChangeSubscription | RemoveSubscription | AppendAttributes | AskLinks | Reseed
)
