"""Pictures of a dashboard's data: what Prometheus answers is what is drawn."""

from xml.etree import ElementTree

import pytest

from deploy.grafana.boards import BOARDS
from deploy.grafana.panels import Panel, Query
from deploy.grafana.pictures import Line, picture, short

PANEL = Panel("Peers <up>", "Peers.", "none", (Query("up", "{{job}}"),))


def drawn(*lines: Line) -> ElementTree.Element:
    return ElementTree.fromstring(picture("Swarm", [(PANEL, list(lines))], 0.0, 60.0))


def test_a_line_goes_through_its_points() -> None:
    root = drawn(Line("peers", [(0.0, 0.0), (30.0, 10.0), (60.0, 5.0)]))
    (line,) = root.iter("{http://www.w3.org/2000/svg}polyline")
    points = [tuple(map(float, point.split(","))) for point in line.attrib["points"].split()]
    (x0, y0), (x1, y1), (x2, y2) = points
    assert x0 < x1 < x2
    assert y1 < y2 < y0  # the origin of a picture is above
    assert "peers 5" in "".join(root.itertext())


def test_a_panel_without_data_is_drawn_empty() -> None:
    root = drawn()
    assert list(root.iter("{http://www.w3.org/2000/svg}polyline")) == []
    assert "Peers <up>" in "".join(root.itertext())


@pytest.mark.parametrize(
    ("value", "text"), [(0.0, "0"), (0.0125, "0.0125"), (1500, "1.5k"), (2e6, "2M"), (3.2e9, "3.2G")]
)
def test_numbers_are_short(value: float, text: str) -> None:
    assert short(value) == text


def test_every_unit_of_the_dashboards_is_known() -> None:
    from deploy.grafana.pictures import UNITS

    assert {panel.unit for board in BOARDS for row in board.rows for panel in row.panels} <= set(UNITS)
