"""A site of one peer, and one of three."""

from collections.abc import AsyncIterator

import pytest

from tests.support.http import Site


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with Site() as made:
        yield made


@pytest.fixture
async def sites() -> AsyncIterator[Site]:
    async with Site(peers=3) as made:
        yield made
