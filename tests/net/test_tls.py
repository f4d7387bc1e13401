"""Peers of a swarm with an authority: they talk to each other, and to nobody else."""

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from peerd.certificates import expires, issue, make_authority
from peerd.net import NetError, inquire, tls
from tests.net.support import Node, event, note, until


@pytest.fixture(scope="module")
def swarm(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with an authority and two of its peers, and a stranger with an authority of its own."""
    place = tmp_path_factory.mktemp("tls")
    make_authority(place / "authority", "test")
    make_authority(place / "other", "test")
    issue(place / "authority", place / "a", "a")
    issue(place / "authority", place / "b", "b")
    issue(place / "other", place / "stranger", "stranger")
    return place


async def listening(peer: str, **kwargs: Any) -> Node:
    node = Node(peer, **kwargs)
    await node.listen()
    return node


async def test_members_talk(swarm: Path) -> None:
    a = await listening("a", tls=tls.load(swarm / "a"))
    b = await listening("b", tls=tls.load(swarm / "b"))
    try:
        a.network.send(0, (b.address(0),), note(1))
        for number in range(200):  # more than one TLS record
            a.network.send(0, (b.address(0),), event(number, 1_000))
        await until(lambda: len(b.told.events()) == 200)
        b.network.send(0, (a.address(0),), note(2))
        await until(lambda: a.told.numbers() == [2])
        assert (b.told.numbers(), b.told.events()) == ([1], list(range(200)))
        assert (a.network.stats().connections, b.network.stats().connections) == (1, 1)
        found = await inquire(b.at, tls=tls.load(swarm / "a"))
        assert found.peer == "b"
    finally:
        await a.network.close()
        await b.network.close()
    assert a.told.undelivered_ == []


@pytest.mark.parametrize("side", ["dials", "is dialled"])
async def test_a_stranger_gets_nowhere(swarm: Path, side: str) -> None:
    member = await listening("a", tls=tls.load(swarm / "a"))
    stranger = await listening("s", tls=tls.load(swarm / "stranger"))
    dialler, dialled = (stranger, member) if side == "dials" else (member, stranger)
    try:
        dialler.network.send(0, (dialled.address(0),), note(1))
        await until(lambda: dialler.told.returned() != [])
        assert dialler.told.returned() == [(1, False)]
        with pytest.raises(NetError, match=r"does not vouch for|closed the connection"):
            await inquire(dialled.at, 2.0, tls.load(swarm / ("stranger" if side == "dials" else "a")))
    finally:
        await member.network.close()
        await stranger.network.close()
    for node in (member, stranger):
        assert (node.told.received_, node.told.greeted_) == ([], [])


async def test_one_with_and_one_without(swarm: Path) -> None:
    closed, plain = await listening("a", tls=tls.load(swarm / "a")), await listening("p")
    try:
        with pytest.raises(NetError, match="does not speak TLS: start it with --tls, or this peer without"):
            await inquire(plain.at, 2.0, tls.load(swarm / "a"))
        with pytest.raises(NetError, match="is not a peerd peer that can be joined"):
            await inquire(closed.at, 2.0)
    finally:
        await closed.network.close()
        await plain.network.close()
    assert closed.told.greeted_ == []


def test_what_is_wrong_with_a_directory_is_said(swarm: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"swarm.pem: no such file or directory; 'peerd tls issue'"):
        tls.load(tmp_path)
    for name in ("swarm.pem", "peer.pem", "peer.key"):
        (tmp_path / name).write_bytes((swarm / "a" / name).read_bytes())
    tls.load(tmp_path)
    (tmp_path / "peer.key").write_bytes((swarm / "b" / "peer.key").read_bytes())
    with pytest.raises(ValueError, match=r"its certificates are of no use \(key values mismatch\)"):
        tls.load(tmp_path)


def test_keys_are_private_and_never_overwritten(swarm: Path, tmp_path: Path) -> None:
    for key in (swarm / "authority" / "swarm.key", swarm / "a" / "peer.key"):
        assert key.stat().st_mode & 0o777 == 0o600
    with pytest.raises(ValueError, match="holds an authority already"):
        make_authority(swarm / "authority", "again")
    with pytest.raises(ValueError, match="holds a peer's key already"):
        issue(swarm / "authority", swarm / "a", "again")
    with pytest.raises(ValueError, match="holds no authority; 'peerd tls new"):
        issue(tmp_path, tmp_path / "peer", "p")


def test_a_certificate_ends(swarm: Path) -> None:
    left = expires(swarm / "a") - datetime.now(UTC)
    assert timedelta(days=396) < left <= timedelta(days=397)
