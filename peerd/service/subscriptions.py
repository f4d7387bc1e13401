"""The subscriptions of one peer: what an application asked for, what has come for it, and who waits for what.

A subscription is a filter or an XPath (`peerd/service/interests.py` works out what it means) with a log of deliveries
(`peerd/service/deliveries.py`). It is handed to the peer's state machine at once, and is *active* when that says that
it stands in the overlay. One that nobody reads for `idle_s` is removed; those of an application survive a restart in a
store, those of a connection end with it.
"""

import logging
from collections.abc import Callable, Iterable
from re import compile as pattern
from secrets import token_hex
from typing import Any, Final, Literal, Protocol

import msgspec
from msgspec import UNSET

from peerd import documents
from peerd.documents import NewSubscription, time_text
from peerd.driver import Driver
from peerd.service.deliveries import RETAIN_MAX, RETAIN_S, Budget, Deliveries, Reader
from peerd.service.interests import Compiled, Interests, is_the_same, pattern_of, shown_warnings, texts
from peerd.service.refusals import InvalidSubscription, TooManySubscriptions, UnknownSubscription
from peerd.service.waiting import Waiters, settle, wait
from peerd.trace import NOTHING, Wanted
from protocols.model.filter import FilterError
from protocols.model.ids import PEER_SLOT
from protocols.model.xpath.compiled import CompiledXPath
from protocols.overlay import Active, Deliver, Dropped, Report
from protocols.peer import AddSubscription, ChangeSubscription, RemoveSubscription

IDLE_S: Final = 300.0
"""A subscription that nobody reads for so long is removed (contract)."""

_id: Final = pattern(r"[A-Za-z0-9][A-Za-z0-9._~-]{0,63}").fullmatch
_log = logging.getLogger("peerd.service")


class SubscriptionRecord(msgspec.Struct, frozen=True):
    """What has to survive a restart of a subscription."""

    id: str
    filter: str
    retain_s: float = RETAIN_S
    retain_max: int = RETAIN_MAX
    idle_s: float | None = IDLE_S
    xpath: str = ""
    """Instead of a filter."""


class SubscriptionStore(Protocol):
    """Keeps subscriptions over a restart."""

    def subscription_changed(self, record: SubscriptionRecord) -> None: ...
    def subscription_removed(self, id_: str) -> None: ...


class Held(msgspec.Struct):
    """A subscription as its peer holds it."""

    record: SubscriptionRecord
    compiled: Compiled
    deliveries: Deliveries
    created_us: int
    lasting: bool
    """Survives a restart; one that belongs to a connection does not."""
    version: int = 0
    active: bool = False
    waiters: Waiters = []


def random_id() -> str:
    return token_hex(8)


