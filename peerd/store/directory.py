"""A data directory: read and locked when it is opened, written whenever something changes.

Every write is durable when it returns: it waits for the disk, some milliseconds. That is too long for an event loop:
there `Background` stands before it.

What goes wrong when it is opened is an error: two daemons on one directory, no permission, files of a later version.
Once the peer runs, a full disk is only told, once, and told again when it is over; then what was missed is written.
"""

import fcntl
import logging
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock
from typing import Final

from peerd import files
from peerd.store import documents
from peerd.store.journal import Journal
from peerd.store.model import (
    StoredSubscription,
    StoredSwarm,
    StoreError,
    chosen_contacts,
    new_identity,
    next_boot,
)
from protocols.model.schema import Schema, SchemaError

LOCK: Final = "lock"
IDENTITY: Final = "identity.json"
BOOT: Final = "boot.json"
SWARM: Final = "swarm.json"
CONTACTS: Final = "contacts.json"
SUBSCRIPTIONS: Final = "subscriptions.jsonl"

_log = logging.getLogger(__name__)


class Store:
    def __init__(self, path: str, now_ms: int, notice: documents.Notice = _log.warning) -> None:
        """Open the directory, make it if need be, and begin the next boot. `StoreError` with one clear line."""
        self._directory = Path(path)
        self._notice = notice
        self._guard = Lock()
        self._missed: dict[str, Callable[[], None]] = {}
        """By file, what could not be written yet."""
        self._lock_fd: int | None = None
        try:
            self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._lock_fd = _lock(self._directory)
            self._open(now_ms)
        except OSError as error:
            self._unlock()
            reason = (error.strerror or str(error)).lower()
            raise StoreError(f"data directory {path}: {reason}; make it writable, or give another --data-dir") from None
        except BaseException:
            self._unlock()
            raise

    def _open(self, now_ms: int) -> None:
        directory, notice = self._directory, self._notice
        for leftover in directory.glob(f"*{files.TEMPORARY}"):
            leftover.unlink()
        identity = documents.read(directory / IDENTITY, documents.Identity, notice)
        boot = documents.read(directory / BOOT, documents.Boot, notice)
        contacts = documents.read(directory / CONTACTS, documents.Contacts, notice)
        self.swarm = self._read_swarm()
        self.contacts = () if contacts is None else chosen_contacts(contacts.endpoints)
        self._journal = Journal(directory / SUBSCRIPTIONS, notice)
        self.peer = new_identity() if identity is None else identity.peer
        self.boot = next_boot(None if boot is None else boot.boot, now_ms)
        if identity is None:
            self._replace(IDENTITY, documents.Identity(peer=self.peer), opening=True)
        self._replace(BOOT, documents.Boot(boot=self.boot), opening=True)
        self._try(SUBSCRIPTIONS, self._journal.bring_up_to_date, opening=True)

    def _read_swarm(self) -> StoredSwarm | None:
        path = self._directory / SWARM
        found = documents.read(path, documents.Swarm, self._notice)
        if found is None:
            return None
        try:
            first = Schema.from_dict(found.first_schema)
            schema = first.merged(Schema.from_dict(found.schema))
        except SchemaError as error:
            documents.set_aside(path, str(error), self._notice)
            return None
        return StoredSwarm(
            name=found.name, overlay=found.overlay, parameters=found.parameters, schema=schema, first_schema=first
        )

    # --- Storage ------------------------------------------------------------------------------------------------------

    @property
    def subscriptions(self) -> Mapping[str, StoredSubscription]:
        return self._journal.subscriptions

    def save_swarm(self, swarm: StoredSwarm) -> None:
        with self._guard:
            self.swarm = swarm
            document = documents.Swarm(
                name=swarm.name,
                overlay=swarm.overlay,
                parameters=swarm.parameters,
                schema=swarm.schema.to_dict(),
                first_schema=swarm.first_schema.to_dict(),
            )
            self._replace(SWARM, document)

    def save_contacts(self, endpoints: Sequence[str]) -> None:
        with self._guard:
            chosen = chosen_contacts(endpoints)
            if chosen != self.contacts:
                self.contacts = chosen
                self._replace(CONTACTS, documents.Contacts(endpoints=chosen))

    def put_subscription(self, subscription: StoredSubscription) -> None:
        with self._guard:
            self._try(SUBSCRIPTIONS, lambda: self._journal.put(subscription))

    def remove_subscription(self, id_: str) -> None:
        with self._guard:
            self._try(SUBSCRIPTIONS, lambda: self._journal.remove(id_))

    def close(self) -> None:
        """Let others use the directory."""
        with self._guard:
            if self._lock_fd is not None:
                self._catch_up()
                self._journal.close()
                self._unlock()

    # --- Writing ------------------------------------------------------------------------------------------------------

    def _replace(self, name: str, document: documents.Head, opening: bool = False) -> None:
        data = documents.encode(document)
        self._try(name, lambda: files.replace(self._directory / name, data), opening)

    def _try(self, name: str, write: Callable[[], None], opening: bool = False) -> None:
        """Write, or tell that it failed and remember to do it later."""
        try:
            write()
        except OSError as error:
            if opening and error.errno not in files.FULL:
                raise
            if not self._missed:
                self._notice(f"data directory {self._directory}: {error.strerror}; changes would not survive a restart")
            self._missed[name] = self._journal.bring_up_to_date if name == SUBSCRIPTIONS else write
        else:
            if self._missed.pop(name, None) is not None or self._missed:
                self._catch_up()
                if not self._missed:
                    self._notice(f"data directory {self._directory} is written again; nothing is missing in it")

    def _catch_up(self) -> None:
        for name, write in list(self._missed.items()):
            try:
                write()
            except OSError:
                return
            del self._missed[name]

    def _unlock(self) -> None:
        if self._lock_fd is not None:
            os.close(self._lock_fd)  # which gives up the lock; the file stays, or two could lock two files of that name
            self._lock_fd = None


def _lock(directory: Path) -> int:
    """Lock the directory for this process, for as long as it lives: the system ends a dead process' locks."""
    fd = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.read(fd, 32).decode(errors="replace").strip()
        os.close(fd)
        who = f" (process {owner})" if owner.isdecimal() else ""
        raise StoreError(
            f"data directory {directory} is in use by another peerd{who}; stop that one, or give another --data-dir"
        ) from None
    except OSError:
        os.close(fd)
        raise
    try:
        os.ftruncate(fd, 0)
        os.write(fd, b"%d\n" % os.getpid())
    except OSError:  # a full disk: nobody learns who holds it
        pass
    return fd
