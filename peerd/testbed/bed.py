"""The steering side of a testbed: start peers, look at them, kill some, end all of them.

Peers are started a few at a time: the first begins the swarm, each of the others joins through it and through another
one that stands already. Nobody waits for all: as one gets ready, the next is started.
"""

import asyncio
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from random import Random
from signal import SIGKILL, SIGTERM
from time import monotonic
from typing import Any, Final, TypeAlias

import msgspec

import peerd
from peerd.testbed import lines
from peerd.testbed.lines import (
    PATIENCE_S,
    Batch,
    End,
    Failed,
    Fork,
    Forked,
    Gone,
    LetGo,
    Line,
    Look,
    Looked,
    Ready,
    Started,
    Up,
)
from peerd.testbed.place import BedRecord, MemberRecord, Place, State, TestbedError
from peerd.testbed.processes import Process, Usage, is_alive, send_signal, usage
from protocols.model.schema import Schema

JOINING_MAX: Final = 12
"""Peers that have been started and are not ready yet. A guess: enough to keep all cores busy, and no stampede."""
START_S: Final = 30.0
"""Patience with the fork server: it imports everything."""
READY_S: Final = 60.0
"""Patience with the next peer that gets ready. Our choice: bootstrap's longest pause six times over."""
LOOK_S: Final = 5.0
LAST_WORDS_S: Final = 5.0
"""From the end of a peer's line until the fork server must have told its end."""
WRITE_EVERY_S: Final = 1.0

Progress: TypeAlias = Callable[[str, float], None]
Heard: TypeAlias = Callable[["Member", Batch], None]


def _silent(phase: str, share: float) -> None: ...


class BedConfig(msgspec.Struct, frozen=True, kw_only=True):
    overlay: str
    peers: int
    schema: Schema
    seed: int = 0
    parameters: dict[str, str] = {}
    settings: tuple[str, ...] = ()
    """Further KEY=VALUE for every peer, as `--set` takes them."""
    bandwidths: tuple[float, ...] = ()
    """Upload budgets, given to the peers in turn; empty: no limits."""
    log_dir: str | None = None
    run_name: str = "testbed"


