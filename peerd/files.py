"""Writing files so that a killed process or a full disk leaves whole ones.

Two ways, for two kinds of files. A small file is replaced: written beside its place, forced to the disk, and renamed
over the old one, so that a reader finds the old content or the new, never half of it. A file of lines only grows: a
write that fails half-way is taken back, and what a killed process left of its last line is cut off when it is found.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from errno import EDQUOT, EFBIG, EIO, ENOSPC, EROFS
from pathlib import Path
from typing import Final

TEMPORARY: Final = ".tmp"

FULL: Final = frozenset({ENOSPC, EDQUOT, EFBIG, EIO, EROFS})
"""What a disk answers when it is full or failing: nobody's mistake, may pass, and the peer goes on."""

_CHUNK: Final = 64 * 1024


def replace(path: Path, data: bytes) -> None:
    """Put `data` in the place of the file, durably: when this returns, a power cut does not undo it."""
    temporary = path.with_name(path.name + TEMPORARY)
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    sync_directory(path.parent)


def sync_directory(directory: Path) -> None:
    """Make what was created, renamed or removed in a directory durable."""
    with _opened(directory, os.O_RDONLY | os.O_DIRECTORY) as fd:
        os.fsync(fd)


def append(fd: int, size: int, data: bytes) -> int:
    """Append to a file of `size` bytes all of `data` or nothing, and return its new size."""
    view = memoryview(data)
    written = 0
    try:
        while written < len(data):
            written += os.write(fd, view[written:])
    except OSError:
        os.ftruncate(fd, size)
        raise
    return size + written


def cut_half_line(path: Path) -> int:
    """Cut off what stands behind the last whole line, and return how many bytes are left."""
    with _opened(path, os.O_RDWR) as fd:
        size = end = os.fstat(fd).st_size
        while end > 0:
            start = max(0, end - _CHUNK)
            newline = os.pread(fd, end - start, start).rfind(b"\n")
            if newline >= 0:
                end = start + newline + 1
                break
            end = start
        if end < size:
            os.ftruncate(fd, end)
    return end


@contextmanager
def _opened(path: Path, flags: int) -> Iterator[int]:
    fd = os.open(path, flags)
    try:
        yield fd
    finally:
        os.close(fd)
