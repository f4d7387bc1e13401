"""The schema: which attributes a swarm knows, and how a set of attributes becomes a point.

A schema is a tuple of attributes: those that the swarm began with, in the order in which they were given, and behind
them those that were appended since, in the order of their names. Attributes are only ever appended, so its length is
its version.

*Boxes and points know the attributes of the beginning only* (`first`, `space`). These never change, so a coordinate
means the same to every peer at any time, whatever is appended where and whoever has not heard of it. An appended
attribute is not routed by: it is unbounded in every box, and the exact filter decides about it where the event arrives.

*Appended twice at once.* Nobody is asked before something is appended, so two peers may append at the same time, even
on two sides of a partition. All that counts is the set of appended attributes, and the order follows from the set: so
`merged` gives the same schema in whatever order, and however often, schemas meet. Where two attributes have one name,
the one stands that encodes to less; where there are more than `ATTRIBUTES_MAX`, the first names stand. What gives way
is told to whoever had it.

Numbers (int, float, bool) and strings have their coordinates in tuples of their own (see `box`); an attribute's *place*
says in which of the two and where.

Minimum, maximum and precision shape routing only: a value outside is routed as the nearest bound, one off the grid by
its step. An attribute that is `exact` promises more: published values lie on the grid (continued beyond both ends), and
others are refused. Then strict bounds lose nothing: `8.30 < price AND price < 8.70` has 39 steps of a cent instead of
40. An `int` with precision 1 is exact by nature.
"""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from math import isfinite
from typing import Any, Final, Literal, NamedTuple, TypeAlias

import msgspec

from protocols.model.bounds import ATTRIBUTES_MAX, EVENT_ATTRIBUTES_MAX, TEXT_MAX
from protocols.model.box import ABSENT, ABSENT_TEXT, PRESENT_TEXT, Point, Space
from protocols.model.event import Attributes, Scalar
from protocols.model.grid import Grid

INTEGER_MAX: Final = 2**53 - 1
"""Integers beyond it, either way, do not survive JSON (contract)."""
STEPS_MAX: Final = 2**53
"""Steps of one grid: coordinates stay exact as doubles and fit a vector of 64-bit integers. Our choice."""
NAME_LENGTH_MAX: Final = 128
"""Code points of an attribute's name. Our choice."""

Type: TypeAlias = Literal["int", "float", "string", "bool"]
TYPES: Final = ("int", "float", "string", "bool")


class SchemaError(ValueError):
    """A schema, or attributes that do not fit it; the message is one line that says what to change."""


class Attribute(msgspec.Struct, frozen=True, omit_defaults=True):
    """One attribute. Numbers are brought to one form (a float's bounds are floats), so equal ones encode equally."""

    name: str
    type: Type
    min: int | float | None = None
    max: int | float | None = None
    precision: int | float | None = None
    exact: bool = False

    def __post_init__(self) -> None:
        _check_name(self.name)
        if self.type in ("int", "float"):
            _check_domain(self)
        elif self.type not in TYPES:
            raise SchemaError(f"attribute {self.name!r}: type {self.type!r} is none of {', '.join(TYPES)}")
        elif (self.min, self.max, self.precision, self.exact) != (None, None, None, False):
            raise SchemaError(f"attribute {self.name!r}: a {self.type} has no min, max, precision or exact")

    @property
    def is_text(self) -> bool:
        return self.type == "string"

    def grid(self) -> Grid:
        """The attribute's steps; a bool has two. Not for strings."""
        if self.type == "bool":
            return Grid(0, 1, 1, integers=True, exact=True)
        assert self.min is not None
        assert self.max is not None
        assert self.precision is not None
        return Grid(self.min, self.max, self.precision, self.type == "int", self.exact)


class Place(NamedTuple):
    """Where an attribute's coordinate stands: in the tuple of strings or in that of numbers, and at which position."""

    is_text: bool
    position: int


def _check_name(name: str) -> None:
    if not name or len(name) > NAME_LENGTH_MAX:
        raise SchemaError(f"attribute {name[:40]!r}: a name has 1 to {NAME_LENGTH_MAX} characters")
    if not _is_encodable(name) or not name.isprintable():
        raise SchemaError(f"attribute {name!r}: a name has printable characters only")


