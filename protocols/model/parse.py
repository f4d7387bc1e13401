"""From a filter's text to its expression.

Two passes. lark (LALR, from `grammar.lark`) turns the text into a tree of raw nodes that still hold names, literals and
places; it keeps its stack in a list, so no text can exhaust Python's. The second pass goes down the tree once, carrying
whether it is under an odd number of NOTs: it looks names up in the schema, checks types, and leaves an expression in
negation normal form. Double negation is undone while the tree is built, so depth comes only from AND and OR
in turn, which `DEPTH_MAX` bounds.

A boolean attribute may stand alone: `urgent` means `urgent = TRUE`. Words of the language are no names unless quoted.

lark is imported when the first filter is parsed, not before.
"""

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from math import isfinite
from typing import Any, Final, NoReturn, TypeAlias, cast

import msgspec

from protocols.model.bounds import TEXT_MAX
from protocols.model.event import Scalar
from protocols.model.filter import (
    And,
    Between,
    Compare,
    Constant,
    Expression,
    FilterError,
    In,
    IsNull,
    Leaf,
    Operator,
    Or,
    Prefix,
    negated,
)
from protocols.model.schema import INTEGER_MAX, Attribute, Schema

LENGTH_MAX: Final = 16_384
"""Code points of a filter. Our choice: room for 2,000 symbols in an IN list, and under 0.2 s to parse at the worst."""
DEPTH_MAX: Final = 64
"""How deep AND and OR may be nested in each other. Our choice: far below Python's own limit, far above need."""

_KEYWORDS: Final = frozenset(("AND", "OR", "NOT", "BETWEEN", "IN", "LIKE", "ESCAPE", "IS", "NULL", "TRUE", "FALSE"))
_MIRRORED: Final[dict[str, Operator]] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_WORDS: Final = {
    "COMPARISON": "a comparison (= <> < <= > >=)",
    "RPAR": "')'",
    "COMMA": "','",
    "$END": "the end",
}


def parse(text: str, schema: Schema) -> Expression:
    """The expression that a filter's text stands for, in negation normal form; `FilterError` if it is none."""
    if len(text) > LENGTH_MAX:
        raise FilterError(f"the filter has {len(text)} characters; {LENGTH_MAX} are allowed", LENGTH_MAX)
    if not text.strip():
        raise FilterError("the filter is empty; TRUE matches everything", 0)
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise FilterError("a lone surrogate is not a character", error.start) from None
    return _Resolver(schema).resolve(_raw(text), False)


# --- First pass: raw nodes --------------------------------------------------------------------------------------------


class _Name(msgspec.Struct, frozen=True):
    name: str
    at: int


class _Literal(msgspec.Struct, frozen=True):
    value: Scalar
    at: int


_Operand: TypeAlias = _Name | _Literal


class _Test(msgspec.Struct, frozen=True):
    """One comparison, by the name of its grammar rule."""

    rule: str
    operands: tuple[_Operand, ...]
    operator: str = ""
    negated: bool = False
    depth: int = 0


class _Not(msgspec.Struct, frozen=True):
    part: "_Raw"
    depth: int


class _Group(msgspec.Struct, frozen=True):
    """AND or OR."""

    conjunction: bool
    parts: tuple["_Raw", ...]
    depth: int


_Raw: TypeAlias = _Test | _Not | _Group


