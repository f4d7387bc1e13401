"""A picture of the overlay, made by asking from peer to peer, breadth first.

Bounded in every direction: peers and links that are shown, questions under way at a time, patience with one answer and
with all of them. What did not fit or did not answer makes the picture incomplete, and it says so.

One crawl is one task; questions are not. An answer is matched with its question by number and by who sent it.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from itertools import count
from typing import Final, TypeAlias

from peerd.documents import Topology, TopologyLink, TopologyNode
from protocols.model.ids import Address, PeerId, of_peer
from protocols.overlay import LinksShown

CONCURRENCY: Final = 16
"""Questions under way at a time. A guess: 5 s are enough for 1,000 peers at 50 ms each."""
ANSWER_S: Final = 2.0
"""Patience with one peer: as long as a full link is given (design)."""
LINKS_MAX: Final = 50_000
"""Links in one picture. A guess: 1,000 peers with 50 each."""

LinkTuple: TypeAlias = tuple[int, str, Address]


class Crawler:
    """Runs crawls for one peer. `ask` puts a question to a peer; `shown` must be told every answer."""

    def __init__(self, ask: Callable[[Address, int], None]) -> None:
        self._ask = ask
        self._numbers = count(1)
        self._crawls: dict[int, _Crawl] = {}

    def shown(self, answer: LinksShown) -> None:
        crawl = self._crawls.get(answer.req_id)
        if crawl is not None and crawl.answered(answer):
            del self._crawls[answer.req_id]

    async def run(self, me: Address, name: str, own: Iterable[LinkTuple], limit: int, seconds: float = 5.0) -> Topology:
        crawl = _Crawl(limit)
        crawl.begin(me, name, own)
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        try:
            while crawl.unfinished and (now := loop.time()) < end:
                for number in crawl.give_up(now):
                    del self._crawls[number]
                while (address := crawl.next_to_ask()) is not None:
                    number = next(self._numbers)
                    self._crawls[number] = crawl
                    crawl.asked[number] = address, now + ANSWER_S
                    self._ask(address, number)
                await crawl.news(min([end, *(deadline for _, deadline in crawl.asked.values())]) - loop.time())
        finally:
            for number in crawl.asked:
                del self._crawls[number]
        return crawl.picture()


class _Crawl:
    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._nodes: dict[PeerId, TopologyNode] = {}
        self._links: list[TopologyLink] = []
        self._waiting: deque[Address] = deque()
        self._complete = True
        self._event = asyncio.Event()
        self.asked: dict[int, tuple[Address, float]] = {}

    @property
    def unfinished(self) -> bool:
        return bool(self._waiting or self.asked)

    def begin(self, me: Address, name: str, own: Iterable[LinkTuple]) -> None:
        self._nodes[me.peer] = TopologyNode(me.peer, name, me.boot, me.at, True)
        self._add(me, own)

    def next_to_ask(self) -> Address | None:
        if not self._waiting or len(self.asked) >= CONCURRENCY:
            return None
        return self._waiting.popleft()

    def give_up(self, now: float) -> list[int]:
        """Expect no answer any more to questions whose time is over: these."""
        over = [number for number, (_, deadline) in self.asked.items() if deadline <= now]
        for number in over:
            del self.asked[number]
        return over

    def answered(self, answer: LinksShown) -> bool:
        """Take an answer, if it comes from who was asked."""
        if self.asked[answer.req_id][0].peer != answer.sender.peer:
            return False
        del self.asked[answer.req_id]
        sender = answer.sender
        self._nodes[sender.peer] = TopologyNode(sender.peer, answer.name, sender.boot, sender.at, True)
        self._add(sender, answer.links)
        self._event.set()
        return True

    async def news(self, seconds: float) -> None:
        """Wait for an answer, at most so long."""
        if self.asked and seconds > 0:
            try:
                async with asyncio.timeout(seconds):
                    await self._event.wait()
            except TimeoutError:
                pass
        self._event.clear()

    def _add(self, source: Address, links: Iterable[LinkTuple]) -> None:
        for slot, kind, to in links:
            if not to.peer or not self._room_for(to) or len(self._links) >= LINKS_MAX:
                self._complete = False
                continue
            self._links.append(TopologyLink(source.peer, slot, to.peer, to.slot, kind))

    def _room_for(self, address: Address) -> bool:
        if address.peer not in self._nodes:
            if len(self._nodes) >= self._limit:
                return False
            self._nodes[address.peer] = TopologyNode(address.peer, "", address.boot, address.at, False)
            self._waiting.append(of_peer(address))
        return True

    def picture(self) -> Topology:
        nodes = list(self._nodes.values())
        return Topology(nodes, self._links, self._complete and all(node.answered for node in nodes))