def _check_domain(attribute: Attribute) -> None:
    where = f"attribute {attribute.name!r}"
    integers = attribute.type == "int"
    given = {"min": attribute.min, "max": attribute.max, "precision": attribute.precision}
    if integers and given["precision"] is None:
        given["precision"] = 1
    for key, value in given.items():
        if value is None:
            raise SchemaError(f"{where}: {key} is missing; a {attribute.type} needs min, max and precision")
        if isinstance(value, bool) or not isinstance(value, int if integers else (int, float)):
            raise SchemaError(f"{where}: {key} must be {'an integer' if integers else 'a number'}, not {value!r}")
        if isinstance(value, int) and abs(value) > INTEGER_MAX:
            raise SchemaError(f"{where}: {key} is too large")
        if not isfinite(value):
            raise SchemaError(f"{where}: {key} must be a finite number, not {value!r}")
        msgspec.structs.force_setattr(attribute, key, value if integers else float(value) + 0.0)
    low, high, precision = (float(value) for value in given.values() if value is not None)
    if low > high:
        raise SchemaError(f"{where}: min {low} is above max {high}")
    if precision <= 0:
        raise SchemaError(f"{where}: precision must be above 0")
    if integers and given["precision"] == 1:
        msgspec.structs.force_setattr(attribute, "exact", True)
    if attribute.grid().size > STEPS_MAX:
        raise SchemaError(f"{where}: more than 2^53 steps from min to max; take a coarser precision")


