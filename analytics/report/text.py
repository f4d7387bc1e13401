"""The figures of runs as plain text, side by side."""

from collections.abc import Mapping, Sequence
from typing import Any

from analytics.report.page import FIGURES, number


def figures(rows: Sequence[Mapping[str, Any]], compared: Sequence[str] | None = None) -> str:
    """One line for each figure, one column for each run."""
    ordered = list(rows)
    if compared:
        ordered.sort(key=lambda row: [row["run"], row["overlay"]].count(compared[1]))
    table = [["", *[row["run"] for row in ordered]]]
    table += [[title, *[_text(name, row.get(name)) for row in ordered]] for name, title in FIGURES]
    return aligned(table)


def aligned(table: Sequence[Sequence[str]]) -> str:
    """Columns as wide as they need; all but the first to the right."""
    widths = [max(len(row[column]) for row in table) for column in range(len(table[0]))]
    lines = []
    for row in table:
        cells = [
            cell.ljust(width) if not at else cell.rjust(width) for at, (cell, width) in enumerate(zip(row, widths))
        ]
        lines.append("  ".join(cells).rstrip())
    return "\n".join(lines)


def _text(name: str, value: Any) -> str:
    if value is None:
        return "n/a"
    return number(name, value) if isinstance(value, int | float) else str(value)
