"""What participants of the baseline say to each other."""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from protocols.model.event import Copy
from protocols.model.ids import Address

ALTERNATIVES_MAX: Final = 8
DIGESTS_MAX: Final = 4096

Addresses = Annotated[tuple[Address, ...], Meta(max_length=ALTERNATIVES_MAX)]
Digests = Annotated[tuple[int, ...], Meta(max_length=DIGESTS_MAX)]


class LinkRequest(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="link-request"):
    """Let us be linked."""


class LinkAccept(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="link-accept"):
    """We are linked."""


class LinkRefuse(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="link-refuse"):
    """I have links enough; try these."""

    alternatives: Addresses


class Unlink(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="unlink"):
    """We are not linked (any more)."""


class LinkConfirm(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="link-confirm"):
    """I hold that we are linked; say so if you do not."""


class Leaving(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="leaving"):
    """I am about to go: replace me while I still forward. Those are linked with me now."""

    alternatives: Addresses


class Flood(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="flood"):
    copy: Copy


class RecentIds(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="recent-ids"):
    """Digests of the events that I have received lately."""

    digests: Digests


class Want(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="want"):
    """Send me the events with these digests."""

    digests: Digests


MESSAGES: Final = (LinkRequest, LinkAccept, LinkRefuse, Unlink, LinkConfirm, Leaving, Flood, RecentIds, Want)
