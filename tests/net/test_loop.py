"""A network on either event loop."""

import asyncio
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from peerd.net import loop
from tests.net.support import event, nodes, note, until


async def exchange() -> str:
    async with nodes("a", "b") as (a, b):
        for number in range(50):
            a.send(b, note(number), event(number, 20_000))
            b.send(a, note(number))
        await until(lambda: len(b.told.received_) == 100 and len(a.told.received_) == 50)
        await until(lambda: a.connections == b.connections == 1)
        assert b.told.numbers() == a.told.numbers() == b.told.events() == list(range(50))
    return type(asyncio.get_running_loop()).__module__


def test_the_standard_loop() -> None:
    assert loop.run(exchange(), fast=False).startswith("asyncio")


def test_uvloop() -> None:
    pytest.importorskip("uvloop")
    assert loop.run(exchange()).startswith("uvloop")


def test_without_uvloop_the_standard_loop_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert loop.loop_factory() is None


def test_with_uvloop_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[Any] = []

    def new() -> asyncio.AbstractEventLoop:
        made.append(asyncio.new_event_loop())
        return made[-1]  # type: ignore[no-any-return]

    monkeypatch.setitem(sys.modules, "uvloop", SimpleNamespace(new_event_loop=new))

    async def which() -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    assert loop.run(which()) is made[0]
