"""Finding the swarm, and finding its other half again.

All that a new peer knows is a few endpoints ("host:port") of seeds. It says `Hello` to one after the other, until a
peer that stands in the swarm answers `Welcome`; after each round through the seeds it waits twice as long, up to 10 s,
with jitter, and never gives up. The hello says who asks and the welcome who answered, with a sample of its view, so
that both sides gain contacts from one exchange; a hello that is `joining` asks the other side to introduce the
newcomer.

Two peers that are both still looking answer each other, but that ends nobody's search (`Welcome.standing`): a swarm has
one origin. That is a peer without seeds, or, with `begin_after_ms`, one that has found nobody for so long. Two origins
merge later.

Having joined is not the end. After a partition of about 20 rounds no view remembers the other side, and only somebody
who still knows an address there can bring the halves together. So every 10 s, for ever, a peer says hello to one of its
seeds or to one of the last 64 addresses that it lost (specification, section 1); a lost one that is seen alive again is
forgotten.

Differs from the specification: in a large swarm the seeds are probed less often, or 10,000 peers would say 1,000 hellos
a second to one seed. A seed that answers is on this side; while the peer's view is nearly full, each such answer
doubles the pause until the next probe of a seed, up to 160 s. Whoever loses a peer halves the pause, and a seed that
does not answer is probed every 10 s as before. So it is the half without the seed that looks for the other one.

A peer's own endpoint may be among its seeds, under a name that it does not know to be its own. It recognises a hello
from itself and skips that seed from then on.
"""

from collections.abc import Sequence
from random import Random
from typing import Final

import msgspec

from protocols.model.descriptor import PeerDescriptor, PeerEntries
from protocols.model.ids import Address, Endpoint, endpoint

BACKOFF_MS: Final = 500
"""The first pause. A guess: several round trips, well below what a person notices as waiting."""

BACKOFF_MAX_MS: Final = 10_000
"""The longest pause: the period of later probes."""

PROBE_MS: Final = 10_000
"""Between probes of a seed or a lost address (specification, section 1)."""

SEED_PAUSE_MAX_MS: Final = 16 * PROBE_MS
"""Between probes of seeds that keep answering. A guess: a seed of 10,000 peers hears 60 a second, and in the smallest
swarm that does so, of some 16 peers, one of them probes every 10 s."""

JITTER: Final = 0.1
"""Timers vary by 10 % (specification, section 1)."""

LOST_MAX: Final = 64
"""Remembered lost addresses (specification, section 1)."""

SAMPLE: Final = 8
"""Entries beside the sender's own descriptor: as many as one shuffle of CYCLON carries."""


class Hello(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="hello"):
    """`dialled`: the endpoint this was sent to. `joining`: the sender wants to be introduced."""

    req_id: int
    own: PeerDescriptor
    entries: PeerEntries
    dialled: Endpoint
    joining: bool


class Welcome(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="welcome"):
    """`standing`: the sender is in the swarm itself."""

    req_id: int
    own: PeerDescriptor
    entries: PeerEntries
    standing: bool


MESSAGES: Final = (Hello, Welcome)


