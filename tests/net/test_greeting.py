"""The first frame has its own limits, whatever a stranger sends."""

import msgpack
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerd.net import VERSION, Greeting, Refusal
from peerd.net.greeting import GREETING_BYTES_MAX, BadGreeting, FirstFrame, compatible, encode_first
from protocols.model.schema import STOCKS, Attribute, Schema

GREETING = Greeting(
    swarm_id="s", parameters={"a": 1, "b": 0.5, "c": True, "d": "x"}, schema=STOCKS.to_dict()["attributes"]
)


@pytest.mark.parametrize("first", [GREETING, Refusal("busy", "later")])
@pytest.mark.parametrize("piece", [1, 7, 10_000])
def test_round_trip_in_pieces(first: Greeting | Refusal, piece: int) -> None:
    stream = encode_first(first) + b"rest"
    frame = FirstFrame()
    for at in range(0, len(stream), piece):
        found = frame.feed(stream[at : at + piece])
        if found is not None:
            assert found == first
            assert b"rest".startswith(frame.rest)
            break
    else:
        pytest.fail("nothing found")


def test_it_is_plain_messagepack() -> None:
    unpacked = msgpack.unpackb(encode_first(GREETING)[4:])
    assert unpacked["peerd"] == "greeting"
    assert unpacked["version"] == list(VERSION)
    assert Schema.from_dict({"attributes": unpacked["schema"]}) == STOCKS


def test_the_largest_schema_fits() -> None:
    names = [chr(0x1F600) * 120 + f"{number:03}" for number in range(128)]
    schema = Schema([Attribute(name, "float", -1e300, 1e300, 1e299) for name in names])
    greeting = msgspec.structs.replace(GREETING, schema=schema.to_dict()["attributes"])
    assert FirstFrame().feed(encode_first(greeting)) == greeting
    assert len(encode_first(greeting)) < GREETING_BYTES_MAX
    with pytest.raises(ValueError, match="at most"):
        encode_first(msgspec.structs.replace(greeting, swarm="x" * GREETING_BYTES_MAX))


def test_versions() -> None:
    assert compatible((1, 4), (1, 5))
    assert compatible((1, 5), (1, 5))
    assert compatible((1, 6), (1, 5))
    assert not compatible((1, 3), (1, 5))
    assert not compatible((2, 5), (1, 5))


@given(st.binary(max_size=300), st.booleans())
def test_bytes_of_any_kind_are_read_or_refused(data: bytes, framed: bool) -> None:
    stream = len(data).to_bytes(4, "big") + data if framed else data
    refused = ""
    try:
        found = FirstFrame().feed(stream)
    except BadGreeting as error:
        refused = str(error)
    assert refused or found is None or isinstance(found, Greeting | Refusal)
    assert "\n" not in refused


@pytest.mark.parametrize(
    "changes",
    [
        {"boot": -1},
        {"peer": "x" * 65},
        {"schema": [{}] * 129},
        {"parameters": {"a": [1]}},
        {"parameters": {"a": float("nan")}},
        {"swarm_id": None},
        {"at": "x" * 300},
    ],
)
def test_what_is_out_of_bounds_is_refused(changes: dict[str, object]) -> None:
    content = msgspec.msgpack.encode({**msgspec.to_builtins(GREETING), **changes})
    with pytest.raises(BadGreeting, match="bad greeting"):
        FirstFrame().feed(len(content).to_bytes(4, "big") + content)


def test_nested_beyond_measure() -> None:
    content = b"\x81\xa1x" + b"\x91" * 100_000 + b"\x01"
    with pytest.raises(BadGreeting):
        FirstFrame().feed(len(content).to_bytes(4, "big") + content)
