"""Workloads: what subscribers want and what is published, by name. The table is in `docs/workloads.md`."""

from dataclasses import replace
from typing import Final

from peerd.sim.workloads.boxes import Boxes
from peerd.sim.workloads.files import Files
from peerd.sim.workloads.mixed import Mixed
from peerd.sim.workloads.ranges import Ranges
from peerd.sim.workloads.stocks import Stocks
from peerd.sim.workloads.workload import Interest, Workload

__all__ = ["WORKLOADS", "Interest", "Workload", "workload"]

_ALL: Final[tuple[Workload, ...]] = (
    Boxes("uniform", "uniform"),
    Boxes("uniform-25:75", "uniform", plain_percent=25),
    Boxes("uniform-10:90", "uniform", plain_percent=10),
    Boxes("zipf", "zipf"),
    Boxes("zipf-25:75", "zipf", plain_percent=25),
    Boxes("zipf-10:90", "zipf", plain_percent=10),
    Stocks(),
    Files("files"),
    Files("files-uniform", alpha=0.0),
    Ranges(),
    Mixed(),
)

WORKLOADS: Final[dict[str, Workload]] = {each.name: each for each in _ALL}


def workload(name: str, **parameters: object) -> Workload:
    """The workload of that name, with some of its parameters changed; `ValueError` in one line if there is none."""
    found = WORKLOADS.get(name)
    if found is None:
        raise ValueError(f"unknown workload {name!r}; choose one of {', '.join(WORKLOADS)}")
    unknown = [key for key in parameters if key not in found.PARAMETERS]
    if unknown:
        known = ", ".join(found.PARAMETERS) or "none"
        raise ValueError(f"workload {name} has no parameter {unknown[0]!r}; it has: {known}")
    return replace(found, **parameters)
