"""Asking a contact which swarm it belongs to, before one belongs to any."""

import asyncio
from typing import cast

from peerd.net.dial import NetError, Unreachable, addresses_of, connect
from peerd.net.greeting import BadGreeting, FirstFrame, Greeting, Refusal, encode_first
from peerd.net.tls import Tls


class _Asking(asyncio.Protocol):
    """Says a greeting without a swarm and waits for the answer."""

    def __init__(self, question: Greeting) -> None:
        self._question = question
        self._first = FirstFrame()
        self.transport: asyncio.Transport | None = None
        loop = asyncio.get_running_loop()
        self.answer: asyncio.Future[Greeting | Refusal] = loop.create_future()
        self.closed: asyncio.Future[None] = loop.create_future()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)  # uvloop's are none by type
        self.transport.write(encode_first(self._question))

    def data_received(self, data: bytes) -> None:
        if self.answer.done():
            return
        try:
            first = self._first.feed(data)
        except BadGreeting as error:
            self.answer.set_exception(error)
            return
        if first is not None:
            self.answer.set_result(first)

    def connection_lost(self, error: Exception | None) -> None:
        if not self.answer.done():
            self.answer.set_exception(BadGreeting("it closed the connection without an answer"))
        if not self.closed.done():
            self.closed.set_result(None)


async def inquire(at: str, timeout_s: float = 5.0, tls: Tls | None = None) -> Greeting:
    """Dial, ask, close: what the peer at `at` says of itself and its swarm.

    Tries all addresses of a name. `NetError` with one clear line if there is no answer to be had.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    found = await addresses_of(at)
    faults: list[NetError] = []
    for tried, address in enumerate(found):
        share_s = (deadline - loop.time()) / (len(found) - tried)
        try:
            return await _ask(address, share_s, tls)
        except NetError as error:
            faults.append(error)
    if len(faults) == 1:
        raise faults[0]
    refused = all(isinstance(fault, Unreachable) and fault.refused for fault in faults)
    text = f"none of the {len(faults)} addresses of {at} helps: {'; '.join(map(str, faults))}"
    raise Unreachable(text, refused)


async def _ask(at: str, timeout_s: float, tls: Tls | None) -> Greeting:
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_s
    asking = await connect(lambda: _Asking(Greeting(swarm_id="")), at, timeout_s, tls)
    try:
        async with asyncio.timeout_at(deadline):
            first = await asking.answer
    except TimeoutError:
        raise Unreachable(f"{at} took the connection but did not answer within {timeout_s:.2g} s") from None
    except BadGreeting as error:
        raise NetError(f"{at} is not a peerd peer that can be joined: {error}") from None
    finally:
        asking.answer.cancel()
        if asking.transport is not None:
            asking.transport.abort()
            await asking.closed
    if isinstance(first, Refusal):
        raise NetError(f"refused by {at}: {first.text}")
    return first
