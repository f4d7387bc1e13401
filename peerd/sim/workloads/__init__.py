"""Workloads: what subscribers want and what is published, by name. The table is in `docs/workloads.md`."""

from dataclasses import fields
from typing import Final

import msgspec

from peerd.sim.workloads.boxes import Boxes
from peerd.sim.workloads.documents import Documents
from peerd.sim.workloads.dtd import NEWS, QUOTES
from peerd.sim.workloads.files import Files
from peerd.sim.workloads.mixed import Mixed
from peerd.sim.workloads.ranges import Ranges
from peerd.sim.workloads.recorded import PREFIX, Recorded
from peerd.sim.workloads.stocks import Stocks
from peerd.sim.workloads.workload import Interest, Workload

__all__ = ["DOCUMENTS", "WORKLOADS", "Documents", "Interest", "Workload", "any_workload", "on_grid", "workload"]

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

_OF_DOCUMENTS: Final = (
    Documents("xml-quotes", QUOTES, presence=0.4, branch=0.3, value=0.7),
    Documents("xml-news", NEWS),
)

DOCUMENTS: Final[dict[str, Documents]] = {each.name: each for each in _OF_DOCUMENTS}
"""Those whose interests are XPath and whose events are documents."""


def any_workload(name: str, **parameters: object) -> Workload | Documents:
    """The workload of that name, of either kind, with some of its parameters changed; `ValueError` in one line if there
    is none."""
    if name not in DOCUMENTS:
        return workload(name, **parameters)
    if parameters:
        raise ValueError(f"workload {name} has no parameter {next(iter(parameters))!r}; it has: none")
    return DOCUMENTS[name]


def workload(name: str, **parameters: object) -> Workload:
    """The workload of that name, with some of its parameters changed; `ValueError` in one line if there is none."""
    if name.startswith(PREFIX):
        return Recorded.read(name)
    found = WORKLOADS.get(name)
    if found is None:
        raise ValueError(f"unknown workload {name!r}; choose one of {', '.join((*WORKLOADS, *DOCUMENTS))}")
    unknown = [key for key in parameters if key not in found.PARAMETERS]
    if unknown:
        known = ", ".join(found.PARAMETERS) or "none"
        raise ValueError(f"workload {name} has no parameter {unknown[0]!r}; it has: {known}")
    settings = {field.name: getattr(found, field.name) for field in fields(found)} | parameters
    try:
        return msgspec.convert(settings, type(found))
    except msgspec.ValidationError as error:
        raise ValueError(f"workload {name}: {error}") from None


def on_grid(name: str) -> bool:
    """Whether all its values lie on the grid, so that boxes say exactly what filters do."""
    return name != "mixed" and not name.startswith(PREFIX)
