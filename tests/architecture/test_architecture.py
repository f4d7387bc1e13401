"""The architecture, checked rather than left to good will: each rule on every module that it is for."""

from collections.abc import Callable, Iterator
from typing import Final, TypeAlias

import pytest

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


@pytest.mark.parametrize(("rule", "rooms"), RULES, ids=[rule.__name__ for rule, _ in RULES])
def test_rule(rule: Rule, rooms: tuple[str, ...]) -> None:
    found = [f"{source.path}:{line}: {text}" for source in sources(*rooms) for line, text in rule(source)]
    assert not found, "\n" + "\n".join(found)


def test_rules_see_the_code() -> None:
    modules = {source.module for source in sources(*CODE)}
    assert {"protocols", "protocols.overlay", "protocols.model.box", "peerd.wire", "analytics"} <= modules
