"""The event log: what is kept, in what order, and what becomes of it when the disk does not keep up."""

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Event as Flag
from typing import Any

import pytest

from peerd.driver import Sink
from peerd.eventlog import Detail, EventLog, LogConfig, forms
from peerd.eventlog import log as log_module
from peerd.eventlog.forms import Traffic, sampled
from peerd.segments import Segments
from peerd.trace import Wanted
from protocols.model.ids import PEER_SLOT
from protocols.model.lint import compile_filter
from protocols.model.schema import STOCKS, Attribute
from protocols.overlay import Active, Control, Dropped, Joined, LinkUp, Lost, Placed, Rejected, Report
from tests.eventlog.support import ME, OTHER, FullDisk, delivery, event, files, reception, records, until

NOW_US = 5_000_123
OTE = compile_filter("symbol = 'OTE' AND price > 8", STOCKS)


class Log:
    """An event log in a directory of its own, what it has said, and what it has written."""

    def __init__(self, directory: Path, **config: Any) -> None:
        self.said: list[str] = []
        self.log = EventLog(
            LogConfig(directory=str(directory), run="r", **config),
            ME,
            "broadcast",
            STOCKS,
            lambda: NOW_US,
            self.said.append,
        )
        self.place = self.log.directory

    def written(self) -> list[dict[str, Any]]:
        self.log.close()
        return records(self.place)

    def kinds(self) -> list[str]:
        return [record["kind"] for record in self.written()]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Log]]:
    started: list[Log] = []

    def begin(**config: Any) -> Log:
        started.append(Log(tmp_path, **config))
        return started[-1]

    yield begin
    for each in started:
        each.log.close()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "FLUSH_S", 0.01)


def everything(log: EventLog) -> None:
    """One of each."""
    log.on_started(0, {"links": 3})
    log.on_subscription(0, "added", "s1", Wanted.by(OTE))
    log.on_active(0, Active(PEER_SLOT, "s1", 0))
    log.on_report(0, Report(PEER_SLOT, Joined()))
    log.on_report(0, Report(0, LinkUp("random", OTHER)))
    log.on_report(0, Report(0, Placed(OTE.boxes[0], False)))
    log.on_publish(0, event(1), {"symbol": "OTE", "price": 8.5})
    log.on_reception(0, reception(2), 150)
    log.on_reception(0, reception(2, "duplicate"), 150)
    log.on_reception(0, reception(3, "touched"), 20)
    log.on_deliver(0, delivery(2))
    log.on_report(0, Report(0, Dropped(event(2).id, "link-full", OTHER)))
    log.on_report(0, Report(0, Control("split", 2.0, {"level": "1"})))
    log.on_report(0, Report(0, Control("split", 3.0, {"level": "2"})))
    log.on_alive(0)
    log.on_traffic(0, {"forward": Traffic(3, 450, 2, 300), "ping": Traffic(0, 0, 0, 0)})


# --- what is kept -----------------------------------------------------------------------------------------------------


def test_it_is_a_sink_of_the_driver(start: Callable[..., Log]) -> None:
    sink: Sink = start().log
    sink.on_active(0, Active(PEER_SLOT, "s", 0))


def test_records_are_those_of_the_contract(start: Callable[..., Log]) -> None:
    log = start()
    everything(log.log)
    found = log.written()
    common = {"v", "ts_us", "seq", "run", "peer", "boot", "participant", "overlay", "kind"}
    assert all(common <= set(record) for record in found)
    assert [record["seq"] for record in found] == list(range(1, len(found) + 1))
    assert {(record["run"], record["peer"], record["boot"], record["ts_us"]) for record in found} == {
        ("r", ME.peer, 7, NOW_US)
    }
    by_kind = {record["kind"]: record for record in found}
    assert [record["kind"] for record in found if record["kind"] == "receive"] == ["receive", "receive"]
    assert by_kind["publish"]["attributes"] == {"symbol": "OTE", "price": 8.5}
    assert [(r["subscription_id"], r["hops"], r["latency_us"]) for r in found if r["kind"] == "deliver"] == [
        ("s1", 2, NOW_US - 1_000),
        ("s2", 2, NOW_US - 1_000),
    ]
    assert by_kind["drop"] | {"reason": "link-full", "receiver": OTHER.peer} == by_kind["drop"]
    assert by_kind["traffic"] | {"message": "forward", "sent": 3, "received_bytes": 300} == by_kind["traffic"]
    assert (log.place.parent.name, log.place.name, files(log.place)) == ("run=r", f"peer={ME.peer}", ["000000.jsonl"])


