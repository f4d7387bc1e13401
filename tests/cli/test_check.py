"""`peerd check`: what a filter is routed by, warnings, and errors with their position."""

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest

from peerd.cli.check import LINE_MAX, pointed_at
from tests.cli.running import COMMAND, ROOT, only_line, peerd, process, refused, shown_on

SCHEMA = """
[attributes.room]
type = "string"
[attributes.degrees]
type = "int"
min = -40
max = 60
"""


def test_a_filter_with_two_boxes() -> None:
    result = peerd("check", "symbol = 'OTE' AND price BETWEEN 8.31 AND 8.69 OR exchange LIKE 'NY%'")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    assert lines[0] == "filter  symbol = 'OTE' AND price BETWEEN 8.31 AND 8.69 OR exchange LIKE 'NY%'"
    assert {line.split(maxsplit=2)[2] for line in lines[1:3]} == {
        '{"symbol": {"eq": "OTE"}, "price": {"ge": 8.31, "le": 8.69}}',
        '{"exchange": {"prefix": "NY"}}',
    }


def test_warnings_are_shown() -> None:
    result = peerd("check", "TRUE")
    assert result.exit_code == 0
    assert "warning  matches everything" in result.stdout


def test_json() -> None:
    result = peerd("check", "price > 30", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = json.loads(result.stdout)
    assert list(found) == ["valid", "filter", "boxes", "exact", "warnings"]
    assert (found["valid"], found["filter"]) == (True, "price > 30")
    assert found["boxes"] == [{"price": {"ge": 20.0}}]
    assert len(found["warnings"]) == 1


def test_a_schema_of_ones_own(tmp_path: Path) -> None:
    file = tmp_path / "rooms.toml"
    file.write_text(SCHEMA)
    result = peerd("check", "room = 'attic' AND degrees > 30", "--schema", str(file), "--json")
    found = json.loads(result.stdout)
    assert found["boxes"] == [{"room": {"eq": "attic"}, "degrees": {"ge": 31}}]
    assert found["exact"] is True
    assert "unknown attribute 'price'" in only_line(peerd("check", "price > 3", "--schema", str(file)).stderr)


# --- Errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("filter_", "position"),
    [
        ("symbol = 'OTE' AND prize > 3", 19),
        ("price > 'dear'", 8),
        ("price >", 7),
        ("price > 3 AND price < 2", 14),
        ("", 0),
    ],
)
def test_an_error_is_one_line(filter_: str, position: int) -> None:
    result = peerd("check", filter_)
    assert result.exit_code == 2
    assert result.stdout == ""
    assert only_line(result.stderr).endswith(f"(at position {position})")


@pytest.mark.parametrize("as_json", [False, True])
def test_a_person_at_a_terminal_sees_a_caret_under_the_position(as_json: bool) -> None:
    terminal, theirs = pty.openpty()
    args = (*COMMAND, "check", "price > 3 AND prize > 3", *(["--json"] if as_json else []))
    done = subprocess.run(args, cwd=ROOT, stdout=subprocess.PIPE, stderr=theirs, timeout=60, check=False)
    os.close(theirs)
    shown = "".join(shown_on(terminal)).splitlines()
    os.close(terminal)
    assert done.returncode == 2
    assert shown[:-1] == ([] if as_json else ["price > 3 AND prize > 3", " " * 14 + "^"])
    assert shown[-1].startswith("peerd: unknown attribute 'prize'")


def test_an_error_as_json() -> None:
    result = peerd("check", "symbol = 'OTE' AND prize > 3", "--json")
    assert result.exit_code == 2
    found = json.loads(result.stdout)
    assert list(found) == ["valid", "filter", "detail", "position"]
    assert (found["valid"], found["position"]) == (False, 19)
    assert found["detail"].startswith("unknown attribute 'prize'")
    only_line(result.stderr)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("attributes = ", "not TOML: Invalid value"),
        ("", "a schema needs [attributes.NAME] tables"),
        ("[attributes.a]\ntype = 'colour'", "attribute 'a': type 'colour' is none of int, float, string, bool"),
        ("[attributes.a]\ntype = 'int'", "attribute 'a': min is missing"),
        ("[attributes.a]\ntype = 'int'\nmin = 'x'\nmax = 3", "attribute 'a': min must be an integer"),
    ],
)
def test_a_wrong_schema_is_one_line(tmp_path: Path, text: str, says: str) -> None:
    file = tmp_path / "schema.toml"
    file.write_text(text)
    assert refused("check", "a = 1", "--schema", str(file)).startswith(f"{file}: {says}")


def test_a_schema_that_cannot_be_read_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "schema.toml"
    assert refused("check", "a = 1", "--schema", str(file)) == f"{file}: no such file or directory"
    file.write_bytes(b"\xff")
    assert refused("check", "a = 1", "--schema", str(file)) == f"{file}: not UTF-8 text"


def test_bytes_that_are_no_text_do_no_harm() -> None:
    broken = "symbol = '\udcff'"  # how Python hands over an argument that is not UTF-8
    done = process("check", broken)
    assert done.returncode == 2
    only_line(done.stderr)
    assert process("check", broken, "--json").returncode == 2


@pytest.mark.parametrize(
    ("text", "position", "lines"),
    [
        ("abc", 1, ("abc", " ^")),
        ("abc", 3, ("abc", "   ^")),
        ("a\n\tb", 3, ("a  b", "   ^")),
        ("'日本' x", 5, ("'日本' x", "       ^")),
        ("x" * 200, 0, ("x" * LINE_MAX + "…", "^")),
        ("a" * 100 + "b" + "c" * 99, 100, ("…" + "a" * 66 + "b" + "c" * 9 + "…", " " * 67 + "^")),
        ("a" * 199 + "b", 199, ("…" + "a" * 66 + "b", " " * 67 + "^")),
    ],
)
def test_the_caret_stands_under_the_position(text: str, position: int, lines: tuple[str, str]) -> None:
    assert pointed_at(text, position) == lines
