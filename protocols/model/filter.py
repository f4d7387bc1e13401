"""Filters: the expression behind a filter's text, and what it says about an event.

Logic is SQL's, with three values: True, False and None for *unknown*. A comparison with an absent attribute is unknown;
NOT unknown is unknown; AND is the lesser and OR the greater of its parts in the order False < unknown < True. Only True
delivers. A value of the wrong type, which only a remote peer that does not validate can send, compares unknown too.

`parse` hands out expressions in negation normal form: NOT has been pushed into the leaves, where it turns `<` into `>=`
and IN into NOT IN. Each leaf and its negation are unknown for the same events, so this changes nothing in three-valued
logic. And since AND and OR never turn something unknown into True unless they would do so with False in its place, an
expression without NOT is True exactly if it is so in two-valued logic with each leaf reading "is true". That is what
`compiled` makes of it: nested closures that know only True and False.

Measured (`benchmarks/bench_model.py`, Python 3.11): a conjunction of an equality and a range costs 0.23 µs compiled and
1.9 µs in `evaluate`.
"""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias

import msgspec

from protocols.model.event import Scalar

Operator: TypeAlias = Literal["=", "<>", "<", "<=", ">", ">="]
Values: TypeAlias = Mapping[str, Scalar | None]
Matcher: TypeAlias = Callable[[Values], bool]


class FilterError(ValueError):
    """A filter that cannot be used: why, and the zero-based code point where."""

    def __init__(self, reason: str, position: int = 0) -> None:
        super().__init__(reason, position)
        self.reason = reason
        self.position = position

    def __str__(self) -> str:
        return f"{self.reason} (at position {self.position})"


# --- Expressions ------------------------------------------------------------------------------------------------------


class Compare(msgspec.Struct, frozen=True):
    attribute: str
    operator: Operator
    value: Scalar
    at: int = 0


class Between(msgspec.Struct, frozen=True):
    """Both ends are in; nothing is, if they are the wrong way round."""

    attribute: str
    low: Scalar
    high: Scalar
    negated: bool = False
    at: int = 0


class In(msgspec.Struct, frozen=True):
    attribute: str
    values: tuple[Scalar, ...]
    negated: bool = False
    at: int = 0


class Prefix(msgspec.Struct, frozen=True):
    """LIKE with its one trailing wildcard. (Without a wildcard LIKE is `Compare`.)"""

    attribute: str
    prefix: str
    negated: bool = False
    at: int = 0


class IsNull(msgspec.Struct, frozen=True):
    attribute: str
    negated: bool = False
    at: int = 0


class Constant(msgspec.Struct, frozen=True):
    value: bool
    at: int = 0


class And(msgspec.Struct, frozen=True):
    parts: tuple["Expression", ...]
    at: int = 0


class Or(msgspec.Struct, frozen=True):
    parts: tuple["Expression", ...]
    at: int = 0


Leaf: TypeAlias = Compare | Between | In | Prefix | IsNull | Constant
Expression: TypeAlias = Leaf | And | Or

