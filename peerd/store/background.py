"""A storage that an event loop may write to: it returns at once, and a thread of its own waits for the disk.

What is written under one name (the swarm, the contacts, one subscription) replaces what still waits under that name, so
a slow disk makes no queue longer than there are things to write. Order is kept but for that. What has not reached the
disk when the process is killed is lost: the last change or two.
"""

from collections.abc import Callable, Mapping, Sequence
from threading import Condition, Thread
from typing import Final

from peerd.store.model import Storage, StoredSubscription, StoredSwarm

CLOSE_S: Final = 5.0
"""Patience with a disk that hangs when the peer stops."""


class Background:
    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.peer, self.boot = storage.peer, storage.boot
        self.swarm, self.contacts = storage.swarm, storage.contacts
        self._waiting: dict[str, Callable[[], None]] = {}
        self._changed = Condition()
        self._closing = False
        self._thread = Thread(target=self._run, name="peerd-store", daemon=True)
        self._thread.start()

    @property
    def subscriptions(self) -> Mapping[str, StoredSubscription]:
        """Those of which the disk knows."""
        return self._storage.subscriptions

    def save_swarm(self, swarm: StoredSwarm) -> None:
        self.swarm = swarm
        self._later("swarm", lambda: self._storage.save_swarm(swarm))

    def save_contacts(self, endpoints: Sequence[str]) -> None:
        kept = tuple(endpoints)
        self._later("contacts", lambda: self._storage.save_contacts(kept))

    def put_subscription(self, subscription: StoredSubscription) -> None:
        self._later(f"subscription {subscription.id}", lambda: self._storage.put_subscription(subscription))

    def remove_subscription(self, id_: str) -> None:
        self._later(f"subscription {id_}", lambda: self._storage.remove_subscription(id_))

    def close(self) -> None:
        """Write what waits, and close the storage. Blocks, but not for ever."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(CLOSE_S)

    def _later(self, name: str, write: Callable[[], None]) -> None:
        with self._changed:
            self._waiting.pop(name, None)
            self._waiting[name] = write
            self._changed.notify()

    def _run(self) -> None:
        while True:
            with self._changed:
                while not self._waiting and not self._closing:
                    self._changed.wait()
                if not self._waiting:
                    break
                write = self._waiting.pop(next(iter(self._waiting)))
            write()
        self._storage.close()
