"""The network of one peer, put together: who is connected with whom, what waits for whom, and what came of it.

    outbox      from `send` to the queues of the receivers, and from there to the sockets
    remotes     the receivers: lives of peers, endpoints where nobody has answered
    dialling    connections to those that something waits for
    pairs       one connection for each pair of peers, its greeting and its end
    news        what becomes of messages that cannot be sent

Here is what concerns them all: listening, looking for what is idle, closing, and figures.
"""

import asyncio
import socket
from collections.abc import Callable
from random import Random
from typing import BinaryIO, Final

from peerd.net.capture import CaptureWriter
from peerd.net.config import NetConfig
from peerd.net.connection import Connection, Shared
from peerd.net.dialling import Dialler
from peerd.net.endpoints import join_endpoint, why_not_listening
from peerd.net.greeting import Greeting
from peerd.net.lanes import Remote, Tally
from peerd.net.news import News, Receiver
from peerd.net.outbox import Outbox
from peerd.net.pairs import Pairs
from peerd.net.remotes import Remotes
from peerd.net.stats import NetStats, QueueStats, TrafficStats
from peerd.net.tls import Tls
from peerd.wire import Codec

SWEEPS: Final = 4
"""How often one looks for idle connections while one becomes idle."""


class Network:
    """Made inside a running event loop. `greeting` is asked for every handshake, first when listening or dialling."""

    def __init__(
        self,
        greeting: Callable[[], Greeting],
        codec: Codec,
        receiver: Receiver,
        config: NetConfig = NetConfig(),  # noqa: B008 (a frozen value)
        rng: Random | None = None,
        *,
        capture: BinaryIO | None = None,
        tls: Tls | None = None,
    ) -> None:
        self.config = config
        self._loop = asyncio.get_running_loop()
        self._greeting = greeting
        self._tls = tls
        self._capture = CaptureWriter(capture) if capture is not None else None
        self._tallies = {type_: Tally(type_) for type_ in codec.message_types}
        self._own: tuple[str, int] | None = None
        self._server: asyncio.Server | None = None
        self._sweeper: asyncio.TimerHandle | None = None
        self._quiet: asyncio.Event | None = None  # set while closing
        self.news = News(self._loop, receiver)
        self.remotes = Remotes(config, self._self, self._watch)
        self.dialler = Dialler(config, self.news, rng or Random(), tls, self._connection, self._settle)
        self.outbox = Outbox(
            config,
            codec,
            self._tallies,
            self.remotes,
            self.news,
            seek=self.dialler.seek,
            overflow=lambda remote: self.pairs.overflow(remote),
            flushed=self._settle,
        )
        self.pairs = Pairs(
            config,
            greeting,
            self.remotes,
            self.dialler,
            self.outbox,
            self.news,
            watch=self._watch,
            changed=self._settle,
        )
        self._shared = Shared(self._loop, config, codec, self._tallies, receiver, self.outbox, self._capture)
        self.send = self.outbox.send

    def _self(self) -> tuple[str, int]:
        """Own id and boot, which never change."""
        if self._own is None:
            own = self._greeting()
            self._own = own.peer, own.boot
        return self._own

    def _connection(self, remote: Remote | None = None) -> Connection:
        return Connection(self._shared, self.pairs, remote)

    async def listen(self, host: str, port: int) -> tuple[str, int]:
        """Accept connections there; port 0 takes a free one. Returns the address that was bound.

        `OSError` with one clear line if that cannot be had. A name is bound at the first of its addresses.
        """
        try:
            found = await self._loop.getaddrinfo(
                host or "0.0.0.0", port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
            )
            family, address = found[0][0], str(found[0][4][0])
            self._server = await self._loop.create_server(
                self._connection,
                address,
                port,
                family=family,
                backlog=self.config.backlog,
                ssl=self._tls.server if self._tls else None,
                ssl_handshake_timeout=self.config.handshake_s if self._tls else None,
            )
        except OSError as error:
            where = join_endpoint(host, port)
            raise OSError(error.errno, f"cannot listen on {where}: {why_not_listening(error)}") from None
        bound = self._server.sockets[0].getsockname()
        return str(bound[0]), int(bound[1])

    # --- figures ------------------------------------------------------------------------------------------------------

    def events_queued(self) -> int:
        """Events that wait for their connections; cheap enough to be asked for every publication."""
        self.outbox.enqueue()
        return sum([len(remote.events) for remote in self.remotes.lives.values()])

    def stats(self) -> NetStats:
        self.outbox.enqueue()
        pairs = self.pairs
        return NetStats(
            connections=sum(1 for connection in pairs.connections if connection.was_open),
            handshakes=len(pairs.half_open) + sum(1 for c in pairs.connections if not c.was_open),
            dialling=len(self.dialler.tasks),
            accepted=pairs.accepts,
            dialled=pairs.dials,
            queues=tuple(map(_queue_stats, self.remotes)),
            traffic=tuple(
                TrafficStats(t.name, t.sent, t.sent_bytes, t.received, t.received_bytes) for t in self._tallies.values()
            ),
            dropped=dict(self.news.dropped),
            closed=dict(pairs.ends),
            undelivered=self.news.undelivered,
            crowded_out=self.outbox.crowded_out + self.dialler.crowded_out,
            rejected=pairs.rejections,
        )

    # --- housekeeping -------------------------------------------------------------------------------------------------

    def _watch(self) -> None:
        """Sweep from time to time, as long as there is something to sweep."""
        if self._sweeper is None and not self.news.closed:
            self._sweeper = self._loop.call_later(self.config.idle_s / SWEEPS, self._sweep)

    def _sweep(self) -> None:
        self._sweeper = None
        now = self._loop.time()
        self.pairs.sweep(now)
        self.remotes.forget_idle(now)
        if self._capture is not None:
            self._capture.flush()
        if self.pairs.connections or self.pairs.half_open or len(self.remotes):
            self._watch()

    # --- closing ------------------------------------------------------------------------------------------------------

    async def close(self, flush_s: float = 2.0) -> None:
        """Send what is queued, for so long, say goodbye and end: no task, transport or server remains."""
        if self.news.closed or self._quiet is not None:
            return
        self._quiet = asyncio.Event()
        self.pairs.closing = True
        if self._server is not None:
            self._server.close()
        for connection in list(self.pairs.half_open):
            connection.abort("closed")
        self.outbox.flush()
        try:
            async with asyncio.timeout(flush_s):
                await self._quiet.wait()
        except TimeoutError:
            pass
        self.news.closed = True
        for task in self.dialler.tasks:
            task.cancel()
        await asyncio.gather(*self.dialler.tasks, return_exceptions=True)
        self.pairs.abort_all()
        while self.pairs.connections or self.pairs.half_open:
            self._quiet.clear()
            await self._quiet.wait()
        self._clear()
        if self._server is not None:
            await self._server.wait_closed()
        if self._capture is not None:
            self._capture.flush()

    def _settle(self) -> None:
        """While closing: finish what has nothing left to send, and tell `close` when all has ended."""
        if self._quiet is None:
            return
        for connection in list(self.pairs.connections):
            remote = connection.remote
            if connection.is_open and remote is not None and not remote.queued:
                self.pairs.retire(connection, "closed")
        waiting = any(remote.queued for remote in self.remotes)
        if self.news.closed or not (self.pairs.connections or self.pairs.half_open or waiting):
            self._quiet.set()  # closed: `close` looks for itself

    def _clear(self) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for remote in self.remotes:
            for entry in remote.take_all():
                self.news.abandon(remote.addressee(entry), (entry,))
            self.remotes.forget(remote)
        self.news.tell()


def _queue_stats(remote: Remote) -> QueueStats:
    return QueueStats(
        peer=remote.peer,
        boot=remote.boot,
        at=remote.at,
        connected=remote.connection is not None,
        control=len(remote.control),
        control_bytes=remote.control.bytes,
        events=len(remote.events),
        events_bytes=remote.events.bytes,
    )
