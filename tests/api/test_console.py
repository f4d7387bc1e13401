"""The console: a page that holds nothing of the peer's and asks the API for all of it."""

from base64 import b64encode
from hashlib import sha256
from re import findall

from peerd.api.routes import OPERATIONS
from tests.support.http import Site


async def page(site: Site) -> tuple[str, str]:
    answer = await site.get("/")
    assert (answer.status, answer.headers["Content-Type"]) == (200, "text/html; charset=utf-8")
    return answer.body.decode(), answer.headers["Content-Security-Policy"]


async def test_only_its_own_script_runs_and_it_talks_to_its_own_peer_only(site: Site) -> None:
    text, policy = await page(site)
    [script] = findall(r"(?s)<script>(.*?)</script>", text)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}';" in policy
    assert "connect-src 'self';" in policy
    assert policy.startswith("default-src 'none';")
    assert findall(r"(?i)https?://|<script\s|\son[a-z]+=|innerHTML|insertAdjacent|document\.write|\beval\b", text) == []


async def test_it_holds_nothing_of_the_peer(site: Site) -> None:
    before, _ = await page(site)
    await site.put("/v1/subscriptions/mine", {"filter": "symbol = '<script>'"})
    after, _ = await page(site)
    assert before == after
    assert "00000001" not in after


async def test_every_call_that_it_makes_is_one_of_the_api(site: Site) -> None:
    text, _ = await page(site)
    called = {path.split("?")[0].replace("${subscription.id}", "{id}") for path in findall(r"[\"`](/v1/[^\"`]*)", text)}
    called = {path.replace("${id}", "{id}") for path in called}
    assert len(called) >= 6
    assert called <= {operation.path for operation in OPERATIONS}
