"""Paper 1: content-based publish/subscribe over Chord (section 3.3), and with order-preserving hashes (section 4).

The paper states costs and reports no experiment. They are measured as messages, hop by hop: a lookup that takes h hops
is h messages of its type. `match` messages are the lookups of an event, `store` messages those of a subscription.
Lookups that share a piece of their way share its messages, so what is counted may be less than the paper's sum; the
last hop, to the successor itself, is counted too, and makes it one more at the most.

| runs | workload | what is counted |
|---|---|---|
| `lookup` at several N | equality on one attribute, any value | `store` messages a subscription |
| `event` | events with four attributes | `match` messages an event |
| `equal` | shared files: equality on three attributes | `store` messages to store and to update a subscription |
| `range`, with either hash | one range of up to 101 values | the same, at 64 nodes |
| `small`, walking, jumping and with Chord's hash | the same | the same, at 1,024 nodes: ten for each value |

An event asks one question more than it has attributes: for the filters that no attribute can be indexed of, which the
paper does not treat. In the runs as the paper says a node knows its fingers and one successor, and nobody holds copies:
its formulas are those of that Chord. As tuned, it knows 16 successors and routes by them too.
"""

from itertools import pairwise
from math import log2
from typing import Any, Final

from analytics.plots import Plot
from peerd.cli.papers.frame import (
    Claim,
    Experiment,
    Paper,
    Results,
    Variant,
    at_full_scale,
    plain,
    scaled,
    shape,
)

SIZES: Final = (64, 256, 1_024, 4_096)
FILE_ATTRIBUTES: Final = 3
EVENT_ATTRIBUTES: Final = 4
EXTRA_HOP: Final = 1.0
"""The last hop to the successor counts: simulations of Chord find half the logarithm and 0.8 (specification, section
2)."""
BARE: Final = {"profile": "paper", "successors": "1", "replicas": "0"}
"""The paper's Chord has neither successor lists nor copies."""
PLAIN_HASH: Final = {**BARE, "profile": "paper-chord"}
LATER: Final = {"refresh_ms": "600000", "lease_ms": "1800000"}
"""No lease is renewed while stores are counted."""
VARIANTS: Final[tuple[Variant, ...]] = ("paper", "ours")


def experiments(scale: float) -> list[Experiment]:
    sizes = SIZES if at_full_scale(scale) else SIZES[:2]
    found = []
    for variant in VARIANTS:
        settings = BARE if variant == "paper" else {}
        for size in sizes:
            peers = scaled(size, max(scale, 0.5))
            found.append(_looked_up(f"lookup{size}", variant, scaled(500, scale, 200), peers, settings))
        found.append(_published("event", variant, scale, 256, "uniform", settings))
        found.append(_stored("equal", variant, 128, "files", settings))
        found.append(_stored("range", variant, 64, "ranges", settings))
    found.append(_stored("range-chord", "paper", 64, "ranges", PLAIN_HASH))
    if at_full_scale(scale):
        found.append(_stored("small", "paper", 1_024, "ranges", BARE))
        found.append(_stored("small-jump", "paper", 1_024, "ranges", {**BARE, "range_store": "jump"}))
        found.append(_stored("small-chord", "paper", 1_024, "ranges", PLAIN_HASH))
    return found


def _published(
    point: str, variant: Variant, scale: float, peers: int, workload: str, settings: dict[str, str]
) -> Experiment:
    counts = {"events": scaled(400, scale, 20), "subscriptions": 2 * peers}
    return Experiment(point, variant, {**_fields(peers, workload, settings), **counts})


def _looked_up(point: str, variant: Variant, count: int, peers: int, settings: dict[str, str]) -> Experiment:
    fields = _fields(peers, "ranges", {**settings, **LATER})
    return Experiment(point, variant, {**fields, "subscriptions": count}, special="looking_up")


def _stored(point: str, variant: Variant, peers: int, workload: str, settings: dict[str, str]) -> Experiment:
    fields = _fields(peers, workload, {**settings, **LATER})
    return Experiment(point, variant, {**fields, "subscriptions": 64}, special="storing")


def _fields(peers: int, workload: str, settings: dict[str, str]) -> dict[str, Any]:
    oracles = {"liveness": "oracle", "sampling": "oracle"}  # what is counted does not depend on them
    return {"overlay": "chord", "peers": peers, "workload": workload, "settings": settings, **oracles}


def storing(fields: dict[str, Any]) -> Any:
    from peerd.sim.experiments import opchord

    return opchord.storing(fields)