class Member:
    """A peer process, as the steering side knows it. `index` is its number from 0 on."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.name = f"p{index}"
        self.state: State = "starting"
        self.process = Process(0, "", 0)
        self.peer = self.listen = self.http = ""
        self.reason = ""
        self.line: Line | None = None

    @property
    def living(self) -> bool:
        return self.state in ("starting", "joining", "ready")

    def record(self) -> MemberRecord:
        return MemberRecord(
            name=self.name,
            process=self.process,
            state=self.state,
            peer=self.peer,
            listen=self.listen,
            http=self.http,
        )


class Bed:
    """One testbed. `heard` gets what peers saw, if they are to be watched."""

    def __init__(self, place: Place, config: BedConfig, heard: Heard | None = None) -> None:
        self.place = place
        self.config = config
        self.members: list[Member] = []
        self._heard = heard
        self._rng = Random(f"{config.seed}/testbed")
        self._orders: socket.socket | None = None
        self._server: Process | None = None
        self._spawned: subprocess.Popen[bytes] | None = None
        self._changed = asyncio.Event()
        self._fault: str | None = None
        self._looks: dict[tuple[int, int], asyncio.Future[Looked]] = {}
        self._look = 0
        self._ended = asyncio.Event()
        self._started_at = datetime.now(UTC).isoformat(timespec="seconds")
        self._written = 0.0

    @property
    def living(self) -> list[Member]:
        return [member for member in self.members if member.living]

    # --- up -----------------------------------------------------------------------------------------------------------

    async def up(self, progress: Progress = _silent) -> None:
        """Start everything, and return when all peers stand. `TestbedError` if they do not; nothing is left then."""
        self.place.make()
        clear(self.place)
        try:
            await self._start_server()
            await self._start_members(progress)
        except BaseException:
            await self.down(0.0)
            raise
        self._write()

    async def _start_server(self) -> None:
        ours, theirs = socket.socketpair()
        with theirs, self.place.log.open("wb") as log:
            arguments = str(self.place.directory), str(theirs.fileno())
            self._spawned = subprocess.Popen(  # noqa: ASYNC220 (returns at once)
                (sys.executable, "-m", "peerd.testbed.forkserver", *arguments),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=(theirs.fileno(),),
                start_new_session=True,
                env=_environment(),
            )
        self._orders = ours
        ours.setblocking(False)
        asyncio.get_running_loop().add_reader(ours, self._listen, lines.Unpacker())
        await self._until(lambda: self._server is not None, START_S, "the fork server does not start")
        self._write()

    async def _start_members(self, progress: Progress) -> None:
        self.place.write_schema(self.config.schema)
        count = self.config.peers
        await self._start_member()
        while True:
            ready = self._ready()
            progress("join", ready / count)
            if ready == count:
                return
            while ready and len(self.members) < min(count, ready + JOINING_MAX):
                await self._start_member()
            if monotonic() - self._written > WRITE_EVERY_S:
                self._write()
            complaint = f"{ready} of {count} peers are ready and no other gets so"
            await self._until(partial(self._more_ready, ready), READY_S, complaint)

    def _ready(self) -> int:
        return sum(member.state == "ready" for member in self.members)

    def _more_ready(self, than: int) -> bool:
        return self._ready() > than

    async def _start_member(self) -> None:
        member = Member(len(self.members))
        self.members.append(member)
        ours, theirs = socket.socketpair()
        line = member.line = Line(partial(self._news, member), partial(self._unheard, member))
        await asyncio.get_running_loop().create_unix_connection(lambda: line, sock=ours)
        order = Fork(member.index, self._flags(member), self._heard is not None)
        with theirs:
            self._order(order, theirs.fileno())

    def _flags(self, member: Member) -> dict[str, Any]:
        config = self.config
        flags: dict[str, Any] = {
            "name": member.name,
            "listen": "127.0.0.1:0",
            "http": "127.0.0.1:0",
            "set": [f"{key}={value}" for key, value in config.parameters.items()] + list(config.settings),
        }
        if config.bandwidths:
            flags["bandwidth"] = str(config.bandwidths[member.index % len(config.bandwidths)])
        if config.log_dir is not None:
            flags |= {"log_dir": config.log_dir, "log_run": config.run_name}
        standing = [other for other in self.members if other.state == "ready"]
        if not standing:
            return flags | {"overlay": config.overlay, "swarm": "testbed", "schema": str(self.place.schema)}
        contacts = dict.fromkeys((standing[0].listen, self._rng.choice(standing).listen))
        return flags | {"join": list(contacts)}

    def _order(self, order: lines.Order, *fds: int) -> None:
        """Orders are short and few: there always is room for one."""
        assert self._orders is not None
        try:
            socket.send_fds(self._orders, [lines.pack(order)], list(fds))
        except OSError as error:
            raise TestbedError(f"the fork server does not listen: {error.strerror}") from None

    # --- what is heard ------------------------------------------------------------------------------------------------

    def _listen(self, unpacker: lines.Unpacker) -> None:
        assert self._orders is not None
        try:
            data = self._orders.recv(65_536)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        for message in unpacker.feed(data):
            self._replied(lines.decode_reply(message))
        if not data:
            asyncio.get_running_loop().remove_reader(self._orders)
            self._fault = self._fault or "the fork server has ended"
            self._ended.set()
        self._noted()

    def _replied(self, reply: lines.Reply) -> None:
        if isinstance(reply, Started):
            self._server = reply.process
        elif isinstance(reply, Forked):
            self.members[reply.number].process = reply.process
        elif isinstance(reply, Gone):
            self._gone(self.members[reply.number], reply.status)
        else:
            self._fault = reply.reason

    def _gone(self, member: Member, status: int) -> None:
        if member.living:
            member.state = "ended"
            how = member.reason or (f"exit code {status}" if status >= 0 else f"signal {-status}")
            self._fault = self._fault or f"peer {member.name} has ended by itself: {how}; see {self.place.log}"

    def _news(self, member: Member, data: bytes) -> None:
        news = lines.decode_news(data)
        if isinstance(news, Batch):
            if self._heard is not None:
                self._heard(member, news)
            return
        if isinstance(news, Looked):
            waiter = self._looks.pop((member.index, news.number), None)
            if waiter is not None and not waiter.done():
                waiter.set_result(news)
            return
        if isinstance(news, Up):
            member.peer, member.listen, member.http = news.peer, news.listen, news.http
            member.state = "joining"
        elif isinstance(news, Ready):
            member.state = "ready"
        elif isinstance(news, Failed):
            member.reason = news.reason
        self._noted()

    def _unheard(self, member: Member) -> None:
        """Its line has ended. If it is not about to end itself, nothing can be known of it any more."""
        if member.living and self._orders is not None:
            loop = asyncio.get_running_loop()
            loop.call_later(LAST_WORDS_S, self._missed, member)

    def _missed(self, member: Member) -> None:
        if member.living and self._orders is not None:
            self._fault = self._fault or f"peer {member.name} lives, but does not tell any more what it sees"
            self._noted()

    def _noted(self) -> None:
        self._changed.set()

    async def _until(self, condition: Callable[[], bool], seconds: float, complaint: str) -> None:
        """Wait for a condition; `TestbedError` if it does not come about, or something else goes wrong."""
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while True:
            self._changed.clear()
            self.check()
            if condition():
                return
            try:
                async with asyncio.timeout_at(end):
                    await self._changed.wait()
            except TimeoutError:
                raise TestbedError(f"{complaint} within {seconds:g} s; see {self.place.log}") from None

    def check(self) -> None:
        """`TestbedError` if a process has ended that should not have."""
        if self._fault is not None:
            raise TestbedError(self._fault)

    # --- while it is up -----------------------------------------------------------------------------------------------

    def kill(self, member: Member) -> None:
        """End a peer without a word."""
        member.state = "killed"
        send_signal(member.process, SIGKILL)
        self._write()

    async def look(self, members: Iterable[Member]) -> dict[int, Looked]:
        """How these peers stand; those that do not answer are missing."""
        self._look += 1
        loop = asyncio.get_running_loop()
        waiting: dict[int, asyncio.Future[Looked]] = {}
        for member in members:
            waiter = self._looks[member.index, self._look] = loop.create_future()
            waiting[member.index] = waiter
            assert member.line is not None
            member.line.tell(Look(self._look))
        if waiting:
            await asyncio.wait(waiting.values(), timeout=LOOK_S)
        for index in waiting:
            self._looks.pop((index, self._look), None)
        return {index: waiter.result() for index, waiter in waiting.items() if waiter.done()}

    def usage(self) -> Usage:
        """What all processes of the testbed use together."""
        return total_usage([self._server, *(member.process for member in self.living)])

    def _write(self) -> None:
        assert self._server is not None
        self._written = monotonic()
        members = tuple(member.record() for member in self.members)
        self.place.write(
            BedRecord(overlay=self.config.overlay, server=self._server, started_at=self._started_at, members=members)
        )

    # --- the end ------------------------------------------------------------------------------------------------------

    def let_go(self) -> None:
        """Leave the testbed up. Nothing can be asked of it through this object any more."""
        self._order(LetGo())
        self._close()

    async def down(self, patience_s: float = PATIENCE_S) -> None:
        """End everything: peers leave, and those that take too long are killed."""
        if self._spawned is None:
            return
        if self._orders is not None:
            with suppress(TestbedError):
                self._order(End(patience_s))
            with suppress(TimeoutError):
                async with asyncio.timeout(patience_s + START_S):
                    await self._ended.wait()
        self._close()
        spawned, self._spawned = self._spawned, None
        spawned.kill()  # our own child, and not reaped yet: no other process has its number
        spawned.wait()
        kill_all(member.process for member in self.members)
        self.place.forget()

    def _close(self) -> None:
        if self._orders is not None:
            asyncio.get_running_loop().remove_reader(self._orders)
            self._orders.close()
            self._orders = None
        for member in self.members:
            if member.line is not None:
                member.line.close()


def _environment() -> dict[str, str]:
    """The fork server imports the same peerd as this process, wherever it was started."""
    here = str(Path(peerd.__file__).parents[1])
    former = os.environ.get("PYTHONPATH")
    return {**os.environ, "PYTHONPATH": here if not former else f"{here}{os.pathsep}{former}"}


def total_usage(processes: Iterable[Process | None]) -> Usage:
    found = [each for process in processes if process is not None and (each := usage(process)) is not None]
    return Usage(sum(each.memory_bytes for each in found), sum(each.cpu_s for each in found))


def kill_all(processes: Iterable[Process]) -> int:
    """Kill those of these very processes that still live; how many there were."""
    return sum(send_signal(process, SIGKILL) for process in processes if process.started)


# --- What other commands left -----------------------------------------------------------------------------------------


def clear(place: Place) -> bool:
    """Remove what is left of a testbed that was not taken down; `TestbedError` if there is one that lives."""
    lock = place.lock()
    if lock is None:
        raise TestbedError(f"a testbed is up in {place.directory} already; 'peerd testbed down' ends it")
    try:
        record = place.read()
        if record is not None:
            kill_all((record.server, *(member.process for member in record.members)))
            place.forget()
        return record is not None
    finally:
        os.close(lock)


async def take_down(place: Place, patience_s: float = PATIENCE_S) -> int | None:
    """End the testbed in that place, whoever has started it; how many peers it had, None if there was none."""
    record = place.read()
    if record is None:
        return None
    if send_signal(record.server, SIGTERM):
        end = monotonic() + patience_s + START_S
        while is_alive(record.server) and monotonic() < end:  # noqa: ASYNC110 (not our child: nobody tells us)
            await asyncio.sleep(0.05)
    kill_all((record.server, *(member.process for member in record.members)))
    place.forget()
    return len(record.members)
