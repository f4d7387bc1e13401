"""The tables of settings in `docs/command-line.md`, made from the settings themselves.

`python -m peerd.cli.manual docs/command-line.md` brings them up to date there; a test says when that is due.
"""

import re
import sys
from pathlib import Path
from typing import Final

from peerd.config import OPTIONS
from peerd.options import Option

TABLES: Final = re.compile(r"(<!-- settings: (?P<which>\w+) -->\n).*?(<!-- end of settings -->)", re.DOTALL)


def page(text: str) -> str:
    """The page with its tables as they should be."""
    return TABLES.sub(lambda found: found[1] + _table(found["which"]) + found[3], text)


def _table(which: str) -> str:
    return _flags() if which == "flags" else _others()


def _flags() -> str:
    rows = [
        f"| `{option.flag}{_metavar(option)}` | `{option.variable}` | {_default(option)} | {_cell(option.what)} |"
        for option in OPTIONS
        if option.flag
    ]
    return "\n".join(["| flag | variable | default | what it is |", "|---|---|---|---|", *rows]) + "\n"


def _others() -> str:
    rows = [
        f"| `{option.key}` | {_default(option)} | {_cell(option.expected)} | {_cell(option.what)} |"
        for option in OPTIONS
        if not option.flag
    ]
    return "\n".join(["| key | default | expected | what it is |", "|---|---|---|---|", *rows]) + "\n"


def _metavar(option: Option) -> str:
    return f" {_cell(option.metavar)}" if option.form != "bool" else ""


def _default(option: Option) -> str:
    if option.form == "bool":
        return "yes" if option.default else "no"
    return "" if option.default is None or option.default in ((), "") else f"`{option.default}`"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(page(file.read_text()))
