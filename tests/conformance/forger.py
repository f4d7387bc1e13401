"""Forged messages: well-formed, within the bounds of their types, and otherwise nonsense.

Made from the types alone, so a new overlay's messages are forged as soon as the registry knows it. Nonsense that is
drawn blindly is turned away at the first check; so addresses, event ids and boxes are taken from the living swarm every
other time, and numbers are mostly small or at their bounds.
"""

from functools import cache
from random import Random
from typing import Any

import msgspec
from msgspec import inspect

from peerd.sim.swarm import Swarm
from protocols.model.box import Box
from protocols.model.descriptor import PeerDescriptor, Standing, pack
from protocols.model.event import Event
from protocols.model.ids import Address, of_peer
from protocols.overlay import Message

ITEMS_MAX = 3
"""Elements and characters, but for one outermost array in twenty, which is as long as its type allows."""
MANY_MAX = 64


@cache
def _type_info(type_: type[Message]) -> inspect.Type:
    return inspect.type_info(type_)


class Forger:
    """Draws messages; what looks real in them comes from `swarm` as it is when the forger is made."""

    def __init__(self, rng: Random, swarm: Swarm) -> None:
        self._rng = rng
        nodes = swarm.engine.nodes
        self.addresses = [node.address for node in nodes]
        self.boxes: list[Box] = []
        for node in swarm.live.values():
            for overlay in node.peer.participants.values():
                self.addresses.append(overlay.descriptor().address)
                self.boxes.append(overlay.descriptor().box)
        self.events = [publication.event for publication in swarm.oracle.publications.values()]
        self._strangers = 0
        self._many = False  # the next array is a long one

    def stranger(self, slot: int = 0) -> Address:
        """Somebody whom nobody knows, at an address where nobody is."""
        self._strangers += 1
        return Address(f"{self._rng.getrandbits(128):032x}", 1 + self._strangers, slot, f"nowhere-{self._strangers}:1")

    def sender(self) -> Address:
        """A stranger or a real participant or peer, at times in another life."""
        rng = self._rng
        if rng.random() < 0.4:
            return self.stranger(rng.choice((-1, 0, 1, 77)))
        address = rng.choice(self.addresses)
        if rng.random() < 0.2:
            boot = max(0, address.boot + rng.choice((-1, 1)))
            address = msgspec.structs.replace(address, boot=boot)
        return address if rng.random() < 0.7 else of_peer(address)

    def message(self, type_: type[Message]) -> Any:
        self._many = self._rng.random() < 0.05
        return self._value(_type_info(type_))

    def _value(self, info: inspect.Type) -> Any:
        rng = self._rng
        match info:
            case inspect.Metadata(type=inner):
                return self._value(inner)
            case inspect.StructType(cls=cls, fields=fields):
                real = self._real(cls) if rng.random() < 0.5 else None
                if real is not None:
                    return real
                values = {field.name: self._value(field.type) for field in fields}
                if cls is PeerDescriptor and rng.random() < 0.9:  # or it is refused at the door
                    values["participants"] = self._packed()
                return cls(**values)
            case inspect.NoneType():
                return None
            case inspect.BoolType():
                return rng.random() < 0.5
            case inspect.IntType(ge=ge, le=le):
                return self._integer(-(2**63) if ge is None else ge, 2**64 - 1 if le is None else le)
            case inspect.FloatType(ge=ge, le=le):
                assert ge is not None
                assert le is not None
                drawn = rng.choice((0.0, 0.5, 1.0, -1.0, float(ge), float(le), rng.uniform(-1e9, 1e9)))
                return min(max(drawn, float(ge)), float(le))
            case inspect.StrType():
                return "".join(rng.choice("=>az09\0Ω") for _ in range(self._length(info)))
            case inspect.BytesType():
                return rng.randbytes(self._length(info))
            case inspect.LiteralType(values=values):
                return rng.choice(values)
            case inspect.EnumType(cls=cls):
                return rng.choice(list(cls))
            case inspect.ListType(item_type=item) | inspect.VarTupleType(item_type=item):
                items = [self._value(item) for _ in range(self._length(info))]
                return items if isinstance(info, inspect.ListType) else tuple(items)
            case inspect.TupleType(item_types=types):
                return tuple(map(self._value, types))
            case inspect.DictType(key_type=key, value_type=value):
                return {self._value(key): self._value(value) for _ in range(self._length(info))}
            case inspect.UnionType(types=types):
                return self._value(rng.choice(types))
        raise TypeError(f"nothing is known about {info}")

    def _packed(self) -> bytes:
        """Participants as a peer's descriptor names them."""
        return pack(self._value(_type_info(Standing)) for _ in range(self._rng.randint(0, ITEMS_MAX)))

    def _real(self, cls: type) -> Any:
        """Something of the type that is there in the swarm, if there is."""
        pools: dict[type, list[Any]] = {Address: self.addresses, Box: self.boxes, Event: self.events}
        pool = pools.get(cls, [])
        return self._rng.choice(pool) if pool else None

    def _integer(self, least: int, most: int) -> int:
        drawn = self._rng.choice((0, 1, 2, 5, 100, 10**6, least, most, most - 1))
        return min(max(drawn, least), most)

    def _length(self, info: Any) -> int:
        least, most = int(info.min_length or 0), int(info.max_length)
        usual, self._many = MANY_MAX if self._many else ITEMS_MAX, False
        return self._rng.randint(least, max(least, min(usual, most)))
