"""Publishing over HTTP."""

import asyncio
from typing import Any

import msgspec
import pytest

from peerd.api import ApiConfig
from peerd.service import ServiceConfig
from tests.support.http import Answer, Site
from tests.support.waiting import until

NDJSON = "application/x-ndjson"
CE = "application/cloudevents+json"


def lines(*documents: Any) -> bytes:
    return b"\n".join(msgspec.json.encode(document) for document in documents)


def quote(price: Any, **more: Any) -> dict[str, Any]:
    return {"attributes": {"price": price}, **more}


async def subscribe(site: Site, filter_: str = "TRUE") -> None:
    assert (await site.put("/v1/subscriptions/mine", {"filter": filter_})).status == 201


async def deliveries(site: Site, count: int, **more: Any) -> list[Any]:
    await until(lambda: site.peers[0].service.subscriptions.shown("mine").retained >= count)
    answer = await site.get("/v1/subscriptions/mine/deliveries", **more)
    found = answer.json
    return list(found["deliveries"] if isinstance(found, dict) else found)


async def test_an_event_is_accepted_and_delivered(sites: Site) -> None:
    await subscribe(sites, "price > 8")
    event = quote(9.5, payload={"a": [1, None]}, content_type="text/x", headers={"k": "v"}, ttl_s=30)
    answer = await sites.post("/v1/events", event, to=2)
    assert answer.status == 202
    (found,) = await deliveries(sites, 1)
    assert found["event_id"] == answer.json["id"]
    assert found["subscription_id"] == "mine"
    assert found["attributes"] == {"price": 9.5}
    assert (found["payload"], found["content_type"], found["headers"]) == ({"a": [1, None]}, "text/x", {"k": "v"})
    assert (found["publisher"], found["sequence"], found["hops"] >= 1) == ("00000003", 1, True)
    for key in ("published_at", "delivered_at"):
        assert len(found[key]) == len("2026-01-01T00:00:00.000000Z")
        assert found[key].endswith("Z")


async def test_bytes_come_back_as_bytes(site: Site) -> None:
    await subscribe(site)
    await site.post("/v1/events", quote(1, payload_base64="AAEC"))
    (found,) = await deliveries(site, 1)
    assert (found["payload"], found["payload_base64"]) == (None, "AAEC")


async def test_a_repeated_id_is_200_with_the_first_answer(site: Site) -> None:
    await subscribe(site)
    first = await site.post("/v1/events", quote(1, id="once"))
    again = await site.post("/v1/events", quote(2, id="once"))
    assert (first.status, again.status) == (202, 200)
    assert first.json == again.json
    await site.publish(3)
    found = await deliveries(site, 2)
    assert [each["attributes"]["price"] for each in found] == [1, 3]


@pytest.mark.parametrize(
    "event",
    [
        {},
        [],
        1,
        {"attributes": 1},
        {"attributes": {"price": []}},
        {"attributes": {"unknown": 1}},
        {"attributes": {"price": "1"}},
        {"attributes": {"symbol": "x" * 1025}},
        {"attributes": {"price": 2**53}},
        {"attributes": {f"a{n}": 1 for n in range(33)}},
        quote(1, payload=1, payload_base64="AAAA"),
        quote(1, payload_base64="?"),
        quote(1, ttl_s=0),
        quote(1, ttl_s=61),
        quote(1, ttl_s="1"),
        quote(1, headers={"a": 1}),
        quote(1, headers=[]),
        quote(1, id=""),
        quote(1, id=5),
        quote(1, id="x" * 257),
        quote(1, content_type=7),
        quote(1, payload=2**70),
    ],
    ids=lambda value: repr(value)[:40],
)
async def test_wrong_events_are_422(site: Site, event: Any) -> None:
    answer = await site.post("/v1/events", event)
    assert (answer.status, answer.slug) == (422, "invalid-event")


async def test_a_number_out_of_range_is_refused(site: Site) -> None:
    answer = await site.post("/v1/events", raw=b'{"attributes": {"price": 1e999}}')
    assert (answer.status, answer.slug) == (422, "invalid-event")


