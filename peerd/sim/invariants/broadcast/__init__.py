"""What must hold in a swarm of the baseline."""

from typing import Final

from peerd.sim.invariants.broadcast import graph_connected, links_bounded, links_mutual

CHECKERS: Final = (links_mutual.check, links_bounded.check, graph_connected.check)
