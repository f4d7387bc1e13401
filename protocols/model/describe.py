"""Boxes as people and logs read them: `{"price": {"ge": 8.31, "le": 8.69}, "symbol": {"eq": "OTE"}}`.

An attribute that is not named is unbounded, absent included. Under its name stand `eq`, or `ge` or `gt` and `le` or
`lt`, or `prefix`, and all of them ask for a present value. `null` false alone asks for any present value, `null` true
alone for an absent one; `null` true beside a bound lets the absent value in as well.

There are two readings of a subscription. `describe_box` reads the box that it is routed by: numbers are then the values
of the grid, and "le 8.69" means up to and with the step of 8.69. `describe_region` reads what its filter says, before
any rounding: whoever works out which events were owed wants that one.

The empty box is written as a contradiction in its first attribute (a string below '', a number above max and below
min), so that a reader who knows nothing of it still finds that nothing matches.
"""

from collections.abc import Mapping
from math import inf
from typing import Any, Final, TypeAlias

from protocols.model.box import ABSENT_TEXT, BEYOND_TEXT, EMPTY, PRESENT_TEXT, Box, is_empty
from protocols.model.event import Scalar
from protocols.model.intervals import Interval
from protocols.model.lines import TEXT, FloatLine, GridLine, Line, successor
from protocols.model.normalise import lines_of
from protocols.model.regions import Region
from protocols.model.schema import Attribute, Schema, SchemaError

Terms: TypeAlias = dict[str, Scalar]
Description: TypeAlias = dict[str, Terms]

_KEYS: Final = frozenset(("eq", "ge", "gt", "le", "lt", "prefix", "null"))


def describe_box(schema: Schema, box: Box) -> Description:
    """What a box holds, in terms of grid values. A box that is too short for the schema is unbounded beyond its end."""
    if is_empty(box):
        return _nothing(schema)
    result: Description = {}
    for attribute in schema.first.attributes:
        is_text, at = schema.place(attribute.name)
        if at >= len(box.lo_text if is_text else box.lo):
            continue
        if is_text:
            terms = _text_terms(box.lo_text[at], box.hi_text[at])
        else:
            terms = _cell_terms(schema, attribute, box.lo[at], box.hi[at])
        if terms:
            result[attribute.name] = terms
    return result


def describe_region(schema: Schema, region: Region) -> Description:
    """What a filter's region holds, in terms of the values themselves."""
    lines = lines_of(schema)
    result: Description = {}
    for number in sorted(region):
        attribute, interval = schema.attributes[number], region[number]
        terms = _text_terms(*interval) if attribute.is_text else _value_terms(attribute, lines[number], interval)
        if terms:
            result[attribute.name] = terms
    return result


def box_from_description(schema: Schema, description: Mapping[str, Mapping[str, Any]]) -> Box:
    """The inverse of `describe_box`; `SchemaError` if the description is none. Appended attributes are in no box."""
    unbounded = schema.space.unbounded
    bounds: dict[bool, list[Interval]] = {
        False: list(zip(unbounded.lo, unbounded.hi, strict=True)),
        True: list(zip(unbounded.lo_text, unbounded.hi_text, strict=True)),
    }
    for name, terms in description.items():
        if name not in schema:
            raise SchemaError(f"unknown attribute {name!r}")
        _check_terms(schema.attribute(name), terms)
        if name not in schema.first:
            continue
        is_text, at = schema.place(name)
        interval: Interval = _text_interval(terms) if is_text else _cell_interval(schema, name, terms)
        if interval[0] >= interval[1]:
            return EMPTY
        bounds[is_text][at] = interval
    numbers, texts = bounds[False], bounds[True]
    return Box(
        tuple([lo for lo, _ in numbers]),
        tuple([hi for _, hi in numbers]),
        tuple([lo for lo, _ in texts]),
        tuple([hi for _, hi in texts]),
    )


def _nothing(schema: Schema) -> Description:
    first = schema.attributes[0]
    if first.is_text:
        return {first.name: {"lt": ""}}
    grid = schema.grid(first.name)
    return {first.name: {"ge": grid.value(grid.size - 1), "lt": grid.value(0)}}


# --- Numbers ----------------------------------------------------------------------------------------------------------


def _cell_terms(schema: Schema, attribute: Attribute, lo: int, hi: int) -> Terms:
    grid = schema.grid(attribute.name)
    lo, hi = max(lo, -1), min(hi, grid.size)
    if lo < 0 and hi <= 0:
        return {"null": True}
    terms: Terms = {}
    if attribute.type == "bool" and hi - max(lo, 0) == 1:
        terms["eq"] = hi == 2
    elif lo > 0 and lo + 1 == hi < grid.size:
        terms["eq"] = grid.value(lo)
    else:
        if lo > 0:
            terms["ge"] = grid.value(lo)
        if hi < grid.size:
            terms["le"] = grid.value(hi - 1)
    return _with_null(terms, lo < 0)


