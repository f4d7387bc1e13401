"""`peerd advise`: the front end of `python -m analytics advise`."""

import click

from peerd.cli.analysis import FORWARDED, forward


@click.command(short_help="Say which overlay suits a logged workload (Spark).", **FORWARDED)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def advise(arguments: tuple[str, ...]) -> int:
    """Replay what was logged through each overlay and say which would have cost least."""
    return forward("advise", arguments)
