"""A codec takes only types that the decoder can hold to the limits. Each rule is shown a type that breaks it."""

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

import msgspec
import pytest
from msgspec import Meta

from peerd.wire import Codec, Limits, faults
from tests.wire.samples import MESSAGES, Ping


def _message(*annotations: Any) -> type[msgspec.Struct]:
    """A message with one field `f0`, `f1` ... for each of the types."""
    fields = [(f"f{index}", annotation) for index, annotation in enumerate(annotations)]
    return msgspec.defstruct("Example", fields, tag="example", array_like=True, frozen=True)


def test_sound_types_have_no_faults() -> None:
    assert faults(MESSAGES, Limits()) == []


@pytest.mark.parametrize(
    ("annotation", "complaint"),
    [
        (str, "Example.f0: needs a Meta(max_length=...) of at most 16384"),
        (bytes, "Example.f0: needs a Meta(max_length=...) of at most 65536"),
        (tuple[int, ...], "Example.f0: needs a Meta(max_length=...) of at most 4096"),
        (list[int], "Example.f0: needs a Meta(max_length=...) of at most 4096"),
        (dict[int, int], "Example.f0: needs a Meta(max_length=...) of at most 4096"),
        (float, "Example.f0: a float needs bounds on both sides, which exclude NaN (protocols.model.bounds.Finite)"),
        (int | str, "Example.f0: needs a Meta(max_length=...) of at most 16384"),
        (tuple[int, str], "Example.f0.1: needs a Meta(max_length=...) of at most 16384"),
        (Any, "Example.f0: Any has no bound that the decoder could keep"),
        (msgspec.Raw, "Example.f0: Raw has no bound that the decoder could keep"),
        (
            Annotated[frozenset[int], Meta(max_length=4)],
            "Example.f0: FrozenSet has no bound that the decoder could keep",
        ),
        (datetime, "Example.f0: DateTime has no bound that the decoder could keep"),
        (Decimal, "Example.f0: Decimal has no bound that the decoder could keep"),
        (Annotated[str, Meta(max_length=20_000)], "Example.f0: max_length 20000 is above the limit 16384"),
        (
            Annotated[tuple[str, ...], Meta(max_length=4)],
            "Example.f0.*: needs a Meta(max_length=...) of at most 16384",
        ),
    ],
    ids=str,
)
def test_fault_of_a_field(annotation: Any, complaint: str) -> None:
    assert faults([_message(annotation)], Limits()) == [complaint]
    with pytest.raises(TypeError) as caught:
        Codec([_message(annotation)])
    assert str(caught.value) == complaint


def test_every_fault_is_named() -> None:
    assert [line.split(":")[0] for line in faults([_message(str, int, bytes)], Limits())] == [
        "Example.f0",
        "Example.f2",
    ]


def test_fixed_sizes_need_no_bound() -> None:
    assert faults([_message(int, bool, None, Literal["a", "b"], tuple[int, bool], Ping)], Limits()) == []


def test_depth() -> None:
    nested: Any = int
    for _ in range(4):
        nested = Annotated[tuple[nested, ...], Meta(max_length=4)]
    assert faults([_message(nested)], Limits(depth=5)) == []
    assert faults([_message(nested)], Limits(depth=4)) == ["Example.f0.*.*.*.*: nested deeper than 4"]


class Matryoshka(msgspec.Struct, frozen=True, array_like=True, tag="matryoshka"):
    inner: "Matryoshka | None" = None


def test_recursion() -> None:
    assert faults([Matryoshka], Limits()) == ["Matryoshka.inner: Matryoshka is nested in itself"]


class Untagged(msgspec.Struct, frozen=True, array_like=True):
    pass


class Mutable(msgspec.Struct, array_like=True, tag="mutable"):
    pass


class Mapped(msgspec.Struct, frozen=True, tag="mapped"):
    pass


@pytest.mark.parametrize(
    ("type_", "complaint"),
    [
        (Untagged, "Untagged: a message needs a tag"),
        (Mutable, "Mutable: a message must be frozen"),
        (Mapped, "Mapped: Mapped must be array_like"),
    ],
)
def test_fault_of_a_message(type_: type[msgspec.Struct], complaint: str) -> None:
    assert faults([type_], Limits()) == [complaint]


def test_not_a_struct_and_nothing_at_all() -> None:
    assert faults([int], Limits()) == ["<class 'int'>: not a msgspec Struct"]  # type: ignore[list-item]
    assert faults([], Limits()) == ["a codec needs message types"]
