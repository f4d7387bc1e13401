"""Prometheus: its own tool reads the configuration and runs the tests of the rules."""

import yaml

from deploy.containers import run
from tests.deploy.support import DEPLOY, promtool

PROMETHEUS = DEPLOY / "prometheus"


def test_the_configuration_is_valid() -> None:
    outcome = run(promtool(), "check", "config", PROMETHEUS / "prometheus.yml")
    assert outcome.returncode == 0, outcome.stderr


def test_the_rules_do_what_their_tests_say() -> None:
    outcome = run(promtool(), "test", "rules", PROMETHEUS / "rules_test.yml")
    assert outcome.returncode == 0, outcome.stdout + outcome.stderr


def test_every_alert_is_tested_to_fire_and_not_to_fire() -> None:
    rules = yaml.safe_load((PROMETHEUS / "rules.yml").read_text())
    alerts = {rule["alert"] for group in rules["groups"] for rule in group["rules"] if "alert" in rule}
    tests = yaml.safe_load((PROMETHEUS / "rules_test.yml").read_text())["tests"]
    tried = [
        (each["alertname"], bool(each["exp_alerts"])) for test in tests for each in test.get("alert_rule_test", ())
    ]
    assert {name for name, fires in tried if fires} == alerts
    assert {name for name, fires in tried if not fires} == alerts


def test_every_alert_says_what_to_do() -> None:
    rules = yaml.safe_load((PROMETHEUS / "rules.yml").read_text())
    for group in rules["groups"]:
        for rule in group["rules"]:
            if "alert" in rule:
                assert rule["labels"]["severity"] in ("warning", "critical")
                assert len(rule["annotations"]["description"]) > 20
