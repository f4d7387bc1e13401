"""`peerd topology`: the overlay seen from one peer, found by asking from peer to peer."""

from typing import TYPE_CHECKING

import click

from peerd.cli.client import as_json_option, ask, short, talks_to_a_peer

if TYPE_CHECKING:
    from peerd import documents
    from peerd.client import Peer


@click.command(short_help="Show the overlay seen from a peer.")
@click.option("--limit", metavar="N", type=click.IntRange(1), default=200, help="Peers that are shown at most [200].")
@as_json_option
@talks_to_a_peer
def topology(limit: int, as_json: bool, url: str, token: str | None) -> None:
    """Show the peers of the swarm and their links, found by asking from peer to peer."""
    import msgspec

    from peerd.cli.output import print_json, print_table

    async def look(peer: "Peer") -> "documents.Topology":
        return await peer.topology(limit)

    found = ask(url, token, look)
    if as_json:
        print_json(msgspec.to_builtins(found))
        return
    print_table(_rows(found), ("peer", "name", "address", "links"))
    click.echo(_sum(found))


def _rows(found: "documents.Topology") -> list[tuple[str, str, str, str]]:
    ids = [node.id for node in found.nodes]
    shown = dict(zip(ids, short(ids)))
    links: dict[str, dict[str, dict[str, None]]] = {}
    for link in found.links:
        links.setdefault(link.source, {}).setdefault(link.kind, {})[shown.get(link.target, link.target[:8])] = None
    return [
        (
            shown[node.id],
            node.name,
            node.at,
            "; ".join(f"{kind}: {', '.join(to)}" for kind, to in links.get(node.id, {}).items())
            if node.answered
            else "(did not answer)",
        )
        for node in found.nodes
    ]


def _sum(found: "documents.Topology") -> str:
    silent = sum(not node.answered for node in found.nodes)
    text = f"peers: {len(found.nodes)}, links: {len(found.links)}"
    if silent:
        text += f", silent: {silent}"
    return text if found.complete else f"{text} (there may be more)"
