"""Every test of conformance runs for every overlay that the registry knows, present and future."""

import pytest

from peerd.registry import NAMES


@pytest.fixture(params=list(NAMES))
def overlay(request: pytest.FixtureRequest) -> str:
    name = request.param
    assert isinstance(name, str)
    return name
