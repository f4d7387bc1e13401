"""Slow, obvious twins of what `protocols.model` does cleverly, and the examples that both are fed with.

Filters are drawn as plain tuples, written out as text for the parser, and evaluated here by SQL's truth tables.
"""

from collections.abc import Mapping
from functools import cache
from math import ceil, floor, inf, nextafter
from sys import float_info
from typing import Any

from hypothesis import strategies as st

from protocols.model.schema import INTEGER_MAX, Attribute, Schema

# --- Schemas ----------------------------------------------------------------------------------------------------------

EXACT = Schema(
    (
        Attribute("n", "int", 0, 3),
        Attribute("s", "string"),
        Attribute("f", "float", -0.2, 0.2, 0.1, True),
        Attribute("b", "bool"),
    )
)
"""Every attribute is exact, and small enough to enumerate."""

LOOSE = Schema(
    (
        Attribute("x", "float", -1.0, 1.0, 0.5),
        Attribute("s", "string"),
        Attribute("i", "int", 0, 12, 4),
        Attribute("t", "string"),
        Attribute("b", "bool"),
    )
)
"""Values may lie off the grid and outside of the domain."""

STRINGS = ("", "a", "a\0", "aa", "ab", "b", "a'%_", "\ud7ff", "\ue000", "\U0010ffff", "a\U0010ffff", "Ω")
LITERALS: dict[str, tuple[Any, ...]] = {
    "n": (-2, -1, 0, 1, 2, 3, 4, 7, 0.5, 2.0, 2.5),
    "f": (-0.3, -0.2, -0.15, -0.1, 0, 0.0, 0.05, 0.1, 0.2, 0.25, 1),
    "x": (-2.5, -1, -0.5, -0.25, -0.2, -1e-9, 0.0, 0.2, 0.3, 0.5, 0.7, 1.0, 5),
    "i": (-9, -1, 0, 1, 3, 4, 7, 8, 8.5, 11, 12, 13, 40),
    "b": (True, False),
    "s": STRINGS,
    "t": STRINGS,
}
PUBLISHED: dict[str, tuple[Any, ...]] = {
    "n": (-5, -1, 0, 1, 2, 3, 4, 9),
    "f": (-0.4, -0.3, -0.2, -0.1, 0.0, 0, 0.1, 0.2, 0.3, 1),
    "x": (-7.0, -1.0, -0.75, -0.5, -0.3, -1e-12, -0.0, 0, 0.25, 0.5, 0.6, 0.999, 1, 1.5, 3.0),
    "i": (-3, 0, 1, 3, 4, 5, 7, 8, 9, 11, 12, 13, 99),
    "b": (True, False),
    "s": (*STRINGS, "aaa", "c"),
    "t": (*STRINGS, "aaa", "c"),
}
"""Values that may be published under the schemas above."""

INSIDE: dict[str, tuple[Any, ...]] = {
    "n": (None, 0, 1, 2, 3),
    "f": (None, -0.2, -0.1, 0.0, 0.1, 0.2),
    "b": (None, True, False),
}
"""All values inside of the domains of `EXACT`, strings apart."""

Tree = tuple[Any, ...]
OPERATORS = ("=", "<>", "<", "<=", ">", ">=")


@cache  # to describe examples costs more than to draw one
def attributes_of(schema: Schema) -> st.SearchStrategy[dict[str, Any]]:
    """Attributes of an event, some absent, some null."""
    pools = {name: st.sampled_from((None, *PUBLISHED[name])) for name in schema.names}
    return st.fixed_dictionaries({}, optional=pools)


@cache
def trees(schema: Schema, leaves: int = 8) -> st.SearchStrategy[Tree]:
    return st.recursive(
        leaf_trees(schema),
        lambda inner: st.one_of(
            st.tuples(st.just("not"), inner),
            st.tuples(st.sampled_from(("and", "or")), st.lists(inner, min_size=2, max_size=4)),
        ),
        max_leaves=leaves,
    )


def leaf_trees(schema: Schema) -> st.SearchStrategy[Tree]:
    options: list[st.SearchStrategy[Tree]] = [st.tuples(st.just("const"), st.booleans())]
    negation = st.booleans()
    for attribute in schema.attributes:
        name = st.just(attribute.name)
        value = st.sampled_from(LITERALS[attribute.name])
        operators = OPERATORS[:2] if attribute.type == "bool" else OPERATORS
        options += [
            st.tuples(st.just("compare"), name, st.sampled_from(operators), value),
            st.tuples(st.just("in"), name, st.lists(value, min_size=1, max_size=3), negation),
            st.tuples(st.just("null"), name, negation),
        ]
        if attribute.type != "bool":
            options.append(st.tuples(st.just("between"), name, value, value, negation))
        if attribute.is_text:
            options.append(st.tuples(st.just("like"), name, value, negation))
    return st.one_of(options)


# --- Text -------------------------------------------------------------------------------------------------------------


