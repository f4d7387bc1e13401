"""One connection for each pair of peers: how it is greeted, which of two stays, and what comes of one that ends.

It is made when there is something to send and closed when it was idle. Both sides may dial at once, and a peer may be
dialled under an endpoint that it was not known by; so a second connection can come up. Neither side may simply close
one of them, for it cannot know what the other has sent there. Both apply the same rule:

- a connection that is more than a handshake older than the other one gives way, since a peer that still had it would
  hardly have dialled again;
- otherwise they were dialled at once: the one dialled by the peer with the lower id stays (and of two by the same peer
  the later one).

The one that gives way is finished with a goodbye in both directions, and the other one is not read until that has
ended: nothing is lost, doubled or overtaken. (Overtaken it may be in one case: where one end has not even seen the
second connection come up when its frames arrive. Should the two ends judge differently, because the time is up at one
of them only, both connections end in good order and the next message dials anew.)

If whoever answers at an endpoint is this peer itself, it gets its messages back as received from itself. A connection
that breaks gives the queue of its remote back at once.
"""

import asyncio
from collections import Counter
from collections.abc import Callable

import msgspec

from peerd.net.config import NetConfig
from peerd.net.connection import Connection
from peerd.net.dialling import Dialler
from peerd.net.endpoints import split_endpoint
from peerd.net.greeting import First, Greeting, Refusal
from peerd.net.lanes import Remote
from peerd.net.news import News
from peerd.net.outbox import Outbox
from peerd.net.remotes import Remotes
from protocols.model.ids import Address, in_slot


