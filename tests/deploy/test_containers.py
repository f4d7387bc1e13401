"""The testbed for real: 20 peers in containers under load, a real Prometheus, and things that go wrong.

The tests follow each other on one testbed. They need a Docker engine; where none answers they are skipped, loudly.
"""

import os
from collections.abc import Iterator

import pytest
import yaml

from deploy.containers import Containers, ask, run
from deploy.grafana.boards import BOARDS
from peerd import registry
from tests.deploy.containers import PEERD_IMAGE, SERVICES, engine, images, project, until
from tests.deploy.support import DEPLOY

pytestmark = [
    pytest.mark.slow,
    pytest.mark.timeout(900),
]

PEERS = 20


@pytest.fixture(scope="module")
def ready() -> None:
    engine()
    images()


@pytest.fixture(scope="module")
def testbed(ready: None) -> Iterator[Containers]:
    found = project(
        "peerdtest",
        PEERS=str(PEERS - 1),
        OVERLAY=registry.DEFAULT,
        START_WITHIN_S="3",
        RATE="10",
        HEALTH_INTERVAL="10s",
    )
    try:
        outcome = found.up(*SERVICES)
        assert outcome.returncode == 0, outcome.stderr + found.compose("logs", "preflight", "seed").stdout
        yield found
    finally:
        found.down()


def test_all_peers_join_and_prometheus_finds_them(testbed: Containers) -> None:
    until(lambda: testbed.value("swarm:peers_ready:sum") == PEERS, "all peers to stand", 240)
    until(lambda: testbed.workload()["peers"] == PEERS, "all peers to take part", 120)
    until(lambda: testbed.workload()["published"] > 0, "events", 60)
    assert testbed.value("count(peerd_info)") == PEERS


def test_a_client_reaches_the_published_port(testbed: Containers) -> None:
    shown = ask(f"http://127.0.0.1:{testbed.ports['HTTP']}/v1/peer")
    assert shown["ready"]
    assert shown["overlay"] == registry.DEFAULT


def test_containers_are_healthy_and_limited(testbed: Containers) -> None:
    def healthy() -> bool:
        found = testbed.containers("--filter", "label=com.docker.compose.service=peer")
        return len(found) == PEERS - 1 and all(each["State"]["Health"]["Status"] == "healthy" for each in found)

    until(healthy, "all peers to be healthy", 120)
    for each in testbed.containers("--filter", "label=com.docker.compose.service=peer"):
        assert each["Config"]["User"] == "peerd"
        assert each["HostConfig"]["Memory"] > 0
        assert each["HostConfig"]["NanoCpus"] > 0
        assert each["HostConfig"]["RestartPolicy"] == {"Name": "on-failure", "MaximumRetryCount": 3}
        assert each["RestartCount"] == 0


def test_nothing_owed_is_missing_whatever_happens(testbed: Containers) -> None:
    """Peers are killed, stopped, paused and cut off while events flow; what is owed arrives, and the swarm heals."""
    before = testbed.workload()
    chaos = ("fleet", "chaos", "--driver=http://workload:6490", "--times=4", "--pause=1", "--for=8", "--count=2")
    outcome = testbed.compose("--profile", "chaos", "run", "--rm", "-T", "chaos", *chaos, seconds=600)
    assert outcome.returncode == 0, outcome.stderr
    assert "has not converged" not in outcome.stderr + outcome.stdout
    healed = testbed.workload()
    assert {kind: healed["faults"].get(kind, 0) for kind in ("kill", "stop", "pause", "cut")} == dict.fromkeys(
        ("kill", "stop", "pause", "cut"), 2
    )
    assert healed["faults"].get("found", 0) == 0
    assert not healed["at_risk"]
    assert healed["peers"] == PEERS
    since = healed["published"]
    until(lambda: testbed.workload()["published"] > since + 350, "events after healing to be settled", 120)
    after = testbed.workload()
    assert after["expected_deliveries"] > before["expected_deliveries"]
    assert after["missing_deliveries"] == 0
    assert after["spurious_deliveries"] == 0
    assert after["at_risk_deliveries"] > 0


def test_every_panel_has_data(testbed: Containers) -> None:
    instance = testbed.query("peerd_info")[0]["metric"]["instance"]
    empty = {
        f"{board.title} / {panel.title}: {query.expr}"
        for board in BOARDS
        for row in board.rows
        if row.overlay in ("", registry.DEFAULT)
        for panel in row.panels
        for query in panel.queries
        if not testbed.query(query.expr.replace("$peer", instance))
    }
    assert empty == set()


