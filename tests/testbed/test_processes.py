"""A process is taken for the one that was meant only if its number, start time and group are."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
from msgspec.structs import replace

from peerd.testbed import processes
from peerd.testbed.processes import Process, identify, is_alive, send_signal, usage


@pytest.fixture
def sleeper() -> Iterator["subprocess.Popen[bytes]"]:
    """A process that does nothing."""
    command = (sys.executable, "-c", "import sys; sys.stdin.read()")
    child = subprocess.Popen(command, stdin=subprocess.PIPE, start_new_session=True)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def of(child: "subprocess.Popen[bytes]") -> Process:
    found = identify(child.pid)
    assert found is not None
    return found


def test_a_process_is_itself(sleeper: "subprocess.Popen[bytes]") -> None:
    assert of(sleeper) == of(sleeper)
    assert of(sleeper).group == sleeper.pid
    assert is_alive(of(sleeper))


def test_the_signal_reaches_the_process(sleeper: "subprocess.Popen[bytes]") -> None:
    process = of(sleeper)
    assert send_signal(process, signal.SIGKILL)
    assert sleeper.wait(10) == -signal.SIGKILL
    assert not is_alive(process)
    assert not send_signal(process, signal.SIGKILL)


@pytest.mark.parametrize("change", [{"started": "another boot/1"}, {"group": 1}])
def test_another_process_with_the_same_number_is_not_touched(
    sleeper: "subprocess.Popen[bytes]", change: dict[str, object]
) -> None:
    former = replace(of(sleeper), **change)
    assert not is_alive(former)
    assert not send_signal(former, signal.SIGKILL)
    assert sleeper.poll() is None


def test_a_process_that_waits_to_be_reaped_has_ended(sleeper: "subprocess.Popen[bytes]") -> None:
    process = of(sleeper)
    os.kill(sleeper.pid, signal.SIGKILL)
    os.waitid(os.P_PID, sleeper.pid, os.WEXITED | os.WNOWAIT)
    assert identify(sleeper.pid) is None
    assert not is_alive(process)


@pytest.mark.parametrize("number", [0, -1, 2**22 + 1])
def test_there_is_no_such_process(number: int) -> None:
    assert identify(number) is None


def test_what_a_process_uses() -> None:
    own = identify(os.getpid())
    assert own is not None
    used = usage(own)
    assert used is not None
    assert 2**20 < used.memory_bytes < 2**34
    assert 0.0 < used.cpu_s < 100_000.0
    assert usage(replace(own, started="")) is None


def test_ps_knows_the_same(sleeper: "subprocess.Popen[bytes]", monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "has_proc", lambda: False)
    process = of(sleeper)
    assert process.group == sleeper.pid
    assert process.started
    assert is_alive(process)
    used = usage(process)
    assert used is not None
    assert used.memory_bytes > 2**20
    assert identify(2**22 + 1) is None
    assert send_signal(process, signal.SIGKILL)
