"""`peerd publish`: one event from the arguments, or many from lines of JSON."""

import asyncio
import re
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from threading import Semaphore, Thread
from typing import IO, TYPE_CHECKING, Any, Final

import click

from peerd.cli.client import as_json_option, ask, fail, talks_to_a_peer, utf8
from peerd.cli.errors import Wrong, one_line, users_fault
from peerd.options import split_assignment

if TYPE_CHECKING:
    from peerd.client import Peer
    from protocols.model.schema import Attribute

LINES_MAX: Final = 500
"""Lines handed to the peer at once, at the most: what its client puts into one request."""
LINES_AHEAD: Final = 4 * LINES_MAX
NUMBER: Final = re.compile(r"[+-]?([0-9]+[.]?[0-9]*|[.][0-9]+)([eE][+-]?[0-9]{1,2})?")
WORDS: Final = {"true": True, "false": False}


@click.command(short_help="Publish an event, or a file of events.")
@click.argument("assignments", metavar="[NAME=VALUE...]", nargs=-1)
@click.option("--payload", metavar="TEXT", help="The event's payload.")
@click.option("--payload-file", metavar="F", type=click.Path(), help="A file with the payload; bytes, if not UTF-8.")
@click.option(
    "--file", metavar="F", type=click.Path(allow_dash=True), help="Events as JSON lines; '-' is standard input."
)
@as_json_option
@talks_to_a_peer
def publish(
    assignments: tuple[str, ...],
    payload: str | None,
    payload_file: str | None,
    file: str | None,
    as_json: bool,
    url: str,
    token: str | None,
) -> None:
    """Publish one event with these attributes and print its id, or publish every line of a file.

    The swarm's schema says which type a VALUE has. A line is a JSON object such as {"attributes": {"price": 8.4}},
    with "payload", "headers" and "ttl_s" if you like.
    """
    if (file is not None) == bool(assignments):
        raise Wrong("give either NAME=VALUE or --file; see 'peerd publish --help'")
    if file is not None:
        if payload is not None or payload_file is not None:
            raise Wrong("the events of --file have payloads of their own")
        _publish_file(file, as_json, url, token)
        return
    given = _assigned(assignments)
    content = _payload(payload, payload_file)

    async def one(peer: "Peer") -> str:
        attributes = _typed(given, (await peer.schema()).attributes)
        return await _publish_one(peer, attributes, content)

    _show({"id": ask(url, token, one)}, "{id}", as_json)


def _show(answer: dict[str, Any], text: str, as_json: bool) -> None:
    from peerd.cli.output import print_json

    if as_json:
        print_json(answer)
    else:
        click.echo(text.format(**answer))


# --- One event --------------------------------------------------------------------------------------------------------


def _assigned(assignments: tuple[str, ...]) -> dict[str, str]:
    given: dict[str, str] = {}
    for each in assignments:
        try:
            name, value = split_assignment(each, "NAME=VALUE")
        except ValueError as error:
            raise Wrong(f"{one_line(each)}: {error}") from None
        if name in given:
            raise Wrong(f"{one_line(name)} is given twice")
        given[name] = value
    return given


def _payload(text: str | None, file: str | None) -> str | bytes | None:
    from pathlib import Path

    if file is None:
        return text if text is None else utf8(text, "--payload")
    if text is not None:
        raise Wrong("give either --payload or --payload-file")
    with users_fault(file):
        raw = Path(file).read_bytes()
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw


def _typed(given: dict[str, str], attributes: "list[Attribute]") -> dict[str, Any]:
    """The values in the types that the swarm's schema gives them."""
    from difflib import get_close_matches

    types = {attribute.name: attribute.type for attribute in attributes}
    values: dict[str, Any] = {}
    for name, text in given.items():
        if name not in types:
            close = get_close_matches(name, types, 1)
            hint = f"did you mean '{close[0]}'?" if close else f"the schema has {', '.join(types)}"
            raise Wrong(f"unknown attribute '{one_line(name)}'; {hint}")
        try:
            values[name] = _value(types[name], text)
        except (ValueError, KeyError):
            raise Wrong(f"attribute '{name}': '{one_line(text)}' is not {_article(types[name])}") from None
    return values


def _value(type_: str, text: str) -> str | int | float | bool:
    """`ValueError` or `KeyError` if it is none. Python's own freedoms, such as 1_000 and nan, are not JSON's."""
    if type_ == "string":
        return utf8(text, "a value")
    if type_ == "bool":
        return WORDS[text.lower()]
    if not NUMBER.fullmatch(text):
        raise ValueError
    return int(text) if type_ == "int" else float(text)


