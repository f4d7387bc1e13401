"""Filters as bounds, events as points, and whether a point lies within bounds: the contract's boxes in columns.

For attribute number i an event has a column `v{i}` (a number, a text, or null where it has no such attribute), and a
region has

| column | |
|---|---|
| `lo{i}`, `hi{i}` | its bounds; a text has no upper one where `hi{i}` is null |
| `lo_open{i}`, `hi_open{i}` | whether the bound itself is out |
| `prefix{i}` | of a text: what it must begin with, or null |
| `present{i}`, `absent{i}` | whether an event may have the attribute, and whether it may lack it |

Booleans count as 0 and 1. Spark compares texts by their UTF-8 bytes, which is the order of code points that filters
use.
"""

from collections.abc import Sequence
from functools import reduce
from typing import Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, DoubleType, MapType, StringType, StructField, StructType

_TERMS: Final = ArrayType(MapType(StringType(), MapType(StringType(), StringType())))
_INFINITE: Final = float("inf")


class Attribute(NamedTuple):
    name: str
    type: str

    @property
    def is_text(self) -> bool:
        return self.type == "string"


def points(publications: DataFrame, attributes: Sequence[Attribute]) -> DataFrame:
    """Publications with a column for each attribute."""
    types = {"string": StringType(), "bool": BooleanType()}
    fields = [StructField(each.name, types.get(each.type, DoubleType())) for each in attributes]
    read = publications.withColumn("point", F.from_json("attributes", StructType(fields)))
    values = {f"v{number}": _value(F.col("point").getField(each.name), each) for number, each in enumerate(attributes)}
    return read.withColumns(values).drop("point")


def _value(column: Column, attribute: Attribute) -> Column:
    return column if attribute.is_text else column.cast("double")


def regions(versions: DataFrame, attributes: Sequence[Attribute]) -> DataFrame:
    """Versions of subscriptions as their regions: one row for each, with its bounds, and `count`: how many there are.

    One that speaks of an attribute that is not known cannot be judged and is left out; see `judged`.
    """
    read = versions.withColumn("all", F.from_json("regions", _TERMS)).where(_known(attributes))
    each = read.withColumn("count", F.size("all")).withColumn("region", F.explode("all")).drop("all", "regions")
    columns: dict[str, Column] = {}
    for number, attribute in enumerate(attributes):
        columns |= _bounds(number, attribute)
    return each.withColumns(columns).drop("region")


def judged(versions: DataFrame, attributes: Sequence[Attribute]) -> DataFrame:
    """Versions with `judged`: whether its regions say exactly what its filter matches, in attributes that are known."""
    read = versions.withColumn("all", F.from_json("regions", _TERMS))
    return read.withColumn("judged", ~F.col("coarse") & F.coalesce(_known(attributes), F.lit(False))).drop("all")


def _known(attributes: Sequence[Attribute]) -> Column:
    names = F.flatten(F.transform("all", F.map_keys))
    known = F.array(*[F.lit(each.name) for each in attributes]).cast("array<string>")
    return F.size(F.array_except(names, known)) == 0


def _bounds(i: int, attribute: Attribute) -> dict[str, Column]:
    terms = F.col("region")[attribute.name]
    named = terms.isNotNull()
    lo = F.coalesce(*[_term(terms, key, attribute) for key in ("eq", "ge", "gt", "prefix")])
    hi = F.coalesce(*[_term(terms, key, attribute) for key in ("eq", "le", "lt")])
    bounded = lo.isNotNull() | hi.isNotNull()
    absent = F.coalesce(terms["null"] == "true", F.lit(False))
    columns = {
        f"lo{i}": F.coalesce(lo, F.lit("") if attribute.is_text else F.lit(-_INFINITE)),
        f"hi{i}": hi if attribute.is_text else F.coalesce(hi, F.lit(_INFINITE)),
        f"lo_open{i}": terms["gt"].isNotNull() & terms["ge"].isNull(),
        f"hi_open{i}": terms["lt"].isNotNull() & terms["le"].isNull(),
        f"present{i}": ~named | bounded | ~absent,
        f"absent{i}": ~named | absent,
    }
    if attribute.is_text:
        columns[f"prefix{i}"] = terms["prefix"]
    flags = (f"lo_open{i}", f"hi_open{i}", f"present{i}", f"absent{i}")
    return {name: F.coalesce(column, F.lit(name[:3] in ("pre", "abs"))) if name in flags else column
            for name, column in columns.items()}  # fmt: skip


def _term(terms: Column, key: str, attribute: Attribute) -> Column:
    text = terms[key]
    if attribute.is_text:
        return text
    if attribute.type == "bool":
        return F.when(text.isNotNull(), (text == "true").cast("double"))
    return text.cast("double")


def within(attributes: Sequence[Attribute], but: Sequence[int] = ()) -> Column:
    """Whether the event of a row lies within the region of the row; attributes in `but` are known to."""
    tests = [_within(number, each) for number, each in enumerate(attributes) if number not in but]
    return reduce(Column.__and__, tests, F.lit(True))


def _within(i: int, attribute: Attribute) -> Column:
    value, lo, hi = F.col(f"v{i}"), F.col(f"lo{i}"), F.col(f"hi{i}")
    above = (value >= lo) & ~(F.col(f"lo_open{i}") & (value == lo))
    below = (value <= hi) & ~(F.col(f"hi_open{i}") & (value == hi))
    if attribute.is_text:
        prefix = F.col(f"prefix{i}")
        below = (hi.isNull() | below) & (prefix.isNull() | value.startswith(prefix))
    return F.when(value.isNull(), F.col(f"absent{i}")).otherwise(F.col(f"present{i}") & above & below)
