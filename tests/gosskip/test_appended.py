"""Attributes appended to a living swarm: it goes on sorting by those that it began with, and the others are matched."""

import pytest
from msgspec.structs import replace

from peerd.sim.engine import Node
from peerd.sim.workloads.workload import Interest, product
from protocols.gosskip.order import Dictionary
from protocols.model.lint import compile_filter
from protocols.model.schema import Attribute, Schema
from protocols.peer import AppendAttributes
from tests.gosskip.scene import NUMBERS, Scene, descriptor, points

LONGER = NUMBERS.append([Attribute("a", "int", 0, 99), Attribute("z", "string")])


def grown(scene: Scene, schema: Schema) -> None:
    """Append attributes at one peer; who starts from now on is told the longer schema by its contact."""
    scene.swarm.engine.step(scene.nodes[0], AppendAttributes(schema))
    scene.swarm.config = replace(scene.swarm.config, schema=schema)


def add(scene: Scene, text: str) -> Node:
    return scene.swarm.start([Interest(text, compile_filter(text, LONGER).boxes)])


def test_those_who_know_an_attribute_sort_like_those_who_do_not() -> None:
    boxes = [product(LONGER, {"y": (y, y + 1), "x": (x, x + 50)}) for y in (9, 3, 6) for x in (500, 20)]
    boxes += [product(LONGER, {"y": (y, y + 1)}) for y in (70, 7)]
    described = [descriptor(f"p{number}", box) for number, box in enumerate(boxes)]
    orders = []
    for schema in (NUMBERS, LONGER, Schema(LONGER.attributes, beginning=2)):
        spots = map(Dictionary(schema).spot, described)
        orders.append([spot.address for spot in sorted(spots, key=lambda spot: spot.key)])
    assert orders[0] == orders[1] == orders[2]


@pytest.mark.parametrize("attribute_order", ["", "y"])
def test_filters_on_an_appended_attribute_are_served(attribute_order: str) -> None:
    scene = Scene(points(range(0, 1000, 100)), attribute_order=attribute_order)
    grown(scene, LONGER)  # at once: some of those who stand may not have heard of it yet
    wanted = {a: add(scene, f"a = {a}") for a in (5, 3, 8)}
    both = {a: add(scene, f"x = 100 AND a = {a}") for a in (8, 3, 5)}
    assert scene.swarm.run_until(scene.swarm.all_active, 10_000)
    scene.settle()
    for a in (3, 5, 8):
        got = scene.publish(scene.nodes[a], x=100, y=7, a=a)
        assert got.keys() == {wanted[a].index, both[a].index}
        assert scene.publish(scene.nodes[-a], x=101, y=7, a=a).keys() == {wanted[a].index}
    scene.assert_nothing_missing()
