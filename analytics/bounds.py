"""Filters as bounds, events as points, and whether a point lies within bounds: the contract's boxes in columns.

For attribute number i an event has a column `v{i}` (a number, a text, or null where it has no such attribute), and a
region has

| column | |
|---|---|
| `lo{i}`, `hi{i}` | its bounds; a text has no upper one, or asks for just `lo{i}`, where `hi{i}` is null |
| `prefix{i}` | of a text: what it must begin with, or null |
| `how{i}` | the sum of flags: `LO_OPEN`, `HI_OPEN` (the bound is out), `PRESENT`, `ABSENT` (may be there, may lack) … |

Booleans count as 0 and 1. Spark compares texts by their UTF-8 bytes, which is the order of code points that filters
use. Conditions are written as SQL: each call of a column function is a call into Java, and hundreds of them take longer
than a small join.
"""

from collections.abc import Iterator, Sequence
from json import loads
from math import inf
from typing import Any, Final, NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, BooleanType, DoubleType, MapType, StringType, StructField, StructType

_TERMS: Final = ArrayType(MapType(StringType(), MapType(StringType(), StringType())))
LO_OPEN: Final = 1
HI_OPEN: Final = 2
PRESENT: Final = 4
ABSENT: Final = 8
ONE: Final = 16
"""Of a text: nothing but `lo`. Joins read every column of every pair, and a null is read at once."""
ANY: Final = 32
"""The region says nothing about the attribute: bounds need not be looked at."""


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
    bounds = [f"{told} AS {name}" for i, attribute in enumerate(attributes) for name, told in _bounds(i, attribute)]
    return each.selectExpr("*", *bounds).drop("region")


def judged(versions: DataFrame, attributes: Sequence[Attribute]) -> DataFrame:
    """Versions with `judged`: whether its regions say exactly what its filter matches, in attributes that are known."""
    read = versions.withColumn("all", F.from_json("regions", _TERMS))
    return read.withColumn("judged", ~F.col("coarse") & F.coalesce(_known(attributes), F.lit(False))).drop("all")


def _known(attributes: Sequence[Attribute]) -> Column:
    names = F.expr("flatten(transform(all, region -> map_keys(region)))")
    known = F.array(*[F.lit(each.name) for each in attributes]).cast("array<string>")
    return F.size(F.array_except(names, known)) == 0


def columns(attributes: Sequence[Attribute]) -> list[str]:
    """The columns that `points` and `regions` add."""
    kinds = ("v", "lo", "hi", "how", "prefix")
    return [f"{kind}{i}" for i, each in enumerate(attributes) for kind in kinds[: 5 if each.is_text else 4]]


def _bounds(i: int, attribute: Attribute) -> Iterator[tuple[str, str]]:
    """The columns of a region's bounds along an attribute, as SQL."""
    terms = f"region[{_quoted(attribute.name)}]"
    lo, hi = (
        f"coalesce({', '.join(_term(f'{terms}[{_quoted(key)}]', attribute) for key in keys)})"
        for keys in (("eq", "ge", "gt", "prefix"), ("eq", "le", "lt"))
    )
    absent = f"coalesce({terms}['null'] = 'true', false)"
    flags = {
        LO_OPEN: f"{terms}['gt'] IS NOT NULL AND {terms}['ge'] IS NULL",
        HI_OPEN: f"{terms}['lt'] IS NOT NULL AND {terms}['le'] IS NULL",
        PRESENT: f"{terms} IS NULL OR {lo} IS NOT NULL OR {hi} IS NOT NULL OR NOT {absent}",
        ABSENT: f"{terms} IS NULL OR {absent}",
        ANY: f"{terms} IS NULL",
    }
    one = f"coalesce({lo} = {hi} AND {terms}['prefix'] IS NULL, false)"
    if attribute.is_text:
        flags[ONE] = one
    yield f"how{i}", " + ".join(f"if({told}, {flag}, 0)" for flag, told in flags.items())
    if attribute.is_text:
        yield from (
            (f"lo{i}", f"coalesce({lo}, '')"),
            (f"hi{i}", f"if({one}, NULL, {hi})"),
            (f"prefix{i}", f"{terms}['prefix']"),
        )
    else:
        yield from ((f"lo{i}", f"coalesce({lo}, double('-inf'))"), (f"hi{i}", f"coalesce({hi}, double('inf'))"))


