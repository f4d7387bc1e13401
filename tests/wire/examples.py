"""Every message type there is, and examples of any of them made from its type alone.

A new overlay is covered by the tests of the wire as soon as the registry knows it: nothing here names its messages.
"""

from collections.abc import Iterator
from functools import cache
from typing import Any

import msgspec
from hypothesis import strategies as st
from msgspec import inspect

from peerd.registry import NAMES, messages
from tests.wire import samples

_ITEMS = 4
"""Elements and characters in an example, at the most: what matters is shape, not size."""


def codecs() -> dict[str, tuple[type[msgspec.Struct], ...]]:
    """The message types of each overlay's codec, and of the codec for tests."""
    return {"samples": samples.MESSAGES} | {name: messages(name) for name in NAMES}


def all_message_types() -> list[type[msgspec.Struct]]:
    return list(dict.fromkeys(type_ for types in codecs().values() for type_ in types))


def plain(value: Any) -> Any:
    """A message as lists, maps and scalars: what a decoder that knows no structs makes of it."""
    return _lists(msgspec.to_builtins(value, builtin_types=(bytes,)))


def _lists(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return [_lists(item) for item in value]
    if isinstance(value, dict):
        return {key: _lists(item) for key, item in value.items()}
    return value


# --- Examples at random -----------------------------------------------------------------------------------------------


@cache
def instances(type_: type[msgspec.Struct]) -> st.SearchStrategy[Any]:
    """Instances of a struct, within the bounds that its fields state. Made once: that costs more than to draw one."""
    info = inspect.type_info(type_)
    assert isinstance(info, inspect.StructType)
    return st.builds(type_, *(_values(field.type) for field in info.fields))


def _values(info: inspect.Type) -> st.SearchStrategy[Any]:
    match info:
        case inspect.Metadata(type=inner):
            return _values(inner)
        case inspect.StructType(cls=cls):
            return instances(cls)
        case inspect.NoneType():
            return st.none()
        case inspect.BoolType():
            return st.booleans()
        case inspect.IntType(ge=ge, le=le):
            return st.integers(-(2**63) if ge is None else ge, 2**64 - 1 if le is None else le)
        case inspect.FloatType(ge=ge, le=le):
            return st.floats(ge, le, allow_nan=False, allow_infinity=False)
        case inspect.StrType():
            return st.text(st.characters(exclude_categories=["Cs"]), min_size=_fewest(info), max_size=_most(info))
        case inspect.BytesType():
            return st.binary(min_size=_fewest(info), max_size=_most(info))
        case inspect.LiteralType(values=values):
            return st.sampled_from(values)
        case inspect.EnumType(cls=cls):
            return st.sampled_from(list(cls))
        case inspect.ListType(item_type=item):
            return st.lists(_values(item), min_size=_fewest(info), max_size=_most(info))
        case inspect.VarTupleType(item_type=item):
            return st.lists(_values(item), min_size=_fewest(info), max_size=_most(info)).map(tuple)
        case inspect.TupleType(item_types=types):
            return st.tuples(*map(_values, types))
        case inspect.DictType(key_type=key, value_type=value):
            return st.dictionaries(_values(key), _values(value), min_size=_fewest(info), max_size=_most(info))
        case inspect.UnionType(types=types):
            return st.one_of([_values(inner) for inner in types])
    raise TypeError(f"no examples of {info}")


def _fewest(info: Any) -> int:
    return int(info.min_length or 0)


def _most(info: Any) -> int:
    return max(_fewest(info), min(_ITEMS, int(info.max_length)))


# --- One step too far -------------------------------------------------------------------------------------------------


def least(info: inspect.Type) -> Any:
    """The smallest plain value of a type."""
    match info:
        case inspect.Metadata(type=inner):
            return least(inner)
        case inspect.StructType(fields=fields, tag=tag):
            return ([] if tag is None else [tag]) + [least(field.type) for field in fields]
        case inspect.NoneType():
            return None
        case inspect.BoolType():
            return False
        case inspect.IntType(ge=ge) | inspect.FloatType(ge=ge):
            value = max(0, ge or 0)
            return float(value) if isinstance(info, inspect.FloatType) else value
        case inspect.StrType():
            return "x" * (info.min_length or 0)
        case inspect.BytesType():
            return b"x" * (info.min_length or 0)
        case inspect.LiteralType(values=values):
            return values[0]
        case inspect.EnumType(cls=cls):
            return next(iter(cls)).value
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            return [least(item)] * (info.min_length or 0)
        case inspect.TupleType(item_types=types):
            return [least(inner) for inner in types]
        case inspect.DictType():
            return {}
        case inspect.UnionType(types=types):
            return least(types[0])
    raise TypeError(f"no least value of {info}")


def excesses(info: inspect.Type) -> Iterator[Any]:
    """Plain values of a type that are right but for one place, where something is one step over its bound."""
    match info:
        case inspect.Metadata(type=inner):
            yield from excesses(inner)
        case inspect.StructType(fields=fields, tag=tag):
            base, offset = least(info), 0 if tag is None else 1
            for index, field in enumerate(fields):
                for value in excesses(field.type):
                    yield [*base[: index + offset], value, *base[index + offset + 1 :]]
        case inspect.IntType(ge=ge, le=le):
            yield from ([] if ge is None else [ge - 1]) + ([] if le is None else [le + 1])
        case inspect.FloatType():
            yield from (float("nan"), float("inf"), float("-inf"))
        case inspect.StrType(max_length=int(length)):
            yield "x" * (length + 1)
        case inspect.BytesType(max_length=int(length)):
            yield b"x" * (length + 1)
        case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
            assert info.max_length is not None
            yield [least(item)] * (info.max_length + 1)
            for value in excesses(item):
                yield [value]
        case inspect.TupleType(item_types=types):
            for index, inner in enumerate(types):
                for value in excesses(inner):
                    yield [*map(least, types[:index]), value, *map(least, types[index + 1 :])]
            yield [*map(least, types), None]
        case inspect.DictType(key_type=inspect.StrType(), max_length=int(length)):
            yield {str(number): least(info.value_type) for number in range(length + 1)}
        case inspect.UnionType(types=types):
            for inner in types:
                yield from excesses(inner)
