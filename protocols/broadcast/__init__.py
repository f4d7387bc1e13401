"""The baseline: flood every event over random links, filter at the edge.

This is what a user of a topic-based gossip has today, and what the five overlays have to beat.
"""

from protocols.broadcast.config import BroadcastConfig
from protocols.broadcast.messages import MESSAGES
from protocols.broadcast.overlay import Broadcast
from protocols.overlay import Kind

KIND = Kind(
    name="broadcast",
    summary="flood over random links, filter at the edge (the baseline)",
    config=BroadcastConfig,
    messages=MESSAGES,
    create=Broadcast,
    participants_max=1,  # every participant gets every event, so a second one in the same peer would gain nothing
    converges_within_s=30,
)
