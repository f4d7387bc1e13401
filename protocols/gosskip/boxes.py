"""Places by identity, and which of their boxes hold a point."""

from hashlib import blake2b

from protocols.gosskip.order import PlaceId, Spot
from protocols.model.box import Point
from protocols.model.index import LocalIndex


def name_of(id_: PlaceId) -> str:
    address, version = id_
    return f"{address.peer}/{address.boot}/{address.slot}/{version}"


def mark_of(id_: PlaceId) -> int:
    """A number for a place, the same in every process."""
    return int.from_bytes(blake2b(name_of(id_).encode(), digest_size=7).digest(), "big")


def everything(attributes: object) -> bool:
    """The index asks for an exact filter; here the boxes decide."""
    return True


class Boxes:
    __slots__ = ("_by_name", "_index", "spots")

    def __init__(self) -> None:
        self.spots: dict[PlaceId, Spot] = {}
        self._by_name: dict[str, Spot] = {}
        self._index = LocalIndex()

    def __len__(self) -> int:
        return len(self.spots)

    def __contains__(self, id_: PlaceId) -> bool:
        return id_ in self.spots

    def matching(self, point: Point) -> list[Spot]:
        return [self._by_name[name] for name in self._index.match(point, {})] if self.spots else []

    def add(self, spot: Spot) -> bool:
        """Returns whether it is new. The same place under another endpoint is a lie."""
        name = name_of(spot.id)
        if name in self._by_name:
            return False
        self.spots[spot.id] = spot
        self._by_name[name] = spot
        self._index.add(name, (spot.descriptor.box,), everything)
        return True

    def pop(self, id_: PlaceId) -> Spot | None:
        spot = self.spots.pop(id_, None)
        if spot is not None:
            name = name_of(id_)
            del self._by_name[name]
            self._index.remove(name)
        return spot
