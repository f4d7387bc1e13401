"""What peers ask each other beside the overlay: which links they have.

Anybody may ask a peer for its links (`LinksRequest` -> `LinksReply`); a picture of the whole overlay is made by asking
from peer to peer.
"""

from collections.abc import Mapping
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from protocols.model.bounds import Count, Slot, Text
from protocols.model.ids import Address
from protocols.overlay import LinksShown, Overlay

LINKS_MAX: Final = 1024
"""Links in one answer. A guess: 16 participants with 64 links each."""


class ShownLink(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One link of the participant in `slot`."""

    slot: Slot
    kind: Text
    to: Address


class LinksRequest(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="links-request"):
    req_id: Count


class LinksReply(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="links-reply"):
    req_id: Count
    name: Text
    links: Annotated[tuple[ShownLink, ...], Meta(max_length=LINKS_MAX)]


MESSAGES: Final = (LinksRequest, LinksReply)


def reply(request: LinksRequest, name: str, participants: Mapping[int, Overlay]) -> LinksReply:
    """The links of all participants of a peer, as many as fit."""
    links = [ShownLink(slot, link.kind, link.to) for slot, overlay in participants.items() for link in overlay.links()]
    return LinksReply(request.req_id, name, tuple(links[:LINKS_MAX]))


def shown(sender: Address, message: LinksReply) -> LinksShown:
    links = tuple((link.slot, link.kind, link.to) for link in message.links)
    return LinksShown(sender, message.req_id, message.name, links)
