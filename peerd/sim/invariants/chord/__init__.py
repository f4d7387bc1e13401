"""What must hold in a ring."""

from typing import Final

from peerd.sim.invariants.chord import (
    arcs_follow_each_other,
    fingers_exact,
    leases_kept,
    living_successor_listed,
    neighbours_in_order,
    principals_enough,
    rows_at_copies,
    rows_at_owners,
    successor_lists_exact,
    successor_lists_sound,
)

CHECKERS: Final = (
    neighbours_in_order.check,
    successor_lists_sound.check,
    successor_lists_exact.check,
    principals_enough.check,
    living_successor_listed.check,
    fingers_exact.check,
    arcs_follow_each_other.check,
    rows_at_owners.check,
    rows_at_copies.check,
    leases_kept.check,
)
