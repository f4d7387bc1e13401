"""What a forked process does: it is a peer, and tells the steering process about itself."""

import asyncio
import logging
import os
import socket
from typing import Final

from peerd import logs
from peerd.config import SettingsError, load
from peerd.daemon import Daemon
from peerd.driver import Driver
from peerd.net import Network
from peerd.net.loop import run
from peerd.service import Service
from peerd.testbed.lines import Failed, Fork, Line, Looked, News, Ready, Up, decode_question
from peerd.testbed.watch import Watch

ORPHANED: Final = 3
"""Exit code of a peer whose fork server has gone."""


def live(order: Fork, line: socket.socket, life: int) -> int:
    """Be that peer until it ends; the exit code. `life` is a pipe that breaks when the fork server ends."""
    name = str(order.flags.get("name", ""))
    logs.configure(level="warning").addFilter(lambda record: _named(record, name))
    return run(_Member(order).live(line, life))


def _named(record: logging.LogRecord, name: str) -> bool:
    record.member = name
    return True


class _Member:
    def __init__(self, order: Fork) -> None:
        self._order = order
        self._line = Line(self._heard, self._unheard)
        self._watch = Watch(self._tell, lambda: self._tell(Ready()), order.watched)
        self._driver: Driver | None = None

    async def live(self, line: socket.socket, life: int) -> int:
        loop = asyncio.get_running_loop()
        loop.add_reader(life, lambda: os._exit(ORPHANED))
        await loop.create_unix_connection(lambda: self._line, sock=line)
        daemon = Daemon(load(self._order.flags, {}), lambda text: None, self._built)
        daemon.stop_on_signals()
        try:
            await daemon.run()
        except (SettingsError, OSError) as error:
            self._tell(Failed(str(error)))
            return 1
        except asyncio.CancelledError:  # told to stop a second time
            return 1
        finally:
            self._watch.flush()
            self._line.close()
            await asyncio.sleep(0)  # what was just told is on its way
        return 0

    def _built(self, driver: Driver, service: Service, network: Network) -> None:
        self._driver, self._service, self._network = driver, service, network
        driver.attach([self._watch])
        service.publisher.listeners.append(self._watch.on_publish)
        me = driver.peer.me
        self._tell(Up(me.peer, me.boot, me.at, service.about.http))

    def _tell(self, news: News) -> None:
        """Nobody listens, or not fast enough: then a line that breaks says so, and the peer goes on unwatched."""
        if not self._line.tell(news):
            self._watch.stop()
            self._line.close()

    def _unheard(self) -> None:
        self._watch.stop()

    def _heard(self, message: bytes) -> None:
        question = decode_question(message)
        if self._driver is not None:
            self._watch.flush()  # so that what happened before the answer is told before it
            self._tell(self._looked(question.number))

    def _looked(self, number: int) -> Looked:
        assert self._driver is not None
        peer = self._driver.peer
        links = {link.to.peer: None for overlay in peer.participants.values() for link in overlay.links()}
        links.pop(peer.me.peer, None)
        traffic = self._network.stats().traffic
        return Looked(
            number,
            peer.ready,
            self._service.settled_ms,
            tuple(links),
            sum(each.sent for each in traffic),
            sum(each.sent_bytes for each in traffic),
        )
