"""What all commands share that talk to a running peer: where it is, and what its answers mean to whoever asked.

Exit codes: 2 where what was asked for is wrong (a filter, an event, a schema, a token), 1 where it could not be had.
"""

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import click

from peerd.cli.errors import Wrong, one_line
from peerd.options import URL

if TYPE_CHECKING:
    from peerd.client import Peer, Refused

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

URL_VARIABLE: Final = "PEERD_URL"
TOKEN_VARIABLE: Final = "PEERD_TOKEN"

WRONG_STATUSES: Final = frozenset({400, 401, 413, 415, 422})
"""Asking again the same way would get the same answer."""


def talks_to_a_peer(command: F) -> F:
    """Give a command `--url` and `--token`; their values come as `url` and `token`."""
    url = click.option("--url", metavar="URL", default=URL, envvar=URL_VARIABLE, help=f"The peer's HTTP API [{URL}].")
    token = click.option("--token", metavar="TEXT", envvar=TOKEN_VARIABLE, help="Its token, if it wants one.")
    return url(token(command))


as_json_option: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


def ask(url: str, token: str | None, work: Callable[["Peer"], Awaitable[T]]) -> T:
    """Do something with the peer; what it refuses, and that it cannot be reached, is said in one line."""
    import asyncio

    from peerd.client import Peer, Refused, Unreachable

    checked = _checked(url)
    if token is not None and not (token.isascii() and token.isprintable()):
        raise Wrong("--token: expected printable ASCII characters")

    async def run() -> T:
        async with Peer(checked, token=token or None) as peer:
            return await work(peer)

    try:
        return asyncio.run(run())
    except Unreachable as error:
        raise click.ClickException(_unreachable(checked, str(error))) from None
    except Refused as refused:
        fail(refused)


def _checked(url: str) -> str:
    """The URL, with its scheme if that was left out."""
    from urllib.parse import urlsplit

    full = url if "://" in url else f"http://{url}"
    try:
        parts = urlsplit(full)
        fine = (
            parts.scheme in ("http", "https")
            and parts.hostname
            and parts.port != 0
            and full.isprintable()
            and " " not in full
        )
    except ValueError:
        fine = False
    if not fine:
        raise Wrong(f"--url {one_line(url)}: expected something like {URL}")
    return full


def _unreachable(url: str, reason: str) -> str:
    # the library's own words name the address once more
    why = "nobody listens there" if "Connect call failed" in reason else one_line(reason.removeprefix(f"{url} "))
    return f"no peer answers at {url} ({why}); --url or {URL_VARIABLE} names another"


def fail(refused: "Refused", where: str = "") -> NoReturn:
    """End with what the peer said, in one line."""
    problem = refused.problem
    line = one_line(f"{where}{problem.detail or problem.title}")
    if problem.status == 401:
        line = f"{line}; --token or {TOKEN_VARIABLE} gives one"
    if problem.position is not None:
        line = f"{line} (at position {problem.position})"
    if problem.status in WRONG_STATUSES:
        raise Wrong(line)
    raise click.ClickException(line)


def utf8(text: str, where: str) -> str:
    """The text, if it is one: an argument that is not UTF-8 arrives as something that cannot be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        raise Wrong(f"{where}: not UTF-8 text") from None
    return text


def described(box: dict[str, dict[str, Any]]) -> str:
    """A box for people, as `peerd check` shows one."""
    import json

    if any(_holds_nothing(bounds) for bounds in box.values()):
        return "nothing"
    return json.dumps(box, ensure_ascii=False) if box else "everything"


def _holds_nothing(bounds: dict[str, Any]) -> bool:
    """The empty box is described by bounds that contradict each other; no string comes before the empty one."""
    if "lt" not in bounds:
        return False
    return bool(bounds["lt"] == "" or ("ge" in bounds and bounds["ge"] >= bounds["lt"]))


def short(ids: Sequence[str]) -> list[str]:
    """Ids cut to where they still differ, at 8 characters at least."""
    length = 8
    while length < 32 and len({id_[:length] for id_ in ids}) < len(set(ids)):
        length += 1
    return [id_[:length] for id_ in ids]
