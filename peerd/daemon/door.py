"""The door: what other peers are told of the swarm, who is let in, and what they hand in.

The network asks here (`peerd.net.Receiver`). What concerns the swarm is answered as it was found, with the schema that
the peer knows by now; what concerns the peer goes to the driver, without a call between: there is one for every
message.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress

import msgspec

from peerd import swarms
from peerd.driver import Driver
from peerd.net import Greeting, Refusal
from peerd.net.greeting import refusal
from peerd.store import Storage, StoredSwarm
from peerd.wire import Frame
from protocols.model.ids import Address
from protocols.model.schema import Schema, SchemaError
from protocols.overlay import Message
from protocols.peer import AppendAttributes

_log = logging.getLogger("peerd.daemon")


class Door:
    """Stands once the driver is there (`hand_to`); nobody may come before that."""

    received: Callable[[Address, int, Message, int], None]
    arrived: Callable[[Iterator[Frame], Mapping[int, Address]], None]
    undelivered: Callable[[int, Address, Message, bool], None]
    dropped: Callable[[Address, Message, str], None]

    def __init__(self, swarm: StoredSwarm, store: Storage, leaving: Callable[[], bool]) -> None:
        self._swarm = swarm
        self._swarm_id = swarms.id_of(swarm)
        self._store = store
        self._leaving = leaving

    def hand_to(self, driver: Driver) -> None:
        self._driver = driver
        self._peer = driver.peer
        self._attributes = self._peer.schema.to_dict()["attributes"]
        self.received, self.arrived = driver.received, driver.arrived
        self.undelivered, self.dropped = driver.undelivered, driver.dropped

    def greeting(self) -> Greeting:
        swarm, peer = self._swarm, self._peer
        return Greeting(
            swarm_id=self._swarm_id,
            swarm=swarm.name,
            overlay=swarm.overlay,
            parameters=swarm.parameters,
            schema=self._attributes,
            schema_version=peer.schema.version,
            peer=peer.me.peer,
            boot=peer.me.boot,
            at=peer.me.at,
        )

    def accepts(self, greeting: Greeting) -> Refusal | None:
        if self._leaving():
            return refusal("busy", "this peer is about to leave")
        if greeting.swarm_id == self._swarm_id and greeting.schema == self._attributes:
            return None  # as almost everybody's; gossip makes a connection a second
        return swarms.check(greeting, self._swarm)

    def greeted(self, greeting: Greeting) -> None:
        """The other peer may know attributes that were appended while we did not look."""
        if greeting.schema != self._attributes:
            with suppress(SchemaError):  # it was looked over before: `accepts`
                self._driver.step(AppendAttributes(Schema.from_dict({"attributes": greeting.schema})))

    def schema_changed(self) -> None:
        self._swarm = msgspec.structs.replace(self._swarm, schema=self._peer.schema)
        self._attributes = self._peer.schema.to_dict()["attributes"]
        self._store.save_swarm(self._swarm)

    def rejected(self, sender: Address | None, at: str, reason: str) -> None:
        _log.warning("refused %s: %s", sender or at, reason)
        self._driver.rejected(sender, at, reason)
