"""Endpoints as people write them."""

import asyncio
import socket
from typing import Any

import pytest

from peerd.net import is_own, join_endpoint, local_host_towards, others, resolve, split_endpoint


@pytest.mark.parametrize(
    ("at", "host", "port"),
    [
        ("127.0.0.1:6470", "127.0.0.1", 6470),
        ("[::1]:6470", "::1", 6470),
        ("seed.example.org:0", "seed.example.org", 0),
        (":6470", "", 6470),
        ("h:65535", "h", 65535),
    ],
)
def test_split_and_join(at: str, host: str, port: int) -> None:
    assert split_endpoint(at) == (host, port)
    assert join_endpoint(host, port) == at


@pytest.mark.parametrize(
    ("at", "text"),
    [
        ("localhost", "has no port"),
        ("", "has no port"),
        ("::1:6470", "in brackets"),
        ("[host]:1", "brackets are for IPv6"),
        ("host:", "a port is a number"),
        ("host:http", "a port is a number"),
        ("host:65536", "a port is a number"),
        ("host:-1", "a port is a number"),
        ("host:\u0661", "a port is a number"),
        ("host:" + "9" * 5000, "a port is a number"),
        ("a b:1", "not the name"),
        ("a\n:1", "not the name"),
        ("x" * 300 + ":1", "not the name"),
    ],
)
def test_malformed_endpoints(at: str, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        split_endpoint(at)


async def test_addresses_stand_for_themselves_without_a_look_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", None)
    assert await resolve("192.0.2.1:6470") == ["192.0.2.1:6470"]
    assert await resolve("[2001:db8::1]:6470") == ["[2001:db8::1]:6470"]


async def test_a_name_stands_for_all_its_addresses(monkeypatch: pytest.MonkeyPatch) -> None:
    async def found(host: str, port: int, **kwargs: Any) -> list[Any]:
        return [(0, 0, 0, "", (ip, port)) for ip in ("192.0.2.1", "2001:db8::1", "192.0.2.1")]

    monkeypatch.setattr(asyncio.get_running_loop(), "getaddrinfo", found)
    assert await resolve("seed.test:1") == ["192.0.2.1:1", "[2001:db8::1]:1"]


async def test_names_that_are_none() -> None:
    with pytest.raises(OSError, match=r"the name no-such-host\.invalid is not known"):
        await resolve("no-such-host.invalid:1")
    with pytest.raises(OSError, match="is not known"):
        await resolve(".." + "x" * 70 + ":1")
    with pytest.raises(ValueError, match="has no host"):
        await resolve(":1")


def test_which_endpoint_is_ones_own() -> None:
    assert is_own("127.0.0.1:6470", ("127.0.0.1", 6470))
    assert not is_own("127.0.0.2:6470", ("127.0.0.1", 6470))
    assert not is_own("127.0.0.1:6471", ("127.0.0.1", 6470))
    assert is_own("127.0.0.1:6470", ("0.0.0.0", 6470))
    assert not is_own("192.0.2.1:6470", ("0.0.0.0", 6470))
    assert others(["192.0.2.1:1", "127.0.0.1:1"], ("0.0.0.0", 1)) == ["192.0.2.1:1"]


async def test_the_own_address_as_a_contact_sees_it() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert await local_host_towards(f"127.0.0.1:{server.getsockname()[1]}") == "127.0.0.1"