def _article(type_: str) -> str:
    return {"int": "an int", "bool": "a bool: write true or false"}.get(type_, f"a {type_}")


async def _publish_one(peer: "Peer", attributes: dict[str, Any], payload: str | bytes | None) -> str:
    """Under an id of its own, so that pushed back and tried again it is published once."""
    from uuid import uuid4

    from peerd.client import PushedBack

    id_ = uuid4().hex
    while True:
        try:
            return await peer.publish(attributes, payload=payload, id=id_)
        except PushedBack as pushed:
            if pushed.status != 429:
                raise
            await asyncio.sleep(pushed.retry_after)


# --- Many events ------------------------------------------------------------------------------------------------------


def _publish_file(file: str, as_json: bool, url: str, token: str | None) -> None:
    from peerd.cli.progress import progress

    with users_fault(file):
        lines = click.open_file(file, "rb")
    with lines, progress() as show:
        stream = _Lines(file, lines)

        async def many(peer: "Peer") -> int:
            return await _publish_many(peer, stream, show)

        accepted = ask(url, token, many)
    _show({"accepted": accepted}, "{accepted} events published", as_json)


async def _publish_many(peer: "Peer", stream: "_Lines", show: Callable[[str, float], None]) -> int:
    from peerd.client import Refused

    accepted = 0
    async for numbers, events in stream.batches():
        try:
            await peer.publish_many(events)
        except Refused as refused:
            line = numbers[min(refused.accepted, len(numbers) - 1)]
            fail(refused, f"{stream.name}: line {line}: ")
        accepted += len(events)
        show(f"{accepted:,} events", stream.share)
    return accepted


class _Lines:
    """Lines of a file, in batches of what there is: whoever writes into a pipe now and then is not kept waiting.

    A thread reads them, since a file can keep its reader waiting. Nobody waits for that thread when the command ends.
    """

    def __init__(self, name: str, file: IO[bytes]) -> None:
        self.name = name if name != "-" else "standard input"
        self._file = file
        self._size = _size(file)
        self._taken_bytes = 0
        self._lines: deque[bytes] = deque()
        self._room = Semaphore(LINES_AHEAD)
        self._over = False
        self._error: OSError | None = None

    @property
    def share(self) -> float:
        """How much has been read, from 0 to 1; 0 where the end is not known."""
        return self._taken_bytes / self._size if self._size else 0.0

    async def batches(self) -> AsyncIterator[tuple[list[int], list[dict[str, Any]]]]:
        """Numbers of lines, and the events in them."""
        loop, news = asyncio.get_running_loop(), asyncio.Event()
        Thread(target=self._read, args=(loop, news), name="peerd-lines", daemon=True).start()
        number = 0
        while await self._wait(news):
            numbers: list[int] = []
            events: list[dict[str, Any]] = []
            while self._lines and len(events) < LINES_MAX:
                line = self._lines.popleft()
                self._room.release()
                self._taken_bytes += len(line)
                number += 1
                if line.strip():
                    events.append(self._event(number, line))
                    numbers.append(number)
            if events:
                yield numbers, events

    async def _wait(self, news: asyncio.Event) -> bool:
        """Wait for more lines; False if there are none."""
        while not self._lines and not self._over:
            news.clear()
            if not self._lines and not self._over:  # the thread may have been quicker
                await news.wait()
        if self._error is not None:
            raise self._error
        return bool(self._lines)

    def _read(self, loop: asyncio.AbstractEventLoop, news: asyncio.Event) -> None:
        with suppress(RuntimeError, ValueError):  # the loop, or the file, was closed: the command has ended
            try:
                for line in self._file:
                    self._room.acquire()
                    self._lines.append(line)
                    if not news.is_set():
                        loop.call_soon_threadsafe(news.set)
            except OSError as error:
                self._error = error
            self._over = True
            loop.call_soon_threadsafe(news.set)

    def _event(self, number: int, line: bytes) -> dict[str, Any]:
        import msgspec

        try:
            return msgspec.json.decode(line, type=dict[str, Any])
        except (ValueError, RecursionError) as error:
            what = "expected a JSON object" if isinstance(error, msgspec.ValidationError) else f"not JSON: {error}"
            raise Wrong(f"{self.name}: line {number}: {one_line(what)}") from None


def _size(file: IO[bytes]) -> int:
    """Bytes in a file on disk; 0 for anything else."""
    import os
    import stat

    try:
        status = os.fstat(file.fileno())
    except (OSError, ValueError):
        return 0
    return status.st_size if stat.S_ISREG(status.st_mode) else 0
