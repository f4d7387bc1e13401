"""`peerd` itself: help, version, completion, one line for every error, and a quick start."""

import os
import pty
import signal
import subprocess
import sys

import pytest

from peerd import __version__, registry
from peerd.cli import COMMANDS
from peerd.cli.errors import Wrong, one_line, users_fault
from peerd.sim import scenario
from peerd.sim.workloads import WORKLOADS
from tests.cli.running import COMMAND, ROOT, only_line, peerd, process, refused, shown_on


def test_version() -> None:
    result = peerd("--version")
    assert (result.exit_code, result.stdout, result.stderr) == (0, f"peerd, version {__version__}\n", "")


def test_help_lists_the_commands() -> None:
    result = peerd("--help")
    assert result.exit_code == 0
    heads = list(COMMANDS)
    for head, after in zip(heads, [*heads[1:], "The swarm"]):
        section = result.stdout.split(f"{head}:\n")[1].split(f"{after}:\n")[0]
        assert [line.split()[0] for line in section.splitlines() if line] == list(COMMANDS[head])


@pytest.mark.parametrize("command", [name for names in COMMANDS.values() for name in names])
def test_every_command_has_help(command: str) -> None:
    result = peerd(command, "--help")
    assert result.exit_code == 0
    assert result.stdout.startswith(f"Usage: peerd {command} ")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("simm",), "No such command 'simm'; see 'peerd --help'"),
        (("--frob",), "No such option '--frob'"),
        (("sim", "--peer", "3"), "--peers"),
        (("sim", "stray"), "unexpected extra argument (stray); see 'peerd sim --help'"),
        (("overlays", "--peers", "3"), "see 'peerd overlays --help'"),
        (("check",), "Missing argument 'FILTER'"),
        *(
            ((group,), f"Missing command; see 'peerd {group} --help'")
            for group in ("schema", "tls", "testbed", "fleet")
        ),
        (("report",), "the following arguments are required: --logs; see 'peerd report --help'"),
        (("explain",), "the following arguments are required: --logs, --event; see 'peerd explain --help'"),
        (("advise", "--logs"), "argument --logs: expected one argument; see 'peerd advise --help'"),
        (("advise", "--logs", ".", "a\nb"), "unrecognized arguments: a b"),
        (("report", "--logs", ".", "--clock-grace", "nan"), "argument --clock-grace: expected a number of at least 0"),
        (("advise", "--logs", ".", "--seconds", "-1"), "argument --seconds: expected a number of at least 0"),
        (("testbed", "run", "--log-dir", "/dev/null/logs"), "--log-dir: /dev/null/logs: not a directory"),
        (("subscribe", "TRUE", "--timeout", "nan"), "Invalid value for '--timeout': 'nan' is not a finite number"),
        (("reproduce", "all", "--scale", "nan"), "Invalid value for '--scale': 'nan' is not a finite number"),
    ],
)
def test_wrong_usage_is_one_line(args: tuple[str, ...], says: str) -> None:
    assert says in refused(*args)


def test_wrong_usage_of_a_real_process() -> None:
    done = process("sim", "--overlay", "nope")
    assert (done.returncode, done.stdout) == (2, "")
    assert "there is no overlay 'nope'" in only_line(done.stderr)


# --- Errors -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ValueError("two\n  lines"), "two lines"),
        (ValueError("bell\a"), "bell?"),
        (ValueError("overlay 'x': Expected `int` >= 1 - at `$.links`"), "overlay 'x': links: expected int >= 1"),
        (FileNotFoundError(2, "No such file or directory", "a.toml"), "a.toml: no such file or directory"),
        (OSError("odd"), "odd"),
        (UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"), "not UTF-8 text"),
    ],
)
def test_one_line(error: Exception, line: str) -> None:
    assert one_line(error) == line


