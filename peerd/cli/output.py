"""What commands print: rich tables on a terminal, the same columns as plain text elsewhere, or JSON."""

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any, Final

import click

PLAIN_WIDTH: Final = 120
"""Columns where there is no terminal to ask."""


def print_json(value: Any) -> None:
    """One line; whatever is not ASCII is escaped, so that any terminal and any pipe takes it."""
    click.echo(json.dumps(value))


def print_table(rows: Iterable[Sequence[str]], heads: Sequence[str] = ()) -> None:
    """Rows in columns. The first column is never broken, all others are where they do not fit."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    rows = list(rows)
    terminal = sys.stdout.isatty()
    width = None if terminal else PLAIN_WIDTH
    console = Console(file=sys.stdout, width=width, markup=False, emoji=False, highlight=False)
    border = box.ROUNDED if terminal else None
    table = Table(show_header=bool(heads), box=border, pad_edge=terminal)
    for number in range(len(heads) or max(map(len, rows), default=0)):
        table.add_column(heads[number] if heads else "", no_wrap=number == 0, overflow="fold")
    for row in rows:
        table.add_row(*row)
    with console.capture() as capture:
        console.print(table)
    for line in capture.get().splitlines():
        click.echo(line.rstrip(), color=terminal)