def test_every_rule_is_evaluated_and_every_record_has_data(testbed: Containers) -> None:
    answer = ask(f"http://127.0.0.1:{testbed.ports['PROMETHEUS']}/api/v1/rules")
    found = [rule for group in answer["data"]["groups"] for rule in group["rules"]]
    assert {rule["name"]: rule["health"] for rule in found if rule["health"] != "ok"} == {}
    rules = yaml.safe_load((DEPLOY / "prometheus/rules.yml").read_text())
    records = [rule["record"] for group in rules["groups"] for rule in group["rules"] if "record" in rule]
    assert len(found) == sum(len(group["rules"]) for group in rules["groups"])
    quiet = {"swarm:dropped:rate1m", "swarm:control:rate1m"}  # a swarm in which nothing is dropped has no such series
    assert [name for name in records if name not in quiet and not testbed.query(name)] == []
    firing = {
        alert["metric"]["alertname"] for alert in testbed.query('ALERTS{alertstate="firing", severity="critical"}')
    }
    assert firing == set()


def test_logs_of_all_peers_are_on_the_volume(testbed: Containers) -> None:
    volume = f"{testbed.project}_logs:/var/log/peerd:ro"
    found = "cd /var/log/peerd && echo */run=testbed/peer=*"
    listed = run("docker", "run", "--rm", "-v", volume, "--entrypoint", "sh", PEERD_IMAGE, "-c", found).stdout.split()
    hosts = {path.split("/")[0] for path in listed}
    assert {"seed", "workload"} < hosts  # the driver writes its faults there
    assert len(hosts) == len(listed) == PEERS + 1


def test_it_is_gone_within_a_minute(testbed: Containers) -> None:
    assert testbed.down() < 60
    assert testbed.left() == []


# --- What goes wrong before it begins ---------------------------------------------------------------------------------


def test_a_wrong_overlay_stops_everything_with_one_line(ready: None) -> None:
    wrong = project("peerdwrong", PEERS="2", OVERLAY="nonsense")
    try:
        outcome = wrong.up(*SERVICES)
        assert outcome.returncode != 0
        said = wrong.compose("logs", "preflight").stdout
        assert "there is no overlay 'nonsense'" in said
        assert "Traceback" not in said
        states = {each["Config"]["Labels"]["com.docker.compose.service"]: each["State"] for each in wrong.containers()}
        assert states["preflight"]["ExitCode"] == 2
        assert not [name for name, state in states.items() if state["Running"] and name in ("seed", "peer")]
    finally:
        wrong.down()


@pytest.fixture
def container(ready: None) -> Iterator[str]:
    name = f"peerdone{os.getpid()}"
    yield name
    run("docker", "rm", "-f", "-v", name)


def _logs(name: str) -> str:
    outcome = run("docker", "logs", name)
    return outcome.stdout + outcome.stderr


def test_a_peer_with_a_wrong_setting_is_not_started_again(container: str) -> None:
    words = ("--restart", "on-failure:3", "-e", "FINAL_CODE=2", "-e", "PEERD_OVERLAY=nonsense", PEERD_IMAGE)
    assert run("docker", "run", "-d", "--name", container, *words).returncode == 0
    assert run("docker", "wait", container).stdout.strip() == "0"
    assert _logs(container).count("there is no overlay 'nonsense'") == 1
    shown = run("docker", "inspect", "-f", "{{.RestartCount}} {{.State.Status}}", container).stdout.strip()
    assert shown == "0 exited"


def test_a_peer_that_cannot_reach_its_seed_keeps_trying_and_says_so(container: str) -> None:
    words = ("-e", "PEERD_JOIN=127.0.0.1:9", PEERD_IMAGE)
    assert run("docker", "run", "-d", "--name", container, *words).returncode == 0
    until(lambda: "trying again" in _logs(container), "the peer to say so", 60)
    assert run("docker", "inspect", "-f", "{{.State.Running}}", container).stdout.strip() == "true"
    assert run("docker", "stop", "-t", "20", container).returncode == 0
    assert run("docker", "inspect", "-f", "{{.State.ExitCode}}", container).stdout.strip() == "0"


def test_a_full_volume_is_reported(container: str) -> None:
    full = "/var/log/peerd:size=16k,uid=6470"
    words = ("--tmpfs", full, "-e", "PEERD_LOG_DIR=/var/log/peerd", PEERD_IMAGE)
    assert run("docker", "run", "-d", "--name", container, *words).returncode == 0
    until(lambda: "No space left on device" in _logs(container), "the peer to say so", 90)
    assert run("docker", "inspect", "-f", "{{.State.Running}}", container).stdout.strip() == "true"
