"""Plots: well-formed, within their frame, and honest about having nothing to draw."""

import re
from xml.etree import ElementTree

import pytest

from analytics.plots import HEIGHT, WIDTH, Plot, Style, label, svg


def numbers(text: str, *names: str) -> list[float]:
    return [float(value) for name in names for value in re.findall(rf'\b{name}="(-?[0-9.]+)"', text)]


@pytest.mark.parametrize("style", ["line", "points", "bars", "steps"])
def test_a_plot_is_well_formed_and_stays_in_its_frame(style: Style) -> None:
    series = {"one & only": [(1.0, 3.0), (2.0, 0.0), (10.0, 7.5)], "two": [(1.0, 1.0)]}
    drawn = svg(Plot("a < b", "x", "y", series, style, marks={"printed": [(5.0, 5.0)]}))
    ElementTree.fromstring(drawn)
    assert "one &amp; only" in drawn
    assert all(0 <= x <= WIDTH for x in numbers(drawn, "x", "x1", "x2", "cx"))
    assert all(0 <= y <= HEIGHT for y in numbers(drawn, "y", "y1", "y2", "cy"))
    for points in re.findall(r'points="([^"]+)"', drawn):
        assert all(
            0 <= float(x) <= WIDTH and 0 <= float(y) <= HEIGHT for x, y in (p.split(",") for p in points.split())
        )


def test_logarithmic_axes_leave_out_what_they_cannot_show() -> None:
    drawn = svg(Plot("t", "x", "y", {"a": [(0.0, 1.0), (1.0, 10.0), (1_000.0, 100.0)]}, log_x=True, log_y=True))
    assert drawn.count("<circle") == 2
    assert ">10</text>" in drawn


def test_nothing_to_draw_is_said() -> None:
    assert "nothing to draw" in svg(Plot("empty", "x", "y", {"a": []}))
    assert "nothing to draw" in svg(Plot("empty", "x", "y", {"a": [(float("nan"), 1.0)]}))


def test_one_point_has_a_frame_of_its_own() -> None:
    assert ticks_across(Plot("t", "x", "y", {"a": [(5.5, 5.0)]}, "bars")) == ["5", "5.2", "5.4", "5.6", "5.8", "6"]


def test_ticks_of_whole_numbers_are_whole() -> None:
    def bars(last: int) -> Plot:
        return Plot("t", "hops", "y", {"a": [(float(hops), 1.0) for hops in range(last + 1)]}, "bars")

    assert ticks_across(bars(0)) == ["0"]
    assert ticks_across(bars(3)) == ["0", "1", "2", "3"]
    assert ticks_across(bars(12)) == ["0", "5", "10"]


def test_a_legend_hides_as_little_as_it_can() -> None:
    def side(*points: tuple[float, float]) -> str:
        root = ElementTree.fromstring(svg(Plot("t", "x", "y", {"a": points, "b": [(0.0, 0.0), (10.0, 0.0)]})))
        [box] = [each for each in root.iter("rect") if each.get("class") == "legend"]
        return "left" if float(box.get("x", "0")) < WIDTH / 2 else "right"

    assert side((0.0, 10.0), (10.0, 1.0)) == "right"
    assert side((0.0, 1.0), (10.0, 10.0)) == "left"


def ticks_across(plot: Plot) -> list[str | None]:
    root = ElementTree.fromstring(svg(plot))
    return [each.text for each in root.iter("text") if each.get("class") == "tick" and each.get("y") == "293"]


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (12_000.0, "12k"), (3.5e6, "3.5M"), (2e9, "2G"), (0.125, "0.125")]
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert label(value) == text
