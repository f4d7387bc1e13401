"""Whether the analytics can be tested at all."""

import pytest

from tests.analytics.support import SETTINGS


def test_pyspark_is_installed() -> None:
    pytest.importorskip("pyspark", reason="the analytics are NOT TESTED: pip install -e '.[analytics]'")
    from analytics.session import SETTINGS as OURS

    assert not set(SETTINGS) & set(OURS), "tests change speed, never results"
