"""Plots as SVG text: lines, points and bars with two axes and a legend.

They are part of a page, take its colours from its style sheet (`--ink`, `--grid`, `--c0` …), scale with it, and need
neither a library nor a network.
"""

from collections.abc import Mapping, Sequence
from html import escape
from itertools import pairwise
from math import ceil, floor, isfinite, log10
from typing import Final, Literal, NamedTuple, TypeAlias

Point: TypeAlias = tuple[float, float]
Style: TypeAlias = Literal["line", "points", "bars", "steps"]

WIDTH, HEIGHT = 640, 320
LEFT, RIGHT, TOP, BOTTOM = 64, 16, 34, 44
COLOURS: Final = 8
LEGEND_LETTER: Final = 6.2
"""About as wide is a letter of the legend."""
POINTS_MAX: Final = 1_000
"""Points of a series that are drawn: more would not be seen."""

STYLE: Final = """
svg.plot{width:100%;max-width:640px;height:auto;font:12px system-ui,sans-serif}
svg.plot text{fill:var(--ink)} svg.plot .title{font-weight:600;font-size:13px}
svg.plot .tick{fill:var(--dim);font-size:11px}
svg.plot .grid{stroke:var(--grid);stroke-width:1} svg.plot .axis{stroke:var(--dim);stroke-width:1}
svg.plot .legend{fill:var(--card);opacity:.85} svg.plot polyline{fill:none;stroke-width:2;stroke-linejoin:round}
"""


class Plot(NamedTuple):
    title: str
    x: str
    y: str
    series: Mapping[str, Sequence[Point]]
    style: Style = "line"
    log_x: bool = False
    log_y: bool = False
    y_from_zero: bool = True
    marks: Mapping[str, Sequence[Point]] = {}
    """Series that are drawn as points whatever the style: what a paper printed."""


def svg(plot: Plot) -> str:
    """The plot as an SVG element; a line that says so where there is nothing to draw."""
    series = {name: _thinned(_drawable(plot, points)) for name, points in plot.series.items()}
    marks = {name: _drawable(plot, points) for name, points in plot.marks.items()}
    everything = [point for points in (*series.values(), *marks.values()) for point in points]
    if not everything:
        return f'<p class="none">{escape(plot.title)}: nothing to draw</p>'
    across = _Axis([x for x, _ in everything], plot.log_x, LEFT, WIDTH - RIGHT, widen=plot.style == "bars")
    heights = [y for _, y in everything] + ([0.0] if plot.y_from_zero and not plot.log_y else [])
    up = _Axis(heights, plot.log_y, HEIGHT - BOTTOM, TOP)
    parts = [_frame(plot, across, up)]
    for number, points in enumerate(series.values()):
        parts.append(_drawn(plot.style, points, across, up, number, len(series)))
    for number, points in enumerate(marks.values(), len(series)):
        parts.append(_drawn("points", points, across, up, number, 1))
    parts.append(_legend([*series, *marks], [(across(x), up(y)) for x, y in everything]))
    label = escape(plot.title, quote=True)
    return f'<svg class="plot" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{label}">{"".join(parts)}</svg>'


def _drawable(plot: Plot, points: Sequence[Point]) -> list[Point]:
    def fits(point: Point) -> bool:
        x, y = point
        finite = isfinite(x) and isfinite(y)
        return finite and (x > 0 or not plot.log_x) and (y > 0 or not plot.log_y)

    return sorted(point for point in points if fits(point))


def _thinned(points: list[Point]) -> list[Point]:
    step = ceil(len(points) / POINTS_MAX)
    return points[::step] if step > 1 else points


class _Axis:
    """From values to pixels, and where ticks stand."""

    def __init__(self, values: Sequence[float], log: bool, start: float, end: float, widen: bool = False) -> None:
        self._log = log
        low, high = min(values), max(values)
        if log:
            low, high = 10 ** floor(log10(low)), 10 ** ceil(log10(high))
        if widen and not log:
            margin = (high - low or 1.0) / max(1, len(set(values)) - 1) / 2
            low, high = low - margin, high + margin
        if low == high:
            low, high = (low / 10, high * 10) if log else (low - 0.5, high + 0.5)
        whole = all(float(value).is_integer() for value in values)
        self.ticks = _decades(low, high) if log else _steps(low, high, whole)
        if not log and not widen:
            low, high = min(low, self.ticks[0]), max(high, self.ticks[-1])
        self._low, self._high = (log10(low), log10(high)) if log else (low, high)
        self._start, self._end = start, end

    def __call__(self, value: float) -> float:
        at = log10(value) if self._log else value
        return self._start + (at - self._low) / (self._high - self._low) * (self._end - self._start)


def _decades(low: float, high: float) -> list[float]:
    return [10.0**power for power in range(round(log10(low)), round(log10(high)) + 1)]


