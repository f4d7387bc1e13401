"""`peerd report`: the front end of `python -m analytics report`."""

import click

from peerd.cli.analysis import FORWARDED, forward


@click.command(short_help="Make a report about logged runs (Spark).", **FORWARDED)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED)
def report(arguments: tuple[str, ...]) -> int:
    """Analyse the log records below --logs DIR: one HTML page, and all tables as CSV and Parquet."""
    return forward("report", arguments)