class Pairs:
    """`greeting` is asked for every handshake; `changed` is called when a connection has ended, `watch` when there is
    one more to look after."""

    def __init__(
        self,
        config: NetConfig,
        greeting: Callable[[], Greeting],
        remotes: Remotes,
        dialler: Dialler,
        outbox: Outbox,
        news: News,
        *,
        watch: Callable[[], None],
        changed: Callable[[], None],
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._config = config
        self._greeting = greeting
        self._remotes = remotes
        self._dialler = dialler
        self._outbox = outbox
        self._news = news
        self._inbox = news.receiver
        self._watch = watch
        self._changed = changed
        self.connections: dict[Connection, None] = {}
        self.half_open: dict[Connection, None] = {}
        """Accepted, not greeted. The dialler knows those that were dialled and are not greeted."""
        self.closing = False
        """None is accepted any more."""
        self.dials = self.accepts = self.rejections = 0
        self.ends: Counter[str] = Counter()
        self._accepted_open = 0

    # --- greetings ----------------------------------------------------------------------------------------------------

    def made(self, connection: Connection) -> None:
        """It stands. Greet if it was dialled."""
        self._watch()
        if connection.remote is not None:
            self.connections[connection] = self._dialler.unanswered[connection] = None
            self.dials += 1
            connection.number = self.dials
            connection.remote.dial = connection
            connection.greet(msgspec.structs.replace(self._greeting(), dial=self.dials))
            return
        self.accepts += 1
        self.half_open[connection] = None
        if self.closing:
            connection.abort("closed")
        elif len(self.half_open) > self._config.handshakes_max:
            refusal = Refusal("busy", "too many connections are in their handshake at once; try again")
            polite = len(self.half_open) <= 2 * self._config.handshakes_max
            connection.reject(f"busy: {refusal.text}", refusal if polite else None)

    def first(self, connection: Connection, first: First) -> None:
        """The other side has introduced itself: open, refuse or close."""
        if connection.remote is None:
            self._called(connection, first)
        else:
            self._answered(connection, connection.remote, first)

    def _called(self, connection: Connection, first: First) -> None:
        """Somebody has dialled here."""
        own = self._greeting()
        if isinstance(first, Refusal):
            connection.reject("it opened with a refusal")
        elif not first.swarm_id:
            connection.answer(own, "inquiry")
        elif (first.peer, first.boot) == (own.peer, own.boot):
            connection.answer(own, "self")
        elif (refusal := self._objection(connection, first, own)) is not None:
            connection.reject(f"{refusal.code}: {refusal.text}", refusal)
        else:
            del self.half_open[connection]
            self.connections[connection] = None
            connection.number, connection.dialler = first.dial, first.peer
            connection.greet(own)
            self._establish(connection, first)

    def _answered(self, connection: Connection, remote: Remote, first: First) -> None:
        """Somebody has answered where this peer dialled for `remote`."""
        remote.dial = None
        self._dialler.unanswered.pop(connection, None)
        if isinstance(first, Refusal):
            self._dialler.failed(remote, at_once=first.code != "busy")
            connection.reject(f"refused by {connection.at}: {first.code}: {first.text}")
            return
        own = self._greeting()
        life = first.peer, first.boot
        if remote.peer and life != (remote.peer, remote.boot):
            self._news.returned(remote, remote.take_all(), refused=True)  # somebody else lives there now
            self._dialler.back_off(remote, refused=True)
        if life == (own.peer, own.boot):
            self._met_self(remote, own)
            connection.close("self")
            return
        refusal = self._objection(connection, first, own)
        if refusal is not None:
            self._dialler.failed(remote, at_once=True)
            connection.reject(f"{refusal.code}: {refusal.text}")
            return
        connection.dialler = own.peer
        self._establish(connection, first)
        self._remotes.answers[connection.dialled] = connection
        target = connection.remote
        if not remote.peer and target is not None:
            self._remotes.forget(remote)
            for entry in remote.take_all():  # one without an id stands alone among its receivers
                (target.events if entry[4].is_event else target.control).append(entry)
            self._outbox.wake(target)

    def _met_self(self, remote: Remote, own: Greeting) -> None:
        """The endpoint is this peer's own: whoever answers there has the messages already."""
        sender = Address(own.peer, own.boot, 0, own.at)
        for entry in remote.take_all():
            frame, slot, _, message, _ = entry
            to = remote.addressee(entry)
            self._news.later(self._inbox.received, in_slot(sender, slot), to.slot, message, len(frame))
        self._remotes.forget(remote)

    def _objection(self, connection: Connection, theirs: Greeting, own: Greeting) -> Refusal | None:
        """Why there cannot be a connection with this peer."""
        if not theirs.peer or not _is_endpoint(theirs.at):
            return Refusal("identity", "a peer needs an id and an endpoint that others can dial (--advertise)")
        if theirs.peer == own.peer:
            text = "has this peer's own id; give each peer a data directory of its own"
            return Refusal("identity", f"the peer at {theirs.at} {text}")
        if self._remotes.is_former(theirs.peer, theirs.boot):
            return Refusal(
                "identity", f"peer {theirs.peer} has been started again since; its boot {theirs.boot} is over"
            )
        if connection.remote is None and self._accepted_open >= self._config.connections_max:
            return Refusal("busy", f"{self._accepted_open} peers are connected already")
        return self._inbox.accepts(theirs)

    def reject(self, connection: Connection, reason: str) -> None:
        """Count and report what the other side did wrong."""
        self.rejections += 1
        remote = connection.remote if connection.was_open else None
        sender = None if remote is None else Address(remote.peer, remote.boot, -1, remote.at)
        self._inbox.rejected(sender, connection.at, reason)

    # --- which one stays ----------------------------------------------------------------------------------------------

    def _establish(self, connection: Connection, greeting: Greeting) -> None:
        """A connection has been greeted at both ends, or the other end is about to see that it is."""
        for former in self._remotes.supersede(greeting.peer, greeting.boot):
            self._bury(former)
        remote = self._remotes.met(greeting.peer, greeting.boot, greeting.at)
        self._accepted_open += not connection.dialled
        connection.open(remote, greeting)
        remote.at, remote.since, remote.not_before = greeting.at, None, 0.0
        remote.stop_timer()
        rival, remote.connection = remote.connection, connection
        if rival is not None and not self._gives_way(rival, connection):
            rival, remote.connection = connection, rival
        if rival is not None:
            rival.finish("switched")
            remote.ending = rival
        ending = remote.ending
        if ending is not None:
            ending.successor = remote.connection
            remote.connection.hold()
        self._inbox.greeted(greeting)
        if remote.queued:
            self._outbox.wake(remote)

    def _gives_way(self, rival: Connection, newcomer: Connection) -> bool:
        """Whether the newcomer takes the rival's place."""
        if newcomer.opened_at - rival.opened_at > self._config.handshake_s:
            return True
        return (newcomer.dialler, -newcomer.number) < (rival.dialler, -rival.number)

    def _bury(self, former: Remote) -> None:
        """A life that is over: whatever waits for it is refused."""
        connection, former.connection = former.connection, None
        if connection is not None:
            self._news.returned(former, connection.handed, refused=True)
            connection.handed = []
            connection.abort("superseded")
        self._news.returned(former, former.take_all(), refused=True)
        self._remotes.forget(former)

    # --- the end ------------------------------------------------------------------------------------------------------

    def ended(self, connection: Connection) -> None:
        """The other side said goodbye first: use this connection no more."""
        self.retire(connection, "peer-finished")

    def retire(self, connection: Connection, reason: str) -> None:
        """Use a connection no more. What is queued will dial a new one."""
        remote = connection.remote
        connection.finish(reason)
        if remote is not None and remote.connection is connection:
            remote.connection = None
            remote.ending = connection
            self._remotes.part(remote)
            if remote.queued:
                self._outbox.wake(remote)

    def overflow(self, remote: Remote) -> None:
        """Too much control waits. It must not be dropped one by one: the other side would have holes in what it knows.
        So all of it comes back, and the connection ends."""
        connection, remote.connection = remote.connection, None
        returned = remote.take_all()
        self._remotes.part(remote)
        if connection is None:
            self.ends["control-overflow"] += 1
        else:
            returned = [*connection.handed, *returned]
            connection.handed = []
            connection.abort("control-overflow")
            self._dialler.back_off(remote)
        self._news.returned(remote, returned, refused=False)

    def lost(self, connection: Connection) -> None:
        """It is closed."""
        self.connections.pop(connection, None)
        self.half_open.pop(connection, None)
        self._dialler.unanswered.pop(connection, None)
        self.ends[connection.reason or "broken"] += 1
        answers = self._remotes.answers
        if answers.get(connection.dialled) is connection:
            del answers[connection.dialled]
        remote = connection.remote
        if connection.was_open:
            assert remote is not None
            self._accepted_open -= not connection.dialled
            self._broke(connection, remote)
        else:
            if not connection.reason and (connection.dialled or connection.has_spoken):
                self.reject(connection, "it closed the connection during the handshake")
            if remote is not None and remote.dial is connection:
                remote.dial = None
                self._dialler.failed(remote)
        self._changed()

    def _broke(self, connection: Connection, remote: Remote) -> None:
        self._news.returned(remote, connection.handed, refused=False)
        connection.handed = []
        if remote.ending is connection:
            remote.ending = None
        if connection.successor is not None:
            connection.successor.release()
            connection.successor = None
        if remote.connection is not connection:
            return
        remote.connection = None
        self._news.returned(remote, remote.take_all(), refused=False)
        if self._loop.time() - connection.opened_at > self._config.backoff_max_s:
            remote.failures = 0
        else:
            self._dialler.back_off(remote)
        self._remotes.part(remote)

    # --- housekeeping -------------------------------------------------------------------------------------------------

    def sweep(self, now: float) -> None:
        """End connections on which nothing has moved for long."""
        for connection in list(self.connections):
            if not connection.is_open:
                continue
            if connection.moves != connection.seen or connection.held:
                connection.seen, connection.idle_since = connection.moves, now
            elif now - connection.idle_since >= self._config.idle_s:
                self._idle(connection)

    def _idle(self, connection: Connection) -> None:
        if connection.within_frame:
            connection.reject("it began a frame and fell silent")
        elif connection.paused:
            connection.abort("stalled")  # it has not read a byte in all that time
        else:
            self.retire(connection, "idle")

    def abort_all(self) -> None:
        for connection in [*self.connections, *self.half_open]:
            connection.abort("closed")


def _is_endpoint(at: str) -> bool:
    try:
        host, port = split_endpoint(at)
    except ValueError:
        return False
    return bool(host) and port > 0
