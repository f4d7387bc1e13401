"""`peerd explain`: the front end of `python -m analytics explain`."""

import click

from peerd.cli.analysis import FORWARDED, forward


@click.command(short_help="Tell the way of one event, from logs (Spark).", **FORWARDED)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def explain(arguments: tuple[str, ...]) -> int:
    """Tell the way that an event took, and for a delivery that is missing, where and why it stopped."""
    return forward("explain", arguments)
