"""The data directory: what survives, what is refused, what is mended."""

import errno
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from peerd.store import (
    CONTACTS_MAX,
    Background,
    MemoryStore,
    Storage,
    Store,
    StoredSubscription,
    StoredSwarm,
    StoreError,
    journal,
)
from protocols.model.schema import STOCKS, Attribute

LONGER = STOCKS.append([Attribute("volume", "int", 0, 10)])
SWARM = StoredSwarm(
    name="stöcks", overlay="broadcast", parameters={"links": 3, "x": 0.5}, schema=LONGER, first_schema=STOCKS
)


def subscription(id_: str = "s1", filter_: str = "price > 8") -> StoredSubscription:
    return StoredSubscription(id=id_, filter=filter_, retain_s=600.0, retain_max=10_000, idle_s=None)


class Opened:
    """A store that is opened again and again, and what it has said."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.said: list[str] = []

    def open(self, now_ms: int = 0) -> Store:
        return Store(str(self.path), now_ms, self.said.append)

    def file(self, name: str) -> Path:
        return self.path / name


@pytest.fixture
def place(tmp_path: Path) -> Opened:
    return Opened(tmp_path / "data" / "peer")


class FullDisk:
    """Lets every write fail half-way while `full`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.full = False
        self._write, self._fsync = os.write, os.fsync
        monkeypatch.setattr(os, "write", self.write)
        monkeypatch.setattr(os, "fsync", self.fsync)

    def write(self, fd: int, data: Any) -> int:
        if self.full:
            if len(data) > 1:
                return self._write(fd, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._write(fd, data)

    def fsync(self, fd: int) -> None:
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        self._fsync(fd)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> FullDisk:
    return FullDisk(monkeypatch)


# --- what survives ----------------------------------------------------------------------------------------------------


def test_everything_survives(place: Opened) -> None:
    first = place.open()
    first.save_swarm(SWARM)
    first.save_contacts(["a:1", "b:2", "a:1", ""])
    first.put_subscription(subscription("s1"))
    first.put_subscription(subscription("s2"))
    first.put_subscription(subscription("s1", "price > 9"))
    first.put_subscription(subscription("s3"))
    first.remove_subscription("s2")
    first.remove_subscription("never there")
    first.close()
    second = place.open()
    assert second.peer == first.peer
    assert second.swarm is not None
    assert second.swarm == SWARM
    assert second.contacts == ("a:1", "b:2")
    assert second.subscriptions == {"s1": subscription("s1", "price > 9"), "s3": subscription("s3")}
    assert not place.said
    second.close()


def test_an_identity_is_random_and_written_once(place: Opened, tmp_path: Path) -> None:
    store = place.open()
    written = place.file("identity.json").stat()
    assert len(store.peer) == 32
    assert int(store.peer, 16) >= 0
    store.close()
    place.open().close()
    assert place.file("identity.json").stat().st_mtime_ns == written.st_mtime_ns
    assert Opened(tmp_path / "other").open().peer != store.peer


def test_a_boot_grows_even_if_the_clock_goes_back(place: Opened) -> None:
    boots = []
    for now_ms in (1_000, 5_000, 2_000, 2_000, 9_000):
        store = place.open(now_ms)
        boots.append(store.boot)
        store.close()
    assert boots == [1_000, 5_000, 5_001, 5_002, 9_000]


def test_a_boot_is_durable_before_it_is_used(place: Opened) -> None:
    store = place.open(7)
    assert json.loads(place.file("boot.json").read_bytes())["boot"] == 7
    store.close()


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs Linux to name what is synced")
def test_a_file_is_on_the_disk_before_it_takes_its_place(place: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a power cut could leave neither the old file nor the new one."""
    store = place.open()
    done: list[str] = []
    fsync, replace = os.fsync, Path.replace

    def synced(fd: int) -> None:
        done.append(f"sync {os.readlink(f'/proc/self/fd/{fd}').removeprefix(str(place.path))}")
        fsync(fd)

    def replaced(self: Path, target: Path) -> Path:
        done.append(f"replace {target.name}")
        return replace(self, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(Path, "replace", replaced)
    store.save_swarm(SWARM)
    store.put_subscription(subscription("s1"))
    store.put_subscription(subscription("s2"))
    assert done == [
        *("sync /swarm.json.tmp", "replace swarm.json", "sync "),
        *("sync /subscriptions.jsonl.tmp", "replace subscriptions.jsonl", "sync "),
        "sync /subscriptions.jsonl",
    ]
    store.close()


def test_contacts_are_bounded(place: Opened) -> None:
    store = place.open()
    store.save_contacts([f"host-{number}:1" for number in range(1000)] + ["x" * 400])
    assert store.contacts == tuple(f"host-{number}:1" for number in range(CONTACTS_MAX))
    store.close()


def test_the_directory_is_for_its_owner(place: Opened) -> None:
    place.open().close()
    assert place.path.stat().st_mode & 0o077 == 0


def test_without_a_directory_nothing_survives() -> None:
    stores: list[Storage] = [MemoryStore(5), MemoryStore(5)]
    assert stores[0].peer != stores[1].peer
    assert (len(stores[0].peer), stores[0].boot) == (32, 5)
    stores[0].save_swarm(SWARM)
    stores[0].save_contacts(["a:1"])
    stores[0].put_subscription(subscription("s1"))
    stores[0].put_subscription(subscription("s2"))
    stores[0].remove_subscription("s1")
    assert (stores[0].swarm, stores[0].contacts, list(stores[0].subscriptions)) == (SWARM, ("a:1",), ["s2"])
    stores[0].close()


# --- two daemons ------------------------------------------------------------------------------------------------------


def test_two_never_share_a_directory(place: Opened) -> None:
    store = place.open()
    with pytest.raises(StoreError, match=rf"in use by another peerd \(process {os.getpid()}\); stop that one"):
        place.open()
    store.close()
    place.open().close()


def test_a_killed_daemon_leaves_no_lock(place: Opened) -> None:
    code = (
        "import os, signal, sys\nfrom peerd.store import Store\n"
        "store = Store(sys.argv[1], 3)\nprint(store.peer, flush=True)\nos.kill(os.getpid(), signal.SIGKILL)"
    )
    result = subprocess.run([sys.executable, "-c", code, str(place.path)], capture_output=True, text=True, check=False)
    store = place.open()
    assert (store.peer, store.boot) == (result.stdout.strip(), 4)
    store.close()


# --- damage -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["identity.json", "boot.json", "swarm.json", "contacts.json"])
@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"format": 1}', b'{"format": "x"}', b"\xff\x00", b"[" * 9999])
def test_a_damaged_file_is_set_aside_and_the_others_used(place: Opened, name: str, content: bytes) -> None:
    store = place.open()
    store.save_swarm(SWARM)
    store.save_contacts(["a:1"])
    store.put_subscription(subscription())
    store.close()
    place.file(name).write_bytes(content)
    again = place.open()
    assert (again.peer == store.peer) == (name != "identity.json")
    assert (again.swarm is not None) == (name != "swarm.json")
    assert (again.contacts == ("a:1",)) == (name != "contacts.json")
    assert list(again.subscriptions) == ["s1"]
    (said,) = place.said
    assert f"{name} is damaged" in said
    assert f"set aside as {name}.damaged-1" in said
    assert place.file(f"{name}.damaged-1").read_bytes() == content
    again.close()
    place.said.clear()
    place.open().close()
    assert not place.said


def test_a_damaged_file_is_never_written_over(place: Opened) -> None:
    for number in (1, 2):
        place.open().close()
        place.file("boot.json").write_bytes(b"%d" % number)
    place.open().close()
    assert place.file("boot.json.damaged-1").read_bytes() == b"1"
    assert place.file("boot.json.damaged-2").read_bytes() == b"2"


def test_a_swarm_with_an_impossible_schema_is_damaged(place: Opened) -> None:
    store = place.open()
    store.save_swarm(SWARM)
    store.close()
    document = json.loads(place.file("swarm.json").read_bytes())
    document["schema"], document["first_schema"] = document["first_schema"], document["schema"]
    place.file("swarm.json").write_text(json.dumps(document))
    again = place.open()
    assert again.swarm is None
    assert "swarm.json is damaged (the schema does not begin with the swarm's first attributes)" in place.said[0]
    again.close()


def test_half_a_line_is_cut_off(place: Opened) -> None:
    store = place.open()
    store.put_subscription(subscription("s1"))
    store.put_subscription(subscription("s2"))
    store.close()
    path = place.file("subscriptions.jsonl")
    path.write_bytes(path.read_bytes()[:-10])
    again = place.open()
    assert list(again.subscriptions) == ["s1"]
    again.put_subscription(subscription("s3"))
    again.close()
    assert list(place.open().subscriptions) == ["s1", "s3"]
    assert not place.said


def test_a_bad_line_costs_that_line(place: Opened) -> None:
    store = place.open()
    for number in range(4):
        store.put_subscription(subscription(f"s{number}"))
    store.close()
    path = place.file("subscriptions.jsonl")
    lines = path.read_bytes().splitlines(keepends=True)
    lines[2] = b'{"put": {"id": 7}}\n'
    path.write_bytes(b"".join(lines))
    again = place.open()
    assert list(again.subscriptions) == ["s0", "s2", "s3"]
    assert "subscriptions.jsonl is damaged (line 3: " in place.said[0]
    assert "3 subscriptions of it could be read" in place.said[1]
    again.close()
    place.said.clear()
    assert list(place.open().subscriptions) == ["s0", "s2", "s3"]
    assert not place.said


@pytest.mark.parametrize("name", ["identity.json", "boot.json", "swarm.json", "contacts.json", "subscriptions.jsonl"])
def test_a_newer_format_is_refused(place: Opened, name: str) -> None:
    place.open().close()
    place.file(name).write_bytes(b'{"format": 2, "something": "new"}\n')
    with pytest.raises(StoreError, match=r"was written by a newer peerd \(format 2, this one reads 1\)") as caught:
        place.open()
    assert "\n" not in str(caught.value)
    assert place.file(name).read_bytes() == b'{"format": 2, "something": "new"}\n'
    place.file(name).unlink()
    place.open().close()  # the lock was given up


def test_a_directory_that_cannot_be_used(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(StoreError, match=r"file exists; make it writable, or give another --data-dir$"):
        Store(str(file), 0)


def test_leftovers_of_an_interrupted_write_go(place: Opened) -> None:
    place.open().close()
    place.file("swarm.json.tmp").write_bytes(b"{")
    place.open().close()
    assert not place.file("swarm.json.tmp").exists()


# --- the journal ------------------------------------------------------------------------------------------------------


def test_the_journal_does_not_grow_for_ever(place: Opened, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal, "OUTDATED_MAX", 10)
    store = place.open()
    for number in range(200):
        store.put_subscription(subscription("s1", f"price > {number}"))
        store.put_subscription(subscription("passing"))
        store.remove_subscription("passing")
    assert len(place.file("subscriptions.jsonl").read_bytes().splitlines()) <= 16
    store.close()
    assert place.open().subscriptions == {"s1": subscription("s1", "price > 199")}


# --- a full disk ------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_told_once_and_made_good(place: Opened, disk: FullDisk) -> None:
    store = place.open()
    store.put_subscription(subscription("s1"))
    disk.full = True
    store.put_subscription(subscription("s2"))
    store.save_swarm(SWARM)
    store.save_contacts(["a:1"])
    store.remove_subscription("s1")
    (said,) = place.said
    assert said == f"data directory {place.path}: No space left on device; changes would not survive a restart"
    assert list(store.subscriptions) == ["s2"]
    disk.full = False
    store.save_contacts(["b:2"])
    assert place.said[1:] == [f"data directory {place.path} is written again; nothing is missing in it"]
    store.close()
    again = place.open()
    assert (list(again.subscriptions), again.contacts, again.swarm) == (["s2"], ("b:2",), SWARM)
    again.close()


def test_what_was_written_before_stays_whole_on_a_full_disk(place: Opened, disk: FullDisk) -> None:
    store = place.open()
    store.save_swarm(SWARM)
    store.put_subscription(subscription("s1"))
    disk.full = True
    store.put_subscription(subscription("s2"))
    store.save_swarm(StoredSwarm(name="x", overlay="y", parameters={}, schema=STOCKS, first_schema=STOCKS))
    store.close()
    disk.full = False
    again = place.open()
    assert (again.swarm, list(again.subscriptions)) == (SWARM, ["s1"])
    again.close()


def test_a_peer_starts_on_a_full_disk(place: Opened, disk: FullDisk) -> None:
    place.open(5).close()
    disk.full = True
    store = place.open(5)
    assert store.boot == 6
    assert "would not survive a restart" in place.said[0]
    store.close()


# --- in the background ------------------------------------------------------------------------------------------------


def test_in_the_background_everything_is_written_at_the_end(place: Opened) -> None:
    store: Storage = Background(place.open())
    store.save_swarm(SWARM)
    for number in range(50):
        store.put_subscription(subscription(f"s{number % 5}", f"price > {number}"))
    store.remove_subscription("s0")
    store.save_contacts(["a:1"])
    assert store.swarm == SWARM
    store.close()
    again = place.open()
    assert (again.swarm, again.contacts) == (SWARM, ("a:1",))
    assert {id_: kept.filter for id_, kept in again.subscriptions.items()} == {
        f"s{number}": f"price > {45 + number}" for number in range(1, 5)
    }
    again.close()