def text_of(tree: Tree) -> str:
    kind, *rest = tree
    if kind == "const":
        return "TRUE" if rest[0] else "false"
    if kind == "not":
        return f"NOT ({text_of(rest[0])})"
    if kind in ("and", "or"):
        return f" {kind.upper()} ".join(f"({text_of(part)})" for part in rest[0])
    name, negation = rest[0], "NOT " if rest[-1] is True else ""
    if kind == "compare":
        return f"{name} {rest[1]} {literal(rest[2])}"
    if kind == "between":
        return f"{name} {negation}BETWEEN {literal(rest[1])} and {literal(rest[2])}"
    if kind == "in":
        return f"{name} {negation}IN ({', '.join(map(literal, rest[1]))})"
    if kind == "like":
        escaped = rest[1].replace("!", "!!").replace("%", "!%").replace("_", "!_")
        return f"{name} {negation}LIKE {literal(escaped + '%')} ESCAPE '!'"
    return f'"{name}" IS {negation}NULL'


def literal(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).upper()
    return "'" + value.replace("'", "''") + "'" if isinstance(value, str) else repr(value)


# --- SQL's truth tables -----------------------------------------------------------------------------------------------

NOT = {"T": "F", "F": "T", "U": "U"}
AND = {"TT": "T", "TF": "F", "TU": "U", "FT": "F", "FF": "F", "FU": "F", "UT": "U", "UF": "F", "UU": "U"}
OR = {"TT": "T", "TF": "T", "TU": "T", "FT": "T", "FF": "F", "FU": "U", "UT": "T", "UF": "U", "UU": "U"}
MEANING = {"T": True, "F": False, "U": None}


def truth(tree: Tree, attributes: Mapping[str, Any]) -> str:
    kind, *rest = tree
    if kind == "const":
        return "T" if rest[0] else "F"
    if kind == "not":
        return NOT[truth(rest[0], attributes)]
    if kind in ("and", "or"):
        table = AND if kind == "and" else OR
        verdict = truth(rest[0][0], attributes)
        for part in rest[0][1:]:
            verdict = table[verdict + truth(part, attributes)]
        return verdict
    value = attributes.get(rest[0])
    if kind == "null":
        return "T" if (value is None) != rest[1] else "F"
    if value is None:
        return "U"
    return _leaf_truth(kind, rest, value)


def _leaf_truth(kind: str, rest: list[Any], value: Any) -> str:
    if kind == "compare":
        _, sign, other = rest
        held = {
            "=": value == other,
            "<>": value != other,
            "<": value < other,
            "<=": value <= other,
            ">": value > other,
            ">=": value >= other,
        }[sign]
    elif kind == "between":
        held = (rest[1] <= value and value <= rest[2]) != rest[3]
    elif kind == "in":
        held = any(value == each for each in rest[1]) != rest[2]
    else:
        held = (value[: len(rest[1])] == rest[1]) != rest[2]
    return "T" if held else "F"


# --- Corners ----------------------------------------------------------------------------------------------------------


def corner_values(tree: Tree, schema: Schema) -> dict[str, list[Any]]:
    """For each attribute that the tree mentions, values of which one satisfies it if any value does.

    Whatever a filter says splits the values of an attribute into stretches; each stretch begins with the least value, a
    literal, or the value next to one.
    """
    found: dict[str, set[Any]] = {}
    _collect(tree, found)
    result: dict[str, list[Any]] = {}
    for name, literals in found.items():
        attribute = schema.attribute(name)
        values: list[Any] = [None]
        if attribute.type == "bool":
            values += [False, True]
        elif attribute.is_text:
            values += sorted({"", *literals, *[each + "\0" for each in literals], *map(_beyond_prefix, literals)})
        elif attribute.type == "int":
            values += sorted(
                {-INTEGER_MAX, *[ceil(each) for each in literals], *[floor(each) + 1 for each in literals]}
            )
        elif attribute.exact:
            steps = {floor(each * 10) + more for each in literals for more in (-1, 0, 1, 2)}
            values += sorted({-1e9, *[step / 10 for step in steps]})
        else:
            values += sorted({-float_info.max, *literals, *[nextafter(each, inf) for each in literals]})
        result[name] = values
    return result


def _beyond_prefix(prefix: str) -> str:
    """The least string above all with the prefix; '' (harmless) if there is none."""
    while prefix:
        point = ord(prefix[-1])
        if point < 0x10FFFF:
            return prefix[:-1] + chr(0xE000 if point == 0xD7FF else point + 1)
        prefix = prefix[:-1]
    return ""


def _collect(tree: Tree, found: dict[str, set[Any]]) -> None:
    kind, *rest = tree
    if kind == "not":
        _collect(rest[0], found)
    elif kind in ("and", "or"):
        for part in rest[0]:
            _collect(part, found)
    elif kind != "const":
        literals = found.setdefault(rest[0], set())
        if kind == "compare":
            literals.add(rest[2])
        elif kind == "between":
            literals.update(rest[1:3])
        elif kind == "in":
            literals.update(rest[1])
        elif kind == "like":
            literals.add(rest[1])
