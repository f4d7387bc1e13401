"""Names that the shell completes. They are looked up when the user asks, not when the command line starts."""

from collections.abc import Iterable

import click


def overlay_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from peerd.registry import NAMES

    return _beginning(NAMES, incomplete)


def workload_names(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    from peerd.sim.workloads import DOCUMENTS, WORKLOADS

    return _beginning((*WORKLOADS, *DOCUMENTS), incomplete)


def _beginning(names: Iterable[str], incomplete: str) -> list[str]:
    return [name for name in names if name.startswith(incomplete)]
