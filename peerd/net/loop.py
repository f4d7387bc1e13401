"""Which event loop runs a peer: uvloop where it is installed, else the one of the standard library. Both will do."""

import asyncio
from collections.abc import Callable, Coroutine
from importlib import import_module
from typing import Any, TypeVar

T = TypeVar("T")


def loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """What makes a loop; None for the standard one."""
    try:
        uvloop: Any = import_module("uvloop")
    except ImportError:
        return None
    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def run(coro: Coroutine[Any, Any, T], *, fast: bool = True) -> T:
    """As `asyncio.run`. `fast=False` keeps to the standard loop."""
    with asyncio.Runner(loop_factory=loop_factory() if fast else None) as runner:
        return runner.run(coro)
