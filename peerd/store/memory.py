"""A store without a place: nothing survives, and every start is another peer."""

from collections.abc import Mapping, Sequence

from peerd.store.model import (
    StoredSubscription,
    StoredSwarm,
    chosen_contacts,
    new_identity,
    next_boot,
)


class MemoryStore:
    def __init__(self, now_ms: int) -> None:
        self.peer = new_identity()
        self.boot = next_boot(None, now_ms)
        self.swarm: StoredSwarm | None = None
        self.contacts: tuple[str, ...] = ()
        self._subscriptions: dict[str, StoredSubscription] = {}

    @property
    def subscriptions(self) -> Mapping[str, StoredSubscription]:
        return self._subscriptions

    def save_swarm(self, swarm: StoredSwarm) -> None:
        self.swarm = swarm

    def save_contacts(self, endpoints: Sequence[str]) -> None:
        self.contacts = chosen_contacts(endpoints)

    def put_subscription(self, subscription: StoredSubscription) -> None:
        self._subscriptions[subscription.id] = subscription

    def remove_subscription(self, id_: str) -> None:
        self._subscriptions.pop(id_, None)

    def close(self) -> None:
        pass
