"""`peerd subscribe`: deliveries as JSON lines, until there are enough of them or somebody says so."""

import asyncio
import signal
from typing import TYPE_CHECKING

import click

from peerd.cli.check import point
from peerd.cli.client import ask, fail, talks_to_a_peer, utf8
from peerd.cli.finite import Finite

if TYPE_CHECKING:
    from peerd.client import Delivery, Gap, Peer, Subscription


@click.command(short_help="Print what matches a filter, as it comes.")
@click.argument("filter_", metavar="FILTER")
@click.option("--xpath", is_flag=True, help="FILTER is XPath on XML payloads (overlay semantic).")
@click.option("--count", metavar="N", type=click.IntRange(1), help="End after so many deliveries.")
@click.option("--timeout", metavar="S", type=Finite(0), help="End after so many seconds.")
@talks_to_a_peer
def subscribe(filter_: str, xpath: bool, count: int | None, timeout: float | None, url: str, token: str | None) -> int:
    """Print every delivery as a JSON line. Ends with Ctrl-C, --count or --timeout, and unsubscribes then.

    A line on standard error says when the subscription stands: from then on nothing is missed. Exits with 1 if fewer
    than --count came in time.
    """
    reading = _Reading(utf8(filter_, "the filter"), xpath, count, timeout)
    try:
        ask(url, token, reading.run)
    except KeyboardInterrupt:
        if not reading.stands:
            raise
    if count is None or reading.seen >= count:
        return 0
    _tell(f"{reading.seen} of {count} deliveries came")
    return 1


class _Reading:
    def __init__(self, filter_: str, xpath: bool, count: int | None, timeout: float | None) -> None:
        self._filter = filter_
        self._is_xpath = xpath
        self._count = count
        self._timeout = timeout
        self.stands = False
        self.seen = 0

    async def run(self, peer: "Peer") -> None:
        # a second signal, for whoever cannot wait, is not ours to handle
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, _interrupt)
        subscription = await self._subscribe(peer)
        try:
            async with asyncio.timeout(self._timeout):
                async for delivery in subscription:
                    _show(delivery)
                    self.seen += 1
                    if self.seen == self._count:
                        return
        except TimeoutError:
            return

    async def _subscribe(self, peer: "Peer") -> "Subscription":
        from peerd.client import Refused

        try:
            if self._is_xpath:
                subscription = await peer.subscribe(xpath=self._filter, on_gap=_tell_gap)
            else:
                subscription = await peer.subscribe(self._filter, on_gap=_tell_gap)
        except Refused as refused:
            position = refused.problem.position
            if position is not None:
                point(self._filter, position)
            fail(refused)
        for warning in subscription.warnings:
            _tell(f"warning: {warning}")
        shown = subscription.shown
        _tell(
            f"subscription {shown.id} " + ("is active" if shown.state == "active" else "is still joining the overlay")
        )
        self.stands = True
        return subscription


def _interrupt() -> None:
    """As Ctrl-C does, also where that is ignored: in the background of a script."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.raise_signal(signal.SIGINT)


def _show(delivery: "Delivery") -> None:
    import msgspec

    from peerd import documents
    from peerd.cli.output import print_json

    fields = msgspec.to_builtins(delivery)
    for time in ("published_at", "delivered_at"):  # the library leaves out a fraction that is nought
        fields[time] = getattr(delivery, time).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
    order = [name for name in documents.Delivery.__struct_fields__ if name in fields]
    print_json({name: fields[name] for name in order if name != "payload_base64" or fields[name] is not None})


def _tell_gap(gap: "Gap") -> None:
    _tell(f"warning: {gap}")


def _tell(line: str) -> None:
    """On standard error, since standard output is for deliveries."""
    click.echo(f"peerd: {line}", err=True)
