"""Subscriptions over HTTP."""

import asyncio
from typing import Any

import pytest

from peerd.api import ApiConfig
from peerd.service import ServiceConfig
from tests.support.http import Site
from tests.support.waiting import until


async def test_subscribing_answers_when_the_subscription_stands(sites: Site) -> None:
    answer = await sites.post("/v1/subscriptions", {"filter": "symbol = 'OTE' AND price BETWEEN 8.31 AND 8.69"})
    assert answer.status == 201
    shown = answer.json
    assert answer.headers["Location"] == f"/v1/subscriptions/{shown['id']}"
    assert shown["state"] == "active"
    assert shown["filter"] == "symbol = 'OTE' AND price BETWEEN 8.31 AND 8.69"
    assert shown["boxes"] == [{"symbol": {"eq": "OTE"}, "price": {"ge": 8.31, "le": 8.69}}]
    assert shown["warnings"] == []
    assert (await sites.get(answer.headers["Location"])).json == shown
    assert (await sites.get("/v1/subscriptions")).json == {"subscriptions": [shown]}


async def test_waiting_is_bounded_by_the_caller() -> None:
    async with Site(join=False) as site:
        for wait in ("0", "0.05"):
            answer = await site.post(f"/v1/subscriptions?wait={wait}", {"filter": "TRUE"})
            assert (answer.status, answer.json["state"]) == (201, "joining")
        waiting = asyncio.create_task(site.post("/v1/subscriptions", {"filter": "TRUE"}))
        await until(lambda: len(site.peers[0].service.subscriptions) == 3)
        site.swarm.join(site.peers[0])
        assert (await waiting).json["state"] == "active"


async def test_put_creates_under_a_name_and_then_changes(site: Site) -> None:
    made = await site.put("/v1/subscriptions/mine", {"filter": "price > 8", "retain_s": 5, "idle_s": None})
    assert (made.status, made.headers["Location"]) == (201, "/v1/subscriptions/mine")
    changed = await site.put("/v1/subscriptions/mine", {"filter": "price > 9"})
    assert (changed.status, changed.json["filter"], changed.json["state"]) == (200, "price > 9", "active")
    assert (changed.json["retain_s"], changed.json["idle_s"]) == (5, None)


async def test_a_change_leaves_no_gap_in_delivery(sites: Site) -> None:
    await sites.put("/v1/subscriptions/mine", {"filter": "price > 8"})
    ids = []
    for lower in (7, 6, 5):
        ids.append(await sites.publish(9, to=1))
        change = asyncio.create_task(sites.put("/v1/subscriptions/mine", {"filter": f"price > {lower}"}))
        ids += [await sites.publish(9, to=1) for _ in range(3)]
        assert (await change).status == 200
    await until(lambda: sites.peers[0].service.subscriptions.shown("mine").retained >= len(ids))
    found = (await sites.get("/v1/subscriptions/mine/deliveries")).json["deliveries"]
    assert sorted(each["event_id"] for each in found) == sorted(ids)


async def test_delete_removes(site: Site) -> None:
    await site.put("/v1/subscriptions/mine", {"filter": "TRUE"})
    answer = await site.ask("DELETE", "/v1/subscriptions/mine")
    assert (answer.status, answer.body) == (204, b"")
    for method in ("GET", "DELETE"):
        assert (await site.ask(method, "/v1/subscriptions/mine")).slug == "unknown-subscription"


