"""`peerd frames`: what two peers said to each other, from a capture (`--set net.capture=FILE`)."""

import sys

import click

from peerd.cli.errors import users_fault


@click.command(short_help="Print captured frames.")
@click.argument("file", type=click.Path(dir_okay=False))
def frames(file: str) -> None:
    """Print the frames of a capture, one a line: time, direction, peer, bytes, content.

    A peer that runs with '--set net.capture=FILE' writes one.
    """
    from pathlib import Path

    from peerd.net.capture import print_frames

    with users_fault(file), Path(file).open("rb") as opened:
        print_frames(opened, sys.stdout)
