"""`peerd schema`: the attributes that a swarm knows, and more of them."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from peerd.cli.client import as_json_option, ask, talks_to_a_peer
from peerd.cli.errors import users_fault
from peerd.options import toml_key

if TYPE_CHECKING:
    from peerd import documents
    from peerd.client import Peer
    from protocols.model.schema import Attribute


@click.group(short_help="Show the swarm's schema, or append to it.", no_args_is_help=False)
def schema() -> None:
    """The swarm's schema: which attributes events and filters may have."""


@schema.command(short_help="Print the schema as TOML.")
@as_json_option
@talks_to_a_peer
def show(as_json: bool, url: str, token: str | None) -> None:
    """Print the swarm's schema as a file that '--schema' takes."""

    async def look(peer: "Peer") -> "documents.SchemaShown":
        return await peer.schema()

    found = ask(url, token, look)
    if as_json:
        _print_json(found)
    else:
        click.echo(to_toml(found.attributes), nl=False)


@schema.command(short_help="Append the attributes of a file.")
@click.argument("file", type=click.Path())
@as_json_option
@talks_to_a_peer
def add(file: str, as_json: bool, url: str, token: str | None) -> None:
    """Append the attributes of a TOML file to the schema of the living swarm. There is no way back."""
    from pathlib import Path

    from protocols.model.schema import Schema

    with users_fault(file):
        added = Schema.from_toml(Path(file).read_bytes().decode())

    async def append(peer: "Peer") -> "documents.SchemaShown":
        return await peer.append_schema(added.to_dict()["attributes"])

    found = ask(url, token, append)
    if as_json:
        _print_json(found)
    else:
        click.echo(f"appended {', '.join(added.names)}; the schema has {found.version} attributes now")


def _print_json(found: "documents.SchemaShown") -> None:
    import msgspec

    from peerd.cli.output import print_json

    print_json(msgspec.to_builtins(found))


def to_toml(attributes: Iterable["Attribute"]) -> str:
    """The attributes as in a schema file."""
    import json

    import msgspec

    lines: list[str] = []
    for attribute in attributes:
        fields = msgspec.to_builtins(attribute)
        name = fields.pop("name")
        lines.append(f"[attributes.{toml_key(name)}]")
        lines += [f"{field} = {json.dumps(value)}" for field, value in fields.items()]
    return "\n".join(lines) + "\n"
