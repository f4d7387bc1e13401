"""The limits that a peer sets its own applications."""

from typing import Annotated, Final

import msgspec

from peerd.options import Count, Rate, Seconds, setting
from peerd.service.deliveries import ALL_BYTES, EACH_BYTES
from peerd.service.ingress import IDS_MAX
from protocols.model.bounds import BODY_BYTES_MAX

TOPOLOGY_S: Final = 5.0


class ServiceConfig(msgspec.Struct, frozen=True, kw_only=True):
    max_event_bytes: Annotated[Count, setting("bytes of an encoded event (contract)")] = BODY_BYTES_MAX
    publish_rate: Annotated[Rate, setting("events a second that are taken from this peer's publishers")] = 5_000.0
    publish_burst: Annotated[Rate, setting("events at once that are taken from them")] = 10_000.0
    """A guess: what one core can route, and 2 s of it."""
    queue_events_max: Annotated[
        Count, setting("events in the network's queues above which publishers are pushed back")
    ] = 4_096
    """A guess: a second of a busy peer."""
    subscriptions_max: Annotated[Count, setting("subscriptions of this peer")] = 4_096
    """A guess: 256 for each of 16 participants."""
    retain_each_bytes: Annotated[Count, setting("bytes of deliveries kept for one subscription")] = EACH_BYTES
    retain_all_bytes: Annotated[Count, setting("bytes of deliveries kept for all of them")] = ALL_BYTES
    ids_max: Annotated[Count, setting("publishers' ids that are remembered; beyond that, new ones wait")] = IDS_MAX
    topology_s: Annotated[Seconds, setting("patience with peers that are asked for their links")] = TOPOLOGY_S