@pytest.mark.parametrize("depth", [65, 100_000])
async def test_a_payload_beyond_measure_is_json_but_no_event(site: Site, depth: int) -> None:
    payload = b"[" * depth + b"]" * depth
    answer = await site.post("/v1/events", raw=b'{"attributes": {"price": 1}, "payload": ' + payload + b"}")
    assert (answer.status, answer.slug) == (422, "invalid-event")
    assert "nested" in answer.json["detail"]


async def test_a_large_event_is_413(site: Site) -> None:
    answer = await site.post("/v1/events", quote(1, payload="x" * 66_000))
    assert (answer.status, answer.slug) == (413, "event-too-large")


async def test_who_has_not_joined_is_503() -> None:
    async with Site(join=False) as site:
        answer = await site.post("/v1/events", quote(1))
        assert (answer.status, answer.slug) == (503, "not-joined")


async def test_who_is_too_fast_is_429() -> None:
    async with Site(service=ServiceConfig(publish_rate=0.1, publish_burst=2)) as site:
        for _ in range(2):
            await site.publish(1)
        answer = await site.post("/v1/events", quote(1))
        assert (answer.status, answer.slug) == (429, "pushed-back")
        assert int(answer.headers["Retry-After"]) >= answer.json["retry_after"] > 1


async def test_ids_beyond_those_that_can_be_remembered_are_429() -> None:
    async with Site(service=ServiceConfig(ids_max=2)) as site:
        first, _ = [await site.post("/v1/events", quote(1, id=id_)) for id_ in "ab"]
        answer = await site.post("/v1/events", quote(1, id="c"))
        assert (answer.status, answer.slug) == (429, "pushed-back")
        assert 120 < answer.json["retry_after"] <= 130
        assert (await site.post("/v1/events", quote(1))).status == 202, "an event without an id needs no room"
        again = await site.post("/v1/events", quote(1, id="a"))
        assert (again.status, again.json) == (200, first.json)


# --- lines ------------------------------------------------------------------------------------------------------------


async def test_lines_are_taken_in_order(site: Site) -> None:
    await subscribe(site)
    raw = b"\n" + lines(quote(1), quote(2, id="a"), quote(3, id="a")) + b"\n\r\n" + lines(quote(4))
    answer = await site.post("/v1/events", raw=raw, content_type=NDJSON)
    assert (answer.status, answer.json["accepted"]) == (202, 4)
    ids = answer.json["ids"]
    assert ids[1] == ids[2]
    found = await deliveries(site, 3)
    assert [each["event_id"] for each in found] == [ids[0], ids[1], ids[3]]


@pytest.mark.parametrize(
    ("bad", "status", "slug"),
    [
        (b"nonsense", 400, "not-json"),
        (b'{"attributes": {"price": "x"}}', 422, "invalid-event"),
        (lines(quote(1, payload="x" * 66_000)), 413, "event-too-large"),
    ],
)
async def test_lines_stop_at_the_first_refused(site: Site, bad: bytes, status: int, slug: str) -> None:
    await subscribe(site)
    raw = lines(quote(1)) + b"\n\n" + lines(quote(2)) + b"\n" + bad + b"\n" + lines(quote(3))
    answer = await site.post("/v1/events", raw=raw, content_type=NDJSON)
    assert (answer.status, answer.slug) == (status, slug)
    assert (answer.json["line"], answer.json["accepted"]) == (4, 2)
    found = await deliveries(site, 2)
    assert [each["event_id"] for each in found] == answer.json["ids"]


async def test_lines_that_are_too_fast_say_how_far_they_came() -> None:
    async with Site(service=ServiceConfig(publish_rate=0.1, publish_burst=3)) as site:
        answer = await site.post("/v1/events", raw=lines(*map(quote, range(9))), content_type=NDJSON)
        assert (answer.slug, answer.json["line"], answer.json["accepted"]) == ("pushed-back", 4, 3)


async def test_lines_have_limits() -> None:
    config = ApiConfig(body_bytes_max=1_000, batch_bytes_max=3_000, batch_lines_max=20)
    async with Site(config=config) as site:

        async def refused(raw: bytes) -> Answer:
            answer = await site.post("/v1/events", raw=raw, content_type=NDJSON)
            assert answer.slug == "body-too-large"
            return answer

        async def stops_at(raw: bytes) -> tuple[int, int]:
            problem = (await refused(raw)).json
            return problem["line"], problem["accepted"]

        assert await stops_at(b"x" * 1_500) == (1, 0)
        assert await stops_at(lines(quote(1)) + b"\n\n" + lines(quote(1)) + b"\n" + b"x" * 1_500) == (4, 2)
        assert await stops_at(lines(*[quote(1)] * 21)) == (21, 20)
        line, accepted = await stops_at(b"\n".join([lines(quote(1, payload="x" * 500))] * 10))
        assert line == accepted + 1


