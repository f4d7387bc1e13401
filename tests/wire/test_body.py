"""The body of an event is decoded at the edge alone, but it came over the wire all the same."""

from contextlib import suppress
from typing import Any

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from protocols.model.event import Body, decode_body, encode_body

BODY = Body({"symbol": "OTE", "price": 8.31, "open": True, "volume": 3}, 1_700_000_000_000_000, {"a": [1, None]}, "x/y")


def test_round_trip() -> None:
    assert decode_body(encode_body(BODY)) == BODY


@pytest.mark.parametrize(
    "attributes",
    [
        {"price": float("nan")},
        {"price": float("inf")},
        {"symbol": "x" * 1025},
        {"x" * 1025: 1},
        {"price": None},
        {"price": [1]},
        {1: 1},
        dict.fromkeys(map(str, range(33)), 1),
    ],
    ids=["nan", "infinity", "long string", "long name", "nil", "array", "name of a number", "33 attributes"],
)
def test_bad_attributes(attributes: dict[Any, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        decode_body(msgpack.packb([attributes, 0]))


def test_depth_and_text_are_decode_errors_too() -> None:
    head = msgpack.packb([{}, 0, 0])[:-1]
    with pytest.raises(msgspec.DecodeError, match="deep"):
        decode_body(head + b"\x91" * 60_000)
    with pytest.raises(msgspec.DecodeError, match="UTF-8"):
        decode_body(head + b"\xa1\xff")


@given(st.binary(max_size=100), st.integers(0, 100))
def test_only_decode_errors(junk: bytes, at: int) -> None:
    raw = encode_body(BODY)
    for body in (junk, raw[:at], raw[:at] + junk + raw[at:], raw[:at] + junk + raw[at + len(junk) :]):
        with suppress(msgspec.DecodeError):
            decode_body(body)
