"""Sub-2-Sub: rings of overlapping interests that gossip builds, with or without cells for unequal bandwidth.

Abhigyan, Chandra and Ganguly: "A Bandwidth Aware Topology Generation Mechanism for Peer-to-Peer based Publish-Subscribe
Systems", on top of Sub-2-Sub by Voulgaris, Rivière, Kermarrec and van Steen (IPTPS 2006).
"""

from protocols.overlay import Kind
from protocols.sub2sub.config import PROFILES, Sub2SubConfig
from protocols.sub2sub.messages import MESSAGES
from protocols.sub2sub.overlay import Sub2Sub

KIND = Kind(
    name="sub2sub",
    summary="gossip-built rings of overlapping interests, with cells and flow control for unequal bandwidth",
    config=Sub2SubConfig,
    messages=MESSAGES,
    create=Sub2Sub,
    profiles=PROFILES,
    keeps_budget=True,
    knows_siblings=True,
)