async def test_no_lines_are_fine(site: Site) -> None:
    answer = await site.post("/v1/events", raw=b"", content_type=NDJSON)
    assert (answer.status, answer.json) == (202, {"accepted": 0, "ids": []})


async def test_a_batch_does_not_hold_up_others(site: Site) -> None:
    batch = asyncio.create_task(
        site.post("/v1/events", raw=lines(*[quote(1)] * 2_000), content_type=NDJSON),
    )
    answered = 0
    while not batch.done():
        assert (await site.get("/healthz")).status == 200
        answered += 1
    assert (await batch).status == 202
    assert answered >= 3


# --- CloudEvents ------------------------------------------------------------------------------------------------------


def cloudevent(**more: Any) -> dict[str, Any]:
    return {"specversion": "1.0", "id": "1", "source": "/here", "type": "quote", **more}


async def test_a_cloudevent_is_taken(site: Site) -> None:
    await subscribe(site, "symbol = 'OTE' AND price > 8")
    event = cloudevent(
        symbol="OTE", traceparent="00-1", data={"price": 9, "nested": {"price": 1}, "note": "x"}, subject="s"
    )
    assert (await site.post("/v1/events", event, content_type=CE)).status == 202
    (found,) = await deliveries(site, 1)
    assert found["attributes"] == {"symbol": "OTE", "price": 9}
    assert found["payload"] == event["data"]
    assert found["headers"]["ce-traceparent"] == "00-1"
    (back,) = await deliveries(site, 1, headers={"Accept": CE})
    for key in ("specversion", "id", "source", "type", "data", "symbol", "traceparent", "subject"):
        assert back[key] == event[key]
    assert back["cursor"] == found["cursor"]
    assert back["eventid"] == found["event_id"]


async def test_a_cloudevent_with_the_same_source_and_id_is_the_same(site: Site) -> None:
    answers = [await site.post("/v1/events", cloudevent(), content_type=CE) for _ in range(2)]
    other = await site.post("/v1/events", cloudevent(source="/there"), content_type=CE)
    assert [answer.status for answer in (*answers, other)] == [202, 200, 202]


async def test_cloudevents_of_a_long_source_are_told_apart(site: Site) -> None:
    """The id was cut off with the end of the two: all events of such a source were one."""
    source = "/" + "s" * 1_000
    answers = [await site.post("/v1/events", cloudevent(source=source, id=id_), content_type=CE) for id_ in "aba"]
    assert [answer.status for answer in answers] == [202, 202, 200]
    assert answers[0].json == answers[2].json != answers[1].json


@pytest.mark.parametrize(("one", "other"), [(("a b", "c"), ("a", "b c")), (("ab", "c"), ("a", "bc"))])
async def test_where_the_source_ends_matters(site: Site, one: tuple[str, str], other: tuple[str, str]) -> None:
    for source, id_ in (one, other):
        assert (await site.post("/v1/events", cloudevent(source=source, id=id_), content_type=CE)).status == 202


async def test_a_native_event_is_written_as_a_cloudevent(site: Site) -> None:
    await subscribe(site)
    await site.post("/v1/events", {"attributes": {"symbol": "OTE", "price": 8.5}})
    await site.post("/v1/events", {"attributes": {"symbol": "OTE", "price": 8.5}, "payload_base64": "AAEC"})
    bare, raw = await deliveries(site, 2, headers={"Accept": "application/cloudevents-batch+json"})
    assert bare["data"] == {"symbol": "OTE", "price": 8.5}
    assert (bare["type"], bare["source"]) == ("peerd.event", "urn:peerd:peer:00000001")
    assert (raw["data_base64"], raw["symbol"], raw["price"]) == ("AAEC", "OTE", "8.5")