class _Builder:
    """What lark calls: tokens by the name of their terminal, rules with the list of their children."""

    def NAME(self, token: Any) -> _Name:  # noqa: N802 (a terminal of the grammar)
        word = token.upper()
        if word == "NULL":
            raise FilterError("nothing compares with NULL: write IS NULL or IS NOT NULL", token.start_pos)
        if word in _KEYWORDS:
            raise FilterError(
                f"{word} cannot stand here; an attribute of that name is written in double quotes", token.start_pos
            )
        return _Name(str(token), token.start_pos)

    def QUOTED_NAME(self, token: Any) -> _Name:  # noqa: N802
        return _Name(token[1:-1].replace('""', '"'), token.start_pos)

    def STRING(self, token: Any) -> _Literal:  # noqa: N802
        value = token[1:-1].replace("''", "'")
        if len(value.encode()) > TEXT_MAX:  # no event has such a string, and no box could carry it
            raise FilterError(f"a string has at most {TEXT_MAX} bytes", token.start_pos)
        return _Literal(value, token.start_pos)

    def NUMBER(self, token: Any) -> _Literal:  # noqa: N802
        return _Literal(_number(str(token), token.start_pos), token.start_pos)

    def TRUE(self, token: Any) -> _Literal:  # noqa: N802
        return _Literal(True, token.start_pos)

    def FALSE(self, token: Any) -> _Literal:  # noqa: N802
        return _Literal(False, token.start_pos)

    def start(self, children: list[_Raw]) -> _Raw:
        return children[0]

    def disjunction(self, children: list[_Raw]) -> _Raw:
        return _group(False, children)

    def conjunction(self, children: list[_Raw]) -> _Raw:
        return _group(True, children)

    def negation(self, children: list[Any]) -> _Raw:
        part: _Raw = children[1]
        return part.part if isinstance(part, _Not) else _Not(part, part.depth)

    def comparison(self, children: list[Any]) -> _Test:
        left, sign, right = children
        return _Test("comparison", (left, right), "<>" if sign == "!=" else str(sign))

    def between(self, children: list[Any]) -> _Test:
        operand, negation, low, high = children
        return _Test("between", (operand, low, high), "BETWEEN", negation is not None)

    def in_list(self, children: list[Any]) -> _Test:
        operand, negation, *values = children
        return _Test("in_list", (operand, *values), "IN", negation is not None)

    def like(self, children: list[Any]) -> _Test:
        operand, negation, *pattern = children
        return _Test("like", (operand, *[p for p in pattern if p is not None]), "LIKE", negation is not None)

    def is_null(self, children: list[Any]) -> _Test:
        operand, negation = children
        return _Test("is_null", (operand,), "IS NULL", negation is not None)

    def alone(self, children: list[_Operand]) -> _Test:
        return _Test("alone", (children[0],))


def _group(conjunction: bool, parts: list[_Raw]) -> _Group:
    depth = 1 + max(part.depth for part in parts)
    if depth > DEPTH_MAX:
        raise FilterError(f"AND and OR are nested more than {DEPTH_MAX} deep", _place(parts[0]))
    return _Group(conjunction, tuple(parts), depth)


def _place(node: _Raw) -> int:
    """Where a node begins, as far as its first operand tells."""
    while not isinstance(node, _Test):
        node = node.part if isinstance(node, _Not) else node.parts[0]
    return node.operands[0].at


def _number(text: str, at: int) -> int | float:
    if text.lstrip("+-").isdigit():
        if len(text) > 17 or abs(int(text)) > INTEGER_MAX:
            raise FilterError("integers lie within ±(2^53-1)", at)
        return int(text)
    value = float(text)
    if not isfinite(value):
        raise FilterError("the number is too large", at)
    return value


@cache
def _parser() -> Callable[[str], _Raw]:
    from lark import Lark

    grammar = files(__package__).joinpath("grammar.lark").read_text("utf-8")
    # mypy knows `transformer` as lark's own class; lark itself only looks its methods up by name.
    builder: Any = _Builder()
    lark = Lark(grammar, parser="lalr", lexer="contextual", transformer=builder, maybe_placeholders=True)
    return cast(Callable[[str], _Raw], lark.parse)


def _raw(text: str) -> _Raw:
    from lark.exceptions import UnexpectedCharacters, UnexpectedToken

    try:
        return _parser()(text)
    except UnexpectedToken as error:
        at = len(text) if error.token.type == "$END" else error.token.start_pos or 0
        allowed = error.accepts or error.expected
    except UnexpectedCharacters as error:
        at = error.pos_in_stream
        allowed = _allowed_after(text[:at])
    raise FilterError(_syntax_reason(text, at, allowed), at)


