"""Who is alive: one failure detector per peer, for the peers that its overlays watch.

The scheme is SWIM's (Das, Gupta, Motivala 2002) with two of the amendments of Lifeguard (Dadgar, Phillips, Currey
2018), cut down to watched peers: nobody is probed that nobody depends on.

*Anything heard is a heartbeat.* Every message from a peer counts (`heard`); only a peer that was silent for about a
heartbeat `T_hb` is pinged. A ping is itself a message, so of two peers that watch each other one does the pinging, and
the pair costs one ping and one pong per second. For that the tick must look half a beat ahead: a peer whose pong came
just after the last tick is pinged again in this one, not in the next.

*Alive -> suspected -> dead.* After 3 s of silence a peer is suspected: it is told so (`Ping.suspects`), and 3 others
are asked to ping it (`PingRequest`), for a path between two peers may be broken while both are well; whoever gets an
answer vouches for it (`Vouch`). Any word from the peer, or a vouch, ends the suspicion. After 10 s it is dead. A
refused connection is death at once: nobody listens there any more.

*A slow self is not a dead other.* Silence is counted in beats during which this peer was awake itself: a tick that
comes late counts for one beat, however long the stall was. And it raises a local health score by the number of beats
that were missed, which stretches both thresholds until as many ticks have come in time (Lifeguard's local health
multiplier). So after a stall of its own a peer first reads what has piled up, and suspects nobody in the meantime.

*Refutation.* The dead are buried for 30 s (`tombstones`). A peer that learns that it is suspected raises its
`refutation`, which travels in its pings, pongs and descriptors, and a higher one beats suspicion and tombstone. A peer
that was buried alive and is heard again is pinged with the suspicion, so that it gets to know of it. A higher boot is
another life: it ends the former one.

Differs from SWIM: suspicions are not gossiped. Those who depend on a peer watch it themselves. A helper keeps no state
for an indirect probe: the ping carries its origin, the pong brings it back.

The owner calls `tick` once per `T_hb`, and `heard` for every message, before it hands the message on.
"""

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import msgspec

from protocols.model.descriptor import REFUTATION_MAX
from protocols.model.ids import Address, PeerId, of_peer
from protocols.parts.tombstones import Tombstones

T_HB_MS: Final = 1_000
"""Heartbeat (specification, section 1)."""

SUSPECT_MS: Final = 3_000
"""Silence until suspicion (specification, section 1)."""

DEAD_MS: Final = 10_000
"""Silence until death (specification, section 1)."""

HELPERS: Final = 3
"""k, how many others are asked to probe a suspect (SWIM, section 5, uses 3)."""

HEALTH_MAX: Final = 8
"""Upper limit of the local health score (Lifeguard, section 4: S = 8)."""


class Ping(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="ping"):
    """`suspects`: the refutation at which the receiver is suspected, -1 if it is not.
    `origin`: on whose behalf the sender asks."""

    refutation: int
    suspects: int = -1
    origin: Address | None = None


class Pong(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="pong"):
    refutation: int
    origin: Address | None = None


class PingRequest(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="ping-request"):
    """Please ping `target`, which I suspect at this refutation, and vouch for it if it answers."""

    target: Address
    suspects: int = -1


class Vouch(msgspec.Struct, frozen=True, array_like=True, gc=False, tag="vouch"):
    """`target` has answered me."""

    target: Address
    refutation: int


MESSAGES: Final = (Ping, Pong, PingRequest, Vouch)

Sends: TypeAlias = list[tuple[Address, Ping | Pong | PingRequest | Vouch]]
Helpers: TypeAlias = Callable[[int], Sequence[Address]]


class _Watched:
    __slots__ = ("address", "count", "heard_ms", "refutation", "silent_ms", "suspected")

    def __init__(self, address: Address, heard_ms: int) -> None:
        self.address = address
        self.count = 1
        self.heard_ms = heard_ms
        self.silent_ms = 0  # as of the last tick
        self.suspected = False
        self.refutation = 0


