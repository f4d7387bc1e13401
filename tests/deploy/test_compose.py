"""The Compose file, read as text: what holds whoever runs it."""

import re
import shutil
from typing import Any

import pytest
import yaml

from deploy.containers import run
from peerd import config
from tests.deploy.support import DEPLOY, ROOT

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
VARIABLES = dict(re.findall(r"^(\w+)=(.*)$", (ROOT / ".env").read_text(), re.MULTILINE))


def filled(text: str) -> str:
    return re.sub(r"\$\{(\w+)\}", lambda found: VARIABLES[found[1]], text)


def test_every_variable_has_a_default_and_every_default_a_use() -> None:
    used = set(re.findall(r"\$\{(\w+)\}", (ROOT / "docker-compose.yml").read_text()))
    assert used == {name for name in VARIABLES if not name.startswith("COMPOSE_")}


def test_two_hundred_peers() -> None:
    assert int(filled(SERVICES["peer"]["deploy"]["replicas"])) + 1 == 200


@pytest.mark.parametrize("command", [["docker", "compose"], ["docker-compose"]], ids=" ".join)
def test_compose_itself_takes_it(command: list[str]) -> None:
    if shutil.which(command[0]) is None or run(*command, "version").returncode:
        pytest.skip(f"NOT CHECKED: {' '.join(command)} is not here")
    outcome = run(*command, "--profile", "chaos", "--profile", "analytics", "config")
    assert outcome.returncode == 0, outcome.stderr
    shown = yaml.safe_load(outcome.stdout)
    assert set(shown["services"]) == set(SERVICES)


@pytest.mark.parametrize("command", [["docker", "compose"], ["docker-compose"]], ids=" ".join)
def test_one_copy_of_the_code_is_only_read(command: list[str]) -> None:
    if shutil.which(command[0]) is None or run(*command, "version").returncode:
        pytest.skip(f"NOT CHECKED: {' '.join(command)} is not here")
    outcome = run(*command, "-f", "docker-compose.yml", "-f", "deploy/one-copy.yml", "config")
    assert outcome.returncode == 0, outcome.stderr
    services = yaml.safe_load(outcome.stdout)["services"]
    for name in ("seed", "peer", "workload"):
        kept = len(SERVICES[name]["volumes"])
        assert len(services[name]["volumes"]) == kept + 2, name
        assert str(services[name]["volumes"]).count("/usr") == 1
        assert sum(":ro" in str(each) or "'read_only': True" in str(each) for each in services[name]["volumes"]) == 2


def test_every_service_is_limited() -> None:
    for name, service in SERVICES.items():
        assert "mem_limit" in service, name
    for name in ("seed", "peer", "workload"):
        assert "cpus" in SERVICES[name]


def test_failures_are_tried_again_a_few_times_at_most() -> None:
    for name, service in SERVICES.items():
        once = name in ("preflight", "analytics")
        assert service["restart"] == ("no" if once else "on-failure:3"), name


def test_health_checks_start_no_interpreter() -> None:
    for name in ("seed", "peer", "workload"):
        kind, program, *_ = SERVICES[name]["healthcheck"]["test"]
        assert (kind, program) == ("CMD", "/usr/local/bin/busybox")
    (check,) = re.findall(r"CMD (\[.*readyz\"\])", (DEPLOY / "Dockerfile").read_text())
    assert yaml.safe_load(check)[0] == "/usr/local/bin/busybox"


def test_nothing_is_reached_from_other_machines() -> None:
    for service in SERVICES.values():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ()))


@pytest.mark.parametrize("name", ["seed", "peer"])
def test_a_peer_takes_its_settings(name: str) -> None:
    given = {key: filled(str(value)) for key, value in SERVICES[name]["environment"].items()}
    settings = config.load({}, given)
    assert settings.log_detail == "full"
    assert settings.join == (() if name == "seed" else ("seed:6470",))


def test_only_chaos_holds_the_engines_socket() -> None:
    holders = [name for name, service in SERVICES.items() if "docker.sock" in str(service.get("volumes"))]
    assert holders == ["chaos"]
    assert SERVICES["chaos"]["profiles"] == ["chaos"]
    assert SERVICES["analytics"]["profiles"] == ["analytics"]


def test_prometheus_looks_for_services_that_there_are() -> None:
    scrapes = yaml.safe_load((DEPLOY / "prometheus/prometheus.yml").read_text())["scrape_configs"]
    names = [name for scrape in scrapes for found in scrape.get("dns_sd_configs", ()) for name in found["names"]]
    assert set(names) == {"seed", "peer", "workload"} <= set(SERVICES)
