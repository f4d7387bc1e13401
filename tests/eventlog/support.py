"""What the tests of the event log share."""

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from threading import Event as Flag
from time import monotonic
from typing import Any

from protocols.model.event import Body, Event, encode_body
from protocols.model.ids import PEER_SLOT, Address
from protocols.model.schema import STOCKS
from protocols.overlay import Deliver, Reception

ME = Address("ab" * 16, 7, PEER_SLOT, "127.0.0.1:6470")
OTHER = Address("cd" * 16, 3, 0, "127.0.0.1:6471")


def until(condition: Callable[[], bool], seconds: float = 10.0) -> None:
    """Wait for another thread or process, but not for ever."""
    end = monotonic() + seconds
    while not condition():
        assert monotonic() < end, "it did not come true in time"
        Flag().wait(0.005)


def event(number: int = 1, body: bytes | None = None) -> Event:
    attributes: dict[str, str | int | float | bool] = {"symbol": "OTE", "price": 8.5}
    raw = encode_body(Body(attributes, 1_000)) if body is None else body
    return Event(f"{OTHER.peer}-3-{number}", STOCKS.point(attributes), raw)


def reception(number: int = 1, result: Any = "wanted") -> Reception:
    return Reception(0, event(number).id, OTHER, 2, result)


def delivery(number: int = 1, ids: tuple[str, ...] = ("s1", "s2"), body: bytes | None = None) -> Deliver:
    return Deliver(PEER_SLOT, event(number, body), ids, 2)


def files(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def records(directory: Path) -> list[dict[str, Any]]:
    """The records of all closed files, in order."""
    return [
        json.loads(line)
        for path in sorted(directory.glob("*.jsonl"))
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


class FullDisk:
    """Lets writes fail half-way while it is full."""

    def __init__(self) -> None:
        self.full = False
        self._write = os.write

    def write(self, fd: int, data: memoryview) -> int:
        if self.full and len(data) > 1:
            return self._write(fd, data[: len(data) // 2])
        if self.full:
            raise OSError(errno.ENOSPC, "No space left on device")
        return self._write(fd, data)
