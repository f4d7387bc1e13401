"""What the network has done and holds at the moment, for metrics and `GET /v1/links`."""

import msgspec


class QueueStats(msgspec.Struct, frozen=True):
    """One remote peer: its queues, and whether it is connected. An endpoint that nobody answered yet has no peer id."""

    peer: str
    boot: int
    at: str
    connected: bool
    control: int
    control_bytes: int
    events: int
    events_bytes: int


class TrafficStats(msgspec.Struct, frozen=True):
    """One type of message since the start. Sent means handed to a socket; bytes are those of whole frames."""

    message: str
    sent: int
    sent_bytes: int
    received: int
    received_bytes: int


class NetStats(msgspec.Struct, frozen=True):
    connections: int
    """Those that have been greeted, including some that are just ending."""
    handshakes: int
    dialling: int
    accepted: int
    """Connections taken since the start; `dialled` those made."""
    dialled: int
    queues: tuple[QueueStats, ...]
    traffic: tuple[TrafficStats, ...]
    dropped: dict[str, int]
    """Copies of events that went no further, by reason."""
    closed: dict[str, int]
    """Connections that ended, by reason."""
    undelivered: int
    crowded_out: int
    """Those of them that came back because too many others could not be reached, or were being dialled."""
    rejected: int