def _is_encodable(text: str) -> bool:
    """Whether the text has no lone surrogates, which UTF-8 cannot say."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


class Schema:
    """The attributes of a swarm, in order. A value: never changed, compared by its attributes.

    `beginning`: how many of them the swarm began with; all, if nothing else is said.
    """

    __slots__ = ("_attributes", "_grids", "_numbers", "_places", "_texts", "attributes", "beginning", "first", "space")

    def __init__(self, attributes: Iterable[Attribute], beginning: int | None = None) -> None:
        self.attributes = tuple(attributes)
        if not self.attributes:
            raise SchemaError("a schema needs at least one attribute")
        if len(self.attributes) > ATTRIBUTES_MAX:
            raise SchemaError(f"a schema has at most {ATTRIBUTES_MAX} attributes")
        self.beginning = len(self.attributes) if beginning is None else beginning
        self._attributes: dict[str, Attribute] = {}
        self._grids: dict[str, Grid] = {}
        for attribute in self.attributes:
            if attribute.name in self._attributes:
                raise SchemaError(f"attribute {attribute.name!r} stands there twice")
            self._attributes[attribute.name] = attribute
            if not attribute.is_text:
                self._grids[attribute.name] = attribute.grid()
        self._numbers: list[tuple[str, Grid]] = []
        self._texts: list[str] = []
        self._places: dict[str, Place] = {}
        for attribute in self.attributes[: self.beginning]:
            self._place(attribute)
        self.space = Space([grid.size for _, grid in self._numbers], len(self._texts))
        grown = self.beginning < len(self.attributes)
        self.first: Schema = Schema(self.attributes[: self.beginning]) if grown else self
        """The schema that the swarm began with."""

    def _place(self, attribute: Attribute) -> None:
        name = attribute.name
        if attribute.is_text:
            self._places[name] = Place(True, len(self._texts))
            self._texts.append(name)
        else:
            self._places[name] = Place(False, len(self._numbers))
            self._numbers.append((name, self._grids[name]))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schema):
            return False
        return self.attributes == other.attributes and self.beginning == other.beginning

    def __hash__(self) -> int:
        return hash(self.attributes)

    def __repr__(self) -> str:
        return f"Schema({', '.join(f'{a.name}: {a.type}' for a in self.attributes)})"

    @property
    def version(self) -> int:
        """How many attributes it has: attributes are only appended."""
        return len(self.attributes)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._attributes)

    @property
    def appended(self) -> tuple[Attribute, ...]:
        return self.attributes[self.beginning :]

    def __contains__(self, name: object) -> bool:
        return name in self._attributes

    def attribute(self, name: str) -> Attribute:
        """The attribute of that name; `KeyError` if there is none."""
        return self._attributes[name]

    def place(self, name: str) -> Place:
        """Where its coordinate stands in boxes and points; `KeyError` for an appended attribute, which has none."""
        return self._places[name]

    def grid(self, name: str) -> Grid:
        """The steps of a number attribute; `KeyError` for a string."""
        return self._grids[name]

    # --- Other forms ------------------------------------------------------------------------------------------------

    @classmethod
    def from_toml(cls, text: str) -> "Schema":
        try:
            parsed = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            raise SchemaError(f"not TOML: {error}") from None
        return cls.from_dict(parsed)

    @classmethod
    def from_dict(cls, given: Mapping[str, Any]) -> "Schema":
        """From `{"attributes": …}`: a table of attributes by name, as in TOML, or a list of attributes with names."""
        entries = given.get("attributes")
        unknown = sorted(set(given) - {"attributes"})
        if unknown:
            raise SchemaError(f"unknown key {unknown[0]!r}; a schema has [attributes.NAME] tables only")
        if isinstance(entries, Mapping):
            return cls([_attribute_from(name, entry) for name, entry in entries.items()])
        if isinstance(entries, Sequence) and not isinstance(entries, str):
            return cls([_attribute_from(None, entry) for entry in entries])
        raise SchemaError("a schema needs [attributes.NAME] tables")

    def to_dict(self) -> dict[str, Any]:
        """As a list, since the order of attributes has a meaning and that of keys in JSON has none."""
        return {"attributes": [msgspec.to_builtins(attribute) for attribute in self.attributes]}

    # --- Growing ----------------------------------------------------------------------------------------------------

    def append(self, attributes: Iterable[Attribute]) -> "Schema":
        """The next version of this schema; `SchemaError` if it cannot have these."""
        added = tuple(attributes)
        for attribute in added:
            if attribute.name in self:
                raise SchemaError(f"attribute {attribute.name!r} is in the swarm's schema already")
        appended = sorted((*self.appended, *added), key=_name)
        return Schema((*self.first.attributes, *appended), self.beginning)

    def merged(self, other: "Schema") -> "Schema":
        """What two peers of one swarm know together: the same, whoever asks whom. `SchemaError` if the other schema
        does not begin as this one does."""
        if other.attributes[: self.beginning] != self.first.attributes:
            raise SchemaError("the schema does not begin with the swarm's first attributes")
        known = {attribute.name: attribute for attribute in self.appended}
        for attribute in other.attributes[self.beginning :]:
            mine = known.get(attribute.name)
            if mine is None or _encoded(attribute) < _encoded(mine):
                known[attribute.name] = attribute
        if len(known) == len(self.appended) and all(known[each.name] is each for each in self.appended):
            return self
        appended = [known[name] for name in sorted(known)][: ATTRIBUTES_MAX - self.beginning]
        return Schema((*self.first.attributes, *appended), self.beginning)

    def extends(self, older: "Schema") -> bool:
        """Whether this is the schema of a swarm that may have had the other one before. (Which of the other one's
        attributes are of the beginning does not matter: a file does not say.)"""
        common = min(self.beginning, older.version)
        begins = self.attributes[:common] == older.attributes[:common]
        return begins and all(self._attributes.get(each.name) == each for each in older.attributes[common:])

    # --- Events -----------------------------------------------------------------------------------------------------

    def validate(self, attributes: Mapping[str, Any]) -> Attributes:
        """The attributes of an event, nulls left out; `SchemaError` if they may not be published."""
        if len(attributes) > EVENT_ATTRIBUTES_MAX:
            raise SchemaError(f"{len(attributes)} attributes; an event has at most {EVENT_ATTRIBUTES_MAX}")
        for name, value in attributes.items():
            known = self._attributes.get(name)
            if known is None:
                raise SchemaError(f"unknown attribute {name!r}; the schema has {', '.join(self._attributes)}")
            reason = None if value is None else self._fault(known, value)
            if reason is not None:
                raise SchemaError(f"attribute {name!r}: {reason}")
        return {name: value for name, value in attributes.items() if value is not None}

    def _fault(self, attribute: Attribute, value: object) -> str | None:
        if isinstance(value, str):
            return _fault_of_text(attribute, value)
        if isinstance(value, bool):
            return None if attribute.type == "bool" else f"a {attribute.type} is wanted, not a bool"
        if not isinstance(value, (int, float)):
            return f"a {attribute.type} is wanted, not {type(value).__name__}"
        if attribute.type not in ("int", "float") or (attribute.type == "int" and isinstance(value, float)):
            return f"{'an' if attribute.type == 'int' else 'a'} {attribute.type} is wanted, not {value!r}"
        if isinstance(value, int) and abs(value) > INTEGER_MAX:
            return "integers lie within ±(2^53-1)"
        if not isfinite(value):
            return f"{value} is not a number that can be compared"
        if attribute.exact and not self._grids[attribute.name].position(value)[1]:
            return f"{value!r} is not on the grid of {attribute.precision!r} from {attribute.min!r}"
        return None

    def point(self, attributes: Mapping[str, Scalar | None]) -> Point:
        """Where an event with these attributes falls. They are valid (`validate`); unknown names do not matter."""
        get = attributes.get
        numbers: list[int] = []
        for name, grid in self._numbers:
            value = get(name)
            if value is None:
                numbers.append(ABSENT)
            elif isinstance(value, str):
                raise SchemaError(f"attribute {name!r}: a number is wanted, not a string")
            else:
                numbers.append(grid.index(value + 0))
        if not self._texts:
            return Point(tuple(numbers))
        return Point(tuple(numbers), tuple([_text_coordinate(name, get(name)) for name in self._texts]))


def _fault_of_text(attribute: Attribute, value: str) -> str | None:
    if attribute.type != "string":
        return f"{'an' if attribute.type == 'int' else 'a'} {attribute.type} is wanted, not a string"
    if not _is_encodable(value):
        return "the string has a lone surrogate, which cannot be encoded"
    size = len(value.encode())
    return f"{size} bytes; a string has at most {TEXT_MAX}" if size > TEXT_MAX else None


def _text_coordinate(name: str, value: Scalar | None) -> str:
    if value is None:
        return ABSENT_TEXT
    if not isinstance(value, str):
        raise SchemaError(f"attribute {name!r}: a string is wanted, not {value!r}")
    return PRESENT_TEXT + value


def _attribute_from(name: str | None, entry: object) -> Attribute:
    if not isinstance(entry, Mapping):
        raise SchemaError(f"attribute {name!r}: a table with a type is wanted" if name else "an attribute is an object")
    fields = dict(entry) if name is None else {**entry, "name": name}
    name = str(fields.get("name", ""))
    if "type" not in fields:
        dotted = next((key for key, value in entry.items() if isinstance(value, Mapping)), None)
        hint = f'; a dot in a name needs quotes: [attributes."{name}.{dotted}"]' if dotted else ""
        raise SchemaError(f"attribute {name!r}: type is missing{hint}")
    unknown = sorted(str(key) for key in set(fields) - set(Attribute.__struct_fields__))
    if unknown:
        raise SchemaError(f"attribute {name!r}: unknown key {unknown[0]!r}")
    if not isinstance(fields.get("exact", False), bool):
        raise SchemaError(f"attribute {name!r}: exact is true or false")
    if not isinstance(fields.get("name"), str) or not isinstance(fields["type"], str):
        raise SchemaError(f"attribute {name!r}: name and type are strings")
    return Attribute(**fields)


def _name(attribute: Attribute) -> str:
    return attribute.name


def _encoded(attribute: Attribute) -> bytes:
    """What tells two attributes of one name apart, the same for everybody."""
    return msgspec.json.encode(attribute)


def _price(name: str) -> Attribute:
    return Attribute(name, "float", 0.0, 20.0, 0.01)


STOCKS: Final = Schema(
    (Attribute("exchange", "string"), Attribute("symbol", "string"), _price("price"), _price("high"), _price("low"))
)
"""The schema of a swarm that was given none (contract)."""
