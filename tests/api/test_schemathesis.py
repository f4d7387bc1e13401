"""The API against its own description: whatever is sent, no answer is a 500 and none is undocumented.

The description is taken from the living server, and so are the operations. Each gets requests that fit it and requests
that do not. A peer runs in a thread of its own, as the tool talks HTTP the blocking way.
"""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from peerd.api import ApiConfig, routes
from peerd.service import ServiceConfig
from tests.support.http import Site

schemathesis = pytest.importorskip("schemathesis")

pytestmark = [
    pytest.mark.slow,
    # warnings of the tool about itself and its own dependencies
    pytest.mark.filterwarnings("default"),
]

EXAMPLES = 100
GENERATED = [operation for operation in routes.OPERATIONS if operation.name != "connect"]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A living peer with one subscription, `mine`, in a thread."""
    started = threading.Event()
    found: dict[str, Any] = {}

    async def serve() -> None:
        config = ApiConfig(rate=1e6, burst=1e6, client_rate=1e6, client_burst=1e6)
        limits = ServiceConfig(publish_rate=1e6, publish_burst=1e6, topology_s=0.1)
        async with Site(peers=2, config=config, service=limits) as site:
            await site.put("/v1/subscriptions/mine", {"filter": "TRUE"})
            found["url"], found["loop"], found["stop"] = (
                site.servers[0].url,
                asyncio.get_running_loop(),
                asyncio.Event(),
            )
            started.set()
            await found["stop"].wait()

    thread = threading.Thread(target=asyncio.run, args=(serve(),))
    thread.start()
    assert started.wait(10)
    yield str(found["url"])
    found["loop"].call_soon_threadsafe(found["stop"].set)
    thread.join(20)
    assert not thread.is_alive()


@pytest.fixture(scope="module")
def api(url: str) -> Any:
    return schemathesis.openapi.from_url(f"{url}/openapi.json", wait_for_schema=5)


def checks() -> list[Any]:
    from schemathesis import checks as known

    return [
        known.not_a_server_error,
        known.status_code_conformance,
        known.content_type_conformance,
        known.response_schema_conformance,
        known.response_headers_conformance,
    ]


def soften(case: Any, known: bool) -> None:
    """Ask for what exists every other time, and never wait."""
    if known and case.path_parameters:
        case.path_parameters["id"] = "mine"
    wait = case.query.get("wait") if isinstance(case.query, dict) else None
    if isinstance(wait, (int, float)) and wait > 0:
        case.query["wait"] = 0.01


@pytest.mark.parametrize("mode", ["positive", "negative"])
@pytest.mark.parametrize("operation", GENERATED, ids=[operation.name for operation in GENERATED])
def test_no_answer_is_a_failure_or_undocumented(api: Any, operation: routes.Operation, mode: str) -> None:
    described = api[operation.path][operation.method]
    takes_input = bool(operation.parameters or operation.body)
    if mode == "negative" and not takes_input:
        pytest.skip("there is nothing to get wrong")

    @settings(
        max_examples=EXAMPLES if takes_input else 3,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=described.as_strategy(schemathesis.GenerationMode(mode)), known=st.booleans())
    def run(case: Any, known: bool) -> None:
        soften(case, known and operation.method != "DELETE")
        response = case.call(timeout=10)
        case.validate_response(response, checks=checks())

    run()


@pytest.mark.parametrize("path", sorted({operation.path for operation in routes.OPERATIONS}))
def test_other_methods_are_405_with_what_is_allowed(url: str, path: str) -> None:
    import requests

    allowed = {operation.method for operation in routes.OPERATIONS if operation.path == path}
    for method in ("GET", "POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"):
        if method not in allowed:
            response = requests.request(method, url + path.replace("{id}", "mine"), timeout=10)
            assert response.status_code == 405
            assert response.headers["Content-Type"] == "application/problem+json"
            assert allowed <= set(response.headers["Allow"].split(","))
