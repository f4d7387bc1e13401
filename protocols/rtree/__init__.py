"""The distributed R-tree (Bianchi, Felber, Gradinariu: Content-based Publish/Subscribe using Distributed R-trees).

Peers are the nodes of one balanced tree of bounding boxes: an event goes up to the root, and down into every child
whose box holds it.
"""

from protocols.overlay import Kind
from protocols.rtree.config import PROFILES, RtreeConfig
from protocols.rtree.messages import MESSAGES
from protocols.rtree.overlay import Rtree

KIND = Kind(
    name="rtree",
    summary="distributed R-tree: parents hold the bounding boxes of their children",
    config=RtreeConfig,
    messages=MESSAGES,
    create=Rtree,
    profiles=PROFILES,
)
