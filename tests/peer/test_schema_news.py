"""The news about a schema."""

import msgspec
import pytest

from protocols.growth import PART_MAX, PARTS_MAX, SchemaNews, read_schema, schema_news
from protocols.model.bounds import ATTRIBUTES_MAX
from protocols.model.schema import NAME_LENGTH_MAX, STOCKS, Schema, SchemaError


def greatest() -> Schema:
    """As many attributes as there may be, with the longest of names."""
    names = [chr(0x20000 + number) * NAME_LENGTH_MAX for number in range(ATTRIBUTES_MAX)]
    bounds = {"type": "float", "min": -1e15, "max": 1e15, "precision": 0.25}
    return Schema.from_dict({"attributes": [{"name": name, **bounds} for name in names]})


@pytest.mark.parametrize(("schema", "parts"), [(STOCKS, 1), (greatest(), 2)])
def test_every_schema_can_be_told(schema: Schema, parts: int) -> None:
    encoded = msgspec.msgpack.encode(schema_news(schema))
    news = msgspec.msgpack.decode(encoded, type=SchemaNews)
    assert len(news.parts) == parts
    assert read_schema(news) == schema


def test_more_is_refused() -> None:
    for parts in ((b"x" * (PART_MAX + 1),), (b"",) * (PARTS_MAX + 1)):
        with pytest.raises(msgspec.ValidationError):
            msgspec.msgpack.decode(msgspec.msgpack.encode(SchemaNews(parts)), type=SchemaNews)
    with pytest.raises(SchemaError, match="not a schema"):
        read_schema(SchemaNews(()))
