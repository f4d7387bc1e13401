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

from protocols.model.bounds import Count, Slot, Text
from protocols.model.ids import Address
from protocols.model.schema import Schema, SchemaError

LINKS_MAX: Final = 1024
"""Links in one answer. A guess: 16 participants with 64 links each."""
DOCUMENT_MAX: Final = 64 * 1024
"""Bytes of a schema. A guess: 128 attributes with the longest of names and all their bounds, twice over."""


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
    """The sender's schema, as a JSON document."""

    document: Annotated[bytes, Meta(max_length=DOCUMENT_MAX)]


MESSAGES: Final = (LinksRequest, LinksReply, SchemaNews)


def schema_news(schema: Schema) -> SchemaNews:
    return SchemaNews(msgspec.json.encode(schema.to_dict()))


def read_schema(news: SchemaNews) -> Schema:
    """The schema that another peer knows; `SchemaError` if it sent nonsense."""
    try:
        return Schema.from_dict(msgspec.json.decode(news.document, type=dict))
    except (msgspec.DecodeError, RecursionError) as error:
        raise SchemaError(f"not a schema: {error}") from None
