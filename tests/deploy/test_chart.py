"""The Helm chart: rendered by Helm's own code, its manifests checked against the schemas of Kubernetes."""

import re
from typing import Any

import pytest
import yaml

from peerd import config, registry
from tests.deploy.support import DEPLOY

CHART = DEPLOY / "helm" / "peerd"
KUBERNETES = ("1.25", "1.31")
"""The oldest that the chart says it takes, and a late one."""
EVERYTHING: dict[str, Any] = {
    "replicas": 5,
    "swarm": "quotes",
    "overlay": "broadcast",
    "parameters": {"links": 4},
    "schema": '[attributes.symbol]\ntype = "string"\n',
    "environment": {"PEERD_NET_IDLE_S": "30"},
    "auth": {"existingSecret": "peerd-token"},
    "logs": {"enabled": True, "detail": "full"},
    "persistence": {"storageClassName": "fast"},
    "serviceMonitor": {"enabled": True, "labels": {"release": "prometheus"}},
    "networkPolicy": {"clients": [{"namespaceSelector": {"matchLabels": {"team": "quotes"}}}]},
    "imagePullSecrets": [{"name": "registry"}],
    "nodeSelector": {"disk": "ssd"},
    "tolerations": [{"key": "peers", "operator": "Exists"}],
    "podAnnotations": {"a": "b"},
    "podLabels": {"c": "d"},
}
VALUES: dict[str, dict[str, Any]] = {
    "defaults": {},
    "everything": EVERYTHING,
    "nothing kept": {"persistence": {"enabled": False}, "podDisruptionBudget": {"enabled": False}},
    "no policy": {"networkPolicy": {"enabled": False}},
}


def rendered(values: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The chart's manifests, by kind and name."""
    helm = pytest.importorskip("helm_python", reason="NOT CHECKED: Helm's library cannot be had here")
    with helm.Chart.load(CHART) as chart:
        files = chart.render(values, name="quotes", namespace="market")
    documents = [
        document
        for name, text in files.items()
        if name.endswith(".yaml")
        for document in yaml.safe_load_all(text)
        if document
    ]
    return {f"{each['kind']}/{each['metadata']['name']}": each for each in documents}


def environment(manifests: dict[str, dict[str, Any]]) -> dict[str, Any]:
    (container,) = manifests["StatefulSet/quotes-peerd"]["spec"]["template"]["spec"]["containers"]
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in container["env"]}


@pytest.mark.parametrize("version", KUBERNETES)
@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_manifests_are_what_kubernetes_takes(values: dict[str, Any], version: str) -> None:
    validate = pytest.importorskip("kubernetes_validate").validate
    for manifest in rendered(values).values():
        if manifest["kind"] != "ServiceMonitor":  # not of Kubernetes itself
            validate(manifest, version, strict=True)


def test_peers_find_each_other_by_a_name_for_all_that_start_together() -> None:
    manifests = rendered({})
    peers = manifests["Service/quotes-peerd-peers"]["spec"]
    assert peers["clusterIP"] == "None"
    assert peers["publishNotReadyAddresses"]
    set_ = manifests["StatefulSet/quotes-peerd"]["spec"]
    assert set_["podManagementPolicy"] == "Parallel"
    assert set_["serviceName"] == "quotes-peerd-peers"
    assert set_["selector"]["matchLabels"].items() <= set_["template"]["metadata"]["labels"].items()
    assert peers["selector"].items() <= set_["template"]["metadata"]["labels"].items()
    assert environment(manifests)["PEERD_JOIN"] == "quotes-peerd-peers:6470"
    assert environment(manifests)["PEERD_BOOTSTRAP"] == "20"


@pytest.mark.parametrize("values", VALUES.values(), ids=VALUES)
def test_a_peer_takes_the_settings_that_it_is_given(values: dict[str, Any]) -> None:
    given = {name: value for name, value in environment(rendered(values)).items() if isinstance(value, str)}
    given = {name: value.replace("$(POD_IP)", "10.1.2.3") for name, value in given.items()}
    settings = config.load({}, given)
    assert settings.join == ("quotes-peerd-peers:6470",)
    assert settings.advertise == "10.1.2.3:6470"
    assert settings.parameters == {key: str(value) for key, value in values.get("parameters", {}).items()}
    assert "quotes-peerd.market.svc" in settings.api.hosts


def test_nobody_but_peers_reaches_the_peers_port() -> None:
    (among_peers, clients) = rendered({})["NetworkPolicy/quotes-peerd"]["spec"]["ingress"]
    assert {port["port"] for port in among_peers["ports"]} == {"peers", "http"}
    assert [port["port"] for port in clients["ports"]] == ["http"]


def test_the_token_reaches_prometheus_too() -> None:
    manifests = rendered(EVERYTHING)
    assert environment(manifests)["PEERD_API_TOKEN"] == {"secretKeyRef": {"name": "peerd-token", "key": "token"}}
    (endpoint,) = manifests["ServiceMonitor/quotes-peerd"]["spec"]["endpoints"]
    assert endpoint["authorization"]["credentials"] == {"name": "peerd-token", "key": "token"}


def test_health_is_asked_for_where_it_is_answered() -> None:
    (container,) = rendered({})["StatefulSet/quotes-peerd"]["spec"]["template"]["spec"]["containers"]
    assert container["livenessProbe"]["httpGet"] == {"path": "/healthz", "port": "http"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "http"}
    assert container["startupProbe"]["failureThreshold"] * container["startupProbe"]["periodSeconds"] > 60


@pytest.mark.parametrize(
    "wrong",
    [
        {"replicas": 0},
        {"replica": 3},
        {"overlay": "nonsense"},
        {"logs": {"detail": "chatty"}},
        {"persistence": {"size": "much"}},
        {"environment": {"lower": "1"}},
        {"serviceMonitor": {"interval": "often"}},
    ],
    ids=str,
)
def test_wrong_values_are_refused(wrong: dict[str, Any]) -> None:
    helm = pytest.importorskip("helm_python", reason="NOT CHECKED: Helm's library cannot be had here")
    with pytest.raises(helm.HelmError):
        rendered(wrong)


def test_helm_finds_nothing_to_complain_about() -> None:
    helm = pytest.importorskip("helm_python", reason="NOT CHECKED: Helm's library cannot be had here")
    assert helm.lint(CHART, EVERYTHING, strict=True)["errors"] == []


def test_the_schema_knows_every_overlay_and_every_value() -> None:
    schema = yaml.safe_load((CHART / "values.schema.json").read_text())["properties"]
    assert set(registry.NAMES) <= set(schema["overlay"]["enum"])
    assert set(yaml.safe_load((CHART / "values.yaml").read_text())) == set(schema) - {"global"}


def test_the_chart_has_the_version_of_the_program() -> None:
    from peerd import __version__

    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    assert chart["version"] == chart["appVersion"] == re.sub(r"\+.*", "", __version__)
