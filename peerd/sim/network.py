"""Simulated links.

**TCP-like** (default): what is sent over a link arrives in order and once. Loss is delay (a retransmission), and what
was sent later waits behind it. Across a partition, or towards a host that has vanished, the sender's data waits: it
arrives when the cut heals, or comes back as undelivered when the connection gives up. A process that has crashed
refuses, which comes back at once. A reset loses what is under way and says so.

**Datagram**: loss is loss, copies may be doubled and overtake each other, and nobody is told.

The latency of a pair of peers is drawn once (from the seed and the pair), so a link needs no state while nothing is
wrong with it: order follows from constant latency. Only loss, bandwidth, resets and cuts make links remember anything.
"""

from random import Random
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

RETRANSMIT_MS: Final = 200
"""What one lost segment costs on a TCP-like link: the usual minimal retransmission time-out."""
GIVE_UP_MS: Final = 10_000
"""After how long an unreachable connection is given up: as soon as liveness would call the peer dead."""
LATENCIES: Final = 4096


class NetworkConfig(msgspec.Struct, frozen=True, kw_only=True):
    link: Literal["tcp", "datagram"] = "tcp"
    latency: Annotated[str, Meta(description="constant:MS, uniform:LOW:HIGH or lognormal:MEDIAN:SIGMA")] = (
        "uniform:5:50"
    )
    loss: Annotated[float, Meta(ge=0.0, lt=1.0)] = 0.0
    duplication: Annotated[float, Meta(ge=0.0, lt=1.0)] = 0.0
    reordering_ms: Annotated[int, Meta(ge=0)] = 0
    bandwidth: Annotated[int, Meta(ge=0, description="bytes a second on each link, 0 for unlimited")] = 0


def latencies(spec: str, rng: Random) -> list[int]:
    """A table of `LATENCIES` draws in whole milliseconds, at least 1."""
    name, *numbers = spec.split(":")
    try:
        values = [float(number) for number in numbers]
        match name, values:
            case "constant", [constant] if constant >= 0:
                draws = [constant] * LATENCIES
            case "uniform", [low, high] if 0 <= low <= high:
                draws = [rng.uniform(low, high) for _ in range(LATENCIES)]
            case "lognormal", [median, sigma] if median > 0 and sigma >= 0:
                draws = [median * rng.lognormvariate(0.0, sigma) for _ in range(LATENCIES)]
            case _:
                raise ValueError
        return [max(1, round(draw)) for draw in draws]
    except (ValueError, OverflowError):
        known = "constant:MS, uniform:LOW:HIGH or lognormal:MEDIAN:SIGMA"
        raise ValueError(f"latency '{spec}' is not one of {known}") from None


def pair_hash(a: int, b: int) -> int:
    """A number for an unordered pair of peers, well spread and the same in every process."""
    return (((a ^ b) * 0x9E3779B1 + (a + b) * 0x85EBCA77) >> 12) & (LATENCIES - 1)


class LinkDelays:
    """How long a message takes; keeps what links must remember to stay in order under loss or limited bandwidth."""

    __slots__ = ("_busy_until", "_config", "_rng", "datagram", "plain", "table")

    def __init__(self, config: NetworkConfig, rng: Random) -> None:
        self._config = config
        self._rng = rng
        self.table = latencies(config.latency, rng)
        self._busy_until: dict[tuple[int, int], int] = {}
        self.datagram = config.link == "datagram"
        self.plain = not (self.datagram or config.loss or config.bandwidth)

    def arrivals(self, now_ms: int, source: int, target: int, size: int) -> list[int]:
        """When a message sent now arrives: once on a TCP-like link; never, once or twice as a datagram."""
        latency = self.table[pair_hash(source, target)]
        if self.datagram:
            return self._datagram(now_ms + latency)
        return [self._in_order(now_ms, source, target, size, latency)]

    def _datagram(self, at_ms: int) -> list[int]:
        config, rng = self._config, self._rng
        copies = 0 if rng.random() < config.loss else 1
        if copies and rng.random() < config.duplication:
            copies = 2
        return [at_ms + (rng.randrange(config.reordering_ms + 1) if config.reordering_ms else 0) for _ in range(copies)]

    def _in_order(self, now_ms: int, source: int, target: int, size: int, latency: int) -> int:
        config = self._config
        link = (source, target)
        sent_at = now_ms
        if config.bandwidth:
            sent_at = max(now_ms, self._busy_until.get(link, 0)) + size * 1000 // config.bandwidth
            self._busy_until[link] = sent_at
        arrives_at = sent_at + latency
        while config.loss and self._rng.random() < config.loss:
            arrives_at += RETRANSMIT_MS + latency
        in_order = (source, -target - 1)  # the same link, seen from its far end
        if config.loss or in_order in self._busy_until:
            arrives_at = max(arrives_at, self._busy_until.get(in_order, 0))
            self._busy_until[in_order] = arrives_at
        return arrives_at

    def forget(self, a: int, b: int) -> None:
        """The connection of two peers was broken: nothing waits behind what was lost with it."""
        for source, target in ((a, b), (b, a)):
            self._busy_until.pop((source, target), None)
            self._busy_until.pop((source, -target - 1), None)

    def calm(self) -> None:
        """From now on nothing is lost, doubled or reordered; what is under way stays in its order."""
        self._config = msgspec.structs.replace(self._config, loss=0.0, duplication=0.0, reordering_ms=0)
