"""Every rule catches what it is for, and lets pass what it should."""

import pytest

from tests.architecture.imports import foreign_room, impure_import, wrong_direction
from tests.architecture.purity import impure_call, set_iteration
from tests.architecture.shape import long_function, no_docstring, unfinished
from tests.architecture.test_architecture import RULES, Rule
from tests.architecture.tree import source

OVERLAY = "protocols.rtree.overlay"

BAD: list[tuple[Rule, str, str]] = [
    (wrong_direction, "protocols.model.box", "from protocols.parts.view import View"),
    (wrong_direction, "protocols.model.box", "from ..parts.view import View"),
    (wrong_direction, "protocols.model.box", "from protocols import overlay"),
    (wrong_direction, "protocols.parts.view", "import protocols.overlay"),
    (wrong_direction, "protocols.overlay", "def f():\n    from protocols.peer import Peer"),
    (wrong_direction, OVERLAY, "from protocols.chord.ring import Ring"),
    (wrong_direction, OVERLAY, "from protocols.peer import Peer"),
    (wrong_direction, OVERLAY, "from protocols.membership import Membership"),
    (wrong_direction, "protocols.peer", "from protocols.broadcast import KIND"),
    (wrong_direction, "peerd.registry", "from peerd.driver import perform"),
    (wrong_direction, "peerd.wire", "from peerd import net"),
    (wrong_direction, "peerd.sim.engine", "from peerd.net.tcp import Link"),
    (wrong_direction, "peerd.net.tcp", "from peerd.sim import engine"),
    (wrong_direction, "peerd.sim.engine", "from peerd.cli import main"),
    (wrong_direction, "peerd", "from peerd.cli import main"),
    (wrong_direction, "peerd.nowhere", "x = 1"),
    (foreign_room, OVERLAY, "from peerd.registry import KINDS"),
    (foreign_room, OVERLAY, "import analytics"),
    (foreign_room, "analytics.jobs", "from protocols.model.box import Box"),
    (foreign_room, "analytics.jobs", "import peerd.sim"),
    (foreign_room, "peerd.sim.engine", "from analytics.report import report"),
    (foreign_room, "peerd.sim.engine", "from tests.conftest import x"),
    (impure_import, OVERLAY, "import asyncio"),
    (impure_import, OVERLAY, "import socket"),
    (impure_import, OVERLAY, "from time import monotonic"),
    (impure_import, OVERLAY, "import os.path"),
    (impure_import, OVERLAY, "import threading"),
    (impure_import, OVERLAY, "import subprocess"),
    (impure_import, OVERLAY, "def f():\n    import uuid"),
    (impure_import, OVERLAY, "from secrets import token_hex"),
    (impure_import, OVERLAY, "import random"),
    (impure_import, OVERLAY, "from random import choice"),
    (impure_import, OVERLAY, "import sys"),
    (impure_import, OVERLAY, "import requests"),
    (impure_import, OVERLAY, "def f():\n    import numpy"),
    (impure_import, "protocols.model.index", "import numpy"),
    (impure_call, OVERLAY, "open('x')"),
    (impure_call, OVERLAY, "print('x')"),
    (impure_call, OVERLAY, "random = Random(1)"),
    (impure_call, OVERLAY, "import random\nrandom.shuffle(x)"),
    (impure_call, OVERLAY, "datetime.now()"),
    (impure_call, OVERLAY, "datetime.datetime.utcnow()"),
    (impure_call, OVERLAY, "date.today()"),
    (impure_call, OVERLAY, "bucket = hash(name) % 8"),
    (impure_call, OVERLAY, "order = sorted(x, key=lambda y: id(y))"),
    (set_iteration, OVERLAY, "for x in {1, 2}: pass"),
    (set_iteration, OVERLAY, "for x in set(y): pass"),
    (set_iteration, OVERLAY, "for x in {y for y in z}: pass"),
    (set_iteration, OVERLAY, "a = [x for x in frozenset(y)]"),
    (set_iteration, OVERLAY, "a = {x: 1 for x in set(y)}"),
    (set_iteration, OVERLAY, "a = list(set(y))"),
    (set_iteration, OVERLAY, "a = (*set(y), 1)"),
    (set_iteration, OVERLAY, "a = ','.join(set(y))"),
    (set_iteration, OVERLAY, "a = set(y).pop()"),
    (set_iteration, OVERLAY, "a = min(set(y), key=f)"),
    (set_iteration, OVERLAY, "def f(y: set[str]):\n    for x in y: pass"),
    (set_iteration, OVERLAY, "def f(y: frozenset[str]):\n    return tuple(y | {1})"),
    (set_iteration, OVERLAY, "def f():\n    y = set()\n    for x in y: pass"),
    (set_iteration, OVERLAY, "def f(a, b):\n    for x in a.keys() - b.keys(): pass"),
    (
        set_iteration,
        OVERLAY,
        "class A:\n    def f(self):\n        self.y: set[int] = set()\n        for x in self.y: pass",
    ),
    (
        set_iteration,
        OVERLAY,
        "class A:\n    y: set[int]\n    def f(self):\n        return [x for x in self.y.union(z)]",
    ),
    (no_docstring, OVERLAY, "x = 1"),
    (long_function, OVERLAY, "def f():\n" + "    x = 1\n" * 70),
    (long_function, OVERLAY, "class A:\n    async def f(self):\n" + "        x = 1\n" * 70),
    (unfinished, OVERLAY, "x = 1  # TO" + "DO: two"),
    (unfinished, OVERLAY, "# FIX" + "ME"),
]

