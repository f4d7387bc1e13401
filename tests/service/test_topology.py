"""A picture of the overlay, made by asking from peer to peer."""

import asyncio

from peerd.service import ServiceConfig
from peerd.service.crawl import Crawler
from protocols.model.ids import PEER_SLOT, Address
from protocols.overlay import LinksShown
from tests.support.memory import MemorySwarm
from tests.support.waiting import until


def at(number: int) -> Address:
    return Address(f"{number:08x}", 1, PEER_SLOT, f"h:{number}")


class Line:
    """Peers in a line: each is linked with the next one only. Some are silent."""

    def __init__(self, length: int, silent: tuple[int, ...] = ()) -> None:
        self.length = length
        self.silent = silent
        self.under_way = 0
        self.most = 0
        self.crawler = Crawler(self.ask)

    def links(self, number: int) -> tuple[tuple[int, str, Address], ...]:
        return ((0, "next", at(number + 1)),) if number < self.length else ()

    def ask(self, to: Address, req_id: int) -> None:
        number = int(to.peer, 16)
        self.under_way += 1
        self.most = max(self.most, self.under_way)
        if number not in self.silent:
            asyncio.get_running_loop().call_soon(self._answer, number, req_id)

    def _answer(self, number: int, req_id: int) -> None:
        self.under_way -= 1
        self.crawler.shown(LinksShown(at(99), req_id, "a liar", ()))
        self.crawler.shown(LinksShown(at(number), req_id, f"n{number}", self.links(number)))


async def test_the_whole_overlay_is_found(swarm: MemorySwarm) -> None:
    await until(lambda: all(len(living.service.links().links.get("random", ())) == 2 for living in swarm.peers))
    picture = await swarm.peers[0].service.topology(100)
    assert picture.complete
    assert {(node.id, node.name) for node in picture.nodes} == {(f"{n:08x}", f"peer-{n}") for n in (1, 2, 3)}
    assert len(picture.links) == 6
    assert {link.kind for link in picture.links} == {"random"}


async def test_a_chain_is_followed_to_its_end() -> None:
    line = Line(50)
    picture = await line.crawler.run(at(1), "n1", line.links(1), 100)
    assert picture.complete
    assert [node.name for node in picture.nodes] == [f"n{n}" for n in range(1, 51)]
    assert not line.crawler._crawls


async def test_a_limit_makes_the_picture_incomplete() -> None:
    line = Line(50)
    picture = await line.crawler.run(at(1), "n1", line.links(1), 10)
    assert len(picture.nodes) == 10
    assert len(picture.links) == 9
    assert not picture.complete


async def test_who_does_not_answer_is_shown_so_and_costs_bounded_time() -> None:
    line = Line(50, silent=(5,))
    picture = await line.crawler.run(at(1), "n1", line.links(1), 100, seconds=0.05)
    assert [node.answered for node in picture.nodes] == [True] * 4 + [False]
    assert not picture.complete
    assert not line.crawler._crawls


async def test_only_so_many_are_asked_at_a_time() -> None:
    line = Line(1)
    star = tuple((0, "ray", at(number)) for number in range(2, 200))
    await line.crawler.run(at(1), "n1", star, 1000)
    assert line.most == 16


async def test_who_asks_meanwhile_gets_the_same_picture() -> None:
    swarm = MemorySwarm()
    for _ in range(3):
        swarm.add(ServiceConfig(topology_s=0.2))
    await swarm.ready()
    swarm.network.cut.add("memory:3")
    service = swarm.peers[0].service
    first, second = await asyncio.gather(service.topology(10), service.topology(10))
    assert first is second
    swarm.close()
