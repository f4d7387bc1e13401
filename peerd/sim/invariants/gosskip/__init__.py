"""What must hold in a swarm of GosSkip."""

from typing import Final

from peerd.sim.invariants.gosskip import (
    cells_kept,
    chain_sorted_and_complete,
    links_bounded,
    lists_known,
    one_place_each,
    ranges_known,
    skip_list_perfect,
)

CHECKERS: Final = (
    chain_sorted_and_complete.check,
    skip_list_perfect.check,
    links_bounded.check,
    ranges_known.check,
    cells_kept.check,
    lists_known.check,
    one_place_each.check,
)
