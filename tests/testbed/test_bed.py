"""Real processes: how they start, and that all of them end, whoever ends first."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from peerd.client import Peer
from peerd.testbed.bed import Bed, BedConfig, take_down
from peerd.testbed.place import BedRecord, MemberRecord, Place, TestbedError
from peerd.testbed.processes import Process, is_alive, send_signal
from protocols.model.schema import STOCKS
from tests.testbed.support import any_alive, bed_of, processes, until


async def test_peers_are_real(tmp_path: Path) -> None:
    async with bed_of(3, tmp_path) as bed:
        running = processes(bed)
        assert len(running) == 4
        assert all(map(is_alive, running))
        assert all(process.group == process.pid for process in running)  # nobody's Ctrl-C but their own
        ids = set()
        for member in bed.members:
            async with Peer(f"http://{member.http}") as peer:
                shown = await peer.status()
            assert shown.ready
            assert (shown.id, shown.listen, shown.name) == (member.peer, member.listen, member.name)
            ids.add(shown.id)
        assert len(ids) == 3
        looks = await bed.look(bed.living)
        assert all(looked.ready and looked.links and looked.messages for looked in looks.values())
        assert bed.usage().memory_bytes > 10 * 2**20
    assert not any_alive(running)
    assert bed.place.read() is None


async def test_an_event_from_hand_to_hand(tmp_path: Path) -> None:
    async with bed_of(3, tmp_path) as bed:
        first, last = bed.members[0], bed.members[-1]
        async with Peer(f"http://{first.http}") as publisher, Peer(f"http://{last.http}") as subscriber:
            subscription = await subscriber.subscribe("symbol = 'OTE'")
            id_ = await publisher.publish({"symbol": "OTE", "price": 8.5})
            delivery = await anext(subscription)
            assert (delivery.event_id, delivery.publisher) == (id_, first.peer)


async def test_a_killed_peer_is_known_to_be(tmp_path: Path) -> None:
    async with bed_of(2, tmp_path) as bed:
        victim = bed.members[1]
        bed.kill(victim)
        await until(lambda: not is_alive(victim.process), "its end")
        assert bed.living == [bed.members[0]]
        record = bed.place.read()
        assert record is not None
        assert [member.state for member in record.members] == ["ready", "killed"]
        bed.check()  # it was we who killed it


async def test_a_peer_that_ends_by_itself_is_an_error(tmp_path: Path) -> None:
    async with bed_of(2, tmp_path) as bed:
        send_signal(bed.members[1].process, signal.SIGKILL)
        await until(lambda: bed.members[1].state == "ended", "the fork server's word")
        with pytest.raises(TestbedError, match="peer p1 has ended by itself: signal 9"):
            bed.check()


async def test_kill_of_the_fork_server_leaves_nobody(tmp_path: Path) -> None:
    async with bed_of(3, tmp_path) as bed:
        running = processes(bed)
        assert send_signal(running[0], signal.SIGKILL)
        await until(lambda: not any_alive(running), "the end of all")
        with pytest.raises(TestbedError, match="the fork server has ended"):
            bed.check()


STEER = """
import asyncio, sys
from pathlib import Path
from tests.testbed.support import bed_of

async def main():
    async with bed_of(2, Path(sys.argv[1])):
        print("up", flush=True)
        await asyncio.sleep(600)

asyncio.run(main())
"""


async def test_kill_of_the_steering_process_leaves_nobody_but_a_file(tmp_path: Path) -> None:
    steering = subprocess.Popen((sys.executable, "-c", STEER, str(tmp_path)), stdout=subprocess.PIPE)  # noqa: ASYNC220
    assert steering.stdout is not None
    try:
        assert steering.stdout.readline() == b"up\n"
        record = Place(tmp_path).read()
        assert record is not None
        running = [record.server, *(member.process for member in record.members)]
        assert len(running) == 3
        assert all(map(is_alive, running))
    finally:
        steering.kill()
        steering.communicate()
    await until(lambda: not any_alive(running), "the end of all")
    assert Place(tmp_path).read() is not None
    async with bed_of(1, tmp_path):  # the next one does not mind
        pass


async def test_only_one_testbed_in_a_place(tmp_path: Path) -> None:
    async with bed_of(1, tmp_path) as bed:
        with pytest.raises(TestbedError, match=r"a testbed is up in .* already"):
            async with bed_of(1, tmp_path):
                pass
        assert all(map(is_alive, processes(bed)))


async def test_what_was_let_go_stays_until_it_is_taken_down(tmp_path: Path) -> None:
    place = Place(tmp_path)
    bed = Bed(place, BedConfig(overlay="broadcast", peers=2, schema=STOCKS))
    await bed.up()
    running = processes(bed)
    bed.let_go()
    async with Peer(f"http://{bed.members[1].http}") as peer:
        assert (await peer.status()).ready
    assert await take_down(place) == 2
    assert bed._spawned is not None
    assert bed._spawned.wait(10) == 0
    assert not any_alive(running)
    assert place.read() is None
    assert await take_down(place) is None


def echo() -> "subprocess.Popen[bytes]":
    """A process that says what it hears."""
    return subprocess.Popen((sys.executable, "-c", "print(input())"), stdin=subprocess.PIPE, stdout=subprocess.PIPE)


async def test_down_does_not_touch_foreign_processes(tmp_path: Path) -> None:
    """What `testbed.json` names has ended long ago, and other processes have got the numbers."""
    place = Place(tmp_path)
    place.make()
    foreign = [echo() for _ in range(2)]
    try:
        former = [Process(each.pid, "another boot/1", os.getpgid(each.pid)) for each in foreign]
        member = MemberRecord(name="p0", process=former[1], state="ready")
        place.write(BedRecord(overlay="broadcast", server=former[0], started_at="", members=(member,)))
        assert await take_down(place) == 1
        assert [each.communicate(b"alive", timeout=20)[0] for each in foreign] == [b"alive\n"] * 2
        assert place.read() is None
    finally:
        for each in foreign:
            each.kill()
            each.wait()


async def test_a_peer_that_cannot_start_says_why(tmp_path: Path) -> None:
    config = BedConfig(overlay="broadcast", peers=2, schema=STOCKS, log_dir="/dev/null/logs")
    bed = Bed(Place(tmp_path), config)
    with pytest.raises(TestbedError, match=r"peer p0 has ended by itself: .*/dev/null"):
        await bed.up()
    assert bed.place.read() is None


def test_the_record_is_for_people_too(tmp_path: Path) -> None:
    place = Place(tmp_path)
    place.write(BedRecord(overlay="x", server=Process(os.getpid(), "b/1", 1), started_at=""))
    text = (tmp_path / "testbed.json").read_text()
    assert text.count("\n") > 5
    assert msgspec.json.decode(text)["server"]["pid"] == os.getpid()
