"""Storing and updating subscriptions on a ring that stands (paper 1, sections 3.1 and 3.3).

Peers join without subscriptions. When the ring has converged some of them subscribe, one after the other, and then
change what they subscribe to. `store` messages are counted for both; for updates until the deletions that wait for
events under way (`linger_ms`) are done.

A lookup is counted as the store of one value: from any node to the owner of a key that may lie anywhere.
"""

from random import Random
from typing import Any, Final

import msgspec

from peerd.sim.recorder import Recording
from peerd.sim.scenario import JOIN_SPAN_MS, hardly_any_garbage_collection
from peerd.sim.summary import summarise
from peerd.sim.swarm import Swarm, SwarmConfig
from peerd.sim.workloads import Interest, workload
from peerd.sim.workloads.ranges import DOMAIN_MAX
from peerd.sim.workloads.workload import interest_in
from protocols.chord.config import ChordConfig
from protocols.chord.messages import Store
from protocols.model.box import Box

EVERY_MS: Final = 100
AFTER_MS: Final = 10_000
"""Until the last store has arrived: a range may take as many hops as there are nodes."""


def storing(fields: dict[str, Any]) -> dict[str, Any]:
    """The summary of a run, and per subscription: `values` in its range (of the first attribute of numbers), hops to
    store it (`stored`), `changed` values, and hops to update it (`updated`)."""
    count = fields["subscriptions"]
    drawn, rng = workload(fields["workload"]), Random(f"{fields['seed']}/storing")
    with hardly_any_garbage_collection():
        swarm = _ring(fields, drawn.schema)
        converged_s = swarm.converge(swarm.kind.converges_within_s * 1000)
        nodes = rng.sample(list(swarm.live.values()), count)
        interests = drawn.subscriptions(rng, count)
        changes = [drawn.update(rng, interest) for interest in interests]
        before = _stores(swarm)
        ids = []
        for node, interest in zip(nodes, interests):
            ids.append(swarm.subscribe(node, interest))
            swarm.run(EVERY_MS)
        swarm.run(AFTER_MS)
        stored = _stores(swarm)
        for node, id_, change in zip(nodes, ids, changes):
            swarm.update(node, id_, change)
            swarm.run(EVERY_MS)
        parameters = swarm.parameters
        assert isinstance(parameters, ChordConfig)
        swarm.run(parameters.linger_ms + AFTER_MS)
        updated = _stores(swarm)
        verdict = swarm.oracle.settle()
        swarm.close()
    return {
        **msgspec.to_builtins(summarise(swarm, verdict, count, converged_s, 0, 1.0)),
        "values": sum(map(width, interests)) / count,
        "stored": (stored - before) / count,
        "changed": sum(map(difference, interests, changes)) / count,
        "updated": (updated - stored) / count,
    }


def looking_up(fields: dict[str, Any]) -> dict[str, Any]:
    """The summary of a run, and the `hops` of a lookup: of as many as there are `subscriptions`."""
    count = fields["subscriptions"]
    schema, rng = workload("ranges").schema, Random(f"{fields['seed']}/lookups")
    with hardly_any_garbage_collection():
        swarm = _ring(fields, schema)
        converged_s = swarm.converge(swarm.kind.converges_within_s * 1000)
        nodes = list(swarm.live.values())
        before = _stores(swarm)
        for _ in range(count):
            value = rng.randint(0, DOMAIN_MAX)
            swarm.subscribe(rng.choice(nodes), interest_in(schema, Box((value,), (value + 1,))))
            swarm.run(EVERY_MS // 10)
        swarm.run(AFTER_MS)
        hops = (_stores(swarm) - before) / count
        verdict = swarm.oracle.settle()
        swarm.close()
    return {**msgspec.to_builtins(summarise(swarm, verdict, count, converged_s, 0, 1.0)), "hops": hops}


def _ring(fields: dict[str, Any], schema: Any) -> Swarm:
    config = SwarmConfig(
        overlay=fields["overlay"],
        schema=schema,
        parameters=fields["settings"],
        seed=fields["seed"],
        exact_boxes=True,
        liveness=fields["liveness"],
        sampling=fields["sampling"],
    )
    swarm = Swarm(config, Recording(fields["out"], fields["name"], fields["record_every_s"]))
    every_ms = min(50.0, JOIN_SPAN_MS / fields["peers"])
    swarm.start_many([[] for _ in range(fields["peers"])], every_ms)
    swarm.run(int(every_ms * fields["peers"]) + 1_000)
    return swarm


def _stores(swarm: Swarm) -> int:
    counted = swarm.engine.traffic.get(Store)
    return 0 if counted is None else counted.sent


def width(interest: Interest) -> int:
    """How many values its range has."""
    box = interest.boxes[0]
    return box.hi[0] - box.lo[0]


def difference(old: Interest, new: Interest) -> int:
    """How many values are in one of two ranges and not in the other."""
    a, b = old.boxes[0], new.boxes[0]
    shared = max(0, min(a.hi[0], b.hi[0]) - max(a.lo[0], b.lo[0]))
    return width(old) + width(new) - 2 * shared
