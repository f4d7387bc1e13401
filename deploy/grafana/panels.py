"""Panels, rows and dashboards as plain values, and their form in Grafana's dashboard JSON.

Only what the four dashboards need of Grafana's model is here. Every panel has a description and a unit: both are
required arguments. Panels get their numbers and places from their order, so that a change moves nothing but itself.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeAlias

SOURCE: Final = {"type": "prometheus", "uid": "peerd-prometheus"}
SCHEMA_VERSION: Final = 39
"""Of Grafana 11. Later ones migrate it."""
WIDTH: Final = 24
"""Columns of Grafana's grid."""

Kind: TypeAlias = Literal["timeseries", "stat", "table"]


class Query(NamedTuple):
    """An expression and what its lines are called: `{{label}}` stands for a label's value."""

    expr: str
    legend: str = ""


class Panel(NamedTuple):
    title: str
    description: str
    unit: str
    queries: tuple[Query, ...]
    kind: Kind = "timeseries"
    width: int = 8
    height: int = 8
    stacked: bool = False
    maximum: float | None = None
    """The axis ends there; None: where the data does."""
    thresholds: tuple[tuple[float, str], ...] = ()
    """From which value on which colour; the base is green."""


class Row(NamedTuple):
    title: str
    panels: tuple[Panel, ...]
    overlay: str = ""
    """The overlay that has these figures; they are empty with any other. A row of one is folded."""


class Variable(NamedTuple):
    """A choice at the top of a dashboard, of the values of a label."""

    name: str
    label: str
    query: str


class Dashboard(NamedTuple):
    uid: str
    title: str
    description: str
    rows: tuple[Row, ...]
    variables: tuple[Variable, ...] = ()


# --- Grafana's form ---------------------------------------------------------------------------------------------------


def document(board: Dashboard) -> dict[str, Any]:
    """The dashboard as Grafana reads it."""
    return {
        "uid": board.uid,
        "title": board.title,
        "description": board.description,
        "tags": ["peerd"],
        "editable": False,
        "graphTooltip": 1,
        "schemaVersion": SCHEMA_VERSION,
        "refresh": "10s",
        "time": {"from": "now-30m", "to": "now"},
        "timezone": "browser",
        "links": [_link_to_the_others()],
        "templating": {"list": [_variable(each) for each in board.variables]},
        "annotations": {"list": [_faults()]},
        "panels": list(_panels(board.rows)),
    }


def _link_to_the_others() -> dict[str, Any]:
    return {
        "title": "peerd",
        "type": "dashboards",
        "tags": ["peerd"],
        "asDropdown": False,
        "keepTime": True,
        "includeVars": False,
        "targetBlank": False,
        "icon": "external link",
        "tooltip": "",
        "url": "",
    }


def _faults() -> dict[str, Any]:
    """Vertical lines where something was done to peers."""
    return {
        "name": "Faults",
        "datasource": SOURCE,
        "enable": True,
        "iconColor": "red",
        "expr": "sum by (fault) (increase(peerd_workload_faults_total[30s])) > 0",
    }


def _variable(variable: Variable) -> dict[str, Any]:
    return {
        "name": variable.name,
        "label": variable.label,
        "type": "query",
        "datasource": SOURCE,
        "query": variable.query,
        "refresh": 2,
        "sort": 1,
        "multi": False,
        "includeAll": False,
    }


def _panels(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Rows from above to below, panels from left to right; the next line begins where the last one has no room."""
    number, y = 0, 0
    for row in rows:
        number += 1
        inside: list[dict[str, Any]] = []
        head = {
            "id": number,
            "type": "row",
            "title": row.title,
            "collapsed": bool(row.overlay),
            "gridPos": {"h": 1, "w": WIDTH, "x": 0, "y": y},
            "panels": inside if row.overlay else [],
        }
        y += 1
        x = height = 0
        for panel in row.panels:
            if x + panel.width > WIDTH:
                x, y, height = 0, y + height, 0
            number += 1
            inside.append(_panel(panel, number, x, y))
            x, height = x + panel.width, max(height, panel.height)
        y += height
        yield head
        if not row.overlay:
            yield from inside


def _panel(panel: Panel, number: int, x: int, y: int) -> dict[str, Any]:
    instant = panel.kind != "timeseries"
    return {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": SOURCE,
        "gridPos": {"h": panel.height, "w": panel.width, "x": x, "y": y},
        "targets": [
            {
                "refId": chr(ord("A") + place),
                "datasource": SOURCE,
                "expr": query.expr,
                "legendFormat": query.legend,
                "instant": instant,
                "range": not instant,
                **({"format": "table"} if panel.kind == "table" else {}),
            }
            for place, query in enumerate(panel.queries)
        ],
        "fieldConfig": {"defaults": _defaults(panel), "overrides": []},
        "options": _options(panel.kind),
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    steps = [{"value": None, "color": "green"}, *({"value": value, "color": to} for value, to in panel.thresholds)]
    defaults: dict[str, Any] = {"unit": panel.unit, "min": 0, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.maximum is not None:
        defaults["max"] = panel.maximum
    if panel.kind == "timeseries":
        defaults["custom"] = {
            "drawStyle": "line",
            "lineWidth": 1,
            "fillOpacity": 30 if panel.stacked else 8,
            "showPoints": "never",
            "stacking": {"mode": "normal" if panel.stacked else "none", "group": "A"},
        }
    return defaults


def _options(kind: Kind) -> dict[str, Any]:
    if kind == "timeseries":
        return {
            "legend": {"displayMode": "list", "placement": "bottom", "showLegend": True, "calcs": []},
            "tooltip": {"mode": "multi", "sort": "desc"},
        }
    if kind == "stat":
        return {
            "colorMode": "value",
            "graphMode": "area",
            "justifyMode": "auto",
            "orientation": "auto",
            "textMode": "auto",
            "wideLayout": True,
            "showPercentChange": False,
            "percentChangeColorMode": "standard",
            "reduceOptions": {"calcs": ["lastNotNull"], "fields": "", "values": False},
        }
    return {"frameIndex": 0, "showHeader": True, "showTypeIcons": False, "cellHeight": "sm"}