def _allowed_after(text: str) -> set[str]:
    """The terminals that may follow. lark does not tell it of a character that begins none, but of an early end."""
    from lark.exceptions import UnexpectedToken

    try:
        _parser()(text)
    except UnexpectedToken as error:
        return error.accepts or error.expected
    return {"_AND", "_OR", "$END"}


def _syntax_reason(text: str, at: int, allowed: set[str]) -> str:
    found, before = text[at : at + 1], text[:at].rstrip()
    if found in ("'", '"') and found not in text[at + 1 :]:
        return "the string is not closed" if found == "'" else "the quoted name is not closed"
    after_operand = "COMPARISON" in allowed or "_AND" in allowed
    if after_operand and found and found in "+-*/%|^":
        return "arithmetic is not supported: compare an attribute with a value"
    if after_operand and found == "(" and (before[-1:].isalnum() or before[-1:] in ("_", ".")):
        return "functions are not supported: compare an attribute with a value"
    if found == ")" and allowed == {"$END"}:
        return "this ')' closes nothing"
    return f"expected {_listed(allowed)}, found {_shown(text, at)}"


def _shown(text: str, at: int) -> str:
    words = text[at : at + 40].split(None, 1)
    return repr(words[0][:20]) if words else "the end"


def _listed(allowed: set[str]) -> str:
    if "NAME" in allowed:
        return "a condition" if "LPAR" in allowed else "a value"
    words = [_WORDS.get(name, name.lstrip("_")) for name in sorted(allowed)]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} or {words[-1]}" if words else "something else"


# --- Second pass: names, types, NOT -----------------------------------------------------------------------------------


