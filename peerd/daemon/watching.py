"""Who watches a peer: its metrics, and its event log if there is one.

Both are sinks of the driver and listen to the service. The log is told every second that the peer lives, and every ten
what was sent and received.
"""

from collections.abc import Callable, Mapping
from typing import Final

from peerd import __version__
from peerd.api import ApiServer
from peerd.clock import LoopClock
from peerd.config import Settings
from peerd.daemon.opening import written
from peerd.eventlog import EventLog, LogConfig
from peerd.metrics import Info, Meter, Metrics, Sources
from peerd.net import Network
from peerd.service import Service
from peerd.store import StoredSwarm
from protocols.model.ids import Address
from protocols.peer import Peer

ALIVE_EVERY_MS: Final = 1_000
TRAFFIC_EVERY: Final = 10
"""In how many of those intervals one record of traffic is written."""


def make_metrics(
    peer: Peer,
    service: Service,
    network: Network,
    clock: LoopClock,
    *,
    api: Callable[[], ApiServer | None],
    log_lost: Callable[[], int],
) -> Metrics:
    def http() -> Mapping[str, int]:
        server = api()
        return {} if server is None else server.context.stats.results()

    def refused() -> int:
        server = api()
        return 0 if server is None else server.context.stats.connections_refused

    sources = Sources(
        ready=lambda: peer.ready,
        links=lambda: _links_by_kind(peer),
        queues=lambda: {"events": network.events_queued()},
        queued_control=lambda: sum(queue.control for queue in network.stats().queues),
        participants=lambda: len(peer.participants),
        subscriptions=lambda: len(service.subscriptions),
        traffic=lambda: traffic(network),
        network=network.stats,
        http=http,
        http_connections_refused=refused,
        log_lost=log_lost,
    )
    metrics = Metrics(Info(__version__, service.about.overlay, peer.me.peer, peer.name), clock.now_us, sources)
    service.publisher.listeners.append(metrics.on_publish)
    return metrics


def _links_by_kind(peer: Peer) -> Mapping[str, int]:
    counts: dict[str, int] = {}
    for overlay in peer.participants.values():
        for link in overlay.links():
            counts[link.kind] = counts.get(link.kind, 0) + 1
    return counts


def traffic(network: Network) -> Mapping[str, Meter]:
    return {each.message: each for each in network.stats().traffic}


def make_log(directory: str, settings: Settings, swarm: StoredSwarm, me: Address, clock: LoopClock) -> EventLog:
    config = LogConfig(
        directory=directory,
        run=settings.log_run or swarm.name,
        detail=settings.log_detail,
        sample=settings.log_sample,
        keep_bytes=settings.log_keep,
    )
    with written(settings, "log_dir", "directory"):
        log = EventLog(config, me, swarm.overlay, swarm.schema, clock.now_us)
    log.on_started(clock.now_ms(), swarm.parameters)
    return log


def listen(log: EventLog, service: Service) -> None:
    service.publisher.listeners.append(log.on_publish)
    service.subscriptions.listeners.append(log.on_subscription)
    service.on_schema.append(log.on_schema)


class Pulse:
    """Tells the log every second that the peer lives."""

    def __init__(self, log: EventLog, network: Network, clock: LoopClock) -> None:
        self._log = log
        self._network = network
        self._clock = clock
        self._beats = 0
        self._beat()

    def _beat(self) -> None:
        now_ms = self._clock.now_ms()
        self._log.on_alive(now_ms)
        self._beats += 1
        if self._beats % TRAFFIC_EVERY == 0:
            self._log.on_traffic(now_ms, traffic(self._network))
        self._clock.call_at(now_ms + ALIVE_EVERY_MS, self._beat)
