"""The directory of a testbed and what is written there."""

import os
from pathlib import Path

import pytest

from peerd.sim.workloads import WORKLOADS
from peerd.testbed.place import BedRecord, MemberRecord, Place, TestbedError, default_directory, to_toml
from peerd.testbed.processes import Process
from protocols.model.schema import Schema

RECORD = BedRecord(
    overlay="broadcast",
    server=Process(10, "boot/1", 10),
    started_at="2026-01-01T00:00:00+00:00",
    members=(MemberRecord(name="p0", process=Process(11, "boot/2", 11), state="ready", peer="ab"),),
)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path / "bed")
    place.make()
    return place


def test_what_was_written_is_read(place: Place) -> None:
    assert place.read() is None
    place.write(RECORD)
    assert place.read() == RECORD
    place.forget()
    assert place.read() is None
    place.forget()  # once more does no harm


def test_there_may_be_no_directory(tmp_path: Path) -> None:
    assert Place(tmp_path / "none").read() is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"overlay": 1}', '{"overlay": "x", "server": {}}'])
def test_what_makes_no_sense_is_said_in_one_line(place: Place, text: str) -> None:
    (place.directory / "testbed.json").write_text(text)
    with pytest.raises(TestbedError, match=r"testbed\.json: .*; remove it"):
        place.read()


def test_another_version_is_not_guessed_at(place: Place) -> None:
    place.write(BedRecord(format=2, overlay="x", server=RECORD.server, started_at=""))
    with pytest.raises(TestbedError, match="another version"):
        place.read()


def test_a_directory_that_others_may_write_to_is_not_believed(place: Place) -> None:
    place.write(RECORD)
    place.directory.chmod(0o777)
    with pytest.raises(TestbedError, match="others may write there"):
        place.read()
    with pytest.raises(TestbedError, match="others may write there"):
        place.make()


def test_the_lock_has_one_holder(place: Place) -> None:
    held = place.lock()
    assert held is not None
    assert place.lock() is None
    os.close(held)
    again = place.lock()
    assert again is not None
    os.close(again)


def test_the_default_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))
    assert default_directory() == tmp_path / "peerd-testbed"
    monkeypatch.setenv("XDG_RUNTIME_DIR", "no/absolute/path")
    assert str(os.getuid()) in default_directory().name
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert str(os.getuid()) in default_directory().name


@pytest.mark.parametrize("name", WORKLOADS)
def test_a_schema_survives_its_file(name: str) -> None:
    schema = WORKLOADS[name].schema
    assert Schema.from_toml(to_toml(schema)) == schema