def test_full_says_so_in_its_first_record(start: Callable[..., Log]) -> None:
    log = start(sample=0.25)
    everything(log.log)
    first = log.written()[0]
    assert (first["change"], first["log_detail"], first["log_sample"]) == ("started", "full", 0.25)
    assert first["schema"] == STOCKS.to_dict()
    assert first["parameters"] == {"links": 3}


def test_deliveries_leave_out_receptions_and_links(start: Callable[..., Log]) -> None:
    log = start(detail="deliveries")
    everything(log.log)
    found = log.written()
    kinds = {record["kind"] for record in found}
    assert kinds == {"peer", "subscription", "participant", "publish", "deliver", "drop", "control", "traffic"}
    assert [record["seq"] for record in found] == list(range(1, len(found) + 1))  # left out is not lost


def test_a_summary_has_sums_only(start: Callable[..., Log]) -> None:
    log = start(detail="summary")
    everything(log.log)
    log.log.on_publish(0, event(4), {})
    log.log.on_traffic(0, {"forward": Traffic(4, 600, 2, 300)})
    found = log.written()
    assert {record["kind"] for record in found} == {"peer", "traffic", "control"}
    assert found[0]["log_detail"] == "summary"
    sums = [
        (r["fact"], r["value"], {k: v for k, v in r["detail"].items() if k != "count"}, r["detail"]["count"])
        for r in found
        if r["kind"] == "control"
    ]
    assert sums == [
        ("sum.subscription", 1.0, {"change": "added"}, "1"),
        ("sum.subscription", 1.0, {"change": "active"}, "1"),
        ("sum.link", 1.0, {"change": "up", "link": "random"}, "1"),
        ("sum.participant", 1.0, {"change": "active"}, "1"),
        ("sum.publish", 1.0, {}, "1"),
        ("sum.receive", 1.0, {"result": "wanted"}, "1"),
        ("sum.receive", 1.0, {"result": "duplicate"}, "1"),
        ("sum.receive", 1.0, {"result": "touched"}, "1"),
        ("sum.deliver", 2.0, {}, "2"),
        ("sum.hops", 4.0, {}, "2"),
        ("sum.latency_us", 2.0 * (NOW_US - 1_000), {}, "2"),
        ("sum.drop", 1.0, {"reason": "link-full"}, "1"),
        ("sum.split", 5.0, {}, "2"),
        ("sum.publish", 1.0, {}, "1"),
    ]
    assert [r["change"] for r in found if r["kind"] == "peer"] == ["started", "joined", "alive"]


def test_sums_are_bounded(start: Callable[..., Log]) -> None:
    log = start(detail="summary")
    for number in range(3 * forms.SUMS_MAX):
        log.log.on_report(0, Report(0, Dropped("e", f"reason-{number}")))
        log.log.on_report(0, Report(0, Control(f"fact-{number}", 1.0)))
    log.log.on_traffic(0, {})
    sums = [record for record in log.written() if record["kind"] == "control"]
    assert len(sums) <= 2 * forms.SUMS_MAX + 1
    assert sum(int(record["detail"]["count"]) for record in sums) == 6 * forms.SUMS_MAX


def test_traffic_is_per_interval(start: Callable[..., Log]) -> None:
    log = start()
    for sent in (3, 3, 10):
        log.log.on_traffic(0, {"forward": Traffic(sent, 100 * sent, 1, 50)})
    assert [(r["sent"], r["sent_bytes"], r["received"]) for r in log.written()] == [(3, 300, 1), (7, 700, 0)]


