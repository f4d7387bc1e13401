"""Files of records: closed by size and age, kept within bounds, whole after whatever happened."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from peerd import segments
from peerd.segments import Segments, place
from tests.eventlog.support import FullDisk, files, records


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_file_is_open_until_it_is_closed(tmp_path: Path) -> None:
    log = Segments(tmp_path / "run=r" / "peer=p")
    assert files(tmp_path / "run=r" / "peer=p") == []
    log.write({"n": 1})
    log.flush()
    assert files(tmp_path / "run=r" / "peer=p") == ["000000.jsonl.open"]
    log.close()
    log.close()
    assert files(tmp_path / "run=r" / "peer=p") == ["000000.jsonl"]
    assert records(tmp_path / "run=r" / "peer=p") == [{"n": 1}]


def test_a_file_is_closed_by_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "SEGMENT_BYTES", 20)
    log = Segments(tmp_path)
    for number in range(5):
        log.write({"number": number})
        log.flush()
    assert files(tmp_path) == ["000000.jsonl", "000001.jsonl", "000002.jsonl.open"]
    log.close()
    assert [record["number"] for record in records(tmp_path)] == [0, 1, 2, 3, 4]


def test_a_file_is_closed_by_age(tmp_path: Path) -> None:
    clock = Clock()
    log = Segments(tmp_path, clock=clock)
    log.write({"n": 1})
    log.flush()
    clock.now += 599
    log.flush()
    assert files(tmp_path) == ["000000.jsonl.open"]
    clock.now += 1
    log.flush()
    assert files(tmp_path) == ["000000.jsonl"]
    log.flush()
    log.close()
    assert files(tmp_path) == ["000000.jsonl"]


def test_many_records_are_written_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    write = os.write

    def counted(fd: int, data: bytes) -> int:
        calls.append(len(data))
        return write(fd, data)

    monkeypatch.setattr(os, "write", counted)
    log = Segments(tmp_path)
    for number in range(1000):
        log.write({"number": number})
    log.close()
    assert len(calls) == 1
    assert len(records(tmp_path)) == 1000


def test_the_oldest_go_beyond_what_is_kept(tmp_path: Path) -> None:
    keep = 4000
    log = Segments(tmp_path, keep)
    for number in range(500):
        log.write({"number": number, "text": "x" * 80})
        log.flush()
        assert sum(path.stat().st_size for path in tmp_path.iterdir()) <= keep + 120
    log.close()
    left = [record["number"] for record in records(tmp_path)]
    assert left == list(range(left[0], 500))
    assert len(left) >= 20  # half of what is kept at the least
    other = tmp_path / "notes.jsonl"
    other.write_text("not ours")
    Segments(tmp_path, 400).close()
    assert other.exists()
    assert files(tmp_path) == ["notes.jsonl"]  # none of ours fits in so little


def test_numbers_go_on_after_a_restart_even_if_old_files_are_gone(tmp_path: Path) -> None:
    for number in range(3):
        log = Segments(tmp_path)
        log.write({"n": number})
        log.close()
    (tmp_path / "000000.jsonl").unlink()
    log = Segments(tmp_path)
    log.write({"n": 3})
    log.close()
    assert files(tmp_path) == ["000001.jsonl", "000002.jsonl", "000003.jsonl"]


@pytest.mark.parametrize(
    ("left", "kept"),
    [
        (b'{"n":1}\n{"n":2}\n', b'{"n":1}\n{"n":2}\n'),
        (b'{"n":1}\n{"n":', b'{"n":1}\n'),
        (b'{"n":1}\n' + b"x" * 200_000, b'{"n":1}\n'),
        (b'{"n":', None),
        (b"x" * 200_000, None),
        (b"", None),
    ],
)
def test_what_a_killed_writer_left_is_closed(tmp_path: Path, left: bytes, kept: bytes | None) -> None:
    (tmp_path / "000004.jsonl.open").write_bytes(left)
    log = Segments(tmp_path)
    assert files(tmp_path) == ([] if kept is None else ["000004.jsonl"])
    if kept is not None:
        assert (tmp_path / "000004.jsonl").read_bytes() == kept
    log.write({"n": 9})
    log.close()
    assert records(tmp_path)[-1] == {"n": 9}


def test_a_write_that_fails_half_way_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = FullDisk()
    monkeypatch.setattr(os, "write", disk.write)
    log = Segments(tmp_path)
    log.write({"n": 1})
    log.flush()
    disk.full = True
    log.write({"n": 2})
    log.write({"n": 3})
    with pytest.raises(OSError, match="No space left"):
        log.flush()
    assert log.lost == 2
    assert (tmp_path / "000000.jsonl.open").read_bytes() == b'{"n":1}\n'
    disk.full = False
    log.write({"n": 4})
    log.close()
    assert records(tmp_path) == [{"n": 1}, {"n": 4}]


def test_a_record_that_cannot_be_encoded_leaves_nothing_behind(tmp_path: Path) -> None:
    log = Segments(tmp_path)
    log.write({"n": 1})
    with pytest.raises(UnicodeEncodeError):
        log.write({"n": 2, "text": "\ud800"})
    log.write({"n": 3})
    log.close()
    assert records(tmp_path) == [{"n": 1}, {"n": 3}]


def test_a_directory_that_is_cleaned_up_is_made_again(tmp_path: Path) -> None:
    log = Segments(tmp_path / "a")
    (tmp_path / "a").rmdir()
    log.write({"n": 1})
    log.close()
    assert records(tmp_path / "a") == [{"n": 1}]


def test_names_cannot_lead_elsewhere() -> None:
    assert place("logs", "a/../b c", "p") == Path("logs/run=a%2F..%2Fb%20c/peer=p")


def test_a_killed_process_loses_no_flushed_record(tmp_path: Path) -> None:
    code = (
        "import os, pathlib, signal, sys\nfrom peerd.segments import Segments\n"
        "log = Segments(pathlib.Path(sys.argv[1]))\nlog.write({'n': 1})\nlog.flush()\nlog.write({'n': 2})\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    result = subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert result.returncode == -signal.SIGKILL
    assert files(tmp_path) == ["000000.jsonl.open"]
    Segments(tmp_path).close()
    assert records(tmp_path) == [{"n": 1}]
