"""The page: figures first, then plots, then tables. One file, no network, readable on paper and in the dark."""

import json
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from re import sub
from typing import Any, Final, Protocol

from analytics import plots
from analytics.plots import Plot, Point, svg

RUNS_DRAWN: Final = plots.COLOURS
BESIDE: Final = {1: 6, 2: 2}
"""Plots that have room beside the figures, by how many runs these are about."""
PEERS: Final = frozenset({"peer", "publisher", "sender", "receiver", "about"})
"""Columns with ids of peers, of which the beginning is enough for people; the files have all of it."""

STYLE: Final = (
    """
:root{--ink:#1c2430;--dim:#677385;--grid:#e3e8ef;--paper:#fff;--card:#f6f8fb;--bad:#b42318;--good:#1a7f4b;--warn:#8a5a00;
--c0:#2563a8;--c1:#d9772b;--c2:#3a9150;--c3:#9b4fb5;--c4:#c2373f;--c5:#20a0a8;--c6:#8a8d2e;--c7:#6b7280}
@media (prefers-color-scheme:dark){:root{--ink:#e6eaf0;--dim:#9aa6b6;--grid:#2c3440;--paper:#12161c;--card:#1b2129;
--bad:#ff8a80;--good:#7ad19b;--warn:#ffc766;--c0:#6aa9f0;--c1:#f0a060;--c2:#74c98a;--c3:#cf94e0}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:1320px;
margin:2rem auto;padding:0 1.5rem}
h1{font-size:1.6rem;margin-bottom:.2rem} h2{font-size:1.15rem;margin:2rem 0 .2rem} .dim{color:var(--dim)}
.tables{display:flex;flex-wrap:wrap;gap:0 3.5rem;align-items:flex-start} section{min-width:0;max-width:100%}
section p{margin:.2rem 0 .5rem;max-width:40rem} h2:target{color:var(--c0)}
nav{columns:5 170px;font-size:.85rem;background:var(--card);padding:.8rem 1rem;border-radius:8px} nav a{display:block}
a{color:var(--c0);text-decoration:none} a:hover{text-decoration:underline}
.plots{display:grid;grid-template-columns:repeat(auto-fill,minmax(400px,1fr));gap:1rem;margin:1rem 0}
.plots>*{background:var(--card);border-radius:8px;padding:.6rem;box-sizing:border-box;max-width:100%}
.top{display:grid;grid-template-columns:minmax(0,auto) minmax(0,1fr);gap:1.5rem;align-items:start} .top .plots{margin:0}
.top .scroll{max-height:none} @media (max-width:1000px){.top{display:block}}
.scroll{overflow:auto;max-height:27rem}
table{border-collapse:collapse;font-size:.86rem;font-variant-numeric:tabular-nums}
th,td{padding:.25rem .7rem;border-bottom:1px solid var(--grid);white-space:nowrap;text-align:left}
th{position:sticky;top:0;background:var(--paper);font-weight:600} ul.told{padding-left:1.2rem;margin:.4rem 0}
td.n,th.n{text-align:right} td.na{color:var(--dim)} tr:hover td{background:var(--card)}
.bad{color:var(--bad);font-weight:600} .good{color:var(--good)}
ul.warnings{background:var(--card);border-left:4px solid var(--warn);padding:.6rem .6rem .6rem 2rem;border-radius:4px}
td.long{max-width:26rem;overflow:hidden;text-overflow:ellipsis}
@media print{nav{display:none} body{max-width:none} .scroll{max-height:none} .top{display:block}}
"""
    + plots.STYLE
)

FIGURES: Final = (
    ("overlay", "overlay"), ("lives", "peers in all"), ("peers", "peers at the end"),
    ("subscriptions", "subscriptions"), ("events", "events published"),
    ("expected", "deliveries expected"), ("delivered", "deliveries made"), ("false_negatives", "false negatives"),
    ("at_risk", "at risk"), ("at_risk_missing", "at risk, missing"), ("spurious", "spurious"),
    ("duplicates", "duplicates"), ("fp_ratio", "routing false positives"), ("touched_ratio", "touched"),
    ("hops_mean", "hops, mean"), ("hops_p50", "hops, p50"), ("hops_p99", "hops, p99"), ("hops_max", "hops, max"),
    ("latency_ms_mean", "latency ms, mean"), ("latency_ms_p50", "latency ms, p50"),
    ("latency_ms_p99", "latency ms, p99"), ("latency_ms_max", "latency ms, max"), ("messages", "messages"),
    ("bytes", "bytes"), ("bytes_per_delivery", "bytes per delivery"), ("converged_s", "converged after s"),
)  # fmt: skip
TIMES: Final = frozenset({"at_us", "ts_us", "arrived_us", "begun_us"})
PEER_SHOWN: Final = 8
RATIOS: Final = frozenset({"fp_ratio", "touched_ratio", "fn_ratio", "noise_ratio", "share", "duplicate_share"})
BAD: Final = frozenset({"false_negatives", "spurious", "duplicates", "fn_ratio", "missing"})
"""Figures that should be nothing."""


