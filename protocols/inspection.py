"""What peers ask each other beside the overlay: which links they have, and which schema they know.

*Links.* Anybody may ask a peer for its links (`LinksRequest` -> `LinksReply`); a picture of the whole overlay is made
by asking from peer to peer.

*Schema.* Attributes can be appended to a living swarm. A peer that learns of a longer schema which begins with its own
adopts it and tells the peers of its view; one that is told of a shorter one answers with its own. So the news floods
the swarm once. Boxes and events of peers that do not know it yet are merely shorter (`protocols/model/box.py`). Two
different attributes appended at two places at once are a conflict, which is reported and left to people: attributes
are never taken back.
"""

from typing import Annotated, Final

import msgspec
from msgspec import Meta

from protocols.model.bounds import BODY_BYTES_MAX, Count, Slot, Text
from protocols.model.ids import Address
from protocols.model.schema import Schema, SchemaError

LINKS_MAX: Final = 1024
"""Links in one answer. A guess: 16 participants with 64 links each."""
PART_MAX: Final = BODY_BYTES_MAX
"""Bytes of a part of a schema: as much as any byte string on the wire may have."""
PARTS_MAX: Final = 2
"""128 KiB in all, as in a greeting: 128 attributes whose names have 128 characters of 4 bytes take about 77 KiB."""


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


class SchemaNews(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="schema-news"):
    """The sender's schema, as a JSON document in parts."""

    parts: Annotated[tuple[Annotated[bytes, Meta(max_length=PART_MAX)], ...], Meta(max_length=PARTS_MAX)]


MESSAGES: Final = (LinksRequest, LinksReply, SchemaNews)


def schema_news(schema: Schema) -> SchemaNews:
    document = msgspec.json.encode(schema.to_dict())
    return SchemaNews(tuple(document[at : at + PART_MAX] for at in range(0, len(document), PART_MAX)))


def read_schema(news: SchemaNews) -> Schema:
    """The schema that another peer knows; `SchemaError` if it sent nonsense."""
    try:
        return Schema.from_dict(msgspec.json.decode(b"".join(news.parts), type=dict))
    except (msgspec.DecodeError, RecursionError) as error:
        raise SchemaError(f"not a schema: {error}") from None