_OPPOSITE: Final[dict[Operator, Operator]] = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}
_COMPARE: Final[dict[Operator, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def negated(leaf: Leaf) -> Leaf:
    """The leaf that is true where this one is false, false where it is true, and unknown where it is unknown."""
    if isinstance(leaf, Compare):
        return msgspec.structs.replace(leaf, operator=_OPPOSITE[leaf.operator])
    if isinstance(leaf, Constant):
        return msgspec.structs.replace(leaf, value=not leaf.value)
    return msgspec.structs.replace(leaf, negated=not leaf.negated)


# --- Three values -----------------------------------------------------------------------------------------------------


def evaluate(expression: Expression, attributes: Values) -> bool | None:
    """What the filter says of these attributes: True, False, or None for unknown."""
    if isinstance(expression, And):
        return _least([evaluate(part, attributes) for part in expression.parts])
    if isinstance(expression, Or):
        verdict = _least([_not(evaluate(part, attributes)) for part in expression.parts])
        return _not(verdict)
    if isinstance(expression, Constant):
        return expression.value
    value = attributes.get(expression.attribute)
    if isinstance(expression, IsNull):
        return (value is None) is not expression.negated
    return None if value is None else _evaluate_leaf(expression, value)


def matches(expression: Expression, attributes: Values) -> bool:
    """Whether an event with these attributes is to be delivered."""
    return evaluate(expression, attributes) is True


def _not(verdict: bool | None) -> bool | None:
    return None if verdict is None else not verdict


def _least(verdicts: list[bool | None]) -> bool | None:
    if False in verdicts:
        return False
    return None if None in verdicts else True


def _evaluate_leaf(leaf: Compare | Between | In | Prefix, value: Scalar) -> bool | None:
    if isinstance(leaf, Prefix):
        return value.startswith(leaf.prefix) is not leaf.negated if isinstance(value, str) else None
    sample = leaf.value if isinstance(leaf, Compare) else leaf.low if isinstance(leaf, Between) else leaf.values[0]
    if isinstance(value, str) is not isinstance(sample, str):
        return None
    if isinstance(leaf, Compare):
        return _COMPARE[leaf.operator](value, leaf.value)
    if isinstance(leaf, In):
        return (value in leaf.values) is not leaf.negated
    low: Any = leaf.low
    high: Any = leaf.high
    return (low <= value <= high) is not leaf.negated


# --- Compiled ---------------------------------------------------------------------------------------------------------


def compiled(expression: Expression) -> Matcher:
    """`matches` for this expression, as a function: the form that is run for every delivery."""
    fast = _closure(expression)

    def match(attributes: Values) -> bool:
        try:
            return fast(attributes)
        except (TypeError, AttributeError):  # a value of the wrong type: rare, so it may cost
            return evaluate(expression, attributes) is True

    return match


def _closure(expression: Expression) -> Matcher:
    if isinstance(expression, And):
        return _all([_closure(part) for part in expression.parts])
    if isinstance(expression, Or):
        return _any([_closure(part) for part in expression.parts])
    if isinstance(expression, Compare):
        return _compare(expression)
    if isinstance(expression, Between):
        return _between(expression)
    if isinstance(expression, In):
        return _in(expression)
    if isinstance(expression, Prefix):
        return _prefix(expression)
    if isinstance(expression, Constant):
        value = expression.value
        return lambda attributes: value
    name = expression.attribute
    if expression.negated:
        return lambda attributes: attributes.get(name) is not None
    return lambda attributes: attributes.get(name) is None


def _all(parts: list[Matcher]) -> Matcher:
    if len(parts) == 2:
        a, b = parts
        return lambda attributes: a(attributes) and b(attributes)
    if len(parts) == 3:
        a, b, c = parts
        return lambda attributes: a(attributes) and b(attributes) and c(attributes)

    def match(attributes: Values) -> bool:
        for part in parts:
            if not part(attributes):
                return False
        return True

    return match


def _any(parts: list[Matcher]) -> Matcher:
    if len(parts) == 2:
        a, b = parts
        return lambda attributes: a(attributes) or b(attributes)

    def match(attributes: Values) -> bool:
        for part in parts:
            if part(attributes):
                return True
        return False

    return match


def _compare(leaf: Compare) -> Matcher:
    """Absent values: None equals nothing, and ordering it is a `TypeError`, so each has to be asked for first."""
    name = leaf.attribute
    bound: Any = leaf.value
    if leaf.operator == "=":
        return lambda attributes: attributes.get(name) == bound
    if leaf.operator == "<>":
        kinds = _kinds(bound)
        return lambda attributes: isinstance(v := attributes.get(name), kinds) and v != bound
    if leaf.operator == "<":
        return lambda attributes: (v := attributes.get(name)) is not None and v < bound
    if leaf.operator == "<=":
        return lambda attributes: (v := attributes.get(name)) is not None and v <= bound
    if leaf.operator == ">":
        return lambda attributes: (v := attributes.get(name)) is not None and v > bound
    return lambda attributes: (v := attributes.get(name)) is not None and v >= bound


def _between(leaf: Between) -> Matcher:
    name = leaf.attribute
    low: Any = leaf.low
    high: Any = leaf.high
    if leaf.negated:
        return lambda attributes: (v := attributes.get(name)) is not None and not low <= v <= high
    return lambda attributes: (v := attributes.get(name)) is not None and low <= v <= high


def _in(leaf: In) -> Matcher:
    name = leaf.attribute
    values = frozenset(leaf.values)
    if leaf.negated:
        kinds = _kinds(leaf.values[0])
        return lambda attributes: isinstance(v := attributes.get(name), kinds) and v not in values
    return lambda attributes: attributes.get(name) in values


def _prefix(leaf: Prefix) -> Matcher:
    name, prefix = leaf.attribute, leaf.prefix
    if leaf.negated:
        return lambda attributes: isinstance(v := attributes.get(name), str) and not v.startswith(prefix)
    return lambda attributes: isinstance(v := attributes.get(name), str) and v.startswith(prefix)


def _kinds(sample: Scalar) -> tuple[type, ...]:
    """The types of value that compare with this one."""
    return (str,) if isinstance(sample, str) else (int, float)
