"""XPath subscriptions and XML events from outside: through HTTP on two real peers, with curl as with any client."""

import json
import shutil
import subprocess
from pathlib import Path
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


pytestmark = pytest.mark.skipif(shutil.which("curl") is None, reason="there is no curl")


def event(payload: object, content_type: str = "application/xml") -> dict[str, Any]:
    return {"attributes": {"symbol": "OTE"}, "payload": payload, "content_type": content_type}


def test_an_xpath_subscription_and_an_xml_event(daemon: StartDaemon) -> None:  # noqa: F811
    first = daemon("--overlay", "semantic").up()
    second = daemon("--join", first.listen).up()
    status, made = curl(f"{second.url}/v1/subscriptions", {"xpath": XPATH})
    assert (status, made["state"], made["xpath"], made["filter"]) == (201, "active", XPATH, "")

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


LAUGHS = "<!DOCTYPE l [<!ENTITY a 'ha'>" + "".join(
    f"<!ENTITY {name} '{f'&{former};' * 10}'>" for former, name in zip("abcdefgh", "bcdefghi")
)
HOSTILE: dict[str, Any] = {
    "laughs": LAUGHS + "]><l>&i;</l>",
    "outside": "<!DOCTYPE a SYSTEM 'file:///etc/passwd'><a/>",
    "too deep": "<a>" * 65 + "</a>" * 65,
    "far too deep": "<a>" * 9_000,
    "too many": "<r>" + "<a/>" * 4_096 + "</r>",
    "many attributes": "<r " + " ".join(f"a{number}=''" for number in range(5_000)) + "/>",
    "not text": {"a": 1},
    "nothing": None,
    "NUL": "<a>\0</a>",
    "half a pair": "<a>\ud800</a>",
}
DEEP = "<a>" * 62 + "<b>x</b>" * 4_000 + "</a>" * 62
"""Within all limits, and as much work as there can be."""


def test_hostile_documents_and_patterns_do_a_peer_no_harm(daemon: StartDaemon, tmp_path: Path) -> None:  # noqa: F811
    peer = daemon("--overlay", "semantic").up()
    events, subscriptions = f"{peer.url}/v1/events", f"{peer.url}/v1/subscriptions"
    _, everything = curl(subscriptions, {"xpath": "//*"})
    _, deep = curl(subscriptions, {"xpath": f"//b[.='x']{'//b' * 29}"})
    for name, payload in HOSTILE.items():
        status, problem = curl(events, event(payload))
        assert (status, problem["type"]) in [
            (422, "urn:peerd:problem:invalid-event"),
            (400, "urn:peerd:problem:not-json"),  # what is not even JSON in Unicode
        ], name
    raw = tmp_path / "raw"
    raw.write_bytes(b'{"attributes": {}, "content_type": "text/xml", "payload": "<a>\xff</a>"}')
    assert curl(events, None, "-H", "Content-Type: application/json", "--data-binary", f"@{raw}")[0] == 400
    for xpath in ("/a" + "[a" * 500, "/a" + "[a" * 340 + "]" * 340, "//a" * 40, "/a" * 600, "/a[.='\ud800']"):
        status, problem = curl(subscriptions, {"xpath": xpath})
        assert status in (400, 422), xpath
    assert curl(events, event("<a>&notxml", "text/plain"))[0] == 202  # not a document: nobody looks into it
    for payload in (DEEP, "<last/>"):
        assert curl(events, event(payload))[0] == 202
    _, found = curl(f"{subscriptions}/{everything['id']}/deliveries?wait=20")
    assert [delivery["payload"] for delivery in found["deliveries"]] == [DEEP, "<last/>"]
    assert curl(f"{subscriptions}/{deep['id']}/deliveries")[1]["deliveries"] == []
