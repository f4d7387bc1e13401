"""Parameters of the semantic overlay, each with where it comes from.

`organisation` chooses how participants are linked; the parameters after it belong to one organisation each.
"""

from typing import Annotated, Literal

import msgspec

from protocols.overlay import parameter


class SemanticConfig(msgspec.Struct, frozen=True, kw_only=True):
    organisation: Annotated[
        Literal["containment", "similarity"],
        parameter("the tree of section 3, or the graph of section 4", "the tree loses no events"),
    ] = "containment"

    # --- both organisations ---
    rpc_ms: Annotated[int, parameter("wait for an answer", "specification, section 1", ge=10)] = 2_000
    replay_ms: Annotated[int, parameter("events replayed to a new link", "specification, section 1", ge=0)] = 5_000
    recent_max: Annotated[int, parameter("events kept for replay", "400 events a second, twice 5 s", ge=2, le=8192)] = (
        4_096
    )
    seen_max: Annotated[
        int, parameter("event ids remembered", "two generations of 120 s at 2,000 events a second", ge=1)
    ] = 500_000

    # --- containment ---
    reorganise: Annotated[
        Literal["always", "periodic", "never"],
        parameter("whether others move below a newcomer", "paper, section 3: the three flavours; the most accurate"),
    ] = "always"
    reorganise_share: Annotated[
        float, parameter("with `periodic`, the share of joins that reorganise", "paper, section 5", ge=0.0, le=1.0)
    ] = 0.1
    equal_degree: Annotated[
        int, parameter("children of a peer within an equivalence tree", "specification, section 3a", ge=1, le=64)
    ] = 4
    root_degree: Annotated[
        int,
        parameter(
            "children of a top-level peer within the virtual root; 1 is a chain, 1000 a star",
            "measured: with `peek` only those with children relay everything, one in 64; the paper names none",
            ge=1,
            le=1000,
        ),
    ] = 64
    depth_max: Annotated[
        int,
        parameter(
            "the depth beyond which nobody is a container; 0: any depth, as in the paper",
            "measured: with `peek` depth buys no accuracy, and each level is a hop",
            ge=0,
        ),
    ] = 4
    children_max: Annotated[
        int,
        parameter(
            "children of a peer, beyond which it takes in only equals and top-level peers, within their own limits",
            "a guess: what one peer can watch",
            ge=16,
            le=1000,
        ),
    ] = 900
    chain_above: Annotated[
        int,
        parameter(
            "with `peek=false`, children above which they pass events along a chain; 0: never",
            "specification, section 3a",
            ge=0,
        ),
    ] = 50
    peek: Annotated[
        bool,
        parameter(
            "a parent (in the graph: a neighbour) tests an interest before it sends",
            "measured: hardly a false positive is left; in the paper peers know their own interest only",
        ),
    ] = True
    repair: Annotated[
        Literal["grandparent", "rejoin"],
        parameter("whether those who lost a parent look for the best place again", "paper, section 3"),
    ] = "grandparent"
    repair_ms: Annotated[
        int, parameter("how often a peer looks for a better place; 0: never", "a guess, against drift", ge=0)
    ] = 60_000
    pulse_ms: Annotated[int, parameter("how often the pulse goes down the tree", "specification: 2 s", ge=100)] = 2_000
    patience_ms: Annotated[
        int, parameter("without a pulse for so long, a peer looks for another parent", "ten pulses", ge=1_000)
    ] = 20_000
    probe_ms: Annotated[
        int, parameter("how long answers to a probe are waited for", "a guess: ten hops and back", ge=10)
    ] = 1_000
    floods_max: Annotated[
        int, parameter("probes and reorganisations told apart", "600 joins a second, two each, for 4 s", ge=16)
    ] = 8_192

    # --- similarity ---
    neighbours: Annotated[int, parameter("n: neighbours by proximity", "paper, section 5", ge=1, le=64)] = 5
    alike_max: Annotated[
        int,
        parameter(
            "of these, how many may share one interest that is not one's own (of one's own: n - 1); 0: any number",
            "measured: halves the false negatives; the paper has no such limit",
            ge=0,
            le=64,
        ),
    ] = 2
    random_links: Annotated[int, parameter("r: neighbours at random", "paper, section 5", ge=0, le=64)] = 1
    choosers_max: Annotated[
        int, parameter("others whose neighbour a peer may be", "a guess: ten times the mean", ge=1, le=1000)
    ] = 64
    rho: Annotated[
        float, parameter("probability that an event is sent over a random link", "paper, section 4", ge=0.0, le=1.0)
    ] = 1.0
    gamma: Annotated[
        int, parameter("how often a copy is forwarded by one who does not want it", "paper, section 5", ge=0, le=64)
    ] = 0
    gossip_ms: Annotated[int, parameter("one VICINITY round", "specification, section 1", ge=10)] = 1_000
    sample_one_in: Annotated[
        int, parameter("one of so many events is a sample to measure similarity on", "a guess", ge=1)
    ] = 4
    sample_max: Annotated[
        int, parameter("samples kept", "with half the paper's 1,000 a proximity is known to 0.04", ge=8, le=1000)
    ] = 500
    exchange_ms: Annotated[
        int, parameter("how often recent event ids are exchanged; 0: never", "the paper has no repair", ge=0)
    ] = 0