@pytest.mark.parametrize("time", ["2026-01-01T00:00:00Z", "2026-01-01T01:00:00.123456789+01:00"])
async def test_the_time_of_a_cloudevent_comes_back_as_it_was(site: Site, time: str) -> None:
    await subscribe(site)
    assert (await site.post("/v1/events", cloudevent(time=time), content_type=CE)).status == 202
    (back,) = await deliveries(site, 1, headers={"Accept": CE})
    assert back["time"] == time


async def test_what_data_shows_is_not_written_again(site: Site) -> None:
    await subscribe(site)
    event = {"attributes": {"symbol": "OTE", "price": 8.5}}
    for payload in ({"price": 8.5, "symbol": "OTE"}, {"price": 9, "symbol": ["OTE"]}, [8.5], "OTE"):
        await site.post("/v1/events", {**event, "payload": payload})
    same, others, *rest = await deliveries(site, 4, headers={"Accept": CE})
    assert same["data"] == {"price": 8.5, "symbol": "OTE"}
    assert not {"price", "symbol"} & set(same)
    for each in (others, *rest):
        assert (each["symbol"], each["price"]) == ("OTE", "8.5")


async def test_what_the_format_owns_is_not_the_publishers(site: Site) -> None:
    attributes = [{"name": name, "type": "string"} for name in ("data", "subject")]
    assert (await site.post("/v1/schema", {"attributes": attributes})).status == 200
    await subscribe(site)
    headers = {"specversion": "9", "data": "x", "datacontenttype": "x", "time": "notatime", "id": "", "type": "t"}
    event = {"attributes": {"data": "x", "subject": ""}, "headers": {f"ce-{k}": v for k, v in headers.items()}}
    answer = await site.post("/v1/events", {**event, "payload_base64": "AAEC"})
    (found,) = await deliveries(site, 1)
    (back,) = await deliveries(site, 1, headers={"Accept": CE})
    assert (back["specversion"], back["data_base64"]) == ("1.0", "AAEC")
    assert not {"data", "datacontenttype", "subject"} & set(back)
    assert (back["id"], back["time"], back["type"]) == (answer.json["id"], found["published_at"], "t")


async def test_extensions_of_the_publisher_stay_where_ours_have_the_same_name(site: Site) -> None:
    """`sequence` is a well-known extension of others, too."""
    assert (await site.post("/v1/schema", {"attributes": [{"name": "publisher", "type": "string"}]})).status == 200
    await subscribe(site)
    given = {"sequence": "0042", "cursor": "c", "publisher": "Springer"}
    await site.post("/v1/events", cloudevent(**given, data=1), content_type=CE)
    found = await site.get("/v1/subscriptions/mine/deliveries")
    answer = await site.get("/v1/subscriptions/mine/deliveries", headers={"Accept": CE})
    ((delivery,), (back,)) = found.json["deliveries"], answer.json
    assert {name: back[name] for name in given} == given
    assert (back["eventid"], back["hops"], back["subscriptionid"]) == (delivery["event_id"], delivery["hops"], "mine")
    assert answer.headers["Peerd-Cursor"] == delivery["cursor"]


async def test_a_batch_of_cloudevents(site: Site) -> None:
    batch = [cloudevent(id="a"), cloudevent(id="b"), cloudevent(id="c", price="x"), cloudevent(id="d")]
    answer = await site.post("/v1/events", batch[:2], content_type="application/cloudevents-batch+json")
    assert (answer.status, answer.json["accepted"]) == (202, 2)
    answer = await site.post("/v1/events", batch, content_type="application/cloudevents-batch+json")
    assert (answer.slug, answer.json["line"], answer.json["accepted"]) == ("invalid-event", 3, 2)


@pytest.mark.parametrize(
    "event",
    [
        {},
        [],
        cloudevent(specversion="2.0"),
        cloudevent(id=""),
        cloudevent(source=1),
        cloudevent(price=[1]),
        cloudevent(Bad=1),
        cloudevent(data={"price": "x"}),
        cloudevent(data=1, data_base64="AAAA"),
        cloudevent(subject=5),
        cloudevent(time="notatime"),
        cloudevent(time="2026-01-01T00:00:00"),
    ],
    ids=lambda value: repr(value)[:60],
)
async def test_wrong_cloudevents_are_422(site: Site, event: Any) -> None:
    answer = await site.post("/v1/events", event, content_type=CE)
    assert (answer.status, answer.slug) == (422, "invalid-event")