def test_the_place_of_a_fault_is_named_once() -> None:
    with pytest.raises(Wrong, match=r"^a.toml: no such file$"), users_fault("a.toml"):
        raise FileNotFoundError(2, "No such file", "a.toml")
    with pytest.raises(Wrong, match=r"^--out: /x: no such file$"), users_fault("--out"):
        raise FileNotFoundError(2, "No such file", "/x")


def test_a_failure_while_running_is_one_line_and_1(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*args: object) -> None:
        raise OSError(28, "No space left on device", "/logs/000000.jsonl.open")

    monkeypatch.setattr(scenario, "run", full)
    assert refused("sim", code=1) == "/logs/000000.jsonl.open: no space left on device"


def test_a_bug_is_not_taken_for_a_wrong_option(monkeypatch: pytest.MonkeyPatch) -> None:
    def buggy(*args: object) -> None:
        raise ValueError("an invariant is broken")

    monkeypatch.setattr(scenario, "run", buggy)
    with pytest.raises(ValueError, match="an invariant is broken"):
        peerd("sim")


def test_ctrl_c_is_one_line_and_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*args: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(scenario, "run", interrupted)
    assert refused("sim", code=130) == "interrupted"


def test_ctrl_c_ends_a_real_run_with_its_progress_bar() -> None:
    terminal, theirs = pty.openpty()
    command = (*COMMAND, "sim", "--peers", "5000")
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=theirs) as child:
        os.close(theirs)
        seen = ""
        for piece in shown_on(terminal):
            if "join" not in seen and "join" in seen + piece:
                child.send_signal(signal.SIGINT)
            seen += piece
        assert child.stdout is not None
        assert (child.wait(), child.stdout.read()) == (130, b"")
    os.close(terminal)
    assert seen.endswith("peerd: interrupted\r\n")
    assert "Traceback" not in seen


# --- Completion and start ---------------------------------------------------------------------------------------------


def completed(*words: str) -> list[str]:
    """What bash would offer for the last of these words."""
    environment = {
        "_PEERD_COMPLETE": "bash_complete",
        "COMP_WORDS": " ".join(("peerd", *words)),
        "COMP_CWORD": str(len(words)),
    }
    done = process(**environment)
    assert (done.returncode, done.stderr) == (0, "")
    return [line.split(",", 1)[1] for line in done.stdout.splitlines()]


def test_shells_complete_commands_and_names() -> None:
    assert completed("ov") == ["overlays"]
    assert completed("sim", "--overlay", "") == list(registry.NAMES)
    zipf = [name for name in WORKLOADS if name.startswith("zipf")]
    assert completed("sim", "--workload", "zipf") == zipf
    assert len(zipf) > 1
    assert completed("sim", "--link", "d") == ["datagram"]
    assert completed("--overlay", "") == list(registry.NAMES)
    assert completed("--log-detail", "s") == ["summary"]
    assert completed("--data") == ["--data-dir"]
    assert completed("schema", "a") == ["add"]
    assert completed("publish", "--payload-f") == ["--payload-file"]


def test_the_command_line_starts_without_what_commands_need() -> None:
    heavy = ("rich", "protocols", "lark", "numpy", "asyncio", "peerd.sim", "peerd.registry", "peerd.cli.sim")
    code = "import sys, peerd.cli\nprint(*sys.modules)"
    done = subprocess.run((sys.executable, "-c", code), cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()).isdisjoint(heavy)
    assert "click" in done.stdout.split()


def test_a_peer_starts_without_what_it_may_never_need() -> None:
    code = "import sys, peerd.daemon\nprint(*sys.modules)"
    done = subprocess.run((sys.executable, "-c", code), cwd=ROOT, capture_output=True, text=True, check=True)
    overlays = {f"protocols.{name}" for name in registry.NAMES}
    unneeded = {"lark", "numpy", "rich", "peerd.sim", "peerd.client"} | overlays
    assert set(done.stdout.split()).isdisjoint(unneeded)