class Shown(Protocol):
    """What the page needs of a table."""

    @property
    def name(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def says(self) -> str: ...
    @property
    def columns(self) -> list[str]: ...
    @property
    def rows(self) -> list[dict[str, Any]]: ...
    @property
    def shown(self) -> list[dict[str, Any]]: ...
    @property
    def total(self) -> int: ...
    @property
    def available(self) -> bool: ...


def page(
    made: Mapping[str, Shown], warnings: Sequence[str], logs: str, made_at: str, compared: Sequence[str] | None = None
) -> str:
    """The whole page."""
    runs = [row["run"] for row in made["summary"].rows]
    tables = [table for table in made.values() if table.name != "summary"]
    links = "".join(f'<a href="#{table.name}">{escape(table.title)}</a>' for table in tables)
    noted = "".join(f"<li>{escape(text)}</li>" for text in warnings)
    title = " and ".join(runs) if len(runs) <= 2 else f"{len(runs)} runs"
    pictures = [svg(plot) for plot in drawn(made)]
    beside = BESIDE.get(len(runs), 0)
    parts = [
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}: peerd report</title>",
        f'<meta name=viewport content="width=device-width"><style>{STYLE}</style>',
        f"<h1>{escape(title)}</h1><p class=dim>from {escape(logs)}, {escape(made_at)}; every table is in",
        "<code>tables/</code> as CSV and Parquet</p>",
        f"<ul class=told>{''.join(f'<li>{told(row)}</li>' for row in made['summary'].rows)}</ul>",
        f"<ul class=warnings>{noted}</ul>" if noted else "",
        f'<h2 id="summary">Figures</h2><div class=top>{figures(made["summary"].rows, compared)}',
        f"<div class=plots>{''.join(pictures[:beside])}</div></div><div class=plots>{''.join(pictures[beside:])}</div>",
        f"<nav>{links}</nav>",
        f"<div class=tables>{''.join(_section(table, len(runs) == 1) for table in tables)}</div></html>",
    ]
    return "\n".join(parts)


def told(row: Mapping[str, Any]) -> str:
    """What became of a run in one sentence."""
    name = f"<strong>{escape(row['run'])}</strong>"
    if row["expected"] is None:
        return f"{name}: its logs do not say what was owed"
    missing, risk = row["false_negatives"], row["at_risk"]
    came = "and all came" if not missing else f"<span class=bad>{missing:,} never came</span>"
    told = f"{name}: {row['expected']:,} deliveries were owed, {came}"
    if risk:
        told += f"; {risk:,} more were at risk, {row['at_risk_missing']:,} of them are missing"
    return told


# --- Figures ----------------------------------------------------------------------------------------------------------


def figures(rows: Sequence[Mapping[str, Any]], compared: Sequence[str] | None = None) -> str:
    """Runs side by side; of two that are compared, also by how much the second differs."""
    ordered = list(rows)
    if compared:
        ordered.sort(key=lambda row: compared.index(row["run"]))
    heads = "".join(f"<th class=n>{escape(row['run'])}</th>" for row in ordered)
    extra = "<th class=n>change</th>" if compared and len(ordered) == 2 else ""
    lines = []
    for name, title in FIGURES:
        cells = "".join(_cell(name, row.get(name)).replace("<td>", "<td class=n>") for row in ordered)
        change = _change(*[row.get(name) for row in ordered]) if extra else ""
        lines.append(f"<tr><td>{title}</td>{cells}{change}</tr>")
    return f"<div class=scroll><table><tr><th></th>{heads}{extra}</tr>{''.join(lines)}</table></div>"


def _change(before: Any, after: Any) -> str:
    numbers = isinstance(before, int | float) and isinstance(after, int | float)
    if not numbers or before == after:
        return "<td class=n></td>"
    return f"<td class=n>{after / before - 1:+.1%}</td>" if before else "<td class=n>from 0</td>"


# --- Plots ------------------------------------------------------------------------------------------------------------


def drawn(made: Mapping[str, Shown]) -> list[Plot]:
    """The plots that the tables have something for."""
    hops = _series(made, "hops_distribution", "hops", "deliveries")
    latency = _series(made, "latency_distribution", "upto_ms", "deliveries")
    events = _timeline(made, "published", "delivered", "missing")
    load = _ranked(made, "load_by_peer", "load")
    noise = _series(made, "noise_distribution", "noise_ratio", "share")
    degree = _series(made, "degree_distribution", "degree", "peers")
    converged = _series(made, "convergence", "at_s", "converged_s")
    plots = [
        Plot("Deliveries by hops", "hops", "deliveries", hops, "bars"),
        Plot("Deliveries by latency", "milliseconds", "deliveries", latency, log_x=True),
        Plot("Published and delivered", "second", "events", events, "steps"),
        Plot("Bytes sent", "second in which peers told it", "bytes", _timeline(made, "sent_bytes"), "steps"),
        Plot("Load of peers, busiest first", "peer", "copies received", load),
        Plot("Noise", "unwanted events, share of all", "share of peers", noise),
        Plot("Peers by neighbours", "degree", "peers", degree, "bars"),
        Plot("Who came and went", "second", "peers", _churn(made), "bars"),
        Plot("Convergence after faults", "second of the fault", "seconds", converged, "points"),
    ]
    return [plot for plot in plots if any(plot.series.values())]


