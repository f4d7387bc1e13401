"""Making a connection to an endpoint: every address behind its name is tried before it counts as failed.

Nobody listening is an answer, and a stronger one than silence: it proves that the life that was there is over. So the
failure says which of the two it was.
"""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from typing import Final, TypeVar

from peerd.net.endpoints import resolve, split_endpoint
from peerd.net.tls import Tls, fault

P = TypeVar("P", bound=asyncio.BaseProtocol)

_NOT_FROM_HERE: Final = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)
"""This host has no such kind of address: that says nothing about the other one."""

SHAKE_MIN_S: Final = 0.1
"""For a TLS handshake that begins when the time is nearly over."""


class NetError(Exception):
    """A contact cannot be talked to; the text is one clear line."""


class Unreachable(NetError):
    """No connection came about. `refused`: the hosts answered that nobody listens."""

    def __init__(self, text: str, refused: bool = False) -> None:
        super().__init__(text)
        self.refused = refused


async def addresses_of(at: str) -> list[str]:
    """As `resolve`, but `Unreachable` if there is none."""
    try:
        return await resolve(at)
    except (ValueError, OSError) as error:
        raise Unreachable(str(error)) from None


async def connect(factory: Callable[[], P], at: str, timeout_s: float, tls: Tls | None = None) -> P:
    """A connection to the first address of `at` that takes it, within that time in all; else `Unreachable`."""
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    try:
        async with asyncio.timeout_at(deadline):
            found = await addresses_of(at)
    except TimeoutError:
        raise Unreachable(f"the name in {at} was not found within {timeout_s:g} s") from None
    faults: list[OSError] = []
    for tried, address in enumerate(found):
        until = loop.time() + (deadline - loop.time()) / (len(found) - tried)
        try:
            async with asyncio.timeout_at(until):
                sock = await _connected(loop, address)
            # Not within the timeout: uvloop, when it is cancelled here, closes a transport whose protocol was told that
            # it is connected, and never tells it otherwise.
            if tls is None:
                _, protocol = await loop.create_connection(factory, sock=sock)
            else:
                left_s = max(until - loop.time(), SHAKE_MIN_S)
                _, protocol = await loop.create_connection(
                    factory, sock=sock, ssl=tls.client, server_hostname="", ssl_handshake_timeout=left_s
                )
            return protocol
        except OSError as error:  # which TimeoutError is, too
            faults.append(error)
    raise _unreachable(at, faults, timeout_s)


async def _connected(loop: asyncio.AbstractEventLoop, address: str) -> socket.socket:
    """A socket with its connection; closed if none comes about."""
    host, port = split_endpoint(address)
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)  # asks nobody
    family, kind, protocol, _, sockaddr = found[0]
    sock = socket.socket(family, kind, protocol)
    try:
        sock.setblocking(False)
        await loop.sock_connect(sock, sockaddr)
    except BaseException:
        sock.close()
        raise
    return sock


def _unreachable(at: str, faults: list[OSError], timeout_s: float) -> Unreachable:
    telling = [error for error in faults if error.errno not in _NOT_FROM_HERE] or faults
    if all(isinstance(error, ConnectionRefusedError) for error in telling):
        return Unreachable(f"nobody listens at {at}", refused=True)
    if any(isinstance(error, TimeoutError | ConnectionAbortedError) for error in telling):  # the latter by TLS
        return Unreachable(f"{at} did not answer within {timeout_s:.2g} s")
    for error in telling:
        if isinstance(error, ssl.SSLError):
            return Unreachable(fault(at, error))
    return Unreachable(f"{at} cannot be reached: {telling[0].strerror or telling[0]}")
