"""Ways to run the command line: in this process, which is quick, and as users do."""

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from click.testing import CliRunner, Result

from peerd.cli import main

ROOT: Final = Path(__file__).parents[2]
COMMAND: Final = (sys.executable, "-m", "peerd.cli")


def peerd(*args: str) -> Result:
    """Run a command in this process. Exceptions that would end in a traceback are raised."""
    result = CliRunner().invoke(main, args)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def refused(*args: str, code: int = 2) -> str:
    """The one line with which a command is refused."""
    result = peerd(*args)
    assert result.exit_code == code, result.output
    return only_line(result.stderr)


def only_line(stderr: str) -> str:
    assert stderr.endswith("\n")
    assert stderr.count("\n") == 1, stderr
    assert stderr.startswith("peerd: ")
    return stderr.removeprefix("peerd: ").rstrip("\n")


def process(*args: str, **environment: str) -> "subprocess.CompletedProcess[str]":
    """Run a command in a process of its own."""
    env = {**os.environ, **environment}
    return subprocess.run((*COMMAND, *args), cwd=ROOT, env=env, capture_output=True, text=True, timeout=60, check=False)


def shown_on(terminal: int) -> Iterator[str]:
    """What a process writes to a terminal of ours, piece by piece, until it ends."""
    try:
        while piece := os.read(terminal, 4096):
            yield piece.decode(errors="replace")
    except OSError:  # how a terminal says that its other side is closed
        return
