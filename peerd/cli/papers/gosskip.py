"""Paper 5: GosSkip (section 4, Figures 3 to 5).

1,000 filters on file name, type and size, k = 2, 2,500 events that each enter at a random peer: once drawn by
popularity, in place of the paper's eDonkey trace, and once uniformly. Noise of a peer is what it received and did not
want, over all events; hops of an event are those to its first delivery or, if nobody wants it, to where it ended.

Liveness and sampling are left to the oracle: no peer dies, and the list is perfect before the first event.

The dynamic setting starts with 300 peers and adds 700, one after the other: as soon as a newcomer's subscription is
active an event that matches it is published, before its long links exist.
"""

from collections import Counter
from collections.abc import Sequence
from math import log2
from typing import Any, Final

from analytics.plots import Plot
from peerd.cli.papers.frame import Claim, Experiment, Paper, Results, Variant, number, percent, plain, scaled, shape

TRACES: Final = {"real": "files", "synthetic": "files-uniform"}
EVENTS: Final = 2_500
PEERS: Final = 1_000
STARTED: Final = 300
JOIN_MS: Final = 30_000
SETTLE_MS: Final = 600_000
EVENT_MS: Final = 20
NEWCOMER_MS: Final = 1_000
"""Between one newcomer's event and the next newcomer."""


def experiments(scale: float) -> list[Experiment]:
    found = []
    variants: tuple[tuple[Variant, dict[str, str]], ...] = (("paper", {"profile": "paper"}), ("ours", {}))
    for variant, settings in variants:
        base = {"overlay": "gosskip", "peers": scaled(PEERS, scale, 30), "settings": settings}
        for trace, workload in TRACES.items():
            fields = {**base, "workload": workload, "events": scaled(EVENTS, scale, 100)}
            found.append(Experiment(trace, variant, fields, special="static"))
        found.append(Experiment("dynamic", variant, {**base, "workload": "files"}, special="dynamic"))
    return found


class _Trial:
    """A swarm whose logs are kept, each peer with one subscription of a trace."""

    def __init__(self, fields: dict[str, Any]) -> None:
        from peerd.sim.recorder import Recording
        from peerd.sim.swarm import Swarm, SwarmConfig
        from peerd.sim.workloads import workload

        self.trace = workload(fields["workload"])
        config = SwarmConfig(
            overlay=fields["overlay"],
            schema=self.trace.schema,
            parameters=fields["settings"],
            seed=fields["seed"],
            liveness="oracle",
            sampling="oracle",
            exact_boxes=True,
        )
        self.swarm = Swarm(config, Recording(fields["out"], fields["name"], fields["record_every_s"]))
        self.interests = self.trace.subscriptions(self.swarm.stream("subscriptions"), fields["peers"])
        self.converged_s: float | None = None

    def gather(self, count: int) -> None:
        """Start the first so many peers, and wait until the list is perfect."""
        self.swarm.start_many([[interest] for interest in self.interests[:count]], JOIN_MS / count)
        self.swarm.run(JOIN_MS + 1)
        self.swarm.run_until(self.swarm.all_active, SETTLE_MS)
        self.converged_s = self.swarm.converge(SETTLE_MS)

    def summary(self) -> Any:
        from peerd.sim.summary import summarise

        self.swarm.run(11_000)
        verdict = self.swarm.oracle.settle()
        left = len(self.swarm.lasting_violations())
        self.swarm.close()
        return summarise(self.swarm, verdict, len(self.interests), self.converged_s, left, 1.0)


def static(fields: dict[str, Any]) -> Any:
    """Figures 3 and 4: events once the list is perfect."""
    from peerd.sim.scenario import hardly_any_garbage_collection

    with hardly_any_garbage_collection():
        trial = _Trial(fields)
        trial.gather(fields["peers"])
        swarm = trial.swarm
        for attributes in trial.trace.events(swarm.stream("events"), fields["events"], trial.interests):
            swarm.publish(attributes)
            swarm.run(EVENT_MS)
        return trial.summary()


def dynamic(fields: dict[str, Any]) -> Any:
    """Figure 5: an event for each newcomer as soon as it has its neighbours."""
    from peerd.sim.scenario import hardly_any_garbage_collection
    from peerd.sim.workloads.workload import inside

    with hardly_any_garbage_collection():
        trial = _Trial(fields)
        started = max(2, round(fields["peers"] * STARTED / PEERS))
        trial.gather(started)
        swarm = trial.swarm
        for interest in trial.interests[started:]:
            node = swarm.start([interest])
            swarm.run_until(lambda newcomer=node: _stands(swarm, newcomer), SETTLE_MS, 10)  # type: ignore[misc]
            swarm.publish(inside(swarm.rng, trial.trace.schema, interest.boxes[0]))
            swarm.run(NEWCOMER_MS)
        return trial.summary()


def _stands(swarm: Any, node: Any) -> bool:
    return all(key[0] != node.index for key in swarm.oracle.inactive)


# --- Claims -----------------------------------------------------------------------------------------------------------


def claims(results: Results) -> list[Claim]:
    found = []
    for trace in TRACES:
        hops, ours = event_hops(results, trace), event_hops(results, trace, "ours")
        mode, times = _mode(hops)
        share = None if not hops else times / sum(hops.values())
        found.append(
            Claim(
                "Figure 4",
                f"most events take, {trace} trace",
                "4 hops, 635 of 2,500" if trace == "real" else "similar",
                _told(hops),
                _told(ours),
                "mode 4 or 5, count ±10 %",
                _both(results, mode, share),
            ),
        )
        found += _noise(results, trace)
    bound = log2(PEERS * results.scale) if PEERS * results.scale > 1 else None
    static = [_most(event_hops(results, trace)) for trace in TRACES]
    worst = max((value for value in static if value is not None), default=None)
    tuned = max(
        (value for trace in TRACES if (value := _most(event_hops(results, trace, "ours"))) is not None), default=None
    )
    found.append(
        Claim(
            "section 4",
            "hops are bounded by the logarithm of the subscriptions",
            f"log2 N = {plain(bound)}",
            f"max {plain(worst, 0)}",
            f"max {plain(tuned, 0)}",
            "at most one more",
            shape(None if worst is None or bound is None else worst <= bound + 1),
        ),
    )
    return [*found, *_dynamic(results)]