def _value_terms(attribute: Attribute, line: Line, interval: Interval) -> Terms:
    lo, hi = interval
    if hi <= line.present:
        return {"null": True}
    terms: Terms = {}
    if attribute.type == "bool":
        if hi - max(lo, 0) == 1:
            terms["eq"] = hi == 2
    elif isinstance(line, FloatLine):
        terms = _float_terms(line, lo, hi)
    else:
        value = line.grid.value if isinstance(line, GridLine) else int
        if lo > line.present:
            terms["ge"] = value(lo)
        if hi < line.top:
            terms["le"] = value(hi - 1)
        if len(terms) == 2 and lo + 1 == hi:
            terms = {"eq": terms["ge"]}
    return _with_null(terms, lo < line.present)


def _float_terms(line: FloatLine, lo: float, hi: float) -> Terms:
    """An interval of doubles has an open and a closed name for each end; the shorter one is what was meant."""
    last, before = line.previous(hi), line.previous(lo)
    if lo == last:
        return {"eq": lo}
    terms: Terms = {}
    if lo > line.present:
        terms |= {"ge": lo} if len(repr(lo)) <= len(repr(before)) else {"gt": before}
    if hi < line.top:
        terms |= {"lt": hi} if len(repr(hi)) <= len(repr(last)) else {"le": last}
    return terms


def _with_null(terms: Terms, absent: bool) -> Terms:
    if absent:
        return {**terms, "null": True} if terms else {}
    return terms or {"null": False}


def _cell_interval(schema: Schema, name: str, terms: Mapping[str, Any]) -> tuple[int, int]:
    grid = schema.grid(name)
    if not set(terms) - {"null"}:
        return (-1, 0) if terms.get("null") else (0, grid.size)
    if "eq" in terms:
        lo = grid.index(terms["eq"] + 0)
        hi = lo + 1
    else:
        least = terms.get("ge", terms.get("gt", -inf))
        most = terms.get("le", terms.get("lt", inf))
        if least > most or (least == most and ("gt" in terms or "lt" in terms)):
            return 0, 0
        lo, hi = grid.index(least), grid.index(most) + 1
        if "lt" in terms and hi > 1 and grid.position(most) == (hi - 1, True):
            hi -= 1  # the step of the bound itself is out
    return (-1 if terms.get("null") else lo), hi


# --- Strings ----------------------------------------------------------------------------------------------------------


def _text_terms(lo: str, hi: str) -> Terms:
    absent = lo == ABSENT_TEXT
    if hi <= PRESENT_TEXT:
        return {"null": True}
    first = max(lo, PRESENT_TEXT)
    terms: Terms = {}
    if hi == first + "\0":
        terms["eq"] = first[1:]
    elif first > PRESENT_TEXT and hi == successor(first):
        terms["prefix"] = first[1:]
    else:
        if first > PRESENT_TEXT:
            terms |= {"gt": first[1:-1]} if first.endswith("\0") else {"ge": first[1:]}
        if hi < BEYOND_TEXT:
            terms |= {"le": hi[1:-1]} if hi.endswith("\0") else {"lt": hi[1:]}
    return _with_null(terms, absent)


def _text_interval(terms: Mapping[str, Any]) -> tuple[str, str]:
    if not set(terms) - {"null"}:
        return (ABSENT_TEXT, PRESENT_TEXT) if terms.get("null") else (PRESENT_TEXT, BEYOND_TEXT)
    lo, hi = PRESENT_TEXT, BEYOND_TEXT
    if "eq" in terms:
        lo, hi = TEXT.before(terms["eq"]), TEXT.after(terms["eq"])
    elif "prefix" in terms:
        lo, hi = TEXT.prefixed(terms["prefix"])
    else:
        if "ge" in terms:
            lo = TEXT.before(terms["ge"])
        elif "gt" in terms:
            lo = TEXT.after(terms["gt"])
        if "le" in terms:
            hi = TEXT.after(terms["le"])
        elif "lt" in terms:
            hi = TEXT.before(terms["lt"])
    return (ABSENT_TEXT if terms.get("null") else lo), hi


def _check_terms(attribute: Attribute, terms: Mapping[str, Any]) -> None:
    where = f"attribute {attribute.name!r}"
    if not terms or set(terms) - _KEYS:
        raise SchemaError(f"{where}: a bound has the keys {', '.join(sorted(_KEYS))}")
    for key, value in terms.items():
        if key == "null":
            fits = isinstance(value, bool)
        elif attribute.is_text:
            fits = isinstance(value, str)
        elif attribute.type == "bool":
            fits = isinstance(value, bool) and key == "eq"
        else:
            fits = isinstance(value, (int, float)) and not isinstance(value, bool) and key != "prefix"
        if not fits:
            raise SchemaError(f"{where}: {key} cannot be {value!r}")