def test_a_sample_keeps_whole_events_and_the_same_everywhere(tmp_path: Path) -> None:
    kept = []
    for name in ("a", "b"):
        log = Log(tmp_path / name, sample=0.3)
        for number in range(300):
            log.log.on_publish(0, event(number), {})
            log.log.on_reception(0, reception(number), 10)
            log.log.on_deliver(0, delivery(number, ("s1",)))
            log.log.on_report(0, Report(0, Dropped(event(number).id, "expired")))
        log.log.on_report(0, Report(PEER_SLOT, Lost(OTHER)))
        found = log.written()
        assert found[-1]["kind"] == "peer"
        assert [record["seq"] for record in found] == list(range(1, len(found) + 1))
        kept.append({kind: [r["event_id"] for r in found if r["kind"] == kind] for kind in ("publish", "deliver")})
        for kind in ("receive", "drop"):
            assert [r["event_id"] for r in found if r["kind"] == kind] == kept[-1]["publish"]
    assert kept[0] == kept[1]
    assert kept[0]["publish"] == kept[0]["deliver"]
    assert 60 <= len(kept[0]["publish"]) <= 120


def test_a_larger_sample_holds_the_smaller_one() -> None:
    ids = [event(number).id for number in range(2000)]
    small, large = ({id_ for id_ in ids if sampled(id_, rate)} for rate in (0.1, 0.5))
    assert small < large
    assert 150 < len(small) < 250
    assert not any(sampled(id_, 0.0) for id_ in ids)
    assert all(sampled(id_, 1.0) for id_ in ids)


def test_what_is_wanted_of_an_appended_attribute_is_described(start: Callable[..., Log]) -> None:
    """Boxes do not know it; the regions do, whatever else was appended since and however that has moved it."""
    before = STOCKS.append([Attribute("volume", "int", 0, 10)])
    wanted = Wanted.by(compile_filter("volume = 3 AND price > 5", before))
    longer = before.append([Attribute("broker", "string")])
    log = start()
    log.log.on_schema(0, longer)
    log.log.on_subscription(0, "added", "s1", wanted)
    told, added = log.written()
    assert (told["change"], told["schema"]) == ("schema", longer.to_dict())
    assert added["boxes"] == [{"price": {"ge": 5.0}}]
    assert added["regions"] == [{"price": {"gt": 5.0}, "volume": {"eq": 3}}]


def test_what_a_filter_says_is_written_where_its_boxes_hold_more(start: Callable[..., Log]) -> None:
    log = start()
    log.log.on_subscription(0, "added", "s1", Wanted.by(compile_filter("price > 8.302 AND price < 8.7", STOCKS)))
    [added] = log.written()
    assert added["boxes"] == [{"price": {"ge": 8.3, "le": 8.69}}]
    assert added["regions"] == [{"price": {"gt": 8.302, "lt": 8.7}}]
    assert "coarse" not in added


def test_a_filter_that_no_boxes_say_exactly_is_marked(start: Callable[..., Log]) -> None:
    text = " AND ".join(f"price <> {number / 100}" for number in range(100, 300))
    log = start()
    log.log.on_subscription(0, "added", "s1", Wanted.by(compile_filter(text, STOCKS)))
    assert log.written()[0]["coarse"] is True


# --- when it is written -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick")
def test_what_happened_is_on_disk_before_it_is_closed(start: Callable[..., Log]) -> None:
    log = start()
    log.log.on_alive(0)
    open_file = log.place / "000000.jsonl.open"
    until(lambda: open_file.exists() and open_file.read_bytes().endswith(b"\n"))
    assert json.loads(open_file.read_bytes())["change"] == "alive"


def test_closing_writes_everything_and_is_done_once(start: Callable[..., Log]) -> None:
    log = start()
    for number in range(10_000):
        log.log.on_reception(0, reception(number), 10)
    log.log.close()
    log.log.close()
    assert len(records(log.place)) == 10_000
    assert log.log.lost == 0
    assert not log.said


def test_an_earlier_life_is_closed_at_the_start(start: Callable[..., Log], tmp_path: Path) -> None:
    place = tmp_path / "run=r" / f"peer={ME.peer}"
    place.mkdir(parents=True)
    (place / "000000.jsonl.open").write_bytes(b'{"boot":6}\n{"boo')
    log = start()
    assert files(place) == ["000000.jsonl"]
    log.log.on_alive(0)
    assert [record["boot"] for record in log.written()] == [6, 7]


# --- when it cannot be written ----------------------------------------------------------------------------------------