class Bootstrap:
    """The owner calls `poll` at `next_ms`, after which `next_ms` is a new time."""

    __slots__ = (
        "_alone",
        "_begin_ms",
        "_lost",
        "_me",
        "_order",
        "_passes",
        "_req_id",
        "_rng",
        "_seed_pause_ms",
        "_seed_req_id",
        "_seeds",
        "_seeds_from_ms",
        "joined",
        "next_ms",
    )

    def __init__(
        self,
        me: Address,
        seeds: Sequence[str],
        rng: Random,
        now_ms: int,
        begin_after_ms: int | None = None,
        alone: bool = True,
    ) -> None:
        """`alone`: without seeds there is nobody, and the swarm begins here; otherwise seeds will be named later."""
        self.joined = False
        self.next_ms = now_ms
        self._me = me
        self._rng = rng
        self.reseed(seeds)
        self._alone = alone
        self._begin_ms = None if begin_after_ms is None else now_ms + begin_after_ms
        self._lost: dict[str, None] = {}
        self._order: list[str] = []  # what is left of this round through the seeds
        self._passes = 0
        self._req_id = 0
        self._seed_req_id = 0  # of the last hello to a seed
        self._seed_pause_ms = PROBE_MS
        self._seeds_from_ms = now_ms  # no probe of a seed before that

    @property
    def seeds(self) -> list[str]:
        return list(self._seeds)

    def reseed(self, seeds: Sequence[str]) -> None:
        """Replace the seeds: a name that stands for several endpoints may stand for others later."""
        self._seeds = [seed for seed in dict.fromkeys(seeds) if seed != self._me.at]

    @property
    def lost(self) -> list[str]:
        return list(self._lost)

    @property
    def in_vain(self) -> bool:
        """Whether every seed was asked at least once, and none that stands has answered."""
        return not self.joined and self._passes > 1

    def should_begin(self, now_ms: int) -> bool:
        """Whether to begin the swarm oneself: nobody to ask, or nobody found for long enough."""
        if self.joined:
            return False
        return self._alone and not self._seeds if self._begin_ms is None else now_ms >= self._begin_ms

    def begun(self, now_ms: int) -> None:
        """The swarm was begun here, or joined in another way."""
        self.joined = True
        self.next_ms = now_ms + self._jittered(PROBE_MS)

    def poll(
        self, now_ms: int, own: PeerDescriptor, entries: Sequence[PeerDescriptor] = ()
    ) -> tuple[Address, Hello] | None:
        """The next attempt or probe. `entries` is a sample of the own view."""
        to = self._probed(now_ms) if self.joined else self._tried()
        self.next_ms = now_ms + self._pause()
        if not self.joined and self._begin_ms is not None:
            self.next_ms = max(now_ms + 1, min(self.next_ms, self._begin_ms))
        if to is None:
            return None
        self._req_id += 1
        if to in self._seeds:
            self._seed_req_id = self._req_id
        return endpoint(to), Hello(self._req_id, own, tuple(entries[:SAMPLE]), to, not self.joined)

    def on_hello(
        self, message: Hello, own: PeerDescriptor, entries: Sequence[PeerDescriptor], standing: bool
    ) -> Welcome | None:
        """The welcome goes to the sender. `None`: that was this peer itself."""
        if message.own.address.peer == self._me.peer:
            self._skip(message.dialled)
            return None
        return Welcome(message.req_id, own, tuple(entries[:SAMPLE]), standing)

    def on_welcome(self, now_ms: int, sender: Address, message: Welcome, crowded: bool = False) -> bool:
        """Whether this is the answer that was looked for: a first peer that stands in the swarm.

        `crowded`: this peer knows many others, so that there is no need for each of them to look after the seeds.
        """
        self.alive(sender.at)
        if message.req_id == self._seed_req_id:
            self._seed_pause_ms = min(2 * self._seed_pause_ms, SEED_PAUSE_MAX_MS) if crowded else PROBE_MS
            self._seeds_from_ms = now_ms + self._jittered(self._seed_pause_ms)
        if self.joined or not message.standing or sender.peer == self._me.peer:
            return False
        self.begun(now_ms)
        return True

    def remember(self, at: str) -> None:
        """A peer at this endpoint was lost."""
        if not at or at == self._me.at:
            return
        sooner_ms = self._seed_pause_ms - max(PROBE_MS, self._seed_pause_ms // 2)
        self._seed_pause_ms -= sooner_ms
        self._seeds_from_ms -= sooner_ms
        self._lost.pop(at, None)
        if len(self._lost) >= LOST_MAX:
            del self._lost[next(iter(self._lost))]
        self._lost[at] = None

    def alive(self, at: str) -> None:
        """A peer at this endpoint has spoken."""
        if self._lost:
            self._lost.pop(at, None)

    def _skip(self, seed: str) -> None:
        self._lost.pop(seed, None)
        if seed in self._seeds:
            self._seeds.remove(seed)

    def _tried(self) -> str | None:
        """The next seed, in another random order each time round."""
        while True:
            if not self._order:
                if not self._seeds:
                    return None
                self._order = list(self._seeds)
                self._rng.shuffle(self._order)
                self._passes += 1
            seed = self._order.pop()
            if seed in self._seeds:
                return seed

    def _probed(self, now_ms: int) -> str | None:
        """A seed or a lost address; each kind with the same chance, however many there are of it."""
        lost, seeds = list(self._lost), self._seeds if now_ms >= self._seeds_from_ms else []
        from_lost = lost and (not seeds or self._rng.random() < 0.5)
        among = lost if from_lost else seeds
        return among[int(self._rng.random() * len(among))] if among else None

    def _pause(self) -> int:
        if self.joined:
            return self._jittered(PROBE_MS)
        doublings = min(max(self._passes - 1, 0), 16)
        return self._jittered(min(BACKOFF_MS << doublings, BACKOFF_MAX_MS))

    def _jittered(self, pause_ms: int) -> int:
        return max(1, int(pause_ms * (1.0 + JITTER * (2.0 * self._rng.random() - 1.0))))
