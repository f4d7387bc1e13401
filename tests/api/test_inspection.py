"""The peer seen from outside."""

from pathlib import Path
from typing import Any

import pytest

from peerd.api import problems, routes
from tests.support.http import Site
from tests.support.waiting import until

FIELDS = (
    "id name swarm overlay parameters schema schema_version listen http version uptime_s ready settled_ms participants"
)


async def test_the_peer_tells_about_itself(site: Site) -> None:
    shown = (await site.get("/v1/peer")).json
    assert set(FIELDS.split()) <= set(shown)
    assert (shown["id"], shown["overlay"], shown["ready"]) == ("00000001", "broadcast", True)
    assert shown["schema"]["attributes"][2] == {
        "name": "price",
        "type": "float",
        "min": 0.0,
        "max": 20.0,
        "precision": 0.01,
    }
    assert shown["http"] == site.servers[0].address


async def test_links_and_topology(sites: Site) -> None:
    await until(lambda: all(len(p.service.links().links.get("random", ())) == 2 for p in sites.peers))
    links = (await sites.get("/v1/links")).json["links"]
    assert {link["peer"] for link in links["random"]} == {"00000002", "00000003"}
    whole = (await sites.get("/v1/topology")).json
    assert (len(whole["nodes"]), len(whole["links"]), whole["complete"]) == (3, 6, True)
    part = (await sites.get("/v1/topology?limit=2")).json
    assert (len(part["nodes"]), part["complete"]) == (2, False)
    for limit in ("0", "x", "2001", "-1", "1.5"):
        assert (await sites.get(f"/v1/topology?limit={limit}")).slug == "invalid-parameter"


async def test_the_schema_is_shown_and_appended_to(sites: Site) -> None:
    assert (await sites.get("/v1/schema")).json["version"] == 5
    answer = await sites.post("/v1/schema", {"attributes": {"volume": {"type": "int", "min": 0, "max": 9}}})
    assert (answer.status, answer.json["version"]) == (200, 6)
    await until(lambda: sites.peers[2].service.schema.version == 6)
    assert (await sites.get("/v1/schema", to=2)).json == answer.json
    assert (await sites.get("/v1/peer", to=2)).json["schema_version"] == 6


@pytest.mark.parametrize(
    "document",
    [{}, [], {"attributes": 1}, {"attributes": [1]}, {"attributes": []}, {"attributes": {"price": {"type": "int"}}}],
    ids=repr,
)
async def test_wrong_attributes_are_422(site: Site, document: Any) -> None:
    assert (await site.post("/v1/schema", document)).slug == "invalid-schema"


async def test_health_and_readiness() -> None:
    async with Site(join=False) as site:
        assert (await site.get("/healthz")).json == {"status": "ok"}
        answer = await site.get("/readyz")
        assert (answer.status, answer.slug) == (503, "not-joined")
        site.swarm.join(site.peers[0])
        await site.swarm.ready()
        assert (await site.get("/readyz")).json == {"ready": True}
        assert (await site.ask("HEAD", "/healthz")).status == 200


async def test_metrics(site: Site) -> None:
    answer = await site.get("/metrics")
    assert answer.body == b"peerd_up 1\n"
    assert answer.headers["Content-Type"].startswith("text/plain")


async def test_unknown_paths_and_methods(site: Site) -> None:
    for path in ("/nothing", "/v1", "/v1/subscriptions/", "/v1/subscriptions/a/b", "//", "/%00"):
        answer = await site.get(path)
        assert (answer.status, answer.slug) == (404, "not-found"), path
    for method, path in (("PATCH", "/v1/peer"), ("DELETE", "/v1/events"), ("POST", "/healthz"), ("OPTIONS", "/")):
        answer = await site.ask(method, path)
        assert (answer.status, answer.slug) == (405, "method-not-allowed")
        assert answer.headers["Allow"]


# --- the description --------------------------------------------------------------------------------------------------


async def test_the_description_names_every_path_and_problem(site: Site) -> None:
    answer = await site.get("/openapi.json")
    document = answer.json
    assert document["openapi"] == "3.1.0"
    for operation in routes.OPERATIONS:
        described = document["paths"][operation.path][operation.method.lower()]
        documented = {int(status) for status in described["responses"]}
        statuses = {problems.PROBLEMS[slug].status for slug in (*operation.problems, *routes.EVERYWHERE)}
        assert documented == statuses | set(operation.answers)
        for status in documented - set(operation.answers):
            assert list(described["responses"][str(status)]["content"]) == ["application/problem+json"]


async def test_every_reference_of_the_description_leads_somewhere(site: Site) -> None:
    document = (await site.get("/openapi.json")).json
    names = document["components"]["schemas"]

    def walk(node: Any) -> None:
        if isinstance(node, dict):
            reference = node.get("$ref")
            if reference is not None:
                assert reference.removeprefix("#/components/schemas/") in names
            for inner in node.values():
                walk(inner)
        elif isinstance(node, list):
            for inner in node:
                walk(inner)

    walk(document)
    assert {"NewEvent", "Delivery", "Problem", "WsSubscribe", "WsOk"} <= set(names)


def test_every_problem_is_documented_somewhere() -> None:
    used = {slug for operation in routes.OPERATIONS for slug in operation.problems} | set(routes.EVERYWHERE)
    elsewhere = {"not-found", "method-not-allowed", "invalid-message"}
    assert used | elsewhere == set(problems.PROBLEMS)


def test_the_page_of_problems_is_in_step() -> None:
    page = Path(__file__).parents[2] / "docs" / "problems.md"
    assert page.read_text() == problems.page(), "write it anew: python -c 'from peerd.api.problems import page; …'"
