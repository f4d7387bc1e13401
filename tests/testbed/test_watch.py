"""What a peer tells the steering process."""

from peerd.testbed.lines import Batch
from peerd.testbed.watch import Watch, now_us
from protocols.model.box import Point
from protocols.model.event import Event
from protocols.model.ids import PEER_SLOT, Address
from protocols.overlay import Active, Deliver, Dropped, Joined, Left, Lost, Reception, Report
from tests.testbed.support import until

SOMEBODY = Address("b", 1, 0, "b:1")
EVENT = Event("a-1-1", Point((1,)))


def happen(watch: Watch) -> None:
    """Something of everything, at peer time 5, which nobody is interested in."""
    watch.on_report(5, Report(0, Joined()))
    watch.on_report(5, Report(PEER_SLOT, Joined()))
    watch.on_active(5, Active(PEER_SLOT, "s1", 0))
    watch.on_publish(5, EVENT, {})
    watch.on_deliver(5, Deliver(PEER_SLOT, EVENT, ("s1", "s2"), 2))
    for _ in range(2):
        watch.on_reception(5, Reception(0, "a-1-1", SOMEBODY, 1, "wanted"), 100)
    watch.on_report(5, Report(PEER_SLOT, Dropped("a-1-1", "link-full")))
    watch.on_report(5, Report(PEER_SLOT, Lost(SOMEBODY)))
    watch.on_report(5, Report(0, Left()))


async def test_everything_in_one_batch() -> None:
    told: list[Batch] = []
    ready: list[int] = []
    before = now_us()
    happen(Watch(told.append, lambda: ready.append(1), True))
    assert ready == [1]
    assert told == []  # the peer goes on first
    await until(lambda: told, "a batch")
    [batch] = told
    [(id_, ids, hops, at_us)] = batch.delivered
    assert (id_, ids, hops) == ("a-1-1", ("s1", "s2"), 2)
    assert before <= at_us <= now_us()
    assert [id_ for id_, _ in batch.published] == ["a-1-1"]
    assert [id_ for id_, _ in batch.active] == ["s1"]
    assert [(slot, joined) for slot, joined, _ in batch.stood] == [(0, True), (PEER_SLOT, True), (0, False)]
    assert (batch.receptions, batch.dropped, batch.counts) == ({"wanted": 2}, {"link-full": 1}, {"lost": 1})


async def test_no_batch_without_news() -> None:
    told: list[Batch] = []
    watch = Watch(told.append, lambda: None, True)
    watch.on_active(5, Active(PEER_SLOT, "s1", 0))
    await until(lambda: told, "a batch")
    other: list[Batch] = []
    Watch(other.append, lambda: None, True).on_active(5, Active(PEER_SLOT, "s2", 0))
    await until(lambda: other, "the batch of another, which takes as long as a second one would")
    assert len(told) == 1


async def test_nobody_is_interested() -> None:
    told: list[Batch] = []
    ready: list[int] = []
    happen(Watch(told.append, lambda: ready.append(1), False))
    other: list[Batch] = []
    happen(Watch(other.append, lambda: None, True))
    await until(lambda: other, "the batch of another, which began later")
    assert told == []
    assert ready == [1]
