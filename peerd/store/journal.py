"""The subscriptions of a peer in a file that grows by a line with each change.

A peer may have ten thousand of them, and writing all anew whenever one changes would take that many times as long. So a
change is one line, `{"put": {…}}` or `{"remove": "id"}`, and what a line says holds until a later one says otherwise.
When most lines are outdated, the file is replaced by one that says the same in fewer.

A process that was killed may leave half a line at the end, which is cut off. Any other line that cannot be read costs
the change that it was, not the others: the file is set aside as it is, and the rest of it used.
"""

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import msgspec

from peerd import files
from peerd.store import documents
from peerd.store.model import StoredSubscription

OUTDATED_MAX: Final = 1_000
"""Outdated lines that the file has beyond the number of subscriptions. Our choice: some 100 KB."""


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    put: StoredSubscription | None = None
    remove: str | None = None


_encode: Final = msgspec.json.Encoder().encode
_decode: Final = msgspec.json.Decoder(Line).decode


class Journal:
    """Writing raises `OSError`; the next write then brings the file up to date, whatever was missed."""

    def __init__(self, path: Path, notice: documents.Notice) -> None:
        self._path = path
        self._subscriptions: dict[str, StoredSubscription] = {}
        self._fd: int | None = None
        self._size = 0
        self._lines = 0
        self._stale = False
        """The file lacks something that is in memory."""
        if path.exists():
            self._read(notice)

    @property
    def subscriptions(self) -> Mapping[str, StoredSubscription]:
        return self._subscriptions

    def put(self, subscription: StoredSubscription) -> None:
        self._subscriptions[subscription.id] = subscription
        self._add(Line(put=subscription))

    def remove(self, id_: str) -> None:
        if self._subscriptions.pop(id_, None) is not None:
            self._add(Line(remove=id_))

    def close(self) -> None:
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    # --- Reading ------------------------------------------------------------------------------------------------------

    def _read(self, notice: documents.Notice) -> None:
        files.cut_half_line(self._path)
        head, *lines = self._path.read_bytes().split(b"\n")[:-1] or [b""]
        fault = ""
        try:
            documents.check_format(self._path, head)
        except msgspec.DecodeError as error:
            fault = f"line 1: {error}"
        for number, line in enumerate(lines, 2):
            try:
                self._apply(_decode(line))
            except (ValueError, RecursionError) as error:
                fault = fault or f"line {number}: {error}"
        self._lines = len(lines)
        if fault:
            documents.set_aside(self._path, fault, notice)
            notice(f"{len(self._subscriptions)} subscriptions of it could be read and are kept")
            self._stale = True

    def _apply(self, line: Line) -> None:
        if line.put is not None:
            self._subscriptions[line.put.id] = line.put
        if line.remove is not None:
            self._subscriptions.pop(line.remove, None)

    # --- Writing ------------------------------------------------------------------------------------------------------

    def bring_up_to_date(self) -> None:
        """Write what is known, if the file does not say it."""
        if self._stale:
            self._rewrite()

    def _add(self, line: Line) -> None:
        outdated = self._lines + 1 - len(self._subscriptions)
        if self._stale or outdated > len(self._subscriptions) + OUTDATED_MAX or not self._path.exists():
            self._rewrite()
            return
        self._stale = True  # until it is written
        if self._fd is None:
            self._fd = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            self._size = os.fstat(self._fd).st_size
        self._size = files.append(self._fd, self._size, _encode(line) + b"\n")
        os.fsync(self._fd)
        self._lines += 1
        self._stale = False

    def _rewrite(self) -> None:
        self._stale = True
        self.close()
        files.replace(self._path, b"".join(self._all()))
        self._lines = len(self._subscriptions)
        self._stale = False

    def _all(self) -> Iterator[bytes]:
        yield _encode(documents.Head()) + b"\n"
        for subscription in self._subscriptions.values():
            yield _encode(Line(put=subscription)) + b"\n"
