"""`peerd check`: what a filter means to a swarm, before anybody subscribes with it."""

import sys
from typing import TYPE_CHECKING, Final

import click

from peerd.cli.errors import Wrong, users_fault

if TYPE_CHECKING:
    from protocols.model.filter import FilterError
    from protocols.model.lint import CompiledFilter
    from protocols.model.schema import Schema

LINE_MAX: Final = 76
"""Columns of a filter that are shown around an error."""


@click.command(short_help="Parse a filter and show what it is routed by.")
@click.argument("filter_", metavar="FILTER")
@click.option("--schema", "file", metavar="FILE", type=click.Path(), help="The swarm's schema [stock quotes].")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def check(filter_: str, file: str | None, as_json: bool) -> None:
    """Parse a filter; show the boxes that it is routed by, and warnings."""
    from protocols.model.filter import FilterError
    from protocols.model.lint import compile_filter

    schema = _schema(file)
    try:
        compiled = compile_filter(filter_, schema)
    except FilterError as error:
        _show_error(filter_, error, as_json)
        raise Wrong(str(error)) from None
    _show(compiled, schema, as_json)


def _schema(file: str | None) -> "Schema":
    from pathlib import Path

    from protocols.model.schema import STOCKS, Schema

    if file is None:
        return STOCKS
    with users_fault(file):
        return Schema.from_toml(Path(file).read_bytes().decode())


def _show(compiled: "CompiledFilter", schema: "Schema", as_json: bool) -> None:
    import json

    from peerd.cli.output import print_json, print_table

    boxes = compiled.describe_boxes(schema)
    if as_json:
        found = {"valid": True, "filter": compiled.text, "boxes": boxes, "exact": compiled.exact}
        print_json({**found, "warnings": compiled.warnings})
        return
    says = (
        "hold exactly what the filter matches"
        if compiled.exact
        else "may hold more than the filter matches, which decides in the end"
    )
    rows = [("filter", _printable(compiled.text))]
    rows += [(f"box {number}", json.dumps(box, ensure_ascii=False)) for number, box in enumerate(boxes, 1)]
    rows += [("boxes", says), *(("warning", warning) for warning in compiled.warnings)]
    print_table(rows)


def _show_error(filter_: str, error: "FilterError", as_json: bool) -> None:
    from peerd.cli.output import print_json

    if as_json:
        print_json({"valid": False, "filter": filter_, "detail": error.reason, "position": error.position})
    else:
        point(filter_, error.position)


def point(text: str, position: int) -> None:
    """Show a person where the fault is; for a script, what goes wrong is one line, which tells the position as well."""
    if sys.stderr.isatty():
        click.echo("\n".join(pointed_at(text, position)), err=True)


def pointed_at(text: str, position: int) -> tuple[str, str]:
    """The part of the text around a position, and below it a caret under that position."""
    from rich.cells import cell_len

    shown = _printable(text)
    start = max(0, position - LINE_MAX + 10) if len(shown) > LINE_MAX else 0
    before = ("…" if start else "") + shown[start:position]
    after = shown[position : start + LINE_MAX] + ("…" if start + LINE_MAX < len(shown) else "")
    return before + after, " " * cell_len(before) + "^"


def _printable(text: str) -> str:
    """The text in one line, code point by code point."""
    return "".join(letter if letter.isprintable() else " " for letter in text)