def _term(text: str, attribute: Attribute) -> str:
    if attribute.is_text:
        return text
    return f"double({text} = 'true')" if attribute.type == "bool" else f"double({text})"


def _quoted(text: str) -> str:
    """A text as a literal of SQL."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def within(attributes: Sequence[Attribute]) -> Column:
    """Whether the event of a row lies within the region of the row."""
    return F.expr(" AND ".join(_within(i, each) for i, each in enumerate(attributes)) or "true")


def _within(i: int, attribute: Attribute) -> str:
    """Bounds come first: few events lie within them, and of the others nothing else has to be asked."""
    closed = f"(how{i} & {LO_OPEN + HI_OPEN + PRESENT}) = {PRESENT}"
    inside = [
        f"NOT ((how{i} & {flag}) <> 0 AND v{i} = {bound}{i})" for flag, bound in ((LO_OPEN, "lo"), (HI_OPEN, "hi"))
    ]
    between = f"v{i} >= lo{i} AND v{i} <= hi{i}"
    if attribute.is_text:
        upper = f"(hi{i} IS NULL OR v{i} <= hi{i}) AND (prefix{i} IS NULL OR startswith(v{i}, prefix{i}))"
        between = f"if((how{i} & {ONE}) <> 0, v{i} = lo{i}, v{i} >= lo{i} AND {upper})"
    tests = [between, f"({closed} OR ((how{i} & {PRESENT}) <> 0 AND {' AND '.join(inside)}))"]
    known = f"CASE WHEN v{i} IS NULL THEN (how{i} & {ABSENT}) <> 0 ELSE {' AND '.join(tests)} END"
    return f"((how{i} & {ANY}) <> 0 OR {known})"


# --- Samples in Python: Spark takes longer to plan such a query than to run it ----------------------------------------


def sampled_point(text: str, attributes: Sequence[Attribute]) -> dict[str, Any]:
    """The columns of `points` for one publication."""
    told = _object(_read(text))
    return {f"v{i}": _known_value(told.get(each.name), each) for i, each in enumerate(attributes)}


def sampled_regions(text: str, attributes: Sequence[Attribute]) -> list[dict[str, Any]]:
    """The columns of `regions` for one version, but for prefixes and of flags only those that shapes are chosen by."""
    found = _read(text)
    return [
        {name: value for i, each in enumerate(attributes) for name, value in _sampled(i, each, _object(region))}
        for region in (found if isinstance(found, list) else ())
    ]


def _sampled(i: int, attribute: Attribute, region: dict[str, Any]) -> Iterator[tuple[str, Any]]:
    terms = _object(region.get(attribute.name))
    lo, hi = (
        next((value for key in keys if (value := _known_value(terms.get(key), attribute)) is not None), None)
        for keys in (("eq", "ge", "gt", "prefix"), ("eq", "le", "lt"))
    )
    absent = attribute.name not in region or terms.get("null") is True
    present = attribute.name not in region or lo is not None or hi is not None or not absent
    one = attribute.is_text and lo is not None and lo == hi and "prefix" not in terms
    yield f"how{i}", present * PRESENT + absent * ABSENT + one * ONE
    nothing = ("", None) if attribute.is_text else (-inf, inf)
    yield f"lo{i}", nothing[0] if lo is None else lo
    yield f"hi{i}", nothing[1] if hi is None or one else hi


def _known_value(value: object, attribute: Attribute) -> str | float | None:
    if isinstance(value, str):
        return value if attribute.is_text else None
    return float(value) if isinstance(value, bool | float) and not attribute.is_text else None


def _read(text: str | None) -> object:
    """JSON; its integers as floats, since a very long one would not become a float later."""
    try:
        return loads(text or "null", parse_int=float)
    except (ValueError, RecursionError):
        return None


def _object(told: object) -> dict[str, Any]:
    return told if isinstance(told, dict) else {}
