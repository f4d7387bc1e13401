"""What survives a restart: identity, boot, swarm, contacts and subscriptions.

    lock                   held while a daemon uses the directory
    identity.json          the peer's id, written once
    boot.json              the number of this life
    swarm.json             name, overlay, parameters and schema, so that a restarted peer rejoins its swarm
    contacts.json          some endpoints of that swarm
    subscriptions.jsonl    a line for each change; rewritten when most of its lines are outdated

`Store` keeps them in a directory, `MemoryStore` in memory where none was given; both are a `Storage`, and so is
`Background`, which lets an event loop write to one without waiting for the disk.

The files are JSON: they are small and rarely written, so the speed of MessagePack would gain nothing, and an operator
in trouble can read them, mend them and compare them with standard tools.
"""

from peerd.store.background import Background
from peerd.store.directory import Store
from peerd.store.memory import MemoryStore
from peerd.store.model import CONTACTS_MAX, Storage, StoredSubscription, StoredSwarm, StoreError

__all__ = [
    "CONTACTS_MAX",
    "Background",
    "MemoryStore",
    "Storage",
    "Store",
    "StoreError",
    "StoredSubscription",
    "StoredSwarm",
]