@pytest.mark.usefixtures("quick")
def test_a_full_disk_is_told_once_and_shows_as_a_gap(
    start: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = FullDisk()
    monkeypatch.setattr(os, "write", disk.write)
    log = start()
    log.log.on_alive(0)
    first = log.place / "000000.jsonl.open"
    until(lambda: first.exists() and first.stat().st_size > 0)  # written, and not merely opened
    disk.full = True
    for lost in (1, 2, 3):
        log.log.on_alive(0)
        until(lambda lost=lost: log.log.lost == lost)  # type: ignore[misc]
    until(lambda: len(log.said) == 1)
    assert log.said == [f"event log: {log.place}: No space left on device; records are dropped until it recovers"]
    disk.full = False
    until(lambda: len(log.said) == 2)
    assert log.said[1] == f"event log: {log.place} is written again; 3 records are lost in all"
    log.log.on_alive(0)
    found = log.written()
    assert [record["seq"] for record in found] == [1, 5, 6]
    assert (found[1]["fact"], found[1]["value"]) == ("log.lost", 3.0)


@pytest.mark.usefixtures("quick")
def test_a_disk_that_hangs_never_holds_up_the_peer(start: Callable[..., Log], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "QUEUE_ENTRIES", 100)
    hanging, go_on = Flag(), Flag()
    flush = Segments.flush

    def hang(self: Segments) -> None:
        if self._buffer:
            hanging.set()
            go_on.wait(30)
        flush(self)

    monkeypatch.setattr(Segments, "flush", hang)
    log = start()
    log.log.on_alive(0)
    assert hanging.wait(10)
    for number in range(150):
        log.log.on_reception(0, reception(number), 10)  # returns, though nobody takes anything away
    assert log.said == [f"event log: {log.place} is too slow; records are dropped until it keeps up"]
    assert log.log.lost == 50
    go_on.set()
    until(lambda: len(log.said) == 2)
    log.log.on_alive(0)
    found = log.written()
    assert [record["seq"] for record in found] == [*range(1, 102), 152, 153]
    assert "50 records are lost in all" in log.said[1]


def test_the_queue_is_bounded_in_bytes(start: Callable[..., Log], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_module, "QUEUE_BYTES", 100_000)
    monkeypatch.setattr(log_module, "FLUSH_S", 60.0)
    log = start()
    big = delivery(body=b"x" * 30_000)
    for _ in range(10):
        log.log.on_deliver(0, big)
    assert log.log.lost == 6


@pytest.mark.usefixtures("quick")
def test_what_no_record_can_be_made_of_costs_itself_only(start: Callable[..., Log]) -> None:
    log = start()
    log.log.on_deliver(0, delivery(body=b"\xc1 made up"))
    log.log.on_report(0, Report(0, Rejected(OTHER, "a lone \ud800")))
    log.log.on_alive(0)
    until(lambda: log.log.lost == 2)
    found = log.written()
    assert found[0]["change"] == "alive"
    assert found[0]["seq"] > 2  # the gap shows


def test_a_place_that_cannot_be_used_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(NotADirectoryError):
        Log(file)


@pytest.mark.usefixtures("quick")
def test_a_disk_that_is_full_at_the_start_may_have_room_later(
    start: Callable[..., Log], monkeypatch: pytest.MonkeyPatch
) -> None:
    full = True
    mkdir = Path.mkdir

    def make(self: Path, *args: Any, **kwargs: Any) -> None:
        if full:
            raise OSError(28, "No space left on device")
        mkdir(self, *args, **kwargs)

    monkeypatch.setattr(Path, "mkdir", make)
    log = start()
    log.log.on_alive(0)
    until(lambda: log.log.lost == 1 and bool(log.said))
    assert "No space left on device" in log.said[0]
    full = False
    until(lambda: len(log.said) == 2)
    log.log.on_alive(0)
    assert [record["seq"] for record in log.written()] == [2, 3]


@pytest.mark.parametrize("detail", ["full", "deliveries", "summary"])
def test_every_detail_survives_every_fact(start: Callable[..., Log], detail: Detail) -> None:
    """What overlays may report is open-ended: none of it may end the log."""
    log = start(detail=detail)
    everything(log.log)
    everything(log.log)
    assert log.kinds()
    assert log.log.lost == 0
