"""Dialling remotes that something waits for, with patience.

**Not reachable.** Dials back off exponentially, with jitter. Messages wait in the meantime and come back after 10 s;
where nobody listens, at once and as refused. There is a bound on the dials under way, since members may name addresses
that do not exist; what would need one more comes back at once, not as refused.
"""

import asyncio
from collections.abc import Callable
from random import Random

from peerd.net.config import NetConfig
from peerd.net.connection import Connection
from peerd.net.dial import Unreachable, connect
from peerd.net.lanes import Remote
from peerd.net.news import News
from peerd.net.tls import Tls


class Dialler:
    """`make` makes the protocol of a connection for a remote. `unanswered` holds those that have not been greeted yet,
    `changed` is called when less waits than before."""

    def __init__(
        self,
        config: NetConfig,
        news: News,
        rng: Random,
        tls: Tls | None,
        make: Callable[[Remote], Connection],
        changed: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._config = config
        self._news = news
        self._rng = rng
        self._tls = tls
        self._make = make
        self._changed = changed
        self.tasks: set[asyncio.Task[None]] = set()
        self.unanswered: dict[Connection, None] = {}
        self.crowded_out = 0

    def seek(self, remote: Remote) -> None:
        """Dial, now or when the back-off is over, if there is something to send and nothing under way."""
        if not remote.queued or remote.connection is not None or remote.dial is not None or remote.timer is not None:
            return
        now = self._loop.time()
        if now >= remote.not_before and len(self.tasks) + len(self.unanswered) >= self._config.dials_max:
            self.crowded_out += remote.queued
            self._news.returned(remote, remote.take_all(), refused=False)
            self._changed()
            return
        if remote.since is None:
            remote.since = now
        if now < remote.not_before:
            self._wait(remote, now)
            return
        waiting = remote.control.entries or remote.events.entries
        remote.at = remote.addressee(waiting[0]).at  # of several endpoints that were claimed for it, the one in use
        task = self._loop.create_task(self._dial(remote))
        remote.dial = task
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _dial(self, remote: Remote) -> None:
        task = asyncio.current_task()
        try:
            await connect(lambda: self._make(remote), remote.at, self._config.connect_s, self._tls)
        except Unreachable as error:
            if remote.dial is task:
                remote.dial = None
                self.failed(remote, error.refused)
        finally:
            if remote.dial is task:
                remote.dial = None

    def failed(self, remote: Remote, refused: bool = False, at_once: bool = False) -> None:
        """A dial came to nothing. Messages come back if that is final, or has gone on for long enough."""
        if remote.connection is not None:
            return  # one that was accepted serves as well
        self.back_off(remote, refused)
        now = self._loop.time()
        since = now if remote.since is None else remote.since
        if refused or at_once or now - since >= self._config.give_up_s:
            self._news.returned(remote, remote.take_all(), refused)
        elif remote.queued:
            self._wait(remote, now)
        self._changed()

    def back_off(self, remote: Remote, refused: bool = False) -> None:
        """Do not dial for a while; `refused`: nobody listens there, and the question is cheap."""
        max_s = self._config.backoff_refused_max_s if refused else self._config.backoff_max_s
        pause_s = min(self._config.backoff_s * 2 ** min(remote.failures, 20), max_s)
        remote.failures += 1
        remote.not_before = self._loop.time() + pause_s * self._rng.uniform(0.75, 1.25)

    def _wait(self, remote: Remote, now: float) -> None:
        """Wake up for the next dial, or for giving up, whichever is first."""
        since = now if remote.since is None else remote.since
        give_up_at = max(since + self._config.give_up_s, now)
        at = remote.not_before if give_up_at == now else min(remote.not_before, give_up_at)
        remote.timer = self._loop.call_at(at, self._waited, remote)

    def _waited(self, remote: Remote) -> None:
        remote.timer = None
        if remote.connection is not None or remote.since is None:
            return
        now = self._loop.time()
        if now < remote.not_before and now - remote.since >= self._config.give_up_s:
            self._news.returned(remote, remote.take_all(), refused=False)
            self._changed()
        else:
            self.seek(remote)
