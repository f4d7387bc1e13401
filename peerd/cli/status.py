"""`peerd status`: a running peer, its links and its subscriptions."""

from typing import TYPE_CHECKING, Any

import click

from peerd.cli.client import as_json_option, ask, described, talks_to_a_peer

if TYPE_CHECKING:
    from peerd import documents
    from peerd.client import Peer


@click.command(short_help="Show a running peer.")
@as_json_option
@talks_to_a_peer
def status(as_json: bool, url: str, token: str | None) -> None:
    """Show a running peer, its links and its subscriptions."""
    import msgspec

    from peerd.cli.output import print_json, print_table

    async def look(
        peer: "Peer",
    ) -> "tuple[documents.PeerShown, documents.Links, list[documents.Subscription]]":
        return await peer.status(), await peer.links(), await peer.subscriptions()

    shown, links, subscriptions = ask(url, token, look)
    if as_json:
        found: dict[str, Any] = msgspec.to_builtins(shown)
        found["links"] = msgspec.to_builtins(links.links)
        found["subscriptions"] = msgspec.to_builtins(subscriptions)
        print_json(found)
        return
    print_table([*_peer(shown), *_links(links), *_subscriptions(subscriptions)])


def _peer(shown: "documents.PeerShown") -> list[tuple[str, str]]:
    rows = [
        ("peer", shown.id),
        ("name", shown.name),
        ("swarm", shown.swarm),
        ("overlay", " ".join([shown.overlay, *(f"{key}={value}" for key, value in shown.parameters.items())])),
        ("attributes", ", ".join(f"{attribute.name} {attribute.type}" for attribute in shown.schema.attributes)),
        ("peers reach it at", shown.listen),
        ("clients reach it at", f"http://{shown.http}"),
        ("version", shown.version),
        ("up for", f"{shown.uptime_s:,.0f} s"),
        ("stands in the overlay", f"yes, unchanged for {shown.settled_ms / 1000:,.0f} s" if shown.ready else "not yet"),
    ]
    rows += [(f"participant {each.slot}", described(each.box)) for each in shown.participants]
    return [row for row in rows if row[1]]


def _links(links: "documents.Links") -> list[tuple[str, str]]:
    return [
        (f"{kind} links", ", ".join(f"{link.peer[:8]} at {link.at}" for link in linked))
        for kind, linked in links.links.items()
    ] or [("links", "none")]


def _subscriptions(subscriptions: "list[documents.Subscription]") -> list[tuple[str, str]]:
    return [
        ("subscription", f"{each.filter} ({each.id}, {each.state}, {each.retained} deliveries kept)")
        for each in subscriptions
    ]