FINE: list[tuple[Rule, str, str]] = [
    (wrong_direction, "protocols.model.box", "from protocols.model.ids import Address"),
    (wrong_direction, "protocols.parts.view", "from protocols.model import box"),
    (wrong_direction, OVERLAY, "from protocols.parts.view import View\nfrom protocols.rtree.node import Node"),
    (wrong_direction, "protocols.peer", "from protocols.grouping import Grouping"),
    (wrong_direction, "peerd.registry", "from protocols.rtree import KIND"),
    (wrong_direction, "peerd.sim.engine", "from peerd import __version__, wire\nfrom peerd.driver import perform"),
    (wrong_direction, "peerd.cli.sim", "from peerd.sim.engine import run"),
    (foreign_room, "peerd.cli.report", "from analytics.report import report"),
    (foreign_room, "peerd.wire", "from protocols.overlay import Message"),
    (foreign_room, "analytics.jobs", "from analytics.schema import RECORDS\nimport pyspark"),
    (impure_import, OVERLAY, "from random import Random\nfrom collections import deque\nimport msgspec, lark"),
    (impure_import, OVERLAY, "from sys import maxsize"),
    (impure_import, "protocols.model.index", "def f():\n    import numpy"),
    (impure_import, "protocols.model.index", "if TYPE_CHECKING:\n    import numpy"),
    (impure_call, OVERLAY, "def f(random: Random):\n    return random.random()"),
    (impure_call, OVERLAY, "class A:\n    def __hash__(self):\n        return hash(self.x)"),
    (set_iteration, OVERLAY, "for x in sorted(set(y)): pass"),
    (set_iteration, OVERLAY, "a = any(x for x in set(y))"),
    (set_iteration, OVERLAY, "a = {x for x in set(y)}"),
    (set_iteration, OVERLAY, "a = min(set(y)) in {1, 2}"),
    (set_iteration, OVERLAY, "def f(y: dict[str, int]):\n    for x in y: pass"),
    (set_iteration, OVERLAY, "def f(a: int, b: int):\n    return list(range(a - b))"),
    (no_docstring, OVERLAY, '"""What it is for."""'),
    (long_function, OVERLAY, "def f():\n" + "    x = 1\n" * 69),
    (unfinished, OVERLAY, "todos = fixmes = 1"),
]


@pytest.mark.parametrize(("rule", "module", "text"), BAD)
def test_rule_catches(rule: Rule, module: str, text: str) -> None:
    assert len(list(rule(source(module, text)))) == 1


@pytest.mark.parametrize(("rule", "module", "text"), FINE)
def test_rule_lets_pass(rule: Rule, module: str, text: str) -> None:
    assert list(rule(source(module, text))) == []


def test_every_rule_is_shown_both() -> None:
    rules = {rule for rule, _ in RULES}
    assert {rule for rule, _, _ in BAD} == rules
    assert {rule for rule, _, _ in FINE} == rules
