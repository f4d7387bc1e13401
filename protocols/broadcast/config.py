"""Parameters of the baseline, each with where it comes from."""

from typing import Annotated

import msgspec

from protocols.overlay import parameter


class BroadcastConfig(msgspec.Struct, frozen=True, kw_only=True):
    links: Annotated[
        int,
        parameter(
            "links that a participant seeks",
            "a random graph in which everyone chooses two or more neighbours is connected with overwhelming "
            "probability (Fenner and Frieze 1982); one to spare",
            ge=1,
            le=64,
        ),
    ] = 3
    links_max: Annotated[
        int, parameter("links that it accepts", "one and a half times the mean, which is twice `links`", ge=2, le=256)
    ] = 9
    rotate_ms: Annotated[
        int, parameter("how often a link is exchanged for a fresh one", "a guess: ten gossip cycles", ge=100)
    ] = 10_000
    repair_ms: Annotated[
        int, parameter("how often recent event ids are compared with somebody", "a guess: two gossip cycles", ge=100)
    ] = 2_000
    recent_ms: Annotated[int, parameter("how far back ids are compared", "five repair periods", ge=100)] = 10_000
    recent_max: Annotated[
        int, parameter("events kept for repair", "a digest of 36 KB, well within a frame", ge=2, le=4096)
    ] = 4096
    replay_ms: Annotated[int, parameter("events replayed to a new link", "specification, section 1", ge=0)] = 5_000
    linger_ms: Annotated[
        int, parameter("how long a leaver still forwards", "a request and its retry: twice `rpc_ms`", ge=0)
    ] = 4_000
    seen_max: Annotated[
        int, parameter("event ids remembered", "two generations of 120 s at 2,000 events a second", ge=1)
    ] = 500_000
    rpc_ms: Annotated[int, parameter("wait for an answer", "specification, section 1", ge=10)] = 2_000

    def __post_init__(self) -> None:
        if self.links > self.links_max:
            raise ValueError(f"links={self.links} is more than links_max={self.links_max}")
