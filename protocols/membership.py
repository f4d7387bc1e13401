"""Membership: peer sampling, liveness and bootstrap of one peer, and the messages between peers as such.

The three parts know nothing of each other; this is where they are tied together:

- who is welcomed or sampled becomes a contact; who is declared dead leaves the view and is remembered by bootstrap;
- liveness asks helpers from the view, and buries the dead where CYCLON will not dig them up;
- a newcomer that is greeted by a standing peer is introduced by random walks.

A peer that does not stand in the overlay yet keeps the newcomers that greet it waiting, and greets them when it does:
so that a swarm has one origin.

Nothing here decides about participants or subscriptions. Effects gather in `out`; the rest of what the peer must know,
which is rare, in `news`. The peer looks at both after every call.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from random import Random
from typing import Annotated, Any, Final

import msgspec

from protocols.model.bounds import Slot
from protocols.model.descriptor import Descriptor, PeerDescriptor, Standing, pack, participants_of, readable
from protocols.model.ids import PEER_SLOT, Address, PeerId, in_slot, of_peer
from protocols.overlay import (
    Lost,
    Message,
    Outbox,
    Rejected,
    Suspected,
    Undelivered,
    parameter,
)
from protocols.parts import bootstrap, cyclon, liveness
from protocols.parts.bootstrap import Bootstrap, Hello, Welcome
from protocols.parts.cyclon import Cyclon, CyclonReply, CyclonRequest, CyclonSwap, CyclonWalk
from protocols.parts.liveness import T_HB_MS, Liveness, Ping, PingRequest, Pong, Vouch
from protocols.parts.tombstones import Tombstones

WAITING_MAX: Final = 1024
"""Newcomers that wait until this peer stands. A guess: a whole testbed, five times over."""


class MembershipConfig(msgspec.Struct, frozen=True, kw_only=True):
    gossip_ms: Annotated[int, parameter("one CYCLON round", "specification, section 1", ge=10)] = 1_000
    view: Annotated[int, parameter("CYCLON's c", "specification, section 1", ge=1, le=256)] = cyclon.CACHE
    shuffle: Annotated[int, parameter("CYCLON's l", "specification, section 1", ge=1, le=64)] = cyclon.SHUFFLE_LENGTH
    begin_after_ms: Annotated[int | None, parameter("begin a swarm if nobody was found", "never, unless asked")] = None
    sampling: Annotated[bool, parameter("False: an oracle samples (simulator)", "the protocol is the rule")] = True
    liveness: Annotated[bool, parameter("False: an oracle says who died (simulator)", "the protocol is the rule")] = (
        True
    )


class Gone(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="gone"):
    """There is no participant in that slot (any more)."""

    slot: Slot


class Bye(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="bye"):
    """This peer has left in good order."""


MESSAGES: Final = (*cyclon.MESSAGES, *liveness.MESSAGES, *bootstrap.MESSAGES, Gone, Bye)


class News(msgspec.Struct):
    """Who was lost and who watched it, which participant of a living peer is gone, fresh samples, whether there are new
    contacts, whether the swarm begins here."""

    lost: list[tuple[int, Address]] = []
    gone: Address | None = None
    sampled: Sequence[Descriptor] | None = None
    contacts: bool = False
    begin: bool = False


class Membership:
    __slots__ = (
        "_bootstrap",
        "_config",
        "_contacts",
        "_liveness",
        "_me",
        "_packed",
        "_ready",
        "_rng",
        "_shown",
        "_tombstones",
        "_waiting",
        "_watchers",
        "cyclon",
        "news",
        "out",
    )

    def __init__(self, me: Address, config: MembershipConfig, rng: Random) -> None:
        self._me = me
        self._config = config
        self._rng = rng
        self._tombstones = Tombstones()
        self.cyclon = Cyclon(me, rng, self._tombstones, config.view, config.shuffle)
        self._liveness = Liveness(me, self._tombstones, self._helpers)
        self._bootstrap = Bootstrap(me, (), rng, 0)
        self._shown: tuple[Standing, ...] = ()
        self._packed = b""
        self._contacts: list[Descriptor] = []
        self._ready = False
        self._waiting: dict[PeerId, tuple[Address, Hello]] = {}
        self._watchers: dict[PeerId, dict[tuple[int, Address], int]] = {}
        self.out = Outbox(PEER_SLOT)
        self.news: News | None = None

    # --- what the peer asks -------------------------------------------------------------------------------------------

    def own(self) -> PeerDescriptor:
        """This peer's descriptor, fresh."""
        return PeerDescriptor(self._me, 0, self._liveness.refutation, self._packed)

    def show(self, participants: tuple[Standing, ...]) -> None:
        """Name these participants in the descriptor from now on."""
        if participants != self._shown:
            self._shown, self._packed = participants, pack(participants)

    def known(self) -> list[Address]:
        """The peers of the view, and those that are watched."""
        return list(dict.fromkeys([d.address for d in self.cyclon.peers()] + self._liveness.watched()))

    def contacts(self) -> list[Descriptor]:
        """Standing participants of other peers, through which to join."""
        return self._contacts

    def start(self, now_ms: int, seeds: list[str], alone: bool = True) -> None:
        """Look for the swarm. `alone`: where there are no seeds, it begins here."""
        self._bootstrap = Bootstrap(self._me, seeds, self._rng, now_ms, self._config.begin_after_ms, alone)
        if self._config.liveness:
            self.out.timer("tick", now_ms + self._rng.randrange(1, T_HB_MS + 1))
        if self._config.sampling:
            self.out.timer("gossip", now_ms + self._rng.randrange(1, self._config.gossip_ms + 1))
        self._seek(now_ms)

    def reseed(self, seeds: list[str]) -> None:
        """The seeds' names stand for these endpoints now."""
        self._bootstrap.reseed(seeds)

    def ready(self, now_ms: int) -> None:
        """The peer stands: greet those who waited for it."""
        self._ready = True
        waiting, self._waiting = self._waiting, {}
        for sender, hello in waiting.values():
            self._greet(sender, hello)

    def leave(self) -> None:
        """Say goodbye to the view, and stop."""
        for key in ("tick", "gossip", "seek"):
            self.out.cancel(key)
        self.out.send_all(self.known(), Bye())

    # --- watching -----------------------------------------------------------------------------------------------------

    def watch(self, now_ms: int, slot: int, address: Address) -> None:
        watchers = self._watchers.setdefault(address.peer, {})
        watchers[slot, address] = watchers.get((slot, address), 0) + 1
        if self._config.liveness:
            ended = self._liveness.watch(now_ms, address)
            if ended is not None:
                self._ended(now_ms, ended)

    def unwatch(self, slot: int, address: Address) -> None:
        watchers = self._watchers.get(address.peer, {})
        count = watchers.get((slot, address), 0)
        if not count:
            return
        self._liveness.unwatch(address)
        if count > 1:
            watchers[slot, address] = count - 1
            return
        del watchers[slot, address]
        if not watchers:
            del self._watchers[address.peer]

    def unwatch_all(self, slot: int) -> None:
        """A participant is gone, and so are its watches."""
        held = [key for watchers in self._watchers.values() for key, n in watchers.items() for _ in range(n)]
        for watcher, address in held:
            if watcher == slot:
                self.unwatch(slot, address)

    def lost(self, now_ms: int, address: Address) -> None:
        """Somebody who must know says that this life of a peer is over."""
        self._tombstones.bury(now_ms, of_peer(address))
        self._ended(now_ms, address)

    def _ended(self, now_ms: int, address: Address) -> None:
        """A life of a peer is over: tell everyone who watched it."""
        self.cyclon.forget(address)
        self._bootstrap.remember(address.at)
        self._contacts = [d for d in self._contacts if d.address.peer != address.peer]
        watchers = self._watchers.get(address.peer, {})
        gone = [key for key in watchers if key[1].boot <= address.boot]
        if gone:
            self.out.report(Lost(of_peer(address)))
        for key in gone:
            del watchers[key]
            self._tell().lost.append(key)
        if not watchers:
            self._watchers.pop(address.peer, None)

    # --- inputs -------------------------------------------------------------------------------------------------------

    @property
    def heard(self) -> Callable[[int, Address], Address | None]:
        """To be called for every message, unless an oracle knows who lives: returns an earlier life of its sender that
        is over by this (`superseded`)."""
        return self._liveness.heard

    def superseded(self, now_ms: int, address: Address) -> None:
        """What to do about the life that `heard` returned."""
        self._ended(now_ms, address)

    def received(self, now_ms: int, sender: Address, message: Message) -> None:
        handler = self._MESSAGES.get(type(message))
        if handler is None:
            reason = f"{type(message).__name__} is not for the peer itself"
            self.out.report(Rejected(sender, reason))
        else:
            handler(self, now_ms, sender, message)

    def timer(self, now_ms: int, key: str) -> None:
        if key == "gossip":
            self._gossip(now_ms)
        elif key == "tick":
            self._tick(now_ms)
        elif key == "seek":
            self._seek(now_ms)

    def undelivered(self, now_ms: int, item: Undelivered) -> None:
        """Refused means dead; of the peer's own messages only a walk deserves a second way."""
        if item.refused and item.to.peer:
            self.cyclon.forget(item.to)
            if self._config.liveness:
                ended = self._liveness.refused(now_ms, item.to)
                if ended is not None:
                    self._ended(now_ms, ended)
        if isinstance(item.message, CyclonWalk):
            self._send_all(self.cyclon.on_walk(self.own(), item.message))

    # --- the parts' turns ---------------------------------------------------------------------------------------------

    def _gossip(self, now_ms: int) -> None:
        self.out.timer("gossip", now_ms + int(self._config.gossip_ms * self._rng.uniform(0.9, 1.1)))
        echo = self.cyclon.take_echo()
        if echo is not None and echo.address == self._me:
            self._liveness.outbid(echo.refutation)
        step = self.cyclon.begin(self.own())
        if step is not None:
            self._send(*step)
        if not len(self.cyclon):
            return
        sampled = self._tell().sampled = self.cyclon.participants()
        stuck = self._bootstrap.joined or self._bootstrap.in_vain
        if stuck and not self._ready and not self._contacts and sampled:
            # Whoever welcomed us was about to leave, or has died: join through whom it has introduced us to.
            self._contacts = list(sampled)
            self._tell().contacts = True
            if not self._bootstrap.joined:
                self._bootstrap.begun(now_ms)

    def _tick(self, now_ms: int) -> None:
        self.out.timer("tick", now_ms + T_HB_MS)
        sends, suspected, dead = self._liveness.tick(now_ms)
        for message, pairs in groupby(sends, itemgetter(1)):  # most are the same ping
            self.out.send_all([to for to, _ in pairs], message)
        for address in suspected:
            self.out.report(Suspected(address))
        for address in dead:
            self._ended(now_ms, address)

    def _seek(self, now_ms: int) -> None:
        """The next attempt to find the swarm or, later, its lost half."""
        if self._bootstrap.should_begin(now_ms):
            self._bootstrap.begun(now_ms)
            self._tell().begin = True
        else:
            hello = self._bootstrap.poll(now_ms, self.own(), self.cyclon.sample(bootstrap.SAMPLE))
            if hello is not None:
                self._send(*hello)
        self.out.timer("seek", max(self._bootstrap.next_ms, now_ms + 1))

    def _greet(self, sender: Address, hello: Hello) -> None:
        entries = self.cyclon.sample(bootstrap.SAMPLE)
        welcome = self._bootstrap.on_hello(hello, self.own(), entries, self._ready)
        if welcome is None:
            return
        self._send(sender, welcome)
        if hello.joining and self._config.sampling:
            self._send_all(self.cyclon.introduce(self.own(), hello.own))
        else:
            self._meet(hello.own, hello.entries)

    def _meet(self, peer: PeerDescriptor, others: tuple[PeerDescriptor, ...]) -> None:
        if self._config.sampling:
            for descriptor in (peer, *others):
                self.cyclon.add(descriptor)

    # --- messages -----------------------------------------------------------------------------------------------------

    def _refused(self, sender: Address, named: Iterable[PeerDescriptor]) -> bool:
        """Whether a message is refused for what it says of peers: nothing that cannot be read gets into a view."""
        if readable(named):
            return False
        self.out.report(Rejected(sender, "a descriptor whose participants cannot be read"))
        return True

    def _on_hello(self, now_ms: int, sender: Address, message: Hello) -> None:
        if self._refused(sender, (message.own, *message.entries)):
            return
        if message.own.address != of_peer(sender):
            self.out.report(Rejected(sender, "hello in another peer's name"))
        elif self._ready or not message.joining or sender.peer == self._me.peer:
            self._greet(sender, message)
        elif len(self._waiting) < WAITING_MAX:
            self._waiting[sender.peer] = (sender, message)
        else:
            self.out.report(Rejected(sender, "too many newcomers wait already"))

    def _on_welcome(self, now_ms: int, sender: Address, message: Welcome) -> None:
        if self._refused(sender, (message.own, *message.entries)):
            return
        if message.own.address != of_peer(sender):
            self.out.report(Rejected(sender, "welcome in another peer's name"))
            return
        if self._ready and self._config.sampling:
            # A probe was answered, perhaps by the other half of a partition: views are full by now, so swap links.
            self._send(*self.cyclon.shuffle_with(self.own(), message.own))
        self._meet(message.own, message.entries)
        if self._bootstrap.on_welcome(now_ms, sender, message, self.cyclon.is_crowded):
            self.out.timer("seek", self._bootstrap.next_ms)
        if message.standing:
            self._contacts = participants_of([(message.own, message.own.age)])
            self._tell().contacts = bool(self._contacts)
        if message.standing and self._ready:
            self._tell().sampled = tuple(self._contacts)

    def _on_cyclon_request(self, now_ms: int, sender: Address, message: CyclonRequest) -> None:
        if not self._refused(sender, message.entries):
            self._liveness.outbid(message.held)
            self._send(of_peer(sender), self.cyclon.on_request(sender, message, self.own()))

    def _on_cyclon_reply(self, now_ms: int, sender: Address, message: CyclonReply) -> None:
        own = () if message.own is None else (message.own,)
        if not self._refused(sender, (*own, *message.entries)):
            self.cyclon.on_reply(sender, message)

    def _on_walk(self, now_ms: int, sender: Address, message: CyclonWalk) -> None:
        if not self._refused(sender, (message.joiner,)):
            self._send_all(self.cyclon.on_walk(self.own(), message))

    def _on_swap(self, now_ms: int, sender: Address, message: CyclonSwap) -> None:
        if not self._refused(sender, (message.entry,)):
            self.cyclon.on_swap(message)

    def _on_ping(self, now_ms: int, sender: Address, message: Ping) -> None:
        self.out.send(sender, self._liveness.on_ping(sender, message))

    def _on_pong(self, now_ms: int, sender: Address, message: Pong) -> None:
        self._send_all(self._liveness.on_pong(sender, message))

    def _on_ping_request(self, now_ms: int, sender: Address, message: PingRequest) -> None:
        self._send_all(self._liveness.on_ping_request(sender, message))

    def _on_vouch(self, now_ms: int, sender: Address, message: Vouch) -> None:
        ended = self._liveness.on_vouch(now_ms, message)
        if ended is not None:
            self._ended(now_ms, ended)

    def _on_gone(self, now_ms: int, sender: Address, message: Gone) -> None:
        """One participant is no more: whoever watched it or wrote to it must know."""
        address = in_slot(sender, message.slot)
        self._tell().gone = address
        watchers = self._watchers.get(sender.peer, {})
        for slot in [slot for slot, watched in watchers if watched == address]:
            while (slot, address) in watchers:
                self.unwatch(slot, address)

    def _on_bye(self, now_ms: int, sender: Address, message: Bye) -> None:
        self._liveness.refused(now_ms, of_peer(sender))  # as sure as if nobody listened there
        self._ended(now_ms, sender)

    # --- output -------------------------------------------------------------------------------------------------------

    def _helpers(self, count: int) -> list[Address]:
        return [d.address for d in self.cyclon.sample(count)]

    def _send(self, to: Address, message: Message) -> None:
        self.out.send(to, message)

    def _send_all(self, pairs: Any) -> None:
        for to, message in pairs:
            self.out.send(to, message)

    def _tell(self) -> News:
        """The news of this step, to be added to."""
        if self.news is None:
            self.news = News()
        return self.news

    _MESSAGES: Final[dict[type, Any]] = {
        CyclonRequest: _on_cyclon_request,
        CyclonReply: _on_cyclon_reply,
        CyclonWalk: _on_walk,
        CyclonSwap: _on_swap,
        Ping: _on_ping,
        Pong: _on_pong,
        PingRequest: _on_ping_request,
        Vouch: _on_vouch,
        Hello: _on_hello,
        Welcome: _on_welcome,
        Gone: _on_gone,
        Bye: _on_bye,
    }
