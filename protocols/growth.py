"""How a swarm's schema grows: attributes appended anywhere become known everywhere.

*State.* A peer has one schema. It only ever becomes `merged` with another one (`protocols/model/schema.py`), which
gives the same result in whatever order schemas meet. So peers that have heard of the same appendings, directly or not,
have the same schema, and there is nothing to agree upon before something is appended.

*Message.* `SchemaNews`: all that its sender knows.

    when                                what the peer does
    attributes are appended here        merges, tells everybody it knows
    news that change its schema         merges, tells everybody it knows
    news that lack something of it      tells the sender
    every `TELL_EVERY` rounds of        tells one peer of its view, if anything was ever appended
    gossip

The first three flood the swarm once. The last one reaches whom the flood has missed: a broken connection, a partition,
a newcomer whose contact did not know yet. It costs nothing in a swarm whose schema never grew.

*Invariants.* The attributes of the beginning never change, so boxes and points mean the same to everybody. A schema
never loses an attribute, but for one that gives way to another of the same name (or, beyond `ATTRIBUTES_MAX`, to
others): whoever had it reports `GAVE_WAY`. Two peers that exchange news have the same schema after at most one answer.
"""

from collections.abc import Callable
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from protocols.model.bounds import BODY_BYTES_MAX
from protocols.model.ids import PEER_SLOT, Address
from protocols.model.schema import Attribute, Schema, SchemaError
from protocols.overlay import Control, Outbox, Rejected, SchemaChanged

PART_MAX: Final = BODY_BYTES_MAX
"""Bytes of a part of a schema: as much as any byte string on the wire may have."""
PARTS_MAX: Final = 2
"""128 KiB in all, as in a greeting: 128 attributes whose names have 128 characters of 4 bytes take about 77 KiB."""
TELL_EVERY: Final = 10
"""Rounds of gossip between two tellings. A guess: lost addresses are tried again every 10 s too."""
GAVE_WAY: Final = "schema-gave-way"
"""The control fact: `attribute`, what is `kept` of it and what was `given_up`."""


class SchemaNews(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="schema-news"):
    """The sender's schema, as a JSON document in parts."""

    parts: Annotated[tuple[Annotated[bytes, Meta(max_length=PART_MAX)], ...], Meta(max_length=PARTS_MAX)]


MESSAGES: Final = (SchemaNews,)


def schema_news(schema: Schema) -> SchemaNews:
    document = msgspec.json.encode(schema.to_dict())
    return SchemaNews(tuple(document[at : at + PART_MAX] for at in range(0, len(document), PART_MAX)))


def read_schema(news: SchemaNews) -> Schema:
    """The schema that another peer knows; `SchemaError` if it sent nonsense."""
    try:
        return Schema.from_dict(msgspec.json.decode(b"".join(news.parts), type=dict))
    except (msgspec.DecodeError, RecursionError) as error:
        raise SchemaError(f"not a schema: {error}") from None


class Growth:
    """The schema of one peer. `known`: whom to tell. Effects gather in `out`; the peer looks there after every call."""

    __slots__ = ("_known", "_rounds", "out", "schema")

    def __init__(self, schema: Schema, known: Callable[[], list[Address]]) -> None:
        self.schema = schema
        self.out = Outbox(PEER_SLOT)
        self._known = known
        self._rounds = 0

    def learn(self, theirs: Schema) -> None:
        """There is this schema too, appended here or known to somebody else. `SchemaError` if it is not the swarm's."""
        before = self.schema
        merged = before.merged(theirs)
        if merged is before:
            return
        self.schema = merged
        for attribute in before.appended:
            if attribute.name not in merged or merged.attribute(attribute.name) != attribute:
                self._gave_way(attribute)
        self.out.report(SchemaChanged(merged.version))
        self.out.send_all(self._known(), schema_news(merged))

    def on_news(self, sender: Address, message: SchemaNews) -> None:
        try:
            theirs = read_schema(message)
            self.learn(theirs)
        except SchemaError as error:
            self.out.report(Rejected(sender, str(error)))
            return
        if theirs.attributes != self.schema.attributes:
            self.out.send(sender, schema_news(self.schema))

    def round(self, sample: Callable[[], list[Address]]) -> None:
        """A round of gossip has begun; `sample` finds somebody to tell."""
        if not self.schema.appended:
            return
        self._rounds += 1
        if self._rounds % TELL_EVERY == 0:
            self.out.send_all(sample(), schema_news(self.schema))

    def _gave_way(self, attribute: Attribute) -> None:
        kept = self.schema.attribute(attribute.name) if attribute.name in self.schema else None
        detail = {"attribute": attribute.name, "kept": _text(kept), "given_up": _text(attribute)}
        self.out.report(Control(GAVE_WAY, 1.0, detail))


def _text(attribute: Attribute | None) -> str:
    return "" if attribute is None else msgspec.json.encode(attribute).decode()
