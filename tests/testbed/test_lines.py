"""Messages between the processes of a testbed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peerd.testbed.lines import (
    Batch,
    Fork,
    LetGo,
    Look,
    Ready,
    Unpacker,
    Up,
    decode_news,
    decode_order,
    decode_question,
    pack,
)

MESSAGES = [
    Up("ab", 7, "127.0.0.1:1", "127.0.0.1:2"),
    Ready(),
    Batch(delivered=[("e-1-1", ("s1", "s2"), 3, 99)], stood=[(0, True, 5)], receptions={"wanted": 1}),
    Batch(),
]


@given(st.lists(st.integers(min_value=1, max_value=200), max_size=20))
def test_messages_survive_any_cut(sizes: list[int]) -> None:
    stream = b"".join(map(pack, MESSAGES))
    unpacker, heard = Unpacker(), []
    for size in [*sizes, len(stream)]:
        heard += [decode_news(message) for message in unpacker.feed(stream[:size])]
        stream = stream[size:]
    assert heard == MESSAGES


def test_orders_and_questions() -> None:
    order = Fork(3, {"name": "p3", "join": ["127.0.0.1:1"]}, True)
    assert [decode_order(each) for each in Unpacker().feed(pack(order) + pack(LetGo()))] == [order, LetGo()]
    assert [decode_question(each) for each in Unpacker().feed(pack(Look(4)))] == [Look(4)]


def test_a_length_that_cannot_be() -> None:
    with pytest.raises(ValueError, match="a message of 4294967295 bytes"):
        list(Unpacker().feed(b"\xff\xff\xff\xff"))
