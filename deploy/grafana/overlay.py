"""How peers are linked, and each overlay's own figures.

A figure of one overlay is multiplied with `peerd_info{overlay="…"}`, which is 1 for its peers and nothing for others.
"""

from typing import Final

from deploy.grafana.panels import Dashboard, Panel, Query, Row


def _of(overlay: str, metric: str) -> str:
    """A metric of the peers of one overlay."""
    return f'{metric} * on (instance) group_left () peerd_info{{overlay="{overlay}"}}'


def _links(overlay: str, title: str, description: str, kinds: str = "") -> Panel:
    """Links per peer, by kind."""
    chosen = f'{{kind=~"{kinds}"}}' if kinds else ""
    return Panel(
        title, description, "none", (Query(f"avg by (kind) ({_of(overlay, f'peerd_links{chosen}')})", "{{kind}}"),)
    )


def _most(overlay: str, title: str, description: str, kinds: str = "") -> Panel:
    """The links of the peer that has the most of them."""
    chosen = f'{{kind=~"{kinds}"}}' if kinds else ""
    expr = f"max(sum by (instance) ({_of(overlay, f'peerd_links{chosen}')}))"
    mean = f"avg(sum by (instance) ({_of(overlay, f'peerd_links{chosen}')}))"
    return Panel(title, description, "none", (Query(expr, "most"), Query(mean, "mean")))


def _messages(overlay: str) -> Panel:
    rate = _of(overlay, 'rate(peerd_messages_total{direction="sent"}[1m])')
    return Panel(
        "Messages by type",
        "What its peers send a second, event by event and to keep the structure: the ten most frequent types.",
        "ops",
        (Query(f"topk(10, sum by (message) ({rate}))", "{{message}}"),),
        stacked=True,
    )


def _facts(overlay: str, title: str, description: str) -> Panel:
    """What the overlay made known of itself. A swarm in calm may have nothing to say."""
    told = _of(overlay, "increase(peerd_control_total[5m])")
    calm = f"0 * count({_of(overlay, 'peerd_ready')})"
    return Panel(title, description, "none", (Query(f"sum by (fact) ({told}) or {calm}", "{{fact}}"),))


def _values(overlay: str, title: str, description: str) -> Panel:
    """The greatest number that came with each fact last, at any peer."""
    value = _of(overlay, "peerd_control_value")
    calm = f"0 * count({_of(overlay, 'peerd_ready')})"
    return Panel(title, description, "none", (Query(f"max by (fact) ({value}) or {calm}", "{{fact}}"),))


def _overlay(name: str, title: str, *panels: Panel) -> Row:
    return Row(f"{name}: {title}", (*panels, _messages(name)), name)


OVERLAY_ROWS: Final = (
    _overlay(
        "broadcast",
        "flooding over random links",
        _links("broadcast", "Links", "Random links per peer: between `links` and `links_max`.", "random"),
        _most("broadcast", "Busiest peer", "Links of the peer with the most, against the mean."),
    ),
    _overlay(
        "rtree",
        "the tree",
        _links("rtree", "Parents and children", "Links per peer. Every participant but the root has one parent."),
        _most("rtree", "Fan-out", "Children of the peer with the most, against the mean.", "child"),
        _values(
            "rtree", "Height and splits", "Last numbers: the height at a promotion or departure, children at a split."
        ),
        _facts("rtree", "Reorganisation", "Splits, promotions and departures in five minutes."),
    ),
    _overlay(
        "chord",
        "the ring",
        _links(
            "chord", "Ring", "Successors and predecessors per peer: in a whole ring one predecessor each.", ".*cessor.*"
        ),
        _links("chord", "Fingers", "Fingers per peer, which grow with the logarithm of the swarm.", "finger"),
        _facts("chord", "Stabilisation", "Arcs handed over and other facts in five minutes."),
    ),
    _overlay(
        "gosskip",
        "the sorted list",
        _links("gosskip", "List", "Left and right neighbours per peer: one each but for the two ends.", "left|right"),
        _links("gosskip", "Levels", "Links per peer on each level of the skip list.", "level-.*"),
        _facts("gosskip", "Gossip", "Facts of the list and its levels in five minutes."),
    ),
    _overlay(
        "semantic",
        "tree or graph",
        _links("semantic", "Parents, children, siblings", "Links per peer, by the kind of interest that joins them."),
        _most("semantic", "Busiest peer", "Links of the peer with the most, against the mean."),
        _facts("semantic", "Reorganisation", "Promotions and other facts in five minutes."),
    ),
    _overlay(
        "sub2sub",
        "rings, cells and limits",
        _links("sub2sub", "Rings", "Ring links per peer, towards lower and upper bounds.", "ring.*"),
        _links("sub2sub", "Interests", "Links to peers whose interests overlap, and random ones.", "interest|random"),
        _facts("sub2sub", "Cells and limits", "Cell switches, flow limits and overflows in five minutes."),
        _values("sub2sub", "Last numbers", "The greatest number that came with each fact last."),
    ),
)
"""One row for each overlay, by its name."""

OVERLAY: Final = Dashboard(
    "peerd-overlay",
    "Overlay",
    "How peers are linked, what keeps the links in order, and each overlay's own figures.",
    (
        Row(
            "Structure",
            (
                Panel(
                    "Overlay",
                    "Peers by overlay and version. More than one overlay is a mistake.",
                    "none",
                    (Query("count by (overlay, version) (peerd_info)", "{{overlay}} {{version}}"),),
                    "stat",
                ),
                Panel(
                    "Links by kind",
                    "Links of all participants.",
                    "none",
                    (Query("swarm:links:sum", "{{kind}}"),),
                    stacked=True,
                ),
                Panel(
                    "Links per peer",
                    "Mean, and that of the peer with the most.",
                    "none",
                    (
                        Query("avg(sum by (instance) (peerd_links))", "mean"),
                        Query("max(sum by (instance) (peerd_links))", "most"),
                    ),
                ),
                Panel(
                    "Participants and subscriptions",
                    "Logical nodes of the overlay, and the subscriptions that they stand for.",
                    "none",
                    (
                        Query("sum(peerd_participants)", "participants"),
                        Query("sum(peerd_subscriptions)", "subscriptions"),
                    ),
                ),
                Panel(
                    "Repairs",
                    "Things that the overlay has mended, a minute.",
                    "none",
                    (Query("sum(increase(peerd_repairs_total[1m]))", "repairs"),),
                ),
                Panel(
                    "Convergence",
                    "How long the last fault was felt, until the structure was whole again.",
                    "s",
                    (Query("max(peerd_workload_converged_seconds)", "last fault"),),
                ),
                Panel(
                    "Messages",
                    "Sent a second by all peers: the twelve most frequent types.",
                    "ops",
                    (Query("topk(12, swarm:messages:rate1m)", "{{message}}"),),
                    stacked=True,
                ),
                Panel(
                    "Bytes",
                    "Sent a second by all peers: the twelve heaviest types.",
                    "Bps",
                    (Query("topk(12, swarm:message_bytes:rate1m)", "{{message}}"),),
                    stacked=True,
                ),
                Panel(
                    "Rejected",
                    "Times that a peer was sent what it must not be sent, and messages that did not arrive, a minute.",
                    "none",
                    (
                        Query("sum(increase(peerd_rejected_total[1m]))", "rejected"),
                        Query("sum(increase(peerd_undelivered_total[1m]))", "undelivered"),
                    ),
                ),
            ),
        ),
        *OVERLAY_ROWS,
    ),
)
