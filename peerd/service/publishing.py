"""Publishing: an application's event is checked, let in or pushed back, and handed to the overlay.

Only here is anybody pushed back (`peerd/service/ingress.py`). An event that repeats the id of one before is answered as
that one was, and goes nowhere.
"""

from binascii import Error as BinasciiError
from binascii import a2b_base64
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from peerd.documents import NewEvent
from peerd.driver import Driver
from peerd.service.config import ServiceConfig
from peerd.service.ingress import PublishedIds, TokenBucket
from peerd.service.refusals import EventTooLarge, InvalidEvent, NotReady, PushedBack
from protocols.model.event import LIFETIME_MS, Attributes, Event
from protocols.model.ids import event_id, split_event_id
from protocols.model.schema import SchemaError
from protocols.model.xpath.document import document_of
from protocols.overlay import Publish

DEPTH_MAX: Final = 64
"""Arrays and objects within one another in a payload. Our choice: far below where decoders give up."""
ROOM_S: Final = 5.0
"""When to come again if events can no more be told apart. A guess: ids go in generations of 120 s."""


class Published(NamedTuple):
    id: str
    repeated: bool
    """The publisher's id was known: this is the answer of then, and nothing was published."""


class Publisher:
    """`queued` tells how many events wait in the network; `documents`: payloads are matched as XML, too. `listeners`
    are told of each event that goes out."""

    def __init__(
        self,
        driver: Driver,
        config: ServiceConfig,
        queued: Callable[[], int],
        now_us: Callable[[], int],
        documents: bool,
    ) -> None:
        self.listeners: list[Callable[[int, Event, Attributes], None]] = []
        self._driver = driver
        self._peer = driver.peer
        self._config = config
        self._queued = queued
        self._now_us = now_us
        self._documents = documents
        self._bucket = TokenBucket(config.publish_rate, config.publish_burst)
        self._ids = PublishedIds(config.ids_max)

    def publish(self, wanted: NewEvent) -> Published:
        """Check an event and hand it to the overlay."""
        now_ms = self._driver.now_ms()
        id_ = wanted.id
        if id_ is not None:
            sequence = self._ids.answer(now_ms, id_)
            if sequence is not None:
                return Published(event_id(self._peer.me.peer, self._peer.me.boot, sequence), True)
        self._admit(now_ms, id_ is not None)
        event, attributes = self._event(wanted)
        for listener in self.listeners:
            listener(now_ms, event, attributes)
        self._driver.step(Publish(event))
        if id_ is not None:
            self._ids.remember(now_ms, id_, split_event_id(event.id)[2])
        return Published(event.id, False)

    def _admit(self, now_ms: int, named: bool) -> None:
        """Let an event in, or say why not. `named`: it brings an id that has to be remembered."""
        if not self._peer.ready:
            raise NotReady(
                "this peer does not stand in the overlay yet" if not self._peer.leaving else "this peer is leaving", 1.0
            )
        queued = self._queued()
        if queued > self._config.queue_events_max:
            raise PushedBack(f"{queued} events wait in the network's queues", 1.0)
        if not self._peer.has_room(now_ms):  # it would be dropped as one that nobody can tell from a copy
            raise PushedBack("the overlay remembers as many events as it can", ROOM_S)
        wait_s = self._ids.room_in_s(now_ms) if named else 0.0
        if wait_s:
            raise PushedBack(f"{len(self._ids)} ids of publishers are remembered, and no more fit", wait_s)
        wait_s = self._bucket.take(now_ms)
        if wait_s:
            raise PushedBack(f"more than {self._config.publish_rate:g} events a second", wait_s)

    def _event(self, wanted: NewEvent) -> tuple[Event, Attributes]:
        payload = wanted.payload
        if wanted.payload_base64 is not None:
            payload = _from_base64(wanted)
        elif _depth_exceeds(payload, DEPTH_MAX):
            raise InvalidEvent(f"the payload is nested more than {DEPTH_MAX} deep")
        ttl_ms = LIFETIME_MS if wanted.ttl_s is None else max(1, int(wanted.ttl_s * 1000))
        try:
            attributes = self._peer.schema.validate(wanted.attributes)
            event = self._peer.new_event(
                attributes,
                self._now_us(),
                ttl_ms,
                payload=payload,
                content_type=wanted.content_type or "",
                headers=wanted.headers,
            )
        except SchemaError as error:
            raise InvalidEvent(str(error)) from None
        except (ValueError, OverflowError, TypeError, RecursionError) as error:
            raise InvalidEvent(f"the event cannot be encoded: {error}") from None
        if self._documents and (document := document_of(event.body)) is not None and document.fault:
            raise InvalidEvent(document.fault)
        if len(event.body) > self._config.max_event_bytes:
            raise EventTooLarge(f"{len(event.body)} bytes encoded; an event has at most {self._config.max_event_bytes}")
        return event, attributes

    def sweep(self, now_ms: int) -> None:
        """Let go of ids that need not be remembered any more."""
        self._ids.forget_old(now_ms)


def _from_base64(wanted: NewEvent) -> bytes:
    if wanted.payload is not None:
        raise InvalidEvent("an event has a payload or a payload_base64, not both")
    try:
        return a2b_base64(wanted.payload_base64 or "", strict_mode=True)
    except (BinasciiError, ValueError) as error:
        raise InvalidEvent(f"payload_base64: {error}") from None


def _depth_exceeds(value: Any, depth: int) -> bool:
    """Whether arrays and objects stand within one another more than `depth` deep."""
    if isinstance(value, dict):
        value = value.values()
    elif not isinstance(value, list):
        return False
    if depth == 0:
        return True
    return any(_depth_exceeds(inner, depth - 1) for inner in value if isinstance(inner, (dict, list)))
