"""`peerd tls`: certificates with which peers of a swarm know each other."""

import click

from peerd.cli.errors import users_fault


@click.group(short_help="Make certificates for a closed swarm.", no_args_is_help=False)
def tls() -> None:
    """Certificates for a swarm that only its own peers may enter ('peerd --tls DIR')."""


@tls.command(short_help="Found the authority of a swarm.")
@click.argument("directory", metavar="DIR", type=click.Path(file_okay=False))
@click.option("--swarm", default="peerd", metavar="NAME", help="The swarm's name, for people [peerd].")
def new(directory: str, swarm: str) -> None:
    """Found the authority of a swarm in DIR. Keep it safe: whoever has it can admit peers."""
    from pathlib import Path

    with users_fault():
        from peerd.certificates import make_authority

        make_authority(Path(directory), swarm)
    click.echo(f"founded an authority in {directory}; 'peerd tls issue {directory} PEER-DIR' admits a peer")


@tls.command(short_help="Admit a peer.")
@click.argument("authority", metavar="AUTHORITY-DIR", type=click.Path(file_okay=False))
@click.argument("directory", metavar="PEER-DIR", type=click.Path(file_okay=False))
@click.option("--name", metavar="TEXT", help="What people call the peer [the directory's name].")
@click.option("--days", type=click.IntRange(1, 3650), metavar="N", help="How long it is valid [397].")
def issue(authority: str, directory: str, name: str | None, days: int | None) -> None:
    """Make PEER-DIR with the certificate and key of a peer, signed by the authority in AUTHORITY-DIR."""
    from pathlib import Path

    with users_fault():
        from peerd.certificates import PEER_DAYS, issue

        place = Path(directory)
        issue(Path(authority), place, name or place.resolve().name, days or PEER_DAYS)
    click.echo(f"admitted a peer: start it with 'peerd --tls {directory}'")
