"""Endpoints: "host:port" as users and peers write them, and the addresses that stand behind a name.

An IPv6 address stands in brackets (`[::1]:6470`), since its colons would hide the port.
"""

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from protocols.model.bounds import ENDPOINT_MAX

PORT_MAX: Final = 65535
WILDCARDS: Final = ("", "0.0.0.0", "::")
"""Hosts to listen on all addresses with."""


def split_endpoint(at: str) -> tuple[str, int]:
    """Host and port of "host:port"; `ValueError` with one clear line if it is something else."""
    host, colon, digits = at.rpartition(":")
    if not colon:
        raise ValueError(f"'{at}' has no port; write HOST:PORT")
    if host.startswith("[") and host.endswith("]"):
        host = host[1:-1]
        if ":" not in host:
            raise ValueError(f"'{at}': brackets are for IPv6 addresses, as in [::1]:6470")
    elif ":" in host:
        raise ValueError(f"'{at}': write an IPv6 address in brackets, as in [::1]:6470")
    if not (digits.isascii() and digits.isdigit() and len(digits) <= len(str(PORT_MAX)) and int(digits) <= PORT_MAX):
        raise ValueError(f"'{at}': a port is a number from 0 to {PORT_MAX}")
    if not host.isprintable() or any(character.isspace() for character in host) or len(at) > ENDPOINT_MAX:
        raise ValueError(f"'{at[:80]}': that is not the name or address of a host")
    return host, int(digits)


def join_endpoint(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def why_not_listening(error: OSError) -> str:
    """Why an address cannot be had, and what to do about it."""
    if error.errno == errno.EADDRINUSE:
        return "another process listens there; take another port, or 0 for any free one"
    return error.strerror or str(error)


async def try_listening(at: str) -> None:
    """`OSError` if an address cannot be had at present. Nothing is kept: whoever listens there later may fail again."""
    host, port = split_endpoint(at)
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    with socket.socket(found[0][0], socket.SOCK_STREAM) as trial:
        trial.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # as servers do: those that have ended do not count
        trial.bind(found[0][4])


def is_address(host: str) -> bool:
    """Whether the host is an IP address rather than a name."""
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


async def resolve(at: str) -> list[str]:
    """All the endpoints that a name stands for, in the system's order of preference; an address stands for itself.

    `ValueError` if it is no endpoint, `OSError` if the name is not known.
    """
    host, port = split_endpoint(at)
    if not host:
        raise ValueError(f"'{at}' has no host; write HOST:PORT")
    if is_address(host):
        return [join_endpoint(host, port)]
    try:
        found = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        raise OSError(f"the name {host} is not known: {_reason(error)}") from None
    return list(dict.fromkeys(join_endpoint(str(sockaddr[0]), port) for *_, sockaddr in found))


def _reason(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error)


def is_own(at: str, listening: tuple[str, int]) -> bool:
    """Whether an endpoint (an address, as `resolve` returns it) leads to this very peer, which listens there."""
    host, port = split_endpoint(at)
    if port != listening[1]:
        return False
    if listening[0] not in WILDCARDS:
        return host == listening[0]
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.bind((host, 0))  # the system lets us bind our own addresses only
        return True
    return False


def others(found: Sequence[str], listening: tuple[str, int]) -> list[str]:
    """The endpoints without one's own."""
    return [at for at in found if not is_own(at, listening)]


async def local_host_towards(at: str) -> str:
    """The address of this host that the contact sees: what to advertise when listening on all. Sends nothing."""
    for endpoint in await resolve(at):
        host, port = split_endpoint(endpoint)
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        with suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as probe:
            probe.connect((host, port or 1))  # picks a route and an own address; no packet leaves
            return str(probe.getsockname()[0])
    raise OSError(f"this host has no route to {at}")
