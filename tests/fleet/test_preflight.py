"""The pre-flight: what it finds on machines that have too little of something, and what it advises."""

from pathlib import Path

import pytest

from peerd.fleet.preflight import BRIDGE_PORTS, Finding, findings, neighbours_wanted

FINE = {
    "sys/net/ipv4/neigh/default/gc_thresh1": "65536\n",
    "sys/net/ipv4/neigh/default/gc_thresh2": "65536\n",
    "sys/net/ipv4/neigh/default/gc_thresh3": "65536\n",
    "meminfo": "MemTotal:       32000000 kB\nMemAvailable:   30000000 kB\n",
    "sys/fs/file-nr": "2000\t0\t9000000\n",
    "sys/kernel/pid_max": "4194304\n",
    "sys/kernel/threads-max": "200000\n",
}


def machine(at: Path, **changed: str) -> Path:
    """A machine's /proc; `changed` has other contents for files, by the last part of their names."""
    for name, text in FINE.items():
        file = at / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(changed.get(file.name.replace("-", "_"), text))
    return at


def found(at: Path, peers: int = 200) -> dict[str, Finding]:
    return {each.what: each for each in findings(peers, at)}


def test_a_machine_with_enough_of_everything(tmp_path: Path) -> None:
    assert all(each.fine for each in found(machine(tmp_path)).values())


@pytest.mark.parametrize(
    ("changed", "what", "advice"),
    [
        ({"gc_thresh3": "1024"}, "neighbour table", f"gc_thresh3={neighbours_wanted(200)}"),
        ({"gc_thresh2": "512"}, "neighbour table", f"gc_thresh2={neighbours_wanted(200)}"),
        ({"gc_thresh1": "128"}, "neighbour table", f"gc_thresh1={neighbours_wanted(200)}"),
        ({"meminfo": "MemAvailable: 8000000 kB"}, "memory", "at most 104 peers"),
        ({"file_nr": "2000 0 20000"}, "open files", "fs.file-max=27600"),
        ({"threads_max": "3000"}, "processes", "kernel.threads-max="),
        ({"pid_max": "3000"}, "processes", "kernel.pid_max="),
    ],
)
def test_too_little_of_one_thing(tmp_path: Path, changed: dict[str, str], what: str, advice: str) -> None:
    findings = found(machine(tmp_path, **changed))
    assert [each.what for each in findings.values() if not each.fine] == [what]
    assert advice in findings[what].advice


def test_few_peers_need_little(tmp_path: Path) -> None:
    small = machine(
        tmp_path,
        gc_thresh1="128",
        gc_thresh2="512",
        gc_thresh3="1024",
        meminfo="MemAvailable: 4000000 kB",
        file_nr="0 0 10000",
    )
    assert all(each.fine for each in found(small, 20).values())


def test_a_bridge_has_an_end(tmp_path: Path) -> None:
    assert not found(machine(tmp_path), BRIDGE_PORTS)["bridge"].fine


def test_a_limit_that_cannot_be_seen_is_said_and_not_guessed(tmp_path: Path) -> None:
    at = machine(tmp_path)
    (at / "sys/net/ipv4/neigh/default/gc_thresh3").unlink()
    neighbours = found(at)["neighbour table"]
    assert neighbours.fine
    assert "not visible" in neighbours.found
