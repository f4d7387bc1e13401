"""Rings under the hands of a test."""

from itertools import count

from benchmarks.still_ring import StillRing
from protocols.chord.ids import Circle
from protocols.model.ids import Address
from protocols.model.lint import compile_filter
from protocols.model.schema import Attribute, Schema

STOCK = Schema(
    (
        Attribute("Exchange", "string"),
        Attribute("Symbol", "string"),
        Attribute("Price", "float", 0.0, 20.0, 0.01, exact=True),
        Attribute("High", "float", 0.0, 20.0, 0.01, exact=True),
        Attribute("Low", "float", 0.0, 20.0, 0.01, exact=True),
    )
)
"""Figure 1 of the paper; `exact`, since its values lie on the grid."""

NOT_COUNTED = {"replicas": 0, "cache": 0, "successors": 1}
"""What the paper does not have, switched off where messages are counted: copies, remembered owners, and the successor
list, along which a node also routes."""


def node_at(bits: int, place: int) -> Address:
    """An address whose identifier is that number."""
    circle = Circle(bits)
    found = (Address(f"{number:032x}", 1, 0, f"node-{place}:1") for number in count())
    return next(address for address in found if circle.node(address) == place)


def full_circle(bits: int, schema: Schema, **config: object) -> StillRing:
    """A ring in which every identifier is a node's, as in Figures 6 and 7."""
    nodes = [node_at(bits, place) for place in range(1 << bits)]
    return StillRing(nodes, schema, bits=bits, **{**NOT_COUNTED, **config})


def subscribe(ring: StillRing, place: int, id_: str, text: str, schema: Schema, version: int = 0) -> None:
    """Subscribe with a filter that has one box."""
    (box,) = compile_filter(text, schema).boxes
    ring.subscribe(place, id_, box, version)