class Subscriptions:
    """`listeners` are told of each change: time, what changed, which one, and what it wants now."""

    def __init__(
        self,
        driver: Driver,
        interests: Interests,
        budget: Budget,
        count_max: int,
        now_us: Callable[[], int],
        *,
        store: SubscriptionStore | None = None,
        defaults: SubscriptionRecord = SubscriptionRecord("", ""),  # noqa: B008 (a frozen value)
        new_id: Callable[[], str] = random_id,
    ) -> None:
        self.listeners: list[Callable[[int, str, str, Wanted], None]] = []
        self._driver = driver
        self._peer = driver.peer
        self._interests = interests
        self._budget = budget
        self._max = count_max
        self._now_us = now_us
        self._store = store
        self._defaults = defaults
        self._new_id = new_id
        self._held: dict[str, Held] = {}
        self._epoch = 0

    def close(self) -> None:
        """End everything that waits. Subscriptions stay in the store."""
        for held in self._held.values():
            held.deliveries.close()
            settle(held.waiters, False)
        self._held.clear()

    def add(
        self,
        wanted: NewSubscription,
        id_: str | None = None,
        lasting: bool = True,
        compiled: Compiled | None = None,
    ) -> documents.Subscription:
        """Subscribe, under a name of the caller's or a new one. `compiled`: what `compile` made of it."""
        if id_ is None:
            id_ = self._new_id()
        elif _id(id_) is None:
            raise InvalidSubscription(
                "an id has 1 to 64 of the characters A-Z a-z 0-9 . _ ~ -, and begins with one of the first"
            )
        if id_ in self._held:
            raise InvalidSubscription(f"there is a subscription {id_!r} already")
        if len(self._held) >= self._max:
            raise TooManySubscriptions(f"this peer holds {self._max} subscriptions already")
        if compiled is None:
            compiled = self._interests.compile_now(wanted, self._others(id_))
        record = _merged(msgspec.structs.replace(self._defaults, id=id_, **texts(compiled)), wanted)
        self._hold(record, compiled, lasting)
        if lasting and self._store is not None:
            self._store.subscription_changed(record)
        return self.shown(id_)

    def restore(self, records: Iterable[SubscriptionRecord]) -> list[str]:
        """Take up the subscriptions of an earlier life; the ids of those that cannot be."""
        failed = []
        for record in records:
            if record.id in self._held:  # somebody was quicker, and wants it as it is now
                continue
            try:
                text: dict[str, Any] = {"xpath": record.xpath} if record.xpath else {"filter": record.filter}
                wanted = NewSubscription(**text)
                self._hold(record, self._interests.compile_now(wanted, self._others(record.id)), True)
            except (FilterError, InvalidSubscription) as error:
                _log.warning("subscription %s is not taken up again: %s", record.id, error)
                failed.append(record.id)
        return failed

    def _hold(self, record: SubscriptionRecord, compiled: Compiled, lasting: bool) -> None:
        now_ms = self._driver.now_ms()
        self._epoch = max(self._epoch + 1, now_ms)
        log = Deliveries(self._epoch, self._driver.now_ms, self._lost, self._budget, record.retain_s, record.retain_max)
        self._held[record.id] = Held(record, compiled, log, self._now_us(), lasting)
        self._tell(now_ms, "added", record.id, compiled)
        self._driver.step(
            AddSubscription(record.id, compiled.text, compiled.boxes, compiled.matcher, pattern_of(compiled))
        )

    def change(self, id_: str, wanted: NewSubscription, compiled: Compiled | None = None) -> documents.Subscription:
        """Give a subscription another filter, without a gap in delivery, or the same one and other limits. Limits that
        are left out stay as they were."""
        held = self._find(id_)
        if is_the_same(held.compiled, wanted):
            compiled = held.compiled
        elif compiled is None:
            compiled = self._interests.compile_now(wanted, self._others(id_))
        held.record = _merged(msgspec.structs.replace(held.record, **texts(compiled)), wanted)
        held.deliveries.retain_ms = int(held.record.retain_s * 1000)
        held.deliveries.retain_max = held.record.retain_max
        held.deliveries.touched_ms = self._driver.now_ms()
        if compiled is not held.compiled:
            held.compiled = compiled
            held.version += 1
            held.active = False
            self._tell(self._driver.now_ms(), "updated", id_, compiled)
            self._driver.step(
                ChangeSubscription(id_, compiled.text, compiled.boxes, compiled.matcher, pattern_of(compiled))
            )
        if held.lasting and self._store is not None:
            self._store.subscription_changed(held.record)
        return self.shown(id_)

    def remove(self, id_: str) -> None:
        self._find(id_)
        self._remove(id_, False)

    def _remove(self, id_: str, abandoned: bool) -> None:
        held = self._held.pop(id_)
        held.deliveries.close(abandoned)
        settle(held.waiters, False)
        self._tell(self._driver.now_ms(), "removed", id_, None)
        self._driver.step(RemoveSubscription(id_))
        if held.lasting and self._store is not None:
            self._store.subscription_removed(id_)

    def __contains__(self, id_: str) -> bool:
        return id_ in self._held

    def __len__(self) -> int:
        return len(self._held)

    def all(self) -> list[documents.Subscription]:
        return [self._shown(held) for held in self._held.values()]

    def shown(self, id_: str) -> documents.Subscription:
        return self._shown(self._find(id_))

    async def wait_active(self, id_: str, seconds: float) -> bool:
        """Wait until the subscription stands in the overlay as it was last asked for; False if it does not in time."""
        held = self._find(id_)
        if held.active or seconds <= 0:
            return held.active
        return await wait(held.waiters, seconds)

    def _find(self, id_: str) -> Held:
        held = self._held.get(id_)
        if held is None:
            raise UnknownSubscription(id_)
        return held

    async def compile(self, wanted: NewSubscription, id_: str | None = None) -> Compiled:
        """What an application wants, ready to be handed to `add` or `change`. Deliveries go on meanwhile."""
        return await self._interests.compile(wanted, self._others(id_))

    def _others(self, id_: str | None) -> dict[str, Compiled]:
        return {other: held.compiled for other, held in self._held.items() if other != id_}

    def _shown(self, held: Held) -> documents.Subscription:
        record, log = held.record, held.deliveries
        state: Literal["active", "joining"] = "active" if held.active else "joining"
        return documents.Subscription(
            record.id,
            record.filter,
            state,
            held.compiled.describe_boxes(self._peer.schema),
            shown_warnings(held.compiled),
            record.retain_s,
            record.retain_max,
            record.idle_s,
            len(log),
            log.oldest,
            log.latest,
            log.readers,
            time_text(held.created_us),
            record.xpath or UNSET,
        )

    def _tell(self, now_ms: int, change: str, id_: str, compiled: Compiled | None) -> None:
        wanted = NOTHING
        if isinstance(compiled, CompiledXPath):
            wanted = Wanted(compiled.text, compiled.boxes, coarse=True)  # records tell boxes, not patterns
        elif compiled is not None:
            wanted = Wanted.by(compiled)
        for listener in self.listeners:
            listener(now_ms, change, id_, wanted)

    def sweep(self, now_ms: int) -> None:
        """Let go of old deliveries and of subscriptions that nobody reads."""
        for id_, held in list(self._held.items()):
            held.deliveries.expire(now_ms)
            idle_s = held.record.idle_s
            if idle_s is not None and held.deliveries.idle_ms() >= idle_s * 1000:
                _log.info("subscription %s is removed: nobody has read it for %g s", id_, idle_s)
                self._remove(id_, True)

    def reader(self, id_: str, after: str | None, wake: Callable[[], None]) -> Reader:
        """Somebody who reads a subscription's deliveries; `wake` is called when there may be more of them."""
        return self._find(id_).deliveries.reader(after, wake)

    def _lost(self, event_id: str) -> None:
        self._driver.report(None, Report(PEER_SLOT, Dropped(event_id, "subscriber")))

    # --- told by the service ------------------------------------------------------------------------------------------

    def on_active(self, effect: Active) -> None:
        held = self._held.get(effect.id)
        if held is not None and effect.version == held.version:
            held.active = True
            settle(held.waiters, True)

    def on_deliver(self, effect: Deliver) -> None:
        event = effect.event  # its body is sound: the peer has matched what is in there
        now_us = self._now_us()
        for id_ in effect.subscription_ids:
            held = self._held.get(id_)
            if held is not None:
                held.deliveries.push(now_us, event.id, event.body, effect.hops)


def _merged(record: SubscriptionRecord, wanted: NewSubscription) -> SubscriptionRecord:
    given = {key: getattr(wanted, key) for key in ("retain_s", "retain_max", "idle_s")}
    return msgspec.structs.replace(record, **{key: value for key, value in given.items() if value is not UNSET})
