"""Pictures of a dashboard's data without Grafana: `python -m deploy.grafana.pictures swarm --minutes 5 > swarm.svg`.

Asks Prometheus for what each panel shows and draws it as one small SVG, panel by panel as on the dashboard: for
documentation, and for machines where Grafana cannot be had. Lines and legends only; nobody needs more to see a shape.
"""

import argparse
import json
import re
import sys
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator, Sequence
from html import escape
from typing import Any, Final, NamedTuple

from deploy.grafana.boards import BOARDS
from deploy.grafana.panels import Panel, Query

COLUMNS: Final = 3
WIDTH, HEIGHT, MARGIN, LEGEND = 300, 110, 34, 14
LINES_MAX: Final = 8
COLOURS: Final = ("#3274d9", "#e02f44", "#56a64b", "#ff9830", "#8f3bb8", "#0097a7", "#7c7c7c", "#b5651d")
POINTS: Final = 60
UNITS: Final = {"s": "s", "bytes": "B", "Bps": "B/s", "ops": "/s", "percentunit": "", "none": ""}


class Line(NamedTuple):
    name: str
    points: list[tuple[float, float]]


def lines(url: str, query: Query, start: float, end: float, peer: str) -> list[Line]:
    """What Prometheus has for a query in that time."""
    words = {"query": query.expr.replace("$peer", peer), "start": start, "end": end, "step": (end - start) / POINTS}
    with urllib.request.urlopen(f"{url}/api/v1/query_range?{urllib.parse.urlencode(words)}", timeout=30) as response:
        found = json.loads(response.read())["data"]["result"]
    return [Line(_name(query, each["metric"]), _points(each["values"])) for each in found]


def _points(values: Sequence[tuple[float, str]]) -> list[tuple[float, float]]:
    return [(at, float(value)) for at, value in values if value not in ("NaN", "+Inf")]


def _name(query: Query, labels: dict[str, str]) -> str:
    name = query.legend
    for label, value in labels.items():
        name = name.replace(f"{{{{{label}}}}}", value)
    return re.sub(r"\{\{\w+\}\}", "", name) or ", ".join(labels.values()) or "nothing"


def short(value: float) -> str:
    """A number as an axis shows it."""
    for limit, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{letter}"
    return f"{value:.3g}"


def picture(title: str, shown: Sequence[tuple[Panel, list[Line]]], start: float, end: float) -> str:
    """The panels side by side, as SVG."""
    box = HEIGHT + MARGIN + LEGEND * (1 + LINES_MAX // 2)
    rows = -(-len(shown) // COLUMNS)
    width, height = COLUMNS * (WIDTH + MARGIN) + MARGIN, rows * box + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif"',
        ' font-size="10">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
        f'<text x="{MARGIN}" y="18" font-size="14">{escape(title)}: {round((end - start) / 60)} minutes</text>',
    ]
    for place, (panel, found) in enumerate(shown):
        x, y = MARGIN + place % COLUMNS * (WIDTH + MARGIN), MARGIN + place // COLUMNS * box
        parts += _drawn(panel, found[:LINES_MAX], x, y, start, end)
    return "\n".join([*parts, "</svg>", ""])


def _drawn(panel: Panel, found: list[Line], x: int, y: int, start: float, end: float) -> Iterator[str]:
    top = max((value for line in found for _, value in line.points), default=0.0) or 1.0
    unit = UNITS.get(panel.unit, panel.unit)
    yield f'<text x="{x}" y="{y + 8}" font-weight="bold">{escape(panel.title)}</text>'
    yield f'<text x="{x + WIDTH}" y="{y + 8}" text-anchor="end" fill="#666">{short(top)} {unit}</text>'
    base = y + 14 + HEIGHT
    yield f'<rect x="{x}" y="{y + 14}" width="{WIDTH}" height="{HEIGHT}" fill="#f7f7f7" stroke="#ddd"/>'
    for number, line in enumerate(found):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(
            f"{x + WIDTH * (at - start) / (end - start):.0f},{base - (HEIGHT - 4) * value / top:.1f}"
            for at, value in line.points
        )
        last = short(line.points[-1][1]) if line.points else "none"
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="1.3"/>'
        at_x, at_y = x + number % 2 * WIDTH // 2, base + 13 + number // 2 * LEGEND
        yield f'<text x="{at_x}" y="{at_y}" fill="{colour}">{escape(line.name[:22])} {last}</text>'


def main() -> None:
    boards: dict[str, Any] = {board.uid.removeprefix("peerd-"): board for board in BOARDS}
    parser = argparse.ArgumentParser(description="Draw a dashboard's data as SVG.")
    parser.add_argument("board", choices=boards)
    parser.add_argument("--url", default="http://127.0.0.1:9090", help="of Prometheus")
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument("--overlay", default="", help="draw this overlay's own row instead of the others")
    parser.add_argument("--peer", default="", help="an instance, for the dashboard of one peer")
    options = parser.parse_args()
    board, end = boards[options.board], time.time()
    start = end - options.minutes * 60
    shown = [
        (panel, [line for query in panel.queries for line in lines(options.url, query, start, end, options.peer)])
        for row in board.rows
        if row.overlay == options.overlay
        for panel in row.panels
        if panel.kind == "timeseries"
    ]
    sys.stdout.write(picture(f"{board.title} {options.overlay}".strip(), shown, start, end))


if __name__ == "__main__":
    main()
