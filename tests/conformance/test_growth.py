"""Attributes are appended to a living swarm, at two places at once: whoever names them is served, and nobody else
notices."""

from functools import partial

from peerd.sim.engine import Node
from peerd.sim.workloads.workload import Interest
from protocols.model.event import Attributes
from protocols.model.lint import compile_filter
from protocols.model.schema import Attribute
from protocols.peer import AppendAttributes
from tests.conformance.support import Stage, seeds

TURNOVER = Attribute("turnover", "int", 0, 9)
BROKER = Attribute("broker", "string")
FILTERS = (
    "turnover > 4",
    "broker = 'b3'",
    "turnover IS NULL",
    "broker IS NULL AND turnover < 8",
    "turnover = 3 OR broker > 'b6'",
)


@seeds(1, 2, 3)
def test_nothing_owed_is_missing(overlay: str, seed: int) -> None:
    stage = Stage(overlay, seed)
    stage.gather(15)
    stage.publish(100, 20_000)
    stage.run(2_000)
    one, other = stage.some(0.15)
    append(stage, one, TURNOVER)
    append(stage, other, BROKER)
    stage.run(5_000)
    assert {node.peer.schema.names[-2:] for node in stage.living()} == {("broker", "turnover")}
    for number, text in enumerate(FILTERS):
        subscribe(stage, stage.living()[2 * number], text)
    stage.swarm.start(stage.interests(1))  # a participant that is made when the schema has grown
    stage.run(13_000)
    stage.converge()
    for number, attributes in enumerate(stage.events(60)):
        more: Attributes = {**attributes, "turnover": number % 10}
        if number % 2:
            more["broker"] = f"b{number % 8}"
        stage.swarm.engine.at(stage.swarm.now_ms + 1 + 30 * number, partial(stage.swarm.publish, more))
    stage.run(2_000)
    verdict = stage.finish(least_expected=60)
    assert verdict.at_risk == 0


def append(stage: Stage, node: Node, attribute: Attribute) -> None:
    stage.swarm.engine.step(node, AppendAttributes(node.peer.schema.append([attribute])))


def subscribe(stage: Stage, node: Node, text: str) -> None:
    stage.swarm.subscribe(node, Interest(text, compile_filter(text, node.peer.schema).boxes))
