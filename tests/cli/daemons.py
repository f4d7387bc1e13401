"""Real peers in processes of their own: on free ports, watched through what they print, gone when the test is over."""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from tests.cli.running import COMMAND, ROOT

PATIENCE_S: Final = 30.0
"""Far more than anything here takes, also on a machine that is busy with other tests."""

UP: Final = re.compile(
    r"peerd (?P<id>\w+) is up: (?P<overlay>\S+) on (?P<listen>\S+), (?P<url>\S+), swarm (?P<swarm>.+)"
)


def until(condition: Callable[[], object], what: str, seconds: float = PATIENCE_S) -> None:
    """Wait until the condition holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, f"waited {seconds} s for {what}"
        time.sleep(0.01)


def environment(**variables: str) -> dict[str, str]:
    """This process' environment without settings that somebody may have made in it."""
    return {key: value for key, value in os.environ.items() if not key.startswith("PEERD_")} | variables


class Command:
    """A command that runs, with what it has printed so far."""

    def __init__(self, place: Path, *args: str, stdin: str = "", in_background: bool = False, **variables: str) -> None:
        """`in_background`: as a script starts what it does not wait for, deaf to Ctrl-C."""
        place.mkdir(parents=True)
        self._out, self._err = place / "out", place / "err"
        (place / "in").write_text(stdin)
        with (place / "in").open("rb") as given, self._out.open("wb") as out, self._err.open("wb") as err:
            command, env = (*COMMAND, *args), environment(**variables)
            before = signal.signal(signal.SIGINT, signal.SIG_IGN if in_background else signal.SIG_DFL)
            self.process = subprocess.Popen(command, cwd=ROOT, env=env, stdin=given, stdout=out, stderr=err)
            signal.signal(signal.SIGINT, before)

    @property
    def stdout(self) -> str:
        return self._out.read_text()

    @property
    def stderr(self) -> str:
        return self._err.read_text()

    def until_says(self, text: str) -> None:
        """Wait until it has printed this, on standard output or standard error."""
        until(lambda: text in self.stdout + self.stderr or self._ended(), f"{text!r}")
        assert text in self.stdout + self.stderr, f"it ended:\n{self.stdout}{self.stderr}"

    def _ended(self) -> bool:
        return self.process.poll() is not None

    def signal(self, number: signal.Signals) -> None:
        self.process.send_signal(number)

    def wait(self) -> int:
        """Its exit code."""
        return self.process.wait(PATIENCE_S)

    def end(self) -> None:
        """Whatever has become of it, let nothing remain."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait(PATIENCE_S)


class Daemon(Command):
    """`peerd`, on free ports unless told otherwise."""

    def __init__(self, place: Path, *args: str, **variables: str) -> None:
        given = " ".join(args)
        ports = [part for flag in ("--listen", "--http") if flag not in given for part in (flag, "127.0.0.1:0")]
        super().__init__(place, *ports, *args, in_background=False, **variables)

    def up(self) -> "Daemon":
        """Wait until it says that it is up; from then on it has `listen` and `url`."""
        self.until_says(" is up: ")
        (line,) = self.stdout.splitlines()
        found = UP.fullmatch(line)
        assert found is not None, line
        self.listen, self.url, self.swarm = found["listen"], found["url"], found["swarm"]
        return self

    def stop(self) -> int:
        self.signal(signal.SIGTERM)
        return self.wait()