def looking_up(fields: dict[str, Any]) -> Any:
    from peerd.sim.experiments import opchord

    return opchord.looking_up(fields)


# --- What was counted -------------------------------------------------------------------------------------------------


def _sent(results: Results, point: str, message: str, variant: Variant = "paper") -> float | None:
    rows = results.rows(point, "traffic_by_message", variant)
    return float(sum(row["sent"] for row in rows if row["message"] == message)) if rows else None


def _asked(results: Results, point: str, variant: Variant = "paper") -> float | None:
    """`match` messages an event."""
    sent, events = _sent(results, point, "match", variant), results.figure(point, "events", variant)
    return sent / events if sent is not None and events else None


def _lookup(results: Results, size: int, variant: Variant = "paper") -> float | None:
    """Hops of a lookup."""
    return _counted(results, f"lookup{size}", "hops", variant)


def _counted(results: Results, point: str, name: str, variant: Variant = "paper") -> float | None:
    """What a run of `storing` or `looking_up` has counted, per subscription."""
    return float(results.of(point, variant)["simulator"][name]) if results.has(point, variant) else None


def _half_log(results: Results, point: str) -> float | None:
    peers = results.figure(point, "peers")
    return log2(peers) / 2 if peers else None


# --- Claims -----------------------------------------------------------------------------------------------------------


def claims(results: Results) -> list[Claim]:
    return [
        *_lookups(results),
        *_events(results),
        *_equalities(results),
        *_ranges(results),
        *_range_updates(results),
        *_small_domain(results),
    ]


def _lookups(results: Results) -> list[Claim]:
    found = []
    for size in SIZES:
        half, hops = _half_log(results, f"lookup{size}"), _lookup(results, size)
        if half is not None and hops is not None:
            found.append(
                Claim(
                    "section 3.3",
                    f"hops of a lookup, {results.figure(f'lookup{size}', 'peers'):,.0f} nodes",
                    f"½ log N = {half:.2f}",
                    plain(hops),
                    plain(_lookup(results, size, "ours")),
                    "½ log N to ½ log N + 1",
                    shape(half <= hops <= half + EXTRA_HOP),
                )
            )
    run = [size for size in SIZES if results.has(f"lookup{size}")]
    grows = [_lookup(results, size) for size in run]
    found.append(
        Claim(
            "section 2.2",
            "hops grow with the logarithm of N, not with N",
            "grows slowly",
            " ".join(plain(each) for each in grows),
            " ".join(plain(_lookup(results, size, "ours")) for size in run),
            "more, but 1.5 at most, for each fourfold N",
            shape(_slowly(grows)),
        )
    )
    return found


