"""`docs/command-line.md` says what is true: its tables are those of the settings, and it leaves out no command."""

import re

from peerd.cli import COMMANDS
from peerd.cli.manual import page
from peerd.config import OPTIONS
from tests.cli.running import ROOT

PAGE = ROOT / "docs" / "command-line.md"


def test_the_tables_are_up_to_date() -> None:
    text = PAGE.read_text()
    assert text == page(text), "run: python -m peerd.cli.manual docs/command-line.md"
    for option in OPTIONS:
        assert f"| `{option.flag or option.key}" in text


def test_every_command_is_there() -> None:
    text = PAGE.read_text()
    for names in COMMANDS.values():
        for name in names:
            assert re.search(rf"peerd {name}\b", text), name