def _both(results: Results, mode: int | None, share: float | None) -> Any:
    if mode is None or share is None:
        return "n/a"
    return number(results, 1.0 if mode in (4, 5) and abs(share - 635 / EVENTS) <= 0.1 * 635 / EVENTS else 0.0, 1.0, 1.0)


def _noise(results: Results, trace: str) -> list[Claim]:
    def largest(variant: Variant) -> float | None:
        return max((row["noise_ratio"] for row in results.rows(trace, "load_by_peer", variant)), default=None)

    def near(variant: Variant) -> float | None:
        rows = results.rows(trace, "load_by_peer", variant)
        return sum(abs(row["noise_ratio"] - 0.0048) < 0.5 / EVENTS for row in rows) / len(rows) if rows else None

    printed = "about 1.2 %" if trace == "real" else "similar"
    tenth = "about 10 % of peers" if trace == "real" else "similar"
    return [
        Claim(
            "Figure 3",
            f"noise of the most loaded peers, {trace} trace",
            printed,
            percent(largest("paper")),
            percent(largest("ours")),
            "0.8 to 1.6 %",
            number(results, largest("paper"), 0.008, 0.016),
        ),
        Claim(
            "Figure 3",
            f"peers with 0.48 % noise, {trace} trace",
            tenth,
            percent(near("paper")),
            percent(near("ours")),
            "7 to 13 %",
            number(results, near("paper"), 0.07, 0.13),
            "12 events of 2,500",
        ),
    ]


def _dynamic(results: Results) -> list[Claim]:
    def hops(variant: Variant) -> Counter[int]:
        return Counter(
            {row["hops"]: row["deliveries"] for row in results.rows("dynamic", "hops_distribution", variant)}
        )

    def above(counts: Counter[int]) -> float | None:
        limit = log2(max(2.0, PEERS * results.scale))
        return sum(times for hop, times in counts.items() if hop > limit) / counts.total() if counts else None

    def missing(variant: Variant) -> int | None:
        if not results.has("dynamic", variant):
            return None
        found: int | None = results.of("dynamic", variant).get("simulator", {}).get("false_negatives")
        return found

    def told(variant: Variant) -> str:
        absent = missing(variant)
        return "n/a" if absent is None else f"{absent} of {hops(variant).total() + absent:,}"

    late, tuned = above(hops("paper")), above(hops("ours"))
    return [
        Claim(
            "Figure 5",
            "deliveries that are owed and missing while 700 join",
            "none",
            told("paper"),
            told("ours"),
            "0",
            shape(None if missing("paper") is None else missing("paper") == 0),
        ),
        Claim(
            "Figure 5",
            "events to newcomers that take more hops than log2 N",
            "some",
            percent(late),
            percent(tuned),
            "< 25 %",
            shape(None if late is None else late < 0.25),
        ),
    ]


def event_hops(results: Results, point: str, variant: Variant = "paper") -> Counter[int]:
    """How many events went how many hops, to their first delivery or to where they were garbage collected."""
    return Counter(row["hops"] for row in results.rows(point, "event_hops", variant))


def _mode(counts: Counter[int]) -> tuple[int | None, int]:
    return max(counts.items(), key=lambda item: item[1]) if counts else (None, 0)


def _told(counts: Counter[int]) -> str:
    mode, times = _mode(counts)
    return "n/a" if mode is None else f"{mode} hops, {times:,} of {counts.total():,}"


def _most(counts: Counter[int]) -> int | None:
    return max(counts, default=None)


def figures(results: Results) -> list[Plot]:
    def noise(trace: str, variant: Variant) -> list[tuple[float, float]]:
        rows = results.rows(trace, "noise_distribution", variant)
        return [(100 * row["noise_ratio"], 100 * row["share"]) for row in rows]

    def hops(trace: str, variant: Variant) -> list[tuple[float, float]]:
        return [(float(hop), float(times)) for hop, times in sorted(event_hops(results, trace, variant).items())]

    def dynamic(variant: Variant) -> Sequence[tuple[float, float]]:
        rows = results.rows("dynamic", "hops_distribution", variant)
        return [(float(row["hops"]), float(row["deliveries"])) for row in rows]

    names: tuple[tuple[str, Variant], ...] = (("as the paper", "paper"), ("as tuned", "ours"))
    return [
        *[
            Plot(
                f"Figure 3: noise, {trace} trace",
                "noise events, % of all",
                "% of peers",
                {name: noise(trace, v) for name, v in names},
            )
            for trace in TRACES
        ],
        *[
            Plot(
                f"Figure 4: hops, {trace} trace", "hops", "events", {name: hops(trace, v) for name, v in names}, "bars"
            )
            for trace in TRACES
        ],
        Plot("Figure 5: hops to newcomers", "hops", "events", {name: dynamic(v) for name, v in names}, "bars"),
    ]


PAPER: Final = Paper(
    "gosskip",
    "GosSkip: a gossip-based structured overlay (paper 5)",
    "gosskip",
    frozenset({"load_by_peer", "noise_distribution", "hops_distribution", "event_hops"}),
    experiments,
    claims,
    figures,
    {"static": static, "dynamic": dynamic},
)