def _slowly(values: list[float | None]) -> bool | None:
    """Half of log2 N grows by one with each fourfold N."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return None
    return all(0 < after - before <= 1.5 for before, after in pairwise(known))


def _events(results: Results) -> list[Claim]:
    found = []
    half, sent = _half_log(results, "event"), _asked(results, "event")
    if half is not None and sent is not None:
        found.append(
            Claim(
                "section 3.3",
                f"hops to match an event of {EVENT_ATTRIBUTES} attributes",
                f"N_a · ½ log N = {EVENT_ATTRIBUTES * half:.0f}",
                plain(sent, 1),
                plain(_asked(results, "event", "ours"), 1),
                "(N_a + 1)(½ log N + 1) at most",
                shape(sent <= (EVENT_ATTRIBUTES + 1) * (half + EXTRA_HOP)),
                "one question more, for what cannot be indexed",
            )
        )
    missing, unwanted = results.figure("event", "false_negatives"), results.figure("event", "spurious")
    found.append(
        Claim(
            "section 3.2",
            "every matching subscription is notified, and no other",
            "0 / 0",
            f"{plain(missing)} / {plain(unwanted)}",
            f"{plain(results.figure('event', 'false_negatives', 'ours'))} / "
            f"{plain(results.figure('event', 'spurious', 'ours'))}",
            "none",
            shape(None if missing is None else missing == 0 and unwanted == 0),
        )
    )
    return found


def _equalities(results: Results) -> list[Claim]:
    half, stored = _half_log(results, "equal"), _counted(results, "equal", "stored")
    updated = _counted(results, "equal", "updated")
    if half is None or stored is None or updated is None:
        return []
    note = "as tuned: one attribute of three is indexed, the sum"
    return [
        Claim(
            "section 3.3",
            "hops to store an equality",
            f"½ log N = {half:.2f}",
            plain(stored / FILE_ATTRIBUTES),
            plain(_counted(results, "equal", "stored", "ours")),
            "½ log N to ½ log N + 1",
            shape(half <= stored / FILE_ATTRIBUTES <= half + EXTRA_HOP),
            note,
        ),
        Claim(
            "section 3.3",
            "hops to update an equality",
            f"2 · ½ log N = {2 * half:.2f}",
            plain(updated / FILE_ATTRIBUTES),
            plain(_counted(results, "equal", "updated", "ours")),
            "one more for each of both at most",
            shape(updated / FILE_ATTRIBUTES <= 2 * (half + EXTRA_HOP)),
            note,
        ),
    ]


def _ranges(results: Results) -> list[Claim]:
    half, width = _half_log(results, "range"), _counted(results, "range", "values")
    hashed, ordered = _counted(results, "range-chord", "stored"), _counted(results, "range", "stored")
    if half is None or width is None or hashed is None or ordered is None:
        return []
    cost = width * half
    return [
        Claim(
            "section 3.3",
            f"hops to store a range, r = {width:.0f}, hash of Chord",
            f"r · ½ log N = {cost:.0f}",
            plain(hashed, 1),
            "",
            "r · ½ log N to r (½ log N + 1)",
            shape(cost <= hashed <= width * (half + EXTRA_HOP)),
        ),
        Claim(
            "section 4.1",
            f"hops to store a range, r = {width:.0f}, order-preserving hash",
            f"r + ½ log N = {width + half:.0f}",
            plain(ordered, 1),
            plain(_counted(results, "range", "stored", "ours"), 1),
            "at most",
            shape(ordered <= width + half + EXTRA_HOP),
            "fewer nodes than values, so some hold several",
        ),
        Claim(
            "section 4.1",
            "order-preserving hashes store ranges more cheaply",
            f"{cost / (width + half):.1f} times",
            f"{hashed / ordered:.1f} times",
            "",
            "cheaper",
            shape(ordered < hashed),
        ),
    ]


def _range_updates(results: Results) -> list[Claim]:
    half, changed = _half_log(results, "range-chord"), _counted(results, "range-chord", "changed")
    hops, ordered = _counted(results, "range-chord", "updated"), _counted(results, "range", "updated")
    if half is None or changed is None or hops is None:
        return []
    return [
        Claim(
            "section 3.3",
            f"hops to update a range, {changed:.0f} values differ",
            f"k · log N, with k = half of them {changed * half:.0f}",
            f"{plain(hops, 1)}; order-preserving {plain(ordered, 1)}",
            plain(_counted(results, "range", "updated", "ours"), 1),
            "one more for each value at most",
            shape(hops <= changed * (half + EXTRA_HOP)),
            "a value is stored or deleted: ½ log N each",
        )
    ]


def _small_domain(results: Results) -> list[Claim]:
    half, width = _half_log(results, "small"), _counted(results, "small", "values")
    walk, jump = _counted(results, "small", "stored"), _counted(results, "small-jump", "stored")
    hashed = _counted(results, "small-chord", "stored")
    if half is None or width is None or walk is None or jump is None or hashed is None:
        return []
    return [
        Claim(
            "section 4.3",
            "small domain: 101 values on 1,024 nodes, walking passes useless nodes",
            f"more than r + ½ log N = {width + half:.0f}",
            plain(walk, 1),
            "",
            "more",
            shape(walk > width + half + EXTRA_HOP),
        ),
        Claim(
            "section 4.3",
            "small domain: jumping from value to value alleviates it",
            "solutions exist",
            plain(jump, 1),
            "",
            f"below walking, and Chord's hash ({plain(hashed, 1)})",
            shape(jump < walk and jump <= hashed),
        ),
    ]


def figures(results: Results) -> list[Plot]:
    def points(variant: Variant) -> list[tuple[float, float]]:
        known = [(results.figure(f"lookup{size}", "peers", variant), _lookup(results, size, variant)) for size in SIZES]
        return [(float(n), hops) for n, hops in known if n is not None and hops is not None]

    half = [(n, log2(n) / 2) for n, _ in points("paper")]
    series = {"½ log N": half, "as the paper": points("paper"), "as tuned": points("ours")}
    return [Plot("Hops of a lookup", "nodes", "hops", series, log_x=True)]


PAPER: Final = Paper(
    "opchord",
    "Content-based publish-subscribe over structured P2P networks (paper 1)",
    "chord",
    frozenset({"traffic_by_message"}),
    experiments,
    claims,
    figures,
    {"storing": storing, "looking_up": looking_up},
)
