"""`peerd overlays`: every overlay, every parameter, and where its default comes from."""

import json
from typing import Annotated, Literal

import msgspec
import pytest

from peerd import registry
from protocols.overlay import parameter
from tests.cli.running import peerd


class Config(msgspec.Struct, frozen=True):
    mode: Annotated[Literal["tree", "graph"], parameter("how [peers] are linked", "paper, section 3")] = "tree"
    fan_out: Annotated[int, parameter("children of a node", "a guess", ge=2, le=20)] = 4
    share: Annotated[float, parameter("of the budget", "paper, Table 1", le=1.0)] = 0.5
    plain: bool = False


@pytest.fixture
def two_overlays(monkeypatch: pytest.MonkeyPatch) -> None:
    made_up = msgspec.structs.replace(
        registry.kind("broadcast"),
        name="tree",
        summary="[a] tree",
        config=Config,
        complete=lambda config: False,
        profiles={"paper": {"fan_out": 8, "share": 0.25}},
    )
    known = registry.kinds()
    monkeypatch.setattr(registry, "kinds", lambda: [*known, made_up])


def test_every_overlay_and_parameter_is_listed_with_its_source() -> None:
    result = peerd("overlays", "--json")
    assert (result.exit_code, result.stderr) == (0, "")
    found = {each["name"]: each for each in json.loads(result.stdout)["overlays"]}
    assert list(found) == list(registry.NAMES)
    assert [name for name, each in found.items() if each["default"]] == [registry.DEFAULT]
    for kind in registry.kinds():
        parameters = found[kind.name]["parameters"]
        assert [each["name"] for each in parameters] == list(kind.config.__struct_fields__)
        assert {each["name"]: each["default"] for each in parameters} == msgspec.to_builtins(kind.config())
        assert all(each["description"] and each["source"] for each in parameters)


@pytest.mark.usefixtures("two_overlays")
def test_json_tells_types_bounds_choices_and_profiles() -> None:
    tree = json.loads(peerd("overlays", "--json").stdout)["overlays"][-1]
    assert (tree["summary"], tree["complete"]) == ("[a] tree", False)
    assert tree["profiles"] == {"paper": {"fan_out": 8, "share": 0.25}}
    keys = ("name", "type", "default", "min", "max", "choices", "description", "source")
    assert [tuple(each[key] for key in keys) for each in tree["parameters"]] == [
        ("mode", "choice", "tree", None, None, ["graph", "tree"], "how [peers] are linked", "paper, section 3"),
        ("fan_out", "int", 4, 2, 20, None, "children of a node", "a guess"),
        ("share", "float", 0.5, None, 1.0, None, "of the budget", "paper, Table 1"),
        ("plain", "bool", False, None, None, None, "", ""),
    ]


@pytest.mark.usefixtures("two_overlays")
def test_the_same_to_read() -> None:
    result = peerd("overlays")
    assert (result.exit_code, result.stderr) == (0, "")
    lines = [" ".join(line.split()) for line in result.stdout.splitlines()]
    assert "rtree (default): distributed R-tree: parents hold the bounding boxes of their children" in lines
    tree = lines[lines.index("tree: [a] tree") + 1 :]
    assert tree[0].startswith("some owed events may not arrive; participants in a peer: at most ")
    assert tree[1:] == [
        "parameter default bounds what it is where the default comes from",
        "mode tree graph, tree how [peers] are linked paper, section 3",
        "fan_out 4 2 to 20 children of a node a guess",
        "share 0.5 up to 1 of the budget paper, Table 1",
        "plain False",
        "profile=paper: fan_out=8 share=0.25",
        "",
    ]
