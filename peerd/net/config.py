"""The limits and patience of a peer's network.

The least values are those that still let a connection work: a timer that can be told from none, and room for a frame of
the greatest size.
"""

from typing import Annotated, Final

import msgspec

from protocols.overlay import parameter

KIB: Final = 1024
MIB: Final = 1024 * KIB
TIME_MIN: Final = 0.001
FRAME: Final = 256 * KIB
"""The greatest frame (`peerd/wire.py`)."""


class NetConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds are per remote peer unless they say otherwise."""

    handshake_s: Annotated[
        float, parameter("until the other side has introduced itself", "a guess: many round trips", ge=TIME_MIN)
    ] = 5.0
    connect_s: Annotated[
        float, parameter("one attempt at all addresses of an endpoint", "as the handshake", ge=TIME_MIN)
    ] = 5.0
    give_up_s: Annotated[
        float,
        # the kernel is told it, too, as a number of 32 bits of milliseconds
        parameter("unreachable for so long: messages come back", "liveness' 10 s until death", ge=TIME_MIN, le=86_400),
    ] = 10.0
    backoff_s: Annotated[
        float, parameter("the first pause after a failed dial", "a guess: some round trips", ge=TIME_MIN)
    ] = 0.1
    backoff_max_s: Annotated[float, parameter("the longest pause", "liveness' 10 s until death", ge=TIME_MIN)] = 10.0
    backoff_refused_max_s: Annotated[
        float,
        parameter("the longest pause where nobody listens: the question is cheap", "one heartbeat", ge=TIME_MIN),
    ] = 1.0
    idle_s: Annotated[
        float,
        parameter("silence both ways until a connection is closed", "gossip meets 600 others meanwhile", ge=TIME_MIN),
    ] = 300.0
    drain_s: Annotated[
        float,
        parameter(
            "without progress until a connection that ends is cut", "half of liveness' suspicion, rounded", ge=TIME_MIN
        ),
    ] = 2.0

    events_max: Annotated[
        int, parameter("events queued until the queue is full", "a guess: a second of load", ge=1)
    ] = 4096
    events_bytes_max: Annotated[
        int, parameter("bytes of them", "a guess: 64 events of the greatest size", ge=FRAME)
    ] = 4 * MIB
    full_s: Annotated[float, parameter("how long a full queue still takes events", "design", ge=0)] = 2.0
    events_hard_factor: Annotated[int, parameter("full times this: not even that long", "a guess", ge=1)] = 4
    control_max: Annotated[int, parameter("control messages queued until the connection is cut", "a guess", ge=1)] = (
        16_384
    )
    control_bytes_max: Annotated[
        int, parameter("bytes of them", "a guess: 64 frames of the greatest size", ge=FRAME)
    ] = 16 * MIB
    write_bytes: Annotated[int, parameter("handed to the socket at once", "one frame of the greatest size", ge=KIB)] = (
        256 * KIB
    )
    read_bytes: Annotated[
        int, parameter("taken from a socket at once; one buffer for all", "what libuv reads", ge=KIB, le=16 * MIB)
    ] = 64 * KIB

    connections_max: Annotated[int, parameter("accepted connections in all", "a guess: a large testbed", ge=1)] = 4096
    handshakes_max: Annotated[
        int, parameter("connections in all that have not introduced themselves", "a guess: 200 peers at once", ge=1)
    ] = 256
    dials_max: Annotated[
        int, parameter("dials under way in all, handshakes included", "a guess: 16 participants with 16 links", ge=1)
    ] = 256
    unconnected_max: Annotated[
        int, parameter("peers in all that are remembered without a connection", "a guess: four times the dials", ge=1)
    ] = 1024
    bad_frames_max: Annotated[int, parameter("refused frames a minute until the peer is cut off", "a guess", ge=0)] = (
        100
    )
    backlog: Annotated[
        int, parameter("connections that the kernel holds until they are accepted", "a guess", ge=1, le=65_535)
    ] = 512
    capture: Annotated[str | None, parameter("file for every frame, both ways; 'peerd frames' prints it", "off")] = None
