"""Every test of conformance runs for every overlay that the registry knows, present and future."""

import pytest

from peerd.registry import KINDS

FORGED = "what a neighbour has forged about third participants stays in gossip for longer than the bound"
KNOWN_FAULTS = {
    "test_random_messages_from_anybody[sub2sub-1]": FORGED,
    "test_random_messages_from_neighbours[sub2sub-1]": FORGED,
    "test_random_messages_from_neighbours[sub2sub-3]": FORGED,
}
"""Tests that show a fault which is not mended yet. They have to fail: whoever mends it takes its line out."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        reason = KNOWN_FAULTS.get(item.name)
        if reason is not None:
            item.add_marker(pytest.mark.xfail(reason=reason, strict=True))


@pytest.fixture(params=list(KINDS))
def overlay(request: pytest.FixtureRequest) -> str:
    name = request.param
    assert isinstance(name, str)
    return name