@pytest.mark.parametrize(
    ("document", "slug", "position"),
    [
        ({"filter": "price >"}, "invalid-filter", 7),
        ({"filter": ""}, "invalid-filter", 0),
        ({"filter": "volume = 1"}, "invalid-filter", 0),
        ({"filter": "symbol = 1"}, "invalid-filter", 9),
        ({"filter": "price > 8 AND price < 7"}, "invalid-filter", 14),
        ({"filter": "price > low"}, "invalid-filter", 8),
        ({"filter": "symbol LIKE '%x'"}, "invalid-filter", 12),
        ({"filter": "x" * 20_000}, "invalid-filter", 16_384),
        ({"filter": "(" * 5_000}, "invalid-filter", None),
        ({"filter": 1}, "invalid-subscription", None),
        ({}, "invalid-subscription", None),
        ([], "invalid-subscription", None),
        ({"xpath": "/stock"}, "invalid-subscription", None),
        ({"filter": "TRUE", "retain_s": -1}, "invalid-subscription", None),
        ({"filter": "TRUE", "retain_max": 0}, "invalid-subscription", None),
        ({"filter": "TRUE", "retain_max": 1.5}, "invalid-subscription", None),
        ({"filter": "TRUE", "idle_s": "for ever"}, "invalid-subscription", None),
    ],
    ids=lambda value: repr(value)[:40],
)
async def test_wrong_subscriptions_are_422(site: Site, document: Any, slug: str, position: int | None) -> None:
    for answer in (
        await site.post("/v1/subscriptions", document),
        await site.put("/v1/subscriptions/mine", document),
    ):
        assert (answer.status, answer.slug) == (422, slug)
        if position is not None:
            assert answer.json["position"] == position
    assert len(site.peers[0].service.subscriptions) == 0


@pytest.mark.parametrize("id_", ["a%20b", "%23", "x" * 65, "-a", "%C3%A4", "."])
async def test_wrong_names_are_refused(site: Site, id_: str) -> None:
    answer = await site.put(f"/v1/subscriptions/{id_}", {"filter": "TRUE"})
    assert answer.slug in ("invalid-subscription", "not-found", "method-not-allowed")


@pytest.mark.parametrize("wait", ["-1", "x", "", "nan", "inf", "61", "1e99"])
async def test_wrong_waits_are_refused(site: Site, wait: str) -> None:
    assert (await site.post(f"/v1/subscriptions?wait={wait}", {"filter": "TRUE"})).slug == "invalid-parameter"


async def test_only_so_many_subscriptions() -> None:
    async with Site(service=ServiceConfig(subscriptions_max=1)) as site:
        await site.post("/v1/subscriptions", {"filter": "TRUE"})
        answer = await site.post("/v1/subscriptions", {"filter": "TRUE"})
        assert (answer.status, answer.slug) == (429, "too-many-subscriptions")


async def test_unknown_fields_are_ignored(site: Site) -> None:
    assert (await site.post("/v1/subscriptions", {"filter": "TRUE", "later": 1})).status == 201


@pytest.mark.parametrize("path", ["/v1/subscriptions", "/v1/events", "/v1/schema"])
@pytest.mark.parametrize(
    "raw",
    [b"", b"{", b"nonsense", b"\xff\xfe", b'{"filter": "\xff"}', b'{"price": NaN}', b"{} {}"],
    ids=lambda raw: repr(raw[:10]),
)
async def test_what_is_not_json_is_400(site: Site, path: str, raw: bytes) -> None:
    answer = await site.post(path, raw=raw)
    assert (answer.status, answer.slug) == (400, "not-json")


@pytest.mark.parametrize("path", ["/v1/subscriptions", "/v1/events", "/v1/schema"])
@pytest.mark.parametrize("end", [b"", b"]" * 20_000], ids=["open", "closed"])
async def test_what_is_nested_beyond_measure_is_not_read_to_its_end(site: Site, path: str, end: bytes) -> None:
    answer = await site.post(path, raw=b"[" * 20_000 + end)
    assert answer.status == 422
    assert answer.slug.startswith("invalid-")


@pytest.mark.parametrize("path", ["/v1/subscriptions", "/v1/events", "/v1/schema"])
@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "nonsense", ""])
async def test_other_content_types_are_415(site: Site, path: str, content_type: str) -> None:
    answer = await site.post(path, {"filter": "TRUE"}, content_type=content_type)
    assert (answer.status, answer.slug) == (415, "unsupported-media-type")


async def test_a_charset_is_no_other_content_type(site: Site) -> None:
    answer = await site.post("/v1/subscriptions", {"filter": "TRUE"}, content_type="application/json; charset=utf-8")
    assert answer.status == 201


async def test_huge_bodies_are_413() -> None:
    async with Site(config=ApiConfig(body_bytes_max=1000)) as site:
        for path in ("/v1/subscriptions", "/v1/events"):
            answer = await site.post(path, {"filter": "x" * 1000})
            assert (answer.status, answer.slug) == (413, "body-too-large")