class Liveness:
    """`helpers(k)` names up to k peers to probe through: a sample of the peer's view."""

    __slots__ = ("_helpers", "_me", "_ticked_ms", "_watched", "health", "refutation", "tombstones")

    def __init__(self, me: Address, tombstones: Tombstones, helpers: Helpers) -> None:
        self.tombstones = tombstones
        self.health = 0
        """Lifeguard's local health: 0 is well, `HEALTH_MAX` is hardly awake."""
        self.refutation = 0
        """For this peer's own descriptor."""
        self._me = me.peer
        self._helpers = helpers
        self._ticked_ms: int | None = None
        self._watched: dict[PeerId, _Watched] = {}

    def watched(self) -> list[Address]:
        return [watched.address for watched in self._watched.values()]

    def watch(self, now_ms: int, address: Address) -> Address | None:
        """Count one more watch on the peer of `address`. Returns a life that is known to be over by this, if any.

        That is the life watched until now if this one is later, or this one if it is earlier. To watch a peer that is
        buried is to suspect it: it has as long to answer as any suspect.
        """
        if address.peer == self._me:
            return None
        watched = self._watched.get(address.peer)
        if watched is not None:
            if watched.address.boot == address.boot:
                watched.count += 1
                return None
            if watched.address.boot > address.boot:
                return of_peer(address)
            self._end(now_ms, watched)
        new = self._watched[address.peer] = _Watched(of_peer(address), now_ms)
        if self.tombstones.hold(address):
            new.heard_ms, new.silent_ms = now_ms - DEAD_MS, SUSPECT_MS
        return None if watched is None else watched.address

    def unwatch(self, address: Address) -> None:
        """End one watch. Unwatching what is not watched any more (dead, another boot) does nothing."""
        watched = self._watched.get(address.peer)
        if watched is None or watched.address.boot != address.boot:
            return
        watched.count -= 1
        if not watched.count:
            del self._watched[address.peer]

    def heard(self, now_ms: int, address: Address) -> Address | None:
        """A message came from there. Returns an earlier life of the peer that was watched, and is over by this."""
        watched = self._watched.get(address.peer)
        if watched is None:
            if self.tombstones.graves:
                self.tombstones.heard(address)
            return None
        if watched.address.boot == address.boot:
            watched.heard_ms = now_ms
            watched.suspected = False
            return None
        if watched.address.boot > address.boot:
            return None  # a late word from an earlier life
        self._end(now_ms, watched)
        return watched.address

    def refused(self, now_ms: int, address: Address) -> Address | None:
        """Nobody listens there: this life is over. Returns it if it was watched."""
        if not address.peer or address.peer == self._me:
            return None
        watched = self._watched.get(address.peer)
        if watched is not None and watched.address.boot == address.boot:
            self._end(now_ms, watched)
            return watched.address
        self.tombstones.bury(now_ms, of_peer(address))
        return None

    def tick(self, now_ms: int) -> tuple[Sends, list[Address], list[Address]]:
        """(what to send, who is suspected from now on, who is dead). To be called every `T_hb`.

        Death ends all watches of that life: nobody needs to unwatch it.
        """
        last_ms = now_ms - T_HB_MS if self._ticked_ms is None else self._ticked_ms
        self._ticked_ms = now_ms
        awake_ms = self._judge_self(now_ms - last_ms)
        ask_ms = T_HB_MS // 2
        silent: list[_Watched] = []
        for watched in self._watched.values():
            heard_ms = watched.heard_ms
            if heard_ms < last_ms:
                watched.silent_ms += awake_ms
            else:
                watched.silent_ms = min(now_ms - heard_ms, awake_ms)
            if watched.silent_ms >= ask_ms:
                silent.append(watched)
        sends: Sends = []
        if self.tombstones.graves:
            self._tend_graves(now_ms, sends)
        suspected: list[Address] = []
        dead: list[Address] = []
        ping, patience_ms = Ping(self.refutation), SUSPECT_MS * (1 + self.health)
        for watched in silent:
            if watched.silent_ms < patience_ms and not watched.suspected:
                sends.append((watched.address, ping))
            else:
                self._judge(now_ms, watched, sends, suspected, dead)
        return sends, suspected, dead

    def _judge_self(self, elapsed_ms: int) -> int:
        """How much of the time since the last tick counts as silence of others."""
        if elapsed_ms <= T_HB_MS * 3 // 2:
            if self.health:
                self.health -= 1
            return elapsed_ms
        missed = elapsed_ms // T_HB_MS
        self.health = min(HEALTH_MAX, self.health + missed)
        return T_HB_MS

    def _judge(
        self, now_ms: int, watched: _Watched, sends: Sends, suspected: list[Address], dead: list[Address]
    ) -> None:
        """Suspect or bury a peer that was silent for too long."""
        if watched.silent_ms < DEAD_MS * (1 + self.health):
            if not watched.suspected:
                watched.suspected = True
                suspected.append(watched.address)
            self._probe(watched, sends)
        else:
            self._end(now_ms, watched)
            dead.append(watched.address)

    def _probe(self, watched: _Watched, sends: Sends) -> None:
        address = watched.address
        sends.append((address, Ping(self.refutation, watched.refutation)))
        request = PingRequest(address, watched.refutation)
        others = [helper for helper in self._helpers(HELPERS + 1) if helper.peer != address.peer]
        sends += [(helper, request) for helper in others[:HELPERS]]

    def _tend_graves(self, now_ms: int, sends: Sends) -> None:
        self.tombstones.expire(now_ms)
        for grave in self.tombstones.knocking():
            sends.append((grave.address, Ping(self.refutation, grave.refutation)))

    def _end(self, now_ms: int, watched: _Watched) -> None:
        del self._watched[watched.address.peer]
        self.tombstones.bury(now_ms, watched.address, watched.refutation)

    def outbid(self, refutation: int) -> None:
        """Somebody passes on a descriptor of this life with this refutation. It is forged if it is higher than the own
        one, and would outrank all that this peer says of itself; at the highest of all the younger descriptor wins."""
        if refutation > self.refutation:
            self.refutation = min(refutation + 1, REFUTATION_MAX)

    # --- Messages (each of them has been `heard` already) ---

    def on_ping(self, sender: Address, message: Ping) -> Pong:
        """The pong goes to the sender."""
        if message.refutation or self.tombstones.graves:
            self._learn(sender, message.refutation)
        if message.suspects >= self.refutation and self.refutation < REFUTATION_MAX:
            self.refutation += 1
        return Pong(self.refutation, message.origin)

    def on_pong(self, sender: Address, message: Pong) -> Sends:
        if message.refutation or self.tombstones.graves:
            self._learn(sender, message.refutation)
        if message.origin is None or message.origin.peer == self._me:
            return []
        return [(message.origin, Vouch(of_peer(sender), message.refutation))]

    def on_ping_request(self, sender: Address, message: PingRequest) -> Sends:
        if message.target.peer in (self._me, ""):
            return []
        return [(message.target, Ping(self.refutation, message.suspects, of_peer(sender)))]

    def on_vouch(self, now_ms: int, message: Vouch) -> Address | None:
        """As good as a word from the target itself; returns what `heard` returns."""
        if not message.target.peer:
            return None
        ended = self.heard(now_ms, message.target)
        self._learn(message.target, message.refutation)
        return ended

    def _learn(self, address: Address, refutation: int) -> None:
        """What a peer says of its refutation; 0, which nearly all say, is news to a grave only."""
        if refutation > REFUTATION_MAX:
            return
        watched = self._watched.get(address.peer)
        if watched is not None and watched.address.boot == address.boot:
            watched.refutation = max(refutation, watched.refutation)
        if self.tombstones.graves:
            self.tombstones.heard(address, refutation)
