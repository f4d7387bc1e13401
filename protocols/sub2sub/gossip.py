"""Gossip: once per cycle a word with the oldest interest neighbour, with some ring neighbours, and with anybody.

It slows down `idle` times once nothing has changed for as many cycles as a view holds neighbours. Then everybody knows
whom it should know, and changes are told at once to those whom they concern (`links`, `claiming`); what is left for
gossip is to find what was lost, and samples of the peer's own CYCLON, which does not slow down, bring that as well.

Ring links are watched, interest links are not: that somebody is gone whom only those hold is found out by asking. So a
question without an answer is a change as well: where one is dead others may be, and they go only by being asked.
"""

from random import Random
from typing import TypeVar

from msgspec.structs import replace

from protocols.model.descriptor import Descriptor
from protocols.model.ids import Address
from protocols.parts.vicinity import VicinityReply, VicinityRequest
from protocols.sub2sub.claiming import Claiming
from protocols.sub2sub.config import Sub2SubConfig
from protocols.sub2sub.links import Links, Sending
from protocols.sub2sub.neighbourhood import Neighbourhood

VicinityMessage = TypeVar("VicinityMessage", VicinityRequest, VicinityReply)


class Gossip:
    """`send` charges what it sends."""

    __slots__ = ("_asked", "_asked_ms", "_claiming", "_config", "_hood", "_links", "_rng", "_send")

    def __init__(
        self,
        hood: Neighbourhood,
        config: Sub2SubConfig,
        links: Links,
        claiming: Claiming,
        send: Sending,
        rng: Random,
    ) -> None:
        self._hood = hood
        self._config = config
        self._links = links
        self._claiming = claiming
        self._send = send
        self._rng = rng
        self._asked: dict[Address, int] = {}  # who owes us an answer, and until when it may take
        self._asked_ms = 0

    def round(self, now_ms: int) -> None:
        self._notice_silence(now_ms)
        cycles, self._asked_ms = (now_ms - self._asked_ms) // self._config.cycle_ms, now_ms
        self._ask_interest(now_ms, min(max(1, cycles), 2 * self._config.idle))
        for ring in self._hood.rings.values():
            self._links.refresh(now_ms, ring)
        self._claiming.cycle(now_ms)

    def _notice_silence(self, now_ms: int) -> None:
        late = [address for address, until_ms in self._asked.items() if until_ms <= now_ms]
        for address in late:
            del self._asked[address]
        if late:
            self._links.unrest(now_ms)

    def _ask_interest(self, now_ms: int, cycles: int) -> None:
        """`cycles`: since the last time; by so much is all that is known older."""
        hood = self._hood
        if not hood.rings:
            return
        step = hood.interest.begin(hood.own, hood.alive(self._few_samples()), cycles)
        if step is not None:
            # whoever was asked is out of the view until it answers; whoever has not answered leaves room
            hood.interest_is_stale |= len(hood.interest) < self._config.view - 1
            self._asked[step[0]] = now_ms + self._config.rpc_ms
            self._send(*step)

    def _few_samples(self) -> list[Descriptor]:
        samples = list(self._hood.samples)
        count = self._config.gossip_length
        return samples if len(samples) <= count else self._rng.sample(samples, count)

    def on_request(self, sender: Address, message: VicinityRequest) -> None:
        reply = self._hood.interest.on_request(self._hood.own, sender, self._useful(message), ())
        if reply is not None:
            self._send(sender, reply)

    def on_reply(self, sender: Address, message: VicinityReply) -> None:
        self._asked.pop(sender, None)
        self._hood.interest.on_reply(self._hood.own, sender, self._useful(message), ())

    def _useful(self, message: VicinityMessage) -> VicinityMessage:
        """The message without those entries that cannot matter."""
        useful = self._hood.of_interest(
            (message.own, *self._hood.alive(message.entries))
        )  # the first is offered anyway
        return replace(message, entries=tuple([each for each in useful if each is not message.own]))
