"""The limits and patience of a peer's network."""

from typing import Annotated

import msgspec

from protocols.overlay import parameter

KIB = 1024
MIB = 1024 * KIB


class NetConfig(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds are per remote peer unless they say otherwise."""

    handshake_s: Annotated[float, parameter("until the other side has introduced itself", "issue of this module")] = 5.0
    connect_s: Annotated[float, parameter("one attempt at all addresses of an endpoint", "as the handshake")] = 5.0
    give_up_s: Annotated[
        float, parameter("unreachable for so long: messages come back", "liveness' 10 s until death")
    ] = 10.0
    backoff_s: Annotated[float, parameter("the first pause after a failed dial", "a guess: some round trips")] = 0.1
    backoff_max_s: Annotated[float, parameter("the longest pause", "liveness' 10 s until death")] = 10.0
    backoff_refused_max_s: Annotated[
        float, parameter("the longest pause where nobody listens: the question is cheap", "one heartbeat")
    ] = 1.0
    idle_s: Annotated[float, parameter("silence both ways until a connection is closed", "design")] = 60.0
    drain_s: Annotated[
        float, parameter("without progress until a connection that ends is cut", "half of liveness' suspicion, rounded")
    ] = 2.0

    events_max: Annotated[int, parameter("events queued until the queue is full", "a guess: a second of load")] = 4096
    events_bytes_max: Annotated[int, parameter("bytes of them", "a guess: 64 events of the greatest size")] = 4 * MIB
    full_s: Annotated[float, parameter("how long a full queue still takes events", "design")] = 2.0
    events_hard_factor: Annotated[int, parameter("full times this: not even that long", "a guess", ge=1)] = 4
    control_max: Annotated[int, parameter("control messages queued until the connection is cut", "a guess")] = 16_384
    control_bytes_max: Annotated[int, parameter("bytes of them", "a guess: 64 frames of the greatest size")] = 16 * MIB
    write_bytes: Annotated[int, parameter("handed to the socket at once", "one frame of the greatest size")] = 256 * KIB
    read_bytes: Annotated[int, parameter("taken from a socket at once; one buffer for all", "what libuv reads")] = (
        64 * KIB
    )

    connections_max: Annotated[int, parameter("accepted connections in all", "a guess: a large testbed")] = 4096
    handshakes_max: Annotated[
        int, parameter("connections in all that have not introduced themselves", "a guess: 200 peers at once")
    ] = 256
    bad_frames_max: Annotated[int, parameter("refused frames a minute until the peer is cut off", "a guess")] = 100
    backlog: Annotated[int, parameter("connections that the kernel holds until they are accepted", "a guess")] = 512
    capture: Annotated[str | None, parameter("file for every frame, both ways; 'peerd frames' prints it", "off")] = None
