"""What `peerd testbed demo` shows while it runs: a table that moves on a terminal, a line now and then elsewhere."""

import asyncio
import sys
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

import click

if TYPE_CHECKING:
    from rich.console import RenderableType

    from peerd.testbed.run import Run, Snapshot, TestbedSummary

REFRESH_S: Final = 1.0
LINE_EVERY_S: Final = 5.0
FILTER_WIDTH: Final = 48


async def show_live(run: "Run") -> "TestbedSummary":
    """Run it, and show how it goes."""
    showing = asyncio.create_task(_on_terminal(run) if sys.stdout.isatty() else _in_lines(run))
    try:
        return await run.run()
    finally:
        showing.cancel()
        with suppress(asyncio.CancelledError):
            await showing


async def _in_lines(run: "Run") -> None:
    while True:
        await asyncio.sleep(LINE_EVERY_S)
        now = run.snapshot()
        latest = f"; latest: {_event(now.latest[-1].attributes)}" if now.latest else ""
        click.echo(f"{now.seconds:4.0f} s  {_totals(now)}{latest}")


def _totals(now: "Snapshot") -> str:
    return (
        f"{now.phase}: {now.peers} peers, {now.published:,} events published, "
        f"{now.delivered:,} of {now.expected:,} deliveries made"
    )


async def _on_terminal(run: "Run") -> None:
    from rich.live import Live

    with Live(_picture(run.snapshot()), auto_refresh=False, transient=True) as live:
        while True:
            await asyncio.sleep(REFRESH_S)
            live.update(_picture(run.snapshot()), refresh=True)


def _picture(now: "Snapshot") -> "RenderableType":
    from rich import box
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    latest = Table("event", "wanted", "by", "hops", "ms", box=box.SIMPLE_HEAD)
    for each in now.latest:
        wanted = each.filter if len(each.filter) <= FILTER_WIDTH else each.filter[: FILTER_WIDTH - 1] + "…"
        cells = (_event(each.attributes), wanted, each.peer, str(each.hops), f"{each.latency_ms:.1f}")
        latest.add_row(*map(Text, cells))
    spread = f"hops p50 {now.hops.p50:g}, max {now.hops.max:g}; latency p50 {now.latency_ms.p50:.1f} ms"
    return Group(Text(f"{now.seconds:.0f} s  {_totals(now)}"), Text(spread), latest)


def _event(attributes: dict[str, Any]) -> str:
    return " ".join(f"{name}={value}" for name, value in attributes.items())


def table(summary: "TestbedSummary") -> list[tuple[str, str]]:
    """The table that the demo ends with."""
    hops, latency = summary.hops, summary.latency_ms
    return [
        ("overlay", summary.overlay),
        ("peers", f"{summary.peers:,}"),
        ("published", f"{summary.events:,}"),
        ("expected", f"{summary.expected:,}"),
        ("delivered", f"{summary.delivered:,}"),
        ("false negatives", f"{summary.false_negatives:,}"),
        ("routing false positives", f"{summary.fp_ratio:.1%}"),
        ("hops p50/max", f"{hops.p50:g}/{hops.max:g}"),
        ("latency p50/p99", f"{latency.p50:.1f}/{latency.p99:.1f} ms"),
    ]