class _Resolver:
    def __init__(self, schema: Schema) -> None:
        self.schema = schema

    def resolve(self, node: _Raw, under_not: bool) -> Expression:
        if isinstance(node, _Not):
            return self.resolve(node.part, not under_not)
        if isinstance(node, _Group):
            parts = self._flat(node.parts, node.conjunction is not under_not, under_not)
            return And(parts, parts[0].at) if node.conjunction is not under_not else Or(parts, parts[0].at)
        leaf = self._leaf(node)
        return negated(leaf) if under_not else leaf

    def _flat(self, nodes: Sequence[_Raw], conjunction: bool, under_not: bool) -> tuple[Expression, ...]:
        """The parts; AND directly under AND (or OR under OR) is one."""
        kind = And if conjunction else Or
        parts: list[Expression] = []
        for node in nodes:
            part = self.resolve(node, under_not)
            if isinstance(part, kind):
                parts += part.parts
            else:
                parts.append(part)
        return tuple(parts)

    def _leaf(self, test: _Test) -> Leaf:
        if test.rule == "alone":
            return self._alone(test.operands[0])
        if test.rule == "comparison":
            return self._comparison(test)
        subject, *rest = test.operands
        if isinstance(subject, _Literal):
            raise FilterError(f"an attribute stands before {test.operator}, not a value", subject.at)
        attribute = self._attribute(subject)
        at = subject.at
        if test.rule == "is_null":
            return IsNull(attribute.name, test.negated, at)
        if test.rule == "like":
            return self._like(attribute, rest, test.negated, at)
        values = tuple([self._value(attribute, operand) for operand in rest])
        if test.rule == "in_list":
            return In(attribute.name, values, test.negated, at)
        if attribute.type == "bool":
            raise FilterError("booleans have no order: use = or <>", at)
        return Between(attribute.name, values[0], values[1], test.negated, at)

    def _alone(self, operand: _Operand) -> Leaf:
        if isinstance(operand, _Name):
            attribute = self._attribute(operand)
            if attribute.type == "bool":
                return Compare(attribute.name, "=", True, operand.at)
            raise FilterError(f"{attribute.name} is a {attribute.type}: compare it with a value", operand.at)
        if isinstance(operand.value, bool):
            return Constant(operand.value, operand.at)
        raise FilterError("a value alone is no condition: compare an attribute with it", operand.at)

    def _comparison(self, test: _Test) -> Compare:
        left, right = test.operands
        sign = cast(Operator, test.operator)
        at = left.at
        if isinstance(left, _Literal):
            left, right, sign = right, left, _MIRRORED[test.operator]
        if isinstance(left, _Literal):
            raise FilterError("two values are compared: one side must be an attribute", at)
        attribute = self._attribute(left)
        value = self._value(attribute, right)
        if attribute.type == "bool" and sign not in ("=", "<>"):
            raise FilterError("booleans have no order: use = or <>", at)
        return Compare(attribute.name, sign, value, at)

    def _like(self, attribute: Attribute, rest: Sequence[_Operand], is_negated: bool, at: int) -> Leaf:
        if attribute.type != "string":
            raise FilterError(f"LIKE needs a string, and {attribute.name} is a {attribute.type}", at)
        pattern, *escapes = [(_text(operand), operand.at) for operand in rest]
        escape, escape_at = escapes[0] if escapes else ("", 0)
        if escapes and len(escape) != 1:
            raise FilterError("ESCAPE takes one character", escape_at)
        prefix, open_ended = _prefix_of(*pattern, escape)
        if open_ended:
            return Prefix(attribute.name, prefix, is_negated, at)
        return Compare(attribute.name, "<>" if is_negated else "=", prefix, at)

    def _attribute(self, operand: _Name) -> Attribute:
        if operand.name in self.schema:
            return self.schema.attribute(operand.name)
        near = get_close_matches(operand.name, self.schema.names, 1)
        if not near:
            near = [name for name in self.schema.names if name.lower() == operand.name.lower()]
        hint = f"did you mean {near[0]!r}?" if near else f"the schema has {_some(self.schema.names)}"
        raise FilterError(f"unknown attribute {operand.name!r}; {hint}", operand.at)

    def _value(self, attribute: Attribute, operand: _Operand) -> Scalar:
        """The literal, checked against the attribute's type. A number compared with a float attribute is a float."""
        if isinstance(operand, _Name):
            self._refuse_name(operand)
        value = operand.value
        found = "string" if isinstance(value, str) else "bool" if isinstance(value, bool) else "number"
        wanted = "number" if attribute.type in ("int", "float") else attribute.type
        if found != wanted:
            hint = f": strings stand in single quotes, '{value}'" if wanted == "string" else ""
            reason = f"{attribute.name} is a {attribute.type} and cannot be compared with a {found}{hint}"
            raise FilterError(reason, operand.at)
        return float(value) if attribute.type == "float" else value

    def _refuse_name(self, operand: _Name) -> NoReturn:
        if operand.name in self.schema:
            raise FilterError("comparisons between attributes are not supported: compare with a value", operand.at)
        raise FilterError(
            f"a value is wanted, and {operand.name!r} is a name; strings stand in single quotes", operand.at
        )


def _some(names: Sequence[str], limit: int = 8) -> str:
    return ", ".join(names[:limit]) + (" …" if len(names) > limit else "")


def _text(operand: _Operand) -> str:
    if isinstance(operand, _Literal) and isinstance(operand.value, str):
        return operand.value
    raise FilterError("LIKE takes strings in single quotes", operand.at)


def _prefix_of(pattern: str, at: int, escape: str) -> tuple[str, bool]:
    """The text of a LIKE pattern without its wildcard, and whether it had one at its end."""
    letters: list[str] = []
    index = 0
    while index < len(pattern):
        letter = pattern[index]
        if letter == escape:
            index += 1
            if index == len(pattern) or pattern[index] not in ("%", "_", escape):
                raise FilterError(f"after the escape character {escape!r} comes %, _ or itself", at)
            letters.append(pattern[index])
        elif letter == "%" and index == len(pattern) - 1:
            return "".join(letters), True
        elif letter in ("%", "_"):
            what = "only one % at the end is supported" if letter == "%" else "the wildcard _ is not supported"
            raise FilterError(f"{what}; for the character itself use ESCAPE", at)
        else:
            letters.append(letter)
        index += 1
    return "".join(letters), False
