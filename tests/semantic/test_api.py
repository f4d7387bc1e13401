"""XPath subscriptions and XML events from outside: through HTTP on two real peers, with curl as with any client."""

import json
import shutil
import subprocess
from typing import Any

import pytest

from tests.cli.conftest import StartDaemon, cleanup, daemon  # noqa: F401 (fixtures)

XPATH = "/stock[symbol='OTE']//price"
XML = "<stock><symbol>OTE</symbol><quote><price>8.40</price></quote></stock>"


def curl(url: str, body: object = None, *options: str) -> tuple[int, Any]:
    """Status and JSON of a request."""
    command = ["curl", "-sS", "-w", "\n%{http_code}", *options, url]
    if body is not None:
        command += ["-H", "Content-Type: application/json", "-d", json.dumps(body)]
    answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout
    text, _, status = answer.rpartition("\n")
    return int(status), json.loads(text) if text else None


@pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")
def test_an_xpath_subscription_and_an_xml_event(daemon: StartDaemon) -> None:  # noqa: F811
    first = daemon("--overlay", "semantic").up()
    second = daemon("--join", first.listen).up()
    status, made = curl(f"{second.url}/v1/subscriptions", {"xpath": XPATH})
    assert (status, made["state"], made["xpath"], made["filter"]) == (201, "active", XPATH, "")

    def event(xml: str) -> dict[str, Any]:
        return {"attributes": {"symbol": "OTE"}, "payload": xml, "content_type": "application/xml"}

    assert curl(f"{first.url}/v1/events", event(XML))[0] == 202
    assert curl(f"{first.url}/v1/events", event("<stock><symbol>PPC</symbol><price/></stock>"))[0] == 202
    read = f"{second.url}/v1/subscriptions/{made['id']}/deliveries?wait=20"
    _, found = curl(read)
    assert [delivery["payload"] for delivery in found["deliveries"]] == [XML]

    for unsound in ("<stock>", "<!DOCTYPE s [<!ENTITY a 'b'>]><s>&a;</s>", "<a>" * 100 + "</a>" * 100):
        status, problem = curl(f"{first.url}/v1/events", event(unsound))
        assert (status, problem["type"]) == (422, "urn:peerd:problem:invalid-event")
    status, problem = curl(f"{first.url}/v1/subscriptions", {"xpath": "/stock[last()]"})
    assert (status, problem["type"], problem["position"]) == (422, "urn:peerd:problem:invalid-filter", 11)
    status, problem = curl(f"{first.url}/v1/subscriptions", {"xpath": "/a", "filter": "TRUE"})
    assert (status, problem["type"]) == (422, "urn:peerd:problem:invalid-subscription")
    status, changed = curl(f"{second.url}/v1/subscriptions/{made['id']}", {"xpath": "//symbol"}, "-X", "PUT")
    assert (status, changed["xpath"], changed["state"]) == (200, "//symbol", "active")
