"""The directory of a testbed.

    testbed.json    what it consists of: processes with their start times, endpoints, ids
    lock            held by the fork server as long as it lives
    schema.toml     the schema that the first peer begins with
    peers.log       what all peers have to say to an operator

Nobody else may write there, since what `testbed.json` names is going to be ended.
"""

import fcntl
import json
import os
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import msgspec

from peerd.testbed.processes import Process
from protocols.model.schema import Schema

FORMAT: Final = 1

State: TypeAlias = Literal["starting", "joining", "ready", "killed", "ended"]


class TestbedError(Exception):
    """A testbed cannot do what was asked; the message is one line that says what to do."""

    __test__ = False  # for pytest, which takes everything for a test that begins like one


class MemberRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A peer as `testbed.json` has it."""

    name: str
    process: Process
    state: State
    peer: str = ""
    listen: str = ""
    http: str = ""


class BedRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What is in `testbed.json`."""

    format: int = FORMAT
    overlay: str
    server: Process
    started_at: str
    members: tuple[MemberRecord, ...] = ()


def default_directory() -> Path:
    """Where this user's testbed is, unless another place is named."""
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.path.isabs(runtime) and os.path.isdir(runtime):
        return Path(runtime) / "peerd-testbed"
    return Path(tempfile.gettempdir()) / f"peerd-testbed-{os.getuid()}"


class Place:
    def __init__(self, directory: Path) -> None:
        self.directory = directory.absolute()
        self.schema = self.directory / "schema.toml"
        self.log = self.directory / "peers.log"
        self._file = self.directory / "testbed.json"

    def make(self) -> None:
        """`TestbedError` if the directory is not this user's own, `OSError` if it cannot be made."""
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = self.directory.stat()
        if found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise TestbedError(f"{self.directory}: others may write there; name a directory of your own with --dir")

    def read(self) -> BedRecord | None:
        """None if there is no testbed; `TestbedError` if what is there cannot be read."""
        try:
            found = self.directory.stat()
            data = self._file.read_bytes()
        except FileNotFoundError:
            return None
        if found.st_uid != os.getuid() or found.st_mode & 0o022:
            raise TestbedError(f"{self.directory}: others may write there, so what it says is not believed")
        try:
            record = msgspec.json.decode(data, type=BedRecord)
        except msgspec.DecodeError as error:
            raise TestbedError(f"{self._file}: {error}; remove it if no testbed runs there") from None
        if record.format != FORMAT:
            raise TestbedError(f"{self._file}: written by another version of peerd; use that one for 'down'")
        return record

    def write(self, record: BedRecord) -> None:
        """Replace what is there, at once or not at all."""
        draft = self._file.with_suffix(".draft")
        draft.write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=1))
        draft.replace(self._file)

    def forget(self) -> None:
        """The testbed is gone. What its peers had to say stays."""
        for path in (self._file, self._file.with_suffix(".draft"), self.schema):
            with suppress(FileNotFoundError):
                path.unlink()

    def write_schema(self, schema: Schema) -> None:
        self.schema.write_text(to_toml(schema), "utf-8")

    def lock(self) -> int | None:
        """A lock that is held until the descriptor is closed or the process ends; None if another has it."""
        fd = os.open(self.directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(fd)
            return None
        return fd


def to_toml(schema: Schema) -> str:
    """A schema as the file that a peer reads."""
    lines: list[str] = []
    for attribute in schema.to_dict()["attributes"]:
        lines.append(f"[attributes.{_toml(attribute['name'])}]")
        lines += [f"{key} = {_toml(value)}" for key, value in attribute.items() if key != "name" and value is not None]
    return "\n".join(lines) + "\n"


def _toml(value: Any) -> str:
    """Strings, numbers and booleans are written as in JSON."""
    return json.dumps(value, ensure_ascii=False)