def _series(made: Mapping[str, Shown], table: str, x: str, y: str) -> dict[str, list[Point]]:
    return _grouped(made, table, lambda row: (row[x], row[y]))


def _grouped(
    made: Mapping[str, Shown], table: str, point: Callable[[dict[str, Any]], tuple[Any, Any]]
) -> dict[str, list[Point]]:
    found: dict[str, list[Point]] = {}
    for row in made[table].rows:
        x, y = point(row)
        if x is not None and y is not None:
            found.setdefault(row["run"], []).append((float(x), float(y)))
    return dict(sorted(found.items())[:RUNS_DRAWN])


def _timeline(made: Mapping[str, Shown], *columns: str) -> dict[str, list[Point]]:
    several = len({row["run"] for row in made["timeline"].rows}) > 1
    found: dict[str, list[Point]] = {}
    for column in columns:
        for run, points in _series(made, "timeline", "second", column).items():
            parts = [*([run] if several else []), *([column] if len(columns) > 1 or not several else [])]
            if any(y for _, y in points):
                found[": ".join(parts)] = points
    return dict(list(found.items())[:RUNS_DRAWN])


def _ranked(made: Mapping[str, Shown], table: str, column: str) -> dict[str, list[Point]]:
    by_run: dict[str, list[float]] = {}
    for row in made[table].rows:
        by_run.setdefault(row["run"], []).append(float(row[column]))
    ranked = {run: sorted(values, reverse=True) for run, values in sorted(by_run.items())[:RUNS_DRAWN]}
    return {run: [(float(rank), value) for rank, value in enumerate(values, 1)] for run, values in ranked.items()}


def _churn(made: Mapping[str, Shown]) -> dict[str, list[Point]]:
    rows = made["churn_by_second"].rows
    if not any(row["went"] for row in rows):
        return {}
    return {what: [(float(row["second"]), float(row[what])) for row in rows if row[what]] for what in ("came", "went")}


# --- Tables -----------------------------------------------------------------------------------------------------------


def _section(table: Shown, is_alone: bool) -> str:
    """A table with its heading; on a page about one run its name is not said again in every row."""
    columns = [name for name in table.columns if name != "run" or not is_alone]
    says = sub("`(.+?)`", r"<code>\1</code>", escape(table.says))
    head = f'<section><h2 id="{table.name}">{escape(table.title)}</h2><p class=dim>{says}'
    if not table.available:
        head += " <strong>n/a for runs whose logs do not hold it.</strong>"
    if not table.total:
        return f"{head} None.</p></section>"
    more = f" {len(table.shown):,} of {table.total:,} rows." if table.total > len(table.shown) else ""
    return f"{head}{more}</p>{_table(columns, table.shown)}</section>"


def _table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    numeric = {name for name in columns if any(_is_number(row[name]) for row in rows)}
    heads = "".join(f"<th{' class=n' if name in numeric else ''}>{escape(_head(name))}</th>" for name in columns)
    lines = "".join(f"<tr>{''.join(_cell(name, row[name]) for name in columns)}</tr>" for row in rows)
    return f"<div class=scroll><table><tr>{heads}</tr>{lines}</table></div>"


def _head(name: str) -> str:
    return name.removesuffix("_us" if name in TIMES else "").replace("_", " ")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _cell(name: str, value: Any) -> str:
    if value is None:
        return '<td class="n na">n/a</td>'
    if _is_number(value):
        bad = " bad" if name in BAD and value else ""
        return f'<td class="n{bad}">{number(name, value)}</td>'
    text = value if isinstance(value, str) else json.dumps(value, default=str)
    if name in PEERS and len(text) > PEER_SHOWN:
        return f'<td title="{escape(text, quote=True)}">{escape(text[:PEER_SHOWN])}</td>'
    long = f' class=long title="{escape(text, quote=True)}"' if len(text) > 40 else ""
    return f"<td{long}>{escape(text)}</td>"


def number(name: str, value: float) -> str:
    """A figure as people read it."""
    if name in RATIOS:
        return f"{value:.3%}"
    if name in TIMES:
        return datetime.fromtimestamp(value / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]
    if name == "boot":
        return str(value)
    return f"{value:,}" if isinstance(value, int) else f"{value:,.3f}".rstrip("0").rstrip(".")
