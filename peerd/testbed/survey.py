"""How a testbed is, seen from outside: its processes by what the system says, its peers by what they answer."""

import asyncio
from time import monotonic
from typing import Final, Literal, TypeAlias

import aiohttp
import msgspec

from peerd.testbed.bed import total_usage
from peerd.testbed.place import MemberRecord, Place
from peerd.testbed.processes import is_alive

ANSWER_S: Final = 5.0
AT_ONCE: Final = 32
INTERVAL_S: Final = 1.0
"""Over which the share of a core is measured."""

Condition: TypeAlias = Literal["ready", "joining", "silent", "gone", "killed"]


class PeerSeen(msgspec.Struct, frozen=True):
    """`silent`: it lives and does not answer. `gone`: its process has ended; `killed`: by the testbed itself."""

    name: str
    peer: str
    pid: int
    condition: Condition
    listen: str
    http: str


class Survey(msgspec.Struct, frozen=True, kw_only=True):
    directory: str
    overlay: str
    started_at: str
    server_pid: int
    server_lives: bool
    peers: list[PeerSeen]
    conditions: dict[str, int]
    memory_mb: float
    """Of all processes together; what they share counts once."""
    cpu_s: float
    cpu_share: float
    """Of one core, over the last second."""


async def survey(place: Place) -> Survey | None:
    """None if there is no testbed."""
    record = place.read()
    if record is None:
        return None
    processes = [record.server, *(member.process for member in record.members)]
    gate = asyncio.Semaphore(AT_ONCE)
    async with aiohttp.ClientSession(timeout=aiohttp.ClientTimeout(total=ANSWER_S)) as session:
        conditions = await asyncio.gather(*(_condition(session, gate, member) for member in record.members))
    before, began = total_usage(processes), monotonic()  # not before: questions cost time, too
    await asyncio.sleep(INTERVAL_S)
    after, seconds = total_usage(processes), monotonic() - began
    seen = [
        PeerSeen(member.name, member.peer, member.process.pid, condition, member.listen, member.http)
        for member, condition in zip(record.members, conditions)
    ]
    return Survey(
        directory=str(place.directory),
        overlay=record.overlay,
        started_at=record.started_at,
        server_pid=record.server.pid,
        server_lives=is_alive(record.server),
        peers=seen,
        conditions={key: conditions.count(key) for key in dict.fromkeys(conditions)},
        memory_mb=round(after.memory_bytes / 2**20, 1),
        cpu_s=round(after.cpu_s, 2),
        cpu_share=round(max(0.0, after.cpu_s - before.cpu_s) / seconds, 3),
    )


async def _condition(session: aiohttp.ClientSession, gate: asyncio.Semaphore, member: MemberRecord) -> Condition:
    if member.state == "killed":
        return "killed"
    if not is_alive(member.process):
        return "gone"
    try:
        async with gate, session.get(f"http://{member.http}/readyz") as response:
            return "ready" if response.status == 200 else "joining"
    except (aiohttp.ClientError, TimeoutError, ValueError):
        return "silent"
