"""What must hold in a swarm of Sub-2-Sub."""

from typing import Final

from peerd.sim.invariants.sub2sub import budget_kept, claims_cover, limits_respected, rings_exact

CHECKERS: Final = (rings_exact.check, claims_cover.check, budget_kept.check, limits_respected.check)
