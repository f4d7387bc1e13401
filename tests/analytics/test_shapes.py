"""Which shapes the range join cuts by, for samples written by hand."""

from random import Random
from typing import Any

from analytics.bounds import ABSENT, ONE, PRESENT, Attribute
from analytics.shapes import EVERYTHING, SHAPES_MAX, Plan, plan

SYMBOL, PRICE = Attribute("symbol", "string"), Attribute("price", "float")
FREE: dict[str, Any] = {"lo": float("-inf"), "hi": float("inf"), "how": PRESENT + ABSENT}
ANY_TEXT: dict[str, Any] = {"lo": "", "hi": None, "prefix": None, "how": PRESENT + ABSENT}


def region(*bounds: dict[str, Any]) -> dict[str, Any]:
    return {f"{name}{i}": value for i, each in enumerate(bounds) for name, value in each.items()}


def between(lo: float, hi: float) -> dict[str, Any]:
    return {"lo": lo, "hi": hi, "how": PRESENT}


def one(text: str) -> dict[str, Any]:
    return {"lo": text, "hi": None, "prefix": None, "how": PRESENT + ONE}


def attributes_of(chosen: Plan) -> list[list[int]]:
    """The attributes of each shape."""
    return [[chosen.keys[axis.place].number for axis in shape] for shape in chosen.shapes]


def test_regions_that_are_narrow_in_one_attribute_are_filed_under_it() -> None:
    rng = Random(1)
    points = [{"v0": rng.random(), "v1": rng.random()} for _ in range(500)]
    regions = [region(FREE, between(at / 100, at / 100 + 0.05)) for at in range(95)]
    chosen = plan([PRICE, PRICE], points, regions, 100_000, 10)
    assert chosen.shapes[0] == EVERYTHING
    assert attributes_of(chosen)[1:] == [[1]]
    assert 95 * 10 <= chosen.rows <= 95 * 10 * 4, "two or three stretches of 32 hold a twentieth"


def test_a_text_is_cut_by_where_one_value_is_asked_for() -> None:
    points = [{"v0": f"S{number % 50}", "v1": number / 500} for number in range(500)]
    asking = [region(one(f"S{number}"), FREE) for number in range(50)]
    beginning = [region({"lo": "S", "hi": None, "prefix": "S", "how": PRESENT}, FREE) for _ in range(50)]
    chosen = plan([SYMBOL, PRICE], points, asking + beginning, 100_000, 100)
    assert attributes_of(chosen) == [[], [0]]
    assert chosen.rows == 100 * 100


def test_kinds_of_regions_get_shapes_of_their_own() -> None:
    rng = Random(2)
    points = [{"v0": rng.random(), "v1": rng.random()} for _ in range(500)]
    first = [region(between(at / 100, at / 100 + 0.02), FREE) for at in range(95)]
    second = [region(FREE, between(at / 100, at / 100 + 0.02)) for at in range(95)]
    chosen = plan([PRICE, PRICE], points, first + second, 100_000, 10)
    assert sorted(attributes_of(chosen)) == [[], [0], [1]]


def test_what_does_not_pay_is_not_cut() -> None:
    points = [{"v0": number / 500} for number in range(500)]
    assert plan([PRICE], points, [region(FREE)] * 20, 100_000, 10).shapes == [EVERYTHING]
    narrow = [region(between(0.1, 0.2))]
    assert plan([PRICE], points[:5], narrow, 5, 1).shapes == [EVERYTHING], "five publications are soon compared"


def test_nothing_to_look_at() -> None:
    assert plan([], [], [], 0, 1).shapes == [EVERYTHING]
    assert plan([PRICE, SYMBOL], [], [], 0, 1).shapes == [EVERYTHING]
    lacking = [{"v0": None, "v1": None}] * 10
    assert plan([PRICE, SYMBOL], lacking, [region(FREE, ANY_TEXT)], 10, 1).shapes == [EVERYTHING]


def test_there_are_never_more_shapes_than_a_publication_may_be_looked_up_under() -> None:
    rng = Random(3)
    points = [{f"v{i}": rng.random() for i in range(8)} for _ in range(500)]
    regions = []
    for _ in range(300):
        sides = [between(low := rng.random(), low + 0.1) if rng.random() < 0.4 else FREE for _ in range(8)]
        regions.append(region(*sides))
    chosen = plan([PRICE] * 8, points, regions, 1_000_000, 1_000)
    assert 2 < len(chosen.shapes) <= SHAPES_MAX
    assert all(len(shape) <= 4 for shape in chosen.shapes)
