"""A process beyond doubt.

Numbers of processes are used again. A process is the one that was meant only if its number, its start time and its
process group are; the signal is then sent through a handle to that very process (a pidfd) where the system has such, so
that no other process can take its place between the look and the signal.

Linux tells all of it in /proc; elsewhere `ps` is asked.
"""

import ctypes
import os
import signal
import subprocess
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

PROC: Final = Path("/proc")
PR_SET_PDEATHSIG: Final = 1


class Process(msgspec.Struct, frozen=True):
    """One life of a process. `started` is comparable, not readable."""

    pid: int
    started: str
    group: int


class Usage(NamedTuple):
    """What a process uses. Memory that n processes share counts a nth for each of them (PSS), where that is known."""

    memory_bytes: int
    cpu_s: float


def has_proc() -> bool:
    return (PROC / "self" / "stat").exists()


@cache
def _boot() -> str:
    """Start times count from the start of the machine."""
    try:
        return (PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return ""


def _stat(pid: int) -> list[str] | None:
    """The fields of /proc/PID/stat from the third on: the second is a name that may hold anything."""
    try:
        text = (PROC / str(pid) / "stat").read_text()
    except (OSError, UnicodeDecodeError):
        return None
    return text.rpartition(")")[2].split()


def identify(pid: int) -> Process | None:
    """The process that has this number now; None if there is none, or one that has ended and waits to be reaped."""
    if pid <= 0:
        return None
    if not has_proc():
        return _identify_by_ps(pid)
    fields = _stat(pid)
    if fields is None or fields[0] in ("Z", "X"):
        return None
    return Process(pid, f"{_boot()}/{fields[19]}", int(fields[2]))


def _identify_by_ps(pid: int) -> Process | None:
    fields = _ps(pid, "stat=,pgid=,lstart=")
    if len(fields) < 3 or fields[0].startswith("Z"):
        return None
    return Process(pid, " ".join(fields[2:]), int(fields[1]))


def _ps(pid: int, columns: str) -> list[str]:
    asked = ["ps", "-o", columns, "-p", str(pid)]
    return subprocess.run(asked, capture_output=True, text=True, check=False, env={"LC_ALL": "C"}).stdout.split()


def is_alive(process: Process) -> bool:
    return identify(process.pid) == process


def send_signal(process: Process, number: signal.Signals) -> bool:
    """Signal this process and no other; whether it was there."""
    if not hasattr(os, "pidfd_open"):
        return is_alive(process) and _kill(process.pid, number)
    try:
        handle = os.pidfd_open(process.pid)
    except OSError:
        return False
    try:
        if not is_alive(process):
            return False
        signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        return False
    finally:
        os.close(handle)
    return True


def _kill(pid: int, number: signal.Signals) -> bool:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)
        return True
    return False


def usage(process: Process) -> Usage | None:
    """What it uses, if it still is there."""
    if not has_proc():
        return _usage_by_ps(process)
    fields = _stat(process.pid)
    if fields is None or not is_alive(process):
        return None
    cpu_s = (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
    return Usage(_memory_bytes(process.pid), cpu_s)


def _memory_bytes(pid: int) -> int:
    try:
        for line in (PROC / str(pid) / "smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                return int(line.split()[1]) * 1024
        return int((PROC / str(pid) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def _usage_by_ps(process: Process) -> Usage | None:
    fields = _ps(process.pid, "rss=,time=")
    if len(fields) < 2 or not is_alive(process):
        return None
    seconds = 0.0
    for part in fields[1].replace("-", ":").split(":"):
        seconds = seconds * 60 + float(part)
    return Usage(int(fields[0]) * 1024, seconds)


def end_with_parent(parent: int) -> None:
    """Have this process killed when its parent ends, however that happens. Only Linux can; others watch a pipe."""
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None, use_errno=True).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent:
        os._exit(1)  # it had ended before we asked