def _steps(low: float, high: float, whole: bool) -> list[float]:
    """`whole`: there is nothing between one number and the next."""
    raw = max((high - low) / 5, 1.0 if whole else 0.0)
    power = 10.0 ** floor(log10(raw))
    steps = [power * factor for factor in (1, 2, 2.5, 5, 10)]
    step = next(step for step in steps if step >= raw and (step.is_integer() or not whole))
    return [round(number * step, 12) for number in range(floor(low / step), ceil(high / step) + 1)]


def label(value: float) -> str:
    """A number as short as it can be told."""
    size = abs(value)
    for limit, unit in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if size >= limit:
            return f"{value / (1e3 if unit == 'k' else limit):g}{unit}"
    return f"{value:.4g}"


def _frame(plot: Plot, across: _Axis, up: _Axis) -> str:
    parts = [f'<text class="title" x="{LEFT}" y="18">{escape(plot.title)}</text>']
    for tick in up.ticks:
        y = up(tick)
        if TOP - 1 <= y <= HEIGHT - BOTTOM + 1:
            parts.append(f'<line class="grid" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
            parts.append(f'<text class="tick" x="{LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{label(tick)}</text>')
    for tick in across.ticks:
        x = across(tick)
        if LEFT - 1 <= x <= WIDTH - RIGHT + 1:
            y = HEIGHT - BOTTOM
            parts.append(f'<line class="axis" x1="{x:.1f}" x2="{x:.1f}" y1="{y}" y2="{y + 4}"/>')
            parts.append(f'<text class="tick" x="{x:.1f}" y="{y + 17}" text-anchor="middle">{label(tick)}</text>')
    bottom, middle = HEIGHT - BOTTOM, (LEFT + WIDTH - RIGHT) / 2
    parts.append(f'<line class="axis" x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{bottom}" y2="{bottom}"/>')
    parts.append(f'<text x="{middle:.0f}" y="{HEIGHT - 8}" text-anchor="middle">{escape(plot.x)}</text>')
    half = (TOP + bottom) / 2
    turned = f'transform="rotate(-90 14 {half:.0f})"'
    parts.append(f'<text x="14" y="{half:.0f}" text-anchor="middle" {turned}>{escape(plot.y)}</text>')
    return "".join(parts)


def _drawn(style: Style, points: Sequence[Point], across: _Axis, up: _Axis, number: int, of: int) -> str:
    colour = f"var(--c{number % COLOURS})"
    if style == "bars":
        return _bars(points, across, up, colour, number, of)
    placed = [(across(x), up(y)) for x, y in points]
    if style == "points":
        return "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.5" fill="{colour}"/>' for x, y in placed)
    if style == "steps":
        placed = [corner for (x, y), (following, _) in zip(placed, [*placed[1:], placed[-1]], strict=True)
                  for corner in ((x, y), (following, y))]  # fmt: skip
    line = " ".join(f"{x:.1f},{y:.1f}" for x, y in placed)
    dots = "".join(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="2.5" fill="{colour}"/>' for x, y in placed)
    return f'<polyline points="{line}" stroke="{colour}"/>{dots if len(placed) <= 40 else ""}'


def _bars(points: Sequence[Point], across: _Axis, up: _Axis, colour: str, number: int, of: int) -> str:
    places = sorted(across(x) for x, _ in points)
    gaps = [after - before for before, after in pairwise(places)]
    room = min([*gaps, 60.0]) * 0.8
    width, base = max(1.0, room / of), HEIGHT - BOTTOM
    parts = []
    for x, y in points:
        left = across(x) - room / 2 + number * width
        top = up(y)
        parts.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{base - top:.1f}" fill="{colour}"/>'
        )
    return "".join(parts)


def _legend(names: Sequence[str], drawn: Sequence[Point]) -> str:
    """At the top, on the right, or on the left where it hides less of what is `drawn`."""
    if len(names) < 2:
        return ""
    wide = LEGEND_LETTER * max(len(_short(name)) for name in names) + 30
    bottom = TOP - 2 + 16 * len(names)
    high = [x for x, y in drawn if y < bottom]
    is_left = sum(x < LEFT + wide for x in high) < sum(x > WIDTH - RIGHT - wide for x in high)
    end = LEFT + 4 + wide if is_left else WIDTH - RIGHT
    box = f'x="{end - wide:.0f}" y="{TOP - 6}" width="{wide:.0f}" height="{16 * len(names) + 4}"'
    parts, y = [f'<rect class="legend" {box}/>'], TOP + 6
    for number, name in enumerate(names):
        colour = f"var(--c{number % COLOURS})"
        x = end - 8
        parts.append(f'<rect x="{x:g}" y="{y - 8}" width="10" height="10" fill="{colour}"/>')
        parts.append(f'<text x="{x - 6:g}" y="{y + 1}" text-anchor="end">{escape(_short(name))}</text>')
        y += 16
    return "".join(parts)


def _short(name: str, most: int = 44) -> str:
    return name if len(name) <= most else f"{name[: most - 1]}…"
