"""What a peer's applications have asked for, and which of it an event matches.

A subscription has versions. A changed filter is a new version, placed beside the one before it, which is served until
the new one stands in the overlay; so there is no gap. What is placed is named by a key, subscription and version
together: to the participants (`grouping`, or `individual` where the overlay takes each box by itself), and to the local
index, which decides exactly.

An event is delivered once, over all subscriptions: whichever participant it reaches first serves all of them.

Every change returns what participants have to do for it. What applications have to know goes to `out`.
"""

import msgspec

from protocols.grouping import Change, Grouping
from protocols.individual import Individual
from protocols.inputs import AddSubscription, ChangeSubscription, RemoveSubscription
from protocols.model.event import Event, decode_body
from protocols.model.index import LocalIndex
from protocols.model.xpath.document import document_of
from protocols.overlay import Dropped, Outbox
from protocols.parts.seen import FULL, KEEP_MS, NEW, Seen


class Subscription(msgspec.Struct):
    """The version that is active, and the one that is on its way."""

    id: str
    version: int
    active: int | None = None

    def key(self, version: int) -> str:
        return f"{self.id}#{version}"


class Subscriptions:
    __slots__ = ("_grouping", "_index", "_keys", "_out", "_seen", "held")

    def __init__(self, grouping: Grouping | Individual, seen_max: int, out: Outbox) -> None:
        self._grouping = grouping
        self._out = out
        self._index = LocalIndex()
        self._keys: dict[str, str] = {}  # key -> subscription id
        self._seen = Seen(KEEP_MS, seen_max)
        self.held: dict[str, Subscription] = {}

    def has_room(self, now_ms: int) -> bool:
        return self._seen.has_room(now_ms)

    # --- changes ------------------------------------------------------------------------------------------------------

    def add(self, item: AddSubscription) -> list[Change]:
        if item.id in self.held:
            raise ValueError(f"there is a subscription {item.id} already")
        subscription = self.held[item.id] = Subscription(item.id, 0)
        return self._place(subscription, item)

    def change(self, item: ChangeSubscription) -> list[Change]:
        subscription = self.held[item.id]
        changes: list[Change] = []
        if subscription.version != subscription.active:
            changes += self._withdraw(subscription.key(subscription.version))  # overtaken before it was active
        subscription.version += 1
        return changes + self._place(subscription, item)

    def remove(self, item: RemoveSubscription) -> list[Change]:
        subscription = self.held.pop(item.id)
        versions = {subscription.version: None}
        if subscription.active is not None:
            versions[subscription.active] = None
        return [change for version in versions for change in self._withdraw(subscription.key(version))]

    def activated(self, slot: int, version: int, id_: str) -> list[Change]:
        """A participant's box, or one of its boxes, stands in this version."""
        keys = self._grouping.activated(slot, version, id_)
        return [change for key in keys for change in self._activate(key)]

    def _place(self, subscription: Subscription, item: AddSubscription | ChangeSubscription) -> list[Change]:
        key = subscription.key(subscription.version)
        self._keys[key] = subscription.id
        self._index.add(key, item.boxes, item.matcher, item.pattern)
        former = None if subscription.active is None else subscription.key(subscription.active)
        changes = self._grouping.place(key, item.boxes, former, item.pattern)
        if self._grouping.is_active(key):
            changes += self._activate(key)
        return changes

    def _withdraw(self, key: str) -> list[Change]:
        del self._keys[key]
        self._index.remove(key)
        return self._grouping.remove(key)

    def _activate(self, key: str) -> list[Change]:
        """A version of a subscription stands in the overlay: from here on the version before it is not needed."""
        subscription = self.held[self._keys[key]]
        former, subscription.active = subscription.active, subscription.version
        self._out.active(subscription.id, subscription.version)
        return [] if former is None else self._withdraw(subscription.key(former))

    # --- events -------------------------------------------------------------------------------------------------------

    def offer(self, now_ms: int, event: Event, hops: int) -> None:
        """Deliver an event to the subscriptions that match it exactly, unless that was done before."""
        admission = self._seen.admit(now_ms, event.id)
        if admission is not NEW:
            if admission is FULL:
                self._out.report(Dropped(event.id, "seen-full"))
            return
        try:
            keys = self._index.match(
                event.point, lambda: decode_body(event.body).attributes, lambda: document_of(event.body)
            )
        except msgspec.DecodeError:
            self._out.report(Dropped(event.id, "undecodable"))
            return
        if keys:
            self._out.deliver(event, hops, tuple(dict.fromkeys([self._keys[key] for key in keys])))
