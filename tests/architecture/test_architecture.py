"""The architecture, checked rather than left to good will: each rule on every module that it is for."""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

from tests.architecture.imports import foreign_room, impure_import, wrong_direction
from tests.architecture.purity import impure_call, set_iteration
from tests.architecture.shape import long_function, no_docstring, unfinished
from tests.architecture.tree import ALL, CODE, Source, sources

Rule: TypeAlias = Callable[[Source], Iterator[tuple[int, str]]]

RULES: Final[tuple[tuple[Rule, tuple[str, ...]], ...]] = (
    (wrong_direction, CODE),
    (foreign_room, CODE),
    (impure_import, ("protocols",)),
    (impure_call, ("protocols",)),
    (set_iteration, ("protocols",)),
    (no_docstring, CODE),
    (long_function, ALL),
    (unfinished, ALL),
)


def test_every_rule_is_kept() -> None:
    """All in one test, for to read and parse a module costs more than a rule."""
    modules: dict[str, None] = {}
    found: list[str] = []
    for source in sources(*ALL):
        modules[source.module] = None
        room = source.module.partition(".")[0]
        for rule in [rule for rule, rooms in RULES if room in rooms]:
            found += [f"{source.path}:{line}: {rule.__name__}: {text}" for line, text in rule(source)]
    assert not found, "\n" + "\n".join(found)
    assert {"protocols", "protocols.overlay", "protocols.model.box", "peerd.wire", "analytics"} <= modules.keys()
