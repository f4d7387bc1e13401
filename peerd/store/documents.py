"""The files of a data directory: their formats, and what becomes of damaged ones.

Each says in which format it is written. One of a newer format is refused: what it means is not known, and writing over
it would lose it. A damaged one (half-written by a failing disk, edited badly) is renamed and told about; the peer then
goes on with the others.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final, TypeAlias, TypeVar

import msgspec
from msgspec import Meta

from peerd.store.model import StoreError
from protocols.model.bounds import ENDPOINT_MAX, Count

FORMAT: Final = 1

Notice: TypeAlias = Callable[[str], object]


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What every file has, whatever its format."""

    format: Annotated[int, Meta(ge=1)] = FORMAT


class Identity(Head, frozen=True, kw_only=True):
    peer: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]


class Boot(Head, frozen=True, kw_only=True):
    boot: Count


class Swarm(Head, frozen=True, kw_only=True):
    name: Annotated[str, Meta(min_length=1)]
    overlay: str
    parameters: dict[str, Any]
    schema: dict[str, Any]
    first_schema: dict[str, Any]


class Contacts(Head, frozen=True, kw_only=True):
    endpoints: tuple[Annotated[str, Meta(max_length=ENDPOINT_MAX)], ...]


Document = TypeVar("Document", bound=Head)


def encode(document: Head) -> bytes:
    return msgspec.json.format(msgspec.json.encode(document)) + b"\n"


def check_format(path: Path, head: bytes) -> None:
    """`StoreError` if it was written by a later version; `msgspec.DecodeError` if nobody can tell."""
    found = msgspec.json.decode(head, type=Head).format
    if found > FORMAT:
        raise StoreError(
            f"{path} was written by a newer peerd (format {found}, this one reads {FORMAT}); "
            "install that version, or give another --data-dir"
        )


def read(path: Path, type_: type[Document], notice: Notice) -> Document | None:
    """The document, or None if there is none that can be used."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return None
    try:
        check_format(path, data)
        return msgspec.json.decode(data, type=type_)
    except StoreError:
        raise
    except (ValueError, RecursionError) as error:
        set_aside(path, str(error), notice)
        return None


def set_aside(path: Path, reason: str, notice: Notice) -> None:
    """Rename a damaged file, so that it can be looked at and nothing is written over it."""
    number = 1
    while (aside := path.with_name(f"{path.name}.damaged-{number}")).exists():
        number += 1
    path.rename(aside)
    notice(f"{path} is damaged ({reason}); it is set aside as {aside.name}, and the peer starts without it")
