"""How far it is, on standard error: one line for each step, and how many of Spark's tasks are done while one runs."""

import sys
import threading
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final, Protocol, TextIO

from pyspark.sql import SparkSession

EVERY_S: Final = 0.5


class Progress(Protocol):
    def step(self, what: str) -> AbstractContextManager[None]:
        """Something that takes a while: as long as the context lasts."""

    def note(self, text: str) -> None:
        """Something worth a line."""


class Silent:
    """For callers who do not want to know."""

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        yield

    def note(self, text: str) -> None: ...


silent: Final[Progress] = Silent()


class Shown:
    """Lines for people. A terminal also sees the tasks of the step that runs."""

    def __init__(self, spark: SparkSession, stream: TextIO | None = None) -> None:
        self._tracker = spark.sparkContext.statusTracker()
        self._stream = stream or sys.stderr
        self._live = self._stream.isatty()

    @contextmanager
    def step(self, what: str) -> Iterator[None]:
        started, done = time.monotonic(), threading.Event()
        watching = threading.Thread(target=self._watch, args=(what, done), daemon=True)
        if self._live:
            watching.start()
        try:
            yield
        finally:
            done.set()
            if self._live:
                watching.join()
        self._print(f"{what}: {time.monotonic() - started:.1f} s")

    def note(self, text: str) -> None:
        self._print(text)

    def _print(self, text: str) -> None:
        self._stream.write(f"\r\x1b[K{text}\n" if self._live else f"{text}\n")
        self._stream.flush()

    def _watch(self, what: str, done: threading.Event) -> None:
        while not done.wait(EVERY_S):
            total = finished = 0
            for stage in self._tracker.getActiveStageIds():
                info = self._tracker.getStageInfo(stage)
                if info is not None:
                    total, finished = total + info.numTasks, finished + info.numCompletedTasks
            self._stream.write(f"\r\x1b[K{what} … {finished}/{total} tasks" if total else f"\r\x1b[K{what} …")
            self._stream.flush()
