"""The local index against a list that is looked through from its beginning."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from protocols.model.box import EMPTY, Box, Point, match
from protocols.model.event import Attributes
from protocols.model.filter import Matcher
from protocols.model.index import LocalIndex
from protocols.model.normalise import normalise
from protocols.model.parse import parse
from protocols.model.schema import Attribute
from tests.model.twins import LOOSE, Tree, attributes_of, text_of, trees, truth


def always(attributes: Any) -> bool:
    return True


class Plain:
    """The twin."""

    def __init__(self) -> None:
        self.held: list[tuple[str, tuple[Box, ...], Matcher]] = []

    def add(self, id_: str, boxes: tuple[Box, ...], matcher: Matcher) -> None:
        self.held.append((id_, boxes, matcher))

    def remove(self, id_: str) -> None:
        self.held = [each for each in self.held if each[0] != id_]

    def match(self, point: Point, attributes: Attributes) -> list[str]:
        return [
            id_
            for id_, boxes, matcher in self.held
            if any(box != EMPTY and match(box, point) for box in boxes) and matcher(attributes)
        ]


def _twin_matcher(tree: Tree) -> Matcher:
    return lambda attributes: truth(tree, attributes) == "T"


@settings(max_examples=30)
@given(st.data(), st.sampled_from((1, 4, 1_000)))
def test_the_index_answers_like_a_list(data: st.DataObject, vector_from: int) -> None:
    index, twin = LocalIndex(vector_from), Plain()
    names: list[str] = []
    for number in range(data.draw(st.integers(1, 25))):
        if names and data.draw(st.integers(0, 3)) == 0:
            gone = names.pop(data.draw(st.integers(0, len(names) - 1)))
            index.remove(gone)
            twin.remove(gone)
        else:
            tree = data.draw(trees(LOOSE, 4))
            boxes = normalise(parse(text_of(tree), LOOSE), LOOSE).boxes
            matcher = _twin_matcher(tree)
            names.append(f"s{number}")
            index.add(names[-1], boxes, matcher)
            twin.add(names[-1], boxes, matcher)
        attributes = data.draw(attributes_of(LOOSE))
        assert index.match(LOOSE.point(attributes), attributes) == twin.match(LOOSE.point(attributes), attributes)
    assert len(index) == len(names)


@pytest.mark.parametrize("vector_from", [1, 64, 10_000])
def test_many_subscriptions_come_and_go(vector_from: int) -> None:
    index, twin = LocalIndex(vector_from), Plain()
    for number in range(700):
        first, text = number * 7 % 50, f"=k{number % 13}"
        boxes = (
            Box((first,), (first + 1 + number % 9,), (text,), (text + "\0",)),
            Box((number % 3,), (number % 3 + 1,), ("",), (">",)),
        )
        index.add(f"s{number}", boxes[: 1 + number % 2], always)
        twin.add(f"s{number}", boxes[: 1 + number % 2], always)
        if number % 3 == 2:
            index.remove(f"s{number // 2}")
            twin.remove(f"s{number // 2}")
    for value in range(-1, 60):
        for text in ("", "=k3", "=k12", "=zzz"):
            point = Point((value,), (text,))
            assert index.match(point, {}) == twin.match(point, {})
    for number in range(700):
        if f"s{number}" in index:
            index.remove(f"s{number}")
            twin.remove(f"s{number}")
        point = Point((number % 50,), (f"=k{number % 13}",))
        assert index.match(point, {}) == twin.match(point, {})
    assert len(index) == 0


def test_strings_with_the_same_code_are_told_apart() -> None:
    index = LocalIndex(1)
    for text in ("=longstring1", "=longstring2"):
        index.add(text, (Box((), (), (text,), (text + "\0",)),), always)
    assert index.match(Point((), ("=longstring2",)), {}) == ["=longstring2"]


@pytest.mark.parametrize("vector_from", [1, 1_000])
def test_attributes_are_decoded_only_for_a_candidate_and_only_once(vector_from: int) -> None:
    index, calls = LocalIndex(vector_from), []

    def decode() -> Attributes:
        calls.append(1)
        return {"x": 1}

    for number in range(5):
        index.add(f"s{number}", (Box((number,), (9,)),), lambda attributes: attributes["x"] == 1)
    assert index.match(Point((-1,)), decode) == []
    assert calls == []
    assert index.match(Point((2,)), decode) == ["s0", "s1", "s2"]
    assert calls == [1]


@pytest.mark.parametrize("vector_from", [1, 1_000])
def test_an_index_grows_with_the_schema(vector_from: int) -> None:
    longer = LOOSE.append([Attribute("y", "float", 0.0, 1.0, 0.5), Attribute("u", "string")])
    index, twin = LocalIndex(vector_from), Plain()
    events: list[Any] = [{"x": 0.6}, {"y": 0.7, "u": "z", "x": 0.9}, {"s": "a", "y": 0.1}, {}]
    points = [schema.point(attributes) for schema in (LOOSE, longer) for attributes in events]
    texts = [(LOOSE, "b"), (LOOSE, "x > 0"), (longer, "y > 0.6"), (LOOSE, "s = 'a'"), (longer, "u = 'z' AND x > 0")]
    for schema, text in texts:
        if schema is longer and "b" in index:
            index.remove("b")  # its row is the first that a longer box gets
            twin.remove("b")
        boxes = normalise(parse(text, schema), schema).boxes
        index.add(text, boxes, always)
        twin.add(text, boxes, always)
        assert [index.match(point, {}) for point in points] == [twin.match(point, {}) for point in points]


def test_misuse_raises_and_empty_boxes_match_nothing() -> None:
    index = LocalIndex(1)
    index.add("a", (EMPTY,), always)
    with pytest.raises(ValueError, match="already"):
        index.add("a", (), always)
    with pytest.raises(KeyError):
        index.remove("b")
    index.add("b", (Box((0,), (5,)),), always)
    assert index.match(Point((0,)), {}) == ["b"]
    assert index.match(Point((1 << 80,)), {}) == []
    assert index.match(Point((-(1 << 80),)), {}) == []
